"""Queues on the real control plane: the objects of the tutorials, quota without nodes, teams that borrow, a restart."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from devcluster import Cluster
from devcluster.api import Object
from devcluster.muster import RunningMuster
from tests.integration.queueing import A100, GPU, Queues, start_with_queues
from tests.integration.stage import RealStage
from tests.manifests_of_queues import JOB, TEAMS, TUTORIAL
from tests.scenarios.pods import bound, gated

pytestmark = pytest.mark.xdist_group("queues")


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    return start_with_queues(cluster)


@pytest.fixture
def queues(stage: RealStage) -> Iterator[Queues]:
    one = Queues(stage)
    yield one
    one.remove()


def test_the_tutorials_job_twice(stage: RealStage, queues: Queues) -> None:
    queues.apply(TUTORIAL)
    stage.add_nodes(8, labels=A100)  # room for both: it is the quota that lacks
    jobs = yaml.safe_load(JOB.format(name="first")), yaml.safe_load(JOB.format(name="second"))
    stage.api.create(queues.jobs, jobs[0])
    started = queues.until_started("first", 4)
    assert started["metadata"]["annotations"]["muster.dev/flavors"] == '{"":{"nvidia.com/gpu":"a100-gpu-80gb"}}'
    stage.api.create(queues.jobs, jobs[1])
    why = queues.reason("second", "NoQuota")
    for part in ("heavy-ml-cluster-queue", "32", "a100-gpu-80gb", f"{queues.home}/job-first"):
        assert part in why
    assert queues.until("second", bool)["spec"]["suspend"]
    hint = stage.until_noted("first", "UnreadKey")
    assert "kueue.sh/queue-name is a misspelt kueue.x-k8s.io/queue-name" in hint
    both = {"pendingWorkloads": 1, "reservingWorkloads": 1, "admittedWorkloads": 1}
    for kind, name in (("ClusterQueue", "heavy-ml-cluster-queue"), ("LocalQueue", "kueue-gang-queue")):
        status = queues.status(kind, name, lambda status: all(status.get(key) == both[key] for key in both))
        (flavor,) = status["flavorsUsage"]
        assert [(one["name"], one["total"]) for one in flavor["resources"]] == [(GPU, "32")]
        (active,) = [one for one in status["conditions"] if one["type"] == "Active"]
        assert (active["status"], active["reason"]) == ("True", "Ready")
    assert queues.record("first", "Admitted", "True")["admission"]["clusterQueue"] == "heavy-ml-cluster-queue"
    queues.record("second", "QuotaReserved", "False", position=1)
    queues.end("first")
    queues.until_started("second", 4)
    queues.status("ClusterQueue", "heavy-ml-cluster-queue", lambda status: status["pendingWorkloads"] == 0)
    queues.record("first", "Finished", "True")
    queues.record("second", "Admitted", "True", position=None)


def test_quota_that_is_free_is_no_room(stage: RealStage, queues: Queues) -> None:
    """Kueue admits the first: 32 GPUs are free. On no node are 8 of them."""
    queues.apply(TUTORIAL)
    stage.add_nodes(8, gpus=4, labels=A100)
    queues.job("fragmented", "kueue-gang-queue", 4, gpus=8)
    told = stage.until_told("job-fragmented", lambda gang: gang.state not in ("Running", "Pending"))
    assert "a100-gpu-80gb" in told.message, told
    queues.job("behind", "kueue-gang-queue", 4, gpus=4)
    queues.until_started("behind", 4)
    assert queues.until("fragmented", bool)["spec"]["suspend"]


def test_three_teams_that_may_borrow(stage: RealStage, queues: Queues) -> None:
    queues.apply(TEAMS)
    stage.add_nodes(8)
    queues.job("a", "team-a", 4)  # 32: 16 of its own, 16 borrowed
    queues.until_started("a", 4)
    queues.status("ClusterQueue", "team-a", lambda status: borrowed(status) == "16")
    queues.job("more", "team-a", 3)  # 24 more are beyond the 32 that it may borrow
    assert "8" in queues.reason("more", "NoQuota")
    queues.job("c", "team-c", 4)
    queues.until_started("c", 4)
    queues.job("b", "team-b", 2)  # its own 16 are lent: they come back when somebody ends
    queues.reason("b", "NoQuota")
    queues.end("a")
    queues.until_started("b", 2)


def borrowed(status: Object) -> str:
    return str(status["flavorsUsage"][0]["resources"][0]["borrowed"])


def test_a_restart_keeps_what_is_used(stage: RealStage, queues: Queues) -> None:
    queues.apply(TUTORIAL)
    stage.add_nodes(8, labels=A100)
    queues.job("first", "kueue-gang-queue", 4)
    queues.until_started("first", 4)
    stage.muster.restart_extender()
    queues.job("second", "kueue-gang-queue", 4)
    assert "job-first" in queues.reason("second", "NoQuota")
    queues.end("first")
    queues.until_started("second", 4)


def test_the_local_queue_that_has_used_less_comes_first_after_a_restart_too(stage: RealStage, queues: Queues) -> None:
    by_usage = "admissionScope: {admissionMode: UsageBasedAdmissionFairSharing}"
    queues.apply(TUTORIAL.replace("cohort: ml-cohort", by_usage))
    queues.apply(TUTORIAL.split("---\n")[2].replace("kueue-gang-queue", "idle"))
    stage.add_nodes(4, labels=A100)
    queues.job("runs", "kueue-gang-queue", 4)
    queues.until_started("runs", 4)

    def is_stored(status: Object) -> bool:
        shared = status.get("fairSharing", {}).get("admissionFairSharingStatus", {})
        return GPU in shared.get("consumedResources", {})

    queues.status("LocalQueue", "kueue-gang-queue", is_stored)
    queues.job("older", "kueue-gang-queue", 4)
    queues.reason("older", "NoQuota")
    stage.muster.restart_extender()
    queues.job("younger", "idle", 4)
    queues.reason("younger", "NoQuota")
    queues.end("runs")
    queues.until_started("younger", 4)
    queues.reason("older", "NoQuota")
    queues.end("younger")
    queues.until_started("older", 4)


def test_what_names_a_queue_that_is_not_there_waits(stage: RealStage, queues: Queues) -> None:
    queues.apply(TUTORIAL)
    stage.add_nodes(2, labels=A100)
    queues.job("train", "nowhere", 2)
    assert "there is no LocalQueue nowhere" in queues.reason("train", "QueueMissing")


def test_a_gang_of_pods_waits_for_quota_and_then_runs(stage: RealStage, queues: Queues) -> None:
    queues.apply(TUTORIAL)
    stage.add_nodes(8, labels=A100)
    for name in ("first", "second"):
        members = gated(name, 4)
        for one in members:
            one["metadata"]["labels"] = {"muster.dev/queue-name": "kueue-gang-queue"}
        stage.create(*members)
        if name == "first":
            stage.until(lambda pods: len(bound(pods, "first")) == 4)
    why = stage.until_told("second", lambda gang: gang.state == "NoQuota").message
    assert f"{queues.home}/first (32)" in why
    stage.delete(*(f"first-{at}" for at in range(4)))
    stage.until(lambda pods: len(bound(pods, "second")) == 4)
