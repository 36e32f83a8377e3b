"""The load test against a server that is set to answer, refuse or fail."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from typer.testing import CliRunner

import extender.cli.main as cli
from benchmarks import latency
from devcluster.certificates import Authority
from extender.cli.bench.measures import Sample
from extender.cli.load import Call, Load, Verb, calls, figures, fire
from extender.cli.loadtest import main
from extender.config.tls_files import TlsFiles
from extender.http.tls import Credentials
from tests.tls import serving


class Extender:
    """A server that answers filter, refuses bind, and fails prioritize; in a thread, beside a command."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.at_once = self.most_at_once = 0
        self.takes_s = 0.0
        self.refuses_after = 10_000
        self._loop = asyncio.new_event_loop()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        async def begin() -> None:
            app = web.Application()
            app.router.add_post("/{verb}", self._answer)
            self._runner = web.AppRunner(app, shutdown_timeout=1.0)
            await self._runner.setup()
            await web.SockSite(self._runner, self._socket).start()

        self._loop.run_until_complete(begin())
        self._thread.start()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.run_until_complete(self._runner.cleanup())
        self._loop.close()

    async def _answer(self, request: web.Request) -> web.Response:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.asked.append((request.match_info["verb"], json.loads(await request.read())))
        await asyncio.sleep(self.takes_s)
        self.at_once -= 1
        match request.match_info["verb"]:
            case "filter":
                error = "this replica stands by" if len(self.asked) > self.refuses_after else ""
                return web.json_response({"NodeNames": [], "Error": error})
            case "bind":
                return web.json_response({"Error": "the pod is not known"})
            case _:
                marks = [] if len(self.asked) > self.refuses_after else [{"Host": "node-0", "Score": 1}]
                return web.json_response(marks) if self.takes_s else web.Response(status=500)


@pytest.fixture
def extender() -> Iterator[Extender]:
    server = Extender()
    server.start()
    yield server
    server.stop()


def load_of(extender: Extender, *calls: Call, concurrency: int = 4) -> Load:
    return asyncio.run(fire(extender.url, calls, rate=10_000, concurrency=concurrency))


def test_answers_refusals_and_failures_are_told_apart(extender: Extender) -> None:
    load = load_of(extender, *calls(Verb.FILTER, 3, 2), *calls(Verb.BIND, 2, 2), *calls(Verb.PRIORITIZE, 1, 2))
    assert (len(load.latencies_ms), load.refused, load.failed) == (5, 2, {"status 500": 1})
    assert all(latency > 0 for latency in load.latencies_ms)


def test_every_call_is_sent_once_and_never_more_at_once_than_was_asked_for(extender: Extender) -> None:
    load_of(extender, *calls(Verb.BIND, 50, 1), concurrency=1)
    assert extender.most_at_once == 1
    assert Counter(body["PodUID"] for _, body in extender.asked) == {f"uid-load-{number}": 1 for number in range(50)}


def test_a_load_knows_which_call_was_answered(extender: Extender) -> None:
    mixed = [*calls(Verb.FILTER, 1, 1), *calls(Verb.PRIORITIZE, 1, 1), *calls(Verb.FILTER, 1, 1)]
    load = asyncio.run(fire(extender.url, mixed, 10_000, 2))
    assert set(load.answers) == {0, 2}, "the second was not answered"


def test_an_extender_that_is_not_there_is_a_failure_of_every_call() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    load = asyncio.run(fire(f"http://127.0.0.1:{port}", calls(Verb.FILTER, 3, 1), 10_000, 2))
    assert sum(load.failed.values()) == 3
    assert figures(load) == {"answered": 0, "refused": 0, "failed": 3}


def test_requests_are_what_kube_scheduler_sends() -> None:
    (filtering,) = calls(Verb.FILTER, 1, 3)
    body = json.loads(filtering.body)
    assert body["NodeNames"] == ["node-0", "node-1", "node-2"]
    assert (body["Nodes"], body["Pod"]["metadata"]["namespace"]) == (None, "default")
    (binding,) = calls(Verb.BIND, 1, 3)
    assert set(json.loads(binding.body)) == {"PodName", "PodNamespace", "PodUID", "Node"}


def test_percentiles_are_those_of_the_nearest_rank() -> None:
    load = Load(seconds=2.0, answers={number: float(number) for number in range(100, 0, -1)})
    summary = figures(load)
    assert [summary[name] for name in ("p50_ms", "p95_ms", "p99_ms", "max_ms")] == [50.0, 95.0, 99.0, 100.0]
    assert (summary["answered"], summary["per_s"]) == (100, 50.0)


def test_the_command_shows_and_writes_what_it_found_and_gives_up_when_the_first_call_fails(
    extender: Extender, tmp_path: Path
) -> None:
    output = tmp_path / "latency.json"
    wanted = ["latency", "--url", f"{extender.url}/", "--calls", "5", "--rate", "1000", "--nodes", "2"]
    good = CliRunner().invoke(main, [*wanted, "--verb", "filter", "--verb", "bind", "--output", str(output)])
    assert good.exit_code == 0, good.output
    assert "do not exist" in good.stdout
    report = json.loads(output.read_text())
    assert (report["verbs"]["filter"]["answered"], report["verbs"]["bind"]["refused"]) == (5, 5)
    bad = CliRunner().invoke(main, [*wanted, "--verb", "prioritize"])
    assert (bad.exit_code, len(extender.asked)) == (2, 13), "one failure of the first call is enough"
    assert f"no usable answer from {extender.url}/prioritize: status 500" in bad.stderr


def test_an_extender_that_asks_for_a_certificate_is_shown_one(tmp_path: Path) -> None:
    ours = Authority(tmp_path / "ours")
    pair, client = ours.serving("server"), ours.client("client", "kube-scheduler")
    wanted = ["latency", "--calls", "3", "--rate", "1000", "--verb", "bind", "--ca-file", str(ours.certificate)]
    with serving(Credentials(TlsFiles(pair.certificate, pair.key, ours.certificate)), body=b"{}") as port:
        wanted += ["--url", f"https://127.0.0.1:{port}"]
        shown = ["--cert-file", str(client.certificate), "--key-file", str(client.key)]
        assert CliRunner().invoke(main, [*wanted, *shown]).exit_code == 0
        assert "no usable answer" in CliRunner().invoke(main, wanted).stderr
        result = CliRunner().invoke(main, [*wanted, *shown[2:]])
    assert (result.exit_code, "--key-file needs --cert-file" in result.stderr) == (2, True)


def test_the_command_judges_thresholds_and_writes_the_files_of_the_other_load_test(
    extender: Extender, tmp_path: Path
) -> None:
    wanted = ["latency", "--url", extender.url, "--calls", "20", "--rate", "1000", "--verb", "filter"]
    wanted += ["--output", str(tmp_path / "run.json"), "--junit", str(tmp_path / "junit.xml")]
    wanted += ["--kube-burner", str(tmp_path), "--fail-if", "p99(filter) > 1m"]
    fine = CliRunner().invoke(main, wanted)
    assert (fine.exit_code, "✓ p99(filter) > 1m: " in fine.stdout) == (0, True), fine.output
    report = json.loads((tmp_path / "run.json").read_text())
    assert (report["latency_ms"]["filter"]["count"], report["errors"], report["settings"]["calls"]) == (20, {}, 20)
    assert [threshold["broken"] for threshold in report["thresholds"]] == [False]
    broken = CliRunner().invoke(main, [*wanted, "--fail-if", "max(filter) > 1us", "--fail-if", "errors > 0"])
    assert (broken.exit_code, "✗ max(filter) > 1us: " in broken.stdout) == (1, True)
    assert "<failure" in (tmp_path / "junit.xml").read_text()
    pods = json.loads((tmp_path / "podLatencyMeasurement-muster-bench-latency.json").read_text())
    assert [(pod["podName"], pod["verb"]) for pod in pods] == [(f"load-{number}", "filter") for number in range(20)]
    (quantiles,) = json.loads((tmp_path / "podLatencyQuantilesMeasurement-muster-bench-latency.json").read_text())
    assert (quantiles["quantileName"], quantiles["max"] >= quantiles["P50"] >= 0) == ("filter", True)
    unknown = CliRunner().invoke(main, [*wanted, "--fail-if", "p99(bind) > 1s"])
    assert (unknown.exit_code, "there is no latency bind; there are filter" in unknown.stderr) == (2, True)
    same = CliRunner().invoke(main, ["latency", "--compare", str(tmp_path / "run.json"), str(tmp_path / "run.json")])
    assert (same.exit_code, "no difference beyond noise" in same.stdout) == (0, True)


def test_on_a_control_plane_of_its_own_thresholds_and_files_are_the_same(
    extender: Extender, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(*settings: Any) -> latency.Report:
        results = settings[-2]
        load = results["filter.planned"] = load_of(extender, *calls(Verb.FILTER, 20, 1))
        figures_of_all = {"filter.planned": Sample.of(load.latencies_ms).figures()}
        return latency.Report([latency.Run(latency.PLANNED, figures(load), None)], figures_of_all)

    monkeypatch.setattr(latency, "measure", measure)
    wanted = ["latency", "--verb", "filter", "--output", str(tmp_path / "run.json"), "--kube-burner", str(tmp_path)]
    wanted += ["--junit", str(tmp_path / "junit.xml"), "--fail-if", "p99(filter.planned) > 1m"]
    fine = CliRunner().invoke(main, wanted)
    assert (fine.exit_code, "✓ p99(filter.planned) > 1m: " in fine.stdout) == (0, True), fine.output
    broken = CliRunner().invoke(main, [*wanted, "--fail-if", "max(filter.planned) > 1us", "--fail-if", "errors > 0"])
    assert (broken.exit_code, "✗ max(filter.planned) > 1us: " in broken.stdout) == (1, True)
    assert "<failure" in (tmp_path / "junit.xml").read_text()
    pods = json.loads((tmp_path / "podLatencyMeasurement-muster-bench-latency.json").read_text())
    assert [(pod["podName"], pod["verb"]) for pod in pods] == [(f"load-{at}", "filter.planned") for at in range(20)]
    same = CliRunner().invoke(main, ["latency", "--compare", str(tmp_path / "run.json"), str(tmp_path / "run.json")])
    assert (same.exit_code, "no difference beyond noise" in same.stdout) == (0, True), same.output
    unknown = CliRunner().invoke(main, [*wanted, "--fail-if", "p99(bind) > 1s"])
    assert (unknown.exit_code, "there are filter.planned, filter.waiting, filter.single" in unknown.stderr) == (2, True)


def test_a_client_that_stands_still_hides_nothing(extender: Extender, monkeypatch: pytest.MonkeyPatch) -> None:
    async def stand_still(seconds: float) -> None:
        await asyncio.sleep(seconds)
        time.sleep(0.05)  # noqa: ASYNC251 - the whole client stands still

    monkeypatch.setattr("extender.cli.load.asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": stand_still}))
    load = asyncio.run(fire(extender.url, calls(Verb.FILTER, 2, 1), rate=20, concurrency=1))
    assert load.latencies_ms[1] >= 48, "the second call was due 50 ms before it was sent"
    assert load.client_late_ms >= 50


def test_a_load_ends_with_the_first_answer_above_the_limit(extender: Extender) -> None:
    load = asyncio.run(fire(extender.url, calls(Verb.FILTER, 50, 1), 10_000, 2, limit_ms=1e-6))
    assert load.stopped_ms is not None
    assert len(extender.asked) <= 2, "those under way when the first was answered"
    enough = asyncio.run(fire(extender.url, calls(Verb.FILTER, 50, 1), 10_000, 2, limit_ms=60_000))
    assert (enough.stopped_ms, len(enough.latencies_ms)) == (None, 50)


def test_no_answer_within_the_limit_ends_a_load_too(extender: Extender) -> None:
    extender.takes_s = 2
    load = asyncio.run(fire(extender.url, calls(Verb.FILTER, 50, 1), 10_000, 2, timeout_s=0.05, limit_ms=1))
    assert (load.stopped_ms is not None, sum(load.failed.values())) == (True, 2)


def test_the_command_warns_and_stops_before_a_live_extender_is_overloaded(extender: Extender) -> None:
    extender.takes_s = 0.02
    done = CliRunner().invoke(main, ["latency", "--url", extender.url, "--limit-ms", "10"], env={"COLUMNS": "400"})
    assert done.exit_code == 1, done.output
    assert f"These calls load {extender.url}" in done.stderr
    assert "takes longer than 10 ms" in done.stderr
    assert "filter: stopped after 1 answer: one took" in done.stdout
    assert [verb for verb, _ in extender.asked] == ["filter"], "no second call, and no other verb"


def test_the_defaults_spare_a_live_extender(extender: Extender) -> None:
    extender.takes_s = 0.001
    done = CliRunner().invoke(main, ["latency", "--url", extender.url, "--rate", "10000", "--limit-ms", "60000"])
    assert done.exit_code == 0, done.output
    assert {verb for verb, _ in extender.asked} == {"filter", "prioritize"}, "a bind is held, unless it is asked for"
    assert len(extender.asked) == 2 * (1 + 100)
    assert extender.most_at_once <= 4
    assert len(extender.asked[0][1]["NodeNames"]) == 1000
    assert "Default: 10;" in CliRunner().invoke(main, ["latency", "--help"], env={"COLUMNS": "400"}).output


@pytest.mark.parametrize(("verb", "why"), [("filter", "this replica stands by"), ("prioritize", "no node was marked")])
def test_an_extender_that_answers_no_question_is_not_measured(extender: Extender, verb: str, why: str) -> None:
    extender.takes_s = 0.001
    wanted = ["latency", "--url", extender.url, "--calls", "5", "--concurrency", "1", "--limit-ms", "60000"]
    wanted += ["--rate", "1000", "--verb", verb]
    extender.refuses_after = 3
    refused = CliRunner().invoke(main, wanted, env={"COLUMNS": "400"})
    assert (refused.exit_code, f"{verb}: 3 calls refused: {why}" in refused.stdout) == (1, True)
    none = CliRunner().invoke(main, wanted, env={"COLUMNS": "400"})
    assert (none.exit_code, len(extender.asked)) == (2, 7), "the first call shows it"
    assert f"no usable answer from {extender.url}/{verb}: {why}" in none.stderr


def test_figures_that_find_no_space_are_told_in_a_sentence(extender: Extender) -> None:
    wanted = ["latency", "--url", extender.url, "--calls", "2", "--verb", "filter", "--output", "/dev/full"]
    ended = CliRunner().invoke(main, wanted)
    assert (ended.exit_code, "/dev/full: No space left on device" in ended.stderr) == (2, True)


def test_an_installed_package_has_the_load_test_alone(
    extender: Extender, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "__file__", str(tmp_path / "extender" / "cli" / "main.py"))
    wanted = ["bench", "latency", "--url", extender.url, "--calls", "2", "--verb", "filter"]
    assert CliRunner().invoke(cli.main, wanted).exit_code == 0
    other = CliRunner().invoke(cli.main, ["bench", "throughput"])
    assert (other.exit_code, "No such command" in other.stderr) == (2, True)
