"""Chance from a seed: one stream of numbers for each purpose, so that another draw in one place shifts no other."""

from __future__ import annotations

from random import Random


class Chance:
    """Random streams. The same seed and name give the same stream, in every process and under every PYTHONHASHSEED."""

    def __init__(self, seed: int | str) -> None:
        self.seed = seed

    def stream(self, name: str) -> Random:
        # Random hashes a string with SHA-512, not with the interpreter's own salted hash.
        return Random(f"{self.seed}/{name}")
