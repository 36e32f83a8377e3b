"""A tenant that creates too many objects gets a reason, and delays no other tenant."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.ledger.claims import Claims
from extender.core.limits import Limits
from policies.model import GroupKey, Node, Pod, Requirement, Selection, Toleration
from tests.builders import cluster, coscheduled, gang, node, podgroup, requests
from tests.core.invariants import validate_claims
from tests.core.script import Script

FEW = Limits(members=3, waiting=2)


def in_namespace(namespace: str, pods: list[Pod]) -> list[Pod]:
    return [replace(pod, namespace=namespace, uid=f"{namespace}-{pod.uid}") for pod in pods]


def test_gangs_beyond_the_limit_of_their_namespace_wait_for_a_place() -> None:
    first, second, third = (gang(name, 2) for name in ("first", "second", "third"))
    script = Script(*cluster("a: 1x8"), *first, *second, *third, limits=FEW)
    assert [script.reason(name) for name in ("first", "second", "third")] == ["NoRoom", "NoRoom", "TooManyGangs"]
    assert "2 earlier gangs wait in namespace default, the most that are looked at" in script.message("third")
    script.gone(*second)
    assert script.reason("third") == "NoRoom"


def test_a_gang_that_starts_makes_place_for_the_next() -> None:
    gangs = [gang(name, 2) for name in ("first", "second", "third")]
    script = Script(*cluster("a: 1x8"), limits=FEW)
    script.see(*gangs)
    script.see(*cluster("b: 3x8"))
    script.run(gangs[0])
    assert script.gang("first").release.complete
    assert script.reason("third") != "TooManyGangs"


def test_another_namespace_is_not_held_up() -> None:
    crowd = [in_namespace("greedy", gang(f"job{n}", 2)) for n in range(10)]
    script = Script(*cluster("a: 1x8"), limits=FEW)
    script.see(*crowd, gang("modest", 2))
    assert script.reason("modest") == "NoRoom", "it was looked at"
    assert sum(script.core.state.pending.keeps_out(GroupKey("greedy", f"job{n}")) for n in range(10)) == 8


def test_the_limit_is_nothing_to_a_gang_that_runs() -> None:
    running = gang("running", 2)
    script = Script(*cluster("a: 2x8"), *running, limits=FEW)
    script.run(running)
    script.see(gang("next", 2), gang("last", 2), gang("late", 2))
    script.gone(running[0])
    again = replace(running[0], uid="again", name="again")
    script.see(again)
    assert script.planned(again), "its replacement is planned although two others wait"


@pytest.mark.parametrize("pods", [gang("train", 4), gang("train", 2, min_member=4)], ids=["pods", "minMember"])
def test_a_gang_of_too_many_members_is_not_planned(pods: list[Pod]) -> None:
    script = Script(*cluster("a: 8x8"), *pods, limits=FEW)
    assert script.reason("train") == "TooManyMembers"
    assert script.message("train") == (
        f"it has {len(pods)} members and minMember 4; a gang may have at most 3 (max_gang_members)"
    )
    assert not any(map(script.planned, pods))


def test_a_gang_that_has_shrunk_is_planned() -> None:
    pods = gang("train", 4, min_member=2)
    script = Script(*cluster("a: 8x8"), *pods, limits=FEW)
    assert script.reason("train") == "TooManyMembers"
    script.gone(pods[0])
    assert all(map(script.planned, pods[1:]))


def test_a_pod_group_that_wants_too_many_says_so() -> None:
    _, pods = coscheduled("mpi", 2)
    script = Script(*cluster("a: 8x8"), podgroup("mpi", 1_000_000), *pods, limits=FEW)
    assert script.reason("mpi") == "TooManyMembers"


def test_a_reason_names_a_few_of_many() -> None:
    pods = [replace(pod, scheduler=f"scheduler-{i}") for i, pod in enumerate(gang("train", 40))]
    script = Script(*cluster("a: 2x8"), *pods, *gang("train", 1, min_member=40, life="x"))
    assert script.message("train").endswith("scheduler-11 and 36 more")


def test_labels_and_resources_that_no_node_has_leave_nothing_behind() -> None:
    """Any user can write thousands of them into pods, and each would be an array over all nodes."""
    claims = Claims()
    for machine in cluster("a: 4x8"):
        claims.set_node(machine)
    view = claims.snapshot()
    terms = tuple((Requirement(f"example.com/{n}", "DoesNotExist", ()),) for n in range(100))
    before = len(claims._table._facts._columns)
    assert view.eligible(Selection(affinity=terms)).all()
    assert len(claims._table._facts._columns) <= before + 1
    for n in range(100):
        amounts = ((f"example.com/{n}", 1 << 55), ("pods", 1))
        claims.confirm(Pod(f"uid-{n}", "ns", f"pod-{n}", amounts, node="a-0"))
    assert len(claims.snapshot().resources) == len(view.resources)
    validate_claims(claims)


def test_a_resource_that_a_node_offers_later_was_used_all_along() -> None:
    claims = Claims()
    claims.set_node(node("a"))
    amounts = (("example.com/odd", 3), ("pods", 1))
    claims.confirm(Pod("on-a", "ns", "on-a", amounts, node="a"))
    claims.confirm(Pod("on-b", "ns", "on-b", amounts, node="b"))
    claims.set_node(Node("b", (("example.com/odd", 8), ("pods", 10))))
    validate_claims(claims)
    assert claims.room("b")["example.com/odd"] == 5
    claims.set_node(Node("a", (("example.com/odd", 4), ("pods", 10))))
    validate_claims(claims)
    assert claims.room("a")["example.com/odd"] == 1


def test_numbers_in_an_affinity_are_those_that_go_reads() -> None:
    small = node("small", labels={"size": "7"})
    for digits, expected in (("6", True), ("7", False), ("9" * 5000, False), ("-" + "9" * 5000, False), ("٣", False)):
        claims = Claims()
        claims.set_node(small)
        asks = Selection(affinity=((Requirement("size", "Gt", (digits,)),),))
        assert claims.admits("small", asks) is expected
        assert bool(claims.snapshot().eligible(asks)[0]) is expected


def test_a_pod_may_ask_for_more_than_64_bits_can_count() -> None:
    huge = (("cpu", 1 << 55), ("nvidia.com/gpu", 1 << 55), ("pods", 1))
    greedy = [replace(pod, requests=huge) for pod in gang("greedy", 2)]
    bound = replace(gang("bound", 1)[0], requests=huge, node="a-0")
    script = Script(*cluster("a: 2x8"), *greedy, bound)
    assert script.reason("greedy") == "NoRoom"
    assert not script.core.state.claims.fits("a-0", requests(1))
    assert script.core.state.claims.fits("a-1", requests(1))


def test_tolerations_without_end_are_looked_at_once() -> None:
    patient = Selection(tolerations=tuple(Toleration(f"key-{n}", "Exists", "", "") for n in range(128)))
    claims = Claims()
    claims.set_node(node("a"))
    assert claims.snapshot().eligible(patient).all()
