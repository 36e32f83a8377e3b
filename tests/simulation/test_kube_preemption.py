"""kube-scheduler preempts in the model: no gang is broken in part, and whole ones are evicted only as a last resort."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from extender.core.engine import Engine
from extender.core.limits import Limits, Preempts
from policies.model import Pod
from tests.builders import cluster, node, requests, single
from tests.simulation.model.job_specs import JobSpec, Role
from tests.simulation.model.world import World
from tests.simulation.test_batch import made

DEV, TRAINING, INFERENCE = 100, 500, 10_000
DEFAULT = Limits()


def world(*nodes: str, limits: Limits = DEFAULT) -> World:
    return World(7, cluster(*nodes), partial(Engine, limits=limits))


def bare(name: str, size: int, gpus: int = 8, priority: int = 0) -> JobSpec:
    """A gang of pods without a controller."""
    role = Role(size, requests(gpus))
    return JobSpec(name, (role,), min_member=size, run_s=float("inf"), priority=priority, replaces=False)


def let(of: World, seconds: float) -> None:
    of.clock.run(of.clock.now + seconds)


def on(of: World, name: str) -> list[str]:
    """The nodes of the pods whose names begin like that."""
    return sorted(pod.node for pod in of.api.pods.values() if pod.name.startswith(name) and pod.node and pod.live)


def until(of: World, holds: Callable[[], bool], seconds: float = 120.0) -> None:
    until_s = of.clock.now + seconds
    while not holds():
        assert of.clock.now < until_s, "it never came to that"
        let(of, 0.001)


class Tutorial:
    """3 nodes of 4 GPUs: four dev pods on the first, a gang with 4 GPUs on each of the others."""

    def __init__(self, limits: Limits) -> None:
        self.of = world("a: 1x4", limits=limits)
        for number in range(4):
            self.of.api.create_pod(single(f"dev-{number}", gpus=1, priority=DEV))
        let(self.of, 10)
        for number in (1, 2):
            self.of.api.set_node(node(f"a-{number}", 4, clique="a"))
        self.of.jobs.submit(bare("train", 2, 4, TRAINING))
        let(self.of, 10)
        assert (on(self.of, "dev"), on(self.of, "train")) == (["a-0"] * 4, ["a-1", "a-2"])

    def ends(self) -> None:
        let(self.of, 120)
        assert (on(self.of, "dev"), on(self.of, "train")) == ([], ["a-1", "a-2"])
        assert on(self.of, "inference") == ["a-0"] * 4


def test_in_the_tutorial_exactly_the_dev_pods_give_way_to_a_gang() -> None:
    tutorial = Tutorial(Limits(preemption=Preempts.ON))
    tutorial.of.jobs.submit(bare("inference", 4, 1, INFERENCE))
    tutorial.ends()


@pytest.mark.parametrize("preemption", [Preempts.OFF, Preempts.ON])
def test_in_the_tutorial_exactly_the_dev_pods_give_way_to_pods_of_no_gang(preemption: Preempts) -> None:
    tutorial = Tutorial(Limits(preemption=preemption))
    for number in range(4):
        tutorial.of.api.create_pod(single(f"inference-{number}", gpus=1, priority=INFERENCE))
    tutorial.ends()


def with_a_gang(limits: Limits = DEFAULT) -> tuple[World, Pod]:
    """A gang on two nodes, and a single pod for which only the gang could be evicted."""
    of, urgent = world("a: 2x8", limits=limits), single("urgent", gpus=8, priority=5)
    of.jobs.submit(bare("train", 2))
    let(of, 10)
    assert on(of, "train") == ["a-0", "a-1"]
    of.api.create_pod(urgent)
    return of, urgent


def test_the_whole_gang_gives_way() -> None:
    of, _ = with_a_gang()
    let(of, 60)
    assert on(of, "train") == []
    assert len(on(of, "urgent")) == 1


def test_the_whole_gang_stays_when_it_is_switched_off() -> None:
    of, _ = with_a_gang(Limits(pods_preempt_gangs=False))
    let(of, 60)
    assert on(of, "train") == ["a-0", "a-1"]
    assert on(of, "urgent") == []


@pytest.mark.parametrize("moment", ["written", "half gone", "gone"])
def test_a_restart_at_any_moment_goes_on_with_it(moment: str) -> None:
    of, urgent = with_a_gang()
    moments = {
        "written": lambda: of.api.pods[urgent.uid].reservation is not None,
        "half gone": lambda: len(on(of, "train")) < 2,
        "gone": lambda: not on(of, "train"),
    }
    until(of, moments[moment])
    of.kill_extender()
    let(of, 1)
    of.start_extender()
    let(of, 60)
    assert on(of, "train") == []
    assert len(on(of, "urgent")) == 1
    assert of.api.pods[urgent.uid].reservation is None


def test_a_job_is_suspended_and_starts_again_later() -> None:
    of, job, urgent = world("a: 2x8"), made(2), single("urgent", gpus=8, priority=5)
    of.api.set_job(job)
    let(of, 20)
    assert [pod.node for pod in of.controller.pods(job)] == ["a-0", "a-1"]
    of.api.create_pod(urgent)
    let(of, 60)
    assert of.api.jobs[job.key].suspended
    assert of.api.jobs[job.key].failed == 0
    assert len(on(of, "urgent")) == 1
    of.api.delete_pod(urgent.uid)
    let(of, 60)
    assert [pod.node for pod in of.controller.pods(job) if pod.live] == ["a-0", "a-1"]
