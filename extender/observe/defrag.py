"""The answer of the API about which running workloads would have to move for a waiting gang."""

from __future__ import annotations

from extender.api.models import DefragView, MoveView, PodMove
from extender.core.preemption.defrag import Move, Moves, NoMoves
from extender.core.workload.workload import Workload

_HOUR_S = 3600.0


def defrag(gang: Workload, outcome: Moves | NoMoves) -> DefragView:
    """Return the moves for the gang, or why there are none."""
    namespace, name = gang.key
    if isinstance(outcome, NoMoves):
        return DefragView(namespace=namespace, name=name, why_not=outcome.why)
    pods = [PodMove(pod=pod, after=node) for pod, node in outcome.pods]
    return DefragView(namespace=namespace, name=name, moves=list(map(_view, outcome.moves)), pods=pods)


def _view(move: Move) -> MoveView:
    return MoveView(
        workload=str(move.workload.key),
        devices=move.devices,
        pods=[PodMove(pod=pod, before=before, after=after) for pod, before, after in move.pods],
        lost_s=round(move.lost_s),
        lost_device_hours=round(move.lost_device_s / _HOUR_S, 2),
        checkpointed=move.checkpointed,
    )
