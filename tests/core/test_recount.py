"""The slow twin detects every wrong count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from extender.core.workload.members import Members, Step
from extender.core.workload.slots import Stage
from tests.builders import cluster, gang
from tests.core.invariants import validate
from tests.core.jobs import Controlled, job
from tests.core.script import Script

SPOILT: dict[str, Callable[[Members], object]] = {
    "slots of '' are counted as": lambda them: them.slots._counts.__setitem__(Stage.BOUND, 9),
    "live is kept": lambda them: them.live.popitem(),
    "bound is kept": lambda them: them.bound.update(them.live),
    "declared is kept": lambda them: them.declared.combinations.clear(),
    "declared_by_waiting is kept": lambda them: them.declared_by_waiting.combinations.clear(),
    "steps is kept": lambda them: them.steps.update({Step.STEERED: 9}),
    "placed is kept": lambda them: them.placed.popitem(),
    "holds is kept": lambda them: them.holds.remove(next(iter(them.holds))),
}


@pytest.mark.parametrize("complaint", SPOILT)
def test_what_is_counted_wrongly_is_seen(complaint: str) -> None:
    pods = gang("train", 3)
    script = Script(*cluster("a: 3x8"), *pods)
    script.bind(pods[0])
    SPOILT[complaint](script.gang("train").members)
    with pytest.raises(AssertionError, match=complaint):
        validate(script.core.state)


def test_slots_of_a_podset_that_are_counted_wrongly_are_seen() -> None:
    script = Script(*cluster("a: 3x8"))
    Controlled(script, job(2))
    [counts] = script.gang("job").members.slots.of_podsets.values()
    counts[Stage.PROMISED] = 1
    with pytest.raises(AssertionError, match="slots of 'uid-job' are counted as"):
        validate(script.core.state)


def test_slots_of_a_role_that_are_counted_wrongly_are_seen() -> None:
    pods = [replace(pod, group=pod.group._replace(role="worker")) for pod in gang("train", 2) if pod.group]
    script = Script(*cluster("a: 3x8"), *pods)
    slots = script.gang("train").members.slots
    assert slots._of_roles, "they are counted by role"
    slots._of_roles["worker"][Stage.PROMISED] = 9
    with pytest.raises(AssertionError, match="slots of role worker are counted as"):
        validate(script.core.state)
