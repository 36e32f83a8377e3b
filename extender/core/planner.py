"""Planning one gang: a promise of a whole placement, or the reason why there is none."""

from __future__ import annotations

from collections import Counter
from weakref import WeakValueDictionary

from extender.core.gang import Demand, Gang, Reason
from extender.core.problems import problem
from extender.core.roster import Stage
from extender.core.shape import Shape
from extender.core.state import State
from extender.core.steering import Steering
from policies.chosen import Policies
from policies.model import Placement, Pod
from policies.placement import NoRoom, fits, place

LOOK, TRY, SEAT = 2, 50, 4
"""What it costs to look at a gang, to try to place it, and to seat each member, in units of about 5 microseconds."""


class Planner:
    """``verdicts``: why gangs of a shape do not fit; the queue drops those that may be wrong by now.

    ``vain``: units spent on gangs that do not fit.
    """

    def __init__(self, state: State, policies: Policies, steering: Steering) -> None:
        self.verdicts: dict[Shape, Reason] = {}
        self.vain = 0
        self._state = state
        self._steering = steering
        self._policies = policies
        self._shapes: WeakValueDictionary[object, Shape] = WeakValueDictionary()

    def is_open(self, gang: Gang, now: float) -> bool:
        """Whether there may be anything to be found out about it."""
        demand = gang.demand
        if demand is None:
            return True
        return demand.shape is not None and now >= gang.not_before and demand.shape not in self.verdicts

    def plan(self, gang: Gang, now: float, *, recovering: bool = False) -> int:
        """Promise the gang its placement, or explain. Returns what it cost, in units."""
        state = self._state
        state.stale.pop(gang.key, None)
        if gang.releasing:
            return LOOK
        demand = gang.demand = gang.demand or self._demand(gang)
        if demand.trouble is not None and not gang.whole:
            state.explain(gang, demand.trouble, now)
        if demand.shape is None or now < gang.not_before:
            return LOOK
        members = [gang.members[uid] for uid in demand.members]
        wanted = {pod.uid: pod.nominated_node for pod in members if pod.nominated_node}
        if recovering and len(wanted) == len(members) and fits(wanted, members, state.ledger.snapshot()):
            self._promise(gang, members, wanted, now)
            return LOOK
        cost, verdict = LOOK, self.verdicts.get(demand.shape)
        if verdict is None:
            cost, verdict = TRY + SEAT * len(members), self._try(gang, demand.shape, members, now)
        if verdict is not None:
            self.vain += cost
            if not gang.whole:
                state.explain(gang, verdict, now)
        return cost

    def _demand(self, gang: Gang) -> Demand:
        state = self._state
        if not any(name in state.schedulers for name in gang.roster.schedulers):
            return Demand()
        if (trouble := problem(gang, state.schedulers, state.unbound_claim)) is not None:
            return Demand(trouble)
        members = [pod for pod in gang.roster.unplaced() if not pod.foreign_gates]
        # What a gang that has its quorum still lacks is placed one by one.
        needed = 1 if gang.complete else max(1, (gang.min_member or 0) - gang.reached(Stage.PROMISED))
        if len(members) < needed:
            return Demand()
        roles = Counter((pod.requests, pod.selection) for pod in members)
        content = (needed, tuple(roles.items()), tuple(gang.refused), tuple(gang.kept))
        if (shape := self._shapes.get(content)) is None:
            shape = self._shapes[content] = Shape(*content)
        return Demand(None, tuple(pod.uid for pod in members), shape)

    def _try(self, gang: Gang, shape: Shape, members: list[Pod], now: float) -> Reason | None:
        """Place it, or say why not."""
        state = self._state
        for uid in gang.kept:
            state.ledger.release(f"kept:{uid}")
        beside = [*gang.placement.values(), *(pod.node for pod in gang.bound if pod.node)]
        found = place(members, shape.needed, state.ledger.snapshot(), shape.refused, beside, self._policies)
        if not isinstance(found, NoRoom):
            self._promise(gang, members, found.nodes, now)
        self._keep_rest(gang)
        if not isinstance(found, NoRoom):
            return None
        reason = Reason("NoRoom", f"{found.placed} of {found.needed} members fit at once: {found.explanation}")
        self.verdicts[shape] = reason
        return reason

    def _promise(self, gang: Gang, members: list[Pod], nodes: Placement, now: float) -> None:
        state = self._state
        self._steering.start(gang, members, nodes, now)
        if not gang.whole:
            text = f"{len(nodes)} members have a node each; kube-scheduler is carrying it out"
            state.explain(gang, Reason("Placed", text, warning=False), now)
        state.review(gang)

    def _keep_rest(self, gang: Gang) -> None:
        """A replacement that was placed uses up kept room of its node; what is left stays kept."""
        placed = list(gang.placement.values())
        for uid, kept in list(gang.kept.items()):
            if kept.node in placed:
                placed.remove(kept.node)
                del gang.kept[uid]
            else:
                self._state.ledger.charge(f"kept:{uid}", kept.node, kept.requests, assumed=True)
