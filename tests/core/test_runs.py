"""A workload without a stated duration is expected to run as long as others of like size in its LocalQueue did."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.events import PodGone
from policies.model import Basis, Duration, Pod, RunTerms
from policies.model.queues import LocalQueue
from policies.quota.runs import LEAST, RunTimes
from tests.builders import cluster, gang, key
from tests.core.jobs import Controlled, job
from tests.core.preempting import Cluster
from tests.core.queues import cluster_queue, flavor, show


def queued(runs: RunTimes | None = None) -> Cluster:
    script = Cluster(*cluster("a: 4x8"))
    show(
        script,
        flavor("gpus"),
        cluster_queue("team", {"gpus": 64}),
        LocalQueue("default", "mine", "team", runs=runs or {}),
    )
    return script


def runs(script: Cluster) -> RunTimes:
    return script.core.queue_reports(script.now)["LocalQueue", "default", "mine"].runs


def started(script: Cluster, name: str) -> list[Pod]:
    pods = [replace(pod, queue="mine") for pod in gang(name, 2)]
    script.see(pods)
    script.run(pods)
    assert len(script.bound(pods)) == len(pods)
    return pods


def end(script: Cluster, pods: list[Pod], phase: str = "Succeeded") -> None:
    for pod in pods:
        script.change(pod, phase=phase)
    for pod in pods:
        script.feed(PodGone(pod.uid))


def has_run(script: Cluster, name: str, seconds: float, phase: str = "Succeeded") -> None:
    pods = started(script, name)
    script.advance(seconds)
    end(script, pods, phase)


def expected(script: Cluster, gpus: int) -> Duration | None:
    waits = [replace(pod, queue="mine") for pod in gang("next", 1, gpus=gpus)]
    script.see(waits)
    return script.core.state.durations.of(script.core.state.workloads[key("next")])


def test_the_middle_one_of_those_that_have_ended_is_expected() -> None:
    script = queued()
    for at, seconds in enumerate((100, 500, 300, 200, 400)):
        has_run(script, f"g{at}", seconds, "Failed" if at == 1 else "Succeeded")
    expectation = expected(script, 16)
    assert expectation is not None
    assert (expectation.basis, expectation.percent, expectation.runs, expectation.gpus) == (Basis.HISTORY, 50, 5, 16)
    assert expectation.seconds == pytest.approx(300, abs=5)


def test_what_is_said_goes_before() -> None:
    script = queued({16: (100,) * LEAST})
    assert expected(script, 16) == Duration(100, Basis.HISTORY, 50, LEAST, 16)
    script.see([replace(pod, queue="mine", run=RunTerms(60)) for pod in gang("next", 1, gpus=16)])
    assert script.core.state.durations.of(script.core.state.workloads[key("next")]) == Duration(60, Basis.ESTIMATE)


def test_pods_that_are_deleted_before_they_end_count_for_nothing() -> None:
    script = queued()
    pods = started(script, "g")
    script.advance(100)
    for pod in pods:
        script.change(pod, deleting=True)
        script.feed(PodGone(pod.uid))
    script.advance(100)
    assert not runs(script)


def test_a_job_counts_when_it_has_finished_and_not_when_it_is_suspended() -> None:
    script = queued()
    for finished in (False, True):
        controlled = Controlled(script, replace(job(2, name=f"job-{finished}"), queue="mine"))
        controlled.run()
        script.advance(100)
        controlled.show(finished=True) if finished else controlled.show(suspended=True, stopped=True, plan=None)
        controlled.delete()
    script.advance(100)
    assert [[round(seconds, -2) for seconds in times] for times in runs(script).values()] == [[100]]


def test_a_job_counts_when_its_pods_have_succeeded_before_it_says_so() -> None:
    script = queued()
    controlled = Controlled(script, replace(job(2), queue="mine"))
    controlled.run()
    script.advance(100)
    for pod in list(controlled.pods.values()):
        script.change(pod, phase="Succeeded")
    script.advance(200)
    controlled.show(finished=True)
    assert [[round(seconds, -2) for seconds in times] for times in runs(script).values()] == [[100]]


def test_runs_are_stored_once_a_minute_at_most() -> None:
    script = queued()
    stored = []
    for at in range(4):
        has_run(script, f"g{at}", 25)
        version = script.core.queue_version
        script.advance(0.5)
        stored.append(sum(map(len, runs(script).values())))
        assert script.core.queue_version >= version
    assert stored == [1, 1, 1, 3]
    script.advance(60)
    assert sum(map(len, runs(script).values())) == 4


def test_another_life_goes_on_with_what_its_status_says() -> None:
    script = queued({16: (100,) * 3})
    has_run(script, "g", 200)
    has_run(script, "h", 200)
    script.advance(60)
    assert runs(script)[16][:3] == (100,) * 3
    assert [round(seconds, -2) for seconds in runs(script)[16][3:]] == [200, 200]
