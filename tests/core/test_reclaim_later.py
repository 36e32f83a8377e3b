"""What becomes of reclaiming afterwards: restarts, dry runs, queues that are deleted, and jobs that run again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.effects import Evict
from extender.core.events import BudgetGone, JobSeen, PodGone, QueueGone, QueueSeen, Tick
from extender.core.limits import Limits, Preempts
from policies.model.queues import Evicts, Preemption
from tests.builders import cluster, single
from tests.core.jobs import Controlled, job
from tests.core.lending import RECLAIMS, Queued, lent, made_at
from tests.core.preempting import ON
from tests.core.queues import cluster_queue, flavor, used
from tests.core.test_queued_jobs import started_by_others


def test_a_preemptor_that_is_deleted_keeps_no_quota() -> None:
    script = Queued(*cluster("a: 3x8"), things=lent(production=24))
    victim = script.start("victim", 2, "research")
    wants = script.come("wants", 3, "production")
    assert used(script, "production") == 8, "of 24, what its victim does not use"
    script.leave(victim[0])
    assert used(script, "production") == 16
    script.gone(*wants)
    assert used(script, "production") == 0
    assert not script.core.state.preemptions.under_way


def test_after_a_restart_it_goes_on_though_all_pods_of_its_victim_terminate() -> None:
    """No pod of the victim counts any more that would say which queue it is in."""
    script = Queued(*cluster("a: 3x8"), things=lent())
    script.start("own", 1, "research", priority=5)
    borrower = script.start("borrower", 1, "research", priority=5)
    script.advance(5)
    wants = script.come("wants", 2, "production")
    script.change(borrower[0], deleting=True)
    again = Queued(*cluster("a: 3x8"), *script.pods.values(), things=lent())
    again.advance(1)
    assert again.reason("wants") == "Preempting"
    assert (used(again, "research"), used(again, "production")) == (16, 8)
    again.gone(borrower[0])
    again.advance(1)
    assert all(map(again.planned, wants))


def test_nobody_gives_way_in_a_queue_that_contradicts_itself_until_that_is_corrected() -> None:
    """What is taken to be its quota then may be less than it has."""
    script = Queued(*cluster("a: 2x8"), things=lent())
    script.start("own", 1, "research")
    script.start("first", 1, "production")
    wrong = QueueSeen(cluster_queue("research", {"gpus": 0}, cohort="all"), ("its quota is negative",), unclear=True)
    script.feed(wrong)
    script.come("wants", 1, "production")
    assert script.evicted == []
    assert script.message("wants").endswith(
        "1 candidate may not: is in ClusterQueue research, which contradicts itself"
    )
    script.feed(replace(wrong, problems=(), unclear=False))
    script.advance(2)
    assert script.evicted == ["own-0"]


def test_a_job_gives_lent_quota_back_and_runs_again_later() -> None:
    script = Queued(*cluster("a: 2x8"), things=lent(research=0, production=8))
    low = Controlled(script, replace(job(1, name="low"), queue="research"))
    low.run()
    wants = script.come("wants", 1, "production")
    low.settle()
    assert len(low.stops) == 1
    assert "production needs what research has borrowed" in low.stops[0]
    low.delete()
    low.show(stopped=True)
    low.settle()
    assert script.planned(wants[0])
    script.run(wants)
    script.leave(*wants)
    low.settle()
    assert len(low.starts) == 2


def test_a_restart_goes_on_with_it_by_the_rules_of_the_queues() -> None:
    script = Queued(*cluster("a: 3x8"), things=lent(production=24))
    victim = script.start("victim", 2, "research", priority=100)
    wants = script.come("wants", 3, "production")
    assert sorted(script.evicted) == ["victim-0", "victim-1"]
    script.leave(victim[0])
    left = [script.pods[pod.uid] for pod in (victim[1], *wants)]
    again = Queued(*cluster("a: 3x8"), *left, things=lent(production=24))
    again.advance(1)
    assert again.evicted == ["victim-1"], "its priority is higher, and its queue borrows"
    assert used(again, "production") == 16
    again.leave(victim[1])
    assert all(map(again.planned, wants))


def test_after_a_restart_nobody_goes_whom_the_rules_do_not_give_up() -> None:
    script = Queued(*cluster("a: 4x8"), things=lent())
    victim = script.start("victim", 2, "research")
    wants = script.come("wants", 2, "production")
    left = [script.pods[pod.uid] for pod in (*victim, *wants)]
    again = Queued(*cluster("a: 4x8"), *left, things=lent(rules=Preemption()))
    again.advance(5)
    assert not again.evicted
    assert again.kept is None


def test_a_dry_run_says_who_would_give_quota_back() -> None:
    script = Queued(*cluster("a: 3x8"), things=lent(), limits=Limits(preemption=Preempts.DRY_RUN))
    script.start("borrower", 2, "research")
    script.come("wants", 2, "production")
    assert not script.evicted
    assert "dry run: on, it evicts 1 victim: default/borrower" in script.message("wants")


def test_a_queue_that_is_deleted_in_between_ends_it() -> None:
    script = Queued(*cluster("a: 3x8"), things=lent())
    victim = script.start("victim", 2, "research")
    script.come("wants", 2, "production")
    script.feed(QueueGone(cluster_queue("production", {"gpus": 16}, cohort="all", preemption=RECLAIMS)))
    script.advance(1)
    script.leave(*victim)
    script.advance(1)
    assert script.reason("wants") == "QueueMissing"
    assert not script.planned(script.pods["uid-wants-0"])


def test_a_job_that_runs_again_keeps_its_age_and_no_two_evict_each_other_in_turn() -> None:
    """Of two jobs of the same priority the newer one waits, however new the pods of the older one are."""
    rules = Preemption(within=Evicts.LOWER_OR_NEWER)
    script = Queued(*cluster("a: 1x8"), things=(flavor("gpus"), cluster_queue("team", {"gpus": 8}, preemption=rules)))
    newer = Controlled(script, made_at(job(1, name="newer"), 20.0))
    newer.run()
    script.advance(5)
    older = Controlled(script, made_at(job(1, name="older"), 10.0))
    newer.settle()
    assert len(newer.stops) == 1
    newer.delete()
    newer.show(stopped=True)
    older.settle()
    for pod in older.run():
        script.change(script.pods[pod.uid], created=script.now)
    script.see(*cluster("small: 1x1"))
    script.advance(60)
    older.settle()
    assert not older.stops


def test_a_job_that_somebody_else_started_has_its_quota_and_evicts_for_room_alone() -> None:
    started, pods = started_by_others(minimum=2)
    urgent = replace(started.podsets.podsets[0], template=replace(started.podsets.podsets[0].template, priority=10))
    started = replace(started, podsets=replace(started.podsets, podsets=(urgent,)))
    things = (flavor("gpus"), cluster_queue("team", {"gpus": 16}, preemption=Preemption(within=Evicts.LOWER)))
    script = Queued(*cluster("a: 2x8"), replace(single("low", gpus=8), node="a-1", phase="Running"), things=things)
    script.feed(JobSeen(started))
    script.see([replace(pod, priority=10) for pod in pods])
    script.advance(0.5)
    assert [effect.name for effect in script.effects if isinstance(effect, Evict)] == ["low"]


@pytest.mark.parametrize("how", ["late", "made anew"])
def test_no_quota_is_kept_for_a_preemptor_when_that_ends_while_it_is_being_planned(how: str) -> None:
    """What is kept for it is lifted then, and other events come between the steps."""
    limits = replace(ON, slice_units=1)
    script = Queued(*cluster("a: 3x8", "b: 1x1"), things=lent(research=9), limits=limits)
    script.start("own", 1, "research", priority=5)
    (small,) = script.start("small", 1, "research", gpus=1, priority=5)
    script.start("borrower", 1, "research")
    script.advance(5)
    wants = script.come("wants", 2, "production")
    assert (script.reason("wants"), used(script, "production")) == ("Preempting", 8)
    script.advance(50)
    script.feed(PodGone(script.pods.pop(small.uid).uid))
    while used(script, "production"):
        script.now = max(script.now, script.core.next_wake() or script.now)
        script.feed(Tick())
    assert script.core.passes[1]
    if how == "late":
        script.now += 30
        script.feed(BudgetGone("default", "another"))
    else:
        script.gone(*wants)
        script.see([replace(pod, uid=f"{pod.uid}-again", gates=("another/gate",)) for pod in wants])
    script.advance(5)
    assert not script.core.state.preemptions.under_way
    assert used(script, "production") == 0
