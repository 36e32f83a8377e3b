"""Workloads in queues take back quota and room, by the rules of their ClusterQueue."""

from __future__ import annotations

from dataclasses import replace

from extender.core.effects import Evict
from extender.core.events import QueueGone
from extender.core.limits import Limits, Preempts
from extender.core.turns import Turn
from policies.model import Job, Node, Pod
from policies.model.queues import Evicts, Preemption, QueueObject
from tests.builders import cluster, node, single
from tests.core.jobs import Controlled, job
from tests.core.queues import FLAVOR, cluster_queue, flavor, show, sort, used
from tests.core.test_preemption import ON, Cluster
from tests.core.test_queues import in_queue

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
