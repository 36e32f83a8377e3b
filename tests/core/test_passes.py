"""The admission pass: in slices, in policy order, and only where something has changed that can matter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.core.events import ClaimGone, ClaimSeen, PodGone, PodSeen, Tick
from extender.core.limits import Limits
from policies.model import Pod
from policies.placement.place import placing
from tests.builders import GPU, cluster, gang, node, single
from tests.core.script import Script


@pytest.fixture
def tries(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the pods that stood first whenever a placement was looked for."""
    seen: list[str] = []

    def counted(members: list[Pod], *rest: Any) -> object:
        seen.append(members[0].name)
        return placing(members, *rest)

    monkeypatch.setattr("extender.core.queue.planner.placing", counted)
    return seen


def odd_ones(count: int, **facts: Any) -> list[Pod]:
    """Gangs of one, each of another shape, none of which fits on a node of 8 GPUs."""
    return [pod for number in range(count) for pod in gang(f"odd{number:03}", 1, gpus=9 + number, **facts)]


def test_a_pass_is_walked_in_slices_and_asks_to_go_on_at_once() -> None:
    script = Script(*cluster("a: 2x8"), limits=Limits(slice_units=200))
    for pod in odd_ones(40):
        script.feed(PodSeen(pod))
    script.now += 0.01
    ticks = 0
    while (wake := script.core.next_wake()) is not None and wake <= script.now:
        script.feed(Tick())
        ticks += 1
        explained = sum(script.reason(f"odd{number:03}") == "NoRoom" for number in range(40))
        assert explained <= 4 * ticks
        assert script.filter(single("other")), "others are served in between"
    assert ticks >= 10
    assert explained == 40


def test_gangs_of_one_shape_are_tried_once(tries: list[str]) -> None:
    pods = [pod for number in range(30) for pod in gang(f"same{number}", 2, gpus=9)]
    script = Script(*cluster("a: 4x8"), *pods)
    assert len(tries) == 1
    assert {script.reason(f"same{number}") for number in range(30)} == {"NoRoom"}


def test_a_gang_that_comes_later_is_tried_alone(tries: list[str]) -> None:
    script = Script(*cluster("a: 2x8"), *odd_ones(5))
    tries.clear()
    script.see(gang("late", 1))
    assert tries == ["late-0"]


def test_a_pod_that_takes_room_calls_for_no_pass(tries: list[str]) -> None:
    script = Script(*cluster("a: 2x8"), *odd_ones(5))
    tries.clear()
    script.see(single("taker", gpus=2, node="a-0"))
    assert not tries
    assert not script.planned(odd_ones(1)[0])


def test_the_numbers_in_a_reason_follow_what_is_taken_before_long(tries: list[str]) -> None:
    script = Script(*cluster("a: 2x8"), *gang("big", 3))
    assert script.message("big").startswith("2 of 3 members fit")
    script.see(single("taker", gpus=1, node="a-0"))
    script.advance(30)
    assert script.message("big").startswith("1 of 3 members fit")
    tries.clear()
    script.advance(300)
    assert not tries, "what stays as it is is not looked at again"


def test_the_numbers_follow_a_single_that_muster_binds_too() -> None:
    taker = single("taker", gpus=1)
    script = Script(*cluster("a: 2x8"), *gang("big", 3), taker)
    script.bind(taker, "a-0")
    script.post_all()
    script.change(taker, node="a-0")
    script.advance(30)
    assert script.message("big").startswith("1 of 3 members fit")


def test_pods_that_come_and_go_where_no_member_fits_cause_no_try(tries: list[str]) -> None:
    full = [single(f"full{number}", gpus=8, node=f"a-{number}") for number in range(3)]
    script = Script(*cluster("a: 3x8"), *full, *gang("train", 2), *odd_ones(3))
    tries.clear()
    for number in range(20):
        passing = single(f"passing{number}", gpus=0, node=f"a-{number % 3}")
        script.see(passing)
        script.gone(passing)
    assert not tries


def test_room_that_is_taken_again_at_once_causes_no_try(tries: list[str]) -> None:
    first, two = single("one", gpus=8, node="a-0"), single("two", gpus=8, node="a-0")
    script = Script(*cluster("a: 1x8"), first, *gang("train", 1))
    tries.clear()
    script.feed(PodGone(first.uid))
    script.see(two)
    assert not tries
    script.gone(two)
    assert script.planned(gang("train", 1)[0]) == "a-0"


def test_room_for_one_more_member_of_a_shape_is_noticed() -> None:
    small = [single(f"small{number}", gpus=4, node="a-0") for number in range(2)]
    pods = gang("train", 2, gpus=4)
    script = Script(*cluster("a: 1x8"), *small, *pods)
    script.gone(small[0])
    assert script.message("train").startswith("1 of 2 members fit")
    script.gone(small[1])
    assert script.planned(pods[0]) == "a-0"


def test_room_that_lets_another_mix_of_members_in_is_noticed() -> None:
    """Each member alone had room before, and has the same room now; but now they fit side by side."""
    launcher, worker = gang("mixed", 2, gpus=1)
    launcher = replace(launcher, requests=(("cpu", 2000), ("pods", 1)))
    worker = replace(worker, requests=(("cpu", 1000), (GPU, 1), ("pods", 1)))
    other = single("other", gpus=0, node="a")
    script = Script(node("a", gpus=1, cpu=3), other, launcher, worker)
    assert script.reason("mixed") == "NoRoom"
    script.gone(other)
    assert script.planned(launcher) == script.planned(worker) == "a"


def test_room_that_comes_free_in_the_middle_of_a_pass_is_found_by_the_next() -> None:
    busy = single("busy", gpus=8, node="a-0")
    first = gang("first", 1, created=1)
    script = Script(*cluster("a: 1x8"), busy, limits=Limits(slice_units=1))
    for pod in (*first, *odd_ones(5, created=2.0)):
        script.feed(PodSeen(pod))
    script.now += 0.01
    while script.reason("first") != "NoRoom":
        script.feed(Tick())
    script.feed(PodGone(busy.uid))
    script.advance(0.5)
    assert script.planned(first[0]) == "a-0"


def test_a_gang_that_vanishes_in_the_middle_of_a_pass_is_no_crash() -> None:
    script = Script(*cluster("a: 1x8"), limits=Limits(slice_units=1))
    pods = odd_ones(4)
    for pod in pods:
        script.feed(PodSeen(pod))
    script.now += 0.01
    script.feed(Tick())
    for pod in pods[2:]:
        script.feed(PodGone(pod.uid))
    script.advance(0.1)
    assert [script.reason(f"odd{number:03}") for number in (0, 1)] == ["NoRoom", "NoRoom"]


def test_the_older_gang_gets_the_room_although_the_pass_is_cut_into_slices() -> None:
    script = Script(*cluster("a: 1x8"), limits=Limits(slice_units=1))
    for age in (3, 1, 2):
        script.feed(PodSeen(gang(f"gang{age}", 1, created=age)[0]))
    script.advance(0.1)
    assert script.planned(gang("gang1", 1)[0])


def test_a_volume_claim_matters_to_the_gangs_that_use_it_and_to_no_other(tries: list[str]) -> None:
    user = [replace(pod, claims=("data",)) for pod in gang("user", 1)]
    script = Script(*cluster("a: 1x8"), *odd_ones(3), *user)
    tries.clear()
    script.feed(ClaimSeen("default", "other", bound=True))
    script.advance(0.1)
    assert not tries
    script.feed(ClaimSeen("default", "data", bound=True))
    script.advance(0.1)
    assert script.planned(user[0])
    script.feed(ClaimGone("default", "data"))
    script.advance(0.1)
    assert script.planned(user[0]), "a gang that is starting goes on"
