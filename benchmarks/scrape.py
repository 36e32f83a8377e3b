"""Figures out of a /metrics page."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families


class Page:
    """The samples of one reading of /metrics."""

    def __init__(self, text: str) -> None:
        families = text_string_to_metric_families(text)
        self._samples = [sample for family in families for sample in family.samples]

    def total(self, name: str, **labels: str) -> float:
        """The sum of all samples of that name with at least these labels; 0 when there is none."""
        return sum(self.by("", name, **labels).values())

    def by(self, label: str, name: str, **labels: str) -> dict[str, float]:
        """The samples of that name, summed up per value of ``label``."""
        sums: defaultdict[str, float] = defaultdict(float)
        for sample in self._samples:
            if sample.name == name and labels.items() <= sample.labels.items():
                sums[sample.labels.get(label, "")] += sample.value
        return dict(sums)


def quantile(share: float, after: Mapping[str, float], before: Mapping[str, float] | None = None) -> float:
    """The quantile of a histogram's samples between two readings, linear inside a bucket; NaN without samples.

    The readings are cumulative counts by upper bound, as ``Page.by("le", ...)`` gives them.
    """
    earlier = before or {}
    counts = sorted((float(bound), count - earlier.get(bound, 0.0)) for bound, count in after.items())
    if not counts or counts[-1][1] <= 0:
        return math.nan
    rank = share * counts[-1][1]
    low, below = 0.0, 0.0
    for bound, count in counts:
        if count >= rank and count > below:
            # Beyond the last finite bound nothing more is known than that bound.
            return low if math.isinf(bound) else low + (bound - low) * (rank - below) / (count - below)
        low, below = bound, count
    return low
