"""The order of writes: which of them go out, when, and what is reported of them to the core."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.answers import BindingPosted, Enqueued, Nominated, Outcome, ReportFailed, Ungated
from extender.core.effects import AnswerBind, Enqueue, Report, Ungate
from extender.core.events import BindDisconnected
from extender.runtime.requests import OK, Failed, LookAtPod, Response
from extender.runtime.writes import PATIENCE_S
from policies.model import GroupKey
from tests.runtime.driven import World, arrived, binding, nominate, report

SILENT = Response(0, "no answer")
DOWN, REFUSED = Response(503, "503 Down: later"), Response(422, "422 Invalid: no")


def test_of_two_reports_that_wait_for_their_turn_only_the_newer_is_written() -> None:
    world = World(at_once=1)
    world.ask(report("Busy", "busy"), report("Placed", warning=False), report("Forgotten"))
    world.ask(report("Running", warning=False))
    written = []
    while world.sent:
        written.append(world.sent[0].call)
        world.answer(OK)
    assert [call.code for call in written if isinstance(call, Report)] == ["Busy", "Running"]


def test_a_report_waits_until_the_one_before_it_is_written_so_that_the_newest_is_the_last() -> None:
    world = World(at_once=4)
    world.ask(report("Partial"), report("Running", warning=False), report("Other", "other"))
    assert [request.call for request in world.sent] == [report("Partial"), report("Other", "other")]
    world.ask(report("Late"))
    world.answer(OK)
    assert [request.call for request in world.sent] == [report("Other", "other"), report("Late")]
    world.answer(OK)
    world.answer(Response(403, "no"))
    world.ask(report("Again"))
    assert [request.call for request in world.sent] == [report("Again")]


def test_the_core_hears_of_a_report_that_did_not_get_through_unless_a_newer_one_follows() -> None:
    world, key = World(at_once=4), GroupKey("ns", "gang")
    world.ask(report("NoRoom"))
    world.answer(Response(503, "away"))
    assert world.told == [ReportFailed(key)]
    world.ask(report("NoRoom"), report("Running", warning=False))
    world.answer(Response(503, "away"))
    world.answer(Response(403, "the right is missing"))
    assert world.told == [ReportFailed(key), ReportFailed(key)]


def test_a_podgroup_is_taken_up_when_the_api_server_has_time_and_what_fails_is_logged_and_told() -> None:
    world, key = World(), GroupKey("team", "train")
    effect = Enqueue(key, "g")
    world.ask(effect)
    world.answer(Response(429, "busy"))
    world.wake()
    world.answer(OK)
    assert world.told == [Enqueued(key)]
    world.ask(effect)
    actions = world.answer(Response(403, "the right is missing"))
    assert Failed("enqueue", "the right is missing") in actions
    assert world.told == [Enqueued(key), Enqueued(key, "the right is missing")]


def test_many_podgroups_that_are_looked_at_hold_up_no_gang() -> None:
    world = World(at_once=1)
    world.ask(*(Enqueue(GroupKey("team", f"train-{at}"), "g") for at in range(200)), nominate("n1"))
    looked_at = 0
    while isinstance(world.sent[0].call, Enqueue):
        looked_at += 1
        world.answer(OK)
    assert looked_at < 50


def test_a_nomination_that_a_newer_one_replaces_is_not_reported() -> None:
    world = World()
    world.ask(nominate("n1"))
    world.ask(nominate(None))
    world.ask(nominate("n2"))
    assert len(world.sent) == 1
    world.answer(OK)
    assert [request.call for request in world.sent] == [nominate("n2")]
    world.answer(OK)
    assert world.told == [Nominated("u", "n2")]


def test_a_renewal_clears_before_it_sets() -> None:
    world = World()
    world.ask(nominate("n1", renew=True))
    assert world.sent[0].call == nominate(None)
    world.answer(OK)
    assert world.sent[0].call == nominate("n1")
    assert world.told == []


def test_a_pod_that_only_plugins_refused_is_nominated_and_cleared_before_it_is_nominated() -> None:
    world = World()
    world.ask(replace(nominate("n1"), parked=True))
    for node in ("n1", None, "n1"):
        assert world.told == []
        assert world.sent[0].call == replace(nominate(node), parked=True)
        world.answer(OK)
    assert world.told == [Nominated("u", "n1")]


def test_a_write_that_failed_goes_out_again_after_a_pause_and_is_given_up_in_the_end() -> None:
    world = World()
    world.ask(nominate("n1"))
    tries = 1
    while world.sent:
        world.answer(DOWN)
        if world.driver.next_wake() is not None:
            world.wake()
            tries += 1
    assert world.told == [Nominated("u", "n1", "503 Down: later")]
    assert tries > 10
    assert world.now == pytest.approx(10.0)


def test_a_write_to_a_pod_that_is_there_is_repeated_although_it_is_answered_404() -> None:
    world = World()
    world.ask(nominate("n1"))
    world.answer(Response(404, "404 NotFound: no such path"))
    assert isinstance(world.sent[0].call, LookAtPod)
    world.answer(Response(200, node=""))
    world.wake()
    assert [request.call for request in world.sent] == [nominate("n1")]
    assert world.told == []
    world.answer(Response(404, "404 NotFound: pods u not found"))
    world.answer(Response(200, node=None))
    assert world.told == [Nominated("u", "n1", "")]


def test_time_in_which_the_api_server_answers_nobody_does_not_count_for_a_write() -> None:
    world = World(at_once=2)
    world.ask(Ungate("u", "team", "u", None))
    for _ in range(5):
        _go_unanswered(world, 5.0)
    assert world.told == []
    began = world.now
    while not any(isinstance(event, Ungated) for event in world.told):
        world.ask(report("Placed"))
        world.answer(OK, 1)
        _go_unanswered(world, 1.0)
    assert world.told == [Ungated("u", "no answer")]
    assert world.now - began == pytest.approx(PATIENCE_S, abs=2.0)


def test_a_write_is_given_up_in_the_end_though_nobody_else_is_answered_either() -> None:
    world = World()
    world.ask(nominate("n1"))
    while world.sent:
        _go_unanswered(world, 5.0)
    assert world.told == [Nominated("u", "n1", "no answer")]
    assert world.now == pytest.approx(120.0, abs=5.0)


def _go_unanswered(world: World, seconds: float) -> None:
    """The write that was sent last, and its pause is over."""
    world.now += seconds
    world.answer(SILENT)
    if world.driver.next_wake() is not None:
        world.wake()


def test_a_pause_keeps_its_turn_and_hands_it_on_in_the_end() -> None:
    world = World(at_once=1)
    world.ask(nominate("n1", "a"), nominate("n1", "b"))
    world.answer(DOWN)
    assert world.sent == []
    world.wake()
    world.answer(OK)
    assert [request.call for request in world.sent] == [nominate("n1", "b")]


def test_the_last_binding_of_a_release_goes_before_bindings_that_wait() -> None:
    world = World(at_once=1)
    for call in (1, 2, 3):
        arrived(world, call)
    last = binding(3, "c", {"muster.dev/release-complete": "true"})
    world.ask(nominate("n1", "x"), binding(1, "a"), binding(2, "b"), last)
    world.answer(OK)
    assert world.sent[0].call == last


def test_a_binding_that_nobody_waits_for_any_more_is_not_posted() -> None:
    world = World(at_once=1)
    arrived(world, 1)
    world.ask(nominate("n1", "x"), binding(1))
    world.take(world.driver.handle(BindDisconnected(1), world.now))
    world.answer(OK)
    assert world.sent == []
    assert isinstance(world.told[-2], BindingPosted | Nominated)
    outcomes = [event.outcome for event in world.told if isinstance(event, BindingPosted)]
    assert outcomes == [Outcome.REFUSED]


def test_a_binding_in_doubt_is_settled_by_a_look_at_the_pod() -> None:
    world = World()
    arrived(world, 1)
    world.ask(binding(1))
    world.answer(Response(0, "no answer"))
    assert world.sent[0].call == LookAtPod("u", "team", "u")
    world.answer(Response(200, node="n1"))
    assert world.told[-1] == BindingPosted("u", Outcome.DONE)


def test_a_call_is_answered_once_and_never_after_it_was_given_up() -> None:
    world = World()
    for call in (1, 2):
        arrived(world, call)
    world.take(world.driver.handle(BindDisconnected(2), world.now))
    answers = world.ask(AnswerBind(1), AnswerBind(1), AnswerBind(2))
    assert answers == [AnswerBind(1)]


def test_what_follows_from_the_end_of_a_write_comes_after_the_effects_before_it() -> None:
    """A Binding that is refused at once must not let the core act before it has been heard out."""
    world = World()
    world.ask(binding(7), Ungate("u", "team", "u", GroupKey("team", "train")))
    assert [type(request.call) for request in world.sent] == [Ungate]
    assert world.told == [BindingPosted("u", Outcome.REFUSED, "kube-scheduler no longer waits for this Binding")]


def test_reports_of_one_gang_do_not_pile_up_while_the_api_server_is_away() -> None:
    world = World(at_once=1)
    for number in range(10_000):
        world.ask(report(f"Code{number}", warning=number % 2 == 0))
    assert len(world.driver._under_way) <= 3
    calls = []
    while world.sent:
        calls.append(world.sent[0].call)
        world.answer(OK)
    assert [call.code for call in calls if isinstance(call, Report)] == ["Code0", "Code9999"]
