"""The terms of a workload for its eviction: its minimum runtime, and the time of its last checkpoint."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.events import PodSeen
from extender.core.limits import Limits
from policies.model import EvictionTerms, Pod
from tests.builders import cluster, gang, single
from tests.core.jobs import Controlled, job
from tests.core.preempting import ON, Cluster
from tests.core.test_hints import hinted
from tests.core.test_preview import outlook


def started(script: Cluster, name: str, *terms: EvictionTerms) -> list[Pod]:
    """A gang that runs, whose members say that of their eviction."""
    pods = [replace(pod, eviction=own_terms) for pod, own_terms in zip(gang(name, len(terms)), terms, strict=True)]
    script.see(pods)
    script.run(pods)
    assert len(script.bound(pods)) == len(pods)
    return pods


def job_in_the_way(script: Cluster, terms: EvictionTerms) -> Controlled:
    """A job that runs and says that of its eviction, and a gang of a higher priority that lacks its room."""
    low = Controlled(script, replace(job(1, name="low"), eviction=terms))
    low.run()
    script.see(gang("high", 1, priority=10))
    return low


def test_a_workload_may_run_for_longer_than_the_settings_say_and_goes_then() -> None:
    script = Cluster(*cluster("a: 2x8"))
    started(script, "low", EvictionTerms(60), EvictionTerms())
    script.see(gang("high", 2, priority=10))
    script.advance(55)
    assert not script.evicted
    assert "has run for less than its minimum" in script.message("high")
    script.advance(10)
    assert len(script.evicted) == 2, "it is looked at again when that has passed"


def test_or_for_less() -> None:
    script = Cluster(*cluster("a: 1x8"), limits=replace(ON, min_runtime_s=600))
    started(script, "low", EvictionTerms(0))
    script.see(gang("high", 1, priority=10))
    assert script.evicted == ["low-0"]


def test_the_longest_that_a_member_says_counts_and_no_more_than_the_settings_let_it_say() -> None:
    script = Cluster(*cluster("a: 2x8"), limits=replace(ON, most_min_runtime_s=60))
    started(script, "low", EvictionTerms(10), EvictionTerms(1e9))
    script.see(gang("high", 2, priority=10))
    script.advance(50)
    assert not script.evicted
    script.advance(15)
    assert len(script.evicted) == 2


def test_a_job_says_it_for_its_pods() -> None:
    script = Cluster(*cluster("a: 1x8"))
    low = job_in_the_way(script, EvictionTerms(60))
    low.wait(30)
    assert not low.stops
    low.wait(60)
    assert len(low.stops) == 1


@pytest.mark.parametrize(("least", "otherwise"), [(0.0, 30.0), (60.0, 0.0)])
def test_a_gang_gives_way_to_a_pod_of_no_gang_when_it_has_run_for_so_long(least: float, otherwise: float) -> None:
    script = Cluster(*cluster("a: 1x8"), limits=Limits(preemption_s=60.0, min_runtime_s=otherwise))
    (low,) = started(script, "low", EvictionTerms(least))
    urgent = single("urgent", gpus=8, priority=10)
    script.see(urgent)
    script.preempt(urgent, {"a-0": (low.uid,)})
    assert bool(script.evicted) is (least == 0)
    script.advance(65)
    assert script.evicted


def test_a_pod_of_no_gang_says_it_for_itself() -> None:
    script = Cluster(*cluster("a: 1x8"), single("dev", gpus=8, node="a-0", created=1000.0, eviction=EvictionTerms(60)))
    script.see(gang("high", 1, priority=10))
    assert not script.evicted
    script.advance(65)
    assert script.evicted == ["dev"]


def test_who_has_just_saved_its_work_loses_less_and_goes_first() -> None:
    script = Cluster(*cluster("a: 2x8"))
    saved = started(script, "saved", EvictionTerms())
    script.advance(3600)
    started(script, "young", EvictionTerms())
    script.advance(3600)
    script.change(saved[0], eviction=EvictionTerms(checkpointed=script.now - 60))
    script.see(gang("high", 1, priority=10))
    assert script.evicted == ["saved-0"], "it has run for longer, and loses a minute"


def test_what_is_lost_is_counted_from_the_checkpoint_of_the_job() -> None:
    script = Cluster(*cluster("a: 1x8"), limits=Limits())
    low = Controlled(script, job(1, name="low"))
    low.run()
    script.advance(7200)
    script.see(gang("high", 1, priority=10))
    assert "16.0 device-hours" in outlook(script, "high").text
    low.show(eviction=EvictionTerms(checkpointed=script.now - 1800))
    assert "4.0 device-hours" in outlook(script, "high").text


def test_a_bad_value_that_is_written_while_it_runs_is_told() -> None:
    script = Cluster(*cluster("a: 1x8"))
    (low,) = started(script, "low", EvictionTerms())
    script.feed(PodSeen(replace(script.pods[low.uid], hint="muster.dev/checkpointed-at is 'noon'")))
    assert hinted(script) == ["low-0"]


def test_who_says_later_that_it_need_not_run_so_long_goes_then() -> None:
    script = Cluster(*cluster("a: 1x8"), single("dev", gpus=8, node="a-0", created=1000.0, eviction=EvictionTerms(600)))
    script.see(gang("high", 1, priority=10))
    script.advance(5)
    assert not script.evicted
    script.change(script.pods["uid-dev"], eviction=EvictionTerms())
    script.advance(5)
    assert script.evicted == ["dev"]


def test_so_does_a_job() -> None:
    script = Cluster(*cluster("a: 1x8"))
    low = job_in_the_way(script, EvictionTerms(600))
    low.wait(5)
    assert not low.stops
    low.show(eviction=EvictionTerms())
    low.wait(5)
    assert len(low.stops) == 1
