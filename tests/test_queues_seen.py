"""Queues as people see them: `muster queues` against an extender that listens, and the metrics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from extender.cli.main import main
from extender.core.events import JobSeen, QueueSeen
from extender.http.server import create_app
from extender.observe.metrics import Metrics
from extender.observe.queues import queues
from extender.runtime.runner import Runner
from policies.model import Job
from policies.model.queues import ClusterQueue, Quota, VolcanoQueue
from policies.steps import finish
from tests.builders import GPU, cluster
from tests.core.jobs import Controlled, job
from tests.core.queues import cluster_queue, flavor, show
from tests.core.script import Script
from tests.listening import listening
from tests.running import Written

pytestmark = pytest.mark.xdist_group("inspection")
WARNED = "it has no spec.namespaceSelector"


def asked(*args: str) -> Result:
    return CliRunner().invoke(main, args, env={"COLUMNS": "200"})


def named(name: str, size: int, queue: str) -> Job:
    return replace(job(size, name=name), queue=queue)


@pytest.fixture(scope="module")
def script() -> Script:
    """Team a runs 32 GPUs, 16 of them borrowed, team b has 16 and waits for them, and a queue that cannot be used."""
    script = Script(*cluster("a: 8x8"))
    teams = [cluster_queue(name, {"gpus": Quota(16, 32)}, cohort="all") for name in ("team-a", "team-b")]
    show(script, flavor("gpus"), *teams)
    script.feed(QueueSeen(ClusterQueue("odd"), ("its quota is odd",), (WARNED,)))
    Controlled(script, named("train", 4, "team-a")).run()
    script.feed(JobSeen(named("later", 2, "team-b")))
    script.advance(3)
    return script


@pytest.fixture(scope="module")
def url(script: Script) -> Iterator[str]:
    core = script.core
    metrics = Metrics(lambda: core.state, queues=lambda: core.queue_reports(script.now))
    app = create_app(Runner(core, Written(), clock=lambda: script.now), metrics, bind_timeout_s=30, max_body=1 << 20)
    with listening(app) as url:
        yield url


def test_the_tree_says_what_each_has_uses_borrows_and_lends(url: str) -> None:
    result = asked("queues", f"--url={url}")
    assert result.exit_code == 0, result.output
    shown = result.output.partition("Who waits")[0].replace("cohort all", "cohort-all").splitlines()
    lines = {line.split()[0]: line.split() for line in shown if line.strip()}
    assert lines["cohort-all"][1:] == ["gpus", GPU, "[############]", "32", "32", "16", "16", "1", "1"]
    assert lines["team-a"][1:] == ["gpus", GPU, "[############]+", "16", "32", "16", "0", "48", "1", "0"]
    assert lines["team-b"][1:] == ["gpus", GPU, "[............]", "16", "0", "0", "16", "48", "0", "1"]
    assert lines["default/team-a"][1:] == ["gpus", GPU, "32", "1", "0"]


def test_who_waits_and_what_is_wrong(url: str) -> None:
    output = asked("queues", f"--url={url}").output
    assert "NoQuota" in output
    assert "later" in output
    for text in ("its quota is odd", WARNED):
        assert text in output


def test_one_queue_alone_as_json(url: str) -> None:
    listed = json.loads(asked("queues", "team-b", f"--url={url}", "--output=json").output)
    assert [(queue["kind"], queue["name"]) for queue in listed] == [
        ("ClusterQueue", "team-b"),
        ("LocalQueue", "team-b"),
    ]
    assert [workload["name"] for workload in listed[0]["waiting"]] == [named("later", 2, "").key.name]
    within = json.loads(asked("queues", "all", f"--url={url}", "--output=json").output)
    assert [queue["name"] for queue in within] == ["all", "team-a", "team-a", "team-b", "team-b"]


def test_a_queue_that_is_not_there(url: str) -> None:
    result = asked("queues", "nowhere", f"--url={url}")
    assert result.exit_code != 0
    assert "there is no ClusterQueue, cohort or LocalQueue nowhere" in result.output


def test_the_metrics_have_the_names_that_users_of_kueue_know(script: Script) -> None:
    metrics = Metrics(lambda: script.core.state, queues=lambda: script.core.queue_reports(script.now))
    text = metrics.render().decode()
    where = f'cluster_queue="team-a",cohort="all",flavor="gpus",resource="{GPU}"'
    for line in (
        'kueue_pending_workloads{cluster_queue="team-b"} 1.0',
        'kueue_reserving_active_workloads{cluster_queue="team-a"} 1.0',
        'kueue_admitted_active_workloads{cluster_queue="team-a"} 1.0',
        f"kueue_cluster_queue_resource_usage{{{where}}} 32.0",
        f"kueue_cluster_queue_nominal_quota{{{where}}} 16.0",
        f"kueue_cluster_queue_borrowing_limit{{{where}}} 32.0",
    ):
        assert line in text
    assert "lending_limit{" not in text
    families = [family for family in metrics.families() if family.name.startswith("kueue_")]
    page = (Path(__file__).parent.parent / "docs" / "metrics.md").read_text()
    assert [family.name for family in families if f"- `{family.name}`: {family.documentation}" not in page] == []


def test_a_cluster_without_queues_has_no_such_metric() -> None:
    core = Script(*cluster("a: 1x8")).core
    text = Metrics(lambda: core.state, queues=lambda: core.queue_reports(0.0)).render().decode()
    assert "kueue_" not in text
    assert core.queue_reports(0.0) == {}


def test_the_queues_of_volcano_are_a_tree_that_has_what_the_nodes_have() -> None:
    script = Script(*cluster("a: 8x8"))
    lab = VolcanoQueue("lab", deserved={GPU: 24}, guarantee={GPU: 4})
    show(script, lab, VolcanoQueue("vision", parent="lab", deserved={GPU: 8}), VolcanoQueue("speech"))
    script.advance(0.5)
    listed = finish(queues(script.core, script.now))
    gpus = {queue.name: next(quota for quota in queue.quotas if quota.resource == GPU) for queue in listed}
    assert [(queue.kind, queue.name, queue.parent, gpus[queue.name].nominal) for queue in listed] == [
        ("Cohort", "volcano/lab", "volcano/root", 24),
        ("Cohort", "volcano/root", "", 64),
        ("ClusterQueue", "volcano/speech", "volcano/root", 0),
        ("ClusterQueue", "volcano/vision", "volcano/lab", 8),
    ]
