"""Planning one gang: a promise of a whole placement, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Sequence

from extender.core.demands import Demands, asking, shape_of, siblings
from extender.core.gang import Demand, Gang, kept_for
from extender.core.holders import Holders
from extender.core.problems import running
from extender.core.promises import Promises
from extender.core.reasons import Reason
from extender.core.shape import Shape
from extender.core.state import State
from extender.core.steering import Steering
from extender.core.turns import Cause, Turn
from policies.chosen import Policies
from policies.model import Placement, Pod
from policies.placement.pinned import placing_pinned
from policies.placement.place import Placed, Shortfall, fits, placing
from policies.placement.rules import keeps
from policies.placement.snapshot import Snapshot
from policies.steps import Steps, metered
from policies.words import counted

LOOK, TRY, SEAT = 2, 50, 4
"""What it costs to look at a gang, to try to place it, and to seat each member, in units of about 5 microseconds."""
_SEATED_AT_ONCE = 100
"""How many members are promised their nodes in one step."""


class Planner:
    """Works in steps: others may be let in after each, and what they change is seen before anything is promised.

    ``now``: the time at this step. ``verdicts``: why gangs of a shape do not fit; the queue drops those that may be
    wrong by now. ``vain``: units spent on gangs that do not fit.
    """

    def __init__(self, state: State, policies: Policies, steering: Steering, promises: Promises) -> None:
        self.now = 0.0
        self.verdicts: dict[Shape, Reason] = {}
        self.vain = 0
        self._state = state
        self._steering = steering
        self._promises = promises
        self._policies = policies
        self._holders = Holders(state)
        self._demands = Demands(state)

    def is_open(self, gang: Gang) -> bool:
        """Whether there may be anything to be found out about it."""
        demand = gang.demand
        if demand is None:
            return True
        return demand.shape is not None and self.now >= gang.not_before and demand.shape not in self.verdicts

    def plan(self, gang: Gang) -> Steps[int]:
        """Promise the gang its placement, or explain. Returns what it has cost beyond what a plain gang would.

        A gang that changes meanwhile is looked at again in the next pass.
        """
        stale = self._state.stale
        if gang.releasing:
            stale.pop(gang.key, None)
            yield LOOK
            return 0
        if gang.demand is None:
            yield from self._demands.ask(gang)
        demand = gang.demand
        if demand is None:
            return 0
        stale.pop(gang.key, None)
        if demand.trouble is not None:
            self._explain(gang, demand.trouble)
        if demand.shape is None or self.now < gang.not_before:
            yield LOOK
            return 0
        if (verdict := self.verdicts.get(demand.shape)) is not None:
            self._tell(gang, verdict, LOOK)
            yield LOOK
            return 0
        plain = TRY + SEAT * len(demand.members)
        verdict, spent = yield from metered(self._try(gang, demand, demand.shape))
        if verdict is not None:
            self._tell(gang, verdict, max(spent, plain))
        if spent < plain:
            yield min(plain - spent, self._state.limits.slice_units)
        return max(0, spent - plain)

    def resume(self, gang: Gang) -> Steps[None]:
        """After a restart: take the nominations of its members as the plan, where they fit and break no rule."""
        if gang.releasing or not any(pod.nominated_node for pod in gang.live if not pod.node):
            return
        if gang.demand is None:
            yield from self._demands.ask(gang)
        if (demand := gang.demand) is None or demand.shape is None:
            return
        members = yield from asking(gang, [gang.members[uid] for uid in demand.members])
        wanted = {pod.uid: pod.nominated_node for pod in members if pod.nominated_node}
        if len(wanted) < len(members):
            return
        beside = yield from siblings(gang)
        yield 2 * TRY
        if gang.demand is not demand:
            return
        view = self._state.ledger.snapshot()
        everybody = [*beside, *((pod, wanted[pod.uid]) for pod in members)]
        if fits(wanted, members, view) and keeps(everybody, view):
            yield from self._promise(gang, members, wanted)

    def _tell(self, gang: Gang, verdict: Reason, cost: int) -> None:
        self.vain += cost
        if verdict is not gang.reason and (gang.whole or not gang.seated):
            self._explain(gang, verdict)

    def _explain(self, gang: Gang, why: Reason) -> None:
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
        self._state.explain(gang, why, self.now)

    def _try(self, gang: Gang, demand: Demand, shape: Shape) -> Steps[Reason | None]:
        """Place it, or say why not; neither if it has changed meanwhile."""
        state = self._state
        members = yield from asking(gang, [gang.members[uid] for uid in demand.members])
        beside = yield from siblings(gang)
        if gang.demand is not demand:
            return None
        view = self._view(gang)
        as_of = state.ledger.changes
        search = placing if len(shape.roles) <= state.limits.shapes else placing_pinned
        found = yield from search(members, shape.needed, view, shape.refused, beside, self._policies)
        why = None if isinstance(found, Placed) else (yield from self._why(found, view, gang.key.namespace))
        if gang.demand is not demand or gang.releasing or state.gangs.get(gang.key) is not gang:
            return None
        if isinstance(found, Placed):
            if state.ledger.changes != as_of and not self._holds(gang, members, found.nodes):
                state.stale[gang.key] = None
            else:
                yield from self._promise(gang, members, found.nodes)
            return None
        # The same words are the same object: most often nothing is new for those who have been told.
        self.verdicts[shape] = gang.reason if why is None or why == gang.reason else why
        return self.verdicts[shape]

    def _view(self, gang: Gang) -> Snapshot:
        """What there is for it: what is free, and the room that it keeps."""
        ledger = self._state.ledger
        if not gang.kept:
            return ledger.snapshot()
        for uid in gang.kept:
            ledger.release(kept_for(uid))
        view = ledger.snapshot()
        ledger.lend()
        for uid, kept in gang.kept.items():
            ledger.charge(kept_for(uid), kept.node, kept.requests, assumed=True)
        return view

    def _holds(self, gang: Gang, members: Sequence[Pod], nodes: Placement) -> bool:
        """Whether what was found while others were let in can still be promised."""
        view, seated = self._view(gang), [pod for pod in members if pod.uid in nodes]
        return fits(nodes, seated, view) and keeps([(pod, nodes[pod.uid]) for pod in seated], view)

    def _why(self, found: Shortfall, view: Snapshot, namespace: str) -> Steps[Reason]:
        if found.unclear:
            return Reason("UnknownTopology", found.explanation)
        text = f"{found.placed} of {found.needed} members fit at once: "
        if found.nearest is not None:
            holders = yield from self._holders.told(found.nearest, view.names, namespace)
            text += f"{found.nearest.text}{holders}; "
        return Reason("NoRoom", text + found.explanation)

    def _promise(self, gang: Gang, members: Sequence[Pod], nodes: Placement) -> Steps[None]:
        """Promise each member its node: all at once, or in a large gang some at a time."""
        state = self._state
        seated = [pod for pod in members if pod.uid in nodes]
        gang.promising = len(seated) > _SEATED_AT_ONCE
        for at in range(0, len(seated), _SEATED_AT_ONCE):
            some = seated[at : at + _SEATED_AT_ONCE]
            if at:
                state.review(gang)
                promised, as_of = len(gang.placement), state.ledger.changes
                yield SEAT * _SEATED_AT_ONCE
                kept = promised == len(gang.placement) or self._kept(gang, seated[:at], nodes)
                if not kept or not self._goes_on(gang, some, nodes, as_of):
                    gang.promising = False
                    return self._give_up(gang)
            self._seat(gang, some, nodes)
        gang.promising = False
        self._steering.ungate(gang)
        if not gang.whole:
            state.turned(gang, Turn.PLANNED, self.now)
            text = f"{counted(len(nodes), 'member', 'has', 'have')} a node; {self._steering.outlook}"
            state.explain(gang, Reason("Placed", text, warning=False), self.now)
        state.review(gang)
        return None

    def _kept(self, gang: Gang, promised: Sequence[Pod], nodes: Placement) -> bool:
        """Whether each that was promised a node still has the promise, or is there."""
        seats = gang.placement, {pod.uid: pod.node for pod in gang.bound}
        return all(any(held.get(pod.uid) == nodes[pod.uid] for held in seats) for pod in promised)

    def _goes_on(self, gang: Gang, some: list[Pod], nodes: Placement, as_of: int) -> bool:
        """Whether the next members can be promised their nodes: nothing that matters has changed meanwhile."""
        if gang.releasing or self._state.gangs.get(gang.key) is not gang:
            return False
        for pod in some:
            member = gang.members.get(pod.uid)
            if member is None or not member.live or member.node or pod.uid in gang.placement:
                return False
            if shape_of(gang.asking(member)) != shape_of(pod):
                return False
        return self._state.ledger.changes == as_of or self._holds(gang, some, nodes)

    def _give_up(self, gang: Gang) -> None:
        """Some of a gang that has yet to start are promised a node, and the others have lost theirs."""
        started = gang.complete or gang.releasing or gang.partial_since is not None
        if gang.placement and not started and not gang.seated:
            why = "the cluster or the gang changed while its members were given their nodes"
            self._promises.forget(gang, why, self.now, Cause.NODE_CHANGED)
        self._state.review(gang)

    def _seat(self, gang: Gang, members: Sequence[Pod], nodes: Placement) -> None:
        """Assume their nodes. A replacement uses up kept room of its node; what is left stays kept."""
        ledger, taken = self._state.ledger, [nodes[pod.uid] for pod in members]
        members = [gang.asking(gang.members[pod.uid]) for pod in members]
        for uid in gang.kept:
            ledger.release(kept_for(uid))
        self._steering.start(gang, members, {pod.uid: nodes[pod.uid] for pod in members}, self.now)
        for uid, kept in list(gang.kept.items()):
            if kept.node in taken:
                taken.remove(kept.node)
                del gang.kept[uid]
            else:
                ledger.charge(kept_for(uid), kept.node, kept.requests, assumed=True)
