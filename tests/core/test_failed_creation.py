"""Jobs whose pods are never created hold no room that others need, whatever their number, age and priority."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.events import NamespaceGone, NamespaceSeen, QueueSeen
from extender.core.explain.reasons import reason_of
from extender.core.ledger.creation import PROBATION_S, FailedCreation
from extender.core.limits import Limits
from policies.model import GroupKey, Job, PodSets
from policies.model.queues import LocalQueue, Strategy
from tests.builders import cluster, gang, requests, single
from tests.core.jobs import Controlled, job, template
from tests.core.preempting import Cluster
from tests.core.queues import cluster_queue, flavor, show
from tests.core.script import Script
from tests.core.taken_up import KEY, WAITS, made, pods_of, scripted, taken_up

RETRY_S = 35.0
"""A job rests for less than this after a start of which no pod came."""


def of_tenant(name: str, count: int = 2, priority: int = 0, created: float = 0.0, queue: str = "") -> Job:
    """A job in the namespace whose pods are all refused."""
    seen = job(count, name=name)
    made_of = template(name, namespace="tenant", priority=priority, created=created)
    podset = replace(seen.podsets.podsets[0], template=made_of)
    return replace(seen, podsets=PodSets(GroupKey("tenant", name), (podset,)), queue=queue)


def wait(script: Script, seconds: float, *jobs: Controlled) -> None:
    """Let time pass; all controllers obey."""
    until = script.now + seconds
    while script.now < until:
        script.advance(0.3)
        for controlled in jobs:
            controlled.settle()


def started_within(script: Script, honest: Controlled, *squatters: Controlled) -> float:
    """How long the honest job waits for its start."""
    began = script.now
    while not honest.starts:
        assert script.now < began + 120
        wait(script, 0.5, honest, *squatters)
    return script.now - began


@pytest.mark.parametrize("priority", [0, 1000])
def test_a_younger_job_of_another_namespace_goes_first_after_one_start_in_vain(priority: int) -> None:
    script = Script(*cluster("a: 2x8"))
    squatters = [Controlled(script, of_tenant(f"squat{at}", priority=priority)) for at in range(3)]
    honest = Controlled(script, job(2, name="honest"))
    assert started_within(script, honest, *squatters) < 32
    assert sum(len(job.starts) for job in squatters) == 1


def test_a_job_whose_controller_has_tried_to_make_its_pods_gives_its_first_room_back_sooner() -> None:
    script = Script(*cluster("a: 2x8"))
    squatter = Controlled(script, of_tenant("squat"))
    squatter.show(no_pods=True)
    wait(script, 20, squatter)
    assert not squatter.stops, "nobody else waits"
    honest = Controlled(script, job(2, name="honest"))
    assert started_within(script, honest, squatter) < 10
    assert script.core.state.failed_creation.go_last("tenant")


def test_a_job_some_of_whose_pods_are_there_has_the_full_time() -> None:
    """The status of a job may lag behind its pods."""
    script = Script(*cluster("a: 2x8"))
    slow = Controlled(script, of_tenant("slow"))
    Controlled(script, job(2, name="other"))
    slow.create(only=1)
    slow.show(no_pods=True)
    wait(script, 12, slow)
    assert not slow.stops


def test_later_ones_keep_nobody_waiting_for_ten_seconds() -> None:
    script = Script(*cluster("a: 2x8"))
    squatters = [Controlled(script, of_tenant(f"squat{at}")) for at in range(3)]
    wait(script, 100, *squatters)
    assert sum(len(job.starts) for job in squatters) > 3, "while nobody else waits they are tried again"
    honest = Controlled(script, job(2, name="honest"))
    assert started_within(script, honest, *squatters) < 10
    squatters.append(Controlled(script, of_tenant("urgent", priority=10_000)))
    honest.run()
    wait(script, 60, honest, *squatters)
    assert script.reason("honest") == "Running"


def test_new_jobs_of_the_namespace_are_no_way_around_it() -> None:
    script = Script(*cluster("a: 2x8"))
    first = Controlled(script, of_tenant("squat"))
    wait(script, 31, first)
    first.gone()
    for at in range(10):
        squatter = Controlled(script, of_tenant(f"again{at}", priority=1000))
        honest = Controlled(script, job(2, name=f"honest{at}"))
        assert started_within(script, honest, squatter) < 10
        honest.gone()
        squatter.gone()


def test_a_job_whose_pods_come_late_has_the_full_time_while_nobody_else_waits() -> None:
    script = Script(*cluster("a: 2x8"))
    late = Controlled(script, of_tenant("late"))
    wait(script, 31 + RETRY_S, late)
    starts = len(late.starts)
    assert starts >= 2
    while len(late.starts) == starts:
        wait(script, 0.5, late)
    stops = len(late.stops)
    wait(script, 25, late)
    assert len(late.stops) == stops
    late.run()
    assert reason_of(script.core.state.workloads[GroupKey("tenant", "late")].reason_state.cause).code == "Running"


def test_all_pods_of_a_job_end_it_for_its_namespace_and_one_of_several_does_not() -> None:
    script = Script(*cluster("a: 2x8"))
    first = Controlled(script, of_tenant("first"))
    wait(script, 31, first)
    failed = script.core.state.failed_creation
    assert failed.go_last("tenant")
    while first.seen.suspended:
        wait(script, 0.5, first)
    first.create(only=1)
    assert failed.go_last("tenant"), "a ResourceQuota for one pod"
    first.create()
    assert not failed.go_last("tenant")
    assert not failed.has_failed(GroupKey("tenant", "first"))


def test_an_edited_job_is_no_longer_behind_the_others_of_its_namespace() -> None:
    script = Script(*cluster("a: 2x8"))
    first = Controlled(script, of_tenant("first"))
    wait(script, 31, first)
    failed = script.core.state.failed_creation
    assert failed.has_failed(GroupKey("tenant", "first"))
    first.show(podsets=of_tenant("first", count=1).podsets)
    assert not failed.has_failed(GroupKey("tenant", "first"))


def test_a_pod_that_is_deleted_and_made_again_gives_the_others_no_more_time() -> None:
    script = Script(*cluster("a: 2x8"))
    squatter = Controlled(script, of_tenant("squat"))
    for _ in range(8):
        squatter.create(only=1)
        wait(script, 5, squatter)
        squatter.delete()
        if squatter.stops:
            break
    assert squatter.stops


def test_its_pods_hold_up_the_creation_of_nobody() -> None:
    script = Script(*cluster("a: 80x8"))
    first = Controlled(script, of_tenant("first"))
    wait(script, 31, first)
    Controlled(script, of_tenant("large", count=70))
    assert script.core.state.creation.awaited == 0


def test_jobs_that_take_turns_leave_room_at_once_for_a_larger_one() -> None:
    """Seed 3162 of the campaign: as one gave its room back, another took it, and never were three nodes free."""
    script = Script(*cluster("a: 4x8"))
    squatters = [Controlled(script, of_tenant("first"))]
    wait(script, 2.5, *squatters)
    squatters += [Controlled(script, of_tenant(f"squat{at}")) for at in range(6)]
    wait(script, 40, *squatters)
    honest = Controlled(script, job(3, name="honest"))
    assert started_within(script, honest, *squatters) < 12


def test_they_start_together_while_nobody_else_waits() -> None:
    script = Script(*cluster("a: 6x8"))
    squatters = [Controlled(script, of_tenant(f"squat{at}")) for at in range(6)]
    wait(script, 100, *squatters)
    assert sum(not job.seen.suspended for job in squatters) == 3


class Evicted:
    """Pods of low priority on all nodes that come again whenever they are evicted."""

    def __init__(self) -> None:
        self.script = Cluster(*cluster("a: 2x8"))
        self.times = 0
        self.low = Controlled(self.script, job(2, name="low"))
        self.low.run()

    def wait(self, seconds: float, *jobs: Controlled) -> None:
        until = self.script.now + seconds
        while self.script.now < until:
            wait(self.script, 0.3, self.low, *jobs)
            if self.low.stops and self.low.pods:
                self.times += 1
                self.low.delete()
                self.low.show(stopped=True)
                self.low.stops.clear()
            if not self.low.seen.suspended and not self.low.pods:
                self.low.run()


@pytest.mark.parametrize("edited", [False, True])
def test_no_other_job_of_the_namespace_evicts_for_pods_that_may_not_come_either(*, edited: bool) -> None:
    """Seed 10932 of the campaign. Nor does the same job when its author has edited it."""
    evicted = Evicted()
    first = Controlled(evicted.script, of_tenant("first", priority=100))
    evicted.wait(40, first)
    assert evicted.times == 1
    if edited:
        first.show(podsets=of_tenant("first", count=1, priority=100).podsets)
    again = [Controlled(evicted.script, of_tenant(f"again{at}", count=1, priority=100 + at)) for at in range(3)]
    evicted.wait(100, first, *again)
    assert evicted.times == 1
    message = reason_of(evicted.script.core.state.workloads[GroupKey("tenant", "again0")].reason_state.cause).message
    assert "pods of another job of its namespace" in message


@pytest.mark.parametrize(("priority", "evicts"), [(50, False), (100, True)])
def test_pods_of_a_priority_say_nothing_of_a_higher_one(*, priority: int, evicts: bool) -> None:
    """A ResourceQuota may refuse one PriorityClass alone."""
    evicted = Evicted()
    first = Controlled(evicted.script, of_tenant("first", priority=100))
    evicted.wait(40, first)
    first.gone()
    evicted.low.delete()
    evicted.low.gone()
    proven = Controlled(evicted.script, of_tenant("proven", priority=priority))
    proven.run()
    proven.delete()
    proven.gone()
    evicted.low = Controlled(evicted.script, job(2, name="lower"))
    evicted.low.run()
    urgent = Controlled(evicted.script, of_tenant("urgent", priority=100))
    evicted.wait(5, urgent)
    assert evicted.times == 1 + evicts


@pytest.mark.parametrize("fair", [False, True])
def test_it_holds_up_no_strict_queue(fair: bool) -> None:
    script = Script(*cluster("a: 4x8"), limits=Limits(fair_sharing=fair))
    show(script, flavor("gpus"), cluster_queue("shared", {"gpus": 16}, strategy=Strategy.STRICT))
    script.feed(NamespaceSeen("tenant", ()))
    script.feed(QueueSeen(LocalQueue("tenant", "shared", "shared")))
    squatters = [Controlled(script, of_tenant(f"squat{at}", queue="shared", priority=10)) for at in range(3)]
    wait(script, 31, *squatters)
    honest = Controlled(script, replace(job(2, name="honest"), queue="shared"))
    assert started_within(script, honest, *squatters) < 10


def test_those_that_wait_for_its_quota_go_after_others_as_well() -> None:
    """The turn of a workload is remembered with the quota that it waits for."""
    script = Script(*cluster("a: 4x8"))
    show(script, flavor("gpus"), cluster_queue("shared", {"gpus": 16}))
    script.feed(NamespaceSeen("tenant", ()))
    script.feed(QueueSeen(LocalQueue("tenant", "shared", "shared")))
    squatters = [Controlled(script, of_tenant(f"squat{at}", queue="shared", created=-1.0)) for at in range(3)]
    honest = Controlled(script, replace(job(2, name="honest"), queue="shared"))
    assert started_within(script, honest, *squatters) < 32
    assert [len(job.starts) for job in squatters] == [1, 0, 0]


@pytest.mark.parametrize("fair", [False, True])
def test_a_job_that_borrows_goes_before_one_that_need_not(fair: bool) -> None:
    """The squatters' queue has quota of its own and a higher priority; the room is too small for both."""
    script = Script(*cluster("a: 2x8"), limits=Limits(fair_sharing=fair))
    show(script, flavor("gpus"), cluster_queue("own", {"gpus": 32}, cohort="all", priority=5))
    show(script, cluster_queue("lent", {"gpus": 0}, cohort="all"))
    script.feed(NamespaceSeen("tenant", ()))
    script.feed(QueueSeen(LocalQueue("tenant", "own", "own")))
    squatters = [Controlled(script, of_tenant(f"squat{at}", queue="own")) for at in range(3)]
    wait(script, 31, *squatters)
    honest = Controlled(script, replace(job(2, name="honest"), queue="lent"))
    assert started_within(script, honest, *squatters) < 10


def test_only_so_many_namespaces_are_remembered_and_none_for_ever() -> None:
    failed = FailedCreation()
    for at in range(1100):
        assert failed.fail(GroupKey(f"n{at}", "job"), 0, 0.0, in_full=True)
    assert failed.on_probation("n1099")
    assert not failed.on_probation("n0")
    assert len(list(failed.lapse(601.0))) == 1000
    assert not failed.on_probation("n1099")


def test_less_than_the_full_time_renews_nothing() -> None:
    failed = FailedCreation()
    failed.fail(GroupKey("slow", "job"), 0, 0.0, in_full=True)
    assert not failed.fail(GroupKey("slow", "other"), 0, 300.0, in_full=False), "they went last before"
    assert list(failed.lapse(600.0)) == ["slow"]
    assert PROBATION_S < 10


def test_gangs_of_pods_are_not_put_off() -> None:
    script = Script(*cluster("a: 2x8"))
    squatter = Controlled(script, of_tenant("squat"))
    wait(script, 31, squatter)
    other = Controlled(script, job(2, name="other"))
    assert started_within(script, other, squatter) < 10
    other.gone()
    pods, later = gang("pods", 2, namespace="tenant"), gang("later", 2, created=5.0)
    script.see(pods, later)
    assert script.planned(pods[0])


def test_so_do_the_pods_of_a_volcano_job_that_was_taken_up() -> None:
    script = scripted(WAITS, nodes="a: 2x8")
    taken_up(script)
    script.advance(32)
    assert script.core.state.failed_creation.go_last(KEY.namespace)
    other = Controlled(script, of_tenant("other"))
    assert len(other.starts) == 1, "it holds no room any more"


def test_a_volcano_job_whose_pods_are_all_there_and_not_bound_yet_has_not_failed() -> None:
    script = scripted(WAITS, nodes="a: 2x8")
    taken_up(script)
    script.see(*pods_of(made()))
    script.advance(60)
    assert not script.core.state.failed_creation.go_last(KEY.namespace)


def test_pods_of_no_gang_that_promised_room_keeps_out_wait_for_it_too() -> None:
    script = Script(*cluster("a: 2x8"))
    first = Controlled(script, of_tenant("first"))
    wait(script, 31 + RETRY_S, first)
    while first.seen.suspended:
        wait(script, 0.5, first)
    stops, dev = len(first.stops), single("dev", gpus=8)
    script.see(dev)
    assert not script.filter(dev)
    wait(script, 7, first)
    assert len(first.stops) == stops + 1


def test_a_namespace_that_may_run_one_pod_is_no_better() -> None:
    """Each start has one pod, whose bind is held for pods that never come."""
    script = Script(*cluster("a: 2x8"))
    squatters = [Controlled(script, of_tenant(f"squat{at}")) for at in range(3)]

    def let(seconds: float) -> None:
        until = script.now + seconds
        while script.now < until:
            for controlled in squatters:
                controlled.settle()
                if controlled.seen.suspended and controlled.pods:
                    controlled.delete()
                    controlled.show(stopped=True)
                elif not controlled.seen.suspended and not controlled.pods:
                    script.bind_all(controlled.create(only=1), expires_s=30)
            script.advance(0.3)

    let(60)
    assert script.core.state.failed_creation.go_last("tenant")
    for at in range(4):
        honest = Controlled(script, job(2, name=f"honest{at}"))
        began = script.now
        while not honest.starts:
            assert script.now < began + 10
            let(0.3)
            honest.settle()
        honest.gone()
        let(3.0)


def test_a_small_job_that_runs_now_and_then_is_no_way_around_it() -> None:
    """The namespace does not come last any longer then, but its next large job still has the shorter time."""
    script = Script(*cluster("a: 2x8"), *cluster("small: 1x1"))
    first = Controlled(script, of_tenant("squat"))
    wait(script, 31, first)
    for at in range(4):
        seen = of_tenant(f"small{at}", count=1)
        (podset,) = seen.podsets.podsets
        podset = replace(podset, template=replace(podset.template, requests=requests(1)))
        small = Controlled(script, replace(seen, podsets=PodSets(seen.key, (podset,))))
        wait(script, 1, small)
        small.run()
        assert not script.core.state.failed_creation.go_last("tenant")
        squatter = Controlled(script, of_tenant(f"again{at}", priority=1000))
        honest = Controlled(script, job(2, name=f"honest{at}"))
        assert started_within(script, honest, squatter, first) < 10
        for controlled in (honest, squatter, small):
            controlled.delete()
            controlled.gone()


def test_a_namespace_that_is_made_anew_begins_anew() -> None:
    failed = FailedCreation()
    assert failed.fail(GroupKey("team", "job"), 0, 0.0, in_full=True)
    failed.namespace_gone("team")
    assert not failed.go_last("team")
    script = Script()
    script.core.state.failed_creation.fail(GroupKey("team", "job"), 0, script.now, in_full=True)
    script.feed(NamespaceGone("team"))
    assert not script.core.state.failed_creation.on_probation("team")
