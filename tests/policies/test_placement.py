"""place(): a node for every member at once, or the reason why there is none, with numbers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.model import CLIQUE, Node, Pod, Requests, Requirement, Selection, Taint, Topology
from policies.placement.fitting import fits
from policies.placement.place import Placed, Shortfall, place
from policies.placement.request import Cap, shape_of
from tests.builders import GPU, cluster, gang, node, requests, single, snapshot
from tests.policies import oracle


@pytest.mark.parametrize(
    ("size", "gpus", "nodes", "spread"),
    [
        (4, 8, ["a: 4x8"], [1, 1, 1, 1]),
        (4, 4, ["a: 2x8"], [2, 2]),
        (8, 1, ["a: 1x8"], [8]),
        (3, 3, ["a: 2x8"], [2, 1]),
        (3, 0, ["a: 1x0"], [3]),
    ],
)
def test_a_gang_that_fits_gets_a_node_for_every_member(
    size: int, gpus: int, nodes: list[str], spread: list[int]
) -> None:
    plan = place(gang("train", size, gpus=gpus), size, snapshot(cluster(*nodes)))
    assert isinstance(plan, Placed)
    assert sorted(Counter(plan.nodes.values()).values(), reverse=True) == spread


@pytest.mark.parametrize(
    ("size", "gpus", "nodes"), [(5, 8, "a: 4x8"), (3, 5, "a: 2x8"), (2, 9, "a: 2x8"), (1, 1, "a: 1x0")]
)
def test_a_gang_that_does_not_fit_as_a_whole_gets_nothing(size: int, gpus: int, nodes: str) -> None:
    assert isinstance(place(gang("big", size, gpus=gpus), size, snapshot(cluster(nodes))), Shortfall)


def test_what_is_bound_already_is_taken_off() -> None:
    busy = single("busy", gpus=1, node="a-0")
    nodes = cluster("a: 2x8")
    assert isinstance(place(gang("train", 2), 2, snapshot(nodes, busy)), Shortfall)
    assert isinstance(place(gang("train", 2, gpus=7), 2, snapshot(nodes, busy)), Placed)


def test_an_elastic_gang_takes_as_many_members_as_fit_and_min_member_at_least() -> None:
    pods = gang("elastic", 4, min_member=2)
    for count, expected in ((1, 0), (2, 2), (3, 3), (5, 4)):
        plan = place(pods, 2, snapshot(cluster(f"a: {count}x8")))
        assert len(plan.nodes if isinstance(plan, Placed) else ()) == expected


def test_roles_of_different_shapes_are_placed_together_the_largest_first() -> None:
    workers, launcher = gang("job", 2), replace(gang("job", 3, gpus=0)[2], index=None)
    plan = place([launcher, *workers], 3, snapshot(cluster("a: 2x8")))
    assert isinstance(plan, Placed)
    assert {plan.nodes[pod.uid] for pod in workers} == {"a-0", "a-1"}
    small = [replace(pod, requests=requests(4)) for pod in gang("small", 2)]
    assert isinstance(place([*small, *workers], 4, snapshot(cluster("a: 3x8"))), Placed)


def test_nodes_that_refused_are_left_out() -> None:
    pods = gang("train", 2)
    plan = place(
        pods, 2, snapshot(cluster("a: 3x8")), [Cap("a-0", shape_of(pods[0]), 0), Cap("unknown", shape_of(pods[0]), 0)]
    )
    assert isinstance(plan, Placed)
    assert set(plan.nodes.values()) == {"a-1", "a-2"}


def test_the_explanation_counts_what_a_person_can_check() -> None:
    picky = Selection(node_selector=(("pool", "gold"),))
    pods = [replace(pod, selection=picky) for pod in gang("train", 4)]
    gold = [node(f"gold-{number}", labels={"pool": "gold"}) for number in range(4)]
    busy = single("busy", gpus=2, node="gold-0")
    shortfall = place(pods, 4, snapshot([*gold, *cluster("a: 5x8")], busy), [Cap("gold-1", shape_of(pods[0]), 0)])
    assert isinstance(shortfall, Shortfall)
    assert (shortfall.placed, shortfall.needed) == (2, 4)
    assert shortfall.explanation == (
        "3 of 9 nodes have room for 8 nvidia.com/gpu; "
        "5 nodes do not have label pool=gold, which its node selector asks for; "
        "1 node was refused by kube-scheduler"
    )


def test_each_closed_node_is_counted_for_the_cause_that_kube_scheduler_names() -> None:
    """A node that is tainted and has another label counts once: kube-scheduler looks at taints first."""
    gpus, blue = Taint("nvidia.com/gpu", "present", "NoSchedule"), Taint("team", "blue", "NoExecute")
    soft = Taint("spare", "", "PreferNoSchedule")
    nodes = [
        *(node(f"gpu-{at}", taints=(soft, gpus)) for at in range(3)),
        node("blue", taints=(blue, gpus), labels={"pool": "gold", "zone": "a"}),
        node("cordoned", unschedulable=True, taints=(gpus,)),
        *(node(f"dead-{at}", ready=False) for at in range(3)),
        node("plain"),
        node("far", labels={"pool": "gold", "zone": "c"}),
        node("bare", labels={"pool": "gold"}),
    ]
    zones = ((Requirement("zone", "In", ("a", "b")),), (Requirement("rank", "Gt", ("3",)),))
    picky = Selection(node_selector=(("pool", "gold"),), affinity=zones)
    shortfall = place([replace(gang("train", 1)[0], selection=picky)], 1, snapshot(nodes))
    assert isinstance(shortfall, Shortfall)
    assert shortfall.explanation == (
        "0 of 11 nodes have room for 1 cpu, 8 nvidia.com/gpu; "
        "3 nodes are not ready (dead-0, dead-1 and 1 more); "
        "3 nodes have taint nvidia.com/gpu=present:NoSchedule, which its pods do not tolerate; "
        "2 nodes do not match its required node affinity (zone in (a, b) or rank>3); "
        "1 node is cordoned (cordoned); "
        "1 node has taint team=blue:NoExecute, which its pods do not tolerate; "
        "1 node does not have label pool=gold, which its node selector asks for"
    )


def test_nodes_that_have_a_taint_of_their_own_each_are_counted_together() -> None:
    nodes = [node(f"n-{at}", taints=(Taint("owner", f"user-{at:02}", "NoSchedule"),)) for at in range(40)]
    shortfall = place(gang("train", 1), 1, snapshot(nodes))
    assert isinstance(shortfall, Shortfall)
    *named, rest = shortfall.explanation.split("; ")[1:]
    assert named == [
        "24 nodes have other taints, which its pods do not tolerate",
        *(f"1 node has taint owner=user-0{at}:NoSchedule, which its pods do not tolerate" for at in range(5)),
    ]
    assert rest == "11 nodes are closed to it for other reasons of that sort"


def test_a_resource_that_no_node_knows_is_explained() -> None:
    odd = [replace(gang("odd", 1)[0], requests=(("example.com/fpga", 2), ("pods", 1)))]
    shortfall = place(odd, 1, snapshot(cluster("a: 2x8")))
    assert isinstance(shortfall, Shortfall)
    assert shortfall.explanation == "0 of 2 nodes have room for 2 example.com/fpga; no node offers example.com/fpga"


SIX = (("cpu", 4000), ("example.com/fpga", 1), ("example.com/nic", 2), ("memory", 8 << 30), ("nvidia.com/gpu", 8))


def _offering(name: str, **amounts: int) -> Node:
    """A node with plenty of the resources of ``SIX``, but for these."""
    plenty = {"cpu": 64_000, "fpga": 8, "nic": 8, "memory": 512 << 30, "gpu": 8, "pods": 110} | amounts
    full = {"fpga": "example.com/fpga", "nic": "example.com/nic", "gpu": "nvidia.com/gpu"}
    return Node(name, tuple(sorted((full.get(key, key), much) for key, much in plenty.items())), {})


@pytest.mark.parametrize(
    ("nodes", "used", "said"),
    [
        ([{}, {}], SIX[:3], "2 of 2 nodes have room for 8 nvidia.com/gpu"),
        ([{}, {}], (("nvidia.com/gpu", 5),), "0 of 2 nodes have room for 8 nvidia.com/gpu (at most 3 free on a node)"),
        ([{}, {}], (("nvidia.com/gpu", 8),), "0 of 2 nodes have room for 8 nvidia.com/gpu"),
        ([{}, {}], (("memory", 510 << 30),), "0 of 2 nodes have room for 8 GiB memory (at most 2 GiB free on a node)"),
        (
            [{}, {}],
            (("cpu", 62_000), ("nvidia.com/gpu", 2)),
            "0 of 2 nodes have room for 4 cpu (at most 2 free on a node), 8 nvidia.com/gpu (at most 6 free on a node)",
        ),
        (
            [{"gpu": 4}, {"gpu": 4}],
            (),
            "0 of 2 nodes have room for 8 nvidia.com/gpu; "
            "even empty, no node is large enough: at most 4 nvidia.com/gpu",
        ),
        (
            [{"gpu": 4}, {"nic": 0}, {"nic": 1}],
            (),
            "0 of 3 nodes have room for 2 example.com/nic, 8 nvidia.com/gpu together (2 nodes lack example.com/nic, "
            "1 node lacks nvidia.com/gpu); even empty, no node has all of it",
        ),
        ([{"pods": 1}], (("pods", 1),), "0 of 1 nodes have room for 1 pod"),
        ([{"pods": 1}], (), "1 of 1 nodes have room for 8 nvidia.com/gpu, 1 pod"),
        ([{"pods": 1, "gpu": 80}], (), "1 of 1 nodes have room for 1 pod"),
    ],
)
def test_the_reason_names_what_is_short_of_six_resources(
    nodes: list[dict[str, int]], used: Requests, said: str
) -> None:
    asking = [replace(pod, requests=tuple(sorted((*SIX, ("pods", 1))))) for pod in gang("train", 9)]
    there = [_offering(f"n-{number}", **amounts) for number, amounts in enumerate(nodes)]
    busy = [replace(single(f"busy-{host.name}", node=host.name), requests=used) for host in there if used]
    shortfall = place(asking, 9, snapshot(there, *busy))
    assert isinstance(shortfall, Shortfall)
    # That nine of them never fit into so few nodes is said after it.
    assert shortfall.explanation.partition("; even empty, the nodes")[0] == said


def test_an_empty_cluster_is_explained() -> None:
    shortfall = place(gang("train", 1), 1, snapshot([]))
    assert isinstance(shortfall, Shortfall)
    assert shortfall.explanation.startswith("0 of 0 nodes have room")


def test_a_node_that_is_overcommitted_has_no_room_for_what_it_lacks_and_some_for_the_rest() -> None:
    over = [single("x", gpus=6, node="a-0"), single("y", gpus=6, node="a-0")]
    assert isinstance(place(gang("train", 1, gpus=1), 1, snapshot(cluster("a: 1x8"), *over)), Shortfall)
    assert isinstance(place(gang("launcher", 1, gpus=0), 1, snapshot(cluster("a: 1x8"), *over)), Placed)


def test_placing_changes_nothing_in_the_snapshot() -> None:
    view = snapshot(cluster("a: 2x8"))
    before = view.free.copy()
    place(gang("train", 2), 2, view)
    fits({"uid-train-0": "a-0"}, gang("train", 1), view)
    assert (view.free == before).all()


def test_a_remembered_placement_holds_only_if_all_of_it_fits_together() -> None:
    pods = gang("train", 2)
    view = snapshot(cluster("a: 2x8"))
    assert fits({pods[0].uid: "a-0", pods[1].uid: "a-1"}, pods, view)
    assert not fits({pods[0].uid: "a-0", pods[1].uid: "a-0"}, pods, view)
    assert not fits({pods[0].uid: "a-0", pods[1].uid: "gone"}, pods, view)


@settings(max_examples=150, derandomize=True, deadline=None)
@given(
    shapes=st.lists(st.integers(0, 8), min_size=1, max_size=5),
    rooms=st.lists(st.integers(0, 8), min_size=1, max_size=4),
    spare=st.integers(0, 2),
)
def test_a_placement_never_gives_away_more_than_there_is(shapes: list[int], rooms: list[int], spare: int) -> None:
    pods = [gang("train", index + 1, gpus=gpus)[index] for index, gpus in enumerate(shapes)]
    nodes = [node(f"n-{index}", gpus) for index, gpus in enumerate(rooms)]
    needed = max(1, len(pods) - spare)
    plan = place(pods, needed, snapshot(nodes))
    if isinstance(plan, Placed):
        assert len(plan.nodes) >= needed
        assert fits(plan.nodes, [pod for pod in pods if pod.uid in plan.nodes], snapshot(nodes))
    elif len(set(shapes)) == 1 and shapes[0]:
        assert sum(room // shapes[0] for room in rooms) < needed, "there is room for one shape, and greedy finds it"


NODES = st.lists(
    st.tuples(st.integers(0, 8), st.integers(1, 12), st.sampled_from(["a", "b", ""])), min_size=1, max_size=5
)
SHAPE = st.tuples(st.integers(0, 4), st.integers(1, 6))


def small(nodes: list[tuple[int, int, str]]) -> list[Node]:
    return [node(f"n-{at}", gpus, cpu=cpu, clique=clique) for at, (gpus, cpu, clique) in enumerate(nodes)]


@settings(max_examples=400, derandomize=True, deadline=None)
@given(nodes=NODES, shape=SHAPE, size=st.integers(1, 6), spare=st.integers(0, 2), closed=st.sampled_from(["", "n-0"]))
def test_of_one_shape_as_many_are_placed_as_brute_force_can_place_in_no_more_cliques(
    nodes: list[tuple[int, int, str]], shape: tuple[int, int], size: int, spare: int, closed: str
) -> None:
    here = small(nodes)
    usable = [host for host in here if host.name != closed]
    pods = [replace(pod, requests=requests(*shape)) for pod in gang("train", size)]
    needed = max(1, size - spare)
    plan = place(pods, needed, snapshot(here), [Cap(closed, shape_of(pods[0]), 0)])
    possible = oracle.most(pods, usable)
    if isinstance(plan, Shortfall):
        assert plan.placed == possible < needed
        return
    placed = [pod for pod in pods if pod.uid in plan.nodes]
    assert placed == pods[:possible], "as many as can be, the first in rank"
    assert fits(plan.nodes, placed, snapshot(usable))
    clique = {host.name: host.labels.get(CLIQUE, "") for host in usable}
    assert len({clique[name] for name in plan.nodes.values()} - {""}) == oracle.fewest_cliques(placed, usable, clique)


@settings(max_examples=300, derandomize=True, deadline=None)
@given(nodes=NODES, shapes=st.tuples(SHAPE, SHAPE), sizes=st.tuples(st.integers(1, 3), st.integers(1, 3)))
def test_of_two_shapes_what_is_placed_is_possible_and_what_is_impossible_is_not_placed(
    nodes: list[tuple[int, int, str]], shapes: tuple[tuple[int, int], tuple[int, int]], sizes: tuple[int, int]
) -> None:
    here = small(nodes)
    pods = [
        replace(pod, requests=requests(*shape))
        for name, size, shape in zip(("one", "two"), sizes, shapes, strict=True)
        for pod in gang(name, size)
    ]
    plan = place(pods, len(pods), snapshot(here))
    if isinstance(plan, Placed):
        assert fits(plan.nodes, pods, snapshot(here))
    else:
        assert plan.placed <= oracle.most(pods, here)


def test_a_role_that_only_few_nodes_admit_is_not_locked_out_by_a_larger_one() -> None:
    picky = Selection(node_selector=(("zone", "x"),))
    large = gang("worker", 1, gpus=4)
    few = [replace(pod, selection=picky) for pod in gang("few", 2, gpus=3)]
    nodes = [node("n-0", 6, labels={"zone": "x"}), node("n-1", 8)]
    assert isinstance(place([*large, *few], 3, snapshot(nodes)), Placed)


def test_members_that_cannot_join_their_gang_in_its_domain_keep_out_only_themselves() -> None:
    """With one of three members tied to another clique, two are enough."""
    pods = gang("train", 3, topology=Topology(required="clique"))
    pods[2] = replace(pods[2], selection=Selection(node_selector=(("kubernetes.io/hostname", "b-0"),)))
    nodes = cluster("a: 2x8", "b: 1x8")
    plan = place(pods, 2, snapshot(nodes))
    assert isinstance(plan, Placed)
    assert sorted(plan.nodes.values()) == ["a-0", "a-1"]
    assert isinstance(place(pods, 3, snapshot(nodes)), Shortfall)


def pinned(pod: Pod, name: str) -> Pod:
    """Pin the pod to a node. A pin cannot be removed: a start that broke off leaves members like this one."""
    return replace(pod, selection=Selection(affinity=((Requirement("metadata.name", "In", (name,), is_field=True),),)))


@pytest.mark.parametrize("level", [None, "clique"])
@pytest.mark.parametrize("spare", [0, 2])
def test_pinned_members_and_others_that_have_room_together_are_placed(level: str | None, spare: int) -> None:
    """A member that fits anywhere never takes the only node of a pinned one, however tight it is."""
    for seed in range(200):
        random = Random(seed)
        nodes = [node(f"a-{i}", 2 * random.randint(1, 4), clique="a") for i in range(random.randint(2, 4))]
        slots = [host.name for host in nodes for _ in range(dict(host.allocatable)[GPU] // 2)]
        random.shuffle(slots)
        size = random.randint(2, len(slots))
        pods = [replace(pod, topology=Topology(required=level)) for pod in gang("train", size + spare, gpus=2)]
        pods = [pinned(pod, name) if random.random() < 0.6 else pod for pod, name in zip(pods, slots, strict=False)]
        plan = place(pods, size, snapshot(nodes))
        assert isinstance(plan, Placed), (seed, plan)
