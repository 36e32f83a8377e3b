"""Latencies of a load test: their quantiles, how sure these are, and thresholds on them."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

SHARES = (50, 90, 95, 99)
_SURE = 1.96
"""Standard deviations of an interval that holds a quantile in 95 % of all runs."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Latencies in ms, in ascending order.

    ``missing``: the number of events that never came. They count as slower than all others, so that they cannot improve
    a quantile.
    ``alike``: how many of them share one fate, as the pods of a gang do.
    """

    latencies_ms: tuple[float, ...]
    missing: int = 0
    alike: int = 1

    @classmethod
    def of(cls, latencies_ms: Iterable[float], missing: int = 0, alike: int = 1) -> Sample:
        """A sample of latencies in any order."""
        return cls(tuple(sorted(latencies_ms)), missing, alike)

    @property
    def count(self) -> int:
        """The number of events, including the missing ones."""
        return len(self.latencies_ms) + self.missing

    def quantile(self, percent: float) -> float:
        """The nearest rank, in ms; infinity if that event never came, NaN without events."""
        return self._at(math.ceil(percent / 100 * self.count))

    def between(self, percent: float) -> tuple[float, float]:
        """Bounds of the quantile, in ms, by ranks alone, for any distribution. With too few events the upper one is
        infinity."""
        if not self.count:
            return math.nan, math.nan
        share = percent / 100
        middle = share * self.count
        width = _SURE * math.sqrt(self.count * share * (1 - share) * self.alike)
        upper = math.ceil(middle + width) + 1
        return self._at(math.floor(middle - width)), math.inf if upper > self.count else self._at(upper)

    @property
    def mean(self) -> float:
        """The mean of the known latencies; NaN without any."""
        return sum(self.latencies_ms) / len(self.latencies_ms) if self.latencies_ms else math.nan

    def _at(self, rank: int) -> float:
        if not self.count:
            return math.nan
        at = max(0, rank - 1)
        return self.latencies_ms[at] if at < len(self.latencies_ms) else math.inf

    def figures(self) -> dict[str, Any]:
        """Write the sample for a file: ms with two decimals; null for events that never came, and for unknown
        values."""
        written_figures: dict[str, Any] = {"count": self.count, "missing": self.missing}
        written_figures |= {"min": written(self.quantile(0)), "avg": written(self.mean)}
        written_figures |= {f"p{share}": written(self.quantile(share)) for share in SHARES} | {
            "max": written(self.quantile(100))
        }
        return written_figures | {
            "between": {f"p{share}": [written(bound) for bound in self.between(share)] for share in SHARES}
        }


def written(value: float) -> float | None:
    """Round to two decimals; None for infinity and NaN, which JSON does not have."""
    return round(value, 2) if math.isfinite(value) else None


class ThresholdError(ValueError):
    """A threshold that cannot be read; the message says what can be written."""


_WRITTEN = re.compile(
    r"\s*(?:(?P<quantity>p\d+(?:\.\d+)?|min|avg|max)\s*\(\s*(?P<metric>[a-z_.]+)\s*\)|(?P<errors>errors|error_rate))"
    r"\s*(?P<comparison>>=|<=|>|<)\s*(?P<limit>\d+(?:\.\d+)?)\s*(?P<unit>us|ms|s|m|%)?\s*"
)
_MS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}
_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_EXAMPLE = "write it like p99(bind) > 2s, max(bind) >= 500ms, errors > 0 or error_rate > 1%"


@dataclass(frozen=True, slots=True)
class Threshold:
    """A limit that the user has set.

    ``text``: as the user wrote it.
    ``quantity``: for example p99 of ``metric``; errors and error_rate have no metric.
    ``limit``: in ms, or a number of errors, or percent.
    """

    text: str
    quantity: str
    metric: str
    comparison: str
    limit: float

    @classmethod
    def read(cls, text: str, metrics: Iterable[str]) -> Threshold:
        """Parse a threshold. Raises ThresholdError."""
        match = _WRITTEN.fullmatch(text)
        if match is None:
            raise ThresholdError(f"{text!r} is no threshold: {_EXAMPLE}")
        metric, unit, limit = match["metric"] or "", match["unit"] or "", float(match["limit"])
        if match["errors"]:
            if unit != ("%" if match["errors"] == "error_rate" else ""):
                raise ThresholdError(f"{text!r}: errors is a number, and error_rate has %; {_EXAMPLE}")
            return cls(text.strip(), match["errors"], "", match["comparison"], limit)
        known = list(metrics)
        if metric not in known:
            raise ThresholdError(f"{text!r}: there is no latency {metric}; there are {', '.join(known)}")
        if unit not in _MS:
            raise ThresholdError(f"{text!r}: say us, ms, s or m of the latency; {_EXAMPLE}")
        if match["quantity"].startswith("p") and not 0 < float(match["quantity"][1:]) <= 100:
            raise ThresholdError(f"{text!r}: a percentile is above 0 and at most 100")
        return cls(text.strip(), match["quantity"], metric, match["comparison"], limit * _MS[unit])

    def judge(self, samples: Mapping[str, Sample], errors: int, count: int) -> Verdict:
        """Compare the threshold with a run. ``count``: all events, with and without an error."""
        value = self._value(samples, errors, count)
        broken = None if math.isnan(value) else _COMPARISONS[self.comparison](value, self.limit)
        return Verdict(self, value, broken)

    def _value(self, samples: Mapping[str, Sample], errors: int, count: int) -> float:
        match self.quantity:
            case "errors":
                return errors
            case "error_rate":
                return 100 * errors / count if count else math.nan
        sample = samples[self.metric]
        match self.quantity:
            case "avg":
                return math.inf if sample.missing else sample.mean
            case "min":
                return sample.quantile(0)
            case "max":
                return sample.quantile(100)
        return sample.quantile(float(self.quantity[1:]))


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a threshold.

    ``value``: in the unit of the limit.
    ``broken``: None if it could not be measured.
    """

    threshold: Threshold
    value: float
    broken: bool | None

    def __str__(self) -> str:
        mark = {True: "✗", False: "✓", None: "?"}[self.broken]
        return f"{mark} {self.threshold.text}: {self.shown}"

    @property
    def shown(self) -> str:
        """The value with its unit."""
        if math.isnan(self.value):
            return "not measured"
        match self.threshold.quantity:
            case "errors":
                return f"{self.value:.0f}"
            case "error_rate":
                return f"{self.value:.2f} %"
        return "not reached" if math.isinf(self.value) else f"{self.value:.4g} ms"

    def document(self) -> dict[str, Any]:
        """Write the verdict for a file."""
        unit = {"errors": "", "error_rate": "%"}.get(self.threshold.quantity, "ms")
        return {
            "fail_if": self.threshold.text,
            "value": written(self.value),
            "limit": self.threshold.limit,
            "unit": unit,
            "broken": self.broken,
        }


def read_thresholds(texts: Iterable[str], metrics: Iterable[str]) -> list[Threshold]:
    """Parse thresholds. Raises ThresholdError."""
    known = list(metrics)
    return [Threshold.read(text, known) for text in texts]
