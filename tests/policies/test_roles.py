"""Gangs of several roles: their order of placement, their nodes, and that the order of nodes does not matter."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from policies.model import Node, Pod, Topology
from policies.placement.place import Placed, Shortfall, place
from tests.builders import busy, cluster, gang, node, requests, snapshot


def leader(cpu: int, gpus: int = 0, **facts: object) -> Pod:
    """A member of another shape."""
    return replace(gang("job", 100, gpus=gpus)[99], requests=requests(gpus, cpu), index=None, **facts)  # type: ignore[arg-type]


def cliques(found: Placed | Shortfall, nodes: list[Node], pods: list[Pod]) -> Counter[str]:
    """How many of these pods are in each clique."""
    assert isinstance(found, Placed), found
    where = {host.name: host.labels.get("nvidia.com/gpu.clique", "") for host in nodes}
    return Counter(where[found.nodes[pod.uid]] for pod in pods)


@pytest.mark.parametrize("gpus", [0, 8])
@pytest.mark.parametrize("cpu", [2, 4, 8, 32])
def test_a_leader_larger_than_a_worker_does_not_scatter_the_workers(cpu: int, gpus: int) -> None:
    nodes = cluster(*(f"solo{i}: 1x8" for i in range(9)), "big: 8x8")
    workers = [replace(pod, requests=requests(8, 4)) for pod in gang("job", 8)]
    plan = place([leader(cpu, gpus), *workers], 9, snapshot(nodes))
    assert cliques(plan, nodes, workers) == {"big": 8}


def test_a_heavy_leader_costs_the_workers_no_clique_on_half_busy_clusters() -> None:
    """No more cliques than without a leader at all, unless the workers' share of a clique needs the leader's node."""
    random = Random(8)
    worse = 0
    for _ in range(200):
        nodes = cluster(*(f"c{i}: {random.randint(1, 8)}x8" for i in range(8)), "-spare: 2x8")
        taken = [host for host in nodes if random.random() < 0.5 and not host.name.startswith("spare")]
        view = snapshot(nodes, *busy(" ".join(host.name for host in taken), 8))
        workers = [replace(pod, requests=requests(8, 4)) for pod in gang("job", random.randint(2, 12))]
        alone = place(workers, len(workers), view)
        if isinstance(alone, Shortfall):
            continue
        together = place([leader(random.choice([2, 8, 32]), random.choice([0, 8])), *workers], len(workers) + 1, view)
        if isinstance(together, Placed):
            worse += len(cliques(together, nodes, workers)) > len(cliques(alone, nodes, workers))
    assert worse == 0


def test_room_beyond_whole_slices_does_not_break_a_larger_domain() -> None:
    for sizes, size in (((3, 2), 2), ((31, 16), 16), ((5, 4, 6), 4)):
        nodes = cluster(*(f"c{count}: {count}x8" for count in sizes))
        pods = gang("job", size, topology=Topology(slice_size=size, slice_level="clique"))
        plan = place(pods, size, snapshot(nodes))
        assert cliques(plan, nodes, pods) == {f"c{size}": size}


def test_slices_that_are_shared_out_take_the_tightest_domains() -> None:
    nodes = cluster("a: 5x8", "b: 4x8", "c: 3x8", "d: 2x8")
    pods = gang("job", 4, topology=Topology(slice_size=2, slice_level="clique"))
    plan = place(pods, 4, snapshot(nodes))
    assert cliques(plan, nodes, pods) == {"b": 4}


def test_a_sliced_role_that_is_not_first_takes_the_tightest_domains() -> None:
    nodes = cluster("a: 8x8", "b: 5x8", "c: 2x8", "d: 3x8")
    sliced = gang("job", 2, topology=Topology(slice_size=2, slice_level="clique"))
    first = [
        replace(pod, uid=f"first-{pod.uid}", name=f"first-{pod.name}", series="first", requests=requests(8, 2))
        for pod in gang("job", 8)
    ]
    plan = place([*first, *sliced], 10, snapshot(nodes))
    assert cliques(plan, nodes, first) == {"a": 8}
    assert cliques(plan, nodes, sliced) == {"c": 2}


@pytest.mark.parametrize("seed", [*range(30), 50, 52, 62, 73, 105, 109, 119, 172, 188, 192])
def test_a_refusal_says_how_many_members_of_all_roles_fit(seed: int) -> None:
    """No fewer than a part of the gang, in whole slices, that would be placed if it were the whole."""
    random = Random(seed)
    wish = random.choice([Topology(), Topology(required="clique"), Topology(slice_size=2, slice_level="clique")])
    nodes = cluster(*(f"c{i}: {random.randint(1, 4)}x8" for i in range(3)))
    view = snapshot(nodes, *busy(" ".join(host.name for host in nodes if random.random() < 0.3), 6))
    gpus, its_wish = random.choice([4, 8]), random.choice([Topology(), wish])
    workers = [replace(pod, requests=requests(gpus, 4)) for pod in gang("job", 6, topology=wish)]
    alike = leader(random.choice([8, 40]), random.choice([0, 2, 8]), topology=its_wish)
    others = [replace(alike, uid=f"l{i}", name=f"l{i}", index=i, series="l") for i in range(2)]
    plan = place([*workers, *others], 8, view)
    if isinstance(plan, Shortfall):
        step, its_step = wish.slice_size or 1, its_wish.slice_size or 1
        parts = [[*workers[:i], *others[:j]] for i in range(0, 7, step) for j in range(0, 3, its_step) if i + j]
        fit = [len(members) for members in parts if isinstance(place(members, len(members), view), Placed)]
        assert plan.placed >= max(fit, default=0)


@pytest.mark.parametrize("seed", range(40))
def test_a_plan_does_not_depend_on_the_order_in_which_nodes_were_seen(seed: int) -> None:
    random = Random(seed)
    nodes = cluster(*(f"c{i}: {random.randint(1, 6)}x8" for i in range(7)), "-: 3x8")
    random.shuffle(nodes)
    used = [pod for name in nodes if random.random() < 0.4 for pod in busy(name.name, random.choice([4, 8]))]
    slices = Topology(slice_size=2, slice_level="clique")
    workers = gang("job", random.choice([4, 6, 8]), gpus=random.choice([4, 8]), topology=slices)
    others = [
        replace(pod, uid=f"o{pod.uid}", name=f"o{pod.name}", series="o", requests=requests(2, 3))
        for pod in gang("job", random.choice([1, 2, 4]), topology=random.choice([slices, Topology()]))
    ]
    members = [*workers, *others]
    plans = []
    for _ in range(4):
        random.shuffle(nodes)
        outcome = place(members, len(members), snapshot(nodes, *used))
        plans.append(outcome.nodes if isinstance(outcome, Placed) else outcome.placed)
    assert all(plan == plans[0] for plan in plans)


@pytest.mark.parametrize(
    ("there", "roles", "most"),
    [
        ([(2, 12), (7, 5), (8, 15), (3, 11)], [(0, 8, 4), (0, 5, 4)], 6),
        ([(1, 16), (3, 4), (6, 9), (5, 3)], [(4, 3, 3), (3, 2, 4), (0, 8, 3)], 6),
        ([(8, 8)], [(2, 2, 4), (1, 3, 3), (4, 2, 3)], 4),
        ([(7, 12), (1, 12), (4, 9)], [(2, 1, 4), (5, 1, 2), (3, 8, 2)], 5),
    ],
)
def test_a_refusal_says_how_many_fit_also_where_that_is_far_from_enough(
    there: list[tuple[int, int]], roles: list[tuple[int, int, int]], most: int
) -> None:
    """``there``: GPUs and cores of each node; ``roles``: of one member, and their number. Counted by trying all."""
    nodes = [node(f"n{at}", gpus, cpu=cpu) for at, (gpus, cpu) in enumerate(there)]
    pods = [
        replace(pod, requests=requests(gpus, cpu))
        for name, (gpus, cpu, count) in zip("abc", roles, strict=False)
        for pod in gang(name, count)
    ]
    for needed in (most + 1, len(pods)):
        shortfall = place(pods, needed, snapshot(nodes))
        assert isinstance(shortfall, Shortfall)
        assert shortfall.placed == most
    assert isinstance(place(pods, most, snapshot(nodes)), Placed)


def test_a_leader_that_asks_for_more_than_all_workers_does_not_scatter_them() -> None:
    nodes = cluster("a: 1x8", "b: 1x8", "c: 1x8", "d: 2x8")
    view = snapshot(nodes, *busy("a-0", 2), *busy("d-1", 7))
    workers = gang("job", 7, gpus=1)
    plan = place([leader(8, 8), *workers], 8, view)
    assert isinstance(plan, Placed)
    assert len({plan.nodes[pod.uid][0] for pod in workers}) == 1


@pytest.mark.parametrize(("pods", "starts"), [(1, False), (2, True)])
def test_two_roles_of_one_pod_each_need_two_pods_of_the_node(pods: int, *, starts: bool) -> None:
    host = node("n", 0)
    tight = replace(host, allocatable=tuple(sorted({**dict(host.allocatable), "pods": pods}.items())))
    plan = place([leader(2), *gang("job", 1, gpus=0)], 2, snapshot([tight]))
    assert isinstance(plan, Placed) == starts
