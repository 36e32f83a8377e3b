"""Gangs of which a topology spread counts members of both are started one after the other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.events import PodGone
from policies.model import Constraints, Pod, Requirement, Spread
from tests.builders import cluster, gang
from tests.core.jobs import Controlled, job
from tests.core.script import Script

OF_THE_TEAM = Constraints(spread=(Spread("kubernetes.io/hostname", 1, (Requirement("team", "In", ("a",)),)),))
OF_OTHERS = Constraints(spread=(Spread("kubernetes.io/hostname", 1, (Requirement("team", "In", ("b",)),)),))
PLAIN = Constraints()


def members(name: str, constraints: Constraints) -> list[Pod]:
    return gang(name, 2, gpus=1, labels=(("team", "a"),), constraints=constraints)


def planned(script: Script, pods: list[Pod]) -> bool:
    return any(map(script.planned, pods))


@pytest.mark.parametrize(
    ("first", "second", "waits"),
    [
        (OF_THE_TEAM, OF_THE_TEAM, True),
        (OF_THE_TEAM, PLAIN, True),
        (PLAIN, OF_THE_TEAM, True),
        (OF_OTHERS, OF_OTHERS, False),
        (PLAIN, PLAIN, False),
    ],
)
def test_a_gang_waits_until_one_that_a_spread_counts_with_it_has_started(
    first: Constraints, second: Constraints, *, waits: bool
) -> None:
    before, after = members("before", first), members("after", second)
    script = Script(*cluster("a: 2x8"), *before)
    script.see(*after)
    assert planned(script, before)
    assert planned(script, after) is not waits
    assert (script.reason("after") == "SharedSpread") is waits
    script.run(before)
    assert planned(script, after)


def test_it_waits_no_longer_when_the_other_is_gone() -> None:
    before, after = members("before", OF_THE_TEAM), members("after", PLAIN)
    script = Script(*cluster("a: 2x8"), *before)
    script.see(*after)
    assert not planned(script, after)
    for pod in before:
        script.feed(PodGone(pod.uid))
    script.advance(0.1)
    assert planned(script, after)


def test_it_waits_no_longer_when_those_with_the_spread_are_there() -> None:
    spread = members("before", OF_THE_TEAM)
    plain = replace(spread[1], uid="before-2", name="before-2", index=2, constraints=PLAIN)
    before, after = [*spread, plain], members("after", PLAIN)
    script = Script(*cluster("a: 2x8"), *before)
    script.see(*after)
    script.run(spread)
    script.advance(0.1)
    assert script.planned(plain), "it is promised a node, and not there yet"
    assert planned(script, after)


def test_it_waits_for_no_binding_of_one_without_a_spread() -> None:
    first, other = members("before", OF_THE_TEAM)
    before, after = [first, replace(other, constraints=PLAIN)], members("after", PLAIN)
    script = Script(*cluster("a: 2x8"), *before)
    script.see(*after)
    script.bind_all(before)
    assert list(script.bindings) == [first.uid]
    script.advance(0.1)
    assert not planned(script, after), "whether the one with the spread is let in may be asked again"
    script.post(first)
    script.advance(0.1)
    assert list(script.bindings) == [other.uid], "its Binding is under way"
    assert planned(script, after)


def test_it_waits_after_a_restart_for_a_job_that_is_being_started() -> None:
    seen, after = job(2, gpus=1), members("after", OF_THE_TEAM)
    (podset,) = seen.podsets.podsets
    template = replace(podset.template, labels=(("team", "a"),), constraints=OF_THE_TEAM)
    seen = replace(seen, podsets=replace(seen.podsets, podsets=(replace(podset, template=template),)))
    before = Controlled(Script(*cluster("a: 2x8")), seen)
    assert before.seen.plan
    script = Script(*cluster("a: 2x8"), *after, synced=False)
    train = Controlled(script, before.seen)
    script.feed_synced()
    train.wait(1)
    assert script.reason("after") == "SharedSpread"
    script.run(train.create())
    train.wait(1)
    assert planned(script, after)


def test_gangs_of_other_namespaces_wait_for_nobody() -> None:
    before = members("before", OF_THE_TEAM)
    after = [replace(pod, namespace="other") for pod in members("after", OF_THE_TEAM)]
    script = Script(*cluster("a: 2x8"), *before, *after)
    assert planned(script, before)
    assert planned(script, after)
