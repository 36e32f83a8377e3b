"""Workloads in queues take back quota and room, by the rules of their ClusterQueue and under fair sharing.

Afterwards come restarts, dry runs, queues that are deleted, and jobs that run again.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from extender.core.effects import Evict, Milestone, Reached
from extender.core.events import BudgetGone, JobSeen, PodGone, QueueGone, QueueSeen, Tick
from extender.core.explain.reasons import reason_of
from extender.core.limits import Limits, Preempts
from extender.core.preemption import search as victim_search
from policies.model import Topology
from policies.model.queues import ClusterQueue, Cohort, Evicts, Preemption, Quota, ResourceGroup, Strategy
from policies.preemption.allowed import Why
from tests.builders import GPU, cluster, key, node, single
from tests.core.jobs import Controlled, job
from tests.core.levels import asking
from tests.core.preempting import ON
from tests.core.queues import (
    FAIR,
    FLAVOR,
    RECLAIMS,
    Queued,
    borrowers,
    cluster_queue,
    flavor,
    in_queue,
    lent,
    made_at,
    show,
    sort,
    used,
)
from tests.core.test_queued_jobs import started_by_others


def test_lent_quota_is_taken_back_from_exactly_the_borrower() -> None:
    script = Queued(*cluster("a: 3x8"), things=lent())
    own = script.start("own", 1, "research", priority=5)
    borrower = script.start("borrower", 1, "research")
    script.advance(5)
    wants = script.come("wants", 2, "production")
    assert script.evicted == ["borrower-0"]
    assert script.reason("wants") == "Preempting"
    (reason_told,) = (effect.reason for effect in script.effects if isinstance(effect, Evict))
    assert reason_told == (
        "preempted by default/wants, whose ClusterQueue production needs what research has borrowed in cohort all "
        "(reclaimWithinCohort: Any)"
    )
    assert [effect.rules for effect in script.effects if isinstance(effect, Reached) and effect.rules] == [
        (Why.RECLAIM,)
    ]
    script.leave(*borrower)
    assert all(map(script.planned, wants))
    script.run(wants)
    assert len(script.bound(wants)) == 2
    assert script.pods[own[0].uid].node
    assert (used(script, "research"), used(script, "production")) == (8, 16)


def test_nobody_goes_where_the_rules_of_the_queue_say_never() -> None:
    script = Queued(*cluster("a: 3x8"), things=lent(production=16, rules=Preemption()))
    script.start("borrower", 2, "research")
    script.come("wants", 2, "production", priority=100)
    script.advance(60)
    assert not script.evicted
    assert script.reason("wants") == "NoQuota"


def test_nobody_goes_who_uses_no_more_than_its_own() -> None:
    script = Queued(*cluster("a: 4x8"), things=lent(research=16))
    script.start("own", 2, "research")
    script.start("half", 1, "production")
    script.come("wants", 2, "production", priority=100)
    script.advance(60)
    assert not script.evicted


@pytest.mark.parametrize(("least", "size", "evicted"), [(3, 4, []), (2, 4, ["one-0"]), (3, 3, ["one-0", "two-0"])])
def test_nobody_goes_for_the_room_of_half_a_slice(least: int, size: int, evicted: list[str]) -> None:
    """A minimum of 3 begins two slices of 2, and a plan cuts none of them: the clique of two has room for one more."""
    things = flavor("gpus"), cluster_queue("team", {"gpus": 8}, preemption=Preemption(within=Evicts.LOWER))
    script = Queued(*cluster("a: 1x2", "b: 1x2"), single("high", node="b-0", priority=100), things=things)
    script.start("one", 1, "team", gpus=2)
    script.start("two", 1, "team", gpus=1)
    pods = in_queue("new", size, gpus=1, min_member=least, priority=10)
    script.see(asking(pods, Topology(slice_size=2, slice_level="clique")))
    script.advance(2)
    assert script.evicted == evicted
    script.leave(*(script.pods[f"uid-{name}"] for name in evicted))
    assert (script.reason("new") == "Placed") == bool(evicted)


def test_in_its_own_queue_the_lower_priority_goes() -> None:
    things = flavor("gpus"), cluster_queue("team", {"gpus": 16}, preemption=Preemption(within=Evicts.LOWER))
    script = Queued(*cluster("a: 4x8"), things=things)
    script.start("same", 1, "team", priority=10)
    low = script.start("low", 1, "team")
    wants = script.come("wants", 1, "team", priority=10)
    assert script.evicted == ["low-0"], "there are nodes, and no quota"
    script.leave(*low)
    assert script.planned(wants[0])


def test_one_that_lacks_nodes_alone_starts_when_its_victims_have_gone() -> None:
    """The room that the victims leave is kept for it, and is no news for other workloads."""
    things = flavor("gpus"), cluster_queue("team", {"gpus": 64}, preemption=Preemption(within=Evicts.LOWER))
    script = Queued(*cluster("a: 2x8"), things=things)
    low = script.start("low", 2, "team")
    wants = script.come("wants", 2, "team", priority=10)
    assert sorted(script.evicted) == ["low-0", "low-1"]
    script.leave(*low)
    assert sorted(map(script.planned, wants)) == ["a-0", "a-1"]
    assert script.milestones(Milestone.UNRESERVED) == 0


def test_nobody_holds_up_in_a_strict_queue_whom_others_give_way_to() -> None:
    """The preemptor has had its turn: a later workload of a higher priority that lacks room does not delay it."""
    strict = cluster_queue("team", {"gpus": 64}, strategy=Strategy.STRICT, preemption=RECLAIMS)
    script = Queued(*cluster("a: 2x8"), things=(flavor("gpus"), strict))
    script.start("stays", 1, "team", priority=90)
    victim = single("one", node="a-1", priority=0, gpus=8)
    script.see([victim])
    wants = script.come("wants", 1, "team", priority=10)
    assert script.evicted == ["one"]
    script.come("large", 4, "team", priority=50)
    assert (script.reason("wants"), script.reason("large")) == ("Preempting", "NoRoom")
    behind = script.come("behind", 1, "team", priority=5)
    script.leave(victim)
    assert all(map(script.planned, wants))
    assert not any(map(script.planned, behind))
    assert script.reason("behind") == "QueueOrder"


def test_quota_that_comes_free_is_for_nobody_else() -> None:
    """Another queue of the cohort would borrow it, on nodes that are free."""
    things = (*lent(), cluster_queue("other", {"gpus": 0}, cohort="all"))
    script = Queued(*cluster("a: 6x8"), things=things)
    first = script.start("first", 1, "research", priority=3)
    second = script.start("second", 2, "research")
    wants = script.come("wants", 2, "production")
    other = script.come("other", 1, "other", priority=50)
    assert sorted(script.evicted) == ["second-0", "second-1"]
    script.leave(second[0])
    assert not script.planned(other[0])
    assert used(script, "production") == 8, "what has been given back is kept"
    script.leave(second[1])
    assert all(map(script.planned, wants))
    assert not script.planned(other[0])
    assert script.pods[first[0].uid].node


def test_a_second_preemptor_counts_on_what_the_first_one_is_about_to_use() -> None:
    """The room of the first victim is not there for the second preemptor, which needs a victim of its own."""
    script = Queued(*cluster("a: 4x8"), things=lent(research=0, production=32))
    for name in ("one", "two", "three", "four"):
        script.start(name, 1, "research")
    script.come("first", 1, "production")
    script.come("second", 2, "production")
    assert len(script.evicted) == 3
    assert len({*script.evicted}) == 3
    assert script.milestones(Milestone.PREEMPTING) == 2


def test_a_queue_that_may_evict_from_now_on_does() -> None:
    """Passes skip a workload that lacks quota alone, but look at it again for this change."""
    script = Queued(*cluster("a: 3x8"), things=lent(production=24, rules=Preemption()))
    script.start("borrower", 2, "research")
    script.come("wants", 2, "production")
    script.advance(60)
    show(script, cluster_queue("production", {"gpus": 24}, cohort="all", preemption=RECLAIMS))
    script.advance(5)
    assert len(script.evicted) == 2


def test_who_waits_for_quota_evicts_a_borrower_that_comes_later() -> None:
    script = Queued(*cluster("a: 4x8"), things=lent(research=16, production=16))
    own = script.start("own", 2, "research")
    script.start("half", 1, "production", priority=1)
    script.come("wants", 2, "production")
    assert script.reason("wants") == "NoQuota", "half a node of its own is left, and nobody borrows"
    script.leave(*own)
    assert not script.evicted


def test_the_next_flavor_is_searched_where_the_first_one_cannot_be_had() -> None:
    """The nodes of the first flavor are held by a workload that may not be evicted."""
    nodes = [node(f"{name}-{at}", gpus=8, labels={FLAVOR: name}) for name in ("fast", "slow") for at in range(2)]
    rules = Preemption(within=Evicts.LOWER)
    things = sort("fast"), sort("slow"), cluster_queue("team", {"fast": 16, "slow": 16}, preemption=rules)
    script = Queued(*nodes, things=things)
    script.start("high", 2, "team", priority=20)
    low = script.start("low", 2, "team")
    assert {script.pods[pod.uid].node for pod in low} == {"slow-0", "slow-1"}
    wants = script.come("wants", 2, "team", priority=10)
    assert sorted(script.evicted) == ["low-0", "low-1"]
    script.leave(*low)
    assert sorted(map(script.planned, wants)) == ["slow-0", "slow-1"]


def test_pods_of_no_gang_go_by_priority_for_a_workload_of_a_queue() -> None:
    script = Queued(*cluster("a: 1x8"), single("dev", gpus=8, node="a-0"), things=lent())
    wants = script.come("wants", 1, "production", priority=10)
    assert script.evicted == ["dev"]
    script.leave(script.pods["uid-dev"])
    assert script.planned(wants[0])


def test_no_search_is_made_for_one_that_would_borrow_while_nobody_in_its_queue_may_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Hundreds may run and wait: a search costs tens of milliseconds, after each change."""
    rules = Preemption(within=Evicts.LOWER, reclaim=Evicts.ANY)
    script = Queued(*cluster("a: 3x8"), things=lent(rules=rules))
    script.start("borrower", 1, "research")
    script.start("own", 2, "production", priority=10)
    with monkeypatch.context() as context:
        context.delattr(victim_search, "searching")
        script.come("more", 1, "production", priority=10)
        script.advance(60)
    message = script.message("more")
    assert message.endswith(
        "nothing may be evicted: queue production would use more than its own, and nothing in it may go"
    )
    script.come("urgent", 1, "production", priority=20)
    assert script.evicted == ["own-0", "own-1"], "then somebody may, and all of it goes"


def test_who_takes_quota_back_evicts_the_surplus_of_the_borrower_and_its_gang_runs_on() -> None:
    script = Queued(*cluster("a: 4x8"), things=lent(research=8, production=24))
    pods = in_queue("borrower", 4, "research", min_member=2)
    script.see(pods)
    script.advance(0.5)
    script.run(pods)
    assert used(script, "research") == 32
    owner = script.come("owner", 2, "production")
    assert sorted(script.evicted) == ["borrower-2", "borrower-3"]
    (why,) = {effect.reason for effect in script.effects if isinstance(effect, Evict)}
    assert "needs what research has borrowed in cohort all (reclaimWithinCohort: Any)" in why
    script.leave(*pods[2:])
    script.advance(0.5)
    assert all(map(script.planned, owner))
    assert (used(script, "research"), used(script, "production")) == (16, 16)
    assert script.core.state.workloads[key("borrower")].has_bound_quorum


def test_nobody_gets_quota_that_would_be_too_much_when_others_have_given_way() -> None:
    """Only 2 of 8 are left, and the preemptor is in the same cohort, which may not have more than its 6."""
    things = (
        flavor("gpus"),
        Cohort("all"),
        Cohort("theirs", "all"),
        Cohort("ours", "all", cluster_queue("", {"gpus": Quota(6, borrowing=0)}).groups),
        cluster_queue("lender", {"gpus": 2}, cohort="theirs"),
        cluster_queue("first", {"gpus": 0}, cohort="ours", preemption=RECLAIMS),
        cluster_queue("second", {"gpus": 0}, cohort="ours"),
    )
    script = Queued(*cluster("a: 2x8"), things=things)
    borrower = script.start("borrower", 1, "lender", gpus=4)
    wants = script.come("wants", 1, "first", gpus=6)
    assert script.evicted == ["borrower-0"]
    (why,) = {effect.reason for effect in script.effects if isinstance(effect, Evict)}
    paths = "ClusterQueue all/ours/first needs what all/theirs/lender has borrowed (reclaimWithinCohort: Any)"
    assert why == f"preempted by default/wants, whose {paths}"
    later = script.come("later", 1, "second", gpus=2)
    assert script.reason("later") == "NoQuota"
    assert not script.planned(later[0])
    why = reason_of(script.core.state.workloads[key("later")].reason_state.cause).message
    assert (
        why
        == "ClusterQueue second: the quota that is left is reserved for workloads for which others are being evicted"
    )
    script.leave(*borrower)
    assert script.planned(wants[0])
    script.run(wants)
    script.leave(*wants)
    assert script.planned(later[0])


def in_two_resources(name: str, cpu: int, gpus: int, cohort: str = "all") -> ClusterQueue:
    """``cpu`` in cores."""
    group = ResourceGroup((GPU, "cpu"), (("gpus", {GPU: Quota(gpus), "cpu": Quota(cpu * 1000)}),))
    return ClusterQueue(name, (group,), cohort, namespaces=(), preemption=RECLAIMS)


@pytest.mark.parametrize("fair", [False, True])
@pytest.mark.parametrize("cohorts", ["all all", "left right"])
@pytest.mark.parametrize(("own", "evicted"), [(0, ["low-cpu-0", "low-gpu-0"]), (6, [])])
def test_borrowers_of_what_quota_lacks_and_of_what_nodes_lack_give_way(
    own: int, evicted: list[str], cohorts: str, *, fair: bool
) -> None:
    """Quota is short of GPUs, and the node is short of cores, which only their borrowers have to give back."""
    ours, theirs = cohorts.split()
    nested = [Cohort(name, "all") for name in (ours, theirs) if name != "all"]
    there = in_two_resources("a", own, 0, theirs), in_two_resources("b", 16, 8, ours)
    limits = replace(ON, fair_sharing=fair)
    script = Queued(node("n", 8, cpu=8), things=(flavor("gpus"), *nested, *there), limits=limits)
    for name, gpus, cpu in (("low-cpu", 0, 6), ("low-gpu", 8, 0)):
        pods = in_queue(name, 1, "a", gpus=gpus, cpu=cpu)
        script.see(pods)
        script.advance(0.5)
        script.run(pods)
    wants = in_queue("wants", 1, "b", gpus=8, cpu=4)
    script.see(wants)
    script.advance(5)
    assert sorted(script.evicted) == evicted
    script.leave(*(script.pods[f"uid-{name}"] for name in evicted))
    assert bool(script.planned(wants[0])) == bool(evicted)


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
    """The quota that is assumed for it then may be less than the real one."""
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
    """The newer of two jobs of the same priority waits, however new the pods of the older one are."""
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


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("how", ["late", "made anew"])
def test_no_quota_is_kept_for_a_preemptor_when_that_ends_while_it_is_being_planned(how: str, steps: int) -> None:
    """The preemptor's plan includes the reserved quota, which counts as used even when events come in between."""
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
    kept = used(script, "production")
    for _ in range(steps):
        script.now = max(script.now, script.core.next_wake() or script.now)
        script.feed(Tick())
        assert used(script, "production") == kept > 0
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


def test_with_fair_sharing_the_larger_share_gives_way() -> None:
    things = (
        flavor("gpus"),
        cluster_queue("one", {"gpus": 0}, cohort="all", preemption=RECLAIMS),
        cluster_queue("two", {"gpus": 0}, cohort="all", preemption=RECLAIMS),
        cluster_queue("idle", {"gpus": 32}, cohort="all"),
    )
    script = Queued(*cluster("a: 4x8"), things=things, limits=replace(ON, fair_sharing=True))
    for name in ("a", "b", "c", "d"):
        script.start(name, 1, "one")
    script.come("first", 1, "two")
    assert len(script.evicted) == 1
    script.leave(script.pods[f"uid-{script.evicted[0]}"])
    script.run([script.pods["uid-first-0"]])
    script.come("second", 1, "two")
    assert len(script.evicted) == 2
    script.leave(script.pods[f"uid-{script.evicted[1]}"])
    script.run([script.pods["uid-second-0"]])
    script.come("third", 1, "two")
    script.advance(30)
    assert len(script.evicted) == 2, "the shares are equal now"


def test_a_queue_that_would_use_as_much_of_its_own_as_the_other_evicts_nobody_of_it() -> None:
    """The queue would have borrowed 16, the other one has borrowed 24; relative to their own: 3 and 2.5 times."""
    for saturation, evicted in ((None, 1), (Fraction(1), 0)):
        script = borrowers(replace(FAIR, saturation=saturation))
        script.come("more", 1, "two")
        script.advance(5)
        assert len(set(script.evicted)) == evicted


def test_with_fair_sharing_no_victims_are_searched_for_where_no_other_share_is_as_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = borrowers(FAIR)
    with monkeypatch.context() as context:
        context.delattr(victim_search, "searching")
        script.come("more", 1, "one")
        script.advance(60)
    why = "no other queue borrows with so large a share, and nothing in queue one may go"
    assert script.message("more").endswith(f"nothing may be evicted: {why}")
    script.come("owed", 1, "two")
    assert len(script.evicted) == 1, "its share would be the smaller one"


def test_those_of_queues_that_shares_spare_are_no_candidates() -> None:
    """The queue would borrow 24, as the other one does.

    Its rules protect its own queue, and the lender borrows nothing.
    """
    script = borrowers(FAIR)
    script.come("more", 2, "two")
    assert script.message("more").endswith("of the 5 candidates that may be evicted for it, not enough may go together")


def test_saturation_keeps_nobody_from_what_is_its_own() -> None:
    script = borrowers(replace(FAIR, saturation=Fraction(2)))
    script.come("own", 1, "lender")
    script.advance(5)
    assert len(set(script.evicted)) == 1
