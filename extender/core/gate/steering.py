"""Steer kube-scheduler to the planned nodes, and take the gates off: how a plan is carried out.

The setting ``steering`` chooses the means, and so what that means for a pod (docs/steering.md). A nomination has
kube-scheduler look at one node first, and keeps the room there from pods of equal or lower priority. It also wakes a
member that was refused. The gates come off when all nominations are written; in a small cluster at once and without
nominations. A pin is node affinity on the pod. Members that are in each other's way are steered in rounds: the next
round begins when all members before it have reached bind.

Writes that nothing waits for, and that could not be made, are asked for again after a pause, while they are wanted
(``Repeats``): a restart would ask for them, so time has to do so as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf

from extender.core.answers import Nominated, Ungated, Unwritten
from extender.core.causes import Carrier
from extender.core.effects import Confirm, Deallocate, Hint, Nominate, Reserve, Ungate, Wake
from extender.core.instants import pause_s
from extender.core.ledger.backfill import Backfills
from extender.core.ledger.claims import Claims
from extender.core.ledger.kube_scheduler import carrying_out, parked
from extender.core.ledger.preemptions import Preemptions
from extender.core.ledger.room import Room
from extender.core.ledger.store import Namespaces, Outbox, Store
from extender.core.ledger.volumes import Volumes
from extender.core.limits import Limits
from extender.core.workload.members import Member, MemberState, Step
from extender.core.workload.workload import Workload
from policies.model import GANG_GATE, UNCONSTRAINED, GroupKey, Job, Pod, Reservation
from policies.placement.rules import Unclear, rules_of, seen_by

_LARGEST_PIN = 64
"""Nodes that a pin may name: each costs 100 bytes of the pod, for as long as it lives."""

_MOST_SCANNED = 500
"""Nodes up to which it costs kube-scheduler less to look at all of them, as it is configured to, than the API server
and Muster a nomination. The figures are in docs/steering.md."""
PROVISION_S = 600.0
"""How long kube-scheduler waits for the volumes of a pod (``bindTimeoutSeconds`` of its plugin VolumeBinding)."""


class SteeringMode(StrEnum):
    """What makes kube-scheduler take the planned nodes.

    A nomination is a second write for each pod, and can be taken back. A pin is part of the write that ungates, and is
    for ever: if its nodes refuse the pod, only deleting the pod helps. Pods that were never gated are always nominated,
    as are pods with node affinity terms of their own. ``auto``: in a small cluster nothing is written but what ungates,
    because kube-scheduler looks at every node there, and the filter leaves the planned one; else a nomination.
    """

    AUTO = "auto"
    NOMINATE = "nominate"
    PIN_DOMAIN = "pin-domain"
    PIN_NODE = "pin-node"


_UNPINNED = (SteeringMode.AUTO, SteeringMode.NOMINATE)


class Ways:
    """How each pod is led in this mode."""

    def __init__(self, claims: Claims, mode: SteeringMode) -> None:
        self._claims = claims
        self._mode = mode

    def need_no_nomination(self, workload: Workload, pod: Pod, node: str) -> bool:
        """Whether it is enough to ungate the pod. Plugins that look at other pods have to see those nominated."""
        if self._mode is not SteeringMode.AUTO:
            return bool(self.pin(workload, pod, node))
        small = len(self._claims.nodes) <= _MOST_SCANNED
        return small and GANG_GATE in pod.gates and pod.constraints is UNCONSTRAINED

    def pin(self, workload: Workload, pod: Pod, node: str) -> tuple[str, ...]:
        """The nodes to pin it to when it is ungated; none if it is led otherwise."""
        # Terms that are there already can be narrowed only one by one: leave them to their owner.
        if self._mode in _UNPINNED or GANG_GATE not in pod.gates or pod.selection.affinity is not None:
            return ()
        if any(spread.needs_choice for spread in pod.constraints.spread):
            return ()
        match self._mode:
            case SteeringMode.PIN_NODE:
                return (node,)
            case SteeringMode.PIN_DOMAIN:
                return self._domain(workload.asking(pod), node)
        return ()

    def _domain(self, pod: Pod, node: str) -> tuple[str, ...]:
        """The nodes of the domain that it has to stay in, or of the largest one inside that is small enough for a pin.

        What asks for no level gets the domain of the nearest. None where there is no such domain.
        """
        view = seen_by([pod], self._claims.snapshot())
        row, rules = view.rows.get(node), rules_of([pod], view)
        if row is None or isinstance(rules, Unclear):
            return ()
        for level in reversed(view.levels[: rules.widest + 1]):
            code = int(level.codes[row])
            rows = level.domain(code).rows if code >= 0 else ()
            if 0 < len(rows) <= _LARGEST_PIN:
                return tuple(sorted(view.names[one] for one in rows))
        return ()


_CONFIRMED = 2
"""Members that say that their release is whole."""


class Steering:
    """What kube-scheduler is told about promised nodes. A gate cannot be put back, so it comes off last.

    ``advises``: in advisory mode it promises nothing, writes nothing about nodes, and takes every gate off at once.
    """

    def __init__(
        self,
        schedulers: tuple[str, ...],
        limits: Limits,
        store: Store,
        room: Room,
        outbox: Outbox,
        claims: Claims,
        volumes: Volumes,
        mode: SteeringMode = SteeringMode.NOMINATE,
        *,
        advises: bool = False,
    ) -> None:
        self._volumes = volumes
        self._advises = advises
        self._schedulers = schedulers
        self._limits = limits
        self._store = store
        self._room = room
        self._outbox = outbox
        self._claims = claims
        self._ways = Ways(claims, mode)

    @property
    def carrier(self) -> Carrier:
        """What carries a plan out."""
        return Carrier.ADVISED if self._advises else Carrier.KUBE_SCHEDULER

    def lead(self, workload: Workload, member: Member, node: str, turn: int = 0) -> None:
        """Promise a member a node, and have kube-scheduler told: at once, or when its turn has come.

        In advisory mode only remember the node. Members that have one by now keep it, for the comparison.
        """
        pod = member.pod
        if self._advises:
            workload.advise(member.uid, node)
            return self.shown(workload, member)
        self._room.assume(workload, member, node)
        if not turn:
            if workload.job is not None and workload.job.leads(pod):
                return workload.members.step(member, Step.LED, "")
            return self.tell(workload, member)
        workload.members.step(member, Step.LATER, "", turn)
        if pod.nominated_node:
            # Left over from an earlier plan, it would be in the way of those before it.
            self._outbox.append(Nominate(pod.uid, pod.namespace, pod.name, None, group=workload.key))
        return None

    def lead_next(self, workload: Workload, now: float) -> None:
        """Have kube-scheduler told of the next round, when everybody who was to be told before is at bind."""
        members = workload.members
        ahead = len(members.placed) - members.steps[Step.LATER]
        if workload.filling or len(members.holds) + len(members.binding) < ahead:
            return
        later = [one for one in members.placed.values() if one.step is Step.LATER]
        turn = min(one.turn for one in later)
        told = [one for one in later if one.turn == turn]
        if _uncreated_before(workload, told, turn) or any(one.node in workload.unsettled for one in told):
            return  # a node that has changed is looked at when the release has ended
        members.holds.wait_from(now)
        for member in told:
            self.tell(workload, member)

    def tell(self, workload: Workload, member: Member) -> None:
        """Have kube-scheduler told of its node, and woken where plugins have refused the member."""
        pod, node = member.pod, member.node
        if self._ways.need_no_nomination(workload, pod, node):
            workload.members.step(member, Step.READY, "")
            return
        workload.members.step(member, Step.NOMINATING, node)
        # The nomination wakes a pod that was tried and refused. One that already reads so would change nothing.
        renew = pod.nominated_node == node and not pod.gates
        wakes = not (pod.gates or renew) and parked(pod, self._claims.tenants)
        if member.clears is not (renew or wakes):
            workload.members.expect_clearing(member, clears=renew or wakes)
        self._outbox.append(Nominate(pod.uid, pod.namespace, pod.name, node, renew, workload.key, wakes))

    def nominated(self, event: Nominated, now: float) -> Workload | None:
        """A nomination was written, or could not be: then the workload that cannot go on is returned, unless the watch
        shows that it was written."""
        found = self._store.member(event.uid)
        if found is None or found[1].step is not Step.NOMINATING or found[1].nominated != event.node:
            return None
        workload, member = found
        gated = bool(member.pod.gates)
        shown = member.pod.nominated_node == event.node
        if event.detail and (member.clears or not shown):
            return workload
        # Only now can kube-scheduler take it up, however long the write was in the queue.
        workload.members.step(member, Step.LED if not gated else Step.READY if shown else Step.WRITTEN)
        self._told(workload, now)
        return None

    def shown(self, workload: Workload, member: Member) -> None:
        """The watch shows a member's nomination, or that its release is whole.

        Gates wait for that: the API server begins the next write to the pod from its watch cache, and does it twice
        when the cache is behind. In advisory mode every gate of ours comes off as soon as it is seen.
        """
        pod = member.pod
        if self._advises:
            ours = pod.scheduler in self._schedulers and pod.live
            if ours and GANG_GATE in pod.gates and member.step is Step.NONE:
                workload.members.step(member, Step.UNGATING)
                self._outbox.append(Ungate(pod.uid, pod.namespace, pod.name, workload.key))
            return
        if member.step is Step.WRITTEN and member.pod.nominated_node == member.nominated:
            workload.members.step(member, Step.READY)
            if not workload.members.steps[Step.WRITTEN]:
                self._go_on(workload)
        if member.step is Step.CONFIRMING and member.uid in workload.members.confirmed:
            workload.members.step(member, Step.NONE)

    def ungated(self, event: Ungated, now: float) -> Workload | None:
        """A gate came off, or could not be taken off: then the workload that cannot go on is returned, unless the watch
        shows that it is off."""
        found = self._store.member(event.uid)
        if found is None or found[1].step is not Step.UNGATING:
            return None
        workload, member = found
        if self._advises:
            # A gate that could not be taken off is tried again when the pod is next seen or planned for.
            workload.members.step(member, Step.NONE if event.detail else Step.LED)
            return None
        if event.detail and GANG_GATE in member.pod.gates:
            return workload
        workload.members.step(member, Step.LED)
        self._told(workload, now)
        return None

    def _told(self, workload: Workload, now: float) -> None:
        """kube-scheduler knows more now, and those that are held wait for what follows."""
        self.await_uptake(workload, now)
        workload.members.holds.wait_from(now)
        self._go_on(workload)

    def await_uptake(self, workload: Workload, now: float) -> None:
        """So long may kube-scheduler take to take the placement up. Of one that it has refused before it may say
        nothing, as the words would be the same: that is not waited for as long.
        """
        if self._advises:
            return
        limits = self._limits
        self._await_storage(workload, now)
        workload.wait_until(now + (min(limits.again_s, limits.plan_s) if workload.retries.words else limits.plan_s))

    def storage_seen(self, workload: Workload, now: float) -> None:
        """Claims of its members have changed: while volumes are provisioned for them, kube-scheduler asks for no bind,
        and once all are there it needs a moment."""
        awaited = workload.storage_deadline
        self._await_storage(workload, now)
        if workload.storage_deadline != awaited:
            self._told(workload, now)

    def _await_storage(self, workload: Workload, now: float) -> None:
        placed = (one.pod for one in workload.members.placed.values() if not one.pod.node)
        providing = self._volumes.users and any(map(self._volumes.is_providing, placed))
        workload.await_storage(now + PROVISION_S if providing else 0.0, now)

    def _go_on(self, workload: Workload) -> None:
        """It is settled when no write of its members is under way."""
        if not carrying_out(workload):
            self._store.mark_dirty(workload)

    def failed(self, workload: Workload, member: Member) -> None:
        """A write could not be made while the gang is being released, when no promise is taken back."""
        taken_up = member.state is not MemberState.ASSUMED
        # If so, kube-scheduler has taken the member up without it.
        workload.members.step(member, Step.LED if taken_up else Step.FAILED)
        self._store.mark_dirty(workload)

    def again(self, workload: Workload, member: Member) -> None:
        """Ask once more for the write that leads it on."""
        if self._advises:
            return
        if member.step is Step.NOMINATING:
            self.tell(workload, member)
        else:
            workload.members.step(member, Step.READY)
            self._store.mark_dirty(workload)

    def ungate(self, workload: Workload) -> None:
        """Take our gate off every placed member, once all nominations are known to be written."""
        members, steps = workload.members, workload.members.steps
        if not steps[Step.READY] or steps[Step.NOMINATING] or steps[Step.WRITTEN] or workload.filling:
            return
        for member in members.placed.values():
            if member.step is not Step.READY:
                continue
            pod = member.pod
            if GANG_GATE not in pod.gates:
                members.step(member, Step.LED)
                continue
            pin = self._ways.pin(workload, pod, member.node)
            members.step(member, Step.UNGATING)
            self._outbox.append(Ungate(pod.uid, pod.namespace, pod.name, workload.key, pin))

    def settle(self, workload: Workload, member: Member) -> None:
        """A member is bound, and is led nowhere any more."""
        if member.step is not Step.CONFIRMING:
            workload.members.step(member, Step.NONE, "")

    def stop(self, workload: Workload, member: Member) -> None:
        """The promise to this member ends: a nomination left behind would keep room from others."""
        if self._advises:
            return
        pod, nominated = member.pod, member.nominated
        # kube-scheduler clears the nomination of a failed bind itself, but not one that is written only afterwards.
        left = member.hold is None or member.step is Step.NOMINATING
        workload.members.step(member, Step.NONE, "")
        if nominated and left and pod.live and not pod.node:
            self._outbox.append(Nominate(pod.uid, pod.namespace, pod.name, None, group=workload.key))

    def sweep(self, workload: Workload, now: float) -> None:
        """Take back nominations of members that are promised nothing: each keeps room from others.

        kube-scheduler tries once to clear that of a failed bind, and a write of ours may fail for as long as it is
        repeated. Others are left over from an earlier life of ours. In advisory mode all are kube-scheduler's own.
        """
        if self._advises:
            return
        workload.sweep(0.0)
        for member in workload.members.live.values():
            pod = member.pod
            if pod.nominated_node and not pod.node and not member.placed and pod.scheduler in self._schedulers:
                self._outbox.append(Nominate(pod.uid, pod.namespace, pod.name, None, group=workload.key))
                # Even this may fail.
                self.sweep_later(workload, now)

    def sweep_later(self, workload: Workload, now: float) -> None:
        """Have a look, after a while, whether nominations that were to be cleared are."""
        if self._advises:
            return
        workload.sweep(workload.sweep_at or now + self._limits.plan_s)
        self._store.mark_dirty(workload)

    def confirm(self, workload: Workload) -> None:
        """Have it stand on two bound members, on two nodes if there are, that their release is whole.

        The last Binding writes it on one. If that one is lost, a restart must not take the others for what is left of a
        release that broke off. Of a job one is enough: its slots keep their nodes, so that whoever comes for the lost
        one completes it at once, and nothing is written on its pods.
        """
        members = workload.members
        if self._advises or workload.admitted or not workload.release.complete or workload.releasing:
            return
        while len(members.confirmed) < _CONFIRMED:
            # One that has ended before the watch has shown that it says so tells nobody.
            confirming = members.bound.values() if members.steps[Step.CONFIRMING] else ()
            known = {one.uid: one.pod.node for one in confirming if one.step is Step.CONFIRMING}
            known |= {uid: one.pod.node for uid, one in members.confirmed.items()}
            if len(known) >= _CONFIRMED:
                return
            others = [
                one
                for uid, one in members.bound.items()
                if uid not in known
                and uid not in self._store.bound_by_us
                and one.pod.stamp
                and one.pod.stamp.release == workload.release.name
            ]
            nodes = set(known.values())
            chosen = min(others, key=lambda one: (one.pod.node in nodes, one.pod.rank), default=None)
            if chosen is None:
                return
            members.step(chosen, Step.CONFIRMING, "")
            pod = chosen.pod
            self._outbox.append(Confirm(pod.uid, pod.namespace, pod.name, workload.key))


def _uncreated_before(workload: Workload, told: Sequence[Member], turn: int) -> bool:
    """Whether pods whose turn comes before this one have yet to be created. Those of a later wave may come only when
    the members that are to be told run."""
    podsets, slots = workload.podsets, workload.members.slots
    if podsets is None or not slots.planned:
        return False
    wave = max(podsets.wave_of(member.pod.identity) for member in told)
    return any(slots.turns.get(slot, 0) < turn and slots.templates[slot].wave <= wave for slot in slots.planned)


Repeatable = Wake | Confirm | Hint | Nominate | Ungate | Reserve | Deallocate
_FIRST_S, _LONGEST_S = 5.0, 300.0


@dataclass(frozen=True, slots=True)
class _Later:
    """``times``: how often in a row it could not be written. ``asked``: it was asked for since, and ``at`` is when no
    answer means that it was written."""

    effect: Repeatable
    times: int
    at: float
    asked: bool = False


class Repeats:
    """``lets_go``: whether this pod is to lose its gate though it has no node. ``frees``: whether this claim is to be
    deallocated still."""

    def __init__(
        self,
        store: Store,
        outbox: Outbox,
        preemptions: Preemptions,
        backfills: Backfills,
        namespaces: Namespaces,
        steering: Steering,
        lets_go: Callable[[GroupKey, str], bool],
        frees: Callable[[Deallocate, float], bool],
    ) -> None:
        self._store = store
        self._outbox = outbox
        self._preemptions = preemptions
        self._backfills = backfills
        self._namespaces = namespaces
        self._steering = steering
        self._lets_go = lets_go
        self._frees = frees
        self._later: dict[tuple[type, object], _Later] = {}
        self._first = inf
        """When the first of them is due, or earlier."""

    def unwritten(self, event: Unwritten, now: float) -> None:
        self.put(event.effect, now)

    def put(self, effect: Repeatable, now: float) -> None:
        """Note that this could not be written."""
        about: object
        match effect:
            case Reserve(key=workload, pod=pod, backfill=backfill):
                about = workload, pod and pod.uid, backfill
            case Hint(uid="", owner=owner):
                about = effect.namespace, owner
            case _:
                about = effect.uid
        key = type(effect), about
        known = self._later.get(key)
        times = 1 if known is None else known.times + known.asked
        at = now + pause_s(times, _FIRST_S, _LONGEST_S)
        self._later[key], self._first = _Later(effect, times, at), min(self._first, at)

    def repeat(self, now: float) -> None:
        """Ask for those whose pause is over."""
        if now < self._first:
            return
        for key, later in [(key, one) for key, one in self._later.items() if one.at <= now]:
            if later.asked or not self._ask(later.effect, now):
                del self._later[key]
            else:
                self._later[key] = replace(later, at=now + _LONGEST_S, asked=True)
        self._first = min((one.at for one in self._later.values()), default=inf)

    def next(self) -> float | None:
        return None if self._first == inf else self._first

    def _ask(self, effect: Repeatable, now: float) -> bool:
        """Whether it is wanted still: then it is asked for as things are now."""
        if isinstance(effect, Deallocate):
            if frees := self._frees(effect, now):
                self._outbox.append(effect)
            return frees
        found = self._store.member(effect.uid) if isinstance(effect, Nominate | Ungate) else None
        if found is not None and found[0].admitted and found[1].step in (Step.NOMINATING, Step.UNGATING):
            self._steering.again(*found)
            return True
        if (wanted := self._wanted(effect)) is not None:
            self._outbox.append(wanted)
        return wanted is not None

    def _wanted(self, effect: Wake | Confirm | Hint | Nominate | Ungate | Reserve) -> Repeatable | None:
        if isinstance(effect, Reserve):
            return self._left_over(effect)
        if isinstance(effect, Hint) and not effect.uid:
            return effect if self._namespaces.ending(effect.namespace) is None else None
        found, pod = self._store.member(effect.uid), self._store.pods.get(effect.uid)
        if pod is None or not pod.live:
            return None
        match effect:
            case Hint():
                wanted = pod.unpinned if effect.once else pod.hint == effect.message
            case Wake():
                wanted = not pod.node
            case Nominate():
                wanted = bool(pod.nominated_node) and not pod.node and found is None
            case Confirm():
                confirmed = found is not None and pod.uid in found[0].members.confirmed
                wanted = found is not None and found[1].step is Step.CONFIRMING and not confirmed
            case Ungate():
                gated = GANG_GATE in pod.gates and (found is None or found[1].step is Step.NONE)
                wanted = gated and (bool(pod.native_group) if found is None else self._lets_go(found[0].key, pod.uid))
        return effect if wanted else None

    def _left_over(self, effect: Reserve) -> Reserve | None:
        """Return the write that takes a reservation off, if it is there still and its workload has none."""
        key = effect.key
        workload = self._store.workloads.get(key)
        if key in (self._backfills.of if effect.backfill else self._preemptions.under_way):
            return None
        if effect.pod is not None:
            pod = self._store.pods.get(effect.pod.uid)
            return None if pod is None or _written(effect, pod) is None else replace(effect, pod=pod)
        record = None if workload is None else workload.job
        if record is None or effect.job is None or record.seen.uid != effect.job.uid or record.writing is not None:
            return None
        return None if _written(effect, record.seen) is None else replace(effect, job=record.seen)


def _written(effect: Reserve, on: Pod | Job) -> Reservation | None:
    return on.backfill if effect.backfill else on.reservation
