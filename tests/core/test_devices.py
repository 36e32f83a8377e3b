"""GPUs that DRA offers as an extended resource: no node lists them, and gangs do not support them yet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.events import DeviceClassGone, DeviceClassSeen
from extender.core.limits import Limits, Preempts
from policies.model import Pod
from tests.builders import GPU, cluster, gang, single
from tests.core.jobs import Controlled, job
from tests.core.queues import cluster_queue, come, flavor, in_queue, reason, show
from tests.core.script import Script

SEEN = DeviceClassSeen("gpu.example.com", GPU)
SAID = "nvidia.com/gpu is offered by DRA (DeviceClass gpu.example.com), and no node has such devices"


def asking(resource: str) -> list[Pod]:
    pods = gang("train", 2, gpus=0)
    return [replace(pod, requests=tuple(sorted((*pod.requests, (resource, 1))))) for pod in pods]


def test_the_reason_names_the_class_and_no_larger_nodes() -> None:
    script = Script(*cluster("a: 2x0"))
    script.feed(SEEN)
    script.see(gang("train", 2))
    assert (script.reason("train"), script.message("train")) == ("OfferedByDra", SAID)


@pytest.mark.parametrize("named", [GPU, ""])
def test_each_class_is_asked_for_by_its_own_name_too(named: str) -> None:
    script = Script(*cluster("a: 2x8"))
    script.feed(DeviceClassSeen("gpu.example.com", named))
    script.see(asking("deviceclass.resource.kubernetes.io/gpu.example.com"))
    assert script.reason("train") == "OfferedByDra"
    assert "(DeviceClass gpu.example.com)" in script.message("train")


def test_a_job_waits_with_that_reason_and_is_not_started() -> None:
    script = Script(*cluster("a: 2x0"))
    script.feed(SEEN)
    train = Controlled(script, job(2, gpus=1))
    train.wait(5)
    assert (script.reason("job"), script.message("job")) == ("OfferedByDra", SAID)
    assert not train.starts


def test_it_is_the_reason_in_a_queue_too() -> None:
    script = Script(*cluster("a: 2x0"))
    script.feed(SEEN)
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 64}))
    come(script, in_queue("train", 2))
    assert reason(script, "train").code == "OfferedByDra"
    assert SAID in reason(script, "train").message


def test_it_follows_the_classes_that_there_are() -> None:
    script = Script(*cluster("a: 2x0"))
    script.see(gang("train", 2))
    assert script.reason("train") == "NoRoom"
    script.feed(SEEN)
    script.advance(1.0)
    assert script.reason("train") == "OfferedByDra"
    script.feed(DeviceClassSeen("gpu.example.com", "example.com/other"))
    script.advance(1.0)
    assert script.reason("train") == "NoRoom"
    script.feed(SEEN)
    script.feed(DeviceClassSeen("all.example.com", GPU))
    script.advance(1.0)
    assert "(DeviceClasses all.example.com, gpu.example.com)" in script.message("train")
    script.feed(DeviceClassGone("gpu.example.com"))
    script.feed(DeviceClassGone("all.example.com"))
    script.advance(1.0)
    assert script.reason("train") == "NoRoom"


def test_where_some_nodes_list_the_resource_a_gang_uses_these_and_says_what_else_offers_it() -> None:
    script = Script(*cluster("a: 2x8", "b: 2x0"))
    script.feed(SEEN)
    script.see(gang("fits", 2))
    assert all(script.planned(script.pods[f"uid-fits-{at}"]) for at in (0, 1))
    script.see(gang("more", 2))
    assert script.reason("more") == "NoRoom"
    assert script.message("more").endswith("(DeviceClass gpu.example.com), too")


def test_who_asks_for_none_of_it_and_pods_of_no_gang_are_not_concerned() -> None:
    script = Script(*cluster("a: 2x0"))
    script.feed(SEEN)
    pod = single("one", gpus=1)
    script.see(gang("plain", 3, gpus=0), pod)
    assert script.planned(script.pods["uid-plain-0"])
    assert set(script.filter(pod)) == {"a-0", "a-1"}, "kube-scheduler knows of the devices"


def test_nobody_is_evicted_for_what_no_node_lists() -> None:
    script = Script(*cluster("a: 1x0"), limits=Limits(preemption=Preempts.ON))
    script.feed(SEEN)
    low = gang("low", 1, gpus=0, cpu=64)
    script.see(low)
    script.run(low)
    script.see(gang("high", 1, priority=10))
    script.advance(5.0)
    assert script.reason("high") == "OfferedByDra"
    assert script.reason("low") == "Running"
