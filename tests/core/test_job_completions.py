"""A Job with more completions than pods: the next pod takes the slot of a succeeded one, by no index."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from extender.core.limits import Limits
from policies.model import GANG_GATE, Controller, Pod
from tests.builders import cluster, gang, single
from tests.core.jobs import Controlled, job
from tests.core.script import Script


class Completions(Controlled):
    """A controller that keeps ``pods`` pods at a time.

    ``completions``: how many pods have to succeed, if the Job states it.
    ``numbered``: pods have a completion index, which does not tell their slots. Those beyond the plan have a gate.
    """

    def __init__(self, script: Script, *, numbered: bool, completions: int = 0, pods: int = 3) -> None:
        self.numbered, self.maker = numbered, ""
        seen = job(pods, indexed=False)
        (podset,) = seen.podsets.podsets
        podsets = replace(seen.podsets, podsets=(replace(podset, completions=completions),))
        super().__init__(script, replace(seen, podsets=podsets))

    def come(self, *indexes: int) -> list[Pod]:
        """Pods for these completions, one after the other."""
        (podset,) = self.seen.podsets.podsets
        pods: list[Pod] = []
        for index in indexes:
            self._made += 1
            gates = (GANG_GATE,) if self.numbered and index >= podset.count else ()
            name = f"pod-{index}-{self._made}"
            number, maker = index if self.numbered else None, Controller("batch/v1", "Job", self.maker, self.maker)
            made = replace(podset.template, uid=name, name=name, index=number, gates=gates, controller=maker)
            self.pods[name] = made
            self.script.see(made)
            pods.append(made)
        self.settle()
        return pods

    def finish(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            self.script.change(self.script.pods[pod.uid], phase="Succeeded")
            del self.pods[pod.uid]
        self.settle()

    def suspend(self) -> None:
        """Suspend the job: its pods are deleted, and Muster's annotations are removed."""
        self.delete()
        self.show(suspended=True, stopped=True, plan=None, marked=False)
        self.wait(2)


def restarted(train: Completions, others: Iterable[Pod]) -> Controlled:
    """The job in the next life of the core, where others wait for room."""
    before = train.script
    later = Script(*cluster("a: 3x8"), *before.pods.values(), *others, synced=False, now=before.now)
    again = Controlled(later, train.seen)
    later.feed_synced()
    again.wait(1)
    return again


@pytest.mark.parametrize("numbered", [False, True])
def test_one_that_is_started_again_waits_for_all_of_its_pods_whatever_has_ended_before(*, numbered: bool) -> None:
    script = Script(*cluster("a: 3x8"), limits=Limits(creation_s=30.0))
    train = Completions(script, numbered=numbered)
    script.run(pods := train.come(0, 1, 2))
    for indexes in ((3,), (4, 5)):
        train.finish(pods[: len(indexes)])
        script.run(more := train.come(*indexes))
        train.suspend()
        pods = train.come(*(int(pod.name.split("-")[1]) for pod in (*pods[len(indexes) :], *more)))
        assert all(script.planned(pod) for pod in pods)
        script.bind_all(pods[:2])
        train.wait(1)
        assert not script.bindings, "two of three do not start"
        script.bind(pods[2])
        script.post_all()
        train.wait(3)
        assert len(script.bound(pods)) == 3
    assert len(train.starts) == 3
    assert not train.stops


def test_a_work_queue_that_makes_no_more_pods_is_not_suspended_for_a_lost_node() -> None:
    """After one success no other pod is made: a suspended job would be complete at once."""
    script = Script(*cluster("a: 3x8"), limits=Limits(node_loss_s=2.0))
    train = Completions(script, numbered=False)
    script.run(pods := train.come(0, 1, 2))
    train.finish(pods[:1])
    train.show(closed=3)
    script.drop(str(script.pods[pods[1].uid].node))
    train.wait(5)
    assert not train.stops
    script.gone(script.pods[pods[1].uid])
    train.wait(5)
    assert not train.stops
    assert script.bound(pods[2:])


@pytest.mark.parametrize("pods", [1, 3])
@pytest.mark.parametrize("numbered", [False, True])
def test_whoever_comes_next_has_the_room_of_a_pod_that_has_ended(pods: int, *, numbered: bool) -> None:
    """Other workloads wait for room, and the next pod comes a moment later."""
    script = Script(*cluster("a: 3x8"))
    train = Completions(script, numbered=numbered, completions=pods + 2, pods=pods)
    script.run(first := train.come(*range(pods)))
    rest = 3 - pods
    filler = [replace(single(f"filler-{at}", gpus=8), node=f"a-{at + pods}", phase="Running") for at in range(rest)]
    other = gang("other", 1)
    script.see(*filler, other)
    for number in range(2):
        [ended] = first[:1]
        node = script.pods[ended.uid].node
        train.finish([ended])
        assert not script.planned(other[0])
        script.run(more := train.come(pods + number))
        assert script.bound(more) == [node]
        first = [*first[1:], *more]
    train.finish(first[:1])
    assert script.planned(other[0]), "nobody comes any more"
    assert not train.stops


@pytest.mark.parametrize("numbered", [False, True])
@pytest.mark.parametrize("tail", [1, 2])
def test_the_tail_of_a_job_runs_alone(tail: int, *, numbered: bool) -> None:
    """The first pods end before the next one comes, and no status says how many are done. KAI-Scheduler#1347"""
    script = Script(*cluster("a: 3x8"))
    train = Completions(script, numbered=numbered, completions=3 + tail)
    script.run(first := train.come(0, 1, 2))
    train.finish(first)
    rest = train.come(*range(3, 3 + tail))
    script.run(rest)
    assert len(script.bound(rest)) == tail
    others = [gang(f"other-{at}", 1) for at in range(3)]
    script.see(*others)
    script.advance(0.5)
    assert sum(bool(script.planned(pod)) for (pod,) in others) == 3 - tail
    again = restarted(train, [pod for pods in others for pod in pods])
    assert not again.stops
    train.finish(rest)
    assert not train.stops


def test_a_job_that_is_made_anew_starts_with_all_of_its_pods() -> None:
    """A Job of a JobSet that starts again has another UID: pods that had ended before do not count."""
    script = Script(*cluster("a: 3x8"))
    train = Completions(script, numbered=False, completions=4)
    train.maker = "first"
    script.run(first := train.come(0, 1, 2))
    train.finish(first)
    script.run(last := train.come(3))
    script.gone(*(script.pods[pod.uid] for pod in (*first, *last)))
    train.pods.clear()
    train.maker = "second"
    script.bind_all(train.come(0, 1)[:2])
    assert not script.bindings, "two of three do not start"
    script.run(train.come(2))
    assert not train.stops


def test_room_is_kept_for_the_next_pods_after_a_restart() -> None:
    script = Script(*cluster("a: 3x8"))
    train = Completions(script, numbered=False, completions=5)
    script.run(pods := train.come(0, 1, 2))
    train.finish(pods[:1])
    other = gang("other", 1)
    again = restarted(train, other)
    assert not again.script.planned(other[0])
    assert not again.stops


def test_what_had_ended_before_a_restart_leaves_fewer_to_come() -> None:
    script = Script(*cluster("a: 3x8"))
    train = Completions(script, numbered=False, completions=4)
    script.run(pods := train.come(0, 1, 2))
    train.finish(pods[:1])
    script.run(train.come(3))
    other = gang("other", 1)
    again = restarted(train, other)
    assert not again.script.planned(other[0])
    again.script.change(again.script.pods[pods[1].uid], phase="Succeeded")
    again.wait(1)
    assert again.script.planned(other[0]), "nobody comes for it"
