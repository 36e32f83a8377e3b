"""The least of a workload that has to start together: of each podset of a job, and of each role of a gang of pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from extender.core.workload.slots import lacking_roles
from extender.core.workload.workload import Workload
from policies.model import Pod
from policies.placement.request import shape_of


def minima_of_podsets(workload: Workload) -> tuple[object, ...] | None:
    """How many of each podset have to start together, where that is less than all and there are several."""
    job = workload.job
    podsets = workload.podsets.podsets if workload.podsets is not None and (job is None or job.plannable) else ()
    if len(podsets) < 2 or all(one.least == one.size for one in podsets):
        return None
    return tuple((one.name, one.size, one.minimum, shape_of(one.template)) for one in podsets)


def left_short(workload: Workload, pods: Sequence[Pod], nodes: Collection[str]) -> list[Pod]:
    """If these nodes, by UID, leave some podset or role with less than it needs: the least that has to start."""
    if workload.podsets is None:
        return _left_short_of_role(workload, pods, nodes)
    if minima_of_podsets(workload) is None:
        return []
    first: list[Pod] = []
    others: list[Pod] = []
    short = False
    for podset in workload.podsets.podsets:
        ours = [pod for pod in pods if pod.identity[0] == podset.prefix]
        first += ours[: podset.minimum]
        others += ours[podset.minimum :]
        short = short or sum(pod.uid in nodes for pod in ours) < podset.least
    # Its PodGroup may ask for more than its podsets do together.
    return _filled_up(workload, first, others) if short else []


def _left_short_of_role(workload: Workload, pods: Sequence[Pod], nodes: Collection[str]) -> list[Pod]:
    """The first of each role that lacks some, and the first of all others up to its minMember."""
    minima = () if workload.release.complete else workload.minima
    needed = dict(lacking_roles(minima, workload.members.slots))
    found = Counter(role_of(pod) for pod in pods if pod.uid in nodes)
    if all(found[role] >= count for role, count in needed.items()):
        return []
    left = Counter(needed)
    first: list[Pod] = []
    others: list[Pod] = []
    for pod in pods:
        (first if left[role_of(pod)] > 0 else others).append(pod)
        left[role_of(pod)] -= 1
    chosen = {pod.uid for pod in _filled_up(workload, first, others)}
    return [pod for pod in pods if pod.uid in chosen]


def to_complete(workload: Workload, pods: Sequence[Pod]) -> list[Pod]:
    """The first of these that a running gang needs to be whole again: of each role that lacks some, then of all."""
    left = Counter(dict(lacking_roles(workload.minima, workload.members.slots)))
    first: list[Pod] = []
    others: list[Pod] = []
    for pod in pods:
        (first if left[role_of(pod)] > 0 else others).append(pod)
        left[role_of(pod)] -= 1
    return [*first, *others[: max(0, workload.missing - len(first))]]


def _filled_up(workload: Workload, first: Sequence[Pod], others: Sequence[Pod]) -> list[Pod]:
    """These, and as many of the others as have to be placed with them at once."""
    return [*first, *others[: max(0, workload.lacking - len(first))]]


def role_of(pod: Pod) -> str:
    """Return the role that a pod names for itself, or an empty text."""
    return "" if pod.group is None else pod.group.role
