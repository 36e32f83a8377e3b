"""How busy GPUs are: what a Prometheus says about pods, and what is made of it for gangs, queues and nodes."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from extender.api.models import UtilisationView
from extender.cli.doctor.command import examine
from extender.cli.doctor.facts import Facts
from extender.cli.inspection.reach import Way, reach
from extender.cli.inspection.tables import is_idle
from extender.cli.main import main
from extender.config.settings import SettingsError, load
from extender.core.workload.workload import Workload
from extender.http.server import create_app
from extender.observe import prometheus as module
from extender.observe.metrics import Metrics
from extender.observe.utilisation import SOURCES, Utilisation, Vector, loads, query
from extender.runtime import slices
from extender.runtime.runner import Runner
from policies.model import Pod
from policies.model.queues import Quota
from policies.steps import finish
from tests.builders import cluster, gang, key, single
from tests.core.jobs import Controlled, job
from tests.core.queues import cluster_queue, flavor, show
from tests.core.script import Script
from tests.listening import listening
from tests.running import Written
from tests.utilisation import ACTIVE, UTIL, WINDOW_S, Answering, asked, refusal, series

LATER_S = WINDOW_S + 60.0


def running(*pods: Pod, later_s: float = LATER_S) -> Script:
    """A cluster on which these pods run, one to a node, that long after they were created."""
    bound = [replace(pod, node=f"a-{at}", created=1000.0) for at, pod in enumerate(pods)]
    script = Script(*cluster("a: 4x8"), *bound, checked=1000)
    script.advance(later_s)
    return script


def known(answering: Answering, **facts: Any) -> Utilisation:
    return asyncio.run(asked(answering, **facts)).utilisation


def of_train(script: Script, answering: Answering) -> UtilisationView | None:
    workload: Workload = script.core.state.workloads[key("train")]
    return known(answering).of_gang(script.core.state, workload, script.now)


def test_a_gang_has_the_mean_over_its_gpus() -> None:
    script = running(*gang("train", 2))
    pods = [series("train-0", 60, count=6), series("train-1", 20, count=2), series("other", 100)]
    shown = of_train(script, Answering({UTIL: pods}))
    assert shown is not None
    assert (shown.percent, shown.gpus, shown.idle_gpus, shown.window_s, shown.mig) == (50.0, 8, 0, WINDOW_S, {})


@pytest.mark.parametrize("exported", [True, False])
def test_labels_are_read_with_and_without_honor_labels(exported: bool) -> None:
    script = running(*gang("train", 1))
    shown = of_train(script, Answering({UTIL: [series("train-0", 40, exported=exported)]}))
    assert shown is not None
    assert shown.percent == 40.0


def test_the_exported_labels_go_before_those_of_the_exporter_itself() -> None:
    script = running(*gang("train", 1))
    exported = series("train-0", 40, namespace="gpu-operator", pod="nvidia-dcgm-exporter-x7k2p")
    shown = of_train(script, Answering({UTIL: [exported]}))
    assert shown is not None
    assert shown.percent == 40.0


def test_a_gang_below_ten_percent_leaves_all_its_gpus_idle() -> None:
    script = running(*gang("train", 2))
    shown = of_train(script, Answering({UTIL: [series("train-0", 9), series("train-1", 10.8)]}))
    assert shown is not None
    assert (shown.percent, shown.gpus, shown.idle_gpus) == (9.9, 16, 16)
    at_the_limit = of_train(script, Answering({UTIL: [series("train-0", 10), series("train-1", 10)]}))
    assert at_the_limit is not None
    assert at_the_limit.idle_gpus == 0


def test_a_gang_is_not_idle_as_long_as_a_member_is_unknown() -> None:
    script = running(*gang("train", 2))
    shown = of_train(script, Answering({UTIL: [series("train-0", 0)]}))
    assert shown is not None
    assert (shown.percent, shown.gpus, shown.idle_gpus) == (0.0, 8, 0)


def test_a_pod_that_is_younger_than_the_window_is_not_measured() -> None:
    """A pod of a StatefulSet has the name, and so the series, of the one before it."""
    script = running(*gang("train", 1), later_s=WINDOW_S - 60.0)
    assert of_train(script, Answering({UTIL: [series("train-0", 0)]})) is None


def test_members_without_gpus_need_no_measurement() -> None:
    launcher, worker = gang("train", 2)
    script = running(replace(launcher, requests=(("cpu", 1000), ("pods", 1))), worker)
    shown = of_train(script, Answering({UTIL: [series("train-1", 0)]}))
    assert shown is not None
    assert shown.idle_gpus == 8


def test_mig_instances_are_shown_by_profile() -> None:
    script = running(*gang("train", 2))
    instances = [
        series("train-0", 0.5, count=2, GPU_I_PROFILE="1g.10gb"),
        series("train-1", 0.25, count=1, GPU_I_PROFILE="3g.40gb"),
        series("train-1", 0.1, count=2, GPU_I_PROFILE="1g.10gb"),
    ]
    shown = of_train(script, Answering({ACTIVE: instances}))
    assert shown is not None
    assert {name: (use.gpus, use.percent) for name, use in shown.mig.items()} == {
        "1g.10gb": (4, 30.0),
        "3g.40gb": (1, 25.0),
    }
    assert (shown.percent, shown.gpus) == (29.0, 5)


def test_whole_gpus_are_measured_by_the_first_metric_that_has_them() -> None:
    script = running(*gang("train", 1))
    both = Answering({UTIL: [series("train-0", 80)], ACTIVE: [series("train-0", 0.3)]})
    for answering, percent in ((both, 80.0), (Answering({ACTIVE: [series("train-0", 0.3)]}), 30.0)):
        shown = of_train(script, answering)
        assert shown is not None
        assert shown.percent == percent


def test_the_queries_ask_for_the_whole_window() -> None:
    whole, mig = (query(source, "avg", WINDOW_S) for source in SOURCES)
    assert 'avg_over_time(DCGM_FI_DEV_GPU_UTIL{GPU_I_PROFILE=""}[1800s]) >= 0 <= 100' in whole
    assert "offset 1800s" in whole
    assert "DCGM_FI_PROF_GR_ENGINE_ACTIVE[1800s]) >= 0 <= 1 and" in mig
    answering = Answering({UTIL: [series("train-0", 1)]})
    known(answering)
    assert [request.url.path for request in answering.asked] == ["/api/v1/query"] * 4


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "-1", "", "many", "1e999"])
def test_what_is_no_share_is_no_measurement(value: str) -> None:
    script = running(*gang("train", 1))
    assert of_train(script, Answering({UTIL: [series("train-0", value)]})) is None
    assert of_train(script, Answering({UTIL: [series("train-0", 50, count=value)]})) is None


@pytest.mark.parametrize("name", ["x" * 100_000, "a\nb", "\x1b[31m", "../..", '"}[1s]', "train-0\x00", "🔥"])
def test_hostile_labels_name_no_pod(name: str) -> None:
    script = running(*gang("train", 1))
    every = [series(name, 0), series("train-0", 50), series("", 3, Hostname=name), series("", 4, node=name)]
    answering = Answering({UTIL: every, ACTIVE: [series(name, 0, GPU_I_PROFILE=name)]})
    shown = of_train(script, answering)
    assert shown is not None
    assert shown.percent == 50.0
    assert [node.node for node in finish(known(answering).of_nodes(script.core.state))] == ["a-0"]


def test_many_more_series_than_pods_do_no_harm() -> None:
    script = running(*gang("train", 1))
    every = [series(f"gone-{at}", 0, Hostname=f"gone-{at}") for at in range(20_000)]
    report = finish(known(Answering({UTIL: [*every, series("train-0", 50)]})).report(script.core.state, script.now))
    assert (report.problem, report.gpus, len(report.nodes)) == ("", 160_008, 1)


def test_a_node_counts_the_gpus_that_no_pod_has() -> None:
    script = running(*gang("train", 1))
    exporter = replace(single("exporter", gpus=0), node="a-1")
    script.see(exporter)
    free = [
        series("", 0, count=2, Hostname="a-0"),
        # The exporter does not know its node's name, so that the label has the name of its container's host.
        series("", 30, count=8, Hostname="exporter", namespace="default", pod="exporter"),
    ]
    answering = Answering({UTIL: [series("train-0", 60, count=6, Hostname="a-0"), *free]})
    nodes = {node.node: node.utilisation for node in finish(known(answering).of_nodes(script.core.state))}
    assert {name: (use.percent, use.gpus) for name, use in nodes.items()} == {"a-0": (45.0, 8), "a-1": (30.0, 8)}


def test_no_step_of_reading_measurements_is_long() -> None:
    many = 2000
    vectors = [Vector({"exported_namespace": "default", "exported_pod": f"p-{at}"}, (0.0, "4")) for at in range(many)]
    reading = loads([(SOURCES[0], vectors, vectors)])
    assert max(reading) < 300
    read = finish(loads([(SOURCES[0], vectors, vectors)]))
    assert len(read.pods) == many
    script = Script(*cluster("a: 500x1"), checked=10_000)
    script.see(*(single(f"p-{at}", node=f"a-{at}") for at in range(500)))
    costs = [*Utilisation(on=True, loads=read).of_nodes(script.core.state)]
    assert max(costs) < 300
    assert len(costs) > 50


def test_a_queue_has_the_utilisation_of_its_gangs() -> None:
    script = Script(*cluster("a: 4x8"), checked=1000)
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": Quota(32)}))
    Controlled(script, replace(job(2, name="train"), queue="team")).run()
    script.advance(LATER_S)
    pods = [pod for pod in script.core.state.pods.values() if pod.node]
    answering = Answering({UTIL: [series(pod.name, 4) for pod in pods]})
    utilisation = known(answering)
    shown = finish(utilisation.by_queue(script.core.state, script.now))["team"]
    assert (shown.percent, shown.gpus, shown.idle_gpus) == (4.0, 16, 16)
    metrics = Metrics(lambda: script.core.state, utilisation=lambda: (utilisation, script.now))
    page = metrics.render().decode()
    assert 'muster_gang_idle_gpus{cluster_queue="team"} 16.0' in page
    assert 'muster_gang_gpu_utilisation_ratio{cluster_queue="team"} 0.04' in page
    assert "muster_gpu_utilisation_known 1.0" in page


def test_people_see_idle_gangs() -> None:
    idle, busy = gang("idle", 1), gang("busy", 1)
    script = running(*idle, *busy)
    utilisation = known(Answering({UTIL: [series("idle-0", 3), series("busy-0", 75)]}))
    runner = Runner(script.core, Written(), clock=lambda: script.now)
    app = create_app(
        runner, Metrics(lambda: script.core.state), utilisation=lambda: utilisation, bind_timeout_s=30, max_body=1 << 20
    )
    with listening(app) as url:
        every, only, explanation = (
            CliRunner().invoke(main, [*words, "--url", url], env={"COLUMNS": "200"}).output
            for words in (["gangs"], ["gangs", "--idle"], ["explain", "default/idle"])
        )
        with reach(Way(url=url)) as muster:
            gangs, report = muster.gangs(), muster.utilisation()
    assert "busy" in every
    assert "75 %" in every
    assert "busy" not in only
    assert "3 %" in only
    assert "its 8 GPUs were used 3 % in the mean of the last 30m: idle" in explanation
    diagnosis = examine(Facts(load(None), utilisation=report, idle=[view for view in gangs if is_idle(view)]))
    assert [finding.subject for finding in diagnosis.findings if finding.code == "IdleGang"] == ["default/idle"]
    unasked = Facts(load(None), utilisation=report.model_copy(update={"problem": "no answer"}))
    problems = [finding for finding in examine(unasked).findings if finding.code == "NoUtilisation"]
    assert [problem.what for problem in problems] == ["no answer"]


def silent(_: httpx.Request) -> httpx.Response:
    raise httpx.ConnectTimeout("too slow")


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (silent, "no answer from http://prometheus:9090: ConnectTimeout: too slow"),
        (lambda _: refusal("parse error"), "refuses the query: 400 parse error"),
        (lambda _: httpx.Response(401, text="who are you"), "refuses the query: 401 who are you"),
        (lambda _: httpx.Response(302, headers={"Location": "http://elsewhere"}), "refuses the query: 302"),
        (lambda _: httpx.Response(200, text="<html>"), "does not answer as Prometheus does"),
        (lambda _: httpx.Response(200, json={"data": {"result": [{"metric": {"pod": 1}}]}}), "does not answer"),
        (lambda _: httpx.Response(200, json={"status": "error", "error": "no"}), "refuses the query: no"),
        (lambda _: httpx.Response(200, json=["x"]), "does not answer as Prometheus does"),
    ],
)  # fmt: skip
def test_a_failure_is_a_problem_that_is_told_once(answer: Any, problem: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "muster"):
        utilisation = asyncio.run(asked(Answering(answer=answer), rounds=3)).utilisation
    assert problem in utilisation.problem
    assert utilisation.at is None
    assert [record.levelname for record in caplog.records if "utilisation" in record.message] == ["WARNING"]
    script = running(*gang("train", 1))
    page = Metrics(lambda: script.core.state, utilisation=lambda: (utilisation, script.now)).render().decode()
    assert "muster_gpu_utilisation_known 0.0" in page
    assert finish(utilisation.report(script.core.state, script.now)).problem == utilisation.problem


def test_a_prometheus_that_takes_too_long_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LONGEST_S", 0.0)
    monkeypatch.setattr(slices, "SLICE_S", 0.0)  # the time is looked at in a pause
    answering = Answering({UTIL: [series("train-0", 50)]})
    assert "no answer from http://prometheus:9090 within" in known(answering).problem


def test_an_answer_that_is_too_long_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_BYTES", 10)
    assert "answers with more than" in known(Answering()).problem


def test_a_bug_in_reading_an_answer_is_a_problem_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("bug")

    monkeypatch.setattr(module, "loads", fail)
    assert "Muster failed on the answer" in known(Answering()).problem


def test_metrics_that_are_missing_are_a_problem() -> None:
    utilisation = known(Answering())
    assert "has had no DCGM_FI_DEV_GPU_UTIL or DCGM_FI_PROF_GR_ENGINE_ACTIVE" in utilisation.problem


def test_series_that_name_no_pod_are_a_problem() -> None:
    script = running(*gang("train", 1))
    utilisation = known(Answering({UTIL: [series("", 50, Hostname="a-0"), series("exporter", 50, exported=False)]}))
    assert "no series names a pod with GPUs" in finish(utilisation.report(script.core.state, script.now)).problem
    named = known(Answering({UTIL: [series("train-0", 50)]}))
    assert not finish(named.report(script.core.state, script.now)).problem


def test_the_token_is_read_each_time(tmp_path: Path) -> None:
    token, answering = tmp_path / "token", Answering({UTIL: [series("train-0", 1)]})
    assert "prometheus_token_file cannot be read" in known(answering, token_file=token).problem
    token.write_text("secret\n")
    known(answering, token_file=token)
    assert {request.headers["Authorization"] for request in answering.asked} == {"Bearer secret"}


@pytest.mark.parametrize("url", ["", "http://prometheus:9090", "https://thanos.example/tenant/a/"])
def test_urls_that_can_be_asked(url: str) -> None:
    assert load(None, prometheus_url=url).prometheus_url == url


@pytest.mark.parametrize("url", ["prometheus:9090", "ftp://x", "http://", "http://a:b@c", "http://x?y=1", "http://a b"])
def test_urls_that_cannot_be_asked(url: str) -> None:
    with pytest.raises(SettingsError):
        load(None, prometheus_url=url)
