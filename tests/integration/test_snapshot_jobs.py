"""A snapshot of a live control plane with queues: the predictions for suspended jobs come true."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from devcluster import Cluster
from devcluster.muster import RunningMuster, install_crds_of, install_gate, install_job_admission, start_muster
from extender.cli.simulate import main as simulate
from tests.integration.queueing import A100, Queues
from tests.integration.stage import RealStage
from tests.integration.test_snapshot import taken
from tests.manifests_of_queues import JOB, TUTORIAL
from tests.scenarios.pods import bound

pytestmark = pytest.mark.xdist_group("snapshot-jobs")


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    install_crds_of(cluster, "queues")
    running = start_muster(cluster)
    install_gate(cluster)
    install_job_admission(cluster)
    return running


@pytest.fixture
def queues(stage: RealStage) -> Iterator[Queues]:
    new_queues = Queues(stage)
    yield new_queues
    new_queues.remove()


@pytest.mark.parametrize("hidden", [False, True])
def test_a_job_that_waits_for_quota_would_start_with_more(
    cluster: Cluster, stage: RealStage, queues: Queues, tmp_path: Path, *, hidden: bool
) -> None:
    """The first job has the quota of the tutorial, 32 GPUs; with 64 the other one starts on the predicted nodes."""
    queues.apply(TUTORIAL)
    stage.add_nodes(9, labels=A100)
    for name in ("first", "second"):
        job = yaml.safe_load(JOB.format(name=name))
        job["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "TOKEN", "value": "hush-hush"}]
        stage.api.create(queues.jobs, job)
        if name == "first":
            queues.until_started("first", 4)
    queues.reason("second", "NoQuota")
    path, verdicts = tmp_path / "live.json", tmp_path / "verdicts.json"
    text = taken(cluster, path, *(["--anonymise"] if hidden else []))
    assert "TOKEN" not in text
    assert "hush" not in text
    command = ["--snapshot", str(path), "--json", str(verdicts)]
    if not hidden:
        more = tmp_path / "more.yaml"
        more.write_text(TUTORIAL.replace("nominalQuota: 32", "nominalQuota: 64"))
        command += ["--what-if", str(more)]
    ended = CliRunner().invoke(simulate, command)
    assert ended.exit_code == 0, ended.output
    as_it_is, *then = json.loads(verdicts.read_text())["verdicts"]
    (waits,) = as_it_is["answers"]
    assert (waits["code"], waits["members"], waits["nodes"]) == ("NoQuota", 4, {})
    if hidden:
        return
    (starts,) = then[0]["answers"]
    assert starts["gang"] == f"{queues.home}/job-second"
    queues.apply(more.read_text())
    queues.until_started("second", 4)
    assert sorted(pod.node or "" for pod in bound(stage.pods(), "job-second")) == sorted(starts["nodes"].values())
