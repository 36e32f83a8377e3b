"""The table of faults for rounds that went well, went badly, and did not get to the fault."""

from __future__ import annotations

from benchmarks.faults.campaign import Round, Struck, problems, tables
from benchmarks.faults.scenarios import PROCESSES, WRITES

FIRST = WRITES[0]


def rounds() -> list[Round]:
    return [
        Round([Struck(FIRST.name, FIRST.text, [], 1.0)]),
        Round([Struck(FIRST.name, FIRST.text, [], 3.0)]),
        Round([Struck(FIRST.name, FIRST.text, ["train: 3 of 32 members are bound, and it is NoRoom"], 60.0)]),
    ]


def test_each_fault_has_a_row_with_how_often_it_was_tried_and_ended_as_promised() -> None:
    [table] = tables(rounds())
    assert [row[0] for row in table.rows] == [fault.name for fault in (*WRITES, *PROCESSES)]
    assert table.rows[0][2:] == ("3", "2", "2.0 s", "3.0 s")
    assert table.rows[1][2:] == ("0", "0", "-", "-")


def test_what_was_not_as_promised_is_a_problem_of_the_benchmark() -> None:
    assert problems(rounds()) == [f"{FIRST.name}: train: 3 of 32 members are bound, and it is NoRoom"]


def test_no_two_faults_have_the_same_name() -> None:
    names = [fault.name for fault in (*WRITES, *PROCESSES)]
    assert len(set(names)) == len(names)
