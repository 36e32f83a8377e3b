"""What the author of a job says that does not count, or cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from extender.kube.kinds.keys import GANG, HOLD
from extender.kube.queues.naming import MISSPELT, is_misspelt
from extender.kube.reading.eviction import unreadable_terms
from extender.kube.reading.objects import Meta
from extender.kube.reading.plain import quoted
from extender.kube.reading.unread_keys import misspelt

NO_BOOLEAN = {
    HOLD: "write true to hold it, or false",
    GANG: "write true to have Muster admit it, or false to have it left alone",
}


def unread_booleans(meta: Meta) -> Iterator[str]:
    """One sentence for each value that is neither true nor false."""
    for key, meant in NO_BOOLEAN.items():
        yield from (f"{key} is {quoted(one)}: {meant}" for one in meta.no_booleans(key))


def hints_of(meta: Meta) -> Iterator[str]:
    """What its author says that does not count. Of keys that mean nothing the first."""
    if is_misspelt(meta):
        yield MISSPELT
    yield from (f"{one.key} {one.what}: {one.fix}" for one in islice(misspelt(meta, of_job=True), 1))
    yield from unreadable_terms(meta)
