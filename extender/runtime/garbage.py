"""When Python looks for garbage: nearly everything is freed by its reference count, and cycles can wait."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


def collect_hardly_ever() -> None:
    """While the cluster is read: what has been read is no garbage, and there is little else."""
    gc.set_threshold(1_000_000, 20, 50)


def collect_rarely() -> None:
    """From then on: a collection in the middle of a filter call keeps everybody waiting. What was read is let be."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def keep() -> None:
    """Keep tens of thousands of long-lived objects, those that are there now, out of further collections."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


@contextmanager
def none_collected() -> Iterator[None]:
    """While the block lasts: what is made in it goes with it, and a search through all of that is in vain."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
