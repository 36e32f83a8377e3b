"""The claims that a failed start leaves behind: the plan goes to their nodes, or the allocations are removed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.answers import Deallocated, Outcome
from extender.core.effects import Deallocate
from extender.core.events import DeviceClaimGone, DeviceClaimSeen
from policies.model import Pod
from policies.model.devices import ClaimUse
from tests.builders import cluster, node
from tests.core.devices import CLASS, claim, gpus, request, template, with_claim, with_template
from tests.core.jobs import Controlled, job
from tests.core.script import Script

SURE_S = 21.0
"""After that no Binding of an earlier life can come any more."""


def of(pod: Pod, node: str = "", *, reserved: bool = False, device: str = "h100-0") -> DeviceClaimSeen:
    """The claim that was made for the pod; with ``node`` it has a device there."""
    seen = claim(f"{pod.name}-gpu", request(), pod=pod, node=node, devices=(device,) if node else ())
    return seen if reserved else replace(seen, claim=replace(seen.claim, reserved_for=()))


def started(*nodes: str, settled: bool = True) -> Script:
    script = Script(*cluster("a: 3x0"))
    for event in (CLASS, *gpus(*nodes, count=1), template(request())):
        script.feed(event)  # type: ignore[arg-type]
    if settled:
        script.advance(SURE_S)
    return script


def asked(script: Script) -> list[str]:
    return [effect.name for effect in script.effects if isinstance(effect, Deallocate)]


def held(script: Script, train: list[Pod]) -> None:
    """Every claim of the gang is allocated where its pod was planned, and all but the last bind are held."""
    for pod in train:
        script.feed(of(pod, script.planned(pod), reserved=True))
    script.bind_all(train[:-1])


def unreserve(script: Script, train: list[Pod], nodes: list[str]) -> None:
    """kube-scheduler takes the reservations back, and leaves the allocations."""
    for pod, where in zip(train, nodes, strict=True):
        script.feed(of(pod, where))
    script.advance(0.1)


def failed(script: Script, train: list[Pod]) -> list[str]:
    """The start of the gang fails, because a node is cordoned that it has devices on. Returns where they are."""
    script.see(train)
    nodes = [script.planned(pod) for pod in train]
    held(script, train)
    script.see(replace(node("a-1", gpus=0, clique="a"), unschedulable=True))
    assert not any(script.planned(pod) for pod in train)
    unreserve(script, train, nodes)
    return nodes


def test_the_next_plan_keeps_to_the_devices_of_a_start_that_failed() -> None:
    script = started("a-0", "a-1", "a-2")
    train = with_template("train", 2)
    script.see(train)
    before = [script.planned(pod) for pod in train]
    held(script, train)
    script.advance(31.0)
    assert script.answers, "the last member did not come to bind in time"
    unreserve(script, train, before)
    script.advance(5.0)
    assert [script.planned(pod) for pod in train] == before
    assert asked(script) == []


def test_allocations_are_taken_back_where_no_plan_keeps_to_them() -> None:
    script = started("a-0", "a-1", "a-2")
    train = with_template("train", 2)
    assert failed(script, train) == ["a-0", "a-1"]
    assert sorted(asked(script)) == ["train-0-gpu", "train-1-gpu"]
    assert script.reason("train") == "NoRoom"
    for pod in train:
        script.feed(of(pod))
    script.advance(1.0)
    assert [script.planned(pod) for pod in train] == ["a-0", "a-2"]
    assert len(asked(script)) == 2


def test_no_allocation_is_taken_back_that_a_pod_has_reserved() -> None:
    script = started("a-0", "a-1", "a-2")
    train = with_template("train", 2)
    script.see(train)
    held(script, train)
    script.see(replace(node("a-1", gpus=0, clique="a"), unschedulable=True))
    script.advance(60.0)
    assert script.reason("train") == "NoRoom"
    assert asked(script) == []
    script.feed(of(train[0], "a-0"))
    script.advance(0.1)
    assert asked(script) == ["train-0-gpu"], "kube-scheduler has taken this reservation back"


@pytest.mark.parametrize("outcome", [Outcome.UNKNOWN, Outcome.REFUSED])
def test_no_allocation_is_taken_back_while_a_binding_may_have_been_written(outcome: Outcome) -> None:
    script = started("a-0")
    train = with_template("train", 1)
    script.see(train)
    script.feed(of(train[0], "a-0", reserved=True))
    script.bind_all(train)
    script.feed(of(train[0], "a-0"))
    script.see(replace(node("a-0", gpus=0, clique="a"), unschedulable=True))
    assert asked(script) == [], "its Binding is under way"
    script.feed_outcome(train[0].uid, outcome)
    script.advance(5.0)
    assert asked(script) == ([] if outcome is Outcome.UNKNOWN else ["train-0-gpu"])
    script.advance(60.0)
    assert "train-0-gpu" in asked(script)


def test_a_gang_that_fails_again_keeps_no_devices_while_it_rests() -> None:
    script = started("a-0", "a-1")
    train, other = with_template("train", 2), with_template("other", 2)
    nodes = ["a-0", "a-1"]
    script.see(train)
    for taken in ([], ["train-0-gpu", "train-1-gpu"]):
        assert [script.planned(pod) for pod in train] == nodes
        held(script, train)
        script.bind(train[1])
        script.see(other)
        script.feed_outcome(train[0].uid, Outcome.REFUSED)
        unreserve(script, train, nodes)
        script.advance(1.5)
        assert sorted(asked(script)) == taken
    for pod in train:
        script.feed(of(pod))
    script.advance(0.1)
    assert [script.planned(pod) for pod in other] == nodes


def test_no_allocation_is_taken_back_while_a_binding_of_an_earlier_life_may_come() -> None:
    script = started("a-0", "a-1", settled=False)
    train = with_template("train", 3)
    script.feed(of(train[0], "a-0"))
    script.see(train)
    assert script.reason("train") == "NoRoom"
    assert asked(script) == []
    script.advance(SURE_S)
    assert asked(script) == ["train-0-gpu"]


def test_a_gang_that_waits_for_a_member_keeps_no_devices() -> None:
    """The member that was deleted may not come again for long."""
    script = started("a-0", "a-1", "a-2")
    train = with_template("train", 2)
    script.see(train)
    nodes = [script.planned(pod) for pod in train]
    held(script, train)
    script.gone(train[1])
    script.feed(DeviceClaimGone("default", "train-1-gpu"))
    unreserve(script, train[:1], nodes[:1])
    assert script.reason("train") == "MembersMissing"
    assert asked(script) == ["train-0-gpu"]


def test_what_may_not_be_taken_back_is_asked_for_again_and_the_history_says_so() -> None:
    script = started("a-0", "a-1")
    train = with_template("train", 2)
    failed(script, train)
    count = len(asked(script))
    for effect in [deallocation for deallocation in script.effects if isinstance(deallocation, Deallocate)]:
        script.feed(Deallocated(effect, "403 Forbidden"))
    script.advance(40.0)
    text = "ResourceClaim train-0-gpu keeps the devices of a start that failed: 403 Forbidden"
    assert text in [entry for _, entry in script.gang("train").reason_state.story]
    assert len(asked(script)) >= count + 2
    script.gone(*train)
    count = len(asked(script))
    script.advance(600.0)
    assert len(asked(script)) == count, "the claims go with their pods"


def test_the_claims_of_pods_that_are_gone_are_left_to_go_with_them() -> None:
    script = started("a-0", "a-1")
    train = with_template("train", 2)
    script.see(train)
    nodes = [script.planned(pod) for pod in train]
    held(script, train)
    script.gone(*train)
    unreserve(script, train, nodes)
    assert asked(script) == []


def test_a_claim_that_pods_share_is_taken_back_when_all_of_them_wait_or_are_gone() -> None:
    script = started("a-0", "a-1")
    script.feed(claim("shared", request()))
    train, other = with_claim("train", 2), with_claim("other", 1)
    script.see(train)
    script.feed(claim("shared", request(), node="a-0", devices=("h100-0",)))
    script.bind(train[0])
    script.see(other)
    script.see(replace(node("a-0", gpus=0, clique="a"), unschedulable=True))
    script.advance(1.0)
    assert asked(script) == ["shared"]
    script.feed(claim("shared", request(), node="a-0", devices=("h100-0",)))
    script.advance(1.0)
    assert asked(script) == ["shared"], "it is shown once more as it was"
    script.feed(claim("shared", request()))
    script.advance(1.0)
    assert {script.planned(pod) for pod in train} == {"a-1"}
    script.feed(claim("shared", request(), node="a-1", devices=("h100-0",)))
    script.gone(*train, *other)
    assert asked(script) == ["shared"] * 2, "nobody is left to be deleted, for whom it would be deallocated"


def test_a_claim_whose_pods_are_all_gone_is_taken_back_without_a_wait_for_earlier_bindings() -> None:
    """Seed 601000281: Muster was killed during that wait, and the next process does not know whose claim it is."""
    script = started("a-0", "a-1", settled=False)
    script.feed(claim("shared", request()))
    train, late = with_claim("train", 2), with_claim("late", 1)
    script.see(train)
    script.feed(claim("shared", request(), node="a-0", devices=("h100-0",)))
    script.gone(train[0])
    assert asked(script) == [], "a Binding of the other pod may be under way"
    script.gone(train[1])
    assert asked(script) == ["shared"]
    script.feed(claim("shared", request()))
    script.see(late)
    taken = claim("shared", request(), node="a-0", devices=("h100-0",))
    script.feed(replace(taken, claim=replace(taken.claim, reserved_for=(late[0].uid,))))
    script.gone(*late)
    assert asked(script) == ["shared"], "the claim is reserved"


def test_after_a_restart_a_claim_that_no_pod_names_is_left_alone() -> None:
    """A user or another scheduler may have allocated it: nothing on it says whose it is."""
    script = started("a-0", "a-1", settled=False)
    script.feed(claim("shared", request(), node="a-0", devices=("h100-0",)))
    script.advance(60.0)
    assert asked(script) == []


def test_a_claim_of_pods_that_others_schedule_is_left_alone() -> None:
    script = started("a-0", "a-1")
    theirs = replace(with_claim("theirs", 1)[0], scheduler="default-scheduler", group=None)
    script.see(theirs)
    script.feed(claim("shared", request(), node="a-0", devices=("h100-0",)))
    script.gone(theirs)
    script.advance(60.0)
    assert asked(script) == []


def with_devices(script: Script) -> Controlled:
    """A job whose two pods have a claim each."""
    spec = job(2, name="train", gpus=0)
    (podset,) = spec.podsets.podsets
    made = replace(podset.template, device_claims=(ClaimUse("gpu", "", "gpus"),))
    podsets = replace(spec.podsets, podsets=(replace(podset, template=made),))
    return Controlled(script, replace(spec, podsets=podsets))


def test_a_job_is_suspended_and_its_claims_go_with_its_pods() -> None:
    script = started("a-0", "a-1")
    train = with_devices(script)
    train.wait(1)
    pods = train.create()
    for pod in pods:
        script.feed(of(pod, script.planned(pod), reserved=True))
    script.bind(pods[0])
    script.see(replace(node("a-1", gpus=0, clique="a"), unschedulable=True))
    for pod in pods:
        script.feed(of(pod, "a-0"))
    train.wait(30)
    assert train.stops
    assert asked(script) == []


def test_no_allocation_is_taken_back_while_a_job_is_being_suspended() -> None:
    """The start fails twice before its controller has suspended it, and its pods take long to end."""
    script = started("a-0", "a-1")
    train = with_devices(script)
    train.wait(1)
    train.obeys = False
    pods = train.create()
    nodes = [script.planned(pod) for pod in pods]
    for pod in pods:
        script.feed(of(pod, script.planned(pod), reserved=True))
    script.bind_all(pods)
    script.feed_outcome(pods[0].uid, Outcome.REFUSED)
    script.feed_outcome(pods[1].uid, Outcome.REFUSED)
    unreserve(script, pods, nodes)
    train.wait(120)
    assert train.stops
    assert asked(script) == []
    for pod in pods:
        script.change(pod, deleting=True)
    train.show(suspended=True, stopped=False)
    train.wait(30)
    assert asked(script) == [], "the claims go with their pods"
