"""The running times of a LocalQueue's workloads, in its status: the message of a condition, which every CRD keeps."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from extender.kube.reading.plain import json_of
from policies.quota.runs import MOST_TIMES, RunTimes, size_of

RUNS = "muster.dev/RunHistory"
"""The type of the condition. Its message is JSON: by number of GPUs, the seconds that the last workloads ran."""
_LARGEST = 1 << 30
_LONGEST_S = 1 << 30


class StatusCondition(Struct):
    type: str | None = None
    message: str | None = None


def runs_from(conditions: Iterable[StatusCondition]) -> dict[int, tuple[int, ...]]:
    """Parse the running times from the conditions; empty if they cannot be read."""
    text = next((condition.message for condition in conditions if condition.type == RUNS), None)
    times_by_size = json_of(text, dict[int, list[int]]) or {}
    known = {
        size: tuple(time for time in times if 0 < time <= _LONGEST_S)[-MOST_TIMES:]
        for size, times in times_by_size.items()
    }
    return {size: times for size, times in known.items() if times and 0 <= size <= _LARGEST and size == size_of(size)}


def runs_text(runs: RunTimes) -> str:
    """The text that ``runs_from`` reads."""
    return msgspec.json.encode(runs).decode()
