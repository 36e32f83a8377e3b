"""What a workload asks of the planner, worked out in steps: the slots that lack a node, and the shape they make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from operator import attrgetter
from typing import Any
from weakref import WeakValueDictionary

from extender.core.explain.problems import problem, too_many_shapes
from extender.core.ledger.state import State
from extender.core.reasons import Reason
from extender.core.workload.least import minima_of_podsets, role_of
from extender.core.workload.shape import Demand, Shape, part_of
from extender.core.workload.slots import lacking_roles
from extender.core.workload.workload import Workload
from policies.model import UNCONSTRAINED, Pod, SlotKey
from policies.placement.concern import concerned
from policies.placement.request import Sibling, asked_by, shape_of
from policies.placement.rules import is_bound_by_rules
from policies.steps import AT_ONCE, Steps, grouped, ordered


class Demands:
    """Workloads that ask for the same have the same shape, as one object."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._shapes: WeakValueDictionary[object, Shape] = WeakValueDictionary()

    def review(self) -> None:
        """To be called before a pass: who waits in a namespace whose pods others keep away by now has to ask anew."""
        state = self._state
        for tenants in (state.claims.tenants, state.singles.coming):
            if (repelled := tenants.take_repelled()) is None:
                continue
            for key in [key for key in state.waiting.keys if repelled(key.namespace)]:
                state.nudge(state.workloads[key])
                state.waiting.look_again(key)

    def ask(self, workload: Workload) -> Steps[None]:
        """Work out what it asks for: ``workload.asked``, which is None if it has changed meanwhile."""
        self._flavor(workload)
        members, version = workload.members, workload.version
        lacking, trouble = to_be_planned(workload, self._state)
        demand = Demand(version, trouble)
        workload.demand = demand
        if demand.trouble is not None:
            return
        found: list[Pod] = []
        for at in range(0, len(lacking), AT_ONCE):
            if at:
                yield AT_ONCE
                if workload.version != version:
                    return
            found += [workload.asking(members.stands_for(slot)) for slot in lacking[at : at + AT_ONCE]]
        found = [pod for pod in found if not pod.gates or not pod.foreign_gates]
        if workload.version != version or len(found) < workload.lacking:
            return
        asked = yield from ordered(found, attrgetter("rank"))
        roles = yield from grouped(asked, asked_by)
        if any(some[0].constraints is not UNCONSTRAINED for some in roles.values()):
            roles = yield from grouped(asked, shape_of)
        firsts = [some[0] for some in roles.values()]
        tied: tuple[object, ...] = ()
        if any(map(is_bound_by_rules, firsts)):
            beside = yield from ordered((yield from siblings(workload)), lambda one: (one[0].rank, one[1]))
            # The reason names others as they are called in its namespace.
            ranks = [pod.rank[:2] for pod in asked]
            yield AT_ONCE + len(ranks) // 4
            tied = (workload.key.namespace, *ranks, *((pod.rank, node) for pod, node in beside))
        related = concerned(firsts, self._state.claims.tenants) or concerned(firsts, self._state.singles.coming)
        tied = (*tied, *_ties(workload, asked, asked if related else ()))
        if workload.version != version:
            return
        trouble = too_many_shapes(roles, self._state)
        counts = tuple((role, len(some)) for role, some in roles.items())
        caps, kept = workload.retries.caps, tuple(workload.reserved)
        tied = (*tied, *self._parts(workload, asked))
        priority = workload.priority, workload.pods_priority
        shape = self._shape(workload.lacking, counts, caps, kept, tied, related, priority)
        workload.demand = Demand(version, trouble) if trouble else Demand(version, None, tuple(asked), shape)

    def _flavor(self, workload: Workload) -> None:
        """A gang that is half released is completed with the flavors of what is bound, which a restart knows, too. Who
        uses no quota is held to no flavor, but for a job that runs: what its pods are made of has that of its start."""
        quotas = self._state.quotas
        if workload.job is None and workload.release.partial_since is not None:
            workload.flavor(quotas.as_bound(workload))
        elif workload.flavoring and workload.key not in quotas.uses and not workload.admitted:
            workload.flavor({})

    def flavored(self, workload: Workload, pods: Sequence[Pod], shape: Shape) -> Steps[tuple[tuple[Pod, ...], Shape]]:
        """These pods of its demand, which has that shape, as they ask with the flavors that it is tried with."""
        stands_for = workload.members.stands_for
        asked = tuple((yield from asking(workload, [stands_for(pod.identity) for pod in pods])))
        roles = yield from grouped(asked, shape_of)
        counts = tuple((role, len(some)) for role, some in roles.items())
        # Its demand may have flavors, too, and is refused only when all that it may have were tried.
        content = (shape.caps, shape.kept, (*shape.tied, "flavored"), shape.related, shape.priority)
        return asked, self._shape(shape.needed, counts, *content)

    def _shape(self, *content: Any) -> Shape:
        if (shape := self._shapes.get(content)) is None:
            shape = self._shapes[content] = Shape(*content)
        return shape

    def _parts(self, workload: Workload, pods: Sequence[Pod]) -> tuple[object, ...]:
        """In a queue: how many get their flavors together, and which of them the same ones. That its pods are the same
        does not make it alike to one that needs no quota."""
        if self._state.quotas.queue_of(workload.key) is None:
            return ()
        of_job = workload.job is not None
        groups = Counter((part_of(pod, of_job=of_job), pod.podset_group) for pod in pods if of_job or pod.podset_group)
        broken = workload.release.partial_since is not None  # it is held to the flavors of what is bound
        return ("queue", broken, *groups.items())


def to_be_planned(workload: Workload, state: State) -> tuple[list[SlotKey], Reason | None]:
    """The slots that need a node, and what keeps them from being planned. Pods that others have brought into the gang
    of a started job may wait for something, or contradict its own: then those go on alone."""
    lacking, trouble = list(workload.members.slots.lacking), problem(workload, state)
    if trouble is None or not (maker := workload.maker):
        return lacking, trouble
    own = [slot for slot in lacking if workload.members.stands_for(slot).owner == maker]
    return (own, problem(workload, state, maker)) if own else (lacking, trouble)


def _ties(workload: Workload, asked: Sequence[Pod], related: Sequence[Pod]) -> tuple[object, ...]:
    """What else counts: how many of each podset have to start, and the labels by which other pods are concerned."""
    least = minima_of_podsets(workload) or _minima_of_roles(workload, asked)
    labels = (workload.key.namespace, *((pod.labels, pod.wave) for pod in related)) if related else ()
    return labels if least is None else (least, *labels)


def _minima_of_roles(workload: Workload, asked: Sequence[Pod]) -> tuple[object, ...] | None:
    """How many of each role lack a node, and which of those that ask are of which role."""
    if not workload.minima or workload.release.complete:
        return None
    return lacking_roles(workload.minima, workload.members.slots), tuple((role_of(pod), shape_of(pod)) for pod in asked)


def asking(workload: Workload, pods: Sequence[Pod]) -> Steps[list[Pod]]:
    """The members with what their PodGroup asks for."""
    asked: list[Pod] = []
    for at in range(0, len(pods), AT_ONCE):
        if at:
            yield AT_ONCE // 2
        asked += map(workload.asking, pods[at : at + AT_ONCE])
    return asked


def siblings(workload: Workload) -> Steps[list[Sibling]]:
    """The members that have a node or the promise of one, with what they ask for."""
    members = workload.members
    if not (members.placed or members.bound or members.slots.planned):
        return []
    placed = [(member.pod, member.node) for member in members.placed.values()]
    placed += members.slots.promises()
    placed += [(pod, pod.node) for pod in workload.bound if pod.node]
    asked = yield from asking(workload, [pod for pod, _ in placed])
    return [(pod, node) for pod, (_, node) in zip(asked, placed, strict=True)]
