"""A reservation is written while its workload waits for its start, and taken off its object by whatever ends that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from extender.core.answers import JobWritten, Outcome, Reserved
from extender.core.events import DeviceClaimSeen, Event, NamespaceSeen, NodeSeen, PodSeen, QueueSeen
from extender.core.limits import Limits
from policies.model import Job, Reservation, RunTerms
from policies.model.queues import LocalQueue, Stop
from policies.words import LINE
from tests.builders import cluster, key
from tests.core.backfilling import AFTER_S, Backlog
from tests.core.devices import CLASS, claim, gpus, request, template, with_template
from tests.core.jobs import Controlled, job
from tests.core.queues import cluster_queue, flavor, show


def young(script: Backlog, controlled: Job) -> Job:
    """The job, created now, with pods that run for 500 s."""
    (podset,) = controlled.podsets.podsets
    template = replace(podset.template, created=script.now)
    podsets = replace(controlled.podsets, podsets=(replace(podset, template=template),))
    return replace(controlled, podsets=podsets, run=RunTerms(500))


def waiting_job(queue: str = "", *, obeys: bool = True) -> tuple[Backlog, Controlled]:
    """A job of two pods that has a reservation, behind a gang on both nodes."""
    script = Backlog(*cluster("a: 2x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 64}))
    script.start("first", 2, 1000)
    controlled = Controlled(script, young(script, replace(job(2), queue=queue)), obeys=obeys)
    controlled.wait(AFTER_S + 2)
    assert script.reservation("job") is not None
    assert script.last_written("job") is not None
    return script, controlled


def stop_queue(script: Backlog, _: Controlled) -> None:
    script.feed(QueueSeen(cluster_queue("team", {"gpus": 64}, stop=Stop.HOLD)))


def stop_local_queue(script: Backlog, _: Controlled) -> None:
    script.feed(QueueSeen(LocalQueue("default", "team", "team", stop=Stop.HOLD)))


def end_namespace(script: Backlog, _: Controlled) -> None:
    script.feed(NamespaceSeen("default", (), terminating=True))


ENDS: dict[str, Callable[[Backlog, Controlled], None]] = {
    "it is held": lambda _, controlled: controlled.show(held=True),
    "it ends": lambda _, controlled: controlled.show(finished=True),
    "its queue is stopped": stop_queue,
    "its local queue is stopped": stop_local_queue,
    "its namespace is being deleted": end_namespace,
    "it has no queue": lambda _, controlled: controlled.show(queue="nowhere"),
    "it is unreadable": lambda _, controlled: controlled.show(problem="its template is unreadable"),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_job_that_waits_no_more_has_no_reservation(end: Callable[[Backlog, Controlled], None]) -> None:
    script, controlled = waiting_job("team")
    end(script, controlled)
    controlled.wait(2)
    assert script.reservation("job") is None
    assert script.last_written("job") is None


def test_members_beyond_the_minimum_of_a_gang_that_runs_have_none() -> None:
    """Seed 3000109: the gang had started, and nodes stayed drained for its last member."""
    script = Backlog(*cluster("a: 2x8"))
    first = script.start("first", 2)
    big = script.wait("big", 3, 500, min_member=2)
    script.advance(AFTER_S + 1)
    script.end(first)
    script.run(big)
    assert len(script.bound(big)) == 2
    script.advance(10 * AFTER_S)
    assert script.reservation("big") is None
    assert all(script.pods[pod.uid].backfill is None for pod in big)


def test_a_gang_that_has_lost_a_member_and_its_room_has_none() -> None:
    """Seed 103000935: a node was drained for the replacement, and the reservation stood on a member that ran."""
    script = Backlog(*cluster("a: 3x8"))
    script.start("other", 1)
    first = script.start("first", 2)
    lost = script.pods[first[0].uid]
    assert lost.node is not None
    script.gone(lost)
    script.drop(lost.node)
    script.see(replace(lost, uid="again", name="again", created=script.now, node=None, stamp=None, phase="Pending"))
    script.advance(10 * AFTER_S)
    assert key("first") in script.core.state.pending.keys
    assert script.reservation("first") is None
    assert not script.written


def test_a_start_that_failed_leaves_nothing_on_a_job_that_is_held() -> None:
    """The write that starts a job takes its reservation off. Nothing took it off if that write failed."""
    script, controlled = waiting_job(obeys=False)
    script.end([pod for pod in script.pods.values() if pod.group is not None and pod.group.name == "first"])
    controlled.settle()
    assert controlled.starts
    assert script.last_written("job") is not None
    script.feed(JobWritten(controlled.seen.key, controlled.seen.uid, Outcome.REFUSED, "403 Forbidden"))
    controlled.show(held=True)
    assert script.last_written("job") is None


def test_a_reservation_moves_to_another_member_if_its_own_is_replaced() -> None:
    script = Backlog(*cluster("a: 2x8"))
    script.start("first", 2, 1000)
    big = script.wait("big", 2, 500)
    script.advance(AFTER_S + 1)
    assert script.pods[big[0].uid].backfill is not None
    again = replace(big[0], uid="again", name="again", created=script.now)
    script.gone(script.pods[big[0].uid])
    script.see(again)
    script.advance(1)
    before, carriers = script.reservation("big"), [pod for pod in script.pods.values() if pod.backfill is not None]
    assert before is not None
    assert [pod.uid for pod in carriers] == [big[1].uid]


@pytest.mark.parametrize("on", ["a job", "a pod"])
def test_a_write_that_failed_is_repeated_with_what_is_reserved_by_then(on: str) -> None:
    script = Backlog(*cluster("a: 2x8"), answers=False)
    script.start("first", 2, 1000)
    if on == "a job":
        Controlled(script, young(script, job(2)))
    else:
        script.wait("big", 2, 500)
    script.advance(AFTER_S + 2)
    instants = list[float]()
    for _ in range(5):
        (effect,) = script.written
        script.written.clear()
        instants.append(script.now)
        script.feed(Reserved(effect.key, effect.pod, effect.job, effect.reservation, "403 Forbidden", backfill=True))
        while not script.written:
            script.advance(1)
    (again,) = script.written
    assert again.reservation is not None
    pauses = [later - earlier for earlier, later in pairwise(instants)]
    assert all(later >= 1.5 * earlier for earlier, later in pairwise(pauses))


def test_a_restart_drains_no_more_than_may_be_drained() -> None:
    """Any user can write a reservation: two workloads of a tree had drained nodes after a restart."""
    limits = Limits(reserve_after_s=AFTER_S, reservations=2)
    script = Backlog(*cluster("a: 4x8"), limits=limits)
    script.start("first", 4)
    script.wait("big", 2)
    small = script.wait("small", 1)
    script.advance(AFTER_S + 61)
    assert script.reservation("big") is not None
    assert script.reservation("small") is None
    forged = Reservation((("a-3", small[0].requests),), (), 0.0)
    script.change(small[0], backfill=forged)
    again = Backlog(*cluster("a: 4x8"), *script.pods.values(), now=script.now, limits=limits)
    assert again.reservation("big") is not None
    assert again.reservation("small") is None
    assert again.pods[small[0].uid].backfill is None


def test_a_restart_takes_off_what_is_left_on_a_gang_that_runs() -> None:
    script = Backlog(*cluster("a: 2x8"))
    first = script.start("first", 2, 1000)
    script.change(first[0], backfill=Reservation((("a-0", first[0].requests),), (), 2000.0))
    again = Backlog(*cluster("a: 2x8"), *script.pods.values(), now=script.now)
    again.advance(1)
    assert again.reservation("first") is None
    assert again.pods[first[0].uid].backfill is None


@pytest.mark.parametrize("much", [1, 7])
def test_a_restart_reserves_no_more_devices_than_are_asked_for(much: int) -> None:
    """Any user can write a reservation, also of devices that the pods of a workload claim."""
    facts: list[Event] = [CLASS, template(request()), *gpus("a-0", "a-1", count=1)]
    script = Backlog(*cluster("a: 2x0"))
    for event in facts:
        script.feed(event)
    first = with_template("first", 2, run=RunTerms(1000))
    script.see(first)
    for pod, node in zip(first, map(script.planned, first), strict=True):
        script.feed(claim(pod.name, request(), pod=pod, node=node, devices=("h100-0",)))
    script.run(first)
    waiting = with_template("waiting", 2, created=script.now)
    script.see(waiting)
    script.advance(AFTER_S + 2)
    (written,) = [pod for pod in waiting if script.pods[pod.uid].backfill is not None]
    reservation = script.pods[written.uid].backfill
    assert reservation is not None
    rooms = tuple(
        (node, tuple((name, much if name.startswith(LINE) else amount) for name, amount in requests))
        for node, requests in reservation.rooms
    )
    forged = replace(reservation, rooms=rooms)
    again = Backlog(synced=False, now=script.now)
    for known in script.core.state.claims.nodes.values():
        again.feed(NodeSeen(known))
    for pod in script.pods.values():
        again.pods[pod.uid] = pod if pod.uid != written.uid else replace(pod, backfill=forged)
        again.feed(PodSeen(again.pods[pod.uid]))
    for event in [*facts, *map(DeviceClaimSeen, script.core.state.devices.claims.values())]:
        again.feed(event)
    again.feed_synced()
    before, after = script.reservation("waiting"), again.reservation("waiting")
    assert before is not None
    if much == 1:
        assert after is not None
    assert after is None or after.rooms == before.rooms
