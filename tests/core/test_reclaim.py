"""Workloads in queues take back quota and room, by the rules of their ClusterQueue."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from extender.core import victim_search
from extender.core.effects import Evict
from extender.core.events import JobSeen, QueueGone
from extender.core.limits import Limits, Preempts
from extender.core.turns import Turn
from policies.model import Job, Node, Pod
from policies.model.queues import Cohort, Evicts, Preemption, QueueObject, Quota, Strategy
from tests.builders import cluster, key, node, single
from tests.core.jobs import Controlled, job
from tests.core.preempting import ON, Cluster
from tests.core.queues import FLAVOR, cluster_queue, flavor, in_queue, show, sort, used
from tests.core.test_queued_jobs import started_by_others

RECLAIMS = Preemption(reclaim=Evicts.ANY)


class Queued(Cluster):
    """``things``: the queue objects, which are there before anything is decided."""

    def __init__(self, *facts: Node | Pod, things: tuple[QueueObject, ...], limits: Limits = ON) -> None:
        self._things = things
        super().__init__(*facts, limits=limits)

    def feed_synced(self) -> None:
        show(self, *self._things)
        super().feed_synced()

    def start(self, name: str, size: int, queue: str, gpus: int = 8, priority: int = 0) -> list[Pod]:
        """A gang that is bound."""
        pods = in_queue(name, size, queue, gpus=gpus, priority=priority)
        self.see(pods)
        self.advance(0.5)
        self.run(pods)
        assert len(self.bound(pods)) == size
        return pods

    def come(self, name: str, size: int, queue: str, gpus: int = 8, priority: int = 0) -> list[Pod]:
        pods = in_queue(name, size, queue, gpus=gpus, priority=priority)
        self.see(pods)
        self.advance(0.5)
        return pods


def lent(research: int = 8, production: int = 16, rules: Preemption = RECLAIMS) -> tuple[QueueObject, ...]:
    """Two queues that lend each other; ``rules``: those of production."""
    return (
        flavor("gpus"),
        cluster_queue("research", {"gpus": research}, cohort="all"),
        cluster_queue("production", {"gpus": production}, cohort="all", preemption=rules),
    )


def test_lent_quota_is_taken_back_from_exactly_the_borrower() -> None:
    script = Queued(*cluster("a: 3x8"), things=lent())
    own = script.start("own", 1, "research", priority=5)
    borrower = script.start("borrower", 1, "research")
    script.advance(5)
    wants = script.come("wants", 2, "production")
    assert script.evicted == ["borrower-0"]
    assert script.reason("wants") == "Preempting"
    (told,) = (effect.reason for effect in script.effects if isinstance(effect, Evict))
    assert told == (
        "preempted by default/wants, whose ClusterQueue production needs what research has borrowed in cohort all "
        "(reclaimWithinCohort: Any)"
    )
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
    """What they give back is kept for it, and so is no news of room for anybody."""
    things = flavor("gpus"), cluster_queue("team", {"gpus": 64}, preemption=Preemption(within=Evicts.LOWER))
    script = Queued(*cluster("a: 2x8"), things=things)
    low = script.start("low", 2, "team")
    wants = script.come("wants", 2, "team", priority=10)
    assert sorted(script.evicted) == ["low-0", "low-1"]
    script.leave(*low)
    assert sorted(map(script.planned, wants)) == ["a-0", "a-1"]
    assert script.turns(Turn.UNRESERVED) == 0


def test_nobody_holds_up_in_a_strict_queue_whom_others_give_way_to() -> None:
    """It has had its turn: one of a higher priority, that comes later and lacks room, does not hold it up."""
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


def test_a_second_preemptor_counts_on_what_the_first_one_is_about_to_use() -> None:
    """What its victim gives back is not there for the second one, who needs a victim of its own."""
    script = Queued(*cluster("a: 4x8"), things=lent(research=0, production=32))
    for name in ("one", "two", "three", "four"):
        script.start(name, 1, "research")
    script.come("first", 1, "production")
    script.come("second", 2, "production")
    assert len(script.evicted) == 3
    assert len({*script.evicted}) == 3
    assert script.turns(Turn.PREEMPTING) == 2


def test_a_queue_that_may_evict_from_now_on_does() -> None:
    """Whoever lacks quota alone is left aside by passes, and is looked at again for this."""
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
    """The nodes of the first flavor are held by somebody who may not go."""
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


def test_pods_of_no_gang_go_by_priority_for_a_workload_of_a_queue() -> None:
    script = Queued(*cluster("a: 1x8"), single("dev", gpus=8, node="a-0"), things=lent())
    wants = script.come("wants", 1, "production", priority=10)
    assert script.evicted == ["dev"]
    script.leave(script.pods["uid-dev"])
    assert script.planned(wants[0])


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


def made_at(one: Job, created: float) -> Job:
    podsets = tuple(replace(some, template=replace(some.template, created=created)) for some in one.podsets.podsets)
    return replace(one, queue="team", podsets=replace(one.podsets, podsets=podsets))


def test_no_search_is_made_for_one_that_would_borrow_while_nobody_in_its_queue_may_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Hundreds may run and wait: a search costs tens of milliseconds, after each change."""
    rules = Preemption(within=Evicts.LOWER, reclaim=Evicts.ANY)
    script = Queued(*cluster("a: 3x8"), things=lent(rules=rules))
    script.start("borrower", 1, "research")
    script.start("own", 2, "production", priority=10)
    with monkeypatch.context() as context:
        context.delattr(victim_search, "search")
        script.come("more", 1, "production", priority=10)
        script.advance(60)
    said = script.message("more")
    assert said.endswith("nobody may be evicted: queue production would use more than its own, and nobody in it may go")
    script.come("urgent", 1, "production", priority=20)
    assert script.evicted == ["own-0", "own-1"], "then somebody may, and all of it goes"


FAIR = replace(ON, fair_sharing=True)


def borrowers(limits: Limits) -> Queued:
    """One queue has 16 and uses 40, another one has 8 and uses 16; both borrow from a third one, which has 32."""
    rules = Preemption(reclaim=Evicts.ANY)
    has = {"one": 16, "two": 8, "lender": 32}
    there = (cluster_queue(name, {"gpus": much}, cohort="all", preemption=rules) for name, much in has.items())
    script = Queued(*cluster("a: 7x8"), things=(flavor("gpus"), *there), limits=limits)
    for name, count in (("one", 5), ("two", 2)):
        for number in range(count):
            script.start(f"{name}-{number}", 1, name)
    script.advance(5)
    return script


def test_a_queue_that_would_use_as_much_of_its_own_as_the_other_evicts_nobody_of_it() -> None:
    """It would have borrowed 16 and the other one has borrowed 24; but that is 3 times its own beside 2.5 times."""
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
        context.delattr(victim_search, "search")
        script.come("more", 1, "one")
        script.advance(60)
    why = "no other queue borrows with so large a share, and nobody in queue one may go"
    assert script.message("more").endswith(f"nobody may be evicted: {why}")
    script.come("owed", 1, "two")
    assert len(script.evicted) == 1, "its share would be the smaller one"


def test_those_of_queues_that_shares_spare_are_no_candidates() -> None:
    """It would borrow 24, as the other one does; its own queue is spared by its rules; the lender borrows nothing."""
    script = borrowers(FAIR)
    script.come("more", 2, "two")
    assert script.message("more").endswith("of the 5 candidates that may be evicted for it, not enough may go together")


def test_saturation_keeps_nobody_from_what_is_its_own() -> None:
    script = borrowers(replace(FAIR, saturation=Fraction(2)))
    script.come("own", 1, "lender")
    script.advance(5)
    assert len(set(script.evicted)) == 1


def test_a_job_that_somebody_else_started_has_its_quota_and_evicts_for_room_alone() -> None:
    started, pods = started_by_others(minimum=2)
    things = (flavor("gpus"), cluster_queue("team", {"gpus": 16}, preemption=Preemption(within=Evicts.LOWER)))
    script = Queued(*cluster("a: 2x8"), replace(single("low", gpus=8), node="a-1", phase="Running"), things=things)
    script.feed(JobSeen(started))
    script.see([replace(pod, priority=10) for pod in pods])
    script.advance(0.5)
    assert [effect.name for effect in script.effects if isinstance(effect, Evict)] == ["low"]


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
    assert script.core.state.workloads[key("borrower")].whole


def test_nobody_gets_quota_that_would_be_too_much_when_others_have_given_way() -> None:
    """There are 2 of 8 left, and the preemptor is in the same cohort, which may not have more than its 6."""
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
    later = script.come("later", 1, "second", gpus=2)
    assert script.reason("later") == "NoQuota"
    assert not script.planned(later[0])
    why = script.core.state.workloads[key("later")].telling.reason.message
    assert why == "ClusterQueue second: what is left of it is kept for those to whom others give way"
    script.leave(*borrower)
    assert script.planned(wants[0])
    script.run(wants)
    script.leave(*wants)
    assert script.planned(later[0])
