"""Bugs to be planted in the core, each in one place, to see whether the campaign finds them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from extender.core.crowd import Crowd
from extender.core.effects import AnswerBind, AnswerFilter, Nominate
from extender.core.events import BindingPosted, FilterCalled, Outcome
from extender.core.gang import Gang
from extender.core.gate import Gate
from extender.core.holds import Holds
from extender.core.ledger import Ledger
from extender.core.news import News
from extender.core.promises import Promises
from extender.core.queue import Queue
from extender.core.releases import Releases
from extender.core.roster import Roster, Stage
from extender.core.state import Posting, State
from extender.core.steering import Steering
from extender.core.stock import Stock
from extender.core.verdicts import Verdicts
from policies.model import GroupKey, Placement, Pod, PodGroup, Requests, Topology

Plant = Callable[[pytest.MonkeyPatch], None]


def quorum_off_by_one(patch: pytest.MonkeyPatch) -> None:
    reached = Gang.reached
    patch.setattr(Gang, "reached", lambda self, stage: reached(self, stage) + (stage is Stage.ARRIVED))


def bound_members_not_counted(patch: pytest.MonkeyPatch) -> None:
    def reached(self: Gang, stage: Stage) -> int:
        return self.roster.reached(stage) - self.roster.reached(Stage.BOUND)

    patch.setattr(Gang, "reached", reached)


def assumed_pods_ignored_in_capacity(patch: pytest.MonkeyPatch) -> None:
    charge = Ledger.charge

    def bound_only(self: Ledger, uid: str, node: str, requests: Requests, *, assumed: bool) -> None:
        charge(self, uid, node, () if assumed else requests, assumed=assumed)

    patch.setattr(Ledger, "charge", bound_only)


def deadline_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Releases, "is_late", lambda self, gang, now: False)


def forgetting_frees_no_room(patch: pytest.MonkeyPatch) -> None:
    def unassume(self: State, gang: Gang, uid: str) -> None:
        gang.doubtful.pop(uid, None)
        gang.unpromise(uid)

    patch.setattr(State, "unassume", unassume)


def calls_answered_twice(patch: pytest.MonkeyPatch) -> None:
    answer = State.answer

    def twice(self: State, call: int, error: str) -> None:
        answer(self, call, error)
        answer(self, call, error)

    patch.setattr(State, "answer", twice)


def stale_nominations_kept(patch: pytest.MonkeyPatch) -> None:
    """Those found after a restart, and those that kube-scheduler has failed to clear."""
    patch.setattr(Steering, "sweep", lambda self, gang, now: None)


def bindings_posted_twice(patch: pytest.MonkeyPatch) -> None:
    post = State.post

    def twice(self: State, pod: Pod, posting: Posting, expires: float, marks: dict[str, str] | None = None) -> None:
        post(self, pod, posting, expires, marks)
        self.out.append(self.out[-1])

    patch.setattr(State, "post", twice)


def gates_off_before_nominations_are_written(patch: pytest.MonkeyPatch) -> None:
    ungate = Steering.ungate

    def at_once(self: Steering, gang: Gang) -> None:
        gang.unshown.clear()
        waiting, gang.unconfirmed = gang.unconfirmed, {}
        ungate(self, gang)
        gang.unconfirmed = waiting

    patch.setattr(Steering, "ungate", at_once)


def required_level_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Gang, "asking", lambda self, pod: replace(pod, topology=Topology()))


def failed_binding_called_a_success(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(State, "answer", lambda self, call, error: self.out.append(AnswerBind(call, "")))


def members_of_an_earlier_podgroup_counted(patch: pytest.MonkeyPatch) -> None:
    count = Roster._count

    def any_life(self: Roster, pod: Pod) -> bool:
        group: PodGroup | None
        group, self._group = self._group, None
        changed = count(self, pod)
        self._group = group
        return changed

    patch.setattr(Roster, "_count", any_life)


def whole_gang_evicted_when_it_loses_a_member(patch: pytest.MonkeyPatch) -> None:
    became_whole = Stock._became_whole

    def forgetful(self: Stock, gang: Gang, now: float) -> None:
        became_whole(self, gang, now)
        gang.complete = False

    patch.setattr(Stock, "_became_whole", forgetful)


def filter_answers_only_once(patch: pytest.MonkeyPatch) -> None:
    asked = Verdicts.filter

    def moody(self: Verdicts, event: FilterCalled, now: float) -> None:
        asked(self, event, now)
        answer = self._state.out[-1]
        if isinstance(answer, AnswerFilter) and answer.passed and event.call % 2 == 0:
            self._state.out[-1] = AnswerFilter(event.call, (), event.candidates, "asked before")

    patch.setattr(Verdicts, "filter", moody)


def member_of_a_gang_preempted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Verdicts, "_is_single", lambda self, uid: True)


def lost_member_keeps_its_gang_placed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Gate, "member_lost", lambda self, gang, uid, now, why="": None)


def old_watch_event_unbinds_a_pod(patch: pytest.MonkeyPatch) -> None:
    put_pod = State.put_pod

    def gullible(self: State, pod: Pod) -> Pod | None:
        self.bound_by_us.pop(pod.uid, None)
        return put_pod(self, pod)

    patch.setattr(State, "put_pod", gullible)


def reasons_kept_to_itself(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(State, "explain", lambda self, gang, reason, now: None)


def refusals_compared_with_the_latest_room(patch: pytest.MonkeyPatch) -> None:
    """Not with the room that there was when a gang was found not to fit."""

    def will_free(self: News, node: str, ledger: Ledger) -> None:
        self.freed[node] = ledger.room(node)

    patch.setattr(News, "will_free", will_free)


def equal_nominations_not_renewed(patch: pytest.MonkeyPatch) -> None:
    start = Steering.start

    def once(self: Steering, gang: Gang, members: list[Pod], nodes: Placement, now: float) -> None:
        out = self._state.out
        before = len(out)
        start(self, gang, members, nodes, now)
        out[before:] = [replace(one, renew=False) if isinstance(one, Nominate) else one for one in out[before:]]

    patch.setattr(Steering, "start", once)


def twins_of_an_index_counted_as_two(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Pod, "identity", property(lambda pod: pod.uid))


def no_room_kept_for_a_lost_member(patch: pytest.MonkeyPatch) -> None:
    lose = Promises.lose

    def lose_all(self: Promises, gang: Gang, uid: str, now: float) -> None:
        complete, gang.complete = gang.complete, True
        lose(self, gang, uid, now)
        gang.complete = complete

    patch.setattr(Promises, "lose", lose_all)


def kept_room_never_lapses(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Promises, "lapse", lambda self, gang, now: self._steering.sweep(gang, now))


def unknown_outcome_taken_for_refused(patch: pytest.MonkeyPatch) -> None:
    posted = Releases.posted

    def sure(self: Releases, event: BindingPosted, now: float) -> None:
        outcome = Outcome.REFUSED if event.outcome is Outcome.UNKNOWN else event.outcome
        posted(self, replace(event, outcome=outcome), now)

    patch.setattr(Releases, "posted", sure)


def release_complete_always_stamped(patch: pytest.MonkeyPatch) -> None:
    post = Releases._post_member

    def boast(self: Releases, gang: Gang, uid: str, rank: int, *, complete: bool) -> None:
        post(self, gang, uid, rank, complete=True)

    patch.setattr(Releases, "_post_member", boast)


def holds_wait_for_the_latest_deadline(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Holds, "first_to_expire", lambda self: max(hold.expires for hold in self.values()))


def crowd_lets_nobody_in(patch: pytest.MonkeyPatch) -> None:
    def leave(self: Crowd, key: GroupKey) -> None:
        for gangs in (self._inside, self._outside):
            gangs.get(key.namespace, {}).pop(key, None)

    patch.setattr(Crowd, "leave", leave)


def refused_nodes_never_forgiven(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Gang, "forgive", lambda self, node: None)


def changed_gangs_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    """What makes the queue look is news of room alone."""
    listen = Queue.listen

    def listen_to_news(self: Queue, now: float) -> None:
        stale, self._state.stale = self._state.stale, {}
        listen(self, now)
        self._state.stale = stale

    patch.setattr(Queue, "listen", listen_to_news)


def changed_nodes_are_no_news(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(State, "node_changed", lambda self, node: None)
