"""In a ClusterQueue with ageing a workload rises in the queue as it waits, and may evict no more than before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.causes import Rises
from extender.core.events import PodsSeen
from extender.core.explain.reasons import reason_of
from extender.simulation.chance import Chance
from policies.model import Pod
from policies.model.queues import Evicts, Preemption, Quota, Strategy
from tests.builders import cluster, key
from tests.core.preempting import Cluster
from tests.core.queues import cluster_queue, flavor, in_queue, show
from tests.core.script import Script

DAY_S = 86_400.0
NOW = 100 * DAY_S


def waiting(name: str, days: float, priority: int, queue: str = "team") -> list[Pod]:
    return in_queue(name, 1, queue, created=NOW - days * DAY_S, priority=priority)


def first(ageing: int, *gangs: list[Pod], strategy: Strategy = Strategy.BEST_EFFORT) -> str:
    """The names of the gangs: first the one that gets the only node, then the others in the order of the queue."""
    script = Script(*cluster("a: 1x8"))
    team = cluster_queue("team", {"gpus": 8}, ageing=ageing, strategy=strategy)
    show(script, flavor("gpus"), team)
    script.feed(PodsSeen(tuple(pod for pods in gangs for pod in pods)))
    script.advance(1)
    started = [workload.key.name for workload in script.core.state.workloads.values() if workload.placement]
    report = script.core.queue_reports(script.now)["ClusterQueue", "", "team"]
    return " ".join([*started, *(entry.name for entry in report.pending)])


@pytest.mark.parametrize("strategy", Strategy)
def test_what_has_waited_for_long_passes_a_higher_priority(strategy: Strategy) -> None:
    gangs = waiting("old", 3, 0), waiting("high", 0, 200), waiting("higher", 0, 400)
    assert first(0, *gangs, strategy=strategy) == "higher high old"
    assert first(100, *gangs, strategy=strategy) == "higher old high"
    assert first(200, *gangs, strategy=strategy) == "old higher high"


@pytest.mark.parametrize("seed", range(5))
def test_the_order_is_that_of_priority_and_age_together_at_any_time(seed: int) -> None:
    dice = Chance(seed).stream("ages")
    drawn = {f"g{at}": (dice.randrange(30), dice.choice((0, 50, 100, 900))) for at in range(12)}
    order = first(50, *(waiting(name, *of) for name, of in drawn.items())).split()
    for later in (0, 1, 1000):
        points = {name: priority + 50 * (days + later) for name, (days, priority) in drawn.items()}
        assert order == sorted(drawn, key=lambda name: (-points[name], -drawn[name][0], name))


def test_among_equals_the_older_one_is_first_as_ever() -> None:
    gangs = waiting("young", 1, 5), waiting("old", 2, 5)
    assert first(0, *gangs) == first(7, *gangs) == "old young"


def test_the_reason_says_by_how_much_and_why() -> None:
    script = Script(*cluster("a: 1x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 8}, ageing=100))
    script.feed(PodsSeen((*waiting("first", 9, 0), *waiting("late", 3, 0))))
    script.advance(1)
    cause = script.core.state.workloads[key("late")].reason_state.cause
    assert Rises("ClusterQueue team", 100, NOW - 3 * DAY_S) in getattr(cause, "beside", ())
    assert (
        "its age counts in ClusterQueue team: 100 of priority a day since 1970-04-08 00:00 UTC"
        in reason_of(cause).message
    )


def test_another_queue_sees_its_priority_alone() -> None:
    """Both queues lend from the same 8: between them the priority counts, and not the age."""
    script = Script(*cluster("a: 1x8"))
    shared: dict[str, int | Quota] = {"gpus": 4}
    show(
        script,
        flavor("gpus"),
        cluster_queue("team", shared, cohort="all", ageing=1000),
        cluster_queue("other", shared, cohort="all"),
    )
    script.feed(PodsSeen((*waiting("old", 30, 0), *waiting("high", 0, 1, "other"))))
    script.advance(1)
    assert [workload.key.name for workload in script.core.state.workloads.values() if workload.placement] == ["high"]


def test_nobody_is_evicted_for_its_age() -> None:
    script = Cluster(*cluster("a: 1x8"))
    rules = Preemption(within=Evicts.LOWER)
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 8}, ageing=1000, preemption=rules))
    runs = [replace(pod, priority=5) for pod in in_queue("runs", 1)]
    script.see(runs)
    script.run(runs)
    script.see(waiting("old", 30, 0))
    script.advance(60)
    assert not script.evicted
