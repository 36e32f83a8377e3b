"""Planning one gang: a promise of a whole placement, or the reason why there is none."""

from __future__ import annotations

from collections import Counter
from weakref import WeakValueDictionary

from extender.core.gang import Demand, Gang, kept_for
from extender.core.holders import Holders
from extender.core.problems import problem, running
from extender.core.reasons import Reason
from extender.core.shape import Shape
from extender.core.state import State
from extender.core.steering import Steering
from extender.core.turns import Turn
from policies.chosen import Policies
from policies.model import Placement, Pod
from policies.placement import NoRoom, Placed, fits, place
from policies.rules import is_bound_by_rules, keeps
from policies.words import counted

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
        self._holders = Holders(state)
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
        if demand.trouble is not None:
            self._explain(gang, demand.trouble, now)
        if demand.shape is None or now < gang.not_before:
            return LOOK
        if recovering and self._resume(gang, demand, now):
            return LOOK
        cost, verdict = LOOK, self.verdicts.get(demand.shape)
        if verdict is None:
            cost, verdict = TRY + SEAT * len(demand.members), self._try(gang, demand, demand.shape, now)
        if verdict is not None:
            self.vain += cost
            if verdict is not gang.reason and (gang.whole or not gang.seated):
                self._explain(gang, verdict, now)
        return cost

    def _explain(self, gang: Gang, why: Reason, now: float) -> None:
        """Why its members wait: all of them, or those beyond the quorum of a gang that runs."""
        if why.code == "NoRoom" and gang.refused and gang.words:
            text = f"kube-scheduler refused it, and says: {gang.words}; without those nodes, {why.message}"
            why = Reason("Refused", text)
        if why.code == "NoRoom" and gang.priority > 0:
            text = f"{why.message}; its priority is {gang.priority}, but Muster does not preempt running pods"
            why = Reason("NoRoom", text)
        if gang.whole and why.code != "OtherScheduler":
            gang.surplus = why
            why = running(gang)
        self._state.explain(gang, why, now)

    def _resume(self, gang: Gang, demand: Demand, now: float) -> bool:
        """Take the nominations of its members as the plan, where they fit and break no rule of the topology."""
        members = _asking(gang, demand)
        wanted = {pod.uid: pod.nominated_node for pod in members if pod.nominated_node}
        if len(wanted) < len(members):
            return False
        view = self._state.ledger.snapshot()
        everybody = [*gang.siblings, *((pod, wanted[pod.uid]) for pod in members)]
        if not fits(wanted, members, view) or not keeps(everybody, view):
            return False
        self._promise(gang, members, wanted, now)
        return True

    def _demand(self, gang: Gang) -> Demand:
        state = self._state
        if (trouble := problem(gang, state)) is not None:
            return Demand(trouble)
        members = [pod for pod in gang.roster.unplaced() if not pod.foreign_gates]
        if len(members) < gang.lacking:
            return Demand()
        asking = [gang.asking(pod) for pod in members]
        roles = Counter((pod.requests, pod.selection, pod.topology) for pod in asking)
        tied: tuple[object, ...] = ()
        if any(map(is_bound_by_rules, asking)):
            beside = sorted((pod.rank, node) for pod, node in gang.siblings)
            # The reason names others as they are called in its namespace.
            tied = (gang.key.namespace, *(pod.rank[:2] for pod in asking), *beside)
        content = (gang.lacking, tuple(roles.items()), tuple(gang.refused), tuple(gang.kept), tied)
        if (shape := self._shapes.get(content)) is None:
            shape = self._shapes[content] = Shape(*content)
        return Demand(None, tuple(pod.uid for pod in members), shape)

    def _try(self, gang: Gang, demand: Demand, shape: Shape, now: float) -> Reason | None:
        """Place it, or say why not."""
        state, members = self._state, _asking(gang, demand)
        for uid in gang.kept:
            state.ledger.release(kept_for(uid))
        view = state.ledger.snapshot()
        found = place(members, shape.needed, view, shape.refused, gang.siblings, self._policies)
        if isinstance(found, Placed):
            self._promise(gang, members, found.nodes, now)
        self._keep_rest(gang)
        if isinstance(found, Placed):
            return None
        why = self._why(found, gang.key.namespace)
        # The same words are the same object: most often nothing is new for those who have been told.
        self.verdicts[shape] = gang.reason if why == gang.reason else why
        return self.verdicts[shape]

    def _why(self, found: NoRoom, namespace: str) -> Reason:
        if found.unclear:
            return Reason("UnknownTopology", found.explanation)
        text = f"{found.placed} of {found.needed} members fit at once: "
        if found.miss is not None:
            text += f"{found.miss.text}{self._holders.told(found.miss, namespace)}; "
        return Reason("NoRoom", text + found.explanation)

    def _promise(self, gang: Gang, members: list[Pod], nodes: Placement, now: float) -> None:
        state = self._state
        self._steering.start(gang, members, nodes, now)
        if not gang.whole:
            state.turned(gang, Turn.PLANNED, now)
            text = f"{counted(len(nodes), 'member', 'has', 'have')} a node; {self._steering.outlook}"
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
                self._state.ledger.charge(kept_for(uid), kept.node, kept.requests, assumed=True)


def _asking(gang: Gang, demand: Demand) -> list[Pod]:
    return [gang.asking(gang.members[uid]) for uid in demand.members]
