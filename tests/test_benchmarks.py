"""The arithmetic of the benchmarks, on figures whose results are known, and the files that they keep."""

from __future__ import annotations

import io
import math
import os
import signal
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from msgspec import Struct
from msgspec.structs import replace
from rich.console import Console
from typer.testing import CliRunner

from benchmarks import cli, official, running, throughput
from benchmarks.about import UNKNOWN, About, cpu_model
from benchmarks.benchmark import Benchmark, Kind, Table, carry_out, rounds
from benchmarks.drawing import Curve, apart, draw, scale
from benchmarks.meter import cpu_ms, memory_mib, used
from benchmarks.record import RecordError, read
from benchmarks.scrape import Page, quantile
from benchmarks.sightings import Sighting, longest_partial_s, spread
from benchmarks.stage import Mode, clique_of, gang, gangs
from devcluster.progress import Progress

ABOUT = About(cpu="AMD EPYC", cores=2, memory_gib=8, kubernetes="v1.36.3", python="3.11.7", muster="abc")


def run_of(mode: Mode, number: int = 1, *, pods_per_s: float = 100.0, **figures: object) -> throughput.Run:
    known: dict[str, object] = {
        "pods": 24,
        "seconds": 0.24,
        "cliques_per_gang": 1.0,
        "cliques_at_most": 1,
        "cliques_needed": 1,
        "partial": 0,
        "longest_partial_s": 0.01,
        "flushed": 0,
        "writes": {},
        "cpu_ms": {"etcd": 1.0},
        "curve": [(0.1, 1), (0.24, 24)],
    }
    return throughput.Run(mode=mode, round=number, pods_per_s=pods_per_s, **{**known, **figures})  # type: ignore[arg-type]


def test_processor_time_is_read_past_a_program_name_with_blanks_and_parentheses(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text("7 (a ) b) S 1 7 7 0 -1 4194560 1 2 3 4 150 50 9 9 20 0 1 0 5 6 7\n")
    assert cpu_ms(7, tmp_path) == 2000.0


def test_a_process_that_has_not_begun_has_used_no_time(tmp_path: Path) -> None:
    assert cpu_ms(7, tmp_path) == 0.0
    assert used({"etcd": 5.0, "kube-scheduler": 3.0}, {"etcd": 2.0}) == {"etcd": 3.0, "kube-scheduler": 3.0}


def test_memory_is_given_in_mib_now_and_at_its_highest(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "status").write_text("Name:\tmuster\nVmHWM:\t  4096 kB\nVmRSS:\t  2048 kB\nThreads:\t3\n")
    assert memory_mib(7, tmp_path) == (2.0, 4.0)


def test_samples_are_summed_over_the_labels_that_were_not_asked_for() -> None:
    page = Page(
        "# TYPE muster_api_writes counter\n"
        'muster_api_writes_total{kind="binding",outcome="done"} 3.0\n'
        'muster_api_writes_total{kind="binding",outcome="refused"} 1.0\n'
        'muster_api_writes_total{kind="ungate",outcome="done"} 2.0\n'
    )
    assert page.total("muster_api_writes_total") == 6.0
    assert page.total("muster_api_writes_total", outcome="done") == 5.0
    assert page.by("kind", "muster_api_writes_total") == {"binding": 4.0, "ungate": 2.0}
    assert page.total("unknown") == 0.0


def test_a_quantile_lies_inside_the_bucket_that_holds_its_rank() -> None:
    after = {"0.001": 60.0, "0.002": 110.0, "0.004": 110.0, "+Inf": 110.0}
    before = {"0.001": 10.0, "0.002": 10.0, "0.004": 10.0, "+Inf": 10.0}
    assert quantile(0.5, after, before) == 0.001
    assert quantile(0.75, after, before) == pytest.approx(0.0015)
    assert quantile(0.99, {"0.001": 0.0, "+Inf": 5.0}) == 0.001, "beyond the last finite bound nothing is known"
    assert math.isnan(quantile(0.5, before, before))


def test_the_longest_partial_time_counts_from_a_gangs_first_pod_to_the_one_that_makes_it_whole() -> None:
    pods = {
        "a0": Sighting("a", "node-0", 1.0),
        "a1": Sighting("a", "node-17", 1.5),
        "b0": Sighting("b", "node-0", 2.0),
        "single": Sighting("", "node-3", 9.0),
    }
    assert longest_partial_s({uid: pods[uid] for uid in ("a0", "a1", "single")}, 2, until=9.0) == 0.5
    assert longest_partial_s(pods, 2, until=9.0) == 7.0, "gang b never became whole"
    assert longest_partial_s({}, 2, until=9.0) == 0.0
    assert spread(pods, clique_of) == [2, 1]


def test_pods_of_a_gang_name_it_and_its_size() -> None:
    pods = list(gangs(2, 3, Mode.NOMINATE))
    assert [pod["metadata"]["name"] for pod in pods] == [f"gang-{g}-{i}" for g in range(2) for i in range(3)]
    assert {pod["metadata"]["annotations"]["muster.dev/min-member"] for pod in pods} == {"3"}
    assert gang("g", 1, Mode.ALL)[0]["spec"]["schedulerName"] == "default-scheduler"


def test_a_thinned_curve_keeps_its_ends() -> None:
    instants = [number / 100 for number in range(1, 3001)]
    curve = throughput.thinned(instants, points=5)
    assert curve == [(0.01, 1), (7.51, 751), (15.0, 1500), (22.5, 2250), (30.0, 3000)]
    assert throughput.thinned([0.5], points=5) == [(0.5, 1)]


def test_a_ratio_is_the_median_of_what_was_measured_in_the_same_round() -> None:
    runs = [
        *(run_of(Mode.ALL, number, pods_per_s=speed) for number, speed in ((1, 100.0), (2, 50.0), (3, 100.0))),
        *(run_of(Mode.NOMINATE, number, pods_per_s=speed) for number, speed in ((1, 300.0), (2, 150.0), (4, 900.0))),
    ]
    assert throughput.ratio(runs, Mode.NOMINATE, Mode.ALL) == 3.0
    assert throughput.ratio(runs, Mode.NOMINATE, Mode.ADAPTIVE) is None, "no reference was measured"


def test_a_broken_promise_is_a_problem_of_muster_but_not_of_kube_scheduler_alone() -> None:
    assert throughput.problems([run_of(Mode.NOMINATE), run_of(Mode.ALL, partial=2, cliques_at_most=3)]) == []
    assert throughput.problems([run_of(Mode.UNGATED, partial=2, cliques_at_most=3, flushed=1)]) == [
        "ungated: 2 gangs are bound in part",
        "ungated: a gang lies in 3 cliques instead of 1",
        "ungated: 1 pods waited for kube-scheduler's flush",
    ]


def test_every_mode_is_measured_before_any_is_measured_again_and_the_slow_path_only_once() -> None:
    steps = list(rounds([Mode.ALL, Mode.UNGATED, Mode.NOMINATE], 2))
    assert [(mode, number) for _, mode, number in steps] == [
        (Mode.ALL, 1), (Mode.UNGATED, 1), (Mode.NOMINATE, 1), (Mode.ALL, 2), (Mode.NOMINATE, 2),
    ]  # fmt: skip
    assert len({step for step, _, _ in steps}) == 5


def test_marks_of_an_axis_are_round_and_reach_the_largest_value() -> None:
    assert scale(47.0) == (10, 50)
    assert scale(3000.0) == (1000, 3000)
    assert scale(0.3) == pytest.approx((0.1, 0.3))


def test_labels_at_the_same_height_are_moved_apart() -> None:
    assert apart([10.0, 10.0, 90.0, 12.0], least=18) == [10.0, 28.0, 90.0, 46.0]


def test_the_picture_is_well_formed_and_names_each_curve() -> None:
    picture = draw("a < b", "seconds", [Curve("one & only", [(0, 0), (2, 5)]), Curve("other", [(0, 0), (1, 9)])])
    texts = [element.text for element in ET.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")]  # noqa: S314
    assert {"a < b", "one & only", "other", "seconds"} <= set(texts)


def test_the_processor_is_named_as_linux_names_it() -> None:
    assert cpu_model("processor : 0\nmodel name\t: AMD EPYC 7B13\n") == "AMD EPYC 7B13"
    assert cpu_model("processor : 0\n") != ""


class Figure(Struct, frozen=True):
    value: int


class Trial:
    """A benchmark of two steps that only count; one of them can be made to fail."""

    def __init__(self, path: Path | None, about: About = ABOUT) -> None:
        self.path, self.about, self.fails = path, about, ""
        self.measured: list[str] = []
        self.shown = io.StringIO()

    def benchmark(self, settings: dict[str, int] | None = None) -> Benchmark[Figure]:
        def step(name: str, progress: Progress) -> Figure:
            if name == self.fails:
                raise TimeoutError("it took too long")
            progress("measuring")
            self.measured.append(name)
            return Figure(len(self.measured))

        kind = Kind(
            Figure,
            lambda runs: [Table("Figures", ("value",), [(str(run.value),) for run in runs])],
            lambda runs: [f"{run.value} is too much" for run in runs if run.value > 1],
        )
        steps = {name: partial(step, name) for name in ("first", "second")}
        return Benchmark("trial", kind, settings or {"nodes": 1}, steps)

    def carry_out(self, settings: dict[str, int] | None = None, *, go_on: bool = True) -> tuple[list[str], list[str]]:
        terminal = Console(file=self.shown)
        outcome = carry_out(self.benchmark(settings), self.about, self.path, terminal, go_on=go_on)
        return outcome.failures, outcome.problems


def test_what_a_benchmark_finds_is_shown_kept_and_judged(tmp_path: Path) -> None:
    trial = Trial(tmp_path / "trial.json")
    assert trial.carry_out() == ([], ["trial: 2 is too much"])
    content = read(tmp_path / "trial.json")
    assert content.runs == {"first": {"value": 1}, "second": {"value": 2}}
    assert (content.about, content.settings) == (ABOUT, {"nodes": 1})
    assert "Figures" in trial.shown.getvalue()


def test_a_step_that_fails_is_told_and_tried_again_next_time_while_the_others_stay(tmp_path: Path) -> None:
    trial = Trial(tmp_path / "trial.json")
    trial.fails = "first"
    assert trial.carry_out() == (["trial, first: it took too long"], [])
    trial.fails = ""
    trial.carry_out()
    assert trial.measured == ["second", "first"]


def test_all_is_measured_again_when_the_settings_changed_or_nothing_is_to_be_kept(tmp_path: Path) -> None:
    trial = Trial(tmp_path / "trial.json")
    trial.carry_out()
    trial.carry_out({"nodes": 2})
    assert trial.measured == ["first", "second"] * 2
    trial.carry_out({"nodes": 2}, go_on=False)
    assert trial.measured == ["first", "second"] * 3


def test_nothing_is_kept_for_a_copy_of_the_source_that_does_not_know_its_commit(tmp_path: Path) -> None:
    trial = Trial(tmp_path / "trial.json", replace(ABOUT, muster=UNKNOWN))
    trial.carry_out()
    trial.carry_out()
    assert trial.measured == ["first", "second"] * 2


class All:
    """`muster bench all`, with one benchmark that is only a trial."""

    def __init__(self, results: Path, trial: Trial) -> None:
        self.results, self.trial = results, trial

    def __call__(self, *args: str) -> int:
        return CliRunner().invoke(cli.main, ["all", "--results", str(self.results), *args]).exit_code


@pytest.fixture
def run_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[All]:
    trial = Trial(None)
    monkeypatch.setattr(official, "benchmarks", lambda _repeat: [trial.benchmark()])
    monkeypatch.setattr(running, "about", lambda: ABOUT)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield All(tmp_path / "results", trial)
    for number, handler in handlers.items():
        signal.signal(number, handler)


def test_one_command_measures_all_and_measures_nothing_twice_unless_it_is_told_to(run_all: All) -> None:
    assert run_all() == 1, "a value that must not be was seen"
    assert read(run_all.results / "trial.json").runs.keys() == {"first", "second"}
    run_all("--only", "trial")
    assert run_all.trial.measured == ["first", "second"]
    run_all("--again")
    assert run_all.trial.measured == ["first", "second"] * 2


def test_one_command_says_by_its_exit_code_that_something_could_not_be_measured(run_all: All) -> None:
    run_all.trial.fails = "second"
    assert run_all() == 2
    assert read(run_all.results / "trial.json").runs.keys() == {"first"}


def test_a_benchmark_that_does_not_exist_is_not_passed_over_in_silence(run_all: All) -> None:
    assert run_all("--only", "trail") == 2
    assert run_all.trial.measured == []


def test_a_device_is_written_to_and_never_replaced_by_the_results(tmp_path: Path) -> None:
    device = tmp_path / "device"
    os.mkfifo(device)
    reader = os.open(device, os.O_RDONLY | os.O_NONBLOCK)
    Trial(device).carry_out()
    os.close(reader)
    assert device.is_fifo()
    assert list(tmp_path.iterdir()) == [device]


def test_a_results_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(RecordError, match=r"bad\.json is not a results file"):
        read(tmp_path / "bad.json")
    with pytest.raises(RecordError, match=r"none\.json: No such file"):
        read(tmp_path / "none.json")
