"""How long a job, PodGroup, pod or queue runs by its own account, and durations as people write them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from extender.kube.reading.objects import Meta
from extender.kube.reading.plain import quoted
from extender.kube.reading.quantity import duration_s
from policies.model.duration import NO_RUN_TERMS, RunTerms

EXPECTED_DURATION = "muster.dev/expected-duration"
MAX_RUN = "muster.dev/max-run"
"""An annotation of a ClusterQueue or LocalQueue: the longest run of its workloads."""
AGEING = "muster.dev/ageing"
"""An annotation of a ClusterQueue: how fast the priority of its workloads rises while they wait, `100 per day`."""
HOW = "write seconds, or a duration such as 90m, 1h30m or 2d"
_LONGEST_S = 10 * 365 * 86_400.0
"""The longest duration: an instant this far ahead can still be written in every format."""
_LONGEST = 64
_AGEING = re.compile(r"([0-9]{1,9}) per (day|hour)", re.ASCII)
_WHOLE = re.compile(r"(?:([0-9]{1,9})d)?(?:([0-9]{1,9})|([0-9.]+[a-zµ].*))?", re.ASCII)


def span_of(text: str) -> float | None:
    """The seconds of a duration: ``90``, ``90m``, ``1h30m``, ``2d12h``. None for anything else.

    A duration is a number of seconds, or what Go writes, with days before it.
    """
    matched = _WHOLE.fullmatch(text) if 0 < len(text) <= _LONGEST else None
    if matched is None or (matched[1] and matched[2]):
        return None
    rest = float(matched[2]) if matched[2] else duration_s(matched[3]) if matched[3] else 0.0
    seconds = None if rest is None else int(matched[1] or 0) * 86_400 + rest
    return seconds if seconds is not None and seconds <= _LONGEST_S else None


def ageing_of(text: str) -> int | None:
    """How much priority a workload gains in a day: ``100 per day``, ``5 per hour``. None for anything else."""
    matched = _AGEING.fullmatch(text)
    return None if matched is None else int(matched[1]) * (24 if matched[2] == "hour" else 1)


def run_terms_of(meta: Meta) -> RunTerms:
    """How long the object says that it runs. Unreadable values do not count; ``unreadable_durations`` names them."""
    annotation = (meta.annotations or {}).get(EXPECTED_DURATION)
    return NO_RUN_TERMS if annotation is None else RunTerms(span_of(annotation) or None)


def deadline_of(seconds: object) -> float | None:
    """An ``activeDeadlineSeconds``; None if it is no number, or too long to end anything."""
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    return float(seconds) if number and 0 <= seconds <= _LONGEST_S else None  # type: ignore[arg-type, operator]


def unreadable_durations(meta: Meta) -> Iterator[str]:
    """Yield a sentence if the object's duration cannot be read and does not count."""
    annotation = (meta.annotations or {}).get(EXPECTED_DURATION)
    if annotation is not None and not span_of(annotation):
        yield f"{EXPECTED_DURATION} is {quoted(annotation)} and does not count: {HOW}"
