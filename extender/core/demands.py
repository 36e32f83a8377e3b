"""What a gang asks of the planner, worked out in steps: which members lack a node, and the shape they make together."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakValueDictionary

from extender.core.gang import Demand, Gang
from extender.core.problems import problem, too_many_shapes
from extender.core.shape import Shape
from extender.core.state import State
from policies.model import Pod, Requests, Selection, Topology
from policies.placement.request import Sibling
from policies.placement.rules import is_bound_by_rules
from policies.steps import AT_ONCE, Steps, grouped, ordered


class Demands:
    """Gangs that ask for the same have the same shape, as one object."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._shapes: WeakValueDictionary[object, Shape] = WeakValueDictionary()

    def ask(self, gang: Gang) -> Steps[None]:
        """Work out what it asks for: ``gang.demand``, which is None if the gang has changed meanwhile."""
        state, roster = self._state, gang.roster
        pending = gang.demand = Demand(problem(gang, state))
        if pending.trouble is not None:
            return
        found: list[Pod] = []
        lacking = roster.lacking
        for at in range(0, len(lacking), AT_ONCE):
            if at:
                yield AT_ONCE
                if gang.demand is not pending:
                    return
            found += [pod for pod in map(roster.stands_for, lacking[at : at + AT_ONCE]) if not pod.foreign_gates]
        if len(found) < gang.lacking:
            return
        members = yield from ordered((yield from asking(gang, found)), _rank)
        roles = yield from grouped(members, shape_of)
        tied: tuple[object, ...] = ()
        if any(map(is_bound_by_rules, (some[0] for some in roles.values()))):
            beside = yield from ordered((yield from siblings(gang)), lambda one: (one[0].rank, one[1]))
            # The reason names others as they are called in its namespace.
            ranks = [pod.rank[:2] for pod in members]
            yield AT_ONCE + len(ranks) // 4
            tied = (gang.key.namespace, *ranks, *((pod.rank, node) for pod, node in beside))
        if gang.demand is not pending:
            return
        trouble = too_many_shapes(roles, state)
        counts = tuple((role, len(some)) for role, some in roles.items())
        content = (gang.lacking, counts, tuple(gang.refused), tuple(gang.kept), tied)
        if (shape := self._shapes.get(content)) is None:
            shape = self._shapes[content] = Shape(*content)
        gang.demand = Demand(trouble) if trouble else Demand(None, tuple(pod.uid for pod in members), shape)


def shape_of(pod: Pod) -> tuple[Requests, Selection, Topology]:
    """What it has in common with the members of its role."""
    return pod.requests, pod.selection, pod.topology


def _rank(pod: Pod) -> tuple[str, int, str, str]:
    return pod.rank


def asking(gang: Gang, pods: Sequence[Pod]) -> Steps[list[Pod]]:
    """The members with what their PodGroup asks for."""
    asked: list[Pod] = []
    for at in range(0, len(pods), AT_ONCE):
        if at:
            yield AT_ONCE // 2
        asked += map(gang.asking, pods[at : at + AT_ONCE])
    return asked


def siblings(gang: Gang) -> Steps[list[Sibling]]:
    """The members that have a node or the promise of one, with what they ask for."""
    placed = [(gang.members[uid], node) for uid, node in gang.placement.items() if uid in gang.members]
    placed += [(pod, pod.node) for pod in gang.bound if pod.node]
    asked = yield from asking(gang, [pod for pod, _ in placed])
    return [(pod, node) for pod, (_, node) in zip(asked, placed, strict=True)]
