"""Resource versions."""

from __future__ import annotations


def is_older(version: str, known: str | None) -> bool:
    """Versions of one resource are numbers that grow. What is no number is taken for newer."""
    return known is not None and version.isdigit() and known.isdigit() and int(version) < int(known)
