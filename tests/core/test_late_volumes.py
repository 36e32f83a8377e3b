"""Claims that get a volume once their pod has a node (``WaitForFirstConsumer``) are planned with existing ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from extender.core.events import (
    CapacitySeen,
    ClaimGone,
    ClaimSeen,
    StorageClassSeen,
    StorageDriverSeen,
    VolumeGone,
    VolumeSeen,
)
from extender.core.explain.reasons import reason_of
from policies.model import Pod, Requirement, Terms
from policies.model.storage import NO_PROVISIONER, Capacity, Storage, StorageClass
from tests.builders import busy, cluster, gang, reborn, single
from tests.core.script import Script

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
GIB = 1 << 30
LOCAL = StorageClassSeen(StorageClass("local", NO_PROVISIONER, waits=True))


def on(*nodes: str) -> Terms:
    return ((Requirement(HOST, "In", nodes),),)


def asked(size: int = 1, storage_class: str = "local", **more: object) -> Storage:
    return Storage(storage_class, size * GIB, ("ReadWriteOnce",), **more)  # type: ignore[arg-type]


def free(name: str, *nodes: str, size: int = 1, storage_class: str = "local", claim: str = "") -> VolumeSeen:
    """A volume that no claim has, of some nodes, or with none of all; kept for ``claim`` if that is named."""
    offers = Storage(storage_class, size * GIB, ("ReadWriteOnce",))
    return VolumeSeen(name, "default" if claim else "", claim, on(*nodes) if nodes else None, False, offers)  # noqa: FBT003


def late(name: str, size: int = 1, storage_class: str = "local", **more: object) -> ClaimSeen:
    return ClaimSeen("default", name, False, asked(size, storage_class), **more)  # type: ignore[arg-type]  # noqa: FBT003


def with_late_claims(
    pods: Sequence[Pod], size: int = 1, storage_class: str = "local"
) -> tuple[list[Pod], list[ClaimSeen]]:
    """Each of the pods with a claim of its own, ``data-POD``."""
    names = [f"data-{pod.name}" for pod in pods]
    made = [replace(pod, claims=(name,)) for pod, name in zip(pods, names, strict=True)]
    return made, [late(name, size, storage_class) for name in names]


def scene(*facts: object, nodes: str = "a: 4x8") -> Script:
    """A cluster that has seen these facts in turn: events, and pods."""
    script = Script(*cluster(nodes))
    for fact in facts:
        if isinstance(fact, Pod):
            script.see(fact)
        else:
            script.feed(fact)  # type: ignore[arg-type]
    script.advance(0.2)
    return script


def test_members_go_where_free_volumes_are() -> None:
    pods, claims = with_late_claims(gang("train", 3, gpus=1))
    volumes = free("v0", "a-1"), free("v1", "a-3"), free("v2", "a-3")
    script = scene(LOCAL, *volumes, *claims, *pods)
    assert Counter(map(script.planned, pods)) == {"a-1": 1, "a-3": 2}


def test_a_volume_is_promised_to_one_claim() -> None:
    first, claims = with_late_claims(gang("first", 2, gpus=1))
    second, more = with_late_claims(gang("second", 2, gpus=1))
    script = scene(LOCAL, free("v0", "a-1"), free("v1", "a-1"), *claims, *first, *more, *second)
    assert [script.planned(pod) for pod in first] == ["a-1", "a-1"]
    assert not any(map(script.planned, second))
    script.feed(free("v2", "a-2"))
    script.feed(free("v3", "a-0"))
    script.advance(0.2)
    assert sorted(map(script.planned, second)) == ["a-0", "a-2"]


def test_a_large_claim_leaves_small_volumes_to_others() -> None:
    """A volume of each size on a node: two small claims, or a small and a large one, and never two large ones."""
    large, claims = with_late_claims(gang("large", 2, gpus=1), size=10)
    small, more = with_late_claims(gang("small", 2, gpus=1))
    volumes = [free(f"v{node}-{size}", f"a-{node}", size=size) for node in range(2) for size in (1, 10)]
    script = scene(LOCAL, *volumes, *claims, *large, *more, *small)
    assert sorted(map(script.planned, large)) == ["a-0", "a-1"]
    assert sorted(map(script.planned, small)) == ["a-0", "a-1"]


def test_the_reason_names_the_class_and_the_claims() -> None:
    pods, claims = with_late_claims(gang("train", 2, gpus=1))
    script = scene(LOCAL, free("v0", "a-1"), *claims, *pods)
    assert script.reason("train") == "NoRoom"
    assert "1 of 2 members fit at once" in script.message("train")
    assert "StorageClass local" in script.message("train")
    assert "data-train-0" in script.message("train")


def test_a_class_that_no_volume_is_of_is_named() -> None:
    pods, claims = with_late_claims(gang("train", 1))
    script = scene(LOCAL, *claims, *pods)
    assert "no node offers StorageClass local with 1 GiB" in script.message("train")


def test_a_claim_that_does_not_wait_keeps_its_reason() -> None:
    pods, claims = with_late_claims(gang("train", 1), storage_class="fast")
    script = scene(*claims, *pods)
    reason = reason_of(script.gang("train").reason_state.cause)
    assert (reason.code, "Muster sees no StorageClass fast" in reason.message) == ("VolumeNotBound", True)
    script.feed(StorageClassSeen(StorageClass("fast", "disk.example.com")))
    script.advance(0.2)
    assert "StorageClass fast does not wait for its pod" in reason_of(script.gang("train").reason_state.cause).message
    script.feed(StorageClassSeen(StorageClass("fast", "disk.example.com", waits=True)))
    script.advance(0.2)
    assert script.planned(pods[0])


def test_the_node_that_kube_scheduler_has_chosen_pins_a_slot() -> None:
    """After a failed release the node that PreBind has written stays on the claim."""
    pods, claims = with_late_claims(gang("train", 2, gpus=1), storage_class="fast")
    made = StorageClassSeen(StorageClass("fast", "disk.example.com", waits=True))
    script = scene(made, *claims, *pods)
    script.feed(replace(claims[1], node="a-3"))
    script.advance(0.2)
    assert script.planned(pods[1]) == "a-3"
    assert script.planned(pods[0])


def test_the_reason_says_what_ties_a_claim_to_a_full_node() -> None:
    pods, claims = with_late_claims(gang("train", 1, gpus=8), storage_class="fast")
    made = StorageClassSeen(StorageClass("fast", "disk.example.com", waits=True))
    script = scene(made, *busy("a-3", 8), replace(claims[0], node="a-3"), *pods)
    assert "claim data-train-0 to node a-3 (volume.kubernetes.io/selected-node)" in script.message("train")


def test_a_volume_that_is_kept_for_a_claim_pins_its_slot_and_no_other() -> None:
    pods, claims = with_late_claims(gang("train", 2, gpus=1))
    script = scene(LOCAL, free("v0", "a-1"), free("v1", "a-2", claim="data-train-0"), *claims, *pods)
    assert [script.planned(pod) for pod in pods] == ["a-2", "a-1"]


def test_what_prebind_writes_leaves_the_plan_as_it_is() -> None:
    """The volume is subtracted from the node's offer, and the claim requests none any more."""
    pods, claims = with_late_claims(gang("train", 2, gpus=1))
    volumes = free("v0", "a-1"), free("v1", "a-1")
    script = scene(LOCAL, *volumes, *claims, *pods)
    script.feed(replace(volumes[0], namespace="default", claim="data-train-0"))
    script.advance(0.2)
    script.feed(replace(claims[0], volume="v0"))
    script.advance(0.2)
    script.feed(VolumeSeen("v0", "default", "data-train-0", on("a-1")))
    script.feed(replace(claims[0], bound=True, volume="v0"))
    script.advance(0.2)
    assert [script.planned(pod) for pod in pods] == ["a-1", "a-1"]
    script.run(pods)
    assert script.bound(pods) == ["a-1", "a-1"]


def test_a_plan_is_made_anew_when_another_pod_gets_its_volume() -> None:
    pods, claims = with_late_claims(gang("train", 1, gpus=1))
    script = scene(LOCAL, free("v0", "a-1"), *claims, *pods)
    assert script.planned(pods[0]) == "a-1"
    script.feed(free("v1", "a-2"))
    script.feed(free("v0", "a-1", claim="of-another"))
    script.advance(0.2)
    assert script.planned(pods[0]) == "a-2"


def test_a_gang_waits_until_a_volume_comes_free() -> None:
    pods, claims = with_late_claims(gang("train", 2, gpus=1))
    script = scene(LOCAL, free("v0", "a-1"), *claims, *pods)
    assert not any(map(script.planned, pods))
    script.feed(free("v1", "a-1"))
    script.advance(0.2)
    assert [script.planned(pod) for pod in pods] == ["a-1", "a-1"]
    script.feed(VolumeGone("v1", "", ""))
    script.advance(0.2)
    assert not any(map(script.planned, pods))


def test_volumes_are_provisioned_in_the_topologies_of_their_class() -> None:
    pods, claims = with_late_claims(gang("train", 4, gpus=4), storage_class="zonal")
    zonal = StorageClass("zonal", "disk.example.com", waits=True, topologies=on("a-2", "a-3"))
    script = scene(StorageClassSeen(zonal), *claims, *pods)
    assert Counter(map(script.planned, pods)) == {"a-2": 2, "a-3": 2}


def test_volumes_that_several_nodes_reach_are_learned_from_refusals() -> None:
    """Each of these nodes offers the volume, and kube-scheduler gives it to the first member."""
    pods, claims = with_late_claims(gang("train", 2, gpus=8))
    script = scene(LOCAL, free("v0", "a-0", "a-1"), *claims, *pods)
    assert sorted(map(script.planned, pods)) == ["a-0", "a-1"]
    script.feed(free("v0", "a-0", "a-1", claim="data-train-0"))
    script.advance(0.2)
    assert script.reason("train") == "NoRoom"
    assert "StorageClass local" in script.message("train")
    assert "data-train-1" in script.message("train")
    script.feed(free("v1", "a-2", "a-3"))
    script.advance(0.2)
    assert script.planned(pods[0]) in ("a-0", "a-1")
    assert script.planned(pods[1]) in ("a-2", "a-3")


def capacity(node: str, size: int, largest: int | None = None) -> CapacitySeen:
    limit = None if largest is None else largest * GIB
    return CapacitySeen(Capacity("storage", f"of-{node}", "lvm", on(node), size * GIB, limit))


def test_capacity_of_a_node_is_not_promised_twice() -> None:
    pods, claims = with_late_claims(gang("train", 4, gpus=1), size=10, storage_class="lvm")
    made = StorageClassSeen(StorageClass("lvm", "lvm.example.com", waits=True))
    driver = StorageDriverSeen("lvm.example.com", counts=True)
    script = scene(made, driver, capacity("a-0", 25), capacity("a-1", 19), *claims, *pods)
    assert "3 of 4 members fit at once" in script.message("train")
    script.feed(capacity("a-1", 20))
    script.advance(0.2)
    assert Counter(map(script.planned, pods)) == {"a-0": 2, "a-1": 2}


def test_no_volume_is_larger_than_the_largest_of_a_capacity() -> None:
    pods, claims = with_late_claims(gang("train", 1, gpus=1), size=10, storage_class="lvm")
    made = StorageClassSeen(StorageClass("lvm", "lvm.example.com", waits=True))
    driver = StorageDriverSeen("lvm.example.com", counts=True)
    script = scene(made, driver, capacity("a-0", 100, largest=5), capacity("a-1", 50, largest=10), *claims, *pods)
    assert script.planned(pods[0]) == "a-1"


def test_capacities_count_only_where_the_driver_says_so() -> None:
    pods, claims = with_late_claims(gang("train", 2, gpus=8), size=10, storage_class="lvm")
    made = StorageClassSeen(StorageClass("lvm", "lvm.example.com", waits=True))
    script = scene(made, StorageDriverSeen("lvm.example.com", counts=True), capacity("a-0", 1), *claims, *pods)
    assert "StorageClass lvm" in script.message("train")
    script.feed(StorageDriverSeen("lvm.example.com", counts=False))
    script.advance(0.2)
    assert all(map(script.planned, pods))


def test_the_claim_of_an_earlier_run_holds_a_replacement_to_its_node() -> None:
    pods, claims = with_late_claims(gang("train", 2, gpus=1))
    script = scene(LOCAL, free("v0", "a-1"), free("v1", "a-2"), *claims, *pods)
    for pod, claim in zip(pods, claims, strict=True):
        node = script.planned(pod)
        script.feed(VolumeSeen(f"v{int(node[-1]) - 1}", "default", claim.name, on(node)))
        script.feed(replace(claim, bound=True))
    script.run(pods)
    home = script.bound(pods)[1]
    again = reborn(pods[1])
    script.gone(pods[1])
    script.see(again)
    assert script.planned(again) == home


def test_members_that_share_a_claim_go_to_one_node_and_take_one_volume() -> None:
    pods = [replace(pod, claims=("data",)) for pod in gang("train", 3, gpus=2)]
    others, claims = with_late_claims(gang("other", 1, gpus=1))
    script = scene(LOCAL, free("v0", "a-1"), free("v1", "a-1"), late("data"), *pods, *claims, *others)
    assert {script.planned(pod) for pod in pods} == {"a-1"}
    assert script.planned(others[0]) == "a-1"


def test_a_claim_for_one_pod_keeps_others_waiting() -> None:
    mine = ClaimSeen("default", "data", True, replace(asked(), modes=("ReadWriteOncePod",)))  # noqa: FBT003
    first, second = ([replace(pod, claims=("data",)) for pod in gang(name, 1, gpus=1)] for name in ("first", "second"))
    script = scene(mine, *first)
    script.run(first)
    script.see(*second)
    assert "is for one pod at a time (ReadWriteOncePod), and pod first-0 has it" in script.message("second")
    script.gone(first[0])
    script.advance(0.2)
    assert script.planned(second[0])


def test_the_claim_of_an_ephemeral_volume_belongs_to_its_pod() -> None:
    [pod] = (
        replace(member, claims=("train-0-scratch",), own_claims=("train-0-scratch",)) for member in gang("train", 1)
    )
    script = scene(LOCAL, free("v0", "a-1"), late("train-0-scratch", owner="another"), pod)
    assert "train-0-scratch of pod train-0 was not made for that pod" in script.message("train")
    script.feed(late("train-0-scratch", owner=pod.uid))
    script.advance(0.2)
    assert script.planned(pod) == "a-1"


@pytest.mark.parametrize("trouble", ["is being deleted", "has lost its volume"])
def test_a_claim_that_nobody_can_use_is_the_reason(trouble: str) -> None:
    pods, claims = with_late_claims(gang("train", 1))
    script = scene(LOCAL, free("v0", "a-1"), replace(claims[0], trouble=trouble), *pods)
    assert trouble in script.message("train")
    script.feed(ClaimGone("default", claims[0].name))
    script.advance(0.2)
    assert "there is no volume claim" in reason_of(script.gang("train").reason_state.cause).message


def test_single_pods_leave_volumes_that_are_promised() -> None:
    pods, claims = with_late_claims(gang("train", 1, gpus=1))
    alone = replace(single("alone", gpus=1), claims=("data-alone",))
    script = scene(LOCAL, free("v0", "a-1"), free("v1", "a-2"), *claims, *pods, late("data-alone"), alone)
    home = script.planned(pods[0])
    assert script.core.state.claims.room(home)["volumes/StorageClass local with 1 GiB"] == 0


def test_members_wait_for_others_whose_volumes_are_being_provisioned() -> None:
    """Provisioning may outlast a usual hold; once the volumes exist kube-scheduler gets the usual time."""
    pods, claims = with_late_claims(gang("train", 2, gpus=1), storage_class="fast")
    made = StorageClassSeen(StorageClass("fast", "disk.example.com", waits=True))
    script = scene(made, *claims, *pods)
    homes = [script.planned(pod) for pod in pods]
    for claim, home in zip(claims, homes, strict=True):
        script.feed(replace(claim, node=home))
    script.feed(replace(claims[0], node=homes[0], bound=True))
    script.bind(pods[0], expires_s=600.0)
    script.advance(120)
    assert [script.planned(pod) for pod in pods] == homes
    script.feed(replace(claims[1], node=homes[1], bound=True))
    script.bind(pods[1], expires_s=600.0)
    script.post_all()
    assert script.bound(pods) == homes
