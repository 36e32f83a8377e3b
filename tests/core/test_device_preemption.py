"""Workloads with the lacking devices of claims are evicted, and the devices are used only once they are free."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.events import DeviceClaimGone, Event
from policies.model import Pod
from tests.builders import GPU, cluster, gang
from tests.core.devices import CLASS, LARGE, claim, devices, gpus, request, template, with_claim, with_template
from tests.core.preempting import Cluster


def started(*slices: object, clusters: str = "a: 2x0") -> Cluster:
    script = Cluster(*cluster(*clusters.split(", ")))
    for event in (CLASS, template(request()), template(request(1, LARGE), name="large"), *slices):
        script.feed(event)  # type: ignore[arg-type]
    return script


def given(script: Cluster, pods: list[Pod], *names: str) -> list[Pod]:
    """The pods run, and kube-scheduler has given each of their claims one of these devices."""
    script.see(pods)
    for pod, name in zip(pods, names, strict=True):
        node = script.planned(pod)
        script.feed(claim(f"{pod.name}-gpu", request(), pod=pod))
        script.feed(claim(f"{pod.name}-gpu", request(), pod=pod, node=node, devices=(name,)))
        assert script.planned(pod) == node, "the plan stands"
    script.run(pods)
    return pods


def gone(script: Cluster, *pods: Pod) -> None:
    """Let the pods end; Kubernetes deletes their claims after them."""
    script.leave(*pods)
    for pod in pods:
        script.feed(DeviceClaimGone("default", f"{pod.name}-gpu"))


def test_a_gang_with_claims_evicts_one_whose_claims_have_the_devices() -> None:
    script = started(*gpus("a-0", "a-1", count=1))
    low = given(script, with_template("low", 2), "h100-0", "h100-0")
    high = with_template("high", 2, priority=10)
    script.see(high)
    assert sorted(script.evicted) == ["low-0", "low-1"]
    script.leave(*low)
    assert script.reason("high") == "Preempting", "the claims have the devices yet"
    assert not script.planned(high[0])
    for pod in low:
        script.feed(DeviceClaimGone("default", f"{pod.name}-gpu"))
    script.advance(1.0)
    assert sorted(map(script.planned, high)) == ["a-0", "a-1"]


def test_nobody_takes_what_comes_free_for_the_one_that_evicts() -> None:
    script = started(*gpus("a-0", count=1))
    (low,) = given(script, with_template("low", 1), "h100-0")
    high, late = with_template("high", 1, priority=10), with_template("late", 1)
    script.see(high)
    script.see(late)
    gone(script, low)
    script.advance(1.0)
    assert script.planned(high[0]) == "a-0"
    assert script.reason("late") == "NoRoom"


def test_no_workload_is_evicted_for_devices_that_do_not_match() -> None:
    """Two run on small GPUs, the cheaper victims, and one on a large GPU that the claim asks for."""
    script = started(devices("a-0", "h100", "a100", "a100"), clusters="a: 1x0")
    given(script, with_template("large", 1, "large", priority=5), "h100-0")
    for number in (1, 2):
        given(script, with_template(f"small-{number}", 1), f"a100-{number}")
    script.see(with_template("high", 1, "large", priority=10))
    assert script.evicted == ["large-0"]


def test_no_workload_is_evicted_where_no_device_would_do() -> None:
    script = started(devices("a-0", "a100"), clusters="a: 1x0")
    given(script, with_template("low", 1), "a100-0")
    script.see(with_template("high", 1, "large", priority=10))
    script.advance(5.0)
    assert not script.evicted
    assert script.reason("high") == "NoRoom"


def test_a_request_for_any_device_evicts_the_cheapest_of_those_that_have_one() -> None:
    script = started(devices("a-0", "h100", "a100"), clusters="a: 1x0")
    given(script, with_template("large", 1, "large", priority=5), "h100-0")
    given(script, with_template("small", 1), "a100-1")
    script.see(with_template("high", 1, priority=10))
    assert script.evicted == ["small-0"]


def test_all_devices_of_a_node_are_free_once_each_of_its_pods_has_gone() -> None:
    script = started(devices("a-0", "h100", "h100"), template(request(None), name="all"), clusters="a: 1x0")
    low = [given(script, with_template(f"low-{at}", 1), f"h100-{at}") for at in (0, 1)]
    high = with_template("high", 1, "all", priority=10)
    script.see(high)
    assert sorted(script.evicted) == ["low-0-0", "low-1-0"]
    gone(script, *low[0], *low[1])
    script.advance(1.0)
    assert script.planned(high[0]) == "a-0"


def test_what_several_pods_share_is_no_room_that_an_eviction_frees() -> None:
    script = started(*gpus("a-0", count=1), clusters="a: 1x0")
    script.feed(claim("shared", request()))
    low = with_claim("low", 2)
    script.see(low)
    script.feed(claim("shared", request(), node="a-0", devices=("h100-0",)))
    script.run(low)
    script.see(with_template("high", 1, priority=10))
    script.advance(5.0)
    assert not script.evicted


@pytest.mark.parametrize("users", [1, 2])
def test_a_claim_of_a_user_is_room_of_the_only_pod_that_names_it(users: int) -> None:
    script = started(*gpus("a-0", count=1), clusters="a: 1x0")
    script.feed(claim("mine", request()))
    low = with_claim("low", 1, "mine")
    script.see(low)
    script.feed(claim("mine", request(), node="a-0", devices=("h100-0",)))
    script.run(low)
    if users == 2:
        script.see(with_claim("other", 1, "mine"))
    script.see(with_template("high", 1, priority=10))
    script.advance(5.0)
    assert script.evicted == (["low-0"] if users == 1 else [])


def test_what_kube_scheduler_gives_for_an_extended_resource_is_counted_once() -> None:
    script = started(*gpus("a-0", count=2), clusters="a: 1x0")
    script.feed(replace(CLASS, resource=GPU))
    (low,) = gang("low", 1, gpus=1)
    script.see([low])
    script.feed(claim("low-gpu", request(), pod=low, node="a-0", devices=("h100-0",), extended=True))
    assert script.planned(low) == "a-0", "the plan stands"
    script.run([low])
    script.see(second := gang("second", 1, gpus=1))
    assert script.planned(second[0]) == "a-0"
    script.see(gang("third", 1, gpus=1))
    assert script.reason("third") == "NoRoom"
    script.see(gang("high", 1, gpus=1, priority=10))
    assert script.evicted == ["low-0"]


def test_what_is_left_of_a_start_that_failed_is_found_again_by_its_own_pod() -> None:
    """kube-scheduler has given a pod devices for its extended resource, and its gang was not bound."""
    script = started(*gpus("a-0", "a-1", count=1))
    script.feed(replace(CLASS, resource=GPU))
    pods = gang("train", 2, gpus=1)
    script.feed(claim("train-0-gpu", request(), pod=pods[0], node="a-1", devices=("h100-0",), extended=True))
    script.see(pods)
    assert [script.planned(pod) for pod in pods] == ["a-1", "a-0"]
    script.run(pods)
    script.see(gang("late", 1, gpus=1))
    assert script.reason("late") == "NoRoom"


def test_requests_that_are_alike_in_one_claim_are_each_counted() -> None:
    script = started(*gpus("a-0", count=3), clusters="a: 1x0")
    script.feed(template(request(name="first"), request(name="second"), name="two"))
    script.see(train := with_template("train", 1, "two"))
    assert script.planned(train[0]) == "a-0"
    script.see(with_template("late", 1, "two"))
    assert script.reason("late") == "NoRoom"


class Restarted(Cluster):
    """A restarted extender, which reads all devices before it decides anything."""

    def feed_synced(self) -> None:
        for event in PUBLISHED:
            self.feed(event)
        super().feed_synced()


PUBLISHED: list[Event] = [
    CLASS,
    *gpus("a-0", "a-1", count=1),
    template(request()),
    *(
        claim(f"low-{at}-gpu", request(), pod=pod, node=f"a-{at}", devices=("h100-0",))
        for at, pod in enumerate(with_template("low", 2))
    ),
]


def test_a_restart_goes_on_with_an_eviction_for_devices() -> None:
    script = started(*gpus("a-0", "a-1", count=1))
    low = given(script, with_template("low", 2), "h100-0", "h100-0")
    high = with_template("high", 2, priority=10)
    script.see(high)
    assert sorted(script.evicted) == ["low-0", "low-1"]
    again = Restarted(*cluster("a: 2x0"), *script.pods.values())
    again.advance(20.0)
    assert again.reason("high") == "Preempting"
    assert set(again.evicted) == {"low-0", "low-1"}
    assert not again.written, "what is written down stands"
    gone(again, *low)
    again.advance(1.0)
    assert sorted(map(again.planned, high)) == ["a-0", "a-1"]
