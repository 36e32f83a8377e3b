"""The core takes every event that there is."""

from __future__ import annotations

from typing import get_args

from extender.core.engine import Engine
from extender.core.events import Event


def test_every_event_has_a_handler() -> None:
    assert set(get_args(Event)) == set(Engine()._handlers)
