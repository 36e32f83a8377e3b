"""Bugs to be planted in the core, each in one place, to see whether the campaign finds them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from extender.core.effects import AnswerBind, AnswerFilter
from extender.core.events import FilterCalled
from extender.core.gang import Gang
from extender.core.gate import Gate
from extender.core.ledger import Ledger
from extender.core.releases import Releases
from extender.core.roster import Roster, Stage
from extender.core.state import Posting, State
from extender.core.steering import Steering
from extender.core.stock import Stock
from extender.core.verdicts import Verdicts
from policies.model import Pod, PodGroup, Requests, Topology

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
