"""The object that makes pods or a PodGroup."""

from __future__ import annotations

from typing import NamedTuple


class Controller(NamedTuple):
    """As an owner reference names it."""

    version: str
    kind: str
    name: str
    uid: str
