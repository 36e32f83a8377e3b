"""The error that ends a run when a promise of docs/proof.md was broken."""

from __future__ import annotations


class BrokenPromiseError(AssertionError):
    """A promise was broken."""


def complain(complaint: str | None) -> None:
    """Raises BrokenPromiseError if there is one."""
    if complaint:
        raise BrokenPromiseError(complaint)
