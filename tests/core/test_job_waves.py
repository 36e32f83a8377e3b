"""Pods of a job that its controller makes only when others run: a launcher, after the workers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from policies.model import Constraints, Job, Pod, PodSet, Requirement, Spread
from tests.builders import cluster
from tests.core.jobs import Controlled, job, template
from tests.core.script import Script

TRAIN = (Requirement("app", "In", ("train",)),)
EVENLY: dict[str, Any] = {
    "labels": (("app", "train"),),
    "constraints": Constraints(spread=(Spread("kubernetes.io/hostname", 1, TRAIN),)),
}


def with_launcher(workers: int, **facts: Any) -> Job:
    """A job whose controller makes one more pod when all workers run."""
    made = job(workers, PodSet(template(series="launcher", gpus=1), 1, 1, wave=1), gpus=1)
    podsets = tuple(replace(podset, template=replace(podset.template, **facts)) for podset in made.podsets.podsets)
    return replace(made, podsets=replace(made.podsets, podsets=podsets))


def at_bind(script: Script, pods: list[Pod]) -> list[Pod]:
    """Let the pods that kube-scheduler may try now ask for their Bindings, which are held."""
    led = [pod for pod in pods if script.filter(pod)]
    script.bind_all(led, expires_s=600)
    return led


def test_pods_of_a_later_wave_are_not_awaited_before_the_first_one_runs() -> None:
    """The first wave binds in rounds, which take longer than the next pod of a job may take to come."""
    script = Script(*cluster("a: 4x8"))
    train = Controlled(script, with_launcher(12, **EVENLY))
    pods = train.create(only=12)
    for _ in range(3):
        script.advance(19)
        led = at_bind(script, pods)
        assert len(led) == 4
        pods = [pod for pod in pods if pod not in led]
    script.post_all()
    last = train.create()
    script.run(last)
    assert script.bound(last) == list(train.starts[0].plan["launcher"])
    assert not train.stops


def test_a_first_wave_that_is_there_and_does_not_come_to_bind_waits_only_so_long() -> None:
    script = Script(*cluster("a: 1x8"))
    train = Controlled(script, with_launcher(2))
    first, _ = train.create(only=2)
    call = script.bind(first, expires_s=600)
    script.advance(29)
    assert not script.answers
    script.advance(2)
    train.settle()
    assert "only 1 of 2 members reached bind before the deadline" in script.answers[call]
    assert "only 1 of 2 members reached bind before the deadline" in train.stops[0]


def test_binds_that_kube_scheduler_gives_up_are_not_laid_to_pods_of_a_later_wave() -> None:
    script = Script(*cluster("a: 1x8"))
    train = Controlled(script, with_launcher(2))
    first, _ = train.create(only=2)
    script.bind(first, expires_s=10)
    train.wait(10)
    assert "only 1 of 2 members reached bind before the deadline" in train.stops[0]


def test_a_pod_of_a_larger_first_wave_waits_for_no_pod_of_the_next() -> None:
    """The controller creates that pod when all workers run that the job wants now."""
    script = Script(*cluster("a: 4x8"))
    train = Controlled(script, with_launcher(2, **EVENLY))
    script.run(train.create(only=2))
    workers, launcher = train.seen.podsets.podsets
    podsets = (replace(workers, count=3, minimum=3), launcher)
    train.show(podsets=replace(train.seen.podsets, podsets=podsets))
    (third,) = train.create(only=1)
    assert at_bind(script, [third]) == [third]
    script.post_all()
    assert script.bound([third])
