"""Quota that is still counted for pods of the waiting workload itself."""

from __future__ import annotations

from collections.abc import Sequence

from extender.core.state import State
from extender.core.workload import Workload
from policies.model import Node, Pod
from policies.model.queues import FlavorResource
from policies.words import amount


def leaving_pods(state: State, workload: Workload) -> list[tuple[Pod, Node | None]]:
    """The pods of the workload that terminate and use quota, each with its node, which is None if that is deleted."""
    owners = [owner for owner, use in state.quotas.uses.of(workload.key).items() if not use.unseen]
    pods = [pod for owner in owners if isinstance(owner, str) and (pod := state.pods.get(owner)) is not None]
    return [(pod, state.claims.nodes.get(pod.node or "")) for pod in pods if pod.deleting]


def still_counted(state: State, workload: Workload, what: FlavorResource) -> str:
    """Say how much of it pods of the workload itself use, and why pods that terminate still count."""
    uses, leaving = state.quotas.uses.of(workload.key), leaving_pods(state, workload)
    of_leaving = sum(uses[pod.uid].usage.get(what, 0) for pod, _ in leaving)
    total = sum(use.usage.get(what, 0) for use in uses.values() if not use.unseen)
    text = f"; its own pods use {_bare(what[1], total - of_leaving)}" if total > of_leaving else ""
    if of_leaving:
        named = leaving_text(leaving)
        text += f"; {amount(what[1], of_leaving)} still {'counts' if of_leaving == 1 else 'count'} for {named}"
    return text


def leaving_text(pods: Sequence[tuple[Pod, Node | None]]) -> str:
    """Name them: ``"its own pod train-0, which terminates on deleted node n-1, and 2 more"``. There must be one."""
    (pod, node), more = pods[0], len(pods) - 1
    where = "deleted node" if node is None else "node" if node.ready else "silent node"
    return f"its own pod {pod.name}, which terminates on {where} {pod.node}" + (f", and {more} more" if more else "")


def _bare(resource: str, much: int) -> str:
    return amount(resource, much).removesuffix(f" {resource}")
