"""`muster bench creation`: the figures of its runs, and its complaints."""

from __future__ import annotations

from benchmarks import creation
from benchmarks.creation import AWAITED_S, Group, Run


def ran(*, writes: int = 1, refused: int = 1, bound_s: float = 12.4) -> Run:
    large = Group(pods=512, jobs=4, waited_s=100.2, bound_s=58.0, binding_s=1.25, writes=1, refused=0)
    return Run(seconds=160.0, pods=2128, groups=[large, Group(8, 10, 3.0, bound_s, 0.1, writes, refused)])


def test_its_tables_have_a_row_for_each_size() -> None:
    sizes, together = creation.tables([ran()])
    assert sizes.rows[0] == ("4 of 512 pods", "100 s", "58 s", "1.2 s", "1", "0")
    assert [row[0] for row in sizes.rows] == ["4 of 512 pods", "10 of 8 pods"]
    assert together.rows == [("2,128 pods", "160 s", "13.3")]
    assert all(len(row) == len(table.columns) for table in (sizes, together) for row in table.rows)


def test_a_job_that_is_started_again_and_small_ones_that_are_held_up_are_problems() -> None:
    assert creation.problems([ran()]) == []
    assert "written to 3 times" in creation.problems([ran(writes=3)])[0]
    assert "were refused" in creation.problems([ran(refused=9)])[0]
    assert "after its start" in creation.problems([ran(bound_s=2 * AWAITED_S)])[0]
