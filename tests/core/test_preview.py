"""The likely victims of a waiting workload: reported before the preemption, without changing anything."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.effects import Milestone
from extender.core.explain.reasons import reason_of
from extender.core.limits import Limits, Preempts
from extender.core.preemption import reclaim
from extender.core.preemption.preview import Preview
from policies.model import Node, Pod
from policies.model.mentions import full
from policies.model.queues import Evicts, Preemption
from policies.steps import finish
from tests.builders import cluster, gang, node, single
from tests.core.preempting import ON, Cluster, running
from tests.core.queues import FLAVOR, Queued, cluster_queue, lent, sort, used
from tests.core.script import Script

OFF, DRY = Limits(), Limits(preemption=Preempts.DRY_RUN)
LOWER = Preemption(within=Evicts.LOWER)


def outlook(script: Script, name: str) -> Preview:
    """The preview for that waiting gang."""
    preview = finish(script.core.outlook(script.gang(name), script.now))
    assert preview is not None
    return Preview(full(preview.text), tuple((full(name), full(text)) for name, text in preview.victims))


def crowded(limits: Limits, *facts: Node | Pod, low: int = 0) -> Cluster:
    """A gang of two has all there is for an hour, and one of a higher priority waits."""
    script = Cluster(*cluster("a: 2x8"), *facts, limits=limits)
    running(script, "low", 2, priority=low)
    script.advance(3600)
    script.see(gang("high", 2, priority=10))
    return script


@pytest.mark.parametrize(
    ("limits", "begins"), [(OFF, "preemption is off; if it were on"), (DRY, "preemption is a dry run; if it were on")]
)
def test_it_names_who_would_give_way_and_what_that_would_lose(limits: Limits, begins: str) -> None:
    script = crowded(limits)
    preview = outlook(script, "high")
    assert preview.text == f"{begins}, default/low would be evicted for it; 16.0 device-hours would be lost"
    assert preview.victims == (("default/low", "preempted by default/high, which has priority 10 and lacked room"),)
    assert not script.evicted


def test_asking_changes_nothing() -> None:
    script = crowded(OFF)
    state, effects = script.core.state, len(script.effects)

    def seen() -> tuple[object, ...]:
        preemptions, high = state.preemptions, state.workloads[script.gang("high").key]
        return (
            (
                preemptions.search_version,
                preemptions.freed,
                preemptions.lowest,
                dict(preemptions.under_way),
                dict(preemptions.failed),
            ),
            (state.claims.changes, script.core.next_wake(), dict(state.store.dirty), state.outbox.drain()),
            (high.current_demand, high.flavoring, reason_of(high.reason_state.cause)),
        )

    before = seen()
    outlook(script, "high")
    assert seen() == before
    assert len(script.effects) == effects


def test_with_preemption_on_it_names_those_who_give_way() -> None:
    script = crowded(ON)
    assert script.reason("high") == "Preempting"
    preview = outlook(script, "high")
    assert preview.text == "workloads are being evicted for it already; it starts when they are gone"
    assert preview.victims == (("default/low", "preempted by default/high, which has priority 10 and lacked room"),)


def test_what_came_to_nothing_is_told_as_such() -> None:
    script = crowded(ON)
    script.advance(120)
    assert script.milestones(Milestone.UNRESERVED) == 1
    assert "which failed before: it is tried again" in outlook(script, "high").text


def test_it_says_why_nobody_may() -> None:
    assert "1 candidate may not: priority is not lower" in outlook(crowded(OFF, low=10), "high").text
    young = outlook(crowded(replace(OFF, min_runtime_s=7200)), "high").text
    assert "1 candidate may not: has run for less than its minimum" in young
    polite = Cluster(*cluster("a: 1x8"), limits=OFF)
    running(polite, "low", 1)
    polite.see(gang("polite", 1, priority=20, preempts=False))
    text = "nothing would be evicted for it: the preemptionPolicy of its PriorityClass is Never"
    assert outlook(polite, "polite") == Preview(text)


def test_those_that_others_have_started_are_counted_among_those_that_stay() -> None:
    foreign = [replace(pod, node="a-0") for pod in gang("foreign", 1)]
    script = Script(*cluster("a: 1x8"), *foreign, *gang("high", 1, priority=10))
    preview = outlook(script, "high")
    assert preview.text.startswith("nothing would be evicted for it: 0 of 1 members fit at once")
    assert preview.text.endswith("1 candidate may not: was not started by Muster")
    assert not preview.victims


def test_pods_of_no_gang_are_named_as_such() -> None:
    script = Script(*cluster("a: 1x8"), single("dev", gpus=8, node="a-0"), *gang("high", 1, priority=10))
    assert [name for name, _ in outlook(script, "high").victims] == ["pod default/dev"]
    assert "pod default/dev would be evicted" in outlook(script, "high").text


def test_nothing_is_said_of_those_that_lack_neither_room_nor_quota() -> None:
    script = Script(*cluster("a: 1x8"), *gang("lonely", 2)[:1])
    assert finish(script.core.outlook(script.gang("lonely"), script.now)) is None


def test_in_a_queue_it_is_told_by_which_rule_or_that_there_is_none() -> None:
    script = Queued(*cluster("a: 3x8"), things=lent(), limits=OFF)
    script.start("own", 1, "research", priority=5)
    script.start("borrower", 1, "research")
    script.advance(5)
    script.come("wants", 2, "production")
    ((name, text),) = outlook(script, "wants").victims
    assert name == "default/borrower"
    assert "(reclaimWithinCohort: Any)" in text
    assert script.gang("wants").flavoring == {}
    script = Queued(*cluster("a: 3x8"), things=lent(rules=Preemption()), limits=OFF)
    script.start("own", 1, "research", priority=5)
    script.start("borrower", 1, "research")
    script.come("wants", 2, "production")
    assert outlook(script, "wants").text == (
        "nothing would be evicted for it: spec.preemption of ClusterQueue production allows no eviction for this quota"
    )


def test_with_several_flavors_victims_for_quota_alone_are_searched_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two steps the quota of the ledger is as it was: others decide by it."""
    things = sort("old"), sort("new"), cluster_queue("team", {"old": 8, "new": 8}, preemption=LOWER)
    nodes = [node(name, labels={FLAVOR: name}) for name in ("old", "new")]
    script = Queued(*nodes, things=things, limits=OFF)
    script.start("first", 1, "team")
    script.start("second", 1, "team")
    script.come("high", 1, "team", priority=10)
    monkeypatch.delattr(reclaim, "finish")
    for _ in script.core.outlook(script.gang("high"), script.now):
        assert (used(script, "team", "old"), used(script, "team", "new")) == (8, 8)
    assert [name for name, _ in outlook(script, "high").victims] == ["default/first"]
