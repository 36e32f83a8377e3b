"""Bugs in the core's use of events: it hears of pods, nodes, groups and outcomes, and gets them wrong."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from extender.core.answers import BindingPosted, Outcome
from extender.core.effects import Effect, Milestone, Nominate, PostBinding, Reached
from extender.core.engine import Engine
from extender.core.events import BindArrived, BindDisconnected, Event, GroupSeen, NodeSeen, PodGone, PodSeen, PodsSeen
from extender.core.gate.revocations import Revocations
from extender.core.workload.release import Release
from policies.model import Pod, Topology
from tests.simulation.plants.mutants import Core, core_bug, hears

GRACE_S = 10.0
"""The shortest that the campaign gives a half-released gang to be completed."""


# Which pods count.


@hears
def quorum_off_by_one(event: Event, core: Core) -> Iterable[Event]:
    match event:
        case PodSeen(pod) if pod.group is not None and pod.group.min_member is not None:
            yield PodSeen(replace(pod, group=pod.group._replace(min_member=max(1, pod.group.min_member - 1))))
        case GroupSeen(group):
            yield GroupSeen(replace(group, min_member=max(1, group.min_member - 1)))
        case _:
            yield event


@hears
def minimum_of_a_role_one_lower(event: Event, core: Core) -> Iterable[Event]:
    """The minMember of the gang stays as it is."""
    match event:
        case GroupSeen(group) if group.minima:
            (role, least), *others = group.minima
            yield GroupSeen(replace(group, minima=((role, least - 1), *others) if least > 1 else tuple(others)))
        case _:
            yield event


@hears
def bound_members_not_counted(event: Event, core: Core) -> Iterable[Event]:
    match event:
        case PodSeen(pod) if pod.node:
            yield PodSeen(replace(pod, group=None))
        case _:
            yield event


@hears
def twins_of_an_index_counted_as_two(event: Event, core: Core) -> Iterable[Event]:
    yield PodSeen(replace(event.pod, index=None)) if isinstance(event, PodSeen) else event


@hears
def members_of_an_earlier_podgroup_counted(event: Event, core: Core) -> Iterable[Event]:
    if isinstance(event, PodSeen) and event.pod.stamp is not None and event.pod.group_key in core.groups:
        stamp = replace(event.pod.stamp, gang=core.groups[event.pod.group_key].uid)
        event = PodSeen(replace(event.pod, stamp=stamp))
    yield event


@hears
def lost_member_keeps_its_gang_placed(event: Event, core: Core) -> Iterable[Event]:
    """The bug lasts for half a minute."""
    late = core.notes
    for uid in [uid for uid, (at, _) in late.items() if core.now >= at]:
        yield late.pop(uid)[1]
    uid = event.uid if isinstance(event, PodGone) else event.pod.uid if isinstance(event, PodSeen) else ""
    lost = isinstance(event, PodGone) or (isinstance(event, PodSeen) and not event.pod.live)
    if uid in late or (lost and uid in core.promised):
        late[uid] = late.get(uid, (core.now + 30.0,))[0], event
    else:
        yield event


@hears
def old_watch_event_unbinds_a_pod(event: Event, core: Core) -> Iterable[Event]:
    match event:
        case BindingPosted(uid, Outcome.DONE):
            core.notes[uid] = True
        case PodSeen(pod) if pod.uid in core.notes and not pod.node:
            yield PodGone(pod.uid)
    yield event


@hears
def required_level_ignored(event: Event, core: Core) -> Iterable[Event]:
    match event:
        case PodSeen(pod):
            yield PodSeen(replace(pod, topology=Topology()))
        case GroupSeen(group):
            yield GroupSeen(replace(group, topology=Topology()))
        case _:
            yield event


def members_bound_elsewhere_not_noticed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Revocations, "note_bound", lambda self, workload, member, node: None)


# Holding and binding.


def _asks_in_time(effect: Effect, core: Core) -> Iterable[Effect]:
    """Undo in the Binding what was changed in the calls."""
    if isinstance(effect, PostBinding):
        deadlines = [core.notes[call] for call in effect.calls if call in core.notes]
        effect = replace(effect, deadline=min([effect.deadline, *deadlines]))
    yield effect


def _without_deadline(event: Event, core: Core) -> Iterable[Event]:
    if isinstance(event, BindArrived):
        core.notes[event.call] = event.expires
        event = replace(event, expires=event.expires + 1e6)
    yield event


def _without_the_first_deadline(event: Event, core: Core) -> Iterable[Event]:
    if isinstance(event, BindArrived) and event.uid in core.pods:
        key = core.pods[event.uid].group_key
        first = core.notes.setdefault(("first", key), event.uid)
        core.notes[event.call] = event.expires
        if key is not None and first == event.uid:
            event = replace(event, expires=event.expires + 1e6)
    elif isinstance(event, BindingPosted) and event.uid in core.pods:
        core.notes.pop(("first", core.pods[event.uid].group_key), None)
    yield event


deadline_ignored = core_bug("deadline_ignored", hears=_without_deadline, asks=_asks_in_time)
holds_wait_for_a_later_deadline = core_bug(
    "holds_wait_for_a_later_deadline", hears=_without_the_first_deadline, asks=_asks_in_time
)


@hears
def calls_that_were_given_up_still_held(event: Event, core: Core) -> Iterable[Event]:
    if not isinstance(event, BindDisconnected):
        yield event


@hears
def unknown_outcome_taken_for_refused(event: Event, core: Core) -> Iterable[Event]:
    if isinstance(event, BindingPosted) and event.outcome is Outcome.UNKNOWN:
        event = replace(event, outcome=Outcome.REFUSED)
    yield event


@hears
def unknown_outcome_taken_for_done(event: Event, core: Core) -> Iterable[Event]:
    if isinstance(event, BindingPosted) and event.outcome is Outcome.UNKNOWN:
        event = replace(event, outcome=Outcome.DONE)
    yield event


# Room.


def _hears_of_what_is_taken_back(event: Event, core: Core) -> Iterable[Event]:
    """Report promised room beside the real room, until the promise ends."""
    match event:
        case PodSeen(pod) if pod.node or not pod.live:
            uid = pod.uid
        case PodGone(uid) | BindingPosted(uid):
            pass
        case _:
            uid = ""
    _take_back(uid, core)
    yield event


def _take_back(uid: str, core: Core) -> None:
    if uid in core.notes:
        node, requests = core.notes.pop(uid)
        core.lend(node, requests, -1)


def _lends_promised_room(effect: Effect, core: Core) -> Iterable[Effect]:
    yield effect
    if isinstance(effect, Nominate):
        _take_back(effect.uid, core)
        if effect.node is not None and effect.uid in core.pods:
            requests = core.pods[effect.uid].requests
            core.notes[effect.uid] = effect.node, requests
            core.lend(effect.node, requests, 1)


promised_room_ignored = core_bug("promised_room_ignored", hears=_hears_of_what_is_taken_back, asks=_lends_promised_room)


def _takes_forgotten_room(effect: Effect, core: Core) -> Iterable[Effect]:
    yield effect
    if isinstance(effect, Reached) and effect.milestone is Milestone.FORGOTTEN:
        for pod in core.members(effect.key):
            if (node := core.promised.get(pod.uid)) is not None and not pod.node:
                core.lend(node, pod.requests, -1)


forgetting_frees_no_room = core_bug("forgetting_frees_no_room", asks=_takes_forgotten_room)


def _lost_of_a_broken_gang(event: Event, core: Core) -> Pod | None:
    """A member with a promise that is lost while others of its gang are bound, too few of them."""
    uid = event.uid if isinstance(event, PodGone) else event.pod.uid if isinstance(event, PodSeen) else ""
    pod = core.pods.get(uid)
    if pod is None or uid not in core.promised or (isinstance(event, PodSeen) and event.pod.live):
        return None
    fellows = core.members(pod.group_key)
    bound = sum(bool(fellow.node) and fellow.live for fellow in fellows)
    group = core.groups.get(pod.group_key) if pod.group_key is not None else None
    needed = (pod.group.min_member if pod.group is not None else None) or (group.min_member if group else 0)
    return pod if 0 < bound < needed else None


@hears
def no_room_kept_for_a_lost_member(event: Event, core: Core) -> Iterable[Event]:
    lost = _lost_of_a_broken_gang(event, core)
    node = core.promised[lost.uid] if lost is not None else ""
    yield event
    if lost is not None:
        core.lend(node, lost.requests, 1)


@hears
def kept_room_never_lapses(event: Event, core: Core) -> Iterable[Event]:
    if (lost := _lost_of_a_broken_gang(event, core)) is not None:
        core.notes[lost.uid] = core.now + GRACE_S, core.promised[lost.uid], lost.requests
    for uid in [uid for uid, (until, *_) in core.notes.items() if core.now >= until]:
        _, node, requests = core.notes.pop(uid)
        core.lend(node, requests, -1)
    yield event


def room_of_a_lost_member_given_away(patch: pytest.MonkeyPatch) -> None:
    """The room of a running gang's member goes to the next waiting workload at once."""
    patch.setattr(Revocations, "reserve_room", lambda *_: None)


def room_of_a_lost_member_kept_for_ever(patch: pytest.MonkeyPatch) -> None:
    """The gang runs, and the replacement may never come."""
    patch.setattr(Release, "reserve_rooms", lambda self, until: setattr(self, "reserved_until", until + 1e6))


@hears
def twice_the_room(event: Event, core: Core) -> Iterable[Event]:
    if isinstance(event, NodeSeen):
        doubled = tuple((name, 2 * amount) for name, amount in event.node.allocatable)
        event = NodeSeen(replace(event.node, allocatable=doubled))
    yield event


def others_seen_together_unheard(patch: pytest.MonkeyPatch) -> None:
    """The core gets only the last of several pods that are seen together."""
    real = Engine.handle

    def handle(self: Engine, event: Event, now: float) -> list[Effect]:
        return real(self, PodsSeen(event.pods[-1:]) if isinstance(event, PodsSeen) else event, now)

    patch.setattr(Engine, "handle", handle)
