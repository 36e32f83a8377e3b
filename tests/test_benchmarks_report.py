"""The reports of the benchmarks: tables, figures that must not be, goals, and the document that quotes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct, structs

from benchmarks import contention, core, gang, latency, memory, preemption, report, throughput, waiting, writes
from benchmarks.benchmark import Benchmark, Table
from benchmarks.goals import GOALS, judged
from benchmarks.kinds import KINDS, kind_of
from benchmarks.official import benchmarks
from benchmarks.record import Content, RecordError
from benchmarks.record import write as keep
from benchmarks.stage import Mode
from benchmarks.summary import summary
from tests.test_benchmarks import ABOUT, run_of


def column(table: Table, name: str) -> list[str]:
    return [row[table.columns.index(name)] for row in table.rows]


def content_of(name: str, runs: Sequence[Struct]) -> Content:
    numbered = {str(number): msgspec.to_builtins(run) for number, run in enumerate(runs)}
    return Content(
        name, {"nodes": 1000, "modes": ["nominate", "ungated"], "alike": False}, ABOUT, "2026-08-20", numbered
    )


def large(mode: Mode, seconds: list[float], cliques: list[int]) -> gang.Run:
    return gang.Run(mode, 512, [0.4] * len(seconds), seconds, 0.2, cliques, 4)


def contended(mode: Mode, *, whole: int = 4, partial: int = 0, seconds: float | None = 1.5) -> contention.Run:
    cpu = {"kube-scheduler": 0.1, "extender": 0.2, "etcd": 3.0}
    return contention.Run(mode, 12, 4, 0.3, seconds, 0.1, whole, partial, 60.0, cpu)


def waited(mode: Mode, *, bound: int = 0, flushed: int = 0) -> waiting.Run:
    quiet = waiting.Spell(20.0, {"kube-scheduler": 0.004, "extender": 0.006, "etcd": 0.5}, 0)
    churn = waiting.Spell(20.0, {"kube-scheduler": 0.05, "extender": 0.05}, 7)
    return waiting.Run(mode, 1000, 8000, 10.0, 20.0, 4.0, 32.0, 16000, churn, quiet, churn, bound, flushed)


def called(what: str, inside_p99_ms: float | None, **client: float) -> latency.Run:
    return latency.Run(what, {"answered": 100, "refused": 0, "failed": 0, **client}, inside_p99_ms)


def test_throughput_tables_show_medians_sums_and_the_worst() -> None:
    runs = [
        run_of(Mode.ALL, 1, pods_per_s=100.0),
        run_of(Mode.NOMINATE, 1, pods_per_s=300.0, writes={"ungate": 1.0, "binding": 1.0}, longest_partial_s=0.02),
        run_of(Mode.NOMINATE, 2, pods_per_s=200.0, cpu_ms={"etcd": 2.0, "extender": 0.5}, cliques_at_most=2),
    ]
    speed, writes, cost = throughput.tables(runs)
    assert column(speed, "pods/s") == ["100", "250"]
    assert column(speed, "x all") == ["1.00", "3.00"]
    assert column(speed, "x adaptive") == ["-", "-"]
    assert column(speed, "at most") == ["1", "2"]
    assert column(speed, "longest partial") == ["10 ms", "20 ms"]
    assert column(writes, "sum") == ["0.00", "1.00"], "medians over the rounds of a mode"
    assert column(cost, "etcd") == ["1.00", "1.50"]


def test_a_large_gang_in_more_cliques_than_it_needs_is_a_problem() -> None:
    runs = [large(Mode.ADAPTIVE, [0.3], [30]), large(Mode.NOMINATE, [1.0, 3.0, 2.0], [4, 5, 4])]
    (table,) = gang.tables(runs)
    assert column(table, "last creation to last bind") == ["0.30 s", "2.00 s"]
    assert gang.problems(runs) == ["nominate: the gang lies in 5 cliques instead of 4"]


def test_contention_is_told_by_who_is_whole_and_by_what_waiting_cost() -> None:
    runs = [contended(Mode.NOMINATE), contended(Mode.UNGATED, whole=3, partial=1, seconds=None)]
    (table,) = contention.tables(runs)
    assert column(table, "whole after") == ["1.50 s", "never"]
    assert column(table, "CPU extender") == ["0.20 s", "0.20 s"]
    assert contention.problems(runs) == ["ungated: 3 gangs are whole and 1 partial, where 4 fit"]


def test_waiting_is_told_as_shares_of_a_core() -> None:
    shares, arrival = waiting.tables([waited(Mode.NOMINATE)])
    assert column(shares, "together") == ["10.0%", "1.0%", "10.0%"]
    assert column(arrival, "fruitless cycles per pod") == ["2.00"]
    assert waiting.problems([waited(Mode.NOMINATE)]) == []
    assert len(waiting.problems([waited(Mode.UNGATED, bound=2, flushed=3)])) == 2


def test_latency_without_an_answer_has_no_percentiles_but_is_a_problem() -> None:
    reports = [latency.Report([called("bind", None, failed=100, answered=0), called("filter: x", 0.7, p99_ms=1.25)])]
    (table,) = latency.tables(reports)
    assert column(table, "p99 ms") == ["-", "1.25"]
    assert column(table, "inside p99 ms") == ["-", "0.7"]
    assert latency.problems(reports) == ["bind: 100 calls failed"]


def test_memory_is_told_by_the_worst_start() -> None:
    (table,) = memory.tables([memory.Run(5000, 20000, [3.0, 5.0, 4.0], [2.0] * 3, [250.0, 280.0, 260.0], [300.0] * 3)])
    assert (table.rows[0][1:3], table.rows[0][4]) == (("4.00 s", "5.00 s"), "280 MiB")


def test_ways_to_write_are_told_write_by_write() -> None:
    def way(what: str, patch: str, cost: float) -> writes.Run:
        return writes.Run(what, patch, patch == "", cost, 0.25, 0.5, 300.0)

    runs = [way("ungate", "merge", 1.0), way("Binding", "", 2.0), way("ungate", "strategic-merge", 3.0)]
    (table,) = writes.tables([writes.Report(runs), writes.Report([way("ungate", "merge", 1.5)])])
    assert column(table, "write") == ["ungate", "ungate", "Binding"]
    assert column(table, "patch") == ["merge", "strategic-merge", "-"]
    assert column(table, "kube-apiserver ms") == ["1.25", "3.00", "2.00"]


def test_the_core_places_what_fits_and_keeps_what_does_not_waiting() -> None:
    """The benchmark checks that itself: a gang of 512 without a plan, or a waiting one with a plan, is an error."""
    run = core.measure_here(160, gangs=3)
    assert (len(run.small_ms), len(run.large_ms), len(run.pass_ms)) == (50, 10, 5)
    speed, asking = core.tables([run])
    assert speed.rows[0][0] == f"160 ({run.pods:,} pods)"
    questions = [*core.QUESTIONS.values(), core.RELATED]
    assert column(asking, "gang") == [question.words for group in questions for question in group]


def test_nodes_with_twelve_names_are_compared_with_nodes_with_four() -> None:
    assert len(core.OTHER_NAMES) == 8
    few, many = core.compare_names(160, gangs=2)
    assert few.keys() == many.keys() == {"gang of 8", "gang of 512", "pass over waiting gangs"}
    assert [len(times) for times in many.values()] == [50, 10, 5]
    names = core.Names({"gang of 8": [2.0, 1.0, 3.0]}, {"gang of 8": [2.2, 9.0, 1.0]}, 20.0, 21.0)
    assert names.ratios() == {"gang of 8": pytest.approx(1.1), "memory": pytest.approx(1.05)}
    run = structs.replace(core.Run(5000, 1, 0.1, 20.0, [1.0], [1.0], {}, 1, [1.0], 1.0), names=names)
    assert core.tables([run])[2].rows == [("gang of 8", "1.10"), ("memory", "1.05")]


def test_gangs_have_expected_starts_while_their_cost_is_measured() -> None:
    starts = core.measure_starts(200, 20)
    assert 0 < starts.known <= 20
    assert len(starts.all_ms) == len(starts.longest_ms) == core.PASSES
    run = structs.replace(core.Run(5000, 1, 0.1, 20.0, [1.0], [1.0], {}, 1, [1.0], 1.0), starts=starts)
    (table,) = core.tables([run])[2:]
    assert table.rows[0][:2] == ("5,000", f"{starts.known}")


def test_the_victims_of_each_gang_are_searched_for_and_counted() -> None:
    run = preemption.measure(320, 40, lambda _message: None)
    assert run.candidates == 40
    assert all(len(times) == preemption.ROUNDS for times in run.search_ms.values())
    helped = [words for words, victims in run.victims.items() if victims]
    assert helped == [question.words for question in preemption.QUESTIONS if "nobody helps" not in question.words]
    (table,) = preemption.tables([run])
    assert column(table, "gang") == [question.words for question in preemption.QUESTIONS]


def test_a_goal_is_met_missed_or_not_measured() -> None:
    slow = [run_of(Mode.ALL, pods_per_s=100.0), run_of(Mode.NOMINATE, pods_per_s=200.0)]
    contents = {
        "throughput-5000": content_of("throughput-5000", slow),
        "contention": content_of("contention", [contended(Mode.NOMINATE)]),
        "latency": content_of(
            "latency", [latency.Report([called(latency.WAITING, 3.0), called(latency.SINGLE, 12.0)])]
        ),
    }
    rows = {row[0]: row[1:] for row in judged(contents).rows}
    assert rows["throughput, 5,000 nodes, nominate: times alone-all"] == ("at least 3.3", "2", "**no**")
    assert rows["throughput, 5,000 nodes, nominate: times alone-adaptive"][2] == "not measured"
    assert rows["throughput, 5,000 nodes, every mode of Muster: cliques of a gang"] == ("at most 1", "1", "yes")
    assert rows["contention, nominate: as many gangs as fit are whole after"] == ("at most 2 s", "1.5 s", "yes")
    assert rows["filter at 5,000 nodes, other pods: p99 inside the extender"][1:] == ("12 ms", "**no**")
    assert rows["filter at 5,000 nodes, planned pod: p99 inside the extender"][1:] == ("-", "not measured")


def test_the_summary_sets_what_was_measured_side_by_side() -> None:
    alone, ours = run_of(Mode.ALL, pods_per_s=20.0, cliques_per_gang=7.9), run_of(Mode.NOMINATE, pods_per_s=94.0)
    rows = {row[0]: row[1:] for row in summary({"throughput-5000": content_of("throughput-5000", [alone, ours])}).rows}
    assert rows["gangs of 8 pods, 5,000 nodes"] == ("94, 1.0", "-", "20, 7.9", "-")
    assert rows["jobs of 8x8, 1,000 nodes"] == ("-", "-", "-", "-")


def test_every_goal_is_about_a_benchmark_whose_results_are_committed() -> None:
    names = {benchmark.name for benchmark in benchmarks(repeat=1)}
    assert {goal.benchmark for goal in GOALS} <= names
    # A replay needs a trace that is not part of the project; faults and takeovers are on a page of their own.
    elsewhere = ("replay", "fragmentation", "takeover", "faults")
    assert {kind_of(name) for name in names} == {kind for name, kind in KINDS.items() if name not in elsewhere}


@pytest.mark.parametrize("one", benchmarks(repeat=1), ids=lambda benchmark: benchmark.name)
def test_the_document_tells_the_settings_of_each_benchmark(one: Benchmark[Any]) -> None:
    """A name among them had ended a whole run as its tables were written."""
    kept = msgspec.json.decode(msgspec.json.encode(dict(one.settings)))
    assert set(one.settings) >= {each.split(" ")[0] for each in report.settings_text(kept).split(", ")}


def test_the_places_of_a_document_are_filled_and_the_rest_is_left_alone(tmp_path: Path) -> None:
    keep(tmp_path / "gang.json", content_of("gang", [large(Mode.NOMINATE, [1.0], [4])]))
    document = "Before.\n<!-- figures: gang -->\nold\n<!-- end -->\nAfter.\n<!-- figures: core -->\n<!-- end -->\n"
    filled = report.filled(document, tmp_path)
    assert filled.startswith("Before.\n<!-- figures: gang -->\nMeasured on 2026-08-20: AMD EPYC, 2 cores, 8 GiB;")
    assert "Settings: nodes 1000, modes nominate ungated.\n" in filled
    assert "| nominate | 1.00 s | 1.00 to 1.00 s | 0.40 s | 0.20 s | 4 | 4 |\n" in filled
    assert "old" not in filled
    assert "After.\n<!-- figures: core -->\nNot measured yet.\n<!-- end -->\n" in filled
    assert report.filled(filled, tmp_path) == filled


def test_a_picture_is_shown_where_there_is_one(tmp_path: Path) -> None:
    keep(tmp_path / "throughput-1000.json", content_of("throughput-1000", [run_of(Mode.NOMINATE)]))
    place = "<!-- figures: throughput-1000 -->\n<!-- end -->\n"
    assert "![" not in report.filled(place, tmp_path)
    (tmp_path / "throughput-1000.svg").write_text(throughput.picture([run_of(Mode.NOMINATE)]))
    assert "(throughput-1000.svg)" in report.filled(place, tmp_path)


def test_runs_that_are_not_of_their_kind_are_refused(tmp_path: Path) -> None:
    keep(tmp_path / "core.json", content_of("core", [large(Mode.NOMINATE, [1.0], [4])]))
    with pytest.raises(RecordError, match="the runs of core cannot be read"):
        report.filled("<!-- figures: core -->\n<!-- end -->\n", tmp_path)


def test_the_document_says_what_the_results_say() -> None:
    assert report.up_to_date(), "write it anew: python -m benchmarks.report"
