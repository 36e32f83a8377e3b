"""Whether a queue had its entitlement in each hour in which it wanted more than that."""

from __future__ import annotations

from dataclasses import dataclass

WINDOW_S = 3600.0
_TOLERANCE = 0.05
_LEAST_S = 1e-6


@dataclass(frozen=True, slots=True)
class Windows:
    """Hours of one queue in all of which it had demand beyond its entitlement, of at least the job whose turn was next.

    ``within``: of these ``count``, where what it used was its entitlement to 5 % and to the GPUs of that job, each a
    mean over the hour; in the others it was ``short`` or ``over``, or had what was ``lent`` to it: it used more, and
    for 95 % of the hour no other queue had a next job that its own entitlement would have held. ``worst``: the most
    that it was short of its entitlement, as a part of that, whatever the job; 0 if it never was.
    """

    count: int = 0
    within: int = 0
    short: int = 0
    over: int = 0
    lent: int = 0
    worst: float = 0.0


class Hours:
    """Adds up what a queue was entitled to and used, hour by hour; time goes forward."""

    def __init__(self) -> None:
        self._sums: dict[int, list[float]] = {}

    def add(self, begin: float, until: float, entitled: float, used: float, turn: int, *, wanted: bool) -> None:
        """It has demand beyond its entitlement; ``turn``: what the job asks for whose turn is next. ``wanted``: the
        next job of another queue is within the entitlement of that one."""
        while begin < until:
            number = int(begin // WINDOW_S)
            edge = min(until, (number + 1) * WINDOW_S)
            sums = self._sums.setdefault(number, [0.0] * 5)
            for at, value in enumerate((1.0, entitled, used, turn, wanted)):
                sums[at] += value * (edge - begin)
            begin = edge

    def judged(self) -> Windows:
        full = [sums for sums in self._sums.values() if sums[0] > WINDOW_S - _LEAST_S]
        short = sum(used < (1 - _TOLERANCE) * entitled - turn for _, entitled, used, turn, _ in full)
        over = [
            wanted_s > _TOLERANCE * WINDOW_S
            for _, entitled, used, turn, wanted_s in full
            if used > (1 + _TOLERANCE) * entitled + turn
        ]
        worst = max((1 - used / entitled for _, entitled, used, *_ in full if entitled), default=0.0)
        within = len(full) - short - len(over)
        return Windows(len(full), within, short, sum(over), len(over) - sum(over), max(0.0, worst))
