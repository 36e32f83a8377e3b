"""The view of a tenant on a real API server, who may do anything in one namespace, and writes Muster's marks.

The administrator, who may write them, stands for Muster.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from devcluster import Cluster
from devcluster.api import ApiError, Object
from devcluster.muster import install_gate, install_job_admission
from extender.core.gate.stamps import WRITTEN
from extender.kube.keys import FLAVORS, IN_VAIN, OWN, PLAN
from extender.kube.reading.eviction import EVICTED_AT
from extender.kube.reading.reserved import RESERVATIONS
from tests.integration.managed_kinds import (
    TRAINING,
    jobset,
    ray,
    rays,
    suspension,
    training,
    trains,
    with_kinds,
    wrappers,
    wrapping,
)
from tests.integration.managed_kinds import collection as collection_of
from tests.integration.team import GANG, QUEUE, Team

MALLORY = "mallory"
OF_JOBS = (PLAN, OWN, FLAVORS, *RESERVATIONS, EVICTED_AT, IN_VAIN)
OF_PODS = (*sorted(WRITTEN), *RESERVATIONS)
PLANNED = {PLAN: '{"":"node-0*1,node-1*1"}', FLAVORS: '{"":{"nvidia.com/gpu":"gpu"}}'}
ONLY_MUSTER = "nobody but Muster writes"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with with_kinds() as running:
        install_gate(running)
        install_job_admission(running)
        running.add_nodes(1)
        yield running


class Tenant:
    """A tenant with all rights in one namespace, and none anywhere else."""

    def __init__(self, team: Team) -> None:
        self.api, self.team = team.api, team
        within = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{team.name}"
        everything = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
        self.api.create(f"{within}/roles", {"metadata": {"name": "all"}, "rules": everything})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "all"}
        who = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": MALLORY}]
        self.api.create(f"{within}/rolebindings", {"metadata": {"name": "all"}, "roleRef": role, "subjects": who})
        review = {"user": MALLORY, "resourceAttributes": {"namespace": team.name, "verb": "patch", "resource": "pods"}}
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        while not self.api.create(path, {"spec": review})["status"]["allowed"]:
            pass

    def create(self, path: str, obj: Object) -> Object:
        return self.api.create(path, obj, user=MALLORY)

    def patch(self, path: str, patch: Any, **how: str) -> Object:
        return self.api.patch(path, patch, user=MALLORY, **how)

    def job(self, name: str = "train", **given: Any) -> Object:
        return self.create(self.team.jobs, self.team.job(name, **given))

    def annotate(self, path: str, **annotations: Any) -> Object:
        return self.patch(path, {"metadata": {"annotations": annotations}})

    def refused(self, path: str, patch: Object) -> str:
        with pytest.raises(ApiError) as refusal:
            self.patch(path, patch)
        assert refusal.value.code in (403, 422), refusal.value
        return str(refusal.value)


@pytest.fixture
def team(cluster: Cluster) -> Team:
    return Team(cluster)


@pytest.fixture
def tenant(team: Team) -> Tenant:
    return Tenant(team)


def said(obj: Object) -> Object:
    written: Object = obj["metadata"].get("annotations", {})
    return {key: value for key, value in written.items() if key.startswith("muster.dev/")}


def test_a_forged_plan_starts_nothing(tenant: Tenant, team: Team) -> None:
    """D1, D2, D6 and D9: one merge patch, with a template that leads its pods, or with a text in place of the plan."""
    tenant.job()
    path = f"{team.jobs}/train"
    template = {"metadata": {"annotations": {"muster.dev/workload": "uid", "muster.dev/nodes": "node-0"}}}
    awaits = "nodes are awaited until 9999-12-31T23:59:59Z, attempt 999999"
    for plan in (PLANNED[PLAN], awaits, '{"": "\\ud800*2"}'):
        for spec in ({"suspend": False}, {"suspend": False, "template": template}, {}):
            refusal = tenant.refused(path, {"metadata": {"annotations": PLANNED | {PLAN: plan}}, "spec": spec})
            assert ONLY_MUSTER in refusal
    assert ONLY_MUSTER in tenant.refused(path, {"spec": {"template": template}})
    for plan in (PLANNED[PLAN], awaits):
        alone = tenant.patch(path, {"metadata": {"annotations": {PLAN: plan}}, "spec": {"suspend": False}})
        assert (alone["spec"]["suspend"], said(alone)) == (True, {})
    assert tenant.patch(path, {"spec": {"suspend": False}})["spec"]["suspend"]
    assert not said(team.now())


@pytest.mark.parametrize("key", OF_JOBS)
@pytest.mark.parametrize("where", ["", "/status"], ids=["job", "its status"])
def test_no_key_of_a_job_is_added_changed_or_removed(tenant: Tenant, team: Team, key: str, where: str) -> None:
    path = f"{team.jobs}/train"
    tenant.job()
    if key == PLAN and not where:
        assert not said(tenant.annotate(path, **{PLAN: "{}"})), "off a job that waits it comes off by itself"
    else:
        assert key in tenant.refused(path + where, {"metadata": {"annotations": {key: "{}"}}})
    muster = {"metadata": {"annotations": {key: "{}"}}, "spec": {"suspend": False}}
    team.api.patch(path, muster)
    assert key in tenant.refused(path + where, {"metadata": {"annotations": {key: '{"a":{}}'}}})
    if where and key != PLAN:
        assert key in tenant.refused(path + where, {"metadata": {"annotations": {key: None}}})
    elif not where:
        assert said(tenant.annotate(path, **{key: None})) == {key: "{}"}, "it stays"
    assert tenant.patch(path, {"metadata": {"labels": {"mine": "yes"}}})["metadata"]["labels"]["mine"] == "yes"


def test_a_job_created_again_from_what_the_api_server_said_loses_what_is_stale(tenant: Tenant, team: Team) -> None:
    again = team.job("again", annotations=dict.fromkeys(OF_JOBS, "{}") | {"kept": "yes"})
    job = tenant.create(team.jobs, again)
    assert job["metadata"]["annotations"] == {"kept": "yes", OWN: "{}"}
    assert job["spec"]["suspend"]


def test_a_manifest_goes_on_being_applied_and_replaced(tenant: Tenant, team: Team) -> None:
    tenant.job()
    path = f"{team.jobs}/train"
    team.api.patch(path, {"metadata": {"annotations": PLANNED | {EVICTED_AT: ""}}, "spec": {"suspend": False}})
    kept = said(team.now())
    applied = team.job() | {"spec": {**team.job()["spec"], "parallelism": 2, "suspend": False}}
    tenant.patch(f"{path}?fieldManager=me&force=true", applied, type="application/apply-patch+yaml")
    assert said(team.now()) == kept
    bare = deepcopy(team.now())
    bare["metadata"]["annotations"] = {"mine": "yes"}
    del bare["metadata"]["managedFields"]
    now = team.api.replace(path, bare, user=MALLORY)
    assert now["metadata"]["annotations"] == kept | {"mine": "yes"}
    stopped = deepcopy(bare) | {"spec": {**bare["spec"], "suspend": True}}
    del stopped["metadata"]["resourceVersion"]
    assert PLAN not in said(team.api.replace(path, stopped, user=MALLORY)), "it is stopped"


def test_what_a_job_of_another_job_says_is_not_carried_over_when_its_owner_goes(tenant: Tenant, team: Team) -> None:
    """Muster does not read the Jobs of a JobSet, so they may say anything, until their owner is gone."""
    real = tenant.create(collection_of(team, "JobSet"), jobset(1, labels=QUEUE))["metadata"]["uid"]
    owner = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "name": "train",
        "uid": real,
        "controller": True,
    }
    tenant.job(annotations=PLANNED, ownerReferences=[owner])
    assert said(team.now()) == PLANNED
    path = f"{team.jobs}/train"
    assert PLAN in tenant.refused(path, {"metadata": {"ownerReferences": None}})
    assert PLAN in tenant.refused(path, {"metadata": {"ownerReferences": [owner | {"controller": False}]}})


@pytest.mark.parametrize("kind", [*TRAINING, "JobSet", "RayCluster", "RayJob", "AppWrapper"])
def test_of_every_kind(tenant: Tenant, team: Team, kind: str) -> None:
    manifest, path = _of_kind(team, kind)
    manifest["metadata"]["annotations"] = dict(PLANNED)
    made = tenant.create(path, manifest)
    assert not said(made), "what a new one says of itself comes off"
    its = f"{path}/{made['metadata']['name']}"
    started = suspension(kind, to=False) | {"metadata": {"annotations": PLANNED}}
    assert FLAVORS in tenant.refused(its, started)
    holder = "runPolicy" if kind in TRAINING else None
    now = tenant.patch(its, suspension(kind, to=False))["spec"]
    assert (now[holder] if holder else now)["suspend"]
    assert ONLY_MUSTER in tenant.refused(its, {"spec": _planted(kind, made["spec"])})


def _of_kind(team: Team, kind: str) -> tuple[Object, str]:
    match kind:
        case "RayCluster" | "RayJob":
            return ray(kind, "a"), rays(team, kind)
        case "AppWrapper":
            return wrapping(), wrappers(team)
        case "JobSet":
            return jobset(1, labels=QUEUE), collection_of(team, kind)
        case _:
            return training(kind, None), collection_of(team, kind)


MARKS = {"annotations": {"muster.dev/workload": "uid", "muster.dev/nodes": "n"}, "labels": {"muster.dev/led": "index"}}


def _planted(kind: str, spec: Object) -> Object:
    """The spec with Muster's marks further down."""
    after = deepcopy(spec)
    if kind == "AppWrapper":
        after["components"][0]["podSetInfos"] = [MARKS]
        return after
    if kind == "JobSet":
        template = after["replicatedJobs"][0]["template"]["spec"]["template"]
    elif kind in TRAINING:
        template = next(iter(after[TRAINING[kind][2]].values()))["template"]
    else:
        template = (after if kind == "RayCluster" else after["rayClusterSpec"])["workerGroupSpecs"][0]["template"]
    template["metadata"] = {**(template.get("metadata") or {}), **MARKS}
    return after


def test_nor_of_a_trainjob_and_of_what_shows_it(tenant: Tenant, team: Team) -> None:
    entry = {
        "manager": "muster.dev/muster",
        "trainingRuntimeSpec": {"template": {"metadata": {"annotations": PLANNED}}},
    }
    meta = {"name": "train", "labels": QUEUE, "annotations": PLANNED}
    spec = {"runtimeRef": {"name": "torch"}, "runtimePatches": [entry]}
    header = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob"}
    made = tenant.create(trains(team), header | {"metadata": meta, "spec": spec})
    assert "node-0" not in json.dumps({key: value for key, value in made["metadata"].items() if key != "managedFields"})
    assert "node-0" not in json.dumps(made["spec"])
    path = f"{trains(team)}/train"
    assert ONLY_MUSTER in tenant.refused(path, {"spec": {"runtimePatches": [entry]}})
    owner = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "train", "controller": True}
    shown = jobset(1) | {
        "metadata": {
            "name": "train",
            "annotations": PLANNED | {"muster.dev/workload": "uid"},
            "ownerReferences": [owner | {"uid": made["metadata"]["uid"]}],
        }
    }
    with pytest.raises(ApiError, match=ONLY_MUSTER):
        tenant.create(collection_of(team, "JobSet"), shown)


# Pods.


def pod(name: str = "pod", **meta: Any) -> Object:
    spec = {"schedulerName": "muster", "containers": [{"name": "main", "image": "train"}]}
    return {"metadata": {"name": name, **meta}, "spec": spec}


FORGED = dict.fromkeys(OF_PODS, "1")


@pytest.mark.parametrize("labels", [{}, {"muster.dev/led": "true"}, {"muster.dev/led": "index"}], ids=str)
def test_what_muster_says_of_a_pod_comes_off_a_new_one(tenant: Tenant, team: Team, labels: Object) -> None:
    """This holds also of a pod that is created on a node, or from a template with the marks."""
    given = pod(annotations=FORGED | {"kept": "yes"}, labels=labels)
    given["spec"]["nodeName"] = "node-0"
    assert tenant.create(team.pods, given)["metadata"]["annotations"] == {"kept": "yes"}


@pytest.mark.parametrize("key", OF_PODS)
def test_no_key_of_a_pod_is_added_changed_or_removed(tenant: Tenant, team: Team, key: str) -> None:
    tenant.create(team.pods, pod())
    path = f"{team.pods}/pod"
    for where in ("", "/status"):
        assert key in tenant.refused(path + where, {"metadata": {"annotations": {key: "1"}}})
    team.api.patch(path, {"metadata": {"annotations": {key: "1"}}})
    for where in ("", "/status"):
        for value in ("2", None):
            assert key in tenant.refused(path + where, {"metadata": {"annotations": {key: value}}})
    tenant.annotate(path, mine="yes")


def test_a_binding_of_somebody_else_stamps_nothing(tenant: Tenant, team: Team) -> None:
    tenant.create(team.pods, pod())
    target = {"apiVersion": "v1", "kind": "Node", "name": "node-0"}
    meta = {"name": "pod", "annotations": {"muster.dev/release": "r", "muster.dev/gang-uid": "u"}}
    binding = {"apiVersion": "v1", "kind": "Binding", "target": target}
    for path in (f"{team.pods}/pod/binding", f"{team.pods.removesuffix('pods')}bindings"):
        with pytest.raises(ApiError, match=ONLY_MUSTER):
            tenant.create(path, binding | {"metadata": meta})
    tenant.create(f"{team.pods}/pod/binding", binding | {"metadata": {"name": "pod"}})


QUEUES = ("kueue.x-k8s.io/queue-name", "muster.dev/queue-name", "kueue.sh/queue-name")


def running(tenant: Tenant, team: Team, **meta: Any) -> str:
    """A pod that Muster has bound. Returns its path."""
    meta["annotations"] = {"muster.dev/pod-group": "g", "muster.dev/min-member": "1", **meta.get("annotations", {})}
    tenant.create(team.pods, pod(**meta))
    path = f"{team.pods}/pod"
    team.api.patch(path, {"spec": {"schedulingGates": None}}, "application/strategic-merge-patch+json")
    target = {"apiVersion": "v1", "kind": "Node", "name": "node-0"}
    stamped = {"muster.dev/release": "r", "muster.dev/gang-uid": "u", "muster.dev/gang-name": "g"}
    binding = {"metadata": {"name": "pod", "annotations": stamped}, "target": target}
    team.api.create(f"{path}/binding", {"apiVersion": "v1", "kind": "Binding", **binding})
    return path


@pytest.mark.parametrize("value", [None, "", "other"], ids=str)
@pytest.mark.parametrize("key", [*QUEUES, "scheduling.volcano.sh/queue-name", "muster.dev/pod-group"])
def test_a_pod_stays_in_its_gang_and_queue_while_it_runs(tenant: Tenant, team: Team, key: str, value: Any) -> None:
    """D7: its quota would be given out once more."""
    place = "labels" if key in QUEUES else "annotations"
    path = running(tenant, team, **{place: {key: "g"}})
    for where in ("", "/status"):
        assert key in tenant.refused(path + where, {"metadata": {place: {key: value}}})
    tenant.patch(path, {"metadata": {"labels": {"mine": "yes"}}})


@pytest.mark.parametrize("value", [None, "other"], ids=str)
@pytest.mark.parametrize("key", [*QUEUES, "scheduling.volcano.sh/queue-name"])
def test_a_job_stays_in_its_queue_while_it_runs(tenant: Tenant, team: Team, key: str, value: Any) -> None:
    place = "labels" if key in QUEUES else "annotations"
    meta: dict[str, Any] = {"labels": GANG} | {place: {**(GANG if place == "labels" else {}), key: "q"}}
    tenant.job(**meta)
    path = f"{team.jobs}/train"
    team.api.patch(path, {"metadata": {"annotations": PLANNED}, "spec": {"suspend": False}})
    assert "quota of the queue" in tenant.refused(path, {"metadata": {place: {key: value}}})
