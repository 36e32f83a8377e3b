"""The admission pass: walk the waiting gangs in policy order and promise a whole placement to each that fits."""

from __future__ import annotations

from collections import Counter

from extender.core.gang import Demand, Gang, Reason
from extender.core.problems import problem
from extender.core.roster import Stage
from extender.core.state import State
from extender.core.steering import Steering
from policies.chosen import Policies
from policies.model import Placement, Pod
from policies.placement import NoRoom, fits, place


class Queue:
    """Plans gangs. One pass looks at every waiting gang once; a gang without room does not block those behind it."""

    def __init__(self, state: State, policies: Policies, steering: Steering) -> None:
        self._state = state
        self._steering = steering
        self._policies = policies

    def run(self, now: float, *, recovering: bool = False) -> None:
        """One pass. ``recovering``: nominations found on the pods are taken as the plan where they still hold."""
        state = self._state
        gangs = [gang for key in state.waiting if (gang := state.gangs.get(key)) is not None]
        # A half-released gang goes first: it holds room, and only being completed ends that.
        gangs.sort(key=lambda gang: (gang.partial_since is None, self._policies.queue.order(gang)))
        hopeless: dict[object, NoRoom] = {}
        for gang in gangs:
            self._consider(gang, now, hopeless, recovering=recovering)

    def _consider(self, gang: Gang, now: float, hopeless: dict[object, NoRoom], *, recovering: bool) -> None:
        state = self._state
        if not any(name in state.schedulers for name in gang.roster.schedulers):
            return
        if gang.demand is None:
            gang.demand = self._demand(gang)
        demand = gang.demand
        if demand.trouble is not None:
            if not gang.whole:
                state.explain(gang, demand.trouble, now)
            return
        if now < gang.not_before or gang.releasing or len(demand.members) < demand.needed:
            return
        members = [gang.members[uid] for uid in demand.members]
        wanted = {pod.uid: pod.nominated_node for pod in members if pod.nominated_node}
        if recovering and len(wanted) == len(members) and fits(wanted, members, state.ledger.snapshot()):
            return self._promise(gang, members, wanted, now)
        return self._place(gang, demand, members, now, hopeless)

    def _demand(self, gang: Gang) -> Demand:
        state = self._state
        if (trouble := problem(gang, state.schedulers, state.unbound_claim)) is not None:
            return Demand(trouble)
        members = [pod for pod in gang.roster.unplaced() if not pod.foreign_gates]
        # What a gang that has its quorum still lacks is placed one by one.
        needed = 1 if gang.complete else max(1, (gang.min_member or 0) - gang.reached(Stage.PROMISED))
        shapes = Counter((pod.requests, pod.selection) for pod in members)
        shape = (needed, tuple(shapes.items()), tuple(gang.refused))
        return Demand(None, tuple(pod.uid for pod in members), needed, shape)

    def _place(
        self, gang: Gang, demand: Demand, members: list[Pod], now: float, hopeless: dict[object, NoRoom]
    ) -> None:
        state, shape = self._state, demand.shape
        verdict = hopeless.get(shape) if not gang.kept else None
        if verdict is None:
            for uid in gang.kept:
                state.ledger.release(f"kept:{uid}")
            beside = [*gang.placement.values(), *(pod.node for pod in gang.bound if pod.node)]
            found = place(members, demand.needed, state.ledger.snapshot(), tuple(gang.refused), beside, self._policies)
            if not isinstance(found, NoRoom):
                self._promise(gang, members, found.nodes, now)
            elif not gang.kept:
                hopeless[shape] = found
            self._keep_rest(gang)
            if not isinstance(found, NoRoom):
                return
            verdict = found
        if gang.whole:
            return
        message = f"{verdict.placed} of {verdict.needed} members fit at once: {verdict.explanation}"
        state.explain(gang, Reason("NoRoom", message), now)

    def _promise(self, gang: Gang, members: list[Pod], nodes: Placement, now: float) -> None:
        state = self._state
        if not nodes:
            return
        self._steering.start(gang, members, nodes, now)
        if not gang.whole:
            text = f"{len(nodes)} members have a node each; kube-scheduler is carrying it out"
            state.explain(gang, Reason("Placed", text, warning=False), now)
        if not gang.roster.lacks:
            state.waiting.pop(gang.key, None)

    def _keep_rest(self, gang: Gang) -> None:
        """A replacement that was placed uses up kept room of its node; what is left stays kept."""
        placed = list(gang.placement.values())
        for uid, kept in list(gang.kept.items()):
            if kept.node in placed:
                placed.remove(kept.node)
                del gang.kept[uid]
            else:
                self._state.ledger.charge(f"kept:{uid}", kept.node, kept.requests, assumed=True)
