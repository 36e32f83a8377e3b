"""Members without which a gang of pods runs as well: beyond those that start together, in all and of each role."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from operator import attrgetter

from extender.core.ledger.state import State
from extender.core.workload.member import Stage
from extender.core.workload.workload import Workload
from policies.model import GroupKey, Pod, Victim

_ALL = ""
"""Stands for all roles together: no role has this name."""


def surplus_of(workload: Workload, going: Collection[str]) -> list[Pod]:
    """Those of the highest ranks, which may all go together and beside those that are ``going``. None of a job, one of
    Volcano too, which would count it as a failure, nor of a gang whose owner would make all of it anew."""
    made_by_job = workload.job is not None or (workload.podsets is not None and workload.group is not None)
    if made_by_job or workload.planned_minimum is None:
        return []
    left = _margins(workload, going)
    if left[_ALL] <= 0 or any(pod.group is not None and pod.group.restarts for pod in workload.bound):
        return []
    found = list[Pod]()
    for pod in sorted(workload.bound, key=attrgetter("rank"), reverse=True):
        parts = _parts_of(workload, pod)
        if pod.stamp is not None and pod.uid not in going and all(left[part] > 0 for part in parts):
            left.subtract(parts)
            found.append(pod)
    return found


def runs_without(workload: Workload, going: Collection[str]) -> bool:
    """Whether it runs as a whole when these pods have gone."""
    return all(margin >= 0 for margin in _margins(workload, going).values())


def gang_of(state: State, victim: Victim) -> GroupKey:
    """Whose pod it is, or all of it; of a pod of no gang, its own name."""
    pod = state.pods.get(victim.pod) if victim.pod else None
    return victim.key if pod is None or pod.group_key is None else pod.group_key


def _margins(workload: Workload, going: Collection[str]) -> Counter[str]:
    """How many more are there than have to be, when these have gone; of all, and of each role that has a minimum."""
    slots = workload.members.slots
    left = Counter({_ALL: slots.reached(Stage.BOUND) - (workload.planned_minimum or 0)})
    left.update({role: slots.of_role(Stage.BOUND, role) - least for role, least in workload.minima})
    for pod in workload.bound:
        if pod.uid in going:
            left.subtract(_parts_of(workload, pod))
    return left


def _parts_of(workload: Workload, pod: Pod) -> list[str]:
    role = workload.members.slots.roles.get(pod.identity)
    return [_ALL, role] if role is not None and role in dict(workload.minima) else [_ALL]
