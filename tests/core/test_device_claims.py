"""Gangs whose pods claim devices: counted per node, with allocated claims and promises of plans."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from extender.core.effects import Nominate, SuspendJob
from extender.core.events import (
    ClaimTemplateGone,
    ClaimTemplateSeen,
    DeviceClaimGone,
    DeviceClassGone,
    DeviceClassSeen,
    JobSeen,
    OwnerSeen,
    PodSeen,
    SliceGone,
    Synced,
    TaintRuleGone,
    TaintRuleSeen,
)
from extender.core.limits import Limits
from policies.model import CLIQUE, Job, Order, Pod, Requests, Requirement, Taint, Topology
from policies.model.devices import (
    ClaimRequest,
    ClaimSpec,
    ClaimTemplate,
    ClaimUse,
    DeviceRequest,
    Path,
    Reach,
    TaintRule,
    Value,
)
from tests.builders import GPU, cluster, gang, reborn, requests
from tests.core.devices import (
    CLASS,
    LARGE,
    claim,
    devices,
    gpus,
    request,
    template,
    with_claim,
    with_template,
)
from tests.core.jobs import Controlled, job
from tests.core.owned import owned, owner
from tests.core.script import Script
from tests.core.sliced import ONE
from tests.policies.devices.vendors import NVIDIA


def started(*slices: object, clusters: str = "a: 2x0") -> Script:
    """A cluster whose nodes list no GPUs, a class, and these events."""
    script = Script(*cluster(*clusters.split(", ")))
    for event in (CLASS, *slices):
        script.feed(event)  # type: ignore[arg-type]
    return script


def nodes_of(script: Script, pods: list[Pod]) -> list[str]:
    return [script.planned(script.pods[pod.uid]) for pod in pods]


def test_a_gang_with_claims_goes_where_devices_are_free() -> None:
    script = started(*gpus("a-0", "a-1", count=4), template(request(2)), clusters="a: 2x0, b: 4x0")
    train = with_template("train", 4)
    script.see(train)
    assert sorted(nodes_of(script, train)) == ["a-0", "a-0", "a-1", "a-1"]
    more = with_template("more", 1)
    script.see(more)
    assert script.reason("more") == "NoRoom"
    assert "0 of 6 nodes have room for 2 devices of gpu.nvidia.com" in script.message("more")
    script.gone(*train)
    assert nodes_of(script, more) == ["a-0"]


def test_the_gang_waits_for_devices_and_starts_when_a_driver_publishes_them() -> None:
    script = started(template(request()))
    train = with_template("train", 2)
    script.see(train)
    assert script.reason("train") == "NoRoom"
    script.feed(devices("a-0", "h100"))
    script.advance(1.0)
    assert script.reason("train") == "NoRoom"
    script.feed(devices("a-1", "h100"))
    script.advance(1.0)
    assert nodes_of(script, train) == ["a-0", "a-1"]


def test_devices_that_go_before_the_gang_is_bound_take_its_plan_with_them() -> None:
    script = started(*gpus("a-0", "a-1"), template(request()), clusters="a: 3x0")
    train = with_template("train", 9)
    script.see(train)
    assert set(nodes_of(script, train)) == {"a-0", "a-1"}
    script.feed(SliceGone("a-1"))
    script.advance(1.0)
    assert script.reason("train") == "NoRoom"
    assert not any(script.core.state.claims.get(pod.uid) for pod in train)


@pytest.mark.parametrize(("left", "node"), [(8, "a-0"), (0, "a-1")])
def test_a_restart_takes_a_nomination_over_only_where_devices_are_left(left: int, node: str) -> None:
    train = [replace(pod, nominated_node="a-0") for pod in with_template("train", 2)]
    script = Script(*cluster("a: 2x0"), *train, synced=False)
    for event in (CLASS, template(request()), *gpus("a-0", count=left), *gpus("a-1", count=8)):
        script.feed(event)  # type: ignore[arg-type]
    script.feed_synced()
    assert nodes_of(script, train) == [node, node]
    assert [effect.node for effect in script.effects if isinstance(effect, Nominate)] == [node, node]


def test_requirements_that_overlap_are_counted_right() -> None:
    """A large GPU and a small one on each node: any two, but only one large."""
    script = started(
        *[devices(node, "h100", "a100") for node in ("a-0", "a-1")],
        template(request(), name="any"),
        template(request(1, LARGE), name="large"),
    )
    large, small = with_template("large", 2, "large"), with_template("small", 2, "any")
    script.see(large)
    assert nodes_of(script, large) == ["a-0", "a-1"]
    script.see(small)
    assert nodes_of(script, small) == ["a-0", "a-1"]
    script.see(with_template("more", 1, "any"))
    assert script.reason("more") == "NoRoom"


def test_those_that_take_anything_leave_the_large_ones_where_they_fit() -> None:
    script = started(
        devices("a-0", "h100", "a100"), template(request(), name="any"), template(request(1, LARGE), name="large")
    )
    both = [*with_template("train", 1, "any"), *with_template("other", 1, "large")]
    script.see(both)
    assert nodes_of(script, both) == ["a-0", "a-0"]
    script.see(with_template("third", 1, "large"))
    assert script.reason("third") == "NoRoom"


@pytest.mark.parametrize(("kinds", "fits"), [(["h100", "h100"], True), (["h100", "a100"], True), ([], False)])
def test_all_devices_of_a_node_go_to_one_pod(kinds: list[str], fits: bool) -> None:
    script = started(devices("a-0", *kinds), template(request(None), name="all"), template(request(), name="one"))
    first, second = with_template("first", 1, "all"), with_template("second", 1, "all")
    script.see(first)
    assert (script.reason("first") == "NoRoom") is not fits
    if fits:
        script.see(second, with_template("third", 1, "one"))
        assert (script.reason("second"), script.reason("third")) == ("NoRoom", "NoRoom")


def test_admin_access_takes_nothing_and_needs_devices_that_are_there() -> None:
    script = started(devices("a-0", "h100"), template(request()), template(request(admin=True), name="look"))
    train, monitor = with_template("train", 1), with_template("monitor", 3, "look")
    script.see(train, monitor)
    assert nodes_of(script, train + monitor) == ["a-0"] * 4
    script.feed(SliceGone("a-0"))
    script.see(with_template("late", 1, "look"))
    assert script.reason("late") == "NoRoom"


def test_the_first_of_several_alternatives_that_is_there_will_do() -> None:
    either = ClaimRequest("gpu", (DeviceRequest(NVIDIA, (LARGE,)), DeviceRequest(NVIDIA)))
    script = started(
        devices("a-0", "h100"), devices("a-1", "a100"), template(either), template(request(1, LARGE), name="large")
    )
    train = with_template("train", 2)
    script.see(train)
    assert nodes_of(script, train) == ["a-0", "a-1"]
    script.see(with_template("large", 1, "large"))
    assert script.reason("large") == "NoRoom"


def test_devices_with_taints_are_for_those_who_tolerate_them() -> None:
    event = devices("a-0", "h100")
    broken = replace(event.slice.devices[0], taints=(Taint("broken", "", "NoSchedule"),))
    script = started(replace(event, slice=replace(event.slice, devices=(broken,))), template(request()))
    train = with_template("train", 1)
    script.see(train)
    assert script.reason("train") == "NoRoom"
    script.feed(event)
    script.advance(1.0)
    assert nodes_of(script, train) == ["a-0"]
    script.feed(TaintRuleSeen(TaintRule("r", Taint("broken", "", "NoSchedule"), pool="a-0")))
    script.advance(1.0)
    assert script.reason("train") == "NoRoom", "by a rule, too"
    script.feed(TaintRuleGone("r"))
    script.advance(1.0)
    assert nodes_of(script, train) == ["a-0"]


def test_allocated_claims_hold_their_devices() -> None:
    script = started(*gpus("a-0", count=2), template(request()))
    script.feed(claim("foreign", request(), node="a-0", devices=("h100-0",)))
    train = with_template("train", 2)
    script.see(train)
    assert script.reason("train") == "NoRoom"
    script.feed(DeviceClaimGone("default", "foreign"))
    script.advance(1.0)
    assert nodes_of(script, train) == ["a-0", "a-0"]


def test_what_a_bound_pod_has_in_its_claim_is_counted_once() -> None:
    script = started(*gpus("a-0", count=2), template(request()))
    train = with_template("train", 1)
    script.see(train)
    script.feed(claim("train-0-gpu", request(), pod=train[0]))
    script.feed(claim("train-0-gpu", request(), pod=train[0], node="a-0", devices=("h100-1",)))
    assert nodes_of(script, train) == ["a-0"]
    script.run(train)
    other = with_template("other", 1)
    script.see(other)
    assert nodes_of(script, other) == ["a-0"]
    script.see(with_template("third", 1))
    assert script.reason("third") == "NoRoom"
    script.gone(*train)
    assert script.reason("third") == "NoRoom", "the claim is there still"
    script.feed(DeviceClaimGone("default", "train-0-gpu"))
    script.advance(1.0)
    assert script.reason("third") != "NoRoom"


def test_a_claim_that_has_devices_holds_its_pod_to_their_node() -> None:
    """The allocation of a failed bind stays: nothing is free there, and the pod may go nowhere else."""
    script = started(*gpus("a-0", "a-1", count=1), template(request()))
    train = with_template("train", 2)
    script.feed(claim("train-1-gpu", request(), pod=train[1], node="a-0", devices=("h100-0",)))
    script.see(train)
    assert nodes_of(script, train) == ["a-1", "a-0"]


def test_a_claim_of_several_pods_is_counted_once_and_keeps_them_together() -> None:
    script = started(*gpus("a-0", "a-1", count=1), clusters="a: 2x0")
    script.feed(claim("shared", request()))
    train = with_claim("train", 3)
    script.see(train)
    assert nodes_of(script, train) == ["a-0"] * 3
    script.feed(claim("shared", request(), node="a-1", devices=("h100-0",)))
    late = with_claim("late", 2)
    script.see(late)
    assert nodes_of(script, late) == ["a-1"] * 2


def test_a_claim_that_pods_are_to_share_takes_its_devices_from_the_others() -> None:
    script = started(*gpus("a-0", count=2), template(request()), clusters="a: 1x0")
    script.feed(claim("shared", request()))
    train = with_claim("train", 3)
    script.see(train)
    assert nodes_of(script, train) == ["a-0"] * 3
    other = with_template("other", 1)
    script.see(other)
    assert nodes_of(script, other) == ["a-0"]
    script.see(with_template("late", 1))
    assert script.reason("late") == "NoRoom"
    script.feed(claim("shared", request(), node="a-0", devices=("h100-0",)))
    assert script.reason("late") == "NoRoom"
    script.gone(*train)
    script.feed(DeviceClaimGone("default", "shared"))
    script.advance(1.0)
    assert script.reason("late") != "NoRoom"


def test_a_claim_of_a_device_that_all_nodes_reach_keeps_nobody_together() -> None:
    """Kubernetes 139016: a fabric device in common, and a GPU of one's own."""
    fabric = devices("fabric", "h100", reach=Reach())
    other = replace(fabric, slice=replace(fabric.slice, pool=fabric.slice.pool._replace(driver="fabric.example.com")))
    own = DeviceClassSeen("fabric", "", ("device.driver == 'fabric.example.com'",))
    facts: dict[Path, Value] = {("driver",): "fabric.example.com"}
    switch = replace(other.slice.devices[0], facts=facts)
    script = started(own, replace(other, slice=replace(other.slice, devices=(switch,))), *gpus("a-0", "a-1", count=1))
    script.feed(template(request()))
    script.feed(claim("shared", ClaimRequest("switch", (DeviceRequest("fabric"),))))
    both = (ClaimUse("gpu", "", "gpus"), ClaimUse("switch", "shared", ""))
    train = [replace(pod, device_claims=both) for pod in gang("train", 2, gpus=0)]
    script.see(train)
    assert nodes_of(script, train) == ["a-0", "a-1"]


@pytest.mark.parametrize(
    ("gone", "reason"),
    [
        (ClaimTemplateGone("default", "gpus"), "there is no ResourceClaimTemplate gpus, which pod train-0 uses"),
        (DeviceClassGone(NVIDIA), "there is no DeviceClass gpu.nvidia.com, which pod train-0 uses"),
    ],
)
def test_what_a_claim_needs_and_is_not_there_is_the_reason(gone: object, reason: str) -> None:
    script = started(template(request()), DeviceClassSeen("other.example.com", ""))
    script.feed(gone)  # type: ignore[arg-type]
    train = with_template("train", 2)
    script.see(train)
    assert (script.reason("train"), script.message("train")) == ("ResourceClaims", reason)
    script.feed(CLASS)
    script.feed(template(request()))
    script.feed(devices("a-0", "h100", "h100"))
    script.advance(1.0)
    assert nodes_of(script, train) == ["a-0", "a-0"]


def test_a_claim_that_is_not_there_is_the_reason() -> None:
    script = started(*gpus("a-0"))
    train = with_claim("train", 2, "mine")
    script.see(train)
    assert script.message("train") == "there is no ResourceClaim mine, which pod train-0 uses"
    script.feed(claim("mine", request()))
    script.advance(1.0)
    assert nodes_of(script, train) == ["a-0", "a-0"]


@pytest.mark.parametrize(
    "odd",
    [
        request(1, "device.driver.split('.')[0] == 'gpu'"),
        request(uncounted="a share of a device's capacity"),
    ],
)
def test_what_cannot_be_counted_is_left_to_kube_scheduler(odd: ClaimRequest) -> None:
    script = started(template(odd))
    train = with_template("train", 2)
    script.see(train)
    assert all(nodes_of(script, train))
    assert script.core.state.devices.passed_through(script.core.state.pods[train[0].uid])


def test_what_keeps_devices_from_being_counted_is_in_the_reason() -> None:
    fails = "device.attributes['gpu.nvidia.com'].index < 4"
    script = started(
        *gpus("a-0", count=1), template(request(1, fails), request(1, "device.driver.split('.')[0] == 'g'"))
    )
    script.see(with_template("train", 2))
    assert script.reason("train") == "NoRoom"
    assert "; left to kube-scheduler: a selector with split() (request gpu)" in script.message("train")
    assert "a selector of gpu.nvidia.com fails on device h100-0: no such key: index" in script.message("train")


def test_a_job_is_planned_before_its_pods_exist() -> None:
    script = started(*gpus("a-0", "a-1", count=4), template(request(4)), clusters="a: 3x0")
    train = Controlled(script, claiming("job"))
    train.wait(1)
    (start,) = train.starts
    assert sorted(node for nodes in start.plan.values() for node in nodes) == ["a-0", "a-1"]
    script.see(with_template("other", 1))
    assert script.reason("other") == "NoRoom"


@pytest.mark.parametrize("shown", [1, 2])
def test_a_job_keeps_its_plan_while_its_claims_are_shown_before_its_pods(shown: int) -> None:
    """Seed 1000020: the watch of pods was behind, and the devices of the pods counted beside those of their slots."""
    script = started(*gpus("a-0", count=2), template(request()), clusters="a: 1x0")
    train = Controlled(script, claiming("job"))
    train.wait(1)
    pods = [
        replace(pod, uid=f"job-pod-{number + 1}") for number, pod in enumerate(train.seen.podsets.podsets[0].pods())
    ]
    for number, pod in enumerate(pods[:shown]):
        script.feed(claim(f"claim-{number}", request(), pod=pod, node="a-0", devices=(f"h100-{number}",)))
        train.settle()
    made = train.create()
    assert [pod.uid for pod in made] == [pod.uid for pod in pods]
    assert nodes_of(script, made) == ["a-0", "a-0"]
    script.run(made)
    assert script.bound(made) == ["a-0", "a-0"]
    assert not train.stops


def test_a_job_is_suspended_once_the_pod_is_shown_that_has_its_devices() -> None:
    script = started(*gpus("a-0", count=2), template(request()), clusters="a: 1x0")
    train = Controlled(script, claiming("job"))
    train.wait(1)
    other = replace(with_template("other", 1)[0], scheduler="other", group=None)
    script.feed(claim("other", request(), pod=other, node="a-0", devices=("h100-0",)))
    assert not train.stops
    script.see(other)
    train.settle()
    assert train.stops == ["the room planned on node a-0 has lost devices"]


@pytest.mark.parametrize("how", ["gone", "Failed"])
@pytest.mark.parametrize("last", [None, "deallocated"])
@pytest.mark.parametrize("none_of", [(), (("memory", 0),)])
def test_the_devices_of_a_lost_member_are_kept_once_its_claim_is_gone(
    how: str, last: str | None, none_of: Requests
) -> None:
    """Seed 1000063: the devices are in use when the pod ends, and were free for all pods a moment later.

    Pods may state that they need none of a resource.
    """
    script = started(*gpus("a-0", "a-1", count=1), template(request()))
    train = [replace(pod, requests=(*pod.requests, *none_of)) for pod in with_template("train", 2)]
    script.see(train)
    on = dict(zip([pod.uid for pod in train], nodes_of(script, train), strict=True))
    for pod in train:
        script.feed(claim(pod.name, request(), pod=pod, node=on[pod.uid], devices=("h100-0",)))
    script.run(train)
    lost, node = script.pods[train[1].uid], on[train[1].uid]
    script.change(lost, phase="Failed")
    if how == "gone":
        script.gone(script.pods[lost.uid])
    # A claim that has its devices yet may change.
    changed = claim(lost.name, request(), pod=lost, node=node, devices=("h100-0",))
    script.feed(replace(changed, claim=replace(changed.claim, reserved_for=())))
    script.see(with_template("other", 1))
    assert script.reason("other") == "NoRoom"
    script.feed(claim(lost.name, request(), pod=lost) if last else DeviceClaimGone("default", lost.name))
    script.advance(1.0)
    assert script.reason("other") == "NoRoom", "it is kept for the replacement"
    again = replace(train[1], uid="again", name="train-again")
    script.see(again)
    assert nodes_of(script, [again]) == [node]


def test_devices_of_an_extended_resource_are_kept_for_the_replacement_too() -> None:
    """Seed 401000367: nothing was kept of a lost member whose devices were in use when it ended."""
    script = started(replace(CLASS, resource=GPU), *gpus("a-0", count=2), clusters="a: 1x0")
    train = gang("train", 2, gpus=1)
    script.see(train)
    for pod, device in zip(train, ("h100-0", "h100-1"), strict=True):
        script.feed(claim(pod.name, request(), pod=pod, node="a-0", devices=(device,), extended=True))
    script.run(train)
    script.change(script.pods[train[1].uid], phase="Failed")
    script.feed(DeviceClaimGone("default", train[1].name))
    script.see(gang("other", 1, gpus=1))
    script.advance(1.0)
    assert script.reason("other") == "NoRoom", "it is kept for the replacement"
    again = replace(gang("train", 2, gpus=1)[1], uid="again", name="train-again")
    script.see(again)
    assert nodes_of(script, [again]) == ["a-0"]


def test_each_device_of_a_lost_member_is_kept_once_its_claim_is_gone() -> None:
    """Seed 1600065: the devices of the first claim were free for everybody until the last claim had gone."""
    script = started(*gpus("a-0", count=3), template(request()), clusters="a: 1x0")
    uses = ClaimUse("gpu", "", "gpus"), ClaimUse("more", "", "gpus")
    train = with_template("train", 2)
    train[1] = replace(train[1], device_claims=uses)
    script.see(train)
    script.feed(claim("other", request(), pod=train[0], node="a-0", devices=("h100-2",)))
    for number, use in enumerate(uses):
        seen = claim(use.name, request(), pod=train[1], node="a-0", devices=(f"h100-{number}",))
        script.feed(replace(seen, claim=replace(seen.claim, use=use.name)))
    script.run(train)
    script.change(script.pods[train[1].uid], phase="Failed")
    script.gone(script.pods[train[1].uid])
    script.feed(DeviceClaimGone("default", "gpu"))
    script.see(with_template("other", 1))
    script.advance(1.0)
    assert script.reason("other") == "NoRoom"


@pytest.mark.parametrize("at_once", [1, 2])
@pytest.mark.parametrize("freed", list(permutations(range(3))))
@pytest.mark.parametrize("lost", list(permutations(range(3))))
def test_each_replacement_takes_the_room_of_one_lost_member(
    lost: tuple[int, ...], freed: tuple[int, ...], at_once: int
) -> None:
    """Seed 601000198: the second replacement cost the third its room: the devices that it needed were kept for that.

    All members ask for any device. Two of them have been given large ones, which are counted in another amount, too.
    """
    script = started(
        devices("a-0", "h100", "h100", "a100"),
        devices("a-1", "h100"),
        template(request()),
        template(request(1, LARGE), name="large"),
    )
    train = with_template("train", 4, cpu=21)
    script.see(train)
    given = [("a-0", "h100-0"), ("a-0", "h100-1"), ("a-0", "a100-2"), ("a-1", "h100-0")]
    for pod, (node, device) in zip(train, given, strict=True):
        script.feed(claim(pod.name, request(), pod=pod, node=node, devices=(device,)))
    script.run(train)
    script.see(with_template("large", 4, "large"), with_template("other", 1))
    script.gone(*(script.pods[train[index].uid] for index in lost))
    again = [reborn(pod) for pod in train[:3]]
    script.see(again)
    for number, index in enumerate(freed, start=1):
        script.feed(DeviceClaimGone("default", train[index].name))
        script.advance(1.0 if number >= at_once else 0.0)
    assert nodes_of(script, again) == ["a-0"] * 3
    assert script.reason("other") == "NoRoom"


def test_a_promise_is_looked_at_again_when_its_claim_has_lost_its_devices() -> None:
    """Seed 1600445: the claim was deallocated with the last pod of the gang before, and the driver had stopped."""
    script = started(*gpus("a-0", count=1), template(request()))
    train = with_template("train", 1)
    script.see(train)
    allocated = claim("train-0", request(), pod=train[0], node="a-0", devices=("h100-0",))
    script.feed(allocated)
    script.feed(SliceGone("a-0"))
    assert nodes_of(script, train) == ["a-0"], "kube-scheduler has given it the device"
    script.feed(claim("train-0", request(), pod=train[0]))
    assert nodes_of(script, train) == [""]


@pytest.mark.parametrize("how", ["gone", "failed"])
@pytest.mark.parametrize("bound", [True, False])
def test_a_job_goes_on_while_the_claim_of_a_lost_pod_has_its_devices(how: str, bound: bool) -> None:
    """Seed 1600055: Kubernetes deletes the claim after the pod, and its job was suspended in between."""
    script = started(*gpus("a-0", count=2), template(request()), clusters="a: 1x0")
    train = Controlled(script, claiming("job"))
    train.wait(1)
    pods = train.create()
    claims = [
        claim(f"claim-{number}", request(), pod=pod, node="a-0", devices=(f"h100-{number}",))
        for number, pod in enumerate(pods)
    ]
    for seen_claim in claims:
        script.feed(seen_claim)
    if bound:
        script.run(pods)
    if how == "gone":
        script.gone(pods[1])
        del train.pods[pods[1].uid]
    else:
        script.change(pods[1], phase="Failed")
        train.pods[pods[1].uid] = script.pods[pods[1].uid]
    train.wait(1)
    (new,) = train.create()
    train.wait(1)
    assert not train.stops
    assert not script.planned(new), "its devices are not free yet"
    script.feed(DeviceClaimGone("default", "claim-1"))
    train.wait(1)
    assert script.planned(new) == "a-0"
    assert not train.stops


def test_an_extended_resource_is_offered_whose_devices_were_counted_for_claims_before() -> None:
    script = started(*gpus("a-0", count=2), template(request()), clusters="a: 1x0")
    script.feed(replace(CLASS, resource=GPU))
    claims = with_template("claims", 1)
    script.see(claims)
    assert nodes_of(script, claims) == ["a-0"]
    train = gang("train", 1, gpus=1)
    script.see(train)
    assert nodes_of(script, train) == ["a-0"]


def test_an_extended_resource_that_a_class_offers_is_counted_by_its_devices() -> None:
    script = started(*gpus("a-0", "a-1", count=4), clusters="a: 3x0")
    script.feed(replace(CLASS, resource=GPU))
    train = gang("train", 2, gpus=4)
    script.see(train)
    assert nodes_of(script, train) == ["a-0", "a-1"]
    script.see(gang("more", 1, gpus=1))
    assert script.reason("more") == "NoRoom"
    script.feed(template(request()))
    script.see(with_template("claims", 1))
    assert script.reason("claims") == "NoRoom", "claims want the same devices"
    script.gone(*train)
    assert script.reason("claims") != "NoRoom"


@pytest.mark.parametrize("listed_first", [True, False])
def test_an_extended_resource_that_some_nodes_list_and_others_serve_by_devices(listed_first: bool) -> None:
    """Devices are for claims as well; units that a node lists are for the resource alone."""
    script = started(template(request()), clusters="a: 1x4" if listed_first else "a: 0x0")
    script.feed(replace(CLASS, resource=GPU))
    train = gang("train", 4, gpus=1)
    script.see(train[:2])
    script.see(*cluster("b: 1x0"))
    for event in gpus("b-0", count=2):
        script.feed(event)
    script.see(*cluster("a: 1x4"))
    script.see(train[2:])
    more = gang("more", 2, gpus=1)
    script.see(more)
    assert sorted(nodes_of(script, [*train, *more])) == ["a-0"] * 4 + ["b-0"] * 2
    script.see(with_template("claims", 1))
    assert script.reason("claims") == "NoRoom"
    script.see(gang("late", 1, gpus=1))
    assert script.reason("late") == "NoRoom"
    script.gone(*(pod for pod in (*train, *more) if script.planned(script.pods[pod.uid]) == "a-0"))
    script.advance(0.5)
    assert script.reason("claims") == "NoRoom", "no claim gets what a node lists"
    assert script.reason("late") != "NoRoom"


def claiming(name: str) -> Job:
    """A suspended job of two pods with a claim each."""
    seen = job(2, name=name, gpus=0)
    (podset,) = seen.podsets.podsets
    made_of = replace(podset.template, device_claims=(ClaimUse("gpu", "", "gpus"),))
    return replace(seen, podsets=replace(seen.podsets, podsets=(replace(podset, template=made_of),)))


def arrive(script: Script, what: str, seen: DeviceClassSeen) -> None:
    """The class, the nodes, the slices or the template are read."""
    match what:
        case "class":
            script.feed(seen)
        case "nodes":
            script.see(*cluster("a: 2x0"))
        case "slices":
            for event in gpus("a-0", "a-1", count=1):
                script.feed(event)
        case "template":
            script.feed(template(request()))
    script.advance(0.5)


READ = ("class", "nodes", "slices", "template")


@pytest.mark.parametrize("at", range(5))
@pytest.mark.parametrize("resource", [False, True], ids=["by claims", "by an extended resource"])
def test_all_may_be_read_in_any_order(at: int, resource: bool) -> None:
    """``at``: when the pods and the job come."""
    for order in permutations(READ):
        script = Script()
        pods = gang("train", 2, gpus=1) if resource else with_template("train", 2)
        for number, what in enumerate((*order, "")):
            if number == at:
                script.see(pods)
            arrive(script, what, replace(CLASS, resource=GPU))
        script.advance(5.0)
        assert sorted(nodes_of(script, pods)) == ["a-0", "a-1"], order


@pytest.mark.parametrize("at", range(5))
def test_a_job_may_be_read_at_any_time(at: int) -> None:
    for order in permutations(READ):
        script = Script()
        train: Controlled | None = None
        for number, what in enumerate((*order, "")):
            if number == at:
                train = Controlled(script, claiming("job"))
            arrive(script, what, CLASS)
        assert train is not None
        train.wait(3)
        (start,) = train.starts
        assert sorted(node for nodes in start.plan.values() for node in nodes) == ["a-0", "a-1"], order


@pytest.mark.parametrize("created", [0, 1])
def test_a_restart_knows_the_devices_of_a_job_that_asks_for_an_extended_resource(created: int) -> None:
    seen = replace(CLASS, resource=GPU)
    published = gpus("a-0", "a-1", count=4)
    train = Controlled(started(seen, *published), job(2, name="train", gpus=4))
    train.wait(1)
    (start,) = train.starts
    pods = train.create(only=created)
    claims = [claim("train-gpu", request(4), pod=pod, node=train.script.planned(pod), extended=True) for pod in pods]
    again = Script(*cluster("a: 2x0"), *pods, synced=False)
    for event in (seen, *published, *claims, JobSeen(train.seen)):
        again.feed(event)  # type: ignore[arg-type]
    again.feed_synced()
    assert start.plan == train.seen.plan
    assert not [effect for effect in again.effects if isinstance(effect, SuspendJob)]


@pytest.mark.parametrize("listed", [True, False], ids=["job listed before", "job first shown meanwhile"])
def test_a_started_job_that_is_shown_while_a_restart_counts_devices_runs_on(listed: bool) -> None:
    seen = replace(CLASS, resource=GPU)
    published = gpus("a-0", "a-1", count=4)
    train = Controlled(started(seen, *published), job(2, name="train", gpus=4))
    train.wait(1)
    again = Script(*cluster("a: 2x0"), limits=ONE, synced=False)
    other = job(1, name="other", gpus=1)
    for event in (seen, *published, JobSeen(train.seen if listed else other)):
        again.feed(event)  # type: ignore[arg-type]
    again.feed(Synced(again.now))
    assert not again.core.state.process.counted
    again.feed(JobSeen(replace(train.seen, hint="changed")))
    again.advance(2.0)
    assert train.seen.plan is not None
    assert sorted(again.gang("train").members.slots.planned.values()) == ["a-0", "a-1"]
    assert not [effect for effect in again.effects if isinstance(effect, SuspendJob)]


def test_a_nomination_that_is_shown_while_a_restart_counts_devices_is_taken_over_once_all_are_counted() -> None:
    train = [replace(pod, nominated_node="a-0") for pod in with_template("train", 2)]
    script = Script(*cluster("a: 2x0"), limits=ONE, synced=False)
    for event in (CLASS, template(request()), *gpus("a-0", count=0), *gpus("a-1", count=8), PodSeen(train[0])):
        script.feed(event)  # type: ignore[arg-type]
    script.feed(Synced(script.now))
    assert not script.core.state.process.counted
    script.see(train[1])
    script.see(train[0])
    assert nodes_of(script, train) == ["a-1", "a-1"]
    assert [effect.node for effect in script.effects if isinstance(effect, Nominate)] == ["a-1", "a-1"]


def test_a_nomination_is_kept_however_long_a_restart_reads_and_counts() -> None:
    script = Script(*cluster("a: 2x0"), limits=ONE, synced=False)
    train = [replace(pod, nominated_node="a-1") for pod in with_template("train", 2)]
    script.see(*train)
    for event in (CLASS, template(request()), *gpus("a-1", count=8)):
        script.feed(event)  # type: ignore[arg-type]
    script.advance(Limits().plan_s + 1.0)
    assert not [effect for effect in script.effects if isinstance(effect, Nominate)]
    script.feed_synced()
    assert nodes_of(script, train) == ["a-1", "a-1"]


@pytest.mark.parametrize("resource", [False, True], ids=["by claims", "by an extended resource"])
def test_a_restart_keeps_devices_for_pods_that_their_owner_has_yet_to_make(resource: bool) -> None:
    """Only the workers of the set ask for devices, and none of them exists."""
    asks = replace(CLASS, resource=GPU if resource else ""), template(request()), *gpus("a-0", "a-1", count=1)
    uses = () if resource else (ClaimUse("gpu", "", "gpus"),)
    seen = owner(3, order=Order.LEADER_FIRST, minimum=None)
    assert seen.podset is not None
    small = replace(seen.podset.template, requests=requests(0))
    worker = replace(small, requests=requests(int(resource)), device_claims=uses)
    seen = replace(seen, podset=replace(seen.podset, template=worker, leader=small))
    leader = owned(0, requests=requests(0), size=3, series="000000005")
    script = started(*asks, clusters="a: 2x0, b: 2x0")
    script.feed(OwnerSeen(seen))
    script.see(leader)
    script.run([leader])
    rivals = [replace(pod, priority=10) for pod in with_template("rival", 2)]
    again = Script(*script.core.state.claims.nodes.values(), *script.pods.values(), *rivals, synced=False)
    for event in (*asks, OwnerSeen(seen)):
        again.feed(event)  # type: ignore[arg-type]
    again.feed_synced()
    assert again.reason("rival") == "NoRoom"
    assert sorted(again.gang("statefulset-web").members.slots.planned.values()) == ["a-0", "a-1"]


def test_by_its_implicit_name_too() -> None:
    script = started(*gpus("a-0", count=1))
    name = f"deviceclass.resource.kubernetes.io/{NVIDIA}"
    train = [replace(pod, requests=tuple(sorted((*pod.requests, (name, 1))))) for pod in gang("train", 1, gpus=0)]
    script.see(train)
    assert nodes_of(script, train) == ["a-0"]


def test_claims_and_a_required_clique() -> None:
    script = started(*gpus("a-0", "a-1", "b-0", "b-1", "b-2", count=4), template(request(4)), clusters="a: 2x0, b: 3x0")
    train = with_template("train", 3, topology=Topology(CLIQUE))
    script.see(train)
    assert sorted(nodes_of(script, train)) == ["b-0", "b-1", "b-2"]
    script.see(with_template("more", 3, topology=Topology(CLIQUE)))
    assert script.reason("more") == "NoRoom"
    assert "best has 2 free nodes (a)" in script.message("more")


def test_gangs_without_claims_know_nothing_of_devices() -> None:
    script = started(*gpus("a-0"), clusters="a: 2x8")
    train = gang("train", 2)
    script.see(train)
    assert nodes_of(script, train) == ["a-0", "a-1"]
    assert not any(name.startswith("devices/") for name in script.core.state.claims.room("a-0"))


ANY_TWO_OR_LARGE = ClaimRequest("gpu", (DeviceRequest(NVIDIA, (LARGE,), 1), DeviceRequest(NVIDIA, (), 2)))


@pytest.mark.parametrize(
    ("kinds", "fits"), [(["h100"], 1), (["a100"], 0), (["a100", "a100"], 1), (["h100", "a100", "a100", "h100"], 3)]
)
def test_alternatives_with_counts_of_their_own_are_tried_in_order_on_each_node(kinds: list[str], fits: int) -> None:
    script = started(devices("a-0", *kinds), template(ANY_TWO_OR_LARGE), clusters="a: 1x0")
    for at in range(4):
        script.see(with_template(f"g{at}", 1))
    assert [script.planned(script.pods[f"uid-g{at}-0"]) for at in range(4)] == ["a-0"] * fits + [""] * (4 - fits)
    if fits < 4:
        waits = script.message(f"g{fits}")
        assert "1 device of gpu.nvidia.com with memory > 40Gi or 2 of gpu.nvidia.com" in waits


def test_what_an_alternative_takes_is_free_for_nobody_else() -> None:
    script = started(
        devices("a-0", "h100", "a100", "a100"),
        template(ANY_TWO_OR_LARGE),
        template(request(), name="any"),
        template(request(1, LARGE), name="large"),
        clusters="a: 1x0",
    )
    script.see(with_template("first", 1))
    script.see(with_template("large", 1, "large"))
    assert script.reason("large") == "NoRoom", "the first alternative has the large one"
    script.see(with_template("small", 2, "any"))
    assert nodes_of(script, [script.pods["uid-small-0"], script.pods["uid-small-1"]]) == ["a-0"] * 2
    script.see(with_template("second", 1))
    assert script.reason("second") == "NoRoom"
    script.gone(script.pods["uid-first-0"])
    script.advance(1.0)
    assert script.planned(script.pods["uid-large-0"]) == "a-0"


def test_a_gang_goes_to_nodes_with_different_alternatives() -> None:
    script = started(devices("a-0", "h100"), devices("a-1", "a100", "a100"), template(ANY_TWO_OR_LARGE))
    train = with_template("train", 2)
    script.see(train)
    assert sorted(nodes_of(script, train)) == ["a-0", "a-1"]
    script.see(with_template("late", 1))
    assert script.reason("late") == "NoRoom"


def test_a_claim_that_pods_are_to_share_is_promised_no_device_that_others_are_promised() -> None:
    script = started(*gpus("a-0", "a-1", count=2), template(request()))
    script.feed(claim("shared", request(2)))
    script.see(own := with_template("own", 1))
    other = {"a-0": "a-1", "a-1": "a-0"}[script.planned(own[0])]
    script.see(train := with_claim("train", 2))
    assert nodes_of(script, train) == [other] * 2
    script.feed(claim("second", request(2)))
    script.see(with_claim("late", 2, "second"))
    assert script.reason("late") == "NoRoom"
    assert "the devices of claim second" in script.message("late")


def test_two_gangs_may_share_a_claim() -> None:
    script = started(*gpus("a-0", count=1), clusters="a: 1x0")
    script.feed(claim("shared", request()))
    script.see(first := with_claim("first", 2))
    script.see(second := with_claim("second", 2))
    assert nodes_of(script, [*first, *second]) == ["a-0"] * 4
    script.see(with_claim("late", 1, "shared"))
    assert script.reason("late") != "NoRoom"


def test_the_pods_of_a_suspended_job_share_a_claim_before_they_exist() -> None:
    script = started(*gpus("a-0", "a-1", count=2), template(request()))
    script.feed(claim("mine", request(2)))
    seen = job(2, name="job", gpus=0)
    (podset,) = seen.podsets.podsets
    made_of = replace(podset.template, device_claims=(ClaimUse("gpu", "mine"),))
    train = Controlled(
        script, replace(seen, podsets=replace(seen.podsets, podsets=(replace(podset, template=made_of),)))
    )
    train.wait(1)
    (start,) = train.starts
    (node,) = {node for nodes in start.plan.values() for node in nodes}
    script.see(others := with_template("others", 2))
    assert node not in nodes_of(script, others), "its devices are promised"


def test_without_any_class_the_reason_is_that() -> None:
    script = Script(*cluster("a: 2x0"))
    train = with_template("train", 2)
    script.see(train)
    assert script.reason("train") == "ResourceClaims"
    assert script.message("train").startswith("pod train-0 has ResourceClaims, and there is no DeviceClass")
    script.feed(CLASS)
    script.feed(gpus("a-0")[0])
    script.feed(template(request()))
    script.advance(1.0)
    assert nodes_of(script, train) == ["a-0"] * 2


def test_mig_profiles_are_counted_by_the_class_of_such_devices() -> None:
    """A profile is a selector; other devices of the driver are no MIG devices."""
    mig = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'"
    profile = "device.attributes['gpu.nvidia.com'].profile == '{}'"
    script = started(devices("a-0", "h100", "mig", "mig"), DeviceClassSeen("mig.nvidia.com", "", (mig,)))
    for name in ("1g.5gb", "7g.80gb"):
        request = DeviceRequest("mig.nvidia.com", (profile.format(name),))
        script.feed(template(ClaimRequest("mig", (request,)), name=name))
    script.see(train := with_template("train", 2, "1g.5gb"))
    assert nodes_of(script, train) == ["a-0"] * 2
    script.see(with_template("late", 1, "1g.5gb"), with_template("other", 1, "7g.80gb"))
    assert (script.reason("late"), script.reason("other")) == ("NoRoom", "NoRoom")


def test_a_pool_of_some_nodes_counts_on_those() -> None:
    """The nodes of one rack reach a device: pods that request it go there, and it is in use for all of these nodes."""
    rack = ((Requirement("nvidia.com/gpu.clique", "In", ("a",)),),)
    script = started(devices("rack", "h100", reach=Reach("", rack)), template(request()), clusters="b: 2x0, a: 2x0")
    script.see(train := with_template("train", 1))
    assert script.planned(train[0]) in ("a-0", "a-1")
    script.feed(claim("foreign", request(), node="rack", devices=("h100-0",)))
    script.see(with_template("late", 1))
    assert script.reason("late") == "NoRoom"


def test_constraints_between_devices_are_left_to_kube_scheduler_and_named() -> None:
    script = started(*gpus("a-0", count=2))
    spec = ClaimSpec((request(2),), ("devices with the same resource.kubernetes.io/pcieRoot",))
    script.feed(ClaimTemplateSeen(ClaimTemplate("default", "gpus", spec)))
    script.see(train := with_template("train", 1))
    assert script.planned(train[0]) == "a-0"
    script.see(with_template("late", 1))
    assert script.reason("late") == "NoRoom", "the devices are counted"
    assert "left to kube-scheduler: devices with the same resource.kubernetes.io/pcieRoot" in script.message("late")


def test_devices_that_serve_several_claims_never_run_out() -> None:
    event = devices("a-0", "h100")
    (device,) = event.slice.devices
    serves = replace(device, uncounted="several claims at a time")
    script = started(replace(event, slice=replace(event.slice, devices=(serves,))), template(request()))
    script.see(train := with_template("train", 3))
    assert nodes_of(script, train) == ["a-0"] * 3


def test_partitions_of_a_device_count_each_and_what_they_exclude_is_named() -> None:
    event = devices("a-0", "h100", "mig")
    partitions = tuple(replace(device, partition=True) for device in event.slice.devices)
    script = started(replace(event, slice=replace(event.slice, devices=partitions)), template(request()))
    script.see(train := with_template("train", 2))
    assert nodes_of(script, train) == ["a-0"] * 2
    script.see(with_template("late", 1))
    assert "left to kube-scheduler: which partitions of a device exclude each other" in script.message("late")
