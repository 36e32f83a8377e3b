"""Pods that replace pods of a job that are deleted or refused while they are bound, or that have yet to end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from extender.core.answers import Outcome
from policies.model import Constraints, HostPort, Pod
from tests.builders import cluster
from tests.core.jobs import Controlled, job
from tests.core.script import Script


def gone_at_once(script: Script, pod: Pod) -> None:
    script.gone(script.pods[pod.uid])
    script.feed_outcome(pod.uid, Outcome.REFUSED)


def gone_after_its_binding(script: Script, pod: Pod) -> None:
    script.change(pod, deleting=True)
    script.feed_outcome(pod.uid, Outcome.REFUSED)
    script.gone(script.pods[pod.uid])


def gone_in_doubt(script: Script, pod: Pod) -> None:
    script.feed_outcome(pod.uid, Outcome.UNKNOWN)
    script.gone(script.pods[pod.uid])


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("lose", [gone_at_once, gone_after_its_binding, gone_in_doubt])
@pytest.mark.parametrize("lost", [1, 2])
def test_a_job_goes_on_whose_pods_are_deleted_while_they_are_bound(
    lost: int, lose: Callable[[Script, Pod], None], indexed: bool
) -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(lost + 1, indexed=indexed, gpus=4))
    pods = train.create()
    script.bind_all(pods, expires_s=600)
    assert list(script.bindings) == [pod.uid for pod in pods[:lost]]
    for pod in pods[:lost]:
        lose(script, pod)
        del train.pods[pod.uid]
    train.settle()
    assert (train.stops, script.bindings) == ([], {})
    missing = ("1 pod is", "2 pods are")[lost - 1]
    assert script.message("job") == f"1 of {lost + 1} members reached bind; {missing} yet to be created"
    again = train.create()
    script.run(again)
    assert sorted(script.bound([pods[-1], *again])) == sorted(train.starts[0].plan[""])
    assert script.reason("job") == "Running"


@pytest.mark.parametrize("shown", [True, False])
def test_a_pod_may_take_the_slot_of_a_deleted_one_whose_binding_is_under_way(shown: bool) -> None:
    """``shown``: the watch shows that the deleted one is gone before its Binding ends."""
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(2))
    first, other = train.create()
    script.bind_all([first, other], expires_s=600)
    script.change(first, deleting=True)
    if shown:
        script.gone(script.pods[first.uid])
    del train.pods[first.uid]
    again = train.create()
    script.feed_outcome(first.uid, Outcome.REFUSED)
    train.settle()
    assert not train.stops
    script.run(again)
    assert script.bound([*again, other]) == list(train.starts[0].plan[""])


def test_a_job_none_of_whose_bindings_is_accepted_is_started_over() -> None:
    script = Script(*cluster("a: 3x8"))
    train = Controlled(script, job(3))
    pods = train.create()
    script.bind_all(pods, expires_s=600)
    script.feed_outcome(pods[0].uid, Outcome.REFUSED)
    script.gone(script.pods[pods[1].uid])
    train.settle()
    assert train.stops == ["none of the gang's Bindings was accepted"]


def test_a_replacement_waits_until_the_pod_before_it_has_left_its_port() -> None:
    whole = job(1, gpus=1)
    podset = whole.podsets.podsets[0]
    template = replace(podset.template, constraints=Constraints((HostPort(80),)))
    script = Script(*cluster("a: 1x8"))
    podsets = replace(whole.podsets, podsets=(replace(podset, template=template),))
    train = Controlled(script, replace(whole, podsets=podsets))
    [first] = train.run()
    script.change(first, deleting=True)
    del train.pods[first.uid]
    [again] = train.create()
    train.wait(3)
    assert not train.stops
    assert not script.planned(again)
    script.gone(script.pods[first.uid])
    train.wait(1)
    assert script.planned(again)
    assert not train.stops
