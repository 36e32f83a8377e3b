"""Among the LocalQueues of a ClusterQueue that orders by past usage, the one that has used least comes first."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from extender.core.events import QueueGone, QueueSeen
from extender.core.explain.reasons import reason_of
from extender.core.limits import Limits
from policies.model import Node, Pod
from policies.model.queues import ClusterQueue, LocalQueue, PastUse, QueueObject, Strategy
from policies.quota.history import Sampling
from tests.builders import GPU, cluster, gang, key
from tests.core.queues import cluster_queue, flavor, show
from tests.core.script import Script

HOUR = Sampling(half_life_s=3600.0, interval_s=300.0)
BY_USAGE = Limits(past_usage=HOUR)
PART = 1 - 0.5 ** (300 / 3600)
"""The weight of one interval of use in the past usage."""


def team(size: int, **facts: object) -> ClusterQueue:
    return cluster_queue("team", {"gpus": size}, by_past_usage=True, **facts)


def local(name: str, **facts: object) -> LocalQueue:
    return replace(LocalQueue("default", name, "team"), **facts)  # type: ignore[arg-type]


def script_of(nodes: list[Node], *things: QueueObject, limits: Limits = BY_USAGE, synced: bool = True) -> Script:
    script = Script(*nodes, limits=limits, synced=False)
    show(script, flavor("gpus"), *things)
    if synced:
        script.feed_synced()
        script.advance(0.5)
    return script


def wants(name: str, queue: str, size: int = 1, **facts: object) -> list[Pod]:
    return [replace(pod, queue=queue) for pod in gang(name, size, **facts)]  # type: ignore[arg-type]


def planned(script: Script, names: str) -> str:
    return "".join(name for name in names if script.core.state.workloads[key(name)].placement)


def past(script: Script, name: str) -> PastUse:
    past_use = script.core.queue_reports(script.now)["LocalQueue", "default", name].past
    assert past_use is not None
    return past_use


def test_the_local_queue_that_has_used_less_comes_first_and_each_start_counts_at_once() -> None:
    """Quota for 4: by age a, b, c and d would start."""
    nodes = cluster("a: 8x8")
    for limits, expected in ((BY_USAGE, "abef"), (Limits(), "abcd")):
        script = script_of(nodes, team(32), local("one"), local("two"), limits=limits, synced=False)
        for at, name in enumerate("abcdefg"):
            script.see(*wants(name, "one" if name in "abcd" else "two", created=float(at)))
        script.feed_synced()
        script.advance(0.5)
        assert planned(script, "abcdefg") == expected


def test_what_was_used_fades_and_who_used_it_comes_first_again() -> None:
    old = local("old", past=PastUse({GPU: 6.0}, at=1000.0))
    script = script_of(cluster("a: 2x8"), team(8), old, local("new"))
    runs = wants("a", "new")
    script.see(*runs)
    script.advance(0.5)
    script.run(runs)
    script.see(*wants("b", "new", created=1.0), *wants("c", "old", created=2.0))
    script.advance(8 * 3600.0)
    assert past(script, "old").consumed[GPU] == pytest.approx(6.0 / 2**8, rel=0.01)
    assert past(script, "new").consumed[GPU] == pytest.approx(8.0, rel=0.05)
    script.gone(script.pods[runs[0].uid])
    script.advance(0.5)
    assert planned(script, "bc") == "c"


def test_a_start_counts_for_the_interval_to_come_until_it_fails_or_is_known() -> None:
    script = script_of(cluster("a: 2x8"), team(16), local("one"))
    first = wants("a", "one")
    script.see(*first)
    script.advance(0.5)
    value = script.core.state.quotas.past.value
    assert value(("default", "one")) == pytest.approx(8 * PART)
    assert past(script, "one").consumed == {}, "nobody knows yet whether it starts"
    script.gone(script.pods[first[0].uid])
    assert value(("default", "one")) == 0
    second = wants("b", "one")
    script.see(*second)
    script.advance(0.5)
    script.run(second)
    assert past(script, "one").consumed[GPU] == pytest.approx(8 * PART)


def test_a_restart_goes_on_with_what_was_stored_and_counts_no_start_twice() -> None:
    script = script_of(cluster("a: 2x8"), team(16), local("one"), local("two"))
    runs = wants("a", "one")
    script.see(*runs)
    script.advance(0.5)
    script.run(runs)
    script.advance(1000.0)
    before = past(script, "one")
    again = Script(*cluster("a: 2x8"), limits=BY_USAGE, synced=False, now=script.now)
    show(again, flavor("gpus"), team(16), local("one", past=before), local("two", past=past(script, "two")))
    again.see(*script.pods.values())
    again.feed_synced()
    again.advance(0.5)
    assert past(again, "one") == before
    again.advance(600.0)
    after = past(again, "one")
    faded = HOUR.faded(after.at - before.at)
    assert 0 < faded < 1
    assert after.consumed[GPU] == pytest.approx((1 - faded) * before.consumed[GPU] + faded * 8)


def test_what_runs_when_a_queue_is_told_to_order_by_past_usage_is_nothing_that_starts() -> None:
    script = script_of(cluster("a: 2x8"), replace(team(16), by_past_usage=False), local("one"))
    runs = wants("a", "one")
    script.see(*runs)
    script.advance(0.5)
    script.run(runs)
    script.feed(QueueSeen(team(16)))
    script.advance(0.5)
    assert past(script, "one").consumed == {}
    script.advance(300.0)
    assert past(script, "one").consumed[GPU] == pytest.approx(8 * PART, rel=0.01)


def test_what_a_queue_has_used_outlasts_its_cluster_queue_and_no_start_counts_twice() -> None:
    """The watch does not report the core's own writes to the core, so the object in its hands is old."""
    script = script_of(cluster("a: 2x8"), team(16), local("one", past=PastUse({GPU: 6.0}, at=1000.0)))
    runs = wants("a", "one")
    script.see(*runs)
    script.advance(0.5)
    script.run(runs)
    script.advance(1000.0)
    before = past(script, "one")
    assert before.at > 1000.0
    script.feed(QueueGone(team(16)))
    script.advance(0.5)
    assert past(script, "one") == before
    script.feed(QueueSeen(team(16)))
    script.advance(0.5)
    assert past(script, "one") == before


def test_a_restart_without_the_cluster_queue_goes_on_with_what_was_stored_and_counts_no_start_twice() -> None:
    script = script_of(cluster("a: 2x8"), team(16), local("one"))
    runs = wants("a", "one")
    script.see(*runs)
    script.advance(0.5)
    script.run(runs)
    before = past(script, "one")
    again = Script(*cluster("a: 2x8"), limits=BY_USAGE, synced=False, now=script.now)
    show(again, flavor("gpus"), local("one", past=before))
    again.see(*script.pods.values())
    again.feed_synced()
    again.advance(0.5)
    again.feed(QueueSeen(team(16)))
    again.advance(0.5)
    assert past(again, "one") == before


def test_where_no_cluster_queue_orders_by_it_past_usage_goes_on_and_does_not_count() -> None:
    script = script_of(cluster("a: 2x8"), team(16), local("one", past=PastUse({GPU: 6.0}, at=1000.0)))
    value = script.core.state.quotas.past.value
    assert value(("default", "one")) == 6.0
    script.feed(QueueSeen(replace(team(16), by_past_usage=False)))
    script.advance(3600.0)
    assert value(("default", "one")) == 0
    script.feed(QueueSeen(team(16)))
    script.advance(0.5)
    assert value(("default", "one")) == pytest.approx(3.0, rel=0.1)


def test_what_muster_stores_makes_no_queue_another_one() -> None:
    script = script_of(cluster("a: 2x8"), team(16), local("one"))
    script.feed(QueueSeen(local("one", past=PastUse({GPU: 3.0}, 5.0))))
    assert not script.core.state.quotas.queues.stale


def test_in_a_strict_queue_who_is_first_by_usage_holds_up_the_others() -> None:
    """c of the unused LocalQueue asks for too much; a and b of the other one wait for it. They start when c is gone."""
    used = local("one", past=PastUse({GPU: 6.0}, at=1000.0))
    script = script_of(cluster("a: 1x8"), team(32, strategy=Strategy.STRICT), used, local("two"), synced=False)
    large = wants("c", "two", 2, created=2.0)
    script.see(*wants("a", "one", created=1.0), *large)
    script.feed_synced()
    script.advance(0.5)
    assert planned(script, "ac") == ""
    assert reason_of(script.core.state.workloads[key("a")].reason_state.cause).code == "QueueOrder"
    for pod in large:
        script.gone(script.pods[pod.uid])
    script.advance(0.5)
    assert planned(script, "a") == "a"


def test_weights_divide_what_was_used_and_weight_0_comes_last() -> None:
    by_weight = {
        name: local(name, weight=Fraction(weight), past=PastUse({GPU: used}, at=1000.0))
        for name, weight, used in (("one", 1, 3.0), ("two", 4, 8.0), ("none", 0, 0.0))
    }
    script = script_of(cluster("a: 1x8"), team(8), *by_weight.values(), synced=False)
    script.see(*wants("a", "one"), *wants("b", "two"), *wants("c", "none", created=-5.0))
    script.feed_synced()
    script.advance(0.5)
    assert planned(script, "abc") == "b"


def test_who_waits_is_told_in_the_order_of_past_usage() -> None:
    used = local("one", past=PastUse({GPU: 6.0}, at=1000.0))
    script = script_of(cluster("a: 1x8"), team(0), used, local("two"))
    script.see(*wants("a", "one", created=1.0), *wants("b", "two", created=2.0))
    script.advance(0.5)
    assert script.core.queue_reports(script.now)["ClusterQueue", "", "team"].pending == (key("b"), key("a"))
