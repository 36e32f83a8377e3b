"""The order of the queue: priority, then age, then name, and it is total."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

from policies.model import GroupKey
from policies.order import PriorityThenAge


@dataclass(frozen=True)
class Waiting:
    key: GroupKey
    priority: int = 0
    created: float = 0.0
    members: int = 1
    gpus: int = 0
    requests: Mapping[str, int] = field(default_factory=dict)


def test_priority_goes_before_age_and_age_before_name() -> None:
    expected = [
        Waiting(GroupKey("z", "urgent"), 10, 9.0),
        Waiting(GroupKey("z", "old"), 0, 1.0),
        Waiting(GroupKey("a", "a"), 0, 2.0),
        Waiting(GroupKey("a", "b"), 0, 2.0),
        Waiting(GroupKey("b", "a"), 0, 2.0),
        Waiting(GroupKey("a", "low"), -5, 0.0),
    ]
    for shuffled in itertools.permutations(expected):
        assert sorted(shuffled, key=PriorityThenAge().order) == expected
