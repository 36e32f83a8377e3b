"""A large Job behind short ones on the real control plane: it starts in its reservation, which a restart keeps."""

from __future__ import annotations

import json

import pytest

from devcluster import Cluster
from devcluster.api import Object
from devcluster.muster import RunningMuster, install_gate, install_job_admission, start_muster
from policies.model import Pod
from tests.integration.stage import RealStage
from tests.scenarios.pods import pod

pytestmark = pytest.mark.xdist_group("reservations")

RESERVED = "muster.dev/reserved"


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    running = start_muster(cluster, {"backfill": "easy", "reserve_after_s": 2})
    install_gate(cluster)
    install_job_admission(cluster)
    return running


def test_a_large_job_starts_in_its_reservation_and_what_would_overlap_waits(stage: RealStage) -> None:
    stage.add_nodes(64)
    for number in range(16):
        _create(stage, f"short-{number}", 4, "1h")
    stage.until(lambda pods: len(_running(pods, "short")) == 64)
    path = _create(stage, "large", 64, "2h")
    written = stage.api.wait_for(path, lambda job: RESERVED in job["metadata"]["annotations"])
    reserved = json.loads(written["metadata"]["annotations"][RESERVED])
    assert sum(len(nodes) for _, nodes in reserved["rooms"]) == 64
    first = [f"short-{number}-" for number in range(8)]
    stage.succeed(*(one.name for one in stage.pods() if one.name.startswith(tuple(first))))
    overlap = _create(stage, "overlap", 4, "10h")
    stage.until_told("job-overlap", _names_the_reservation)
    _create(stage, "quick", 4, "60")
    stage.until(lambda pods: len(_running(pods, "quick")) == 4)
    stage.kill_extender()
    stage.start_extender()
    stage.until_told("job-overlap", _names_the_reservation)
    again = json.loads(stage.api.get(path)["metadata"]["annotations"][RESERVED])
    assert again["rooms"] == reserved["rooms"]
    assert not _running(stage.pods(), "overlap")
    stage.succeed(*(one.name for one in _running(stage.pods(), "quick")))
    stage.succeed(*(one.name for one in _running(stage.pods(), "short")))
    pods = stage.until(lambda pods: len(_running(pods, "large")) == 64)
    assert not _running(pods, "overlap")
    stage.api.wait_for(path, lambda job: RESERVED not in job["metadata"]["annotations"])
    stage.api.delete(overlap, propagationPolicy="Background")  # it would start when the others are cleared away


def _names_the_reservation(seen: object) -> bool:
    return "is reserved for" in str(getattr(seen, "message", ""))


def _create(stage: RealStage, name: str, size: int, duration: str) -> str:
    """A Job of so many pods with 8 GPUs each, which expects to run for so long. Returns its path."""
    path = f"/apis/batch/v1/namespaces/{stage.namespace}/jobs"
    template: Object = {"spec": {**pod(name, gpus=8)["spec"], **stage.at_home, "restartPolicy": "Never"}}
    annotations = {"muster.dev/expected-duration": duration}
    meta = {"name": name, "labels": {"muster.dev/gang": "true"}, "annotations": annotations}
    body = {"completions": size, "parallelism": size, "completionMode": "Indexed", "backoffLimit": 0}
    stage.api.create(path, {"metadata": meta, "spec": {**body, "template": template}})
    return f"{path}/{name}"


def _running(pods: object, name: str) -> list[Pod]:
    assert isinstance(pods, list | tuple)
    return [one for one in pods if one.live and one.node and one.name.startswith(f"{name}-")]
