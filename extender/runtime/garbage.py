"""When Python looks for garbage: nearly everything is freed by its reference count, and cycles can wait."""

from __future__ import annotations

import gc


def collect_rarely() -> None:
    """For the whole process: a collection in the middle of a filter call keeps everybody waiting."""
    gc.set_threshold(50_000, 20, 50)


def keep() -> None:
    """Keep tens of thousands of long-lived objects, those that are there now, out of further collections."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
