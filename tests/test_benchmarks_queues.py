"""The benchmark of queues, in small: the measured events happen, and its goals are read from its results."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.queue_courses import BASELINE, Course, Figures, play
from benchmarks.queues import ADMISSION, ALONE, CHANGED, NOTHING, QUEUED, Run, measure, more, passing, tables


def silent(_: str) -> None:
    """Discard the progress."""


def test_a_crowd_is_measured_with_and_without_queues() -> None:
    runs = measure(10, silent)
    assert [run.queues for run in runs] == [10, 0, 0]
    assert set(runs[0].ms) > {NOTHING, ADMISSION, CHANGED}
    assert set(runs[2].ms) == {ADMISSION}, "where nobody waits nothing else is to be measured"
    (table,) = tables(runs)
    assert table.rows[-1][2:] == ("-", "-")


def test_a_course_is_played_to_its_end() -> None:
    sets = [replace(shape, count=shape.count // 10) for shape in BASELINE]
    figures = play(Course("small", 2, 2, sets, 8), silent)
    assert sum(shape.count * shape.units * shape.runs_s for shape in sets) == 132
    assert figures.lasts_s >= 132 / 20, "no more quota is used than there is"
    assert figures.waits_s["large"] > figures.waits_s["small"]
    assert 0 < figures.used <= 1


def test_goals_are_read_from_the_results() -> None:
    crowd = [
        Run(QUEUED, 4, 60, 20, {NOTHING: [3.0, 1.0, 2.0], ADMISSION: [5.0, 4.0, 9.0]}, {NOTHING: 1.0, ADMISSION: 2.0}),
        Run(ALONE, 0, 0, 20, {ADMISSION: [1.0, 0.5, 2.0]}, {ADMISSION: 2.0}),
    ]
    assert passing(crowd) == 2.0
    assert more(crowd) == 4.0
    assert more(crowd[:1]) is None
    assert passing(crowd[1:]) is None
    course = Run("course", 4, 100, 8, figures=Figures(0.2, 3.0, 70.0, {"small": 1.0, "medium": 2.0, "large": 3.0}, 0.9))
    (_, table) = tables([*crowd, course])
    assert table.rows == [("course", "0.2 s", "2.00 ms", "3.0 ms", "70.0 s", "90%", "1.0 s", "2.0 s", "3.0 s")]
