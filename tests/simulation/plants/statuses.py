"""Bugs of the status: a step is taken, and is not recorded."""

from __future__ import annotations

import pytest

from extender.core.workload.status import StatusRecord


def releases_are_not_recorded(patch: pytest.MonkeyPatch) -> None:
    """Bindings are posted, and the act says nothing of it."""
    patch.setattr(StatusRecord, "release", lambda self, now: None)


def lost_members_are_not_recorded(patch: pytest.MonkeyPatch) -> None:
    """A gang has too few members, and the end of ``settle`` does not notice it."""
    patch.setattr(StatusRecord, "break_off", lambda self, now: None)
