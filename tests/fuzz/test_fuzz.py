"""A share of the hostile documents that `python -m tests.fuzz` makes without end, the same ones every time."""

from __future__ import annotations

import asyncio

import pytest

from tests.fuzz.target import Target

SEEDS_AT_ONCE = 25


@pytest.mark.parametrize("first", range(0, 4 * SEEDS_AT_ONCE, SEEDS_AT_ONCE))
def test_hostile_documents_do_no_harm(first: int) -> None:
    """A failure: `python -m tests.fuzz --seed SEED --inputs 1`."""
    for seed in range(first, first + SEEDS_AT_ONCE):
        try:
            asyncio.run(Target(seed).attack(40))
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
