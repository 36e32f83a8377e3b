"""Quota and nodes in one decision: a flavor will do only if there is quota of it and the plan fits on its nodes.
Otherwise the next flavor is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from extender.core.demands import Demands, left_short
from extender.core.flavoring import Flavoring, PartKey, is_hidden, of_gang, of_job, part_of
from extender.core.planner import Changed, Plan, Planner
from extender.core.quota_words import shortage, uncovered
from extender.core.reasons import Reason
from extender.core.shape import Demand, Shape
from extender.core.shortfalls import Lack, Scope, Shortfalls
from extender.core.state import State
from extender.core.workload import Workload
from policies.model import Pod, Selection
from policies.model.queues import ClusterQueue
from policies.quota.choices import Choices
from policies.quota.flavors import Assignment, Fit, PodSetRequest
from policies.steps import Steps

_TRIES = 16
"""Assignments of flavors that are tried for one workload in one pass."""
_ASSIGN = 10
"""What it costs to assign flavors, in units of ``policies.steps``."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Why it cannot be admitted, what that rests on, and whom it concerns."""

    lack: Lack
    reason: Reason
    scope: Scope


@dataclass(frozen=True, slots=True)
class _Part:
    """Pods that get their flavors together."""

    name: str
    part: PartKey
    selection: Selection


class QuotaPlans:
    """``plan`` for a workload that belongs to a ClusterQueue."""

    def __init__(self, state: State, planner: Planner, demands: Demands) -> None:
        self._state = state
        self._planner = planner
        self._demands = demands

    def plan(
        self, workload: Workload, demand: Demand, shape: Shape, queue: ClusterQueue, shortfalls: Shortfalls
    ) -> Steps[Plan | Refused | Changed]:
        """A plan whose quota is there, with the flavors noted on the workload; or why there is none."""
        asked = _Asked(workload, demand.pods)
        picture, former = self._state.quotas.queues.picture, workload.flavoring
        if text := uncovered(queue, asked.podsets(demand.pods)):
            return Refused(Lack.QUOTA, Reason("NoQuota", text), queue.name)
        choices = Choices(picture.tree, picture.flavors, queue, self._closed(workload, queue, asked))
        must = _must(workload, demand.pods, shape)
        pods, lack, found = demand.pods, Lack.QUOTA, choices.first(asked.podsets(demand.pods))
        for _ in range(_TRIES):
            if found.fit is not Fit.FITS:
                pods, found = _fewer(demand.pods, must, lambda some: choices.first(asked.podsets(some)))
            yield _ASSIGN
            if found.fit is not Fit.FITS:
                break
            workload.flavor(dict(former) | self._flavorings(workload, queue, asked, found))
            tried = yield from self._try(workload, demand, pods, shape, shortfalls)
            if not isinstance(tried, Reason):
                return tried if self._is_there(queue, asked, tried, found) else Changed()
            workload.flavor(former)
            lack, found = Lack.ROOM, choices.after(found, asked.podsets(pods), tried.message)
        text = shortage(self._state.quotas, queue, asked.podsets(must), choices.refused)
        reason = Reason("NoQuota", text) if lack is Lack.QUOTA else Reason("NoRoom", text)
        return Refused(lack, reason, queue.name)

    def least(self, workload: Workload, demand: Demand, shape: Shape) -> Steps[tuple[Demand, Shape]]:
        """Of what it asks for, no more than has to start together."""
        asked, shape = yield from self._demands.flavored(workload, _must(workload, demand.pods, shape), shape)
        return Demand(demand.version, None, asked, shape), shape

    def level(self, workload: Workload, demand: Demand, queue: ClusterQueue) -> Assignment:
        """What it would get by quota alone."""
        asked, picture = _Asked(workload, demand.pods), self._state.quotas.queues.picture
        choices = Choices(picture.tree, picture.flavors, queue, self._closed(workload, queue, asked))
        return choices.first(asked.podsets(demand.pods))

    def _try(
        self, workload: Workload, demand: Demand, pods: Sequence[Pod], shape: Shape, shortfalls: Shortfalls
    ) -> Steps[Plan | Reason | Changed]:
        """With the flavors that are on it now."""
        asked, flavored = yield from self._demands.flavored(workload, pods, shape)
        if workload.version != demand.version:
            return Changed()
        if (known := shortfalls.get(flavored)) is not None:
            return known
        found = yield from self._planner.plan(workload, Demand(demand.version, None, asked, flavored), flavored)
        if isinstance(found, Reason):
            shortfalls.put(Lack.ROOM, flavored, found)
        return found

    def _is_there(self, queue: ClusterQueue, asked: _Asked, plan: Plan | Changed, found: Assignment) -> bool:
        """Others may have used quota while the plan was made."""
        if isinstance(plan, Changed):
            return True
        usage: dict[tuple[str, str], int] = {}
        for one in asked.podsets(plan.pods):
            for resource, flavor in found.flavors[one.name].items():
                usage[flavor, resource] = usage.get((flavor, resource), 0) + one.requests.get(resource, 0)
        return not self._state.quotas.queues.picture.tree.lacks(queue.name, usage)

    def _flavorings(
        self, workload: Workload, queue: ClusterQueue, asked: _Asked, found: Assignment
    ) -> dict[PartKey, Flavoring]:
        known = self._state.quotas.queues.picture.flavors
        chosen = ((one.part, found.flavors.get(one.name, {})) for one in asked.parts)
        if workload.job is not None:
            return {part: of_job(known, some) for part, some in chosen}
        return {part: of_gang(queue, known, some) for part, some in chosen}

    def _closed(self, workload: Workload, queue: ClusterQueue, asked: _Asked) -> dict[tuple[str, str], str]:
        """Flavors that a part cannot have, whatever quota there is of them."""
        closed: dict[tuple[str, str], str] = {}
        known = self._state.quotas.queues.picture.flavors
        for one in asked.parts:
            held = workload.flavoring.get(one.part) if workload.job is not None else None
            for group in queue.groups:
                for name, _ in group.flavors:
                    if held is not None and held.flavors and name not in held.flavors.values():
                        closed[one.name, name] = f"it was started with flavor {', '.join({*held.flavors.values()})}"
                    elif workload.job is None and name in known and (first := is_hidden(queue, known, name)):
                        closed[one.name, name] = f"its nodes count as those of flavor {first}, which comes first"
        return closed


class _Asked:
    """What a workload asks quota for, part by part."""

    def __init__(self, workload: Workload, pods: Sequence[Pod]) -> None:
        self._of: dict[object, _Part] = {}
        by_part: dict[PartKey, _Part] = {}
        of_job, stands_for = workload.job is not None, workload.members.stands_for
        for pod in pods:
            raw = stands_for(pod.identity)
            part = part_of(raw, of_job=of_job)
            if (known := by_part.get(part)) is None:
                name = raw.series if of_job else str(len(by_part))
                known = by_part[part] = _Part(name, part, raw.selection)
            self._of[pod.identity] = known
        self.parts = tuple(by_part.values())

    def podsets(self, pods: Sequence[Pod]) -> list[PodSetRequest]:
        """For these of them."""
        total: dict[str, dict[str, int]] = {}
        for pod in pods:
            some = total.setdefault(self._of[pod.identity].name, {})
            for name, much in pod.requests:
                some[name] = some.get(name, 0) + much
        return [PodSetRequest(one.name, 1, total[one.name], one.selection) for one in self.parts if one.name in total]


def _must(workload: Workload, pods: Sequence[Pod], shape: Shape) -> Sequence[Pod]:
    """Those that have to start together."""
    return left_short(workload, pods, ()) or pods[: shape.needed]


def _fewer(
    pods: Sequence[Pod], must: Sequence[Pod], assign: Callable[[Sequence[Pod]], Assignment]
) -> tuple[tuple[Pod, ...], Assignment]:
    """As many as there is quota for, all of those among them that have to start together."""
    needed = {pod.uid for pod in must}
    others = [pod for pod in pods if pod.uid not in needed]

    def some(count: int) -> tuple[Pod, ...]:
        chosen = needed.union(pod.uid for pod in others[:count])
        return tuple(pod for pod in pods if pod.uid in chosen)

    best = assign(some(0))
    if best.fit is not Fit.FITS:
        return some(0), best
    least, most = 0, len(others)
    while least < most - 1:
        middle = (least + most) // 2
        found = assign(some(middle))
        if found.fit is Fit.FITS:
            least, best = middle, found
        else:
            most = middle
    return some(least), best
