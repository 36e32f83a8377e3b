"""A workload has one priority, waiting and running: without that, two jobs evict each other in turn."""

from __future__ import annotations

from dataclasses import replace

from policies.model import Job, PodSet, PodSets
from tests.builders import cluster, gang, single
from tests.core.jobs import Controlled, job, template
from tests.core.preempting import Cluster


def of(name: str, priority: int, of_class: int | None = None, count: int = 1) -> Job:
    """A job whose pods have that priority, and that names a WorkloadPriorityClass of that value."""
    seen = job(count, name=name)
    podset = replace(seen.podsets.podsets[0], template=template(name, priority=priority))
    return replace(seen, podsets=PodSets(seen.key, (podset,)), of_class=of_class)


def settle(script: Cluster, *jobs: Controlled, seconds: float = 20) -> None:
    """Let every controller obey, suspended pods end, and started jobs run."""
    for _ in range(round(seconds)):
        for controlled in jobs:
            controlled.settle()
            if controlled.seen.suspended and controlled.pods:
                controlled.delete()
                controlled.show(stopped=True)
            elif not controlled.seen.suspended and not controlled.pods:
                controlled.run()
        script.advance(1.0)


def test_jobs_of_a_class_and_of_pods_with_a_priority_evict_each_other_once() -> None:
    script = Cluster(*cluster("a: 2x8"))
    victim = Controlled(script, of("victim", 100, count=2))
    victim.run()
    other = Controlled(script, of("other", 0, of_class=5000, count=2))
    settle(script, victim, other)
    assert (len(victim.stops), len(other.stops)) == (1, 0)
    assert script.reason("other") == "Running"
    assert "5000" in victim.stops[0]


def test_a_job_of_a_low_class_with_urgent_pods_evicts_nobody_and_gives_way() -> None:
    script = Cluster(*cluster("a: 1x8"))
    middle = Controlled(script, of("middle", 100))
    middle.run()
    low = Controlled(script, of("low", 1000, of_class=1))
    settle(script, middle, low, seconds=3)
    assert not middle.stops
    script.see(*cluster("b: 1x8"))
    settle(script, middle, low, seconds=3)
    assert script.reason("low") == "Running"
    script.see(gang("high", 1, priority=50))
    settle(script, middle, low, seconds=3)
    assert (len(middle.stops), len(low.stops)) == (0, 1), "its pods have 1000, and its class 1"


def test_a_job_has_the_highest_priority_of_its_templates_before_and_after_its_pods_come() -> None:
    script = Cluster(*cluster("a: 2x8"))
    seen = job(1, PodSet(template("low", series="worker", priority=10), 1, 1, indexed=True), name="low")
    low = Controlled(script, seen)
    assert script.gang("low").priority == 10
    low.run()
    assert script.gang("low").priority == 10
    ended = next(pod for pod in low.pods.values() if pod.series == "worker")
    script.change(script.pods[ended.uid], phase="Succeeded")
    assert script.gang("low").priority == 10, "the pod that is left says 0"


def test_a_class_that_changes_counts_at_once() -> None:
    script = Cluster(*cluster("a: 1x8"))
    running = Controlled(script, of("running", 0))
    running.run()
    waiting = Controlled(script, of("waiting", 0))
    settle(script, running, waiting, seconds=3)
    assert not running.stops
    waiting.show(of_class=7)
    settle(script, running, waiting, seconds=3)
    assert len(running.stops) == 1


def test_the_room_of_a_nominated_pod_is_left_to_it_by_the_priority_of_the_pods() -> None:
    """kube-scheduler knows no WorkloadPriorityClass: it would refuse pods of 0 there."""
    script = Cluster(*cluster("a: 1x8"))
    script.see(single("urgent", gpus=8, priority=100, nominated_node="a-0"))
    Controlled(script, of("classy", 0, of_class=5000))
    assert script.reason("classy") == "NoRoom"
