"""The room that is freed when candidates go, by candidate and node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from policies.model import Requests
from policies.placement.snapshot import Amounts, Rows, Snapshot
from policies.placement.tenants import Apart
from policies.preemption.candidates import Candidate
from policies.statement import Statement


@dataclass(frozen=True, slots=True)
class Freed:
    """An entry for each candidate on each node.

    ``owners``: the numbers of the candidates, in ascending order.
    ``amounts``: shape ``(lines, entries)``, for some lines of the snapshot or for all.
    """

    owners: Rows
    rows: Rows
    amounts: Amounts

    def at(self, chosen: Rows) -> Freed:
        """Only these entries."""
        return Freed(self.owners[chosen], self.rows[chosen], self.amounts[:, chosen])

    def of_lines(self, lines: Rows) -> Freed:
        """Only these lines."""
        return Freed(self.owners, self.rows, self.amounts[lines])

    def among(self, numbers: Sequence[int]) -> Freed:
        """Only the entries of these candidates, which are numbered again. ``numbers``: in ascending order."""
        known = np.array(numbers, dtype=np.intp)
        rows_of_known = self.at(np.flatnonzero(np.isin(self.owners, known)))
        return Freed(np.searchsorted(known, rows_of_known.owners), rows_of_known.rows, rows_of_known.amounts)

    def by_node(self) -> tuple[Rows, Amounts]:
        """The sum over all candidates, once for each node."""
        order = np.argsort(self.rows, kind="stable")
        starts = np.flatnonzero(np.diff(self.rows[order], prepend=-1))
        if not len(starts):
            return self.rows, self.amounts
        return self.rows[order[starts]], np.add.reduceat(self.amounts[:, order], starts, axis=1)

    def by_owner(self) -> dict[int, tuple[Rows, Amounts]]:
        """The rows and amounts of each candidate that has an entry."""
        starts = np.flatnonzero(np.diff(self.owners, prepend=-1))
        ends = [*starts[1:].tolist(), len(self.owners)][: len(starts)]
        return {
            int(self.owners[start]): (self.rows[start:end], self.amounts[:, start:end])
            for start, end in zip(starts.tolist(), ends, strict=True)
        }


def leave_out(statement: Statement, gone: Sequence[Candidate], freed: Freed) -> None:
    """Show the nodes without these candidates. ``freed``: their room, in all lines."""
    statement.add(*freed.by_node())
    hide(statement, gone)


def hide(statement: Statement, gone: Iterable[Candidate]) -> None:
    """Show the nodes without the pods of these candidates, whose room is free already."""
    if pods := [pod for candidate in gone for pod in candidate.pods]:
        statement.show(statement.snapshot.among(Apart(statement.snapshot.others.tenants, pods)))


def add(free: Amounts, freed: Freed) -> None:
    """Add all entries to the free amounts of all nodes."""
    for line, amounts in zip(free, freed.amounts, strict=True):
        np.add.at(line, freed.rows, amounts)


def freed_by(candidates: Sequence[Candidate], snapshot: Snapshot) -> Freed:
    """The room that each candidate frees, once for each node. Claims on unknown nodes free nothing."""
    shapes: dict[Requests, int] = {}
    entries = [
        (number, row, shapes.setdefault(held.requests, len(shapes)), held.pods)
        for number, candidate in enumerate(candidates)
        for held in candidate.claims
        if (row := snapshot.rows.get(held.node)) is not None
    ]
    each = np.zeros((len(snapshot.free), max(1, len(shapes))), dtype=np.int64)
    for requests, at in shapes.items():
        for name, much in requests:
            if (line := snapshot.resources.get(name)) is not None:
                each[line, at] = much
    owners, rows, shape, pods = np.array(entries, dtype=np.int64).reshape(-1, 4).T
    return _once(owners.astype(np.intp), rows.astype(np.intp), each[:, shape] * pods)


def _once(owners: Rows, rows: Rows, amounts: Amounts) -> Freed:
    """Add up the entries of one candidate on one node."""
    order = np.lexsort((rows, owners))
    owners, rows, amounts = owners[order], rows[order], amounts[:, order]
    new = (np.diff(owners, prepend=-1) != 0) | (np.diff(rows, prepend=-1) != 0)
    starts = np.flatnonzero(new)
    if len(starts) == len(rows):
        return Freed(owners, rows, amounts)
    return Freed(owners[starts], rows[starts], np.add.reduceat(amounts, starts, axis=1))
