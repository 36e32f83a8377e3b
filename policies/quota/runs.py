"""How long the workloads of a LocalQueue ran, by size: only the last ones of each size, so that nothing old counts."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from policies.model.duration import Basis, Duration

MOST_TIMES = 64
"""How many runs are kept for each size."""
LEAST = 5
"""The fewest runs from which a duration is predicted."""

RunTimes = Mapping[int, tuple[int, ...]]
"""The seconds of the last runs by size, the latest last. A size is a power of two of GPUs, or 0."""


def size_of(gpus: int) -> int:
    """Return the size class of a number of GPUs: 0, 1, 2, 4, 8 and so on."""
    return 1 << (gpus - 1).bit_length() if gpus > 0 else 0


class Runs:
    """The runs of one LocalQueue."""

    def __init__(self, known: RunTimes | None = None) -> None:
        self._of = {size: deque(seconds, MOST_TIMES) for size, seconds in (known or {}).items()}

    def add(self, gpus: int, seconds: float) -> None:
        """Count a run that has ended."""
        self._of.setdefault(size_of(gpus), deque(maxlen=MOST_TIMES)).append(max(1, round(seconds)))

    def expected(self, gpus: int, percent: int = 50) -> Duration | None:
        """Return the time within which this percentage of the runs of that size ended; None with too few runs."""
        size = size_of(gpus)
        known = sorted(self._of.get(size, ()))
        if len(known) < LEAST:
            return None
        at = max(0, -(-len(known) * percent // 100) - 1)
        return Duration(known[at], Basis.HISTORY, percent, len(known), size)

    @property
    def times(self) -> dict[int, tuple[int, ...]]:
        """The kept runs, for a restart."""
        return {size: tuple(self._of[size]) for size in sorted(self._of)}
