"""`muster release --all` on the real control plane: waiting objects are as written, and run without Muster."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from devcluster import Cluster
from devcluster.api import Object
from devcluster.muster import MANIFESTS, RunningMuster, install_gate, install_job_admission, start_muster
from extender.cli.main import main
from extender.kube.convert import PROTECTED_NODE
from extender.kube.queues.protection import READ_BY
from tests.integration.stage import RealStage
from tests.integration.test_jobs import Jobs
from tests.scenarios.pods import gang

pytestmark = pytest.mark.xdist_group("release")


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    running = start_muster(cluster)
    install_gate(cluster)
    install_job_admission(cluster)
    return running


def test_what_waits_is_given_back(cluster: Cluster, muster: RunningMuster, stage: RealStage) -> None:
    jobs = Jobs(stage)
    kept, _ = stage.add_nodes(2)
    kept_by = {"labels": {PROTECTED_NODE: "karpenter"}, "annotations": dict.fromkeys(READ_BY.values(), "true")}
    jobs.create("run", 1)
    jobs.until_running(1)
    jobs.create("wait", 3)
    jobs.create("stop", 1)
    jobs.until_running(2)
    stage.create(*gang("gated", 3))
    stage.until_noted("wait", "NoRoom")
    written = jobs.get("wait")
    muster.stop()
    stage.api.patch(f"/api/v1/nodes/{kept}", {"metadata": kept_by})
    stage.api.patch(f"{jobs.path}/stop", {"spec": {"suspend": True}})
    jobs.until(
        "stop", lambda job: any(condition["type"] == "Suspended" for condition in job["status"].get("conditions", []))
    )

    shown = released(cluster, code=0)
    assert [told(shown, name)["changes"] for name in ("run", "wait", "stop", "gated-0")] == [False, False, True, True]
    released(cluster, "--yes", code=2)
    for name in ("admission-gate", "job-admission"):
        cluster.kubectl("delete", "-k", str(MANIFESTS / "components" / name))
    released(cluster, "--yes", code=0)

    node = stage.api.get(f"/api/v1/nodes/{kept}")["metadata"]
    assert PROTECTED_NODE not in node["labels"]
    assert [key in node["annotations"] for key in READ_BY.values()] == [True, False]
    assert not marks(jobs.get("stop"))
    assert "affinity" not in jobs.get("stop")["spec"]["template"]["spec"]
    assert jobs.get("wait")["spec"] == written["spec"]
    assert marks(jobs.get("run")), "it runs, and is left alone"
    assert not any(pod["spec"].get("schedulingGates") for pod in stage.api.list(stage.pods_path))
    assert not any(obj["changes"] for obj in released(cluster, code=0)["objects"])

    # The API server drops a policy a while after it was deleted: until then a job that starts is suspended again.
    argv = ["release", "--all", f"--kubeconfig={cluster.kubeconfig}", "--yes", "--unsuspend"]
    stage.wait(lambda: CliRunner().invoke(main, argv).exit_code, lambda code: code == 0)
    for name in ("wait", "stop"):
        jobs.until(name, lambda job: job["status"].get("active", 0) > 0)


def released(cluster: Cluster, *flags: str, code: int) -> Object:
    """The output of the command."""
    argv = ["release", "--all", f"--kubeconfig={cluster.kubeconfig}", "-o", "json", *flags]
    done: Result = CliRunner().invoke(main, argv)
    assert done.exit_code == code, done.output
    report: Object = json.loads(done.stdout) if code == 0 else {}
    return report


def told(shown: Object, name: str) -> dict[str, Any]:
    (entry,) = [obj for obj in shown["objects"] if obj["name"] == name]
    return dict(entry)


def marks(job: Object) -> list[str]:
    merged = {**job["metadata"].get("annotations", {}), **job["spec"]["template"]["metadata"].get("annotations", {})}
    return [key for key in merged if key.startswith("muster.dev/")]
