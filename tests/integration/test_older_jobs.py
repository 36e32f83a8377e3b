"""A Job that has run, on API servers that refuse changes of its template while it has a start time: 1.35 and older.

From 1.36 on two feature gates have it otherwise. They are off here, so these tests show the same on every version.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping

import pytest
import yaml

from devcluster import Cluster
from devcluster.api import ApiError, Object
from devcluster.binaries import minor
from devcluster.components import MUTATING_POLICIES, MUTATING_POLICIES_BEFORE
from devcluster.errors import ClusterError
from devcluster.muster import MANIFESTS, install, start_muster
from extender.core.effects import CleanJob, StartJob, SuspendJob
from extender.kube.api.connection import ApiError as Refused
from extender.kube.kinds.job import JOB
from extender.kube.kinds.read import Reader
from policies.model import Job, PlannedNodes
from tests.documents.test_kyverno import built
from tests.integration.extender import MERGE, Extender
from tests.integration.stage import RealStage
from tests.integration.team import COMPLETION, GANG, Team, is_gated, node_names, scheduler_of

GATES = "MutableSchedulingDirectivesForSuspendedJobs", "MutablePodResourcesForSuspendedJobs"
SERVES_POLICIES = minor() >= MUTATING_POLICIES


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    off = dict.fromkeys(GATES, "false") if minor() >= (1, 35) else {}
    on = {} if SERVES_POLICIES else {"MutatingAdmissionPolicy": "true"}
    served = f"--runtime-config=admissionregistration.k8s.io/{MUTATING_POLICIES_BEFORE}=true"
    flags = {"kube-apiserver": [*_gates(off | on), served], "kube-controller-manager": _gates(off)}
    with Cluster(flags=flags) as running:
        install(running)
        yield running


def _gates(settings: Mapping[str, str]) -> list[str]:
    return [f"--feature-gates={','.join('='.join(setting) for setting in settings.items())}"] if settings else []


def seen(job: Object) -> Job:
    """Return the job as the core of the extender gets it."""
    return Reader(("muster", "default-scheduler")).read(JOB, job)


def starting(team: Team, *nodes: str) -> StartJob:
    job = seen(team.now())
    plan: PlannedNodes = {podset.name: nodes for podset in job.podsets.podsets}
    return StartJob(job, plan, len(nodes))


def stopped(team: Team, extender: Extender) -> Object:
    """A Job that has run and was suspended, with everything of Muster's on it."""
    team.create(team.job(spec={"suspend": True}, pod={"schedulerName": "muster"}))
    extender.write(starting(team, "node-0", "node-1"))
    team.until_active()
    extender.write(SuspendJob(seen(team.now()), "a node is lost"))
    stopped_job: Object = team.api.wait_for(f"{team.jobs}/train", lambda job: job is not None and seen(job).stopped)
    return stopped_job


def test_a_job_that_ran_is_given_back_and_started_with_another_plan(team: Team, extender: Extender) -> None:
    job = stopped(team, extender)
    assert job["status"]["startTime"]
    with pytest.raises(ApiError, match="field is immutable"):  # an administrator may not do it either
        team.patch({"spec": {"template": {"metadata": {"annotations": {"by": "hand"}}}}})
    extender.write(CleanJob(seen(team.now())))
    after = team.now()
    assert "startTime" not in after["status"]
    assert "affinity" not in after["spec"]["template"]["spec"]
    extender.write(starting(team, "node-2", "node-3"))
    team.until_active()
    started = team.now()
    assert started["status"]["startTime"]
    assert node_names(started["spec"]["template"]) == ["node-2", "node-3"]


def test_nothing_else_of_the_status_can_be_changed(team: Team, extender: Extender) -> None:
    job = stopped(team, extender)
    path = f"{team.jobs}/train/status"
    suspended = next(condition for condition in job["status"]["conditions"] if condition["type"] == "Suspended")
    for change in (
        {"status": {"startTime": None, "ready": 0, "failed": 1}},
        {"status": {"startTime": "2026-01-02T03:04:05Z"}},
        {"status": {"startTime": None, "conditions": [suspended, {"type": "Mine", "status": "True"}]}},
        {"status": {"startTime": None}, "metadata": {"labels": {"mine": "yes"}}},
        {"status": {"startTime": None}, "metadata": {"annotations": {"mine": "yes"}}},
        {"status": {"startTime": None}, "metadata": {"finalizers": ["example.com/mine"]}},
    ):
        refusal = extender.refused("PATCH", path, change, MERGE)
        assert "muster-extender-job-status" in refusal
    assert team.now()["status"]["startTime"] == job["status"]["startTime"]


def test_the_start_time_of_a_job_that_runs_or_is_not_managed_stays(team: Team, extender: Extender) -> None:
    path, change = f"{team.jobs}/train/status", {"status": {"startTime": None}}
    team.create(team.job(labels=GANG))
    team.until_active()
    with pytest.raises(Refused, match="unsuspended job"):  # by the API server itself
        extender.patch(path, change)
    team.patch({"metadata": {"labels": {"muster.dev/gang": None}}, "spec": {"suspend": True}})
    team.api.wait_for(f"{team.jobs}/train", lambda job: job is not None and seen(job).stopped)
    assert "of a job that asks for it" in extender.refused("PATCH", path, change, MERGE)


def test_a_job_whose_node_is_lost_runs_on_others(cluster: Cluster) -> None:
    """All of Muster runs, without the components: the manifest states the suspension and the scheduler."""
    with RealStage(cluster, start_muster(cluster, {"node_loss_s": 1.0})) as stage:
        nodes = set(stage.add_nodes(3))
        jobs = f"/apis/batch/v1/namespaces/{stage.namespace}/jobs"
        limits = {"limits": {"nvidia.com/gpu": 8}}
        pod = {"containers": [{"name": "main", "image": "train", "resources": limits}]}
        template = {"spec": {"schedulerName": "muster", "restartPolicy": "Never", **pod}}
        size = {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "suspend": True}
        made = {"metadata": {"name": "train", "labels": GANG}, "spec": {**size, "template": template}}
        cluster.api.create(jobs, made)
        lost = min(_placed(stage))
        stage.remove_node(lost)
        assert _placed(stage, without=lost) == nodes - {lost}
        cluster.api.delete(f"{jobs}/train", {"propagationPolicy": "Background"})


def _placed(stage: RealStage, without: str = "") -> set[str]:
    def nodes_of(pods: list[Object]) -> set[str]:
        live = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        return {pod["spec"].get("nodeName", "") for pod in live}

    placed_pods: list[Object] = stage.api.wait_for(
        stage.pods_path, lambda pods: len(nodes_of(pods)) == 2 and not nodes_of(pods) & {"", without}, 60.0
    )
    return nodes_of(placed_pods)


def test_which_components_the_api_server_takes(cluster: Cluster) -> None:
    """MutatingAdmissionPolicy is v1, and on, from 1.36. Before, the rest of a component is applied all the same."""
    versions = {resource["name"] for resource in cluster.api.get("/apis/admissionregistration.k8s.io/v1")["resources"]}
    assert ("mutatingadmissionpolicies" in versions) is SERVES_POLICIES
    unknown_kinds = {}
    for component in ("admission-gate", "job-admission", "pod-trials"):
        try:
            cluster.kubectl("apply", "--dry-run=server", "-k", str(MANIFESTS / "components" / component))
        except ClusterError as refused:
            unknown_kinds[component] = set(re.findall(r'no matches for kind "(\w+)"', str(refused)))
    missing = {"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"}
    assert unknown_kinds == ({} if SERVES_POLICIES else {"admission-gate": missing, "job-admission": missing})


@pytest.mark.parametrize("folder", ["kyverno", "policies-v1beta1"])
def test_kubectl_makes_of_a_kustomization_what_was_compared(cluster: Cluster, folder: str) -> None:
    made = yaml.safe_load_all(cluster.kubectl("kustomize", str(MANIFESTS / "examples" / folder)))
    assert sorted(made, key=str) == sorted(built(f"examples/{folder}"), key=str)


def test_where_the_gate_is_on_the_policies_in_v1beta1_do_the_same(cluster: Cluster, team: Team) -> None:
    cluster.kubectl("apply", "-k", str(MANIFESTS / "examples" / "policies-v1beta1"))
    deadline = time.monotonic() + 60.0
    while not team.api.create(f"{team.jobs}?dryRun=All", team.job())["spec"].get("suspend"):
        assert time.monotonic() < deadline, "the policies are not in force"
        time.sleep(0.1)
    job = team.create(team.job(spec={"suspend": False}))
    assert (job["spec"]["suspend"], scheduler_of(job)) == (True, "muster")
    with_plan = team.job("forged", annotations={"muster.dev/plan": '{"": "node-0*2"}'}, spec={"suspend": False})
    forged = team.create(with_plan)
    assert forged["spec"]["suspend"]
    assert "muster.dev/plan" not in forged["metadata"].get("annotations", {})
    assert is_gated(team.pod("node-0,node-1", {COMPLETION: "5"}))
    pinned = team.pod("node-0,node-1", {COMPLETION: "1"})
    assert not is_gated(pinned)
    assert node_names(pinned) == ["node-1"]
