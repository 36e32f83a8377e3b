"""Priority is one order for all pods of Muster: single pods wait in the same line as the gangs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.core.answers import Outcome
from extender.core.limits import Limits
from policies.model import CLIQUE, GANG_GATE, Constraints, HostPort, Pod, Requirement, Selection, Term, Topology
from tests.builders import busy, cluster, gang, single
from tests.core.script import Script

TRAIN = (Requirement("app", "In", ("train",)),)
NEVER = Selection((("zone", "moon"),))


def test_room_that_becomes_free_goes_to_a_single_of_higher_priority_before_a_gang() -> None:
    holder, urgent, pods = busy("a-0", 8)[0], single("urgent", gpus=8, priority=1000), gang("train", 1, priority=10)
    script = Script(*cluster("a: 1x8"), holder, *pods, urgent)
    script.gone(holder)
    assert not script.planned(pods[0])
    assert script.reason("train") == "NoRoom"
    assert "room is kept for 1 pod in no gang (" in script.message("train")
    assert script.filter(urgent) == ("a-0",)
    script.bind(urgent, "a-0")
    script.post_all()
    assert script.bound([urgent]) == ["a-0"]


def test_a_gang_gets_what_is_left_beside_the_singles_before_it() -> None:
    urgent, pods = [single(f"urgent-{n}", gpus=8, priority=1000) for n in range(2)], gang("train", 2, priority=10)
    script = Script(*urgent, *pods)
    script.see(*cluster("a: 3x8"))
    assert not script.planned(pods[0])
    script.see(*cluster("b: 1x8"))
    assert all(script.planned(pod) for pod in pods)
    left = {"a-0", "a-1", "a-2", "b-0"} - {script.planned(pod) for pod in pods}
    assert set(script.filter(urgent[0])) == set(script.filter(urgent[1])) == left


def test_room_that_becomes_free_in_pieces_is_looked_at_beside_what_is_kept() -> None:
    """The first piece is enough for the gang or for the pod before it, and the second one makes it enough for both."""
    holders = [single(f"holder-{number}", gpus=gpus, node="a-0") for number, gpus in enumerate((4, 3, 1))]
    urgent, pods = single("urgent", gpus=2, priority=1000), gang("train", 1, gpus=4)
    script = Script(*cluster("a: 1x8"), *holders, *pods, urgent)
    script.gone(holders[0])
    assert not script.planned(pods[0])
    script.gone(holders[1])
    assert script.planned(pods[0]) == "a-0"


def test_room_kept_for_a_single_goes_to_the_single_before_it_once_that_one_has_room() -> None:
    """The first room that comes free is enough for the later one only, and all of it for the earlier one."""
    holders = [single(f"holder-{number}", gpus=gpus, node="a-0") for number, gpus in enumerate((2, 6))]
    urgent, small = single("urgent", gpus=8, priority=1000), single("small", gpus=2, priority=10)
    pods = gang("train", 4, gpus=1)
    script = Script(*cluster("a: 1x8"), *holders, *pods, urgent, small)
    script.gone(holders[0])
    script.gone(holders[1])
    assert not script.planned(pods[0])
    assert list(script.core.state.singles.reserved) == [urgent.uid]
    script.gone(urgent)
    assert all(script.planned(pod) for pod in pods)
    assert list(script.core.state.singles.reserved) == [small.uid]


@pytest.mark.parametrize(
    "asks",
    [
        Constraints(ports=(HostPort(80),)),
        Constraints(anti_affinity=(Term("kubernetes.io/hostname", TRAIN, ("default",)),)),
    ],
)
def test_a_gang_is_not_planned_where_the_single_before_it_would_keep_it_out(asks: Constraints) -> None:
    """kube-scheduler counts a nominated pod as though it were there, for pods of no higher priority."""
    ports = Constraints(ports=asks.ports)
    holder = single("holder", gpus=1, node="a-0", labels=(("app", "train"),), constraints=ports)
    urgent = single("urgent", gpus=1, priority=1000, constraints=asks)
    pods = gang("train", 1, gpus=1, labels=(("app", "train"),), constraints=ports)
    script = Script(*cluster("a: 1x8"), holder, replace(urgent, node="a-0", uid="before"), *pods, urgent)
    assert not script.planned(pods[0])
    script.gone(script.pods["before"], holder)
    assert not script.planned(pods[0]), "the room is kept for the other"
    assert script.filter(urgent) == ("a-0",)
    script.gone(urgent)
    script.advance(5)
    assert script.planned(pods[0]) == "a-0"


@pytest.mark.parametrize(("created", "first"), [(1.0, "alone"), (3.0, "train")])
def test_among_equals_whoever_came_first_goes_first(created: float, first: str) -> None:
    alone, pods = single("alone", gpus=8, created=created), gang("train", 1, created=2.0)
    script = Script(alone, *pods)
    script.see(*cluster("a: 1x8"))
    assert bool(script.planned(pods[0])) is (first == "train")
    assert script.filter(alone) == (("a-0",) if first == "alone" else ())


def test_a_gang_of_higher_priority_goes_before_a_single() -> None:
    alone, pods = single("alone", gpus=8, priority=10), gang("train", 1, priority=1000)
    script = Script(alone, *pods)
    script.see(*cluster("a: 1x8"))
    assert script.planned(pods[0])


@pytest.mark.parametrize("is_gang", [True, False])
def test_a_single_keeps_nobody_away_who_stands_before_it(*, is_gang: bool) -> None:
    ports = Constraints((HostPort(80),))
    holders = [single(f"holder-{number}", gpus=4, node="a-0") for number in range(2)]
    alone, small = single("alone", gpus=4, priority=5, constraints=ports), gang("small", 1, gpus=4)
    large = gang("large", 1, priority=10, constraints=ports)[0]
    large = large if is_gang else replace(large, group=None)
    script = Script(*cluster("a: 1x8"), *holders, alone, *small, large)
    script.gone(holders[0])
    assert list(script.core.state.singles.reserved) == [alone.uid]
    script.gone(holders[1])
    assert script.planned(large) == "a-0" if is_gang else list(script.core.state.singles.reserved) == [large.uid]


@pytest.mark.parametrize("before", [{"priority": 10, "created": 2.0}, {"priority": 5, "created": 0.0}])
def test_a_gang_gets_the_room_that_is_kept_for_a_single_behind_it_as_soon_as_it_is_enough(
    before: dict[str, Any],
) -> None:
    holders = [single(f"holder-{number}", gpus=4, node="a-0") for number in range(2)]
    alone, small = single("alone", gpus=4, priority=5, created=1.0), gang("small", 1, gpus=4)
    large = gang("large", 1, **before)
    script = Script(*cluster("a: 1x8"), *holders, alone, *small, *large)
    script.gone(holders[0])
    assert not script.planned(small[0]), "the room is kept for the single"
    script.gone(holders[1])
    assert script.planned(large[0]) == "a-0"
    assert not script.planned(small[0])


def test_an_elastic_gang_grows_after_singles_and_gangs_of_higher_priority() -> None:
    elastic = gang("elastic", 3, min_member=1, priority=10)
    urgent, high = single("urgent", gpus=8, priority=1000), gang("high", 1, priority=100)
    script = Script(*cluster("a: 1x8"), *elastic)
    script.run([pod for pod in elastic if script.planned(pod)])
    assert script.reason("elastic") == "Running"
    script.see(urgent, high)
    script.see(*cluster("b: 1x8"))
    assert not any(script.planned(pod) for pod in (*high, *elastic))
    script.change(urgent, node="b-0")
    script.see(*cluster("c: 1x8"))
    assert script.planned(high[0])
    assert not any(script.planned(pod) for pod in elastic)
    script.see(*cluster("d: 1x8"))
    assert sum(bool(script.planned(pod)) for pod in elastic) == 1


def test_room_is_kept_for_singles_only_where_a_gang_stands_behind_them() -> None:
    first, second = single("first", gpus=8, priority=1000), single("second", gpus=8)
    script = Script(*cluster("a: 1x8"), first, second)
    assert script.filter(second) == ("a-0",)
    script.see(gang("train", 1))
    assert script.filter(second) == ("a-0",), "whoever of them comes first is kube-scheduler's to say"


def test_a_gang_starts_when_the_single_before_it_has_gone() -> None:
    urgent, pods = single("urgent", gpus=8, priority=1000), gang("train", 1)
    script = Script(*cluster("a: 1x8"), urgent, *pods)
    assert not script.planned(pods[0])
    script.gone(urgent)
    assert script.planned(pods[0]) == "a-0"


def test_a_gang_starts_when_the_single_before_it_is_bound_elsewhere() -> None:
    urgent, pods = single("urgent", gpus=8, priority=1000), gang("train", 1)
    script = Script(*cluster("a: 1x8"), urgent, *pods)
    script.see(*busy("b-0", 8), *cluster("b: 1x8"))
    script.change(urgent, node="b-1")
    script.see(*cluster("b: 2x8"))
    assert script.planned(pods[0]) == "a-0"


def test_a_single_whose_binding_is_refused_stands_in_line_again() -> None:
    urgent, pods = single("urgent", gpus=8, priority=1000), gang("train", 1)
    script = Script(*cluster("a: 1x8"), urgent, *pods)
    script.bind(urgent, "a-0")
    script.post(urgent, Outcome.REFUSED)
    script.advance(0.1)
    assert not script.planned(pods[0])
    assert script.filter(urgent) == ("a-0",)


def test_a_single_that_does_not_take_its_room_in_time_stands_back_for_a_while() -> None:
    """kube-scheduler's plugins refuse it for a reason that Muster does not know."""
    odd, pods = single("odd", gpus=8, priority=1000), gang("train", 1, created=1)
    script = Script(*cluster("a: 1x8"), odd, *pods)
    script.advance(19)
    assert not script.planned(pods[0])
    script.advance(2)
    script.run(pods)
    again, later = gang("again", 1, created=2), gang("later", 1, created=3)
    script.see(again)
    script.gone(pods[0])
    assert script.planned(again[0]) == "a-0", "it is left aside"
    script.run(again)
    script.advance(25)
    script.see(later)
    script.gone(again[0])
    assert not script.planned(later[0]), "it may have become possible"
    script.advance(21)
    assert script.planned(later[0]) == "a-0"


def test_a_single_that_is_left_aside_stands_in_line_again_when_only_a_gang_keeps_it_out() -> None:
    slow, pods = single("slow", gpus=8, priority=1000), gang("train", 1, created=1)
    script = Script(*cluster("a: 1x8"), slow, *pods)
    script.advance(21)
    assert script.planned(pods[0]) == "a-0", "kube-scheduler has not taken the other up in time"
    script.filter(slow, ["a-0"])
    later = gang("later", 1, created=2)
    script.see(*later)
    script.gone(pods[0])
    assert not script.planned(later[0])


@pytest.mark.parametrize(("node", "stands"), [("a-0", True), ("b-0", False)])
def test_a_single_that_is_left_aside_stands_in_line_again_when_it_asks_to_preempt_there(
    node: str, *, stands: bool
) -> None:
    """kube-scheduler would use that node: the pod missed its room only because no cycle had tried it yet."""
    slow, pods = single("slow", gpus=8, priority=1000), gang("train", 1, created=1)
    small = busy("b-0", 1)[0]
    script = Script(*cluster("a: 1x8", "b: 1x8"), small, slow, *pods, limits=Limits(pods_preempt_gangs=False))
    script.advance(21)
    script.run(pods)
    assert script.bound(pods) == ["a-0"]
    script.preempt(slow, {node: (pods[0].uid,)})
    later = gang("later", 1, created=2)
    script.see(*later)
    script.gone(pods[0])
    assert bool(script.planned(later[0])) is not stands


@pytest.mark.parametrize(
    "other",
    [
        single("foreign", gpus=8, priority=1000, scheduler="default-scheduler"),
        single("gated", gpus=8, priority=1000, gates=(GANG_GATE,)),
        single("going", gpus=8, priority=1000, deleting=True),
        single("elsewhere", gpus=8, priority=1000, selection=NEVER),
        replace(gang("native", 1, priority=1000)[0], native_group="them"),
    ],
    ids=lambda pod: pod.name,
)
def test_a_pod_that_kube_scheduler_cannot_take_up_now_keeps_no_room(other: Pod) -> None:
    pods = gang("train", 1)
    script = Script(*cluster("a: 1x8"), other, *pods)
    assert script.planned(pods[0]) == "a-0"


def test_the_room_of_a_single_moves_on_when_others_have_taken_it() -> None:
    urgent, small = single("urgent", gpus=8, priority=1000), gang("small", 1, gpus=4)
    script = Script(*cluster("a: 1x8"), urgent, *small)
    assert not script.planned(small[0])
    script.see(*cluster("b: 1x8"), *busy("a-0", 4))
    assert script.planned(small[0]) == "a-0"
    assert script.filter(urgent, ["b-0"]) == ("b-0",)


def test_the_room_of_a_single_that_somebody_elsewhere_keeps_away_is_planned_with() -> None:
    away = Constraints(anti_affinity=(Term(CLIQUE, TRAIN, ("default",)),))
    urgent, pods = single("urgent", gpus=8, priority=1000, constraints=away), gang("small", 1)
    script = Script(*cluster("a: 2x8"), *busy("a-1", 8), urgent, *pods)
    assert not script.planned(pods[0])
    script.see(single("train", node="a-1", labels=(("app", "train"),)))
    script.advance(5)
    assert script.planned(pods[0]) == "a-0"


@pytest.mark.parametrize(("singles", "size", "taken", "left"), [(1, 8, 3, 5), (2, 4, 1, 3)])
def test_a_gang_is_planned_once_others_have_taken_so_much_that_a_single_before_it_has_no_room(
    singles: int, size: int, taken: int, left: int
) -> None:
    urgent = [single(f"urgent-{n}", gpus=size, priority=1000) for n in range(singles)]
    holder, pods = single("holder", gpus=8, node="a-0"), gang("train", 1, gpus=left)
    script = Script(*cluster("a: 1x8"), holder, *pods, *urgent)
    script.gone(holder)
    assert not script.planned(pods[0])
    script.see(*busy("a-0", taken))
    assert script.planned(pods[0]) == "a-0"


@pytest.mark.parametrize("nominated_node", [None, "a-0"], ids=["kept", "nominated"])
def test_a_gang_before_a_single_is_planned_although_one_behind_it_that_asks_for_the_same_has_no_room(
    nominated_node: str | None,
) -> None:
    alone, behind = single("alone", gpus=8, priority=10, nominated_node=nominated_node), gang("behind", 1)
    script = Script(*cluster("a: 1x8"), alone, *behind)
    assert not script.planned(behind[0])
    first = gang("first", 1, priority=1000)
    script.see(first)
    assert script.planned(first[0]) == "a-0"
    assert not script.planned(behind[0])


@pytest.mark.parametrize("where", ["a-0", "a-1"])
def test_the_reason_says_no_more_that_room_is_kept_for_a_pod_that_is_bound(where: str) -> None:
    script = Script(*cluster("a: 2x8"))
    pod = single("one", gpus=8, priority=5)
    script.see(pod, gang("train", 2))
    assert "room is kept for 1 pod in no gang (one)" in script.message("train")
    script.see(replace(pod, node=where, phase="Running"))
    script.advance(1.0)
    assert "room is kept" not in script.message("train")


def test_the_reason_names_nobody_who_has_gone_though_others_have_the_room() -> None:
    script = Script(*cluster("a: 2x8"))
    first, second = gang("first", 1, gpus=4), gang("second", 1, gpus=4)
    for pods in (first, second):
        script.see(pods)
        script.run(pods)
    script.see(gang("train", 2, topology=Topology(required=CLIQUE)))
    assert "held there by first (ends unknown), second (ends unknown)" in script.message("train")
    script.gone(script.pods[first[0].uid])
    script.advance(3.0)
    assert "held there by second (ends unknown)" in script.message("train")
    again = replace(single("other", gpus=4), node=script.pods[second[0].uid].node, phase="Running")
    script.see(again)
    script.advance(Limits().refresh_s + 1)
    assert "1 pod in no gang" in script.message("train")
