"""A claim that is bound to a volume with node affinity holds its pods to the nodes that reach the volume."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from extender.core.events import ClaimGone, ClaimSeen, PodGone, VolumeGone, VolumeSeen
from extender.core.explain.reasons import reason_of
from policies.model import Constraints, Job, Pod, PodSets, Requirement, Spread, Terms
from tests.builders import busy, cluster, gang, reborn, single
from tests.core.invariants import validate
from tests.core.jobs import Controlled, job
from tests.core.script import Script

HOST = "kubernetes.io/hostname"


def on(*nodes: str) -> Terms:
    return ((Requirement(HOST, "In", nodes),),)


def volume(claim: str, *nodes: str, name: str = "") -> VolumeSeen:
    """A local volume that is bound to the claim."""
    return VolumeSeen(name or f"pv-{claim}", "default", claim, on(*nodes))


def bind_claims(script: Script, *volumes: VolumeSeen) -> None:
    for volume in volumes:
        script.feed(volume)
        script.feed(ClaimSeen("default", volume.claim, bound=True))
    script.advance(0.1)


def with_claims(pods: Sequence[Pod], *claims: str) -> list[Pod]:
    return [replace(pod, claims=(claim,)) for pod, claim in zip(pods, claims, strict=True)]


def with_data(seen: Job) -> Job:
    """All its pods mount one claim."""
    podsets = (replace(podset, template=replace(podset.template, claims=("data",))) for podset in seen.podsets.podsets)
    return replace(seen, podsets=PodSets(seen.key, tuple(podsets)))


def test_each_member_is_planned_where_its_volume_is() -> None:
    homes = ["a-5", "a-2", "a-7", "a-5"]
    pods = with_claims(gang("train", 4, gpus=1), "c0", "c1", "c2", "c3")
    script = Script(*cluster("a: 8x8"), *pods)
    bind_claims(script, *(volume(f"c{at}", home) for at, home in enumerate(homes)))
    assert [script.planned(pod) for pod in pods] == homes
    script.run(pods)
    assert script.bound(pods) == homes


def test_a_plan_is_made_anew_when_a_volume_comes_to_light() -> None:
    pods = with_claims(gang("train", 2, gpus=1), "c0", "c1")
    script = Script(*cluster("a: 4x8"))
    for claim in ("c0", "c1"):
        script.feed(ClaimSeen("default", claim, bound=True))
    script.see(*pods)
    assert [script.planned(pod) for pod in pods] == ["a-0", "a-0"]
    script.feed(volume("c1", "a-3"))
    script.advance(0.1)
    assert script.planned(pods[1]) == "a-3"


def test_what_a_claim_is_bound_to_last_counts() -> None:
    [pod] = with_claims(gang("train", 1, gpus=1), "c0")
    script = Script(*cluster("a: 4x8"), *busy("a-2", 8), pod)
    bind_claims(script, volume("c0", "a-2", name="old"))
    assert not script.planned(pod)
    script.feed(volume("c0", "a-3", name="new"))
    script.feed(VolumeGone("old", "default", "c0"))
    script.advance(0.1)
    assert script.planned(pod) == "a-3"


def test_without_its_volume_a_pod_is_held_to_no_node() -> None:
    [pod] = with_claims(gang("train", 1, gpus=1), "c0")
    script = Script(*cluster("a: 2x8"), *busy("a-1", 8), pod)
    bind_claims(script, volume("c0", "a-1"))
    assert not script.planned(pod)
    script.feed(VolumeGone("pv-c0", "default", "c0"))
    script.advance(0.1)
    assert script.planned(pod) == "a-0"


def test_the_reason_counts_the_nodes_that_do_not_reach_its_volumes() -> None:
    pods = with_claims(gang("train", 2, gpus=1), "c0", "c1")
    script = Script(*cluster("a: 4x8"), *busy("a-1", 8), *pods)
    bind_claims(script, volume("c0", "a-0"), volume("c1", "a-1"))
    assert script.reason("train") == "NoRoom"
    assert "1 of 2 members fit at once" in script.message("train")
    assert "3 nodes do not reach its volumes" in script.message("train")
    assert "selector" not in script.message("train")
    script.see(*gang("other", 4, gpus=1))
    assert script.reason("other") == "Placed"


def test_of_two_volumes_both_have_to_be_reached() -> None:
    pods = [replace(pod, claims=("c0", "c1")) for pod in gang("train", 2, gpus=4)]
    script = Script(*cluster("a: 4x8"), *pods)
    bind_claims(script, volume("c0", "a-1", "a-2"), volume("c1", "a-2", "a-3"))
    assert [script.planned(pod) for pod in pods] == ["a-2", "a-2"]


def test_a_spread_counts_nodes_that_do_not_reach_the_volumes_too() -> None:
    """kube-scheduler does the same: of two pods on one node the second would make the skew 2."""
    even = Constraints(spread=(Spread(HOST, 1, (Requirement("app", "In", ("train",)),)),))
    members = gang("train", 2, gpus=1, labels=(("app", "train"),), constraints=even)
    pods = with_claims(members, "c0", "c1")
    script = Script(*cluster("a: 2x8"), *pods)
    bind_claims(script, volume("c0", "a-0"), volume("c1", "a-0"))
    assert script.reason("train") == "NoRoom"
    script.feed(volume("c1", "a-1"))
    script.advance(0.1)
    assert [script.planned(pod) for pod in pods] == ["a-0", "a-1"]


@pytest.mark.parametrize("size", [16, 40])
def test_more_members_than_shapes_that_are_looked_at_have_a_volume_each(size: int) -> None:
    claims = [f"c{at}" for at in range(size)]
    homes = [f"a-{size - 1 - at}" for at in range(size)]
    pods = with_claims(gang("train", size), *claims)
    script = Script(*cluster(f"a: {size}x8"), *pods, checked=50)
    bind_claims(script, *map(volume, claims, homes))
    assert [script.planned(pod) for pod in pods] == homes


def test_so_many_of_which_one_has_a_full_node_wait_for_it() -> None:
    claims = [f"c{at}" for at in range(20)]
    pods = with_claims(gang("train", 20), *claims)
    script = Script(*cluster("a: 21x8"), *busy("a-4", 8), *pods, checked=50)
    bind_claims(script, *(volume(claim, f"a-{at}") for at, claim in enumerate(claims)))
    assert not any(script.planned(pod) for pod in pods)
    assert script.message("train").startswith("19 of 20 members fit at once")


def test_a_replacement_goes_where_the_volume_of_its_rank_is() -> None:
    pods = with_claims(gang("train", 2, gpus=1), "c0", "c1")
    script = Script(*cluster("a: 4x8"), *pods)
    bind_claims(script, volume("c0", "a-2"), volume("c1", "a-3"))
    script.run(pods)
    again = reborn(pods[1])
    script.gone(pods[1])
    script.see(again)
    assert script.planned(again) == "a-3"


def test_a_pod_bound_by_us_stays_bound_when_its_volume_comes_to_light() -> None:
    """An old event of the watch comes after it."""
    pods = with_claims(gang("train", 1, gpus=1), "c0")
    script = Script(*cluster("a: 2x8"), *pods)
    script.feed(ClaimSeen("default", "c0", bound=True))
    script.advance(0.1)
    script.bind(pods[0])
    script.post(pods[0], seen=False)
    script.feed(volume("c0", "a-0"))
    script.see(pods[0])
    assert script.core.state.pods[pods[0].uid].node == "a-0"


def test_a_job_is_planned_where_the_volume_of_its_template_is() -> None:
    script = Script(*cluster("a: 2x8", "b: 2x8"))
    bind_claims(script, volume("data", "b-0", "b-1"))
    train = Controlled(script, with_data(job(2)))
    assert sorted(train.starts[0].plan[""]) == ["b-0", "b-1"]


def test_a_job_waits_for_the_nodes_of_its_volume_and_starts_when_that_is_gone() -> None:
    script = Script(*cluster("a: 2x8", "b: 2x8"), *busy("b-0", 8))
    bind_claims(script, volume("data", "b-0", "b-1"))
    train = Controlled(script, with_data(job(2)))
    assert not train.starts
    assert "2 nodes do not reach its volumes" in script.message("job")
    script.feed(VolumeGone("pv-data", "default", "data"))
    script.feed(ClaimGone("default", "data"))
    train.settle()
    assert len(train.starts) == 1


def test_a_job_that_is_started_keeps_its_plan_when_its_volume_comes_to_light() -> None:
    """The first of its pods may have had the claim bound: the nodes of the others are kube-scheduler's to judge."""
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, with_data(job(2)))
    script.feed(volume("data", "a-0", "a-1"))
    script.feed(ClaimSeen("default", "data", bound=True))
    pods = train.run()
    assert sorted(script.bound(pods)) == ["a-0", "a-1"]
    assert len(train.starts) == 1


def test_room_is_kept_for_a_single_pod_where_its_volume_is() -> None:
    """The single pod comes before the gang, which may have all other nodes."""
    waiting = replace(single("first", gpus=8, priority=10), claims=("c0",))
    pods = gang("train", 1, gpus=8)
    script = Script(*cluster("a: 2x8"))
    bind_claims(script, volume("c0", "a-0"))
    script.see(waiting, *pods)
    assert script.planned(pods[0]) == "a-1"


def test_a_claim_that_is_not_there_is_told_from_one_that_is_not_bound() -> None:
    script = Script(*cluster("a: 4x8"), *with_claims(gang("train", 1), "data"))
    reason = reason_of(script.gang("train").reason_state.cause)
    assert reason.message == "there is no volume claim data, which pod train-0 mounts; create it"
    script.feed(ClaimSeen("default", "data", bound=False))
    script.advance(0.1)
    reason = reason_of(script.gang("train").reason_state.cause)
    assert reason.message == "volume claim data of pod train-0 has no volume; bind it first"
    script.feed(ClaimSeen("default", "data", bound=True))
    script.advance(0.1)
    assert script.gang("train").members.placed


def test_a_pod_that_mounts_other_claims_than_before_leaves_no_trace() -> None:
    pod = single("pod", claims=("data",))
    script = Script(*cluster("a: 1x8"), pod)
    for claims in (("other",), ()):
        script.see(replace(pod, claims=claims))
        validate(script.core.state)
    script.feed(PodGone(pod.uid))
    assert script.core.state.volumes.users == {}
