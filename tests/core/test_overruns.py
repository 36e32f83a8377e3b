"""Workloads that run longer than expected where room is reserved end only if their authors and the settings say so."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from extender.core.limits import Limits
from policies.model import EvictionTerms, Pod, RunTerms
from tests.builders import cluster, gang
from tests.core.backfilling import AFTER_S, Backlog
from tests.core.jobs import Controlled, job

GRACE_S = 100.0
ENDS = EvictionTerms(when_overrun=True)


def overrunning(terms: EvictionTerms, grace_s: float = GRACE_S) -> tuple[Backlog, list[Pod]]:
    """A gang that says it runs for 1,000 s, runs on, and is waited for: 50 s before the time that it has."""
    script = Backlog(*cluster("a: 2x8"), limits=Limits(reserve_after_s=AFTER_S, overrun_s=grace_s))
    pods = [replace(pod, run=RunTerms(1000), eviction=terms) for pod in gang("first", 2, created=script.now)]
    script.see(pods)
    script.run(pods)
    script.wait("big", 2, 500)
    script.advance(1000 + GRACE_S - 50)
    assert script.reservation("big") is not None
    assert not script.evicted
    return script, pods


def test_a_gang_whose_author_wants_that_is_evicted_after_the_grace() -> None:
    script, pods = overrunning(ENDS)
    script.advance(60)
    assert sorted(script.evicted) == [pod.name for pod in pods]
    for pod in pods:
        script.change(script.pods[pod.uid], deleting=True)
    script.gone(*(script.pods[pod.uid] for pod in pods))
    assert all(script.planned(pod) for pod in script.pods.values() if pod.name.startswith("big"))


@pytest.mark.parametrize(
    ("terms", "grace_s"), [(EvictionTerms(), GRACE_S), (EvictionTerms(when_overrun=False), GRACE_S), (ENDS, inf)]
)
def test_others_run_on(terms: EvictionTerms, grace_s: float) -> None:
    script, _ = overrunning(terms, grace_s)
    script.advance(5000)
    assert not script.evicted


def test_a_gang_runs_on_for_a_lower_priority_from_which_it_would_take_the_room_back() -> None:
    """Seed 603000411: it was ended and started again without end."""
    script = Backlog(*cluster("a: 2x8"), limits=Limits(reserve_after_s=AFTER_S, overrun_s=GRACE_S))
    pods = gang("first", 2, created=script.now, priority=10)
    pods = [replace(pod, run=RunTerms(1000), eviction=ENDS) for pod in pods]
    script.see(pods)
    script.run(pods)
    script.wait("big", 2, 500)
    script.advance(2000)
    assert script.reservation("big") is not None
    assert not script.evicted


def test_a_gang_runs_on_until_its_room_is_reserved_for_another_one() -> None:
    limits = Limits(reserve_after_s=AFTER_S, overrun_s=GRACE_S)
    script = Backlog(*cluster("a: 2x8"), limits=limits)
    pods = [replace(pod, run=RunTerms(1000), eviction=ENDS) for pod in gang("first", 2, created=script.now)]
    script.see(pods)
    script.run(pods)
    script.advance(5000)
    assert not script.evicted
    script.wait("big", 2, 500)
    script.advance(AFTER_S + 70)
    assert len(script.evicted) == 2


def test_a_job_is_suspended_and_waits_again() -> None:
    limits = Limits(reserve_after_s=AFTER_S, overrun_s=GRACE_S)
    script = Backlog(*cluster("a: 2x8"), limits=limits)
    first = Controlled(script, replace(job(2), run=RunTerms(1000), eviction=ENDS))
    first.run()
    first.show(began=script.now)
    script.wait("big", 2, 500)
    first.wait(1000 + GRACE_S + 5)
    (why,) = first.stops
    assert why == "it has run longer than its author expected, and its room is reserved for default/big"
    assert not script.evicted
    first.delete()
    first.wait(2)
    assert all(script.planned(pod) for pod in script.pods.values() if pod.name.startswith("big"))
