"""Bugs in the core's requests: answers, Bindings, nominations, gates and evictions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from extender.core.effects import (
    AnswerBind,
    AnswerFilter,
    AnswerPreempt,
    Confirm,
    Effect,
    Evict,
    Nominate,
    PostBinding,
    Report,
    Ungate,
)
from extender.core.events import Event, PodGone, PodSeen, PreemptCalled, Synced, Tick
from tests.simulation.plants.mutants import Core, asks, core_bug
from tests.simulation.shown import RELEASE_COMPLETE

# Answers to kube-scheduler.


@asks
def calls_answered_twice(effect: Effect, core: Core) -> Iterable[Effect]:
    yield effect
    if isinstance(effect, AnswerBind):
        yield effect


@asks
def failed_binding_called_a_success(effect: Effect, core: Core) -> Iterable[Effect]:
    yield replace(effect, error="") if isinstance(effect, AnswerBind) else effect


@asks
def held_calls_never_refused(effect: Effect, core: Core) -> Iterable[Effect]:
    if not (isinstance(effect, AnswerBind) and effect.error and isinstance(core.event, Tick)):
        yield effect


@asks
def filter_answers_only_once(effect: Effect, core: Core) -> Iterable[Effect]:
    if isinstance(effect, AnswerFilter) and effect.passed and effect.call % 2 == 0:
        effect = AnswerFilter(effect.call, (), (*effect.passed, *effect.refused), "asked before")
    yield effect


@asks
def member_of_a_gang_preempted(effect: Effect, core: Core) -> Iterable[Effect]:
    if isinstance(effect, AnswerPreempt) and isinstance(core.event, PreemptCalled) and not core.event.pod.group_key:
        effect = AnswerPreempt(effect.call, core.event.victims)
    yield effect


@asks
def evicted_for_singles_that_promised_room_keeps_out(effect: Effect, core: Core) -> Iterable[Effect]:
    if isinstance(effect, AnswerPreempt) and isinstance(core.event, PreemptCalled) and not core.event.pod.group_key:
        members = [uid for uid, pod in core.pods.items() if pod.group_key]
        allowed = {node: uids for node, uids in core.event.victims.items() if not {*members} & {*uids}}
        effect = AnswerPreempt(effect.call, allowed)
    yield effect


@asks
def reasons_kept_to_itself(effect: Effect, core: Core) -> Iterable[Effect]:
    if not isinstance(effect, Report):
        yield effect


# Binding.


@asks
def bindings_posted_twice(effect: Effect, core: Core) -> Iterable[Effect]:
    yield effect
    if isinstance(effect, PostBinding):
        yield effect


@asks
def binding_to_another_node(effect: Effect, core: Core) -> Iterable[Effect]:
    if isinstance(effect, PostBinding) and effect.group is not None:
        effect = replace(effect, node=max(core.nodes, default=effect.node))
    yield effect


@asks
def release_complete_always_stamped(effect: Effect, core: Core) -> Iterable[Effect]:
    if isinstance(effect, PostBinding) and effect.group is not None:
        effect = replace(effect, annotations={**effect.annotations, RELEASE_COMPLETE: "true"})
    yield effect


@asks
def release_complete_never_stamped(effect: Effect, core: Core) -> Iterable[Effect]:
    if isinstance(effect, PostBinding):
        marks = {name: value for name, value in effect.annotations.items() if name != RELEASE_COMPLETE}
        effect = replace(effect, annotations=marks)
    yield effect


@asks
def last_binding_of_a_release_forgotten(effect: Effect, core: Core) -> Iterable[Effect]:
    if not (isinstance(effect, PostBinding) and RELEASE_COMPLETE in effect.annotations and len(effect.annotations) > 1):
        yield effect


def _remembers_who_was_whole(event: Event, core: Core) -> Iterable[Event]:
    yield event
    lost = event.uid if isinstance(event, PodGone) else event.pod.uid if isinstance(event, PodSeen) else ""
    ends = isinstance(event, PodGone) or (isinstance(event, PodSeen) and not event.pod.live)
    pod = core.pods.get(lost)
    if ends and pod is not None and pod.live and pod.node and pod.stamp is not None:
        core.notes[pod.group_key] = [
            member for member in core.members(pod.group_key) if member.node and member.uid != lost
        ]


def _evicts_the_others(effect: Effect, core: Core) -> Iterable[Effect]:
    yield effect
    for pods in core.notes.values():
        for pod in pods:
            yield Evict(pod.uid, pod.namespace, pod.name, "its gang has lost a member")
    core.notes.clear()


whole_gang_evicted_when_it_loses_a_member = core_bug(
    "whole_gang_evicted_when_it_loses_a_member", hears=_remembers_who_was_whole, asks=_evicts_the_others
)


@asks
def half_released_gangs_never_evicted(effect: Effect, core: Core) -> Iterable[Effect]:
    if not isinstance(effect, Evict):
        yield effect


@asks
def confirmed_before_the_release_is_whole(effect: Effect, core: Core) -> Iterable[Effect]:
    yield effect
    if isinstance(effect, PostBinding) and effect.group is not None and RELEASE_COMPLETE not in effect.annotations:
        yield Confirm(effect.uid, effect.namespace, effect.name, effect.group)


# Steering.


@asks
def gates_off_before_nominations_are_written(effect: Effect, core: Core) -> Iterable[Effect]:
    yield effect
    if isinstance(effect, Nominate) and effect.node and effect.uid in core.pods and core.pods[effect.uid].gates:
        yield Ungate(effect.uid, effect.namespace, effect.name, effect.group)


@asks
def gates_never_taken_off(effect: Effect, core: Core) -> Iterable[Effect]:
    if not (isinstance(effect, Ungate) and core.pods[effect.uid].index == 0):
        yield effect


@asks
def pinned_to_another_node(effect: Effect, core: Core) -> Iterable[Effect]:
    if isinstance(effect, Ungate) and len(effect.pin) == 1:
        effect = replace(effect, pin=(max(core.nodes, default=effect.pin[0]),))
    yield effect


@asks
def equal_nominations_not_renewed(effect: Effect, core: Core) -> Iterable[Effect]:
    yield replace(effect, renew=False) if isinstance(effect, Nominate) else effect


@asks
def stale_nominations_kept(effect: Effect, core: Core) -> Iterable[Effect]:
    """The bug keeps nominations found after a restart, and nominations that kube-scheduler has failed to clear."""
    if not (isinstance(effect, Nominate) and effect.node is None and isinstance(core.event, Tick | Synced)):
        yield effect


@asks
def nominations_of_lost_promises_kept(effect: Effect, core: Core) -> Iterable[Effect]:
    if not (isinstance(effect, Nominate) and effect.node is None and not isinstance(core.event, Tick | Synced)):
        yield effect


@asks
def two_members_nominated_for_one_node(effect: Effect, core: Core) -> Iterable[Effect]:
    if isinstance(effect, Nominate) and effect.node is not None:
        others = [core.promised.get(pod.uid) for pod in core.members(effect.group) if pod.uid != effect.uid]
        effect = replace(effect, node=next((node for node in others if node), effect.node))
    yield effect
