"""Read Kubernetes quantities ("500m", "1.5", "40Gi", "1e3") and durations ("1m30s").

Quantities become whole numbers, rounded up as kube-scheduler rounds them. The official client has a parser, too, but
importing it costs a second of start-up, since the whole generated client follows.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import lru_cache

from policies.model.quantities import exact

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PART = re.compile(r"([0-9]{1,9}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})(h|ms|us|µs|ns|m|s)")
_LONGEST_DURATION = 100
_LARGEST = (1 << 63) - 1  # the API server caps quantities here, too


@lru_cache(maxsize=8192)
def whole(quantity: str | int | float) -> int:
    """The quantity in its base unit (bytes, devices), rounded up. Raises ValueError if it is not a quantity."""
    return _capped(exact(quantity))


@lru_cache(maxsize=8192)
def milli(quantity: str | int | float) -> int:
    """The quantity in thousandths (millicores for cpu), rounded up. Raises ValueError if it is not a quantity."""
    return _capped(exact(quantity) * 1000)


def duration_s(text: str) -> float | None:
    """The seconds of a duration as Go writes it: ``30s``, ``1m30s``, ``500ms``. None for anything else."""
    parts = _PART.findall(text) if len(text) <= _LONGEST_DURATION else []
    if not parts or "".join(map("".join, parts)) != text:
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def _capped(number: Fraction) -> int:
    return max(-_LARGEST, min(_LARGEST, math.ceil(number)))
