"""PodDisruptionBudgets: a whole workload is evicted only if all of its pods may be, and nothing is evicted in part."""

from __future__ import annotations

from dataclasses import replace

from extender.core.effects import Milestone
from extender.core.events import BudgetGone, BudgetSeen
from policies.model import DisruptionBudget, Pod, Requirement
from tests.builders import cluster, gang, single
from tests.core.jobs import Controlled, job
from tests.core.preempting import Cluster, running
from tests.core.script import Script
from tests.core.test_preview import outlook

WEB = (("app", "web"),)


def let(script: Script, allowed: int, name: str = "web") -> None:
    """Set how many pods with that label their budget lets be evicted now."""
    script.feed(BudgetSeen(DisruptionBudget("default", name, (Requirement("app", "In", ("web",)),), allowed)))
    script.advance(2)


def guarded(size: int, allowed: int) -> tuple[Cluster, list[Pod]]:
    """A gang with a budget has the cluster."""
    script = Cluster(*cluster(f"a: {size}x8"))
    low = [replace(pod, labels=WEB) for pod in gang("low", size)]
    script.see(low)
    script.run(low)
    let(script, allowed)
    return script, low


def test_a_gang_goes_only_if_its_budget_lets_all_of_it_go() -> None:
    script, low = guarded(2, allowed=1)
    high = gang("high", 2, priority=10)
    script.see(high)
    script.advance(60)
    assert not script.evicted
    assert script.reason("high") == "NoRoom"
    kept = "1 candidate may not: PodDisruptionBudget default/web does not let all of its pods go"
    assert kept in script.message("high")
    let(script, 2)
    assert sorted(script.evicted) == ["low-0", "low-1"], "it is looked at again as soon as more may go"
    script.leave(*low)
    assert all(map(script.planned, high))


def test_a_budget_that_is_gone_forbids_nothing() -> None:
    script, _ = guarded(1, allowed=0)
    script.see(gang("high", 1, priority=10))
    assert not script.evicted
    script.feed(BudgetGone("default", "web"))
    script.advance(2)
    assert script.evicted == ["low-0"]


def test_several_victims_share_one_budget() -> None:
    script = Cluster(*cluster("a: 3x8"), *(single(f"dev{n}", gpus=8, node=f"a-{n}", labels=WEB) for n in range(3)))
    let(script, 2)
    script.see(gang("large", 3, priority=10))
    script.advance(60)
    assert not script.evicted
    assert "not enough may go together" in script.message("large")
    script.see(gang("small", 2, priority=10))
    assert len(script.evicted) == 2


def test_those_who_give_way_already_count_until_they_go() -> None:
    script = Cluster(*cluster("a: 2x8"), *(single(f"dev{n}", gpus=8, node=f"a-{n}", labels=WEB) for n in range(2)))
    let(script, 1)
    script.see(gang("one", 1, priority=10), gang("two", 1, priority=10))
    script.advance(30)
    assert len(set(script.evicted)) == 1
    assert sorted((script.reason("one"), script.reason("two"))) == ["NoRoom", "Preempting"]


def test_a_budget_that_shrinks_before_anybody_is_told_leaves_all_of_them_there() -> None:
    script, _ = guarded(2, allowed=2)
    script.writes = False
    script.see(gang("high", 2, priority=10))
    let(script, 1)
    script.write(script.written[-1])
    assert not script.evicted
    assert script.milestones(Milestone.UNRESERVED) == 1
    assert "before any pod was evicted: PodDisruptionBudget default/web does not" in script.message("high")


def test_a_pod_in_several_budgets_is_never_evicted() -> None:
    script, _ = guarded(1, allowed=1)
    let(script, 1, name="other")
    script.see(gang("high", 1, priority=10))
    script.advance(30)
    assert not script.evicted
    assert "has a pod in several PodDisruptionBudgets: default/web, default/other" in outlook(script, "high").text


def test_other_pods_and_other_namespaces_are_not_counted() -> None:
    script = Cluster(*cluster("a: 1x8"))
    running(script, "low", 1)
    let(script, 0)
    script.feed(BudgetSeen(DisruptionBudget("elsewhere", "all", (), 0)))
    script.see(gang("high", 1, priority=10))
    assert script.evicted == ["low-0"]


def test_a_job_is_suspended_whatever_its_budget_says() -> None:
    script = Cluster(*cluster("a: 1x8"))
    low = Controlled(script, job(1, name="low"))
    low.run()
    script.feed(BudgetSeen(DisruptionBudget("default", "all", (), 0)))
    script.see(gang("high", 1, priority=10))
    low.settle()
    assert len(low.stops) == 1


def test_no_gang_gives_way_to_a_pod_against_its_budget() -> None:
    script, _ = guarded(1, allowed=0)
    urgent = single("urgent", gpus=8, priority=10)
    script.see(urgent)
    script.preempt(urgent, {"a-0": ("uid-low-0",)})
    assert not script.evicted
    let(script, 1)
    assert script.evicted == ["low-0"]


def test_a_pod_that_leaves_its_budget_by_its_labels_goes_then() -> None:
    script = Cluster(*cluster("a: 1x8"), single("dev", gpus=8, node="a-0", labels=WEB))
    let(script, 0)
    script.see(gang("high", 1, priority=10))
    script.advance(5)
    assert not script.evicted
    script.change(script.pods["uid-dev"], labels=())
    script.advance(5)
    assert script.evicted == ["dev"]


def test_a_budget_counts_the_surplus_of_a_gang_that_goes_once() -> None:
    script = Cluster(*cluster("a: 3x8"))
    low = gang("low", 3, min_member=2, labels=WEB)
    script.see(low)
    script.run(low)
    let(script, 3)
    script.see(gang("high", 3, priority=10))
    script.advance(5)
    assert sorted(script.evicted) == ["low-0", "low-1", "low-2"]
