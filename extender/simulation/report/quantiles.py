"""Quantiles of waiting times, of which some are infinite."""

from __future__ import annotations

import math
from collections.abc import Sequence


def quantile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that so large a share of them does not exceed; None if that is infinite."""
    value = sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]
    return value if math.isfinite(value) else None
