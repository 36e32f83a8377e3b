"""Between the slices of a walk others go on: who looks for quota then, or waits behind others for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from extender.core.events import PodGone
from policies.model.queues import Evicts, Preemption, Strategy
from tests.builders import cluster
from tests.core.lending import Queued
from tests.core.preempting import ON
from tests.core.queues import FLAVOR, cluster_queue, in_queue, show, sort
from tests.core.sliced import appear, step

SLICED = replace(ON, slice_units=1)
NODES = [
    replace(one, labels={**one.labels, FLAVOR: name})
    for name, some in (("slow", "a: 2x8"), ("fast", "b: 2x8"))
    for one in cluster(some)
]
SORTS = (sort("slow"), sort("fast"))


def alone() -> Queued:
    """No node of either flavor has room for a gang, whose queue has quota of both."""
    script = Queued(*NODES, things=(*SORTS, cluster_queue("team", {"slow": 64, "fast": 64})), limits=SLICED)
    for number in range(3):
        script.start(f"other{number}", 1, "team", priority=20)
    return script


def lent() -> Queued:
    """Another queue has borrowed of both flavors, and has to give that back."""
    quotas = {name: cluster_queue(name, {"slow": much, "fast": much}, cohort="all") for name, much in _LENT.items()}
    team = replace(quotas["team"], preemption=Preemption(reclaim=Evicts.ANY))
    script = Queued(*NODES, things=(*SORTS, quotas["research"], team), limits=SLICED)
    for name, size in (("own", 1), ("borrower", 2), ("another", 1)):
        script.start(name, size, "research", priority=5)
    script.advance(60)
    return script


_LENT = {"research": 8, "team": 16}


def moments(scene: str) -> Iterator[Queued]:
    """A gang of that queue comes, and is looked at: one slice, two slices, and so on."""
    for count in range(100):
        script = alone() if scene == "alone" else lent()
        appear(script, in_queue("wants", 2))
        for _ in range(count):
            step(script)
        if count > 2 and not script.core.passes[1]:
            assert count > 3
            return
        yield script


@pytest.mark.parametrize("scene", ["alone", "lent"])
def test_a_member_that_goes_while_quota_is_looked_for_is_asked_for_no_more(scene: str) -> None:
    for script in moments(scene):
        script.feed(PodGone(script.pods.pop(in_queue("wants", 2)[1].uid).uid))
        script.advance(2)
        assert script.reason("wants") == "MembersMissing"


def test_who_changes_while_the_first_of_a_strict_queue_is_refused_again_is_looked_at() -> None:
    """What it was told before that is not what it lacks by now."""
    queue, count = cluster_queue("team", {"slow": 8}, strategy=Strategy.STRICT), 0
    for count in range(2, 20):
        script = Queued(*NODES, things=(*SORTS, queue), limits=SLICED)
        for name, priority in (("first", 1), ("second", 0)):
            script.come(name, 2, "team", priority=priority)
        assert script.reason("second") == "QueueOrder"
        show(script, cluster_queue("team", {"slow": 9}, strategy=Strategy.STRICT))
        for _ in range(count):
            step(script)
        if not script.core.passes[1]:
            break
        script.feed(PodGone(script.pods.pop(in_queue("second", 2)[1].uid).uid))
        script.advance(0.5)
        assert script.reason("second") == "MembersMissing"
    assert count > 4
