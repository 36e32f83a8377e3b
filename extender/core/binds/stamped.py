"""After a restart: the release that the stamps on the members of a workload tell of."""

from __future__ import annotations

from collections import Counter

from extender.core.gang.expected import moved_away
from extender.core.state import State
from extender.core.workload import Workload
from policies.model import Pod


def recover_release(state: State, workload: Workload, now: float) -> None:
    """Read the release from the stamps, and whether it was whole."""
    name = next((stamp.release for pod in workload.bound if (stamp := pod.own_stamp) is not None), "")
    stamps = [stamp for pod in _stamped(state, workload, name) if (stamp := pod.stamp) is not None]
    began = min((stamp.at for stamp in stamps if stamp.at), default=None)
    at = None if began is None else min(began + state.epoch, now)
    workload.release.recover(name, at, complete=workload.whole or was_whole(state, workload, name))


def was_whole(state: State, workload: Workload, release: str) -> bool:
    """Whether the stamps say that this release was bound as a whole, whatever is needed now.

    One that broke off is told by how many slots it has bound: fewer than its quorum, or of a podset or role than that
    needs. What an earlier version stamped says no quorum: there it is whole unless the member that was to be bound
    last, whose UID names it, is there.
    """
    podsets, pods = workload.podsets, _stamped(state, workload, release)
    stamps = [stamp for pod in pods if (stamp := pod.stamp) is not None]
    if any(stamp.complete for stamp in stamps):
        return True
    quorum = min((stamp.quorum for stamp in stamps if stamp.quorum), default=None)
    if quorum is None:
        return bool(pods) and release not in workload.members
    slots = {pod.identity: pod for pod in pods}
    of = Counter(f"{pod.owner}{pod.series}" for pod in slots.values())
    short = podsets is not None and podsets.short(lambda one: of[one.prefix], together=True) is not None
    roles = Counter(pod.group.role for pod in slots.values() if pod.group)
    return len(slots) >= quorum and not short and all(roles[role] >= least for role, least in workload.minima)


def _stamped(state: State, workload: Workload, release: str) -> list[Pod]:
    """Those bound with this release. What others were bound with is not ours; pods of its job that were bound with it
    and moved to another gang by an edit tell as much as its members.
    """
    pods = [*(member.pod for member in workload.members), *moved_away(state, workload)]
    return [pod for pod in pods if pod.stamp is not None and pod.stamp.release == release]
