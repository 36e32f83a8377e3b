"""The fault campaign: a few hundred seeds, each a cluster, its jobs and what goes wrong. `make soak` plays more."""

from __future__ import annotations

import pytest

from tests.simulation.campaign import play

SEEDS, CHUNK = 320, 16


@pytest.mark.parametrize("first", range(1, SEEDS + 1, CHUNK))
def test_every_promise_is_kept_whatever_goes_wrong(first: int) -> None:
    """A seed that breaks one raises its story, and the command that plays it again."""
    for seed in range(first, first + CHUNK):
        tally = play(seed, every=8)
        assert tally.events, f"nothing happened in seed {seed}"
