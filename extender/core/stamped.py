"""After a restart: the release that the stamps on the members of a workload tell of."""

from __future__ import annotations

from collections import Counter

from extender.core.expected import moved_away
from extender.core.state import State
from extender.core.workload import Workload


def recover_release(state: State, workload: Workload, now: float) -> None:
    """Read the release from the stamps. One that broke off is told by how many slots it has bound: fewer than its
    quorum, or of a podset or role than that needs. What an earlier version stamped says no quorum: there it is whole
    unless the member that was to be bound last, whose UID names it, is there. What others were bound with is not ours;
    pods of its job that were bound with it and moved to another gang by an edit tell as much as its members.
    """
    members, podsets = workload.members, workload.podsets
    name = next((stamp.release for pod in workload.bound if (stamp := pod.own_stamp) is not None), "")
    pods = [*(member.pod for member in members), *moved_away(state, workload)]
    same = [(pod, pod.stamp) for pod in pods if pod.stamp is not None and pod.stamp.release == name]
    began = min((stamp.at for _, stamp in same if stamp.at), default=None)
    quorum = min((stamp.quorum for _, stamp in same if stamp.quorum), default=None)
    if quorum is None:
        whole = bool(same) and name not in members
    else:
        slots = {pod.identity: f"{pod.owner}{pod.series}" for pod, _ in same}
        of = Counter(slots.values())
        short = podsets is not None and podsets.short(lambda one: of[one.prefix], together=True) is not None
        roles = Counter(pod.group.role for pod in {pod.identity: pod for pod, _ in same}.values() if pod.group)
        whole = len(slots) >= quorum and not short and all(roles[role] >= least for role, least in workload.minima)
    complete = workload.whole or whole or any(stamp.complete for _, stamp in same)
    at = None if began is None else min(began + state.epoch, now)
    workload.release.recover(name, at, complete=complete)
