"""Load tests measure, judge, write and compare. The gangs: tests/integration/test_bench_gangs.py."""

from __future__ import annotations

import asyncio
import json
import math
import os
import socket
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from extender.cli.bench import clean
from extender.cli.bench.clean import Leftover
from extender.cli.bench.files import Files, Results, Writer
from extender.cli.bench.instants import METRICS, Clock, Instants, Measured, ServerClock, Table
from extender.cli.bench.measures import Sample, Threshold, ThresholdError
from extender.cli.bench.plan import Course, Kind, Shape, started
from extender.cli.bench.room import Room, beyond
from extender.cli.loadtest import main
from extender.cli.output import OutputError
from extender.kube.api.connection import UnreachableError
from extender.kube.client import Kube

SHAPE = Shape("muster", "pause", {"nvidia.com/gpu": "1"}, {"pool": "a"}, ("nvidia.com/gpu",))


def course(**changed: Any) -> Course:
    return Course(**{"kind": Kind.PODS, "gangs": 3, "size": 2, "rate": 4.0, "shape": SHAPE, "run": "r1", **changed})


def test_what_never_ends_counts_as_slower_than_all_others() -> None:
    sample = Sample.of([30, 10, 20], missing=1)
    assert [sample.quantile(percent) for percent in (0, 25, 50, 75, 76, 100)] == [10, 10, 20, 30, math.inf, math.inf]
    figures = sample.figures()
    assert (figures["p50"], figures["p99"], figures["max"], figures["missing"], figures["count"]) == (
        20,
        None,
        None,
        1,
        4,
    )
    assert math.isnan(Sample(()).quantile(50))
    assert Sample(()).figures()["p50"] is None


def test_a_quantile_lies_between_bounds_that_few_samples_cannot_give() -> None:
    many = Sample.of(range(1, 1001))
    low, high = many.between(50)
    assert low < 500 < high < 540
    assert many.between(99)[1] < math.inf
    assert Sample.of(range(20)).between(99)[1] == math.inf
    alike = Sample.of(range(1, 1001), alike=8).between(50)
    assert alike[1] - alike[0] > 2.5 * (high - low), "pods of one gang are no independent samples"


@pytest.mark.parametrize(
    ("text", "value", "broken"),
    [
        ("p50(bind) > 2s", 2000.0, False),
        ("p50(bind) >= 2s", 2000.0, True),
        ("p75(bind)>2500ms", 3000.0, True),
        ("max(bind) > 1h", None, None),
        ("max(gang.bound) < 1m", math.inf, False),
        (" avg( bind ) < 2.5s ", math.inf, False),
        ("min(bind) < 0.02m", 1000.0, True),
        ("p99(planned) > 1s", math.nan, None),
        ("errors > 0", 1, True),
        ("error_rate > 25%", 25.0, False),
        ("errors > 1", 1, False),
    ],
)
def test_a_threshold_is_judged(text: str, value: float | None, broken: bool | None) -> None:
    samples = dict.fromkeys(METRICS, Sample(())) | {"bind": Sample.of([1000, 2000, 3000], missing=1)}
    samples["gang.bound"] = Sample((), missing=1)
    if value is None:
        with pytest.raises(ThresholdError, match=r"is no threshold"):
            Threshold.read(text, METRICS)
        return
    verdict = Threshold.read(text, METRICS).judge(samples, errors=1, count=4)
    assert (math.isnan(verdict.value), verdict.broken) == (math.isnan(value), broken)
    assert math.isnan(value) or verdict.value == value
    assert str(verdict).startswith({True: "✗ ", False: "✓ ", None: "? "}[broken])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("p99(bindd) > 2s", "there is no latency bindd; there are created, planned"),
        ("p99(bind) > 2", "say us, ms, s or m"),
        ("p0(bind) > 2s", "above 0 and at most 100"),
        ("p101(bind) > 2s", "above 0 and at most 100"),
        ("p99(bind) = 2s", "write it like p99(bind) > 2s"),
        ("errors > 1s", "errors is a number"),
        ("error_rate > 1", "error_rate has %"),
        ("", "write it like"),
    ],
)
def test_a_threshold_that_cannot_be_read_says_what_can(text: str, why: str) -> None:
    with pytest.raises(ThresholdError) as refused:
        Threshold.read(text, METRICS)
    assert why in str(refused.value)
    ended = CliRunner().invoke(main, ["gangs", "--fail-if", text])
    assert (ended.exit_code, why in ended.stderr) == (2, True), "before anything is created"


def results(samples: dict[str, Sample], *thresholds: str) -> Results:
    read = [Threshold.read(text, METRICS) for text in thresholds]
    verdicts = [threshold.judge(samples, 0, 4) for threshold in read]
    pods = [{"podName": "a", "schedulingLatency": 12}]
    return Results("muster bench gangs", "r1", {"some": 1}, verdicts, pods, samples, "2026-01-01T00:00:00.000000Z")


def test_files_are_those_of_kube_burner_and_junit(tmp_path: Path) -> None:
    samples = {"bind": Sample.of([10, 20, 30.4]), "planned": Sample(()), "bound": Sample.of([1], missing=1)}
    files = Files(tmp_path / "run.json", tmp_path / "new" / "burner", tmp_path / "junit.xml")
    writer = Writer(files, "my-job")
    assert not (tmp_path / "run.json").exists()
    writer.write(results(samples, "p99(bind) > 1s", "max(bind) > 30ms", "p50(planned) > 1s"))
    assert json.loads((tmp_path / "run.json").read_text()) == {"some": 1}
    pods = json.loads((tmp_path / "new/burner/podLatencyMeasurement-my-job.json").read_text())
    same = {"uuid": "r1", "jobName": "my-job"}
    assert pods == [{"podName": "a", "schedulingLatency": 12, "metricName": "podLatencyMeasurement", **same}]
    quantiles = json.loads((tmp_path / "new/burner/podLatencyQuantilesMeasurement-my-job.json").read_text())
    assert quantiles == [
        {
            "quantileName": "bind", "P99": 30, "P95": 30, "P50": 20, "max": 30, "avg": 20.13,
            "timestamp": "2026-01-01T00:00:00.000000Z", "metricName": "podLatencyQuantilesMeasurement", **same,
        }
    ]  # fmt: skip
    suite = ElementTree.fromstring((tmp_path / "junit.xml").read_bytes())  # noqa: S314 - it is ours
    assert [suite.get(name) for name in ("tests", "failures", "errors")] == ["3", "1", "1"]
    cases = [(case.get("name"), [child.tag for child in case]) for case in suite]
    assert cases == [("p99(bind) > 1s", []), ("max(bind) > 30ms", ["failure"]), ("p50(planned) > 1s", ["error"])]


def test_files_that_cannot_be_written_stop_a_run_before_it_begins(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for files in (
        Files(output=tmp_path / "none" / "run.json"),
        Files(kube_burner=tmp_path / "file"),
        Files(kube_burner=Path("-")),
        Files(output=tmp_path / "same", junit=tmp_path / "same"),
    ):
        with pytest.raises(OutputError):
            Writer(files, "job")


def run_of(latencies_ms: list[float], rate: float = 5, errors: int = 0) -> dict[str, Any]:
    return {
        "schema": "muster.dev/bench-gangs/v1",
        "settings": {"rate": rate},
        "errors": {"not bound": errors} if errors else {},
        "latency_ms": {"bound": Sample.of(latencies_ms).figures(), "planned": Sample(()).figures()},
    }


def compared(tmp_path: Path, before: object, after: object) -> tuple[int, str]:
    for name, document in (("before", before), ("after", after)):
        (tmp_path / name).write_text(json.dumps(document))
    argv = ["gangs", "--compare", str(tmp_path / "before"), str(tmp_path / "after")]
    ended = CliRunner().invoke(main, argv, env={"COLUMNS": "200"})
    return ended.exit_code, ended.output


def test_two_runs_are_compared_with_a_verdict(tmp_path: Path) -> None:
    slow, fast = [float(100 + at) for at in range(600)], [float(80 + at % 90) for at in range(600)]
    assert compared(tmp_path, run_of(slow), run_of(slow))[1].endswith("no difference beyond noise\n")
    code, output = compared(tmp_path, run_of(fast), run_of(slow, rate=10))
    assert (code, "the runs differ in rate: 5 and 10" in output) == (1, True)
    assert "worse: p50(bound), p90(bound), p95(bound), p99(bound)" in output
    code, output = compared(tmp_path, run_of(slow), run_of(fast))
    assert (code, "better: p50(bound)" in output, "-" in output) == (0, True, True)
    code, output = compared(tmp_path, run_of(slow), run_of(slow, errors=2))
    assert (code, "worse: errors" in output) == (1, True)
    few = [100.0, 110.0, 120.0]
    assert compared(tmp_path, run_of(few), run_of([200.0, 210.0, 220.0]))[0] == 0, "three samples tell nothing"


@pytest.mark.parametrize(
    "other",
    [
        [],
        {},
        {"schema": "muster.dev/bench-gangs/v1", "settings": {}, "latency_ms": {}, "errors": {}},
        {**run_of([1.0]), "latency_ms": {"bound": {}}},
        {**run_of([1.0]), "latency_ms": {"bound": {"count": 1, "p50": "x", "between": 3}}},
        {**run_of([1.0]), "schema": "muster.dev/bench-latency/v1"},
        {**run_of([1.0]), "errors": {"a": "b"}},
    ],
)
def test_what_cannot_be_compared_is_told_in_a_sentence(tmp_path: Path, other: object) -> None:
    code, output = compared(tmp_path, run_of([1.0]), other)
    assert (code, len(output.strip().splitlines())) == (2, 1), output
    assert "Traceback" not in output


def test_all_pods_of_a_gang_are_due_at_once_at_a_constant_rate() -> None:
    small_course = course()
    assert [small_course.due_s(number) for number in range(3)] == [0, 0.5, 1.0]
    assert (small_course.pods, small_course.seconds) == (6, 1.0)
    objects = list(small_course.objects("gang-1"))
    assert {path for path, _ in objects} == {"/api/v1/namespaces/muster-bench-r1/pods"}
    assert [obj["metadata"]["name"] for _, obj in objects] == ["gang-1-0", "gang-1-1"]
    for _, obj in objects:
        assert obj["metadata"]["annotations"] == {"muster.dev/pod-group": "gang-1", "muster.dev/min-member": "2"}
        assert obj["metadata"]["labels"]["bench.muster.dev/run"] == "r1"
        assert obj["spec"]["nodeSelector"] == {"pool": "a"}
        assert obj["spec"]["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    ((path, job),) = course(kind=Kind.JOB).objects("gang-1")
    assert path == "/apis/batch/v1/namespaces/muster-bench-r1/jobs"
    assert (job["spec"]["suspend"], job["spec"]["completions"], job["spec"]["parallelism"]) == (True, 2, 2)


def test_a_question_is_asked_beyond_safe_limits() -> None:
    room = Room(nodes=10, places=80, of_cluster=10)
    assert list(beyond(course(gangs=10, size=4, rate=10), room)) == []
    assert "more than half" in next(beyond(course(gangs=11, size=4), room))
    assert "gangs wait for room" in next(beyond(course(gangs=41, size=2), room))
    assert list(beyond(course(gangs=100, size=2, rate=5, lifetime_s=3), room)) == [], "30 pods at once"
    questions = list(beyond(course(gangs=101, size=2, rate=11, lifetime_s=0), room))
    assert questions == [
        "11 pods a second are more than 10: others are answered more slowly meanwhile",
        "202 pods are more than 200",
    ]
    assert list(beyond(course(gangs=300, size=4, rate=50), Room(500, 4000, 500))) == []


def measured(*pods: Instants, gangs: int = 1) -> Measured:
    table = Table(course(gangs=gangs), Clock())
    for number, gang in enumerate(table.course.names()):
        table.expect(gang, 100.0 + number)
    for number, pod in enumerate(pods):
        table.pods[f"{pod.gang}-{number}"] = pod
        table.gangs[pod.gang].members.append(pod)
    return Measured(table, ServerClock.of(pods))


def test_latencies_count_from_the_intended_time() -> None:
    first = Instants("gang-0", 100.0, created=100.01, planned=100.1, released=100.2, bound=100.25)
    second = Instants("gang-0", 100.0, created=100.02, planned=100.12, released=100.2, bound=100.3)
    latencies = measured(first, second)
    samples = latencies.samples()
    shown = {name: [round(samples[name].quantile(percent)) for percent in (50, 100)] for name in samples}
    assert shown == {
        "created": [10, 20], "planned": [100, 120], "at_bind": [200, 200], "bound": [250, 300],
        "gang.created": [20, 20], "gang.planned": [120, 120], "gang.at_bind": [200, 200], "gang.bound": [300, 300],
    }  # fmt: skip


def test_what_cannot_be_seen_is_not_missing_and_what_did_not_happen_is() -> None:
    bound = [Instants("gang-0", 100.0, created=100.01, bound=100.25) for _ in range(2)]
    waiting = Instants("gang-1", 101.0, created=101.01)
    samples = measured(*bound, waiting, gangs=2).samples()
    assert (samples["planned"].count, samples["at_bind"].count) == (0, 0), "neither gate nor nomination, nor a stamp"
    assert (samples["created"].count, samples["created"].missing) == (4, 1), "one was never created"
    assert (samples["bound"].count, samples["bound"].missing) == (4, 2)
    assert (samples["gang.bound"].count, samples["gang.bound"].missing) == (2, 1)


@pytest.mark.parametrize(("ahead_s", "told_s"), [(0.0, 0.0), (0.03, 0.0), (3600.0, 3599.95), (-3600.0, -3599.8)])
def test_musters_clock_is_corrected_when_it_is_known_to_differ(ahead_s: float, told_s: float) -> None:
    pods = [Instants("gang-0", 100.0, created=100.01, released=100.2 + ahead_s, bound=at) for at in (100.25, 100.3)]
    clock = ServerClock.of(pods)
    assert clock is not None
    assert clock.correction == pytest.approx(told_s)
    (at_bind, _) = [pod.at_bind for pod in measured(*pods).pods.values()]
    assert at_bind is not None
    assert 0 <= at_bind <= 250.001


def test_a_clock_that_was_set_meanwhile_tells_nothing() -> None:
    pods = [
        Instants("gang-0", 100.0, created=100.01, released=100.2, bound=100.25),
        Instants("gang-1", 101.0, created=101.01, released=4000.2, bound=101.25),
    ]
    assert ServerClock.of(pods) is None
    assert ServerClock.of([Instants("gang-0", 100.0)]) is None


def test_a_process_that_was_killed_is_over_although_nobody_has_asked_how_it_ended() -> None:
    here = f"{socket.gethostname()}/{os.getpid()}"
    assert (
        Leftover("ns", "u", "r", f"{here}/{started(os.getpid())}").alive
        == f"its run goes on: process {os.getpid()} of this host"
    )
    assert not Leftover("ns", "u", "r", f"{here}/1").alive, "the id was used again"
    assert "an unknown host" in Leftover("ns", "u", "r", "").alive
    assert "made on elsewhere" in Leftover("ns", "u", "r", "elsewhere/1/2").alive
    child = subprocess.Popen(["sleep", "60"])
    begun = started(child.pid)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is still listed
    assert (bool(begun), started(child.pid)) == (True, "")
    child.wait()
    assert started(child.pid) == ""


class Slow:
    """An API server that deletes one pod with each request, and answers none of the first three in time."""

    def __init__(self) -> None:
        self.pods, self.asked, self.namespace = 4, 0, True

    async def call(self, _method: str, path: str, **_: Any) -> bytes:
        if path.endswith("/pods"):
            self.asked += 1
            self.pods -= 1
            if self.asked <= 3:
                raise UnreachableError("TimeoutError")
        return b"{}"

    async def find(self, _path: str) -> bytes | None:
        return b'{"metadata": {"uid": "u"}}' if self.pods else None

    async def list_pages(self, path: str, labels: str = "") -> AsyncIterator[Any]:
        count = self.pods if path.endswith("/pods") else 0
        yield SimpleNamespace(items=[b'{"metadata": {"labels": {"bench.muster.dev/run": "r"}}}'] * count)


def test_a_removal_that_takes_long_is_asked_for_again_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clean, "_COUNT_EVERY_S", 0.0)
    monkeypatch.setattr(clean, "_LOOK_EVERY_S", 0.0)
    kube, notes = Slow(), list[str]()
    removed = asyncio.run(clean.remove(cast(Kube, kube), Leftover("ns", "u", "r", ""), 10.0, notes.append))
    assert (str(removed), kube.asked) == ("removed ns, with 4 pods in it", 4)
    assert notes == ["removing ns", *(f"removing ns: {left} left" for left in ("2 objects", "1 object", "0 objects"))]


@pytest.mark.parametrize("argv", [["--selector", "pool"], ["--selector", "=a"], ["--gangs", "0"], ["--kind", "x"]])
def test_bad_options_are_refused(argv: list[str]) -> None:
    ended = CliRunner().invoke(main, ["gangs", *argv])
    assert ended.exit_code == 2
    assert argv[0] in ended.stderr


def test_without_a_muster_nothing_is_created() -> None:
    ended = CliRunner().invoke(main, ["gangs", "--url", "http://127.0.0.1:1", "--kubeconfig", "/nowhere"])
    assert (ended.exit_code, "no answer from Muster" in ended.stderr) == (2, True)
