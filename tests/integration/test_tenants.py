"""Attacks of one tenant on the others with jobs alone, on the real API server: squat, evict in circles, linger."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster import Cluster
from devcluster.api import Object
from devcluster.errors import ClusterError
from devcluster.muster import RunningMuster, install_crds_of, install_gate, install_job_admission, start_muster
from tests.integration.preemption import with_preemption
from tests.integration.stage import PATIENCE_S, RealStage, add_priorities
from tests.integration.team import Team
from tests.scenarios.pods import pod

pytestmark = pytest.mark.xdist_group("tenants")

CLASSES = "/apis/kueue.x-k8s.io/v1beta2/workloadpriorityclasses"
LABEL = "kueue.x-k8s.io/priority-class"
CLASS_POLICY = Path(__file__).parent.parent.parent / "manifests/examples/workload-priority-classes.yaml"


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    install_crds_of(cluster, "queues")
    header = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass"}
    cluster.api.create(CLASSES, {**header, "metadata": {"name": "wpc-high"}, "value": 5000})
    running = start_muster(
        cluster, {"preemption": "on"}, manifests=with_preemption(cluster.directory / "with-preemption")
    )
    install_gate(cluster)
    install_job_admission(cluster)
    add_priorities(cluster, {"low": 100})
    return running


class Tenant(Team):
    """A namespace whose jobs of whole nodes run on the nodes of the stage."""

    def __init__(self, stage: RealStage, pods: int | None = None) -> None:
        super().__init__(stage.cluster)
        self._stage = stage
        if pods is not None:
            spec = {"hard": {"pods": str(pods)}}
            quotas = f"/api/v1/namespaces/{self.name}/resourcequotas"
            self.api.create(quotas, {"metadata": {"name": "pods"}, "spec": spec})
            self.api.wait_for(f"{quotas}/pods", lambda quota: bool(quota) and "hard" in quota.get("status", {}))

    def submit(self, name: str, size: int, labels: Object | None = None, **spec: Any) -> None:
        """A job of ``size`` whole nodes."""
        made = {**pod(name)["spec"], "nodeSelector": {"stage": self._stage.namespace}, "restartPolicy": "Never", **spec}
        sizes = {"completions": size, "parallelism": size}
        self.create(self.job(name, labels={"muster.dev/gang": "true", **(labels or {})}, spec=sizes, pod=made))

    def until_running(self, name: str, size: int, patience_s: float = PATIENCE_S) -> None:
        path = f"{self.jobs}/{name}"
        self.api.wait_for(path, lambda job: bool(job) and job["status"].get("ready") == size, patience_s)


@pytest.fixture
def tenants(stage: RealStage) -> Iterator[list[Tenant]]:
    """The tenants of a test; their jobs are deleted after it."""
    made: list[Tenant] = []
    yield made
    for tenant in made:
        stage.api.delete(tenant.jobs, {"propagationPolicy": "Background"})


def test_a_tenant_without_a_right_to_run_pods_keeps_no_room_from_the_others(
    stage: RealStage, tenants: list[Tenant]
) -> None:
    """Jobs say that their controller has tried to make pods, so that even the first one holds its room for 5 s."""
    stage.add_nodes(2)
    squatter, honest = Tenant(stage, pods=0), Tenant(stage)
    tenants += [squatter, honest]
    for number in range(3):
        squatter.submit(f"squat{number}", 2)
    honest.submit("first", 2)
    honest.until_running("first", 2, 12.0)
    stage.api.delete(f"{honest.jobs}/first", {"propagationPolicy": "Background"})
    squatter.api.wait_for(squatter.jobs, lambda jobs: any(not job["spec"]["suspend"] for job in jobs), PATIENCE_S)
    squatter.submit("urgent", 2)
    honest.submit("second", 2)
    honest.until_running("second", 2, 12.0)


def test_a_job_has_the_priority_of_its_class_while_it_runs(stage: RealStage, tenants: list[Tenant]) -> None:
    stage.add_nodes(2)
    victim, other = Tenant(stage), Tenant(stage)
    tenants += [victim, other]
    victim.submit("victim", 2, priorityClassName="low")
    victim.until_running("victim", 2)
    other.submit("evil2", 2, {LABEL: "wpc-high"})
    other.until_running("evil2", 2)
    until = time.monotonic() + 8
    while time.monotonic() < until:
        assert not other.now("evil2")["spec"]["suspend"]
        assert victim.now("victim")["spec"]["suspend"]
        time.sleep(0.2)


def test_nothing_of_a_namespace_that_is_being_deleted_is_started(stage: RealStage, tenants: list[Tenant]) -> None:
    """kubernetes/kubernetes#38612: a pod with a finalizer keeps the namespace for a while."""
    stage.add_nodes(2)
    doomed, other = Tenant(stage), Tenant(stage)
    tenants.append(other)
    held: Object = {
        **pod("stuck", nodeSelector={"none": "none"}),
        "metadata": {"name": "stuck", "finalizers": ["example.com/x"]},
    }
    doomed.api.create(doomed.pods, held)
    for name in ("first", "w1", "w2", "w3", "w4"):
        doomed.submit(name, 2)
    doomed.until_running("first", 2)
    stage.api.delete(f"/api/v1/namespaces/{doomed.name}")
    try:
        other.submit("other", 2)
        other.until_running("other", 2, 15.0)
    finally:
        patch = {"metadata": {"finalizers": None}}
        stage.api.patch(f"{doomed.pods}/stuck", patch, "application/merge-patch+json")


def test_the_policy_that_ships_says_who_may_use_a_class(stage: RealStage) -> None:
    stage.cluster.kubectl("apply", "-f", str(CLASS_POLICY))
    user = Team(stage.cluster)
    account = f"system:serviceaccount:{user.name}:default"
    roles = "/apis/rbac.authorization.k8s.io/v1"
    subjects = [{"kind": "ServiceAccount", "name": "default", "namespace": user.name}]
    edit: Object = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
    binding: Object = {"metadata": {"name": "edit"}, "roleRef": edit, "subjects": subjects}
    user.api.create(f"{roles}/namespaces/{user.name}/rolebindings", binding)

    def created(name: str, labels: Object) -> str:
        """Returns the output of kubectl."""
        job = json.dumps(user.job(name, labels=labels))
        try:
            return stage.cluster.kubectl("create", "--as", account, "--dry-run=server", "-f", "-", stdin=job)
        except ClusterError as refused:
            return str(refused)

    try:
        stage.cluster.kubectl("apply", "-f", str(CLASS_POLICY))
        until = time.monotonic() + PATIENCE_S
        while "may not use" not in (answer := created("urgent", {LABEL: "wpc-high"})):
            assert time.monotonic() < until, answer
        assert "created" in created("plain", {})
        use = {"apiGroups": ["kueue.x-k8s.io"], "resources": ["workloadpriorityclasses"], "verbs": ["use"]}
        user.api.create(f"{roles}/clusterroles", {"metadata": {"name": "urgent"}, "rules": [use]})
        urgent = {**binding, "metadata": {"name": "urgent"}, "roleRef": {**edit, "name": "urgent"}}
        user.api.create(f"{roles}/clusterrolebindings", urgent)
        while "created" not in (answer := created("urgent", {LABEL: "wpc-high"})):
            assert time.monotonic() < until, answer
    finally:
        stage.cluster.kubectl("delete", "-f", str(CLASS_POLICY))
