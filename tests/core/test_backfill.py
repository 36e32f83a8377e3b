"""Reservations for workloads that cannot start, and what starts beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import inf
from typing import Any

import pytest

from extender.core.ledger.claims import ClaimState
from extender.core.limits import Limits
from policies.model import Pod, Requests, RunTerms
from policies.model.queues import Strategy
from tests.builders import cluster, gang, key, single
from tests.core.backfilling import AFTER_S, Backlog
from tests.core.queues import cluster_queue, flavor, in_queue, show
from tests.core.sliced import step


def test_what_ends_in_time_starts_in_reserved_room_and_nothing_else_does() -> None:
    script = Backlog(*cluster("a: 4x8"))
    first, second = script.start("first", 2, 1000), script.start("second", 2, 3000)
    began = script.now
    big = script.wait("big", 4, 500)
    assert script.reservation("big") is None
    script.advance(AFTER_S + 1)
    reservation = script.reservation("big")
    assert reservation is not None
    assert reservation.start_by == pytest.approx(began + 3000, abs=5)
    assert sorted(reservation.rooms) == ["a-0", "a-1", "a-2", "a-3"]
    assert "after default/second has ended" in script.message("big")
    script.advance(900)
    script.end(first)
    long, short = script.wait("long", 1, 3000), script.wait("short", 1, 1000)
    assert script.planned(short[0])
    assert not script.planned(long[0])
    assert "room on 4 nodes is reserved for default/big" in script.message("long")
    script.run(short)
    script.advance(900)
    script.end(short)
    assert not script.planned(long[0])
    script.advance(1100)
    script.end(second)
    assert all(map(script.planned, big))
    script.run(big)
    assert script.reservation("big") is None
    assert script.last_written("big") is None


def test_without_durations_the_nodes_are_drained() -> None:
    script = Backlog(*cluster("a: 2x8"))
    first, second = script.start("first", 1), script.start("second", 1)
    big = script.wait("big", 2)
    script.advance(AFTER_S + 1)
    reservation = script.reservation("big")
    assert reservation is not None
    assert reservation.start_by == inf
    script.end(first)
    small = script.wait("small", 1, 10)
    assert not script.planned(small[0])
    script.end(second)
    assert all(map(script.planned, big))


def test_a_node_that_comes_free_earlier_replaces_one_that_is_being_drained() -> None:
    script = Backlog(*cluster("a: 3x8"))
    first, second, third = (script.start(name, 1) for name in ("first", "second", "third"))
    big = script.wait("big", 2)
    script.advance(AFTER_S + 1)
    reservation = script.reservation("big")
    assert reservation is not None
    assert set(reservation.rooms) == {*script.bound(second), *script.bound(third)}, (
        "the youngest are likely to end first"
    )
    small = script.wait("small", 1, 10)
    script.end(first)
    assert not script.planned(small[0])
    script.end(third)
    assert all(map(script.planned, big))
    assert script.bound(second)


def test_a_node_that_comes_free_early_brings_the_start_forward() -> None:
    script = Backlog(*cluster("a: 3x8"))
    script.start("first", 1, 40_000)
    script.start("second", 1, 50_000)
    third = script.start("third", 1, 90_000)
    script.wait("big", 2)
    script.advance(AFTER_S + 1)
    before = script.reservation("big")
    assert before is not None
    script.end(third)
    after = script.reservation("big")
    assert after is not None
    assert after.start_by < before.start_by
    assert after.since == before.since


def test_a_higher_priority_uses_reserved_room_and_gets_the_place() -> None:
    script = Backlog(*cluster("a: 2x8"))
    first = script.start("first", 1, 1000)
    script.start("second", 1, 2000)
    script.wait("big", 2, 500)
    script.advance(AFTER_S + 1)
    assert script.reservation("big") is not None
    urgent = script.wait("urgent", 2, 500, priority=10)
    script.advance(AFTER_S + 1)
    assert script.reservation("urgent") is not None
    assert script.reservation("big") is None
    script.end(first)
    higher = script.wait("higher", 1, 5000, priority=20)
    assert script.planned(higher[0])
    assert not script.planned(urgent[0])


def test_an_overrun_moves_the_start_and_nothing_is_stopped() -> None:
    script = Backlog(*cluster("a: 2x8"))
    script.start("first", 2, 1000)
    script.wait("big", 2, 500)
    script.advance(AFTER_S + 1)
    before = script.reservation("big")
    assert before is not None
    script.advance(1200)
    after = script.reservation("big")
    assert after is not None
    assert after.start_by > script.now
    assert after.since == before.since
    assert not script.evicted


def test_a_reservation_ends_with_its_workload_and_the_next_one_gets_it() -> None:
    script = Backlog(*cluster("a: 2x8"))
    script.start("first", 2, 1000)
    big = script.wait("big", 2, 500)
    script.wait("next", 2, 500)
    script.advance(AFTER_S + 2)
    assert script.reservation("big") is not None
    assert script.reservation("next") is None
    script.gone(*(script.pods[pod.uid] for pod in big))
    script.advance(2)
    assert script.reservation("big") is None
    assert script.reservation("next") is not None


def test_a_restart_keeps_it() -> None:
    script = Backlog(*cluster("a: 2x8"))
    script.start("first", 2, 1000)
    script.wait("big", 2, 500)
    script.advance(AFTER_S + 1)
    before = script.reservation("big")
    again = Backlog(*cluster("a: 2x8"), *script.pods.values(), now=script.now)
    after = again.reservation("big")
    assert before is not None
    assert after is not None
    assert after.rooms == before.rooms
    assert after.start_by == pytest.approx(before.start_by, abs=1)


def a_gang_is_bound_later(script: Backlog) -> Iterator[None]:
    late = script.wait("late", 1, 1000)
    yield
    script.run(late)


def an_estimate_is_corrected(script: Backlog) -> Iterator[None]:
    (pod,) = script.start("late", 1, 1000)
    yield
    script.change(script.pods[pod.uid], run=RunTerms(2000))


def a_kubelet_takes_a_single_pod_up_later(script: Backlog) -> Iterator[None]:
    pod = replace(single("alone", gpus=8, node="a-1", phase="Running"), run=RunTerms(1000))
    script.see(pod)
    yield
    script.change(pod, began=script.now)


def a_queue_allows_longer_runs(script: Backlog) -> Iterator[None]:
    team = replace(cluster_queue("team", {"gpus": 16}), max_run_s=1000.0)
    show(script, flavor("gpus"), team)
    pods = in_queue("late", 1, gpus=8, created=script.now)
    script.see(pods)
    script.run(pods)
    yield
    show(script, replace(team, max_run_s=2000.0))
    script.advance(1)


MOVES = (
    a_gang_is_bound_later,
    an_estimate_is_corrected,
    a_kubelet_takes_a_single_pod_up_later,
    a_queue_allows_longer_runs,
)


@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.__name__)
def test_a_restart_reserves_as_much_after_an_expected_end_has_moved(move: Callable[[Backlog], Iterator[None]]) -> None:
    """Seed 103000423: claims stayed as before, so that only a restart divided the room by the ends of now."""
    limits = Limits(reserve_after_s=1.0)
    script = Backlog(*cluster("a: 2x8"), limits=limits)
    script.start("first", 1, 1000)
    steps = move(script)
    next(steps)
    script.wait("big", 2, 500)
    script.advance(2)
    assert script.reservation("big") is not None
    before = awaited(script)
    script.advance(10)
    next(steps, None)
    after = awaited(script)
    assert after != before
    assert awaited(Backlog(*cluster("a: 2x8"), *script.pods.values(), now=script.now, limits=limits)) == after


def test_a_restart_reserves_as_much_after_an_estimate_of_a_gang_that_waits_was_corrected() -> None:
    """The gang would have ended before another one begins on its node."""
    limits = Limits(reserve_after_s=1.0, reservations=2)
    script = Backlog(*cluster("a: 2x8"), limits=limits)
    script.start("first", 2, 1000)
    (pod,) = script.wait("sooner", 1, 500)
    script.wait("big", 2, 500)
    script.advance(AFTER_S + 2)
    assert script.reservation("big") is not None
    before = awaited(script)
    script.change(script.pods[pod.uid], run=RunTerms(5000))
    after = awaited(script)
    assert after != before
    assert awaited(Backlog(*cluster("a: 2x8"), *script.pods.values(), now=script.now, limits=limits)) == after


def awaited(script: Backlog) -> dict[str, Requests]:
    """The room that is kept, by node."""
    return {claim.node: claim.requests for _, claim in script.core.state.claims if claim.state is ClaimState.AWAITED}


def test_nothing_is_reserved_by_default() -> None:
    script = Backlog(*cluster("a: 1x8"), limits=Limits())
    script.start("first", 1, 1000)
    script.wait("big", 1, 500)
    script.advance(1e6)
    assert not script.written


@pytest.mark.parametrize(("facts", "passes"), [({}, False), ({"stays": True}, True), ({"priority": 10}, True)])
def test_single_pods_are_kept_off_and_those_of_daemon_sets_never(facts: dict[str, Any], *, passes: bool) -> None:
    script = Backlog(*cluster("a: 2x8"))
    first = script.start("first", 1, 1000)
    script.start("second", 1, 2000)
    script.wait("big", 2, 500)
    script.advance(AFTER_S + 1)
    script.end(first)
    pod = single("agent", gpus=1, **facts)
    script.see(pod)
    assert script.filter(pod, ["a-0"]) == (("a-0",) if passes else ())
    script.bind(pod, "a-0")
    assert (pod.uid in script.bindings) is passes


def test_a_single_pod_that_ends_in_time_is_let_in() -> None:
    script = Backlog(*cluster("a: 2x8"))
    first = script.start("first", 1, 1000)
    script.start("second", 1, 2000)
    script.wait("big", 2, 500)
    script.advance(AFTER_S + 1)
    script.end(first)
    pod = replace(single("short", gpus=1), run=RunTerms(deadline_s=100))
    script.see(pod)
    assert script.filter(pod, ["a-0"]) == ("a-0",)


def test_a_replaced_node_moves_the_reservation() -> None:
    script = Backlog(*cluster("a: 2x8"), *cluster("b: 2x8"))
    script.start("first", 2, 1000)
    script.start("second", 2, 1500)
    script.wait("big", 2, 500)
    script.advance(AFTER_S + 1)
    reservation = script.reservation("big")
    assert reservation is not None
    script.drop(*reservation.rooms)
    script.advance(AFTER_S + 61)
    after = script.reservation("big")
    assert after is not None
    assert not after.rooms.keys() & reservation.rooms.keys()


def test_many_get_one_each_where_the_limit_lets_them() -> None:
    script = Backlog(*cluster("a: 2x8"), limits=Limits(reserve_after_s=AFTER_S, reservations=100))
    script.start("first", 2, 1000)
    script.wait("big", 2, 500)
    script.wait("next", 2, 500)
    script.advance(AFTER_S + 61)
    big, following = script.reservation("big"), script.reservation("next")
    assert big is not None
    assert following is not None
    assert following.start_by == pytest.approx(big.start_by + 500, abs=1)


def test_room_that_several_reserve_is_open_to_what_ends_before_the_first_of_them() -> None:
    script = Backlog(*cluster("a: 2x8"), limits=Limits(reserve_after_s=AFTER_S, reservations=100))
    first = script.start("first", 1, 1000)
    script.start("second", 1, 2000)
    script.wait("big", 2, 500)
    script.wait("next", 2, 500)
    script.advance(AFTER_S + 61)
    big, following = script.reservation("big"), script.reservation("next")
    assert big is not None
    assert following is not None
    assert following.start_by > big.start_by
    script.end(first)
    for name, runs_s in (("between", following.start_by - script.now - 100), ("long", 9000)):
        pod = replace(single(name, gpus=1), run=RunTerms(runs_s))
        script.see(pod)
        assert script.filter(pod, ["a-0"]) == ()
        assert not script.planned(script.wait(f"gang-{name}", 1, runs_s)[0])
    assert script.planned(script.wait("short", 1, 1000)[0])


def test_each_that_waits_has_an_expected_start() -> None:
    script = Backlog(*cluster("a: 2x8"), limits=Limits(reserve_after_s=AFTER_S, forecast_s=60))
    began = script.now
    script.start("first", 1, 1000)
    script.start("second", 1, 3000)
    script.wait("big", 2, 500)
    script.wait("small", 1, 5000)
    script.wait("endless", 2)
    script.wait("last", 1, 100)
    script.advance(200)
    of = script.core.state.expectations.of
    assert of[key("big")].start == pytest.approx(began + 3000, abs=10)
    assert of[key("big")].after == key("second")
    assert of[key("last")].start == pytest.approx(began + 1000, abs=10)
    assert of[key("small")].start == pytest.approx(began + 3500, abs=10)
    assert of[key("endless")].start > began + 8000
    assert of[key("small")].rests_on == "its author's estimate of 8 min 20 s"


def test_a_gang_that_is_held_gives_its_reservation_back() -> None:
    script = Backlog(*cluster("a: 2x8"))
    script.start("first", 2, 1000)
    big = script.wait("big", 2, 500)
    script.advance(AFTER_S + 1)
    assert script.reservation("big") is not None
    script.change(big[0], gates=("example.com/wait",))
    script.advance(2)
    assert script.reservation("big") is None


def test_a_single_pod_is_kept_off_although_kube_scheduler_knows_earlier_that_room_has_come_free() -> None:
    script = Backlog(*cluster("a: 1x8"))
    script.start("first", 1, 1000)
    script.wait("big", 1, 500)
    script.advance(AFTER_S + 1)
    assert script.reservation("big") is not None
    pod = single("agent", gpus=1)
    script.see(pod)
    assert script.filter(pod, ["a-0"]) == ()
    short = replace(single("short", gpus=1), run=RunTerms(100))
    script.see(short)
    assert script.filter(short, ["a-0"]) == ("a-0",)


def test_no_more_is_reserved_of_a_node_than_it_has() -> None:
    script = Backlog(*cluster("a: 2x8"), limits=Limits(reserve_after_s=AFTER_S, reservations=100))
    script.start("first", 1, 1000)
    second = script.start("second", 1, 3000)
    script.wait("low", 2, 500)
    script.advance(AFTER_S + 1)
    assert script.reservation("low") is not None
    script.end(second)
    script.wait("high", 2, 500, priority=10)
    script.advance(AFTER_S + 61)
    high = script.reservation("high")
    assert high is not None
    assert sorted(high.rooms) == ["a-0", "a-1"]
    assert all(wanted["nvidia.com/gpu"] == 8 for wanted in high.rooms.values())


@pytest.mark.parametrize("slices", [1, 4])
def test_a_reservation_may_end_between_two_slices_of_a_review(slices: int) -> None:
    """While no room is found for the first workload of a review, the only reservation of its tree ends."""
    script = Backlog(*cluster("a: 2x8"), limits=Limits(reserve_after_s=AFTER_S, slice_units=1))
    script.start("first", 2, 1000)
    low = script.wait("low", 1, 500)
    script.advance(AFTER_S + 1)
    assert script.reservation("low") is not None
    script.wait("too-large", 3, 500, priority=10)
    script.wait("next", 2, 500, priority=5)
    script.advance(AFTER_S - 1)
    script.now += 2
    for _ in range(slices):
        step(script)
    script.gone(script.pods[low[0].uid])
    script.advance(AFTER_S)
    assert script.reservation("low") is None
    assert script.reservation("next") is not None


@pytest.mark.parametrize(("facts", "passes"), [({"created": 1.0}, True), ({"priority": 10}, False)])
def test_a_reservation_stays_when_another_workload_becomes_the_first_of_a_strict_queue(
    facts: dict[str, Any], *, passes: bool
) -> None:
    """Neither could start: one waited behind the other, which may not use the room that is reserved.

    Seed 3001139: its reason depended on what had its turn last. A workload of a higher priority goes before it.
    """
    script = Backlog(*cluster("a: 2x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 64}, strategy=Strategy.STRICT))
    first = script.start("first", 2, 1000, queue="team")
    big = script.wait("big", 2, 500, queue="team")
    script.advance(AFTER_S + 1)
    assert script.reservation("big") is not None
    for pod in gang("earlier", 3, gpus=8, queue="team", **{"created": script.now, **facts}):
        script.see(pod)
    for _ in range(3):
        script.advance(AFTER_S)
        assert (script.reason("big") == "NoRoom") is passes
        assert script.reason("earlier") == "NoRoom"
    script.end(first)
    assert all(map(script.planned, big)) is passes


def test_no_room_is_reserved_for_a_workload_behind_the_first_of_a_strict_queue() -> None:
    """Seed 3001011: the reserved room was free, and the reservation was written again each second."""
    script = Backlog(*cluster("a: 2x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 64}, strategy=Strategy.STRICT))
    first = script.start("first", 2, 1000, queue="team")
    script.wait("big", 2, 500, queue="team")
    script.advance(AFTER_S + 1)
    assert script.reservation("big") is not None
    script.wait("never", 3, 500, queue="team", priority=10)
    script.end(first)
    assert script.reason("big") == "QueueOrder"
    assert script.reservation("big") is None
    writes = len(script.written)
    script.advance(AFTER_S)
    assert len(script.written) == writes


def test_a_workload_leaves_its_reserved_room_to_a_higher_priority_that_has_reserved_it_from_later_on() -> None:
    """Seed 3001708: an end came early, and the lower priority started, for longer than until the later instant."""
    script = Backlog(*cluster("a: 2x8"), limits=Limits(reserve_after_s=AFTER_S, reservations=100))
    first, second = script.start("first", 1, 1000), script.start("second", 1, 2000)
    low = script.wait("low", 1, 5000)
    script.advance(AFTER_S + 1)
    assert script.reservation("low") is not None
    high = script.wait("high", 2, 500, priority=10)
    script.advance(AFTER_S + 1)
    assert script.reservation("high") is not None
    script.end(first)
    assert not script.planned(low[0])
    script.end(second)
    assert all(map(script.planned, high))


def test_a_broken_release_is_completed_in_room_that_is_reserved() -> None:
    """Seed 103000788: its bound member kept the reservation from its room, and the reservation the other member."""
    limits = Limits(reserve_after_s=AFTER_S, reservations=100)
    script = Backlog(*cluster("a: 2x8"), limits=limits)
    first, second = script.start("first", 1, 1000), script.start("second", 1, 1000)
    half = script.wait("half", 2, 500)
    script.wait("big", 2, 500)
    script.advance(AFTER_S + 61)
    big = script.reservation("big")
    assert big is not None
    script.advance(big.start_by - 500 - 1 - script.now)
    script.end([*first, *second])
    script.bind_all(half)
    script.post(half[0])
    again = Backlog(*cluster("a: 2x8"), *script.pods.values(), limits=limits, now=script.now)
    assert again.reservation("big") is not None
    assert again.planned(half[1])


def test_a_reservation_moves_that_names_a_node_which_has_gone_before_a_restart() -> None:
    script = Backlog(*cluster("a: 2x8"), *cluster("b: 2x8"))
    script.start("first", 2, 1000)
    script.start("second", 2, 1500)
    script.wait("big", 2, 500)
    script.advance(AFTER_S + 1)
    before = script.reservation("big")
    assert before is not None
    left = [node for node in cluster("a: 2x8", "b: 2x8") if node.name not in before.rooms]
    pods = [pod for pod in script.pods.values() if pod.node not in before.rooms]
    again = Backlog(*left, *pods, now=script.now)
    again.advance(2)
    after = again.reservation("big")
    assert after is not None
    assert not after.rooms.keys() & before.rooms.keys()


@pytest.mark.parametrize("slices", range(1, 9))
def test_what_ends_while_room_is_searched_is_not_given_back_twice(slices: int) -> None:
    """Seed 103000016: the reservation named a node for more than it has."""
    script = Backlog(*cluster("a: 2x8"), limits=Limits(reserve_after_s=AFTER_S, slice_units=1))
    first = script.start("first", 1, 1000)
    script.start("second", 1, 2000)
    script.wait("big", 2, 500)
    script.advance(AFTER_S - 1)
    script.now += 2
    for _ in range(slices):
        step(script)
    script.end(first)
    script.advance(1)
    reservation = script.reservation("big")
    assert reservation is not None
    assert all(wanted["nvidia.com/gpu"] == 8 for wanted in reservation.rooms.values())


def running(script: Backlog, *runs: tuple[str, int, float]) -> list[Pod]:
    """Single pods that run now, each with its node, its GPUs and its duration."""
    pods = [
        replace(single(f"runs-{number}", gpus=gpus, node=node, phase="Running", began=script.now), run=RunTerms(runs_s))
        for number, (node, gpus, runs_s) in enumerate(runs)
    ]
    script.see(pods)
    return pods


def test_what_ends_before_two_reservations_leaves_room_for_one_of_them() -> None:
    script = Backlog(*cluster("a: 2x8"), limits=Limits(reserve_after_s=AFTER_S, reservations=100))
    runs = running(script, ("a-0", 4, 1000), ("a-1", 8, 1000))
    first, second = script.wait("first", 2, 5000, gpus=4, cpu=40), script.wait("second", 2, 5000, gpus=4, cpu=20)
    script.advance(AFTER_S + 61)
    for name in ("first", "second"):
        reservation = script.reservation(name)
        assert reservation is not None
        assert {node: wanted["nvidia.com/gpu"] for node, wanted in reservation.rooms.items()} == {"a-0": 4, "a-1": 4}
    assert not script.planned(script.wait("other", 1, 90_000, gpus=4)[0])
    script.end(runs)
    assert all(map(script.planned, [*first, *second]))


def test_a_workload_uses_no_more_of_a_node_than_it_has_reserved_beside_another() -> None:
    script = Backlog(*cluster("a: 2x8"), limits=Limits(reserve_after_s=AFTER_S, reservations=100))
    runs = running(script, ("a-0", 4, 1000), ("a-0", 4, 5000), ("a-1", 4, 2000), ("a-1", 4, 90_000))
    first, second = script.wait("first", 2, 9000, gpus=4), script.wait("second", 1, 9000, gpus=4)
    script.advance(AFTER_S + 61)
    for name, nodes in (("first", ["a-0", "a-1"]), ("second", ["a-0"])):
        reservation = script.reservation(name)
        assert reservation is not None
        assert sorted(reservation.rooms) == nodes
    script.end(runs[:2])
    assert not any(map(script.planned, first))
    assert script.planned(second[0])
    script.end(runs[2:3])
    assert all(map(script.planned, first))
