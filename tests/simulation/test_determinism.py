"""A seed is a run: the same in every process, whatever order the interpreter gives its sets."""

from __future__ import annotations

import os
import subprocess
import sys

_PLAY = """
import hashlib
from tests.simulation.campaign import play
for seed in (3, 5, 6):
    lines = hashlib.sha256()
    play(seed, lambda line: lines.update(line.encode()), every=0)
    print(seed, lines.hexdigest())
"""


def _story(hash_seed: str) -> str:
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    done = subprocess.run([sys.executable, "-c", _PLAY], env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def test_a_seed_gives_the_same_story_under_any_hash_seed() -> None:
    first, second = _story("1"), _story("2")
    assert first == second
    assert len(first.splitlines()) == 3
