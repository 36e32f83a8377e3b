"""When waiting workloads are expected to start, and where that is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.core.effects import Report
from extender.core.ledger.expectations import Expectation
from extender.core.limits import Limits, Preempts
from extender.observe.views import view
from policies.model import EvictionTerms, Pod, RunTerms, Topology
from policies.model.queues import LocalQueue, QueueObject, Strategy
from policies.quota.history import Sampling
from tests.builders import cluster, gang, key, single
from tests.core.backfilling import Backlog
from tests.core.queues import cluster_queue, flavor, in_queue, show
from tests.core.script import Script
from tests.explaining import explain

ON = Limits(forecast_s=60)
QUEUE = "team"


def expected(script: Script, name: str) -> float | None:
    """Seconds from now to the expected start."""
    expectation = script.core.state.expectations.of.get(key(name))
    return None if expectation is None else expectation.start - script.now


def reported(script: Script, name: str) -> list[str]:
    """The messages that were reported for the workload."""
    return [effect.message for effect in script.effects if isinstance(effect, Report) and effect.key == key(name)]


def test_a_start_follows_the_ends_that_make_room() -> None:
    script = Backlog(*cluster("a: 2x8"), limits=ON)
    script.start("first", 1, 1000)
    script.start("second", 1, 3000)
    script.wait("big", 2, 500)
    script.wait("small", 1, 100)
    script.advance(61)
    assert expected(script, "big") == pytest.approx(3000 - 61, abs=10)
    assert expected(script, "small") == pytest.approx(1000 - 61, abs=10)
    shown = view(script.core.state, script.gang("big"), script.now).expected
    assert shown is not None
    assert (shown.after, shown.rests_on) == ("default/second", "its author's estimate of 50 min")
    assert shown.earliest < shown.start < shown.latest
    assert (
        "ends; rests on its author's estimate of 50 min"
        in explain(script.core.state, script.gang("big"), script.now).expected_start
    )


def test_what_rests_on_an_unknown_end_is_said_to_be_unknown() -> None:
    script = Backlog(*cluster("a: 1x8"), limits=ON)
    script.start("first", 1)
    script.wait("next", 1, 100)
    script.advance(61)
    assert expected(script, "next") is None
    text = explain(script.core.state, script.gang("next"), script.now).expected_start
    assert text.startswith("expected start unknown: how long workloads before it take is not known")
    assert "muster.dev/expected-duration" in text


def test_what_is_larger_than_the_cluster_is_said_to_start_never() -> None:
    script = Backlog(*cluster("a: 1x8"), limits=ON)
    script.start("first", 1)
    script.wait("large", 2, 100)
    script.advance(61)
    explanation = explain(script.core.state, script.gang("large"), script.now)
    assert explanation.expected_start == "expected start: never, as its demands and the cluster are now"
    assert any("add nodes" in remedy for remedy in explanation.remedies)


def test_a_required_clique_waits_for_one_clique() -> None:
    script = Backlog(*cluster("a: 2x8", "b: 2x8"), limits=ON)
    ends: dict[str, float] = {}
    for number, runs_s in enumerate((1000.0, 2000.0, 3000.0, 4000.0)):
        pods = script.start(f"run-{number}", 1, runs_s)
        clique = script.pods[pods[0].uid].node or ""
        ends[clique[0]] = max(ends.get(clique[0], 0.0), runs_s)
    script.wait("pair", 2, 500, topology=Topology("clique"))
    script.advance(61)
    assert expected(script, "pair") == pytest.approx(min(ends.values()) - 61, abs=10)


def test_the_order_of_priorities_decides_who_gets_the_room() -> None:
    script = Backlog(*cluster("a: 1x8"), limits=ON)
    script.start("first", 1, 1000)
    script.wait("low", 1, 500)
    script.wait("high", 1, 700, priority=10)
    script.advance(61)
    assert expected(script, "high") == pytest.approx(1000 - 61, abs=10)
    assert expected(script, "low") == pytest.approx(1700 - 61, abs=10)


def test_a_workload_for_which_others_are_evicted_is_expected_no_more_when_they_would_have_ended() -> None:
    script = Backlog(*cluster("a: 1x8"), limits=replace(ON, preemption=Preempts.ON))
    runs = [
        replace(pod, run=RunTerms(1000), eviction=EvictionTerms(min_runtime_s=200))
        for pod in gang("first", 1, gpus=8, created=script.now)
    ]
    script.see(runs)
    script.run(runs)
    script.wait("high", 1, 500, priority=10)
    script.wait("low", 1, 500)
    script.advance(61)
    assert expected(script, "high") == pytest.approx(1000 - 61, abs=10)
    script.advance(150)
    assert script.evicted
    assert expected(script, "high") is None
    script.advance(61)
    assert expected(script, "high") is None


def _queued(strategy: Strategy) -> Backlog:
    script = Backlog(*cluster("-: 4x8"), limits=ON)
    queue = replace(cluster_queue(QUEUE, {"gpus": 16}), strategy=strategy)
    show(script, flavor("gpus"), queue)
    for name, size, runs_s in (("first", 1, 1000), ("second", 1, 3000), ("head", 2, 500), ("behind", 1, 100)):
        pods = [replace(pod, run=RunTerms(runs_s), created=script.now) for pod in in_queue(name, size, gpus=8)]
        script.see(pods)
        script.run(pods)
    script.advance(61)
    return script


def test_quota_is_waited_for_as_room_is() -> None:
    script = _queued(Strategy.BEST_EFFORT)
    assert expected(script, "head") == pytest.approx(3000 - 61, abs=10)
    assert expected(script, "behind") == pytest.approx(1000 - 61, abs=10)


def test_nothing_passes_the_head_of_a_strict_queue() -> None:
    script = _queued(Strategy.STRICT)
    assert expected(script, "head") == pytest.approx(3000 - 61, abs=10)
    assert expected(script, "behind") == pytest.approx(3500 - 61, abs=10)


def _backlog(limits: Limits, *things: QueueObject) -> Backlog:
    """Two nodes, with quota for both, on each of which a gang of the queue ``one`` runs: for 1,000 and for 3,000 s."""
    script = Backlog(*cluster("-: 2x8"), limits=limits)
    show(script, flavor("gpus"), *things)
    for name, runs_s in (("first", 1000.0), ("second", 3000.0)):
        script.run(_wait(script, name, "one", runs_s))
    return script


def _wait(script: Backlog, name: str, queue: str, runs_s: float = 500.0, **facts: Any) -> list[Pod]:
    facts = {"created": script.now} | facts
    pods = [replace(pod, run=RunTerms(runs_s)) for pod in in_queue(name, 1, queue, gpus=8, **facts)]
    script.see(pods)
    return pods


@pytest.mark.parametrize(("ageing", "first"), [(0, "high"), (100, "old")])
def test_age_raises_a_workload_as_its_queue_says(ageing: int, first: str) -> None:
    script = _backlog(ON, cluster_queue("one", {"gpus": 16}, ageing=ageing))
    _wait(script, "old", "one", created=0.0)
    _wait(script, "high", "one", created=10 * 86_400.0, priority=5)
    script.advance(61)
    starts = {name: expected(script, name) for name in ("old", "high")}
    assert starts.pop(first) == pytest.approx(1000 - 61, abs=10)
    assert next(iter(starts.values())) == pytest.approx(1500 - 61, abs=10)


@pytest.mark.parametrize(("fair", "quota", "first"), [(False, 0, "older"), (True, 0, "younger"), (False, 8, "younger")])
def test_the_order_between_queues_decides_who_gets_quota(*, fair: bool, quota: int, first: str) -> None:
    """Queue ``one`` uses all: of two that borrow the older workload is first, but for shares, and who need not is."""
    queues = (cluster_queue(name, {"gpus": quota}, cohort="all") for name in ("one", "two"))
    lender = cluster_queue("lender", {"gpus": 16 - 2 * quota}, cohort="all")
    script = _backlog(replace(ON, fair_sharing=fair), *queues, lender)
    _wait(script, "older", "one")
    script.advance(1)
    _wait(script, "younger", "two")
    script.advance(60)
    starts = {name: expected(script, name) for name in ("older", "younger")}
    assert starts.pop(first) == pytest.approx(1000 - 61, abs=10)
    assert next(iter(starts.values())) == pytest.approx(1500 - 61, abs=10)


def test_the_local_queue_that_has_used_less_comes_first() -> None:
    limits = replace(ON, past_usage=Sampling(half_life_s=3600.0, interval_s=300.0))
    script = _backlog(
        limits, cluster_queue("one", {"gpus": 16}, by_past_usage=True), LocalQueue("default", "new", "one")
    )
    _wait(script, "older", "one")
    script.advance(1)
    _wait(script, "younger", "new")
    script.advance(60)
    assert expected(script, "younger") == pytest.approx(1000 - 61, abs=10)
    assert expected(script, "older") == pytest.approx(1500 - 61, abs=10)


def test_workloads_that_ask_for_the_same_quota_start_one_after_the_other() -> None:
    script = Backlog(*cluster("-: 1x8"), limits=ON)
    show(script, flavor("gpus"), cluster_queue(QUEUE, {"gpus": 8}))
    for name, runs_s in (("first", 1000), ("second", 500), ("third", 500)):
        pods = [replace(pod, run=RunTerms(runs_s), created=script.now) for pod in in_queue(name, 1, gpus=8)]
        script.see(pods)
        script.run(pods)
    script.advance(61)
    assert expected(script, "second") == pytest.approx(1000 - 61, abs=10)
    assert expected(script, "third") == pytest.approx(1500 - 61, abs=10)


def test_a_restart_expects_the_same() -> None:
    script = Backlog(*cluster("a: 2x8"), limits=ON)
    script.start("first", 2, 1000)
    script.wait("next", 2, 500)
    script.advance(61)
    again = Backlog(*cluster("a: 2x8"), *script.pods.values(), now=script.now, limits=ON)
    again.advance(61)
    before, after = expected(script, "next"), expected(again, "next")
    assert before is not None
    assert after == pytest.approx(before - 61, abs=10)


def test_past_starts_tell_the_span() -> None:
    script = Backlog(*cluster("a: 1x8"), limits=ON)
    running = script.start("run", 1, 1000)
    for number in range(12):
        name = f"next-{number}"
        pods = script.wait(name, 1, 1000)
        script.advance(700)
        script.end(running)
        script.run(pods)
        running = pods
    errors = script.core.state.expectations.errors[""]
    assert len(errors) == 12
    assert all(error == pytest.approx(0.7, abs=0.05) for error in errors)
    script.wait("last", 1, 1000)
    script.advance(61)
    assert script.core.state.expectations.of[key("last")].spread == pytest.approx(1 / 0.7, abs=0.1)


def test_a_report_names_the_expected_start_and_none_is_made_for_it() -> None:
    script = Backlog(*cluster("a: 1x8"), limits=ON)
    script.start("first", 1, 10_000)
    script.wait("next", 1, 100)
    script.advance(3000)
    reports = reported(script, "next")
    assert "; expected " in reports[-1]
    script.advance(6000)
    assert reported(script, "next") == reports


@pytest.mark.parametrize(
    ("later_s", "start", "changes"), [(30, 5000, False), (60, 1050, False), (60, 1090, False), (60, 1200, True)]
)
def test_objects_name_another_start_seldom(later_s: float, start: float, *, changes: bool) -> None:
    script = Backlog(*cluster("a: 1x8"), limits=ON)
    script.start("first", 1, 10_000)
    script.wait("next", 1, 100)
    expectations = script.core.state.expectations
    before, now = Expectation(1000, 0), Expectation(start, later_s)
    expectations.stated = {key("next"): before}
    expectations.renew({key("next"): now}, {})
    assert expectations.of[key("next")] is now
    assert expectations.stated[key("next")] is (now if changes else before)


def test_a_forecast_is_not_made_again_while_nothing_changes() -> None:
    """No cycle runs for it, however many wait. After a change one runs, a minute after the last one."""
    script = Backlog(*cluster("a: 2x8"), limits=ON)
    running = script.start("first", 2, 10_000)
    for number in range(20):
        script.wait(f"next-{number}", 1, 1000)
    script.advance(121)
    passes, starts = script.core.passes, script.core.state.expectations.of
    assert len(starts) == 20
    script.advance(3600)
    assert script.core.passes == passes
    assert script.core.state.expectations.of is starts
    for pod in running:
        script.change(script.pods[pod.uid], run=RunTerms(20_000))
    script.advance(0.1)
    assert script.core.passes[0] == passes[0] + 1
    assert expected(script, "next-0") == pytest.approx(20_000 - 3721, abs=20)


def test_an_end_that_does_not_come_moves_the_starts_after_it() -> None:
    script = Backlog(*cluster("a: 1x8"), limits=ON)
    script.start("first", 1, 1000)
    script.wait("next", 1, 500)
    script.advance(121)
    assert expected(script, "next") == pytest.approx(1000 - 121, abs=10)
    script.advance(880)
    assert expected(script, "next") == pytest.approx(60, abs=10)


def test_a_start_moves_with_the_time_until_the_run_before_it_begins() -> None:
    script = Backlog(*cluster("a: 1x8"), limits=replace(ON, forecast_s=5))
    first = script.wait("first", 1, 1000)
    script.wait("next", 1, 500)
    for _ in range(3):
        script.advance(5)
        assert expected(script, "next") == pytest.approx(1000, abs=5)
    script.run(first)
    script.advance(100)
    assert expected(script, "next") == pytest.approx(900, abs=5)


def test_the_end_of_a_pod_in_no_gang_counts_from_its_begin() -> None:
    alone = single("alone", gpus=8, node="a-0", run=RunTerms(1000))
    script = Backlog(*cluster("a: 1x8"), alone, limits=ON)
    script.wait("next", 1, 500)
    script.advance(61)
    assert expected(script, "next") == pytest.approx(1000, abs=61)
    script.change(alone, began=script.now - 600)
    script.advance(61)
    assert expected(script, "next") == pytest.approx(400 - 61, abs=5)


def test_what_objects_name_follows_when_the_wait_has_become_short() -> None:
    """The start has moved by 5 minutes: less than a tenth of the wait at first."""
    script = Backlog(*cluster("a: 1x8"), limits=ON)
    running = script.start("first", 1, 10_000)
    script.wait("next", 1, 500)
    script.advance(121)
    stated = script.core.state.expectations.stated
    assert stated[key("next")].start == pytest.approx(11_000, abs=5)
    script.change(script.pods[running[0].uid], run=RunTerms(10_300))
    script.advance(61)
    assert script.core.state.expectations.stated[key("next")].start == pytest.approx(11_000, abs=5)
    script.advance(7200)
    assert script.core.state.expectations.stated[key("next")].start == pytest.approx(11_300, abs=5)


@given(
    st.lists(st.integers(2, 40), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 20)), min_size=1, max_size=6),
)
@settings(max_examples=15, deadline=None)
def test_with_exact_durations_starts_come_when_they_are_expected(
    running: list[int], waiting: list[tuple[int, int]]
) -> None:
    """The referee goes from end to end: who is next in line and has room starts, and then who is behind."""
    nodes = len(running)
    script = Backlog(*cluster(f"a: {nodes}x8"), limits=ON)
    durations, ends = script.core.state.durations, list[tuple[float, int]]()
    for number, hundreds in enumerate(running):
        script.start(f"run-{number}", 1, 100.0 * hundreds)
    for number, (size, hundreds) in enumerate(waiting):
        script.wait(f"wait-{number}", min(size, nodes), 100.0 * hundreds)
    script.advance(61)
    for number in range(nodes):
        end = durations.end(script.gang(f"run-{number}"), script.now)
        assert end is not None
        ends.append((end.at, 1))
    left = {f"wait-{number}": (min(size, nodes), 100.0 * hundreds) for number, (size, hundreds) in enumerate(waiting)}
    starts = {name: script.core.state.expectations.of[key(name)].start for name in left}
    while left:
        now = min(end for end, _ in ends)
        ends = [(end, size) for end, size in ends if end > now]
        for name, (size, runs_s) in list(left.items()):
            if sum(used for _, used in ends) + size <= nodes:
                assert starts[name] == now, name
                ends.append((now + runs_s, size))
                del left[name]
