"""The benchmark of the dashboard: the figures from its spells, and the plain clients that stand for browsers."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from benchmarks import dashboard
from benchmarks.dashboard import LIST, MAP, Arm, Run, Spell
from benchmarks.meter import family_ms
from benchmarks.viewers import First, Seen


def spell(arm: Arm, extender_s: float, *, inside_ms: float = 1.0, **delays: list[float]) -> Spell:
    its = {LIST: delays.get("of_list", []), MAP: delays.get("of_map", [])}
    return Spell(arm, 10.0, (1.0, 2.0, inside_ms), 7, 0, {"extender": extender_s, "dashboard": 0.5}, its)


RUN = Run(
    5000,
    2000,
    20,
    2,
    [First("", 64.0, 0.1, 0.3), First("map", 471.0, 0.4, 0.9)],
    [
        spell(Arm.UNSEEN, 1.02),
        spell(Arm.SEEN, 1.04, inside_ms=1.5, of_list=[0.2, 0.9], of_map=[0.4, 1.3]),
        spell(Arm.ALONE, 1.0),
        spell(Arm.UNSEEN, 1.02),
        spell(Arm.SEEN, 1.06, inside_ms=1.7, of_list=[0.4], of_map=[]),
        spell(Arm.ALONE, 1.0),
    ],
)


def test_the_goals_take_the_slowest_page_and_the_middle_spell() -> None:
    assert dashboard.first_s([RUN]) == 0.9
    assert dashboard.update_s([RUN]) == 1.3
    assert dashboard.filter_ms([RUN]) == 1.6
    assert dashboard.times_alone([RUN]) == 1.05
    assert dashboard.deadlines([RUN]) == 0


def test_the_tables_have_a_row_for_each_page_and_each_kind_of_spell() -> None:
    first, beside, updates, processes = dashboard.tables([RUN])
    assert first.rows[1] == ("/map", "471", "0.40", "0.90")
    assert [row[0] for row in beside.rows] == [*Arm]
    assert beside.rows[1] == (Arm.SEEN, "1.00", "2.00", "1.60", "0", "10.5", "5.0")
    assert updates.rows == [(f"/{LIST}", "3", "0.40", "0.90", "0.90"), (f"/{MAP}", "2", "0.85", "1.30", "1.30")]
    assert "2 of 20 viewers are pages in Chromium" in updates.title
    assert processes.rows[2] == (Arm.ALONE, "extender 10, dashboard 5")
    assert beside.title == "The extender beside the dashboard"
    assert dashboard.tables([replace(RUN, ahead=True)])[1].title.endswith(", which goes before all other processes")


def test_a_change_that_a_viewer_has_not_seen_counts_until_the_end() -> None:
    viewer = Seen(LIST, {"beat-1": 10.5, "tick-1": 10.1})
    times = {"beat-1": 10.0, "beat-2": 12.0, "tick-1": 10.0}
    assert [*dashboard._delays(viewer, "beat", times, 20.0)] == [0.5, 8.0]


def test_the_time_of_a_process_includes_that_of_its_descendants(tmp_path: Path) -> None:
    for pid, parent, ticks in ((7, 1, 100), (8, 7, 30), (9, 8, 20), (10, 1, 1000)):
        (tmp_path / str(pid)).mkdir()
        stat = f"{pid} (a ) b) S {parent} 7 7 0 -1 4194560 1 2 3 4 {ticks} 0 9 9 20 0 1 0 5 6 7\n"
        (tmp_path / str(pid) / "stat").write_text(stat)
    assert family_ms(7, tmp_path) == pytest.approx(1500.0)
