"""The reason when a required level has no room: the nearest domain, its shortfall, its holders, and until when."""

from __future__ import annotations

from dataclasses import replace

from policies.model import Topology
from tests.builders import busy, cluster, gang, reborn
from tests.core.levels import BLOCK, IN_CLIQUE, asking, blocks, homes
from tests.core.script import Script


def test_the_reason_names_the_best_domain_what_it_lacks_and_who_is_there() -> None:
    script = Script(*cluster("rack-1: 4x8", "rack-3: 17x8"))
    for name in ("train-9", "train-7"):
        members = gang(name, 5)
        script.see(members)
        script.run(members)
    pods = asking(gang("big", 8), IN_CLIQUE)
    script.see(pods)
    assert script.message("big") == (
        "7 of 8 members fit at once: required nvidia.com/gpu.clique for 8 x 8 GPUs: 2 cliques, "
        "best has 7 free nodes (rack-3); 1 node short; held there by train-7 (ends unknown), train-9 (ends unknown); "
        "11 of 21 nodes have room for 8 nvidia.com/gpu"
    )
    free = next(
        name
        for name in script.core.state.claims.nodes
        if name.startswith("rack-3") and not any(script.core.state.claims.on(name))
    )
    script.see(busy(free, 3))
    script.advance(60)
    assert (
        "2 nodes short; held there by train-7 (ends unknown), train-9 (ends unknown), 1 pod in no gang"
        in script.message("big")
    )


def test_a_holder_whose_end_is_known_is_named_with_it_and_one_of_another_namespace_with_that() -> None:
    known = [replace(pod, node=f"a-{pod.index}", ends=3600.0 * (pod.index or 1)) for pod in gang("known", 3)]
    other = [replace(pod, node="a-3", namespace="team") for pod in gang("other", 1)]
    system = [replace(pod, uid=f"agent-{pod.node}") for pod in busy("a-0 a-1 a-2 a-3 a-4 a-5", 0)]
    pods = asking(gang("big", 4), IN_CLIQUE)
    script = Script(*cluster("a: 6x8"), *known, *other, *system, *pods)
    assert (
        "best has 2 free nodes (a); 2 nodes short; "
        "held there by known (ends by 1970-01-01 02:00 UTC), team/other (ends unknown); 2 of 6" in script.message("big")
    ), "pods without a GPU are in nobody's way"
    script.change(other[0], deleting=True)
    script.advance(60)
    assert "UTC), team/other (being deleted);" in script.message("big")
    script.change(known[0], ends=None)
    script.advance(60)
    assert "held there by known (ends unknown)" in script.message("big")


def test_nodes_that_are_closed_to_the_gang_are_counted_in_the_domain_that_comes_nearest() -> None:
    here = cluster("a: 4x8")
    pods = asking(gang("big", 4), IN_CLIQUE)
    script = Script(replace(here[0], unschedulable=True), replace(here[1], ready=False), *here[2:], *pods)
    assert "best has 2 free nodes (a); 2 nodes short; 2 of its 4 nodes not ready or closed to the" in script.message(
        "big"
    )


def test_a_replacement_is_told_of_the_domain_that_its_gang_is_in_and_of_no_other() -> None:
    for wish in (IN_CLIQUE, Topology(slice_size=3)):
        pods = asking(gang("train", 3), wish)
        script = Script(*cluster("a: 3x8", "b: 9x8"), *pods)
        script.run(pods)
        (lost,) = script.bound(pods[2:])
        script.gone(pods[2])
        script.see(busy(lost, 8), reborn(pods[2]))
        assert script.message("train") == (
            "0 of 1 members fit at once: required nvidia.com/gpu.clique for 1 x 8 GPUs: its gang is in a, which has "
            "0 free nodes; 1 node short; held there by train (ends unknown), 1 pod in no gang; "
            "9 of 12 nodes have room for 8 nvidia.com/gpu; 2 of 3 members are bound; no room is kept for the others"
        )


def test_a_sliced_gang_is_told_for_how_many_slices_there_is_room() -> None:
    pods = asking(gang("train", 6), Topology(slice_size=2))
    script = Script(*cluster("a: 3x8", "b: 3x8", "c: 1x8"), *pods)
    assert (
        "4 of 6 members fit at once: required nvidia.com/gpu.clique for 6 x 8 GPUs in slices of 2: 3 cliques, "
        "best has 2 free nodes in whole slices of 2 (a); room for 2 of 3 slices in all" in script.message("train")
    )
    pods = asking(gang("train", 6), Topology(required=BLOCK, slice_size=2, slice_level="clique"))
    script = Script(*blocks("x a: 3x8", "x b: 3x8", "y c: 5x8"), *pods)
    assert (
        f"required {BLOCK} for 6 x 8 GPUs in slices of 2 that share nvidia.com/gpu.clique each: 2 blocks, "
        "best has 4 free nodes in whole slices of 2 (x); 2 nodes short" in script.message("train")
    )
    pods = asking(gang("huge", 16), Topology(slice_size=16))
    script = Script(*cluster("a: 15x8"), *pods)
    assert "1 clique, none has room for a slice of 16" in script.message("huge")


def test_labels_that_contradict_nesting_stand_in_the_reason() -> None:
    pods = asking(gang("train", 4), IN_CLIQUE)
    script = Script(*blocks("x a: 2x8", "y a: 2x8")[:2], *blocks("y a: 4x8")[2:], *pods)
    assert "best has 2 free nodes (a in x); 2 nodes short" in script.message("train")
    assert "1 value of this label contradicts the wider levels: a;" in script.message("train")


def test_nodes_with_room_that_lack_the_label_are_told_of() -> None:
    pods = asking(gang("train", 3), IN_CLIQUE)
    script = Script(*cluster("a: 2x8", "-: 4x8"), *pods, *busy("n-0", 8))
    assert "1 node short; 3 nodes have room but not this label; 5 of 6 nodes" in script.message("train")
    script = Script(*cluster("-: 4x8"), *pods)
    assert (
        "required nvidia.com/gpu.clique for 3 x 8 GPUs: no node has this label; "
        "4 nodes have room but not this label; " in script.message("train")
    )


def test_a_gang_that_has_its_quorum_placed_does_not_wait_for_room_for_the_rest() -> None:
    pods = asking(gang("elastic", 8, min_member=4), IN_CLIQUE)
    script = Script(*cluster("a: 5x8", "b: 6x8"), *pods)
    assert homes(script, pods) == "b b b b b b none none"
    script.advance(5)
    assert script.reason("elastic") == "Placed"
    script.run(pods[:6])
    assert script.reason("elastic") == "Running"
