"""The terms of eviction of a job or pod: its least running time, and its last checkpoint.

They also say whether to evict it if its gang is incomplete or runs for too long, and whether it may be restarted
elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from extender.core.instants import instant_of
from extender.kube.reading.durations import HOW, span_of
from extender.kube.reading.objects import Meta
from extender.kube.reading.plain import quoted
from policies.model.eviction import NO_TERMS, EvictionTerms

MIN_RUNTIME = "muster.dev/min-runtime"
CHECKPOINTED = "muster.dev/checkpointed-at"
EVICT_INCOMPLETE = "muster.dev/evict-incomplete"
RESTARTABLE = "muster.dev/restartable"
EVICT_OVERRUN = "muster.dev/evict-overrun"
EVICTED_AT = "muster.dev/evicted-at"
"""Written on a job by Muster: the instants of its evictions within the last hour, in RFC 3339."""
_MOST_EVICTIONS = 64
_FLAGS = (EVICT_INCOMPLETE, RESTARTABLE, EVICT_OVERRUN)
TERMS = (MIN_RUNTIME, CHECKPOINTED, *_FLAGS)
_YES_OR_NO = {"true": True, "false": False}


def terms_of(meta: Meta) -> EvictionTerms:
    """The terms that the object states. Unreadable values do not count; ``unreadable_terms`` names them."""
    annotations = meta.annotations or {}
    if not any(key in annotations for key in TERMS):
        return NO_TERMS
    flags = (_YES_OR_NO.get(annotations.get(key, "")) for key in _FLAGS)
    return EvictionTerms(
        span_of(annotations.get(MIN_RUNTIME, "")), instant_of(annotations.get(CHECKPOINTED, "")), *flags
    )


def unreadable_terms(meta: Meta) -> Iterator[str]:
    """Yield one sentence for each annotation whose value cannot be read and does not count."""
    annotations = meta.annotations or {}
    if MIN_RUNTIME in annotations and span_of(annotations[MIN_RUNTIME]) is None:
        yield f"{MIN_RUNTIME} is {quoted(annotations[MIN_RUNTIME])} and does not count: {HOW}"
    if CHECKPOINTED in annotations and instant_of(annotations[CHECKPOINTED]) is None:
        yield f"{CHECKPOINTED} is {quoted(annotations[CHECKPOINTED])} and does not count: write an instant in RFC 3339"
    for key in _FLAGS:
        if key in annotations and annotations[key] not in _YES_OR_NO:
            yield f"{key} is {quoted(annotations[key])} and does not count: write true or false"


def evictions_of(meta: Meta) -> tuple[float, ...]:
    """The instants of the job's recent evictions, in seconds since the epoch."""
    annotation = (meta.annotations or {}).get(EVICTED_AT, "")
    instants = map(instant_of, annotation.split(",", _MOST_EVICTIONS)[:_MOST_EVICTIONS] if annotation else ())
    return tuple(at for at in instants if at is not None)


def evictions_text(instants: Sequence[float]) -> str:
    """The text that ``evictions_of`` reads."""
    latest = instants[-_MOST_EVICTIONS:]
    return ",".join(datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds") for at in latest)
