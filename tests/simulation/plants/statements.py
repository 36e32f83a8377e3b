"""Bugs in statements: a change that was only tried stays, of nodes, of quota, or of a block inside another one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from policies import statement
from policies.statement import Statement


def nodes_that_were_tried_stay(patch: pytest.MonkeyPatch) -> None:
    """Room that is tried as free, or as taken, is so in all later statements."""
    patch.setattr(Statement, "_put", lambda self, line, row, amount: None)
    patch.setattr(Statement, "_subtract", lambda self, rows, amounts: None)


def quota_that_was_tried_stays(patch: pytest.MonkeyPatch) -> None:
    """Quota that is tried as free, or as used, is so for all workloads."""
    patch.setattr(statement, "_restore", lambda what, before: None)


def inner_blocks_are_not_dropped(patch: pytest.MonkeyPatch) -> None:
    """The changes stay until the outermost block ends."""
    real = Statement.open

    @contextmanager
    def open_block(self: Statement) -> Iterator[None]:
        with real(self):
            yield
            if len(self._committed) > 1:
                self._committed[-1] = True

    patch.setattr(Statement, "open", open_block)
