"""How long the core expects workloads to run, and when it expects their ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.ledger.durations import Durations, End, next_guess
from policies.model import Basis, Duration, Pod, RunTerms
from policies.model.queues import LocalQueue
from tests.builders import cluster, gang, key, single
from tests.core.jobs import Controlled, job
from tests.core.preempting import Cluster
from tests.core.queues import cluster_queue, flavor, show
from tests.core.script import Script


def durations(script: Script) -> Durations:
    return script.core.state.durations


def started(script: Script, *terms: RunTerms, queue: str = "") -> list[Pod]:
    pods = [replace(pod, run=run, queue=queue) for pod, run in zip(gang("g", len(terms)), terms, strict=True)]
    script.see(pods)
    script.run(pods)
    assert len(script.bound(pods)) == len(pods)
    return pods


def end(script: Script, name: str = "g") -> End | None:
    return durations(script).end(script.core.state.workloads[key(name)], script.now)


def test_a_gang_ends_with_its_last_member_counted_from_its_release() -> None:
    script = Cluster(*cluster("a: 2x8"))
    began = script.now
    started(script, RunTerms(100), RunTerms(300))
    ending = end(script)
    assert ending is not None
    assert ending.duration == Duration(300, Basis.ESTIMATE)
    assert ending.at == pytest.approx(began + 300, abs=5)
    script.advance(200)
    assert end(script) == ending


def test_a_restart_reads_the_same_begin_of_a_run() -> None:
    """Stamps have milliseconds, and the process that wrote one had counted from more digits."""
    script = Script(*cluster("a: 1x8"), now=1000.0 + 1 / 3)
    started(script, RunTerms(100))
    again = Script(*cluster("a: 1x8"), *script.pods.values(), now=script.now)
    assert end(again) == end(script)


def test_after_a_restart_the_run_of_live_members_counts() -> None:
    """Seed 103000369: a pod of an earlier start was still there, on a node that was down."""
    script = Cluster(*cluster("a: 2x8"))
    (first,) = started(script, RunTerms(100))
    script.change(script.pods[first.uid], deleting=True)
    script.advance(20)
    second, began = replace(first, uid="second", name="second", created=script.now), script.now
    script.see(second)
    script.run([second])
    again = Script(*cluster("a: 2x8"), *script.pods.values(), now=script.now)
    for ending in end(script), end(again):
        assert ending is not None
        assert ending.at == pytest.approx(began + 100, abs=5)


def test_what_says_nothing_has_no_end_and_what_waits_has_none_either() -> None:
    script = Cluster(*cluster("a: 1x8"))
    started(script, RunTerms())
    assert end(script) is None
    script.see([replace(pod, run=RunTerms(60)) for pod in gang("late", 1)])
    workload = script.core.state.workloads[key("late")]
    assert durations(script).of(workload) == Duration(60, Basis.ESTIMATE)
    assert end(script, "late") is None


def test_a_job_speaks_for_its_pods_and_begins_when_its_controller_does() -> None:
    script = Cluster(*cluster("a: 1x8"))
    low = Controlled(script, replace(job(1, name="low"), run=RunTerms(600)))
    low.run()
    first = end(script, "low")
    assert first is not None
    assert first.duration == Duration(600, Basis.ESTIMATE)
    low.show(began=script.now - script.core.state.process.wall_offset - 60)
    ending = end(script, "low")
    assert ending is not None
    assert ending.at == pytest.approx(script.now + 540, abs=1)


def test_the_shorter_limit_of_its_queues_counts() -> None:
    script = Cluster(*cluster("a: 1x8"))
    local = replace(LocalQueue("default", "mine", "team"), max_run_s=50.0)
    show(script, flavor("gpus"), replace(cluster_queue("team", {"gpus": 8}), max_run_s=80.0), local)
    started(script, RunTerms(), queue="mine")
    ending = end(script)
    assert ending is not None
    assert ending.duration == Duration(50, Basis.QUEUE_LIMIT)


@pytest.mark.parametrize(("run", "planned"), [(RunTerms(90), False), (RunTerms(None, 90), False), (RunTerms(70), True)])
def test_what_is_to_run_for_longer_than_its_queue_allows_waits_until_it_says_less(
    run: RunTerms, *, planned: bool
) -> None:
    script = Cluster(*cluster("a: 1x8"))
    show(script, flavor("gpus"), replace(cluster_queue("team", {"gpus": 8}), max_run_s=80.0))
    waits = Controlled(script, replace(job(1), run=run, queue="team"))
    assert bool(waits.starts) == planned
    if not planned:
        assert "and ClusterQueue team allows 1 min 20 s" in script.message("job")
        waits.show(run=RunTerms(60))
        assert waits.starts


def test_what_runs_goes_on_when_its_queue_allows_less() -> None:
    script = Cluster(*cluster("a: 1x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 8}))
    started(script, RunTerms(60), queue="team")
    show(script, replace(cluster_queue("team", {"gpus": 8}), max_run_s=30.0))
    script.advance(1)
    ending = end(script)
    assert ending is not None
    assert ending.duration == Duration(30, Basis.QUEUE_LIMIT)
    assert not script.evicted


def test_an_end_that_does_not_come_is_expected_later_and_later_and_no_later_than_the_deadline() -> None:
    script = Cluster(*cluster("a: 1x8"))
    started(script, RunTerms(1600, 2000))
    first = end(script)
    assert first is not None
    expected = []
    for late in (50, 150, 310, 500):
        script.advance(first.at + late - script.now)
        ending = end(script)
        assert ending is not None
        assert ending.overruns
        expected.append(round(ending.at - first.at))
    assert expected == [100, 200, 400, 800]


@pytest.mark.parametrize(("late", "step"), [(0, 60), (59, 60), (60, 120), (200, 240)])
def test_short_ones_are_a_minute_late_at_least(late: float, step: float) -> None:
    assert next_guess(10, 10, 10 + late) == 10 + step


def test_a_pod_in_no_gang_ends_too() -> None:
    script = Cluster(*cluster("a: 1x8"))
    pod = single(
        "dev", gpus=8, node="a-0", created=script.now - script.core.state.process.wall_offset, run=RunTerms(60)
    )
    ending = durations(script).end_of_pod(pod, script.now)
    assert ending is not None
    assert ending.at == pytest.approx(script.now + 60)
    assert durations(script).end_of_pod(replace(pod, node=None), script.now) is None
    began = replace(pod, began=pod.created - 20, created=pod.created - 500)
    assert durations(script).end_of_pod(began, script.now) == End(script.now + 40, Duration(60, Basis.ESTIMATE))
