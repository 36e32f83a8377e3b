"""Bugs in what the core notices, and when: after a refusal, which stands until a change, and after a restart."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from extender.core.answers import ReportFailed
from extender.core.effects import Confirm, Effect
from extender.core.events import Event, GroupSeen, NodeSeen, PodGone, PodSeen, Synced, Tick
from extender.core.gate.steering import Repeats
from extender.core.ledger.nodes import Table
from extender.core.ledger.state import Consequences
from extender.core.queue.planner import Planner
from policies.model import Node
from tests.simulation.plants.mutants import Core, asks, hears

# Changes that refused workloads wait for.


@hears
def changed_gangs_not_looked_at(event: Event, core: Core) -> Iterable[Event]:
    """New members come to notice with room that comes free alone."""
    held = core.notes.setdefault("held", [])
    match event:
        case PodSeen(pod) if core.synced and pod.uid not in core.pods and pod.group is not None and not pod.node:
            held.append(pod.uid)
            return
        case PodSeen(pod) if pod.uid in held and not pod.node:
            return
        case PodGone(uid) if uid in held:
            held.remove(uid)
            return
        case NodeSeen() | PodGone():
            yield from [PodSeen(core.pods[uid]) for uid in held if uid in core.pods]
            held.clear()
    yield event


def room_of_bound_pods_is_not_claimed(patch: pytest.MonkeyPatch) -> None:
    """The entry is missing among the consequences of a recorded pod: ended pods keep their room, too."""
    patch.setattr(Consequences, "claim_room", lambda self, pod, _: None)


def room_of_pods_that_are_gone_is_not_freed(patch: pytest.MonkeyPatch) -> None:
    """The entry is missing among the consequences of a forgotten pod."""
    patch.setattr(Consequences, "free_room", lambda self, pod: None)


def plans_of_several_slices_are_not_looked_at_again(patch: pytest.MonkeyPatch) -> None:
    """Changes since the first slice of a workload's planning are not noticed."""
    patch.setattr(Planner, "_as_of", lambda self, workload: ())


@hears
def changed_nodes_are_not_noticed(event: Event, core: Core) -> Iterable[Event]:
    if not (core.synced and isinstance(event, NodeSeen) and event.node.name in core.nodes):
        yield event


@hears
def new_nodes_are_not_noticed(event: Event, core: Core) -> Iterable[Event]:
    if not (core.synced and isinstance(event, NodeSeen) and event.node.name not in core.nodes):
        yield event


@hears
def lost_reports_are_not_noticed(event: Event, core: Core) -> Iterable[Event]:
    if not isinstance(event, ReportFailed):
        yield event


@hears
def pods_that_end_are_not_noticed(event: Event, core: Core) -> Iterable[Event]:
    """The room is free when the objects are gone."""
    if not (isinstance(event, PodSeen) and event.pod.terminal and event.pod.node and core.synced):
        yield event


@hears
def freed_room_is_compared_with_the_latest(event: Event, core: Core) -> Iterable[Event]:
    """The bug notices only the first of several pieces of room that come free on a node."""
    uid = event.uid if isinstance(event, PodGone) else event.pod.uid if isinstance(event, PodSeen) else ""
    ends = isinstance(event, PodGone) or (isinstance(event, PodSeen) and event.pod.terminal)
    pod = core.pods.get(uid)
    if ends and core.synced and pod is not None and pod.node and not pod.terminal:
        last = core.notes.get(pod.node)
        core.notes[pod.node] = core.now
        if last is not None and core.now - last < 1.0:
            return
    yield event


@hears
def edited_podgroups_are_not_noticed(event: Event, core: Core) -> Iterable[Event]:
    if not (isinstance(event, GroupSeen) and event.group.key in core.groups):
        yield event


@hears
def refused_nodes_never_forgiven(event: Event, core: Core) -> Iterable[Event]:
    """A node that has refused a planned pod stays closed."""
    refusing = core.notes
    match event:
        case PodSeen(pod) if pod.refusal and not pod.refusal.startswith("Muster") and pod.uid in core.promised:
            before = core.pods.get(pod.uid)
            node = core.nodes.get(core.promised[pod.uid])
            if node is not None and (before is None or before.refusal != pod.refusal):
                refusing[node.name] = True
                yield NodeSeen(replace(node, unschedulable=True))
        case NodeSeen(node) if node.name in refusing:
            event = NodeSeen(replace(node, unschedulable=True))
    yield event


@hears
def singles_stand_in_no_line(event: Event, core: Core) -> Iterable[Event]:
    """Gangs are planned as though no single pod waited."""
    if isinstance(event, PodSeen) and event.pod.group is None and not event.pod.node:
        event = PodSeen(replace(event.pod, priority=-1))
    yield event


# Recovery: the findings of a core that has yet to act.


@hears
def stamps_not_read_after_a_restart(event: Event, core: Core) -> Iterable[Event]:
    if isinstance(event, PodSeen) and not core.synced:
        event = PodSeen(replace(event.pod, stamp=None))
    yield event


@hears
def bound_pods_take_no_room_after_a_restart(event: Event, core: Core) -> Iterable[Event]:
    if isinstance(event, PodSeen) and event.pod.node and not core.synced:
        event = PodSeen(replace(event.pod, requests=()))
    yield event


@hears
def nominations_not_read_after_a_restart(event: Event, core: Core) -> Iterable[Event]:
    if isinstance(event, PodSeen) and not core.synced:
        event = PodSeen(replace(event.pod, nominated_node=None))
    yield event


@hears
def acts_before_the_lists_are_read(event: Event, core: Core) -> Iterable[Event]:
    """The first pod that is listed is taken for all of them."""
    if isinstance(event, Synced) and "begun" in core.notes:
        return
    yield event
    if isinstance(event, PodSeen) and not core.synced and "begun" not in core.notes:
        core.notes["begun"] = True
        yield Synced(core.now)
        yield from [Tick()] * 8


# The content of the arrays of nodes.


def an_array_is_grown_behind_a_reference(patch: pytest.MonkeyPatch) -> None:
    """The lines of new names of resources are made while the amounts are written."""

    def put(self: Table, node: Node) -> bool:
        self._own_all()
        if new := node.name not in self.rows:
            self._make_room((), row := self._facts.append(node.name))
            self.allocatable[:, row] = self.free[:, row] = 0
        row = self.rows[node.name]
        before = self.allocatable[:, row].copy()
        self.allocatable[:, row] = 0
        for name, amount in node.allocatable:
            self.allocatable[line(self, name), row] = amount
        self.free[: len(before), row] -= before
        self.free[:, row] += self.allocatable[:, row]
        self._facts.note(row, node)
        return new

    def line(table: Table, name: str) -> int:
        table._make_room(((name, 0),), 0)
        return table.resources[name]

    patch.setattr(Table, "put", put)


@asks
def later_releases_are_not_confirmed(effect: Effect, core: Core) -> Iterable[Effect]:
    """Only the next life shows that, and confirms them at once."""
    if not isinstance(effect, Confirm) or (stamp := core.pods[effect.uid].stamp) is None:
        return (effect,)
    return (effect,) if core.notes.setdefault(("first", effect.group), stamp.release) == stamp.release else ()


def what_could_not_be_written_is_not_asked_for_again(patch: pytest.MonkeyPatch) -> None:
    """The bug lasts until the next life begins."""
    patch.setattr(Repeats, "repeat_later", lambda self, effect, now: None)
