"""Gangs of one to three roles against an exhaustive search: none is refused that can start, no plan breaks a rule."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from policies.model import Constraints, Pod, Spread, Topology
from policies.model.topology import SILENT
from policies.placement.place import CUT_SHORT, Placed, Shortfall, place, placing
from policies.placement.snapshot import Snapshot
from policies.steps import BUDGET
from tests.builders import cluster, gang, node, requests, snapshot
from tests.policies.exact import Kind, can_start, complaints, judged
from tests.policies.mixed import KEYS, TRAIN, Mixed, mixed
from tests.policies.test_steps import costs

CASES, BLOCKS = 480, 4


@pytest.mark.parametrize("block", range(BLOCKS))
def test_none_is_refused_that_can_start_and_no_plan_breaks_a_rule(block: int) -> None:
    count = CASES // BLOCKS
    outcomes = [judged(mixed(seed)) for seed in range(block * count, block * count + count)]
    assert not [f"case {outcome.case.seed}: {text}" for outcome in outcomes for text in outcome.wrong]
    kinds = Counter(outcome.kind for outcome in outcomes)
    assert set(kinds) == {Kind.PLANNED, Kind.WAITS}, kinds
    assert count // 4 < kinds[Kind.PLANNED], "both outcomes are common, or this shows little"


def test_the_judge_sees_plans_that_nobody_should_make() -> None:
    """The plans put one member on each node by name, then again from the first, in one round, whatever is asked."""
    signs = {"kube-scheduler refuses": 0, "in rounds of": 0, "is broken": 0, "is cut": 0}
    for seed in range(1, 400, 2):
        case = mixed(seed)
        names = sorted(host.name for host in case.nodes)
        nodes = {pod.uid: names[at % len(names)] for at, pod in enumerate(case.pods)}
        texts = list(complaints(case, Placed(nodes)))
        for sign in signs:
            signs[sign] += any(sign in text for text in texts)
    assert all(count > 10 for count in signs.values()), signs


def test_the_judge_sees_gangs_that_are_missed_or_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    elastic = [case for seed in range(200) if (case := mixed(seed)).needed < len(case.pods)]
    monkeypatch.setattr("tests.policies.exact.place", lambda *args: Shortfall(0, args[1], "no"))
    assert Kind.MISSED in {judged(case).kind for case in elastic}
    monkeypatch.setattr("tests.policies.exact.place", _only_what_is_needed)
    assert Kind.FEWER in {judged(case).kind for case in elastic}


def _only_what_is_needed(pods: list[Pod], needed: int, view: Snapshot) -> Placed | Shortfall:
    return place(pods[:needed], needed, view)


@pytest.mark.parametrize("seed", [92, 256, 534, 840, 1094, 1148, 4358, 6836])
def test_roles_that_must_not_have_the_fewest_nodes_are_placed(seed: int) -> None:
    case = mixed(seed)
    plan = place(case.pods, case.needed, case.snapshot())
    assert isinstance(plan, Placed), plan
    assert not list(complaints(case, plan))


@pytest.mark.parametrize("seed", [1222, 3488, 3630, 4561, 7150])
def test_all_who_require_a_level_share_its_domain_where_a_node_lacks_the_label(seed: int) -> None:
    """A rack's node without a block is closed to members that require the rack if others require the block."""
    outcome = judged(mixed(seed))
    assert not outcome.wrong
    assert outcome.kind in (Kind.PLANNED, Kind.WAITS)


def workers(size: int, gpus: int, cpu: int = 1, name: str = "worker", topology: Topology = SILENT) -> list[Pod]:
    pods = gang(name, size, series=name, topology=topology)
    return [replace(pod, requests=requests(gpus, cpu)) for pod in pods]


def test_a_heavy_leader_gets_a_node_of_its_own_if_the_workers_leave_no_other() -> None:
    nodes = [node("a", 8, cpu=40), node("b", 8, cpu=40)]
    leader = workers(1, 0, cpu=36, name="leader")
    plan = place([*leader, *workers(5, 2, cpu=4)], 6, snapshot(nodes))
    assert isinstance(plan, Placed)
    assert list(plan.nodes.values()).count(plan.nodes[leader[0].uid]) == 2


def test_slices_come_one_member_of_each_at_a_time_if_a_spread_will_have_it() -> None:
    nodes = [node(f"n{number}", 2, labels={KEYS[0]: f"r{number // 2}"}) for number in range(4)]
    constraints = Constraints(spread=(Spread(KEYS[0], 1, TRAIN),))
    pods = [replace(pod, labels=(("app", "train"),), constraints=constraints) for pod in workers(4, 1)]
    case = Mixed(0, nodes, [], [[replace(pod, topology=Topology(slice_size=2)) for pod in pods]], 4)
    plan = place(case.pods, 4, case.snapshot())
    assert isinstance(plan, Placed)
    assert not list(complaints(case, plan))


def test_as_many_of_an_elastic_gang_start_as_there_is_room_for() -> None:
    """Neither role may have its fewest nodes first: 3 and 5 GPUs fill a node."""
    threes, fives = workers(4, 3, name="three"), workers(4, 5, name="five")
    plan = place([*threes, *fives], 2, snapshot(cluster("a: 3x8")))
    assert isinstance(plan, Placed)
    assert len(plan.nodes) == 6


def test_a_gang_that_waits_is_told_how_many_of_its_members_fit() -> None:
    """No more than can have a node together, and no fewer."""
    for seed in range(0, 400, 2):
        case = mixed(seed)
        plan = place(case.pods, case.needed, case.snapshot())
        if isinstance(plan, Placed) or plan.unclear or CUT_SHORT in plan.explanation:
            continue
        assert not can_start(replace(case, needed=plan.placed + 1)), f"seed {seed}: more than {plan.placed} fit"
        assert not plan.placed or can_start(replace(case, needed=plan.placed)), f"seed {seed}: {plan.placed} do not"


def test_slices_that_the_other_members_leave_no_room_for_are_said_to_be_so() -> None:
    sliced = workers(2, 4, name="sliced", topology=Topology(slice_size=2, slice_level="clique"))
    shortfall = place([*sliced, *workers(3, 2, name="small")], 5, snapshot(cluster("a: 1x8")))
    assert isinstance(shortfall, Shortfall)
    assert shortfall.nearest is not None
    assert shortfall.nearest.text == (
        "required nvidia.com/gpu.clique for 2 x 4 GPUs in slices of 2: 1 clique, best has 2 free slots in whole slices "
        "of 2 (a); not enough for these and the gang's other members together"
    )


def test_an_elastic_gang_is_short_of_whole_slices() -> None:
    """The minimum is 5 of 6 members, and in slices of 2 that is all of them."""
    topology = Topology(required="clique", slice_size=2)
    for free, short in ((2, "4 nodes short"), (5, "2 nodes short")):
        shortfall = place(workers(6, 8, topology=topology), 5, snapshot(cluster(f"a: {free}x8")))
        assert isinstance(shortfall, Shortfall)
        assert shortfall.nearest is not None
        assert shortfall.nearest.text.startswith("required nvidia.com/gpu.clique for 6 x 8 GPUs in slices of 2: ")
        assert shortfall.nearest.text.endswith(f"; {short}")
    assert isinstance(place(workers(6, 8, topology=topology), 5, snapshot(cluster("a: 6x8"))), Placed)


def test_what_was_not_tried_is_said() -> None:
    roles = [pod for number in range(12) for pod in workers(3, 3, cpu=number + 1, name=f"role{number}")]
    shortfall = place(roles, len(roles), snapshot(cluster("a: 17x8")))
    assert isinstance(shortfall, Shortfall)
    assert CUT_SHORT in shortfall.explanation
    two = place(roles[:6], 6, snapshot(cluster("a: 2x8")))
    assert isinstance(two, Shortfall)
    assert CUT_SHORT not in two.explanation, "two roles are no effort"


@pytest.mark.parametrize("slices", [0, 4])
def test_no_step_of_the_search_is_long_and_all_of_them_are_bounded(slices: int) -> None:
    topology = Topology(slice_size=slices, slice_level="clique") if slices else Topology()
    view = snapshot([host for number in range(40) for host in cluster(f"c{number:02}: 6x8")])
    kinds = [workers(200, gpus, cpu=gpus, name=f"of{gpus}", topology=topology) for gpus in (3, 5, 7)]
    members = [pod for kind in kinds for pod in kind]
    place(members[:3], 3, view)
    shortfall, stated, called = costs(placing(members, len(members), view))
    assert isinstance(shortfall, Shortfall)
    assert max(stated) <= 700
    assert max(called) < 6000
    assert sum(stated) < 4 * BUDGET
