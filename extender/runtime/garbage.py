"""Python's garbage collection: reference counts free nearly everything, and cycles can wait."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


def collect_hardly_ever() -> None:
    """Collect hardly ever while the cluster is read: what was read is no garbage, and there is little else."""
    gc.set_threshold(1_000_000, 20, 50)


def collect_rarely() -> None:
    """Collect rarely from now on, without the objects of the initial lists.

    A collection during a filter call delays all calls: one of the youngest objects takes 0.2 ms. Older ones are
    searched after a million new ones.
    """
    gc.freeze()
    gc.set_threshold(5_000, 200, 50)


def freeze_present() -> None:
    """Keep all present objects, tens of thousands of long-lived ones, out of further collections."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


@contextmanager
def none_collected() -> Iterator[None]:
    """Collect nothing while the block lasts. Its objects end with it, and a search through them would find nothing."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
