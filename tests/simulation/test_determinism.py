"""A seed is a run: the same in every process, whatever order the interpreter gives its sets."""

from __future__ import annotations

import os
import subprocess
import sys

_SEEDS = 50
_PLAY = f"""
import hashlib, re
from tests.simulation.campaign import play

def in_order(line):
    # The text of a set has its order: what is in it counts.
    return re.sub(r"frozenset\\({{[^}}]*}}\\)", lambda text: "".join(sorted(text[0])), line)

for seed in range(1, {_SEEDS} + 1):
    lines = hashlib.sha256()
    play(seed, lambda line: lines.update(in_order(line).encode()), every=0)
    print(seed, lines.hexdigest())
"""


def _stories(hash_seed: str) -> dict[str, str]:
    """A digest of each seed's story: every event of the core, every effect, and every change at the API server."""
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    done = subprocess.run([sys.executable, "-c", _PLAY], env=environment, capture_output=True, text=True, check=True)
    return dict(line.split() for line in done.stdout.splitlines())


def test_a_seed_gives_the_same_story_under_any_hash_seed() -> None:
    first = _stories("1")
    assert len(first) == _SEEDS
    for hash_seed in ("2", "3"):
        other = _stories(hash_seed)
        assert [seed for seed in first if first[seed] != other.get(seed)] == []
