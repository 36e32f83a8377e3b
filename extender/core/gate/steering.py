"""Steer kube-scheduler to the planned nodes, and take the gates off: how a plan is carried out.

The setting ``steering`` chooses the means (docs/steering.md). A nomination makes kube-scheduler look at one node first,
and keeps the room there from pods of equal or lower priority. It also wakes a member that was refused. The gates come
off when all nominations are written; in a small cluster they come off at once, without nominations. A pin is node
affinity on the pod. Members that block each other are steered in rounds: the next round begins when all members of the
earlier ones have reached bind.

``Repeats`` asks again, after a pause, for writes that failed and that no workload waits for, while they are wanted. A
restart would ask for them, so they must not need one.
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
"""Nodes that a pin may name. Each costs 100 bytes of the pod, for as long as the pod lives."""

_MOST_SCANNED = 500
"""The largest cluster, in nodes, in which nominations are left out.

Up to this size a look at all nodes costs kube-scheduler less than a nomination costs the API server and Muster. The
figures are in docs/steering.md.
"""
PROVISION_S = 600.0
"""How long kube-scheduler waits for the volumes of a pod (``bindTimeoutSeconds`` of its plugin VolumeBinding)."""


class SteeringMode(StrEnum):
    """The means that makes kube-scheduler take the planned nodes.

    A nomination is a second write for each pod, and can be cleared again. A pin is part of the write that ungates, and
    is permanent: if its nodes refuse the pod, only deleting the pod helps. Pods that were never gated are always
    nominated, and so are pods with node affinity terms of their own. ``auto``: in a small cluster only the ungating is
    written. kube-scheduler looks at every node there, and the filter leaves the planned one. In a larger cluster the
    pods are nominated.
    """

    AUTO = "auto"
    NOMINATE = "nominate"
    PIN_DOMAIN = "pin-domain"
    PIN_NODE = "pin-node"


_UNPINNED = (SteeringMode.AUTO, SteeringMode.NOMINATE)


class SteeringRules:
    """The means for each pod in this mode."""

    def __init__(self, claims: Claims, mode: SteeringMode) -> None:
        self._claims = claims
        self._mode = mode

    def need_no_nomination(self, workload: Workload, pod: Pod, node: str) -> bool:
        """Whether ungating the pod is enough. Plugins that look at other pods have to see those nominated."""
        if self._mode is not SteeringMode.AUTO:
            return bool(self.pin(workload, pod, node))
        small = len(self._claims.nodes) <= _MOST_SCANNED
        return small and GANG_GATE in pod.gates and pod.constraints is UNCONSTRAINED

    def pin(self, workload: Workload, pod: Pod, node: str) -> tuple[str, ...]:
        """The nodes to pin the pod to when it is ungated; empty if it is steered otherwise."""
        # Existing terms can be narrowed only one by one, so pods that have any are nominated.
        if self._mode in _UNPINNED or GANG_GATE not in pod.gates or pod.selection.affinity is not None:
            return ()
        if any(spread.needs_choice for spread in pod.constraints.spread):
            return ()
        match self._mode:
            case SteeringMode.PIN_NODE:
                return (node,)
            case SteeringMode.PIN_DOMAIN:
                return self._domain(workload.constrained(pod), node)
        return ()

    def _domain(self, pod: Pod, node: str) -> tuple[str, ...]:
        """The nodes of the domain that the pod has to stay in, or of the largest one inside that a pin can name.

        A pod that asks for no level gets its nearest domain. Empty without such a domain.
        """
        view = seen_by([pod], self._claims.snapshot())
        row, rules = view.rows.get(node), rules_of([pod], view)
        if row is None or isinstance(rules, Unclear):
            return ()
        for level in reversed(view.levels[: rules.widest + 1]):
            code = int(level.codes[row])
            rows = level.domain(code).rows if code >= 0 else ()
            if 0 < len(rows) <= _LARGEST_PIN:
                return tuple(sorted(view.names[row] for row in rows))
        return ()


_CONFIRMED = 2
"""Members that carry the stamp of a complete release."""


class Steering:
    """Writes what kube-scheduler reads about promised nodes. A gate cannot be put back, so it comes off last.

    ``advises``: advisory mode. Then no node is promised, nothing is written about nodes, and gates come off at once.
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
        self._rules = SteeringRules(claims, mode)

    @property
    def carrier(self) -> Carrier:
        """The component that carries a plan out."""
        return Carrier.ADVISED if self._advises else Carrier.KUBE_SCHEDULER

    def promise(self, workload: Workload, member: Member, node: str, turn: int = 0) -> None:
        """Promise a node to a member and steer it there: at once, or in a later round (``turn``).

        In advisory mode only remember the node. Members that already have one keep it, for the comparison.
        """
        pod = member.pod
        if self._advises:
            workload.advise(member.uid, node)
            return self.watch_updated(workload, member)
        self._room.assume(workload, member, node)
        if not turn:
            if workload.job is not None and workload.job.steers(pod):
                return workload.members.step(member, Step.STEERED, "")
            return self.steer(workload, member)
        workload.members.step(member, Step.LATER, "", turn)
        if pod.nominated_node:
            # A nomination that is left from an earlier plan would block the members of earlier rounds.
            self._outbox.append(Nominate(pod.uid, pod.namespace, pod.name, None, group=workload.key))
        return None

    def steer_next_round(self, workload: Workload, now: float) -> None:
        """Steer the members of the next round, if all members of earlier rounds are at bind."""
        members = workload.members
        ahead = len(members.placed) - members.steps[Step.LATER]
        if workload.filling or len(members.holds) + len(members.binding) < ahead:
            return
        later = [member for member in members.placed.values() if member.step is Step.LATER]
        turn = min(member.turn for member in later)
        in_turn = [member for member in later if member.turn == turn]
        if _uncreated_before(workload, in_turn, turn) or any(member.node in workload.unsettled for member in in_turn):
            return  # a changed node is checked when the release has ended
        members.holds.wait_from(now)
        for member in in_turn:
            self.steer(workload, member)

    def steer(self, workload: Workload, member: Member) -> None:
        """Steer a member to its node: nominate it, and wake it if plugins have refused it; or only ungate it."""
        pod, node = member.pod, member.node
        if self._rules.need_no_nomination(workload, pod, node):
            workload.members.step(member, Step.READY, "")
            return
        workload.members.step(member, Step.NOMINATING, node)
        # Writing the nomination wakes a pod that was tried and refused, but not if the pod reads so already.
        renew = pod.nominated_node == node and not pod.gates
        wakes = not (pod.gates or renew) and parked(pod, self._claims.tenants)
        if member.clears is not (renew or wakes):
            workload.members.expect_clearing(member, clears=renew or wakes)
        self._outbox.append(Nominate(pod.uid, pod.namespace, pod.name, node, renew, workload.key, wakes))

    def nominated(self, event: Nominated, now: float) -> Workload | None:
        """Handle the outcome of a nomination. Returns the workload if it cannot continue, else None.

        It can continue if the watch shows the nomination although the write seemed to fail.
        """
        entry = self._store.member(event.uid)
        if entry is None or entry[1].step is not Step.NOMINATING or entry[1].nominated != event.node:
            return None
        workload, member = entry
        gated = bool(member.pod.gates)
        shown = member.pod.nominated_node == event.node
        if event.detail and (member.clears or not shown):
            return workload
        # The time to take it up starts now, however long the write was queued.
        workload.members.step(member, Step.STEERED if not gated else Step.READY if shown else Step.WRITTEN)
        self._restart_deadlines(workload, now)
        return None

    def watch_updated(self, workload: Workload, member: Member) -> None:
        """Handle what the watch shows of a member's nomination or of the stamp that its release is complete.

        Gates wait for the nomination to show. The API server begins the next write to the pod from its watch cache, and
        does it twice when the cache is behind. In advisory mode every gate of Muster comes off when the pod is seen.
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
                self._settle_if_written(workload)
        if member.step is Step.CONFIRMING and member.uid in workload.members.confirmed:
            workload.members.step(member, Step.NONE)

    def ungated(self, event: Ungated, now: float) -> Workload | None:
        """Handle the outcome of an ungating. Returns the workload if it cannot continue, else None.

        It can continue if the watch shows that the gate is off although the write seemed to fail.
        """
        entry = self._store.member(event.uid)
        if entry is None or entry[1].step is not Step.UNGATING:
            return None
        workload, member = entry
        if self._advises:
            # A failed ungating is repeated when the pod is next seen or planned.
            workload.members.step(member, Step.NONE if event.detail else Step.STEERED)
            return None
        if event.detail and GANG_GATE in member.pod.gates:
            return workload
        workload.members.step(member, Step.STEERED)
        self._restart_deadlines(workload, now)
        return None

    def _restart_deadlines(self, workload: Workload, now: float) -> None:
        """Restart the deadlines of the plan and of held members, since kube-scheduler has new facts now."""
        self.await_uptake(workload, now)
        workload.members.holds.wait_from(now)
        self._settle_if_written(workload)

    def await_uptake(self, workload: Workload, now: float) -> None:
        """Set the deadline for kube-scheduler to take up the plan.

        It is shorter for a workload that was refused before. kube-scheduler may not report another refusal, since the
        words would be the same.
        """
        if self._advises:
            return
        limits = self._limits
        self._await_storage(workload, now)
        workload.wait_until(now + (min(limits.again_s, limits.plan_s) if workload.retries.words else limits.plan_s))

    def storage_seen(self, workload: Workload, now: float) -> None:
        """Restart the deadlines if provisioning of the members' volumes has begun or ended.

        Meanwhile kube-scheduler asks for no bind, and once all volumes exist it needs a moment.
        """
        awaited = workload.storage_deadline
        self._await_storage(workload, now)
        if workload.storage_deadline != awaited:
            self._restart_deadlines(workload, now)

    def _await_storage(self, workload: Workload, now: float) -> None:
        placed = (member.pod for member in workload.members.placed.values() if not member.pod.node)
        providing = self._volumes.users and any(map(self._volumes.is_providing, placed))
        workload.await_storage(now + PROVISION_S if providing else 0.0, now)

    def _settle_if_written(self, workload: Workload) -> None:
        """Have the workload settled if no write of its members is under way."""
        if not carrying_out(workload):
            self._store.mark_dirty(workload)

    def write_failed(self, workload: Workload, member: Member) -> None:
        """Record a failed write during a release, when no promise can be revoked."""
        taken_up = member.state is not MemberState.ASSUMED
        # If it is taken up, kube-scheduler did not need the write.
        workload.members.step(member, Step.STEERED if taken_up else Step.FAILED)
        self._store.mark_dirty(workload)

    def repeat_write(self, workload: Workload, member: Member) -> None:
        """Repeat the write that a member is steered by."""
        if self._advises:
            return
        if member.step is Step.NOMINATING:
            self.steer(workload, member)
        else:
            workload.members.step(member, Step.READY)
            self._store.mark_dirty(workload)

    def ungate(self, workload: Workload) -> None:
        """Take Muster's gate off every placed member, once all nominations are known to be written."""
        members, steps = workload.members, workload.members.steps
        if not steps[Step.READY] or steps[Step.NOMINATING] or steps[Step.WRITTEN] or workload.filling:
            return
        for member in members.placed.values():
            if member.step is not Step.READY:
                continue
            pod = member.pod
            if GANG_GATE not in pod.gates:
                members.step(member, Step.STEERED)
                continue
            pin = self._rules.pin(workload, pod, member.node)
            members.step(member, Step.UNGATING)
            self._outbox.append(Ungate(pod.uid, pod.namespace, pod.name, workload.key, pin))

    def settle(self, workload: Workload, member: Member) -> None:
        """End the steering of a bound member."""
        if member.step is not Step.CONFIRMING:
            workload.members.step(member, Step.NONE, "")

    def stop(self, workload: Workload, member: Member) -> None:
        """End the steering of a member that loses its promise. A nomination that stays would keep room from others."""
        if self._advises:
            return
        pod, nominated = member.pod, member.nominated
        # kube-scheduler clears the nomination of a failed bind, but not one that is written after that.
        left = member.hold is None or member.step is Step.NOMINATING
        workload.members.step(member, Step.NONE, "")
        if nominated and left and pod.live and not pod.node:
            self._outbox.append(Nominate(pod.uid, pod.namespace, pod.name, None, group=workload.key))

    def sweep(self, workload: Workload, now: float) -> None:
        """Clear nominations of members without a promise: each keeps room from others.

        kube-scheduler tries only once to clear the nomination of a failed bind, and a write by Muster may fail
        repeatedly. Other nominations are left from before a restart. In advisory mode all nominations are
        kube-scheduler's own.
        """
        if self._advises:
            return
        workload.sweep(0.0)
        for member in workload.members.live.values():
            pod = member.pod
            if pod.nominated_node and not pod.node and not member.placed and pod.scheduler in self._schedulers:
                self._outbox.append(Nominate(pod.uid, pod.namespace, pod.name, None, group=workload.key))
                # This write may fail, too.
                self.sweep_later(workload, now)

    def sweep_later(self, workload: Workload, now: float) -> None:
        """Plan a check, after a while, that nominations were cleared as asked."""
        if self._advises:
            return
        workload.sweep(workload.sweep_at or now + self._limits.plan_s)
        self._store.mark_dirty(workload)

    def confirm(self, workload: Workload) -> None:
        """Have two bound members, on two nodes if possible, carry the stamp that their release is complete.

        The last Binding writes it on one. If that one is lost, a restart must not take the others for the rest of a
        release that broke off. One is enough for a job: its slots keep their nodes, so a replacement completes it at
        once, and nothing is written on its pods.
        """
        members = workload.members
        if self._advises or workload.admitted or not workload.release.complete or workload.releasing:
            return
        while len(members.confirmed) < _CONFIRMED:
            # A member that ended before the watch showed its stamp does not count.
            confirming = members.bound.values() if members.steps[Step.CONFIRMING] else ()
            known = {member.uid: member.pod.node for member in confirming if member.step is Step.CONFIRMING}
            known |= {uid: member.pod.node for uid, member in members.confirmed.items()}
            if len(known) >= _CONFIRMED:
                return
            others = [
                member
                for uid, member in members.bound.items()
                if uid not in known
                and uid not in self._store.bound_by_us
                and member.pod.stamp
                and member.pod.stamp.release == workload.release.name
            ]
            nodes = set(known.values())
            chosen = min(others, key=lambda member: (member.pod.node in nodes, member.pod.rank), default=None)
            if chosen is None:
                return
            members.step(chosen, Step.CONFIRMING, "")
            pod = chosen.pod
            self._outbox.append(Confirm(pod.uid, pod.namespace, pod.name, workload.key))


def _uncreated_before(workload: Workload, members: Sequence[Member], turn: int) -> bool:
    """Whether pods of earlier rounds have not been created yet.

    Pods of a later wave do not count, since they may be created only once the members of this round run.
    """
    podsets, slots = workload.podsets, workload.members.slots
    if podsets is None or not slots.planned:
        return False
    wave = max(podsets.wave_of(member.pod.identity) for member in members)
    return any(slots.turns.get(slot, 0) < turn and slots.templates[slot].wave <= wave for slot in slots.planned)


Repeatable = Wake | Confirm | Hint | Nominate | Ungate | Reserve | Deallocate
_FIRST_S, _LONGEST_S = 5.0, 300.0


@dataclass(frozen=True, slots=True)
class _Later:
    """A write that failed.

    ``times``: how often in a row it failed.
    ``at``: when to ask for it again.
    ``sent``: whether it was asked for since. Then ``at`` is when a missing answer means that it was written.
    """

    effect: Repeatable
    times: int
    at: float
    sent: bool = False


class Repeats:
    """Failed writes that no workload waits for, and when to ask for each again.

    ``awaits_nodes``: whether this pod is still to lose its gate although it has no node.
    ``frees``: whether this claim is still to be deallocated.
    """

    def __init__(
        self,
        store: Store,
        outbox: Outbox,
        preemptions: Preemptions,
        backfills: Backfills,
        namespaces: Namespaces,
        steering: Steering,
        awaits_nodes: Callable[[GroupKey, str], bool],
        frees: Callable[[Deallocate, float], bool],
    ) -> None:
        self._store = store
        self._outbox = outbox
        self._preemptions = preemptions
        self._backfills = backfills
        self._namespaces = namespaces
        self._steering = steering
        self._awaits_nodes = awaits_nodes
        self._frees = frees
        self._later: dict[tuple[type, object], _Later] = {}
        self._first = inf
        """When the first write is due, or earlier."""

    def unwritten(self, event: Unwritten, now: float) -> None:
        self.repeat_later(event.effect, now)

    def repeat_later(self, effect: Repeatable, now: float) -> None:
        """Record that this write failed."""
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
        times = 1 if known is None else known.times + known.sent
        at = now + pause_s(times, _FIRST_S, _LONGEST_S)
        self._later[key], self._first = _Later(effect, times, at), min(self._first, at)

    def repeat(self, now: float) -> None:
        """Ask for the writes whose pause is over."""
        if now < self._first:
            return
        for key, later in [(key, later) for key, later in self._later.items() if later.at <= now]:
            if later.sent or not self._ask(later.effect, now):
                del self._later[key]
            else:
                self._later[key] = replace(later, at=now + _LONGEST_S, sent=True)
        self._first = min((later.at for later in self._later.values()), default=inf)

    def next(self) -> float | None:
        return None if self._first == inf else self._first

    def _ask(self, effect: Repeatable, now: float) -> bool:
        """Ask for a write as facts are now, if it is still wanted. Returns whether it is."""
        entry = self._store.member(effect.uid) if isinstance(effect, Nominate | Ungate) else None
        if entry is not None and entry[0].admitted and entry[1].step in (Step.NOMINATING, Step.UNGATING):
            self._steering.repeat_write(*entry)
            return True
        if (wanted := self._wanted(effect, now)) is not None:
            self._outbox.append(wanted)
        return wanted is not None

    def _wanted(self, effect: Repeatable, now: float) -> Repeatable | None:
        """The write as it is wanted now; None if it is not."""
        match effect:
            case Reserve():
                return self._reservation_now(effect)
            case Deallocate():
                wanted = self._frees(effect, now)
            case Hint(uid=""):
                wanted = self._namespaces.ending(effect.namespace) is None
            case _:
                pod = self._store.pods.get(effect.uid)
                wanted = pod is not None and pod.live and self._is_wanted_of(pod, effect)
        return effect if wanted else None

    def _is_wanted_of(self, pod: Pod, effect: Wake | Confirm | Hint | Nominate | Ungate) -> bool:
        """Whether the write about a pod that has not ended is wanted."""
        entry = self._store.member(pod.uid)
        match effect:
            case Hint():
                return pod.unpinned if effect.once else pod.hint == effect.message
            case Wake():
                return not pod.node
            case Nominate():
                return bool(pod.nominated_node) and not pod.node and entry is None
            case Confirm():
                confirmed = entry is not None and pod.uid in entry[0].members.confirmed
                return entry is not None and entry[1].step is Step.CONFIRMING and not confirmed
            case Ungate():
                gated = GANG_GATE in pod.gates and (entry is None or entry[1].step is Step.NONE)
                return gated and (
                    bool(pod.native_group) if entry is None else self._awaits_nodes(entry[0].key, pod.uid)
                )

    def _reservation_now(self, effect: Reserve) -> Reserve | None:
        """The write after which the object has the reservation of its workload, or none; None if that is so already."""
        key, written_on = effect.key, "" if effect.pod is None else effect.pod.uid
        if not effect.backfill and key in self._preemptions.under_way:
            return None
        reserved = self._backfills.as_written(key, written_on) if effect.backfill else None
        if written_on:
            pod = self._store.pods.get(written_on)
            return (
                None
                if pod is None or _written(effect, pod) == reserved
                else replace(effect, pod=pod, reservation=reserved)
            )
        workload = self._store.workloads.get(key)
        job = None if workload is None or workload.job is None else workload.job.seen
        if job is None or effect.job is None or job.uid != effect.job.uid or _written(effect, job) == reserved:
            return None
        return replace(effect, job=job, reservation=reserved)


def _written(effect: Reserve, on: Pod | Job) -> Reservation | None:
    return on.backfill if effect.backfill else on.reservation
