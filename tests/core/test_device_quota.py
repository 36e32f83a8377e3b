"""Devices count towards quota: extended resources that a class offers, and claims of classes that a queue names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from extender.core.events import DeviceClassSeen
from policies.model import Pod
from policies.model.devices import ClaimRequest, DeviceRequest
from policies.model.queues import ClusterQueue, Quota, ResourceFlavor, ResourceGroup
from tests.builders import GPU, cluster, gang
from tests.core.devices import CLASS, LARGE, claim, gpus, request, template, with_claim, with_template
from tests.core.jobs import Controlled
from tests.core.queues import come, leave, planned, reason, show
from tests.core.script import Script
from tests.core.test_device_claims import claiming
from tests.policies.devices.vendors import NVIDIA

OFFERS = replace(CLASS, resource=GPU)
NODES = ("a-0", "a-1")


def team(name: str, most: int) -> ClusterQueue:
    """A queue with quota for ``most`` devices under that name."""
    return ClusterQueue("team", (ResourceGroup((name, "cpu"), (("gpus", {name: Quota(most)}),)),), namespaces=())


def started(name: str, most: int, *requests: ClaimRequest, seen: DeviceClassSeen = OFFERS) -> Script:
    script = Script(*cluster("a: 2x0"))
    show(script, ResourceFlavor("gpus", {}), team(name, most))
    script.feed(seen)
    for event in gpus(*NODES, count=4):
        script.feed(event)
    script.feed(template(*(requests or (request(2),))))
    return script


def queued(pods: Sequence[Pod]) -> list[Pod]:
    return [replace(pod, queue="team") for pod in pods]


def used(script: Script, name: str) -> int:
    node = script.core.state.quotas.node_of("team")
    assert node is not None
    return node.used["gpus", name]


@pytest.mark.parametrize("name", [GPU, NVIDIA, f"deviceclass.resource.kubernetes.io/{NVIDIA}"])
def test_claims_count_by_each_name_of_their_class_that_the_queue_covers(name: str) -> None:
    script = started(name, 5)
    first = queued(with_template("first", 2))
    come(script, first)
    assert (planned(script, "first"), used(script, name)) == (2, 4)
    come(script, queued(with_template("second", 1)))
    assert reason(script, "second").code == "NoQuota"
    assert f"it asks for 2 {name} of flavor gpus, and 1 of 5 {name} is left" in reason(script, "second").message
    leave(script, first)
    assert (planned(script, "second"), used(script, name)) == (1, 2)


def test_claims_of_a_class_that_the_queue_does_not_name_need_no_quota() -> None:
    script = started("example.com/other", 0)
    come(script, queued(with_template("train", 2)))
    assert planned(script, "train") == 2


def test_an_extended_resource_of_a_class_and_claims_of_it_use_the_same_quota() -> None:
    script = started(GPU, 6)
    come(script, queued(gang("train", 2, gpus=2)))
    assert (planned(script, "train"), used(script, GPU)) == (2, 4)
    come(script, queued(with_template("claims", 1)))
    assert used(script, GPU) == 6
    come(script, queued(gang("late", 1, gpus=1)))
    assert reason(script, "late").code == "NoQuota"


def test_quota_stays_used_when_kube_scheduler_allocates_the_claims() -> None:
    script = started(GPU, 4)
    train = queued(with_template("train", 2))
    come(script, train)
    for at, pod in enumerate(train):
        node = script.planned(pod)
        script.feed(claim(f"c-{at}", request(2), pod=pod, node=node, devices=(f"h100-{2 * at}", f"h100-{2 * at + 1}")))
    assert used(script, GPU) == 4
    script.run(train)
    assert used(script, GPU) == 4
    come(script, queued(with_template("late", 1)))
    assert reason(script, "late").code == "NoQuota"


EITHER = ClaimRequest("gpu", (DeviceRequest(NVIDIA, (LARGE,), 1), DeviceRequest(NVIDIA, (), 2)))


@pytest.mark.parametrize(
    ("requests", "count"),
    [((request(2), request(1, name="other")), 3), ((EITHER,), 2), ((request(admin=True),), 0), ((request(None),), 1)],
    ids=["several requests", "the largest alternative", "access for admins", "all devices of a node"],
)
def test_what_a_claim_counts_as(requests: tuple[ClaimRequest, ...], count: int) -> None:
    script = started(GPU, 8, *requests)
    come(script, queued(with_template("train", 1)))
    assert (planned(script, "train"), used(script, GPU)) == (1, count)


def test_a_claim_that_pods_share_counts_once() -> None:
    script = started(GPU, 2)
    script.feed(claim("shared", request(2)))
    come(script, queued(with_claim("train", 3)))
    assert (planned(script, "train"), used(script, GPU)) == (3, 2)


def test_the_pods_of_a_suspended_job_count_before_they_exist() -> None:
    script = started(GPU, 3)
    train = Controlled(script, replace(claiming("job"), queue="team"))
    train.wait(1)
    assert not train.starts, "two pods ask for two devices each"
    assert reason(script, "job").code == "NoQuota"
    show(script, team(GPU, 4))
    train.wait(1)
    assert len(train.starts) == 1
    assert used(script, GPU) == 4


def see_class(script: Script, _: Sequence[Pod]) -> None:
    script.feed(OFFERS)


def see_template(script: Script, _: Sequence[Pod]) -> None:
    script.feed(template(request(2)))


def see_pods(script: Script, pods: Sequence[Pod]) -> None:
    script.see(*pods)


@pytest.mark.parametrize("last", [see_class, see_template, see_pods])
def test_pods_that_run_count_in_whatever_order_things_are_read(last: Callable[[Script, Sequence[Pod]], None]) -> None:
    """After a restart: the claims of pods that are bound."""
    script = Script(*cluster("a: 2x0"))
    show(script, ResourceFlavor("gpus", {}), team(GPU, 8))
    pods = [replace(pod, node="a-0", phase="Running") for pod in queued(with_template("train", 1))]
    for step in (see_class, see_template, see_pods):
        if step is not last:
            step(script, pods)
    last(script, pods)
    script.advance(1.0)
    assert used(script, GPU) == 2
