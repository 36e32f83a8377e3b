"""Gangs with a minimum for each role: how the referee counts them, and which seeds have them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from policies.model import Dialect, GroupKey, GroupRef, Pod, PodGroup, Stamp
from tests.builders import cluster, requests
from tests.simulation.drawing import draw
from tests.simulation.lives import Life
from tests.simulation.role_plan import has_roles
from tests.simulation.sight import look, role_of
from tests.simulation.stamps import could_know

KEY = GroupKey("default", "train")
GROUP = PodGroup(KEY, "g", 3, dialect=Dialect.VOLCANO, minima=(("master", 1), ("worker", 2)))


def member(role: str, number: int, node: str | None = None, **facts: object) -> Pod:
    ref = GroupRef("train", Dialect.VOLCANO, role=role)
    pod = Pod(f"{role}-{number}", "default", f"{role}-{number}", requests(8), group=ref, node=node)
    return replace(pod, **facts)  # type: ignore[arg-type]


WORKERS, MASTER = [member("worker", number) for number in range(4)], member("master", 0)


def test_a_gang_is_not_whole_while_a_role_is_below_its_minimum() -> None:
    sight = look([*WORKERS, MASTER], {KEY: GROUP})
    assert not sight.enough(WORKERS)
    assert sight.lacks(WORKERS) == "0 of 1 of role 'master'"
    assert not sight.enough([MASTER, WORKERS[0]]), "that is two of three"
    assert sight.enough([MASTER, *WORKERS[:2]])
    assert not look(WORKERS, {KEY: GROUP}).complete
    assert look([*WORKERS[:3], replace(MASTER, node="a-0")], {KEY: GROUP}).partial


@pytest.mark.parametrize(
    ("bound", "least"),
    [
        ([], {"worker": 2, "master": 1}),
        (["worker-2"], {"worker": 1, "master": 1}),
        (["worker-0", "worker-1", "worker-2"], {"master": 1}),
        (["master-0"], {"worker": 2}),
    ],
)
def test_as_few_as_are_needed_to_start(bound: list[str], least: dict[str, int]) -> None:
    pods = [replace(pod, node="a-0" if pod.uid in bound else None) for pod in (*WORKERS, MASTER)]
    sight = look(pods, {KEY: GROUP})
    assert Counter(map(role_of, sight.least)) == least
    assert not {pod.uid for pod in sight.least} & set(bound)


def test_others_fill_up_what_the_minima_leave_of_min_member() -> None:
    sight = look([*WORKERS, MASTER], {KEY: replace(GROUP, min_member=4)})
    assert Counter(map(role_of, sight.least)) == {"worker": 3, "master": 1}


def test_those_of_the_first_ranks_are_the_least_in_whatever_order_they_came() -> None:
    pods = [MASTER, *WORKERS]
    for came in (pods, [*reversed(pods)]):
        assert {pod.uid for pod in look(came, {KEY: GROUP}).least} == {"master-0", "worker-0", "worker-1"}
        four = look(came, {KEY: replace(GROUP, min_member=4)})
        assert {pod.uid for pod in four.least} == {"master-0", "worker-0", "worker-1", "worker-2"}


@pytest.mark.parametrize(("nodes", "late"), [("a: 2x8", False), ("a: 3x8", True)])
def test_a_gang_is_late_when_there_is_room_for_the_least_of_each_role(nodes: str, *, late: bool) -> None:
    life = Life(*cluster(nodes))
    life.shown.groups[KEY] = GROUP
    life.see(WORKERS, MASTER)
    life.now += 10
    assert life.late() is late
    if late:
        life = Life(*cluster(nodes))
        life.shown.groups[KEY] = GROUP
        life.see(WORKERS)
        life.now += 10
        assert not life.late(), "a role has no member"


def test_nobody_can_know_that_a_gang_was_whole_whose_role_is_short_by_now() -> None:
    stamp = Stamp("g", "r", complete=False, quorum=3, size=4)
    life = Life()
    life.shown.groups[KEY] = GROUP
    life.see(*(replace(pod, node="a-0", stamp=stamp) for pod in WORKERS))
    assert not could_know("worker-0", life.shown, life.claims)
    life.see(replace(MASTER, node="a-0", stamp=stamp))
    assert could_know("worker-0", life.shown, life.claims)


def test_seeds_with_roles_have_gangs_that_start_with_less_than_all_and_with_more_than_their_minima() -> None:
    jobs = [job for seed in range(1, 2000) if has_roles(seed) for _, job in draw(seed).jobs if job.minima]
    totals = [(sum(least for _, least in job.minima), job) for job in jobs]
    assert len(jobs) > 100
    assert all(job.dialect is Dialect.VOLCANO and total <= job.min_member for total, job in totals)
    assert any(total < job.min_member < job.size for total, job in totals)
    assert any(len(job.minima) < len(job.roles) for job in jobs)
    assert any(len({role.requests for role in job.roles}) == 2 for job in jobs)
    assert {job.dialect for seed in range(1, 13) for _, job in draw(seed).jobs} == {
        Dialect.ANNOTATION,
        Dialect.COSCHEDULING,
    }
