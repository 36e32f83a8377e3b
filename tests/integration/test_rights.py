"""On a real API server: each account of Muster has the rights that it uses, and no other."""

from __future__ import annotations

import asyncio
import inspect
import json
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.stage import NATIVE
from devcluster import Cluster
from devcluster.api import Object
from devcluster.certificates import Authority
from devcluster.controllers import install_crds
from devcluster.crds import CRDS, until_established
from devcluster.muster import MANIFESTS, NAMESPACE, install, install_crds_of
from devcluster.nvidia.driver import RESOURCE
from devcluster.nvidia.objects import crd
from extender.core.effects import PostBinding
from extender.kube.api.connection import ApiError as Refused
from extender.kube.client import Kube
from extender.kube.kinds.job import JOB
from extender.kube.kinds.registry import KINDS
from extender.kube.podgroups.volcano import JOBS, PODGROUPS
from extender.kube.queues.protection import NODES
from tests.integration.over_tls import MUSTER, shipped, start_over_tls
from tests.integration.podgroups import install_kind, install_podgroups
from tests.integration.volcano import install_queues
from tests.manifests_of_queues import TUTORIAL

pytestmark = pytest.mark.xdist_group("rights")

RBAC = "/apis/rbac.authorization.k8s.io/v1"
TEAM = "team"
PODS = f"/api/v1/namespaces/{TEAM}/pods"
GROUPS = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{TEAM}/podgroups"
MADE = (
    f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{TEAM}/workloads/train",
    f"/apis/autoscaling.x-k8s.io/v1/namespaces/{TEAM}/provisioningrequests/train",
    f"/api/v1/namespaces/{TEAM}/podtemplates/train",
)
"""The objects that Muster makes, and a release deletes."""
COHORT = "{apiVersion: kueue.x-k8s.io/v1beta2, kind: Cohort, metadata: {name: ml-cohort}, spec: {}}"
MERGE_PATCH = "application/merge-patch+json"
NEED_NO_RIGHT = {"connect", "close", "call", "find", "clock"}
"""The client's methods that need no right themselves; their callers state what ``call`` and ``find`` request."""
OF_COMPONENTS = {"patch_claim_status"}
"""Needs the rights of a component, which tests/integration/test_extender_policy_claims.py tries."""


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """A right that RBAC grants and the API server checks: a verb on a resource ("pods/status") of a group."""

    verb: str
    group: str
    resource: str


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The authority for the certificates that Muster and its kube-scheduler show each other."""
    return Authority(tmp_path_factory.mktemp("muster") / "pki")


@pytest.fixture(scope="module")
def cluster(authority: Authority) -> Iterator[Cluster]:
    """With Muster as it ships, except that kube-scheduler and Muster show each other certificates."""
    # With the API of native groups, which are followed only where they are served.
    with Cluster(audited=True, flags={"kube-apiserver": NATIVE["kube-apiserver"]}) as running:
        install(running)
        install_crds(running, "jobset", "training-operator", "mpi-operator", "kuberay", "lws", "appwrapper")
        install_podgroups(running.api)
        install_kind(running.api, JOBS, "Job")
        install_queues(running.api)
        install_crds_of(running, "queues")
        # The other objects of devices are followed only where there is a class.
        running.api.create(f"{RESOURCE}/deviceclasses", {"metadata": {"name": "gpu.example.com"}, "spec": {}})
        running.api.create(CRDS, crd())
        until_established(running.api, crd()["metadata"]["name"])
        running.kubectl("apply", "-f", "-", stdin=TUTORIAL)
        running.kubectl("apply", "-f", "-", stdin=COHORT)
        start_over_tls(running, authority)
        running.add_nodes(4)
        running.api.create("/api/v1/namespaces", {"metadata": {"name": TEAM}})
        running.api.wait_for(f"/api/v1/namespaces/{TEAM}/serviceaccounts/default", bool)
        yield running


def pod(name: str, **meta: Any) -> Object:
    limits = {"cpu": "1", "nvidia.com/gpu": "8"}
    container = {"name": "main", "image": "train", "resources": {"requests": limits, "limits": limits}}
    return {"metadata": {"name": name, **meta}, "spec": {"schedulerName": "muster", "containers": [container]}}


def test_the_extender_has_the_rights_that_it_uses_and_no_other(cluster: Cluster) -> None:
    """A gang of each dialect starts over mutual TLS, one waits; then Muster makes every other kind of request."""
    api = cluster.api
    names = {"muster.dev/pod-group": "train", "muster.dev/min-member": "2"}
    for name, size in (("mpi", 2), ("alone", 9)):
        kind = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup"}
        api.create(GROUPS, {**kind, "metadata": {"name": name}, "spec": {"minMember": size}})
    for i in range(2):
        api.create(PODS, pod(f"train-{i}", annotations=names))
        api.create(PODS, pod(f"mpi-{i}", labels={"scheduling.x-k8s.io/pod-group": "mpi"}))
    api.create(PODS, pod("alone-0", labels={"scheduling.x-k8s.io/pod-group": "alone"}))
    started = ("train-0", "train-1", "mpi-0", "mpi-1")
    api.wait_for(
        PODS, lambda seen: {obj["metadata"]["name"] for obj in seen if obj["spec"].get("nodeName")} == set(started)
    )
    api.wait_for(f"{GROUPS}/alone", lambda group: "conditions" in group.get("status", {}))
    for queue in ("clusterqueues/heavy-ml-cluster-queue", "cohorts/ml-cohort"):
        api.wait_for(f"/apis/kueue.x-k8s.io/v1beta2/{queue}", lambda obj: "conditions" in obj.get("status", {}))
    asyncio.run(ask_for_everything(cluster))

    compare(cluster, "muster-extender")


def test_a_snapshot_needs_its_role_and_no_more(cluster: Cluster, tmp_path: Path) -> None:
    command = ["snapshot", f"--output={tmp_path / 'cluster.json'}"]
    done = run_as(cluster, "auditor", "snapshot-role/role.yaml", command)
    assert done.returncode == 0, done.stderr
    compare(cluster, "auditor")


def test_the_doctor_needs_its_roles_and_no_more(cluster: Cluster) -> None:
    deployment = [obj for obj in shipped(cluster) if obj["kind"] == "Deployment"]
    deployment[0]["spec"]["replicas"] = 0
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(deployment))
    cluster.api.create(CRDS, crd_of("admissionchecks"))
    until_established(cluster.api, "admissionchecks.kueue.x-k8s.io")
    hook = {"name": "vjob.kb.io", "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore"}
    service = {"clientConfig": {"service": {"namespace": "kueue-system", "name": "kueue-webhook-service"}}}
    kind = "ValidatingWebhookConfiguration"
    made = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "kueue"}}
    cluster.api.create(f"/apis/{made['apiVersion']}/{kind.lower()}s", made | {"webhooks": [hook | service]})
    settings = f"--config={MANIFESTS / 'examples' / 'own-kind' / 'muster.yaml'}"
    command = ["doctor", "--url=http://127.0.0.1:1", settings, "-o", "json"]
    done = run_as(cluster, "doctor", "doctor-role/roles.yaml", command)
    assert json.loads(done.stdout), done.stderr
    compare(cluster, "doctor")


def crd_of(plural: str) -> dict[str, Any]:
    """The CRD of a kind of Kueue that Muster does not bring."""
    names = {"plural": plural, "kind": plural.title()}
    schema = {"openAPIV3Schema": {"type": "object"}}
    version = {"name": "v1beta2", "served": True, "storage": True, "schema": schema}
    spec = {"group": "kueue.x-k8s.io", "names": names, "scope": "Cluster", "versions": [version]}
    return {"metadata": {"name": f"{plural}.kueue.x-k8s.io"}, "spec": spec}


def test_a_release_needs_its_roles_and_no_more(cluster: Cluster) -> None:
    done = run_as(cluster, "releaser", "release-role/roles.yaml", ["release", "--all", "-o", "json"])
    assert done.returncode == 0, done.stderr
    uid = cluster.api.create(PODS, pod("released"))["metadata"]["uid"]

    async def write() -> None:
        """Write as its steps do, for any released object."""
        kube = await Kube.connect(cluster.service_account_kubeconfig(NAMESPACE, "releaser"))
        try:
            await kube.patch_status(TEAM, "released", uid, {"nominatedNodeName": ""})
            await kube.ungate(TEAM, "released", uid)
            for path in (f"{NODES}/kept", f"{JOB.path_of(TEAM, 'train')}/status"):
                with pytest.raises(Refused, match="not found"):
                    await kube.patch_job(path, {}, {})
            for path in MADE:
                with pytest.raises(Refused, match="not found"):
                    await kube.call("DELETE", path)
            for path in [kind.path_of(TEAM, "train") for kind in KINDS]:
                for request in (kube.call("GET", path), kube.patch_job(path, {}, {})):
                    with pytest.raises(Refused, match="not found"):
                        await request
        finally:
            await kube.close()

    asyncio.run(write())
    compare(cluster, "releaser")


def run_as(cluster: Cluster, account: str, roles: str, command: list[str]) -> subprocess.CompletedProcess[str]:
    """A command of Muster as a ServiceAccount that has these roles of the components and nothing else."""
    cluster.api.create(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": account}})
    file = MANIFESTS / "components" / roles
    cluster.kubectl("apply", "-f", str(file))
    subject = {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}
    for role in yaml.safe_load_all(file.read_text()):
        kind, meta = role["kind"], role["metadata"]
        within = f"/namespaces/{meta['namespace']}" if kind == "Role" else ""
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": meta["name"]}
        binding = {"metadata": {"name": account}, "roleRef": reference, "subjects": [subject]}
        cluster.api.create(f"{RBAC}{within}/{kind.lower()}bindings", binding)
    identity = cluster.service_account_kubeconfig(NAMESPACE, account)
    argv = [str(MUSTER), *command, f"--kubeconfig={identity}"]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def compare(cluster: Cluster, account: str) -> None:
    """Check that the account has exactly the rights that it used."""
    refused = {right for right, allowed in asked(cluster, account) if not allowed}
    assert not refused, f"rights are missing: {sorted(refused)}"
    used, given = {right for right, _ in asked(cluster, account)}, set(granted(cluster, account))
    assert used <= given, f"allowed by somebody else's role: {sorted(used - given)}"
    assert given <= used, f"nothing uses these rights: {sorted(given - used)}"


async def ask_for_everything(cluster: Cluster) -> None:
    """Each request that the client can make, in case of a fault too: whether it succeeds is of no interest here."""
    identity = cluster.service_account_kubeconfig(NAMESPACE, "muster-extender")
    kube = await Kube.connect(identity)
    bound = cluster.api.get(f"{PODS}/train-0")
    uid, node = bound["metadata"]["uid"], bound["spec"]["nodeName"]
    group = cluster.api.get(f"{GROUPS}/mpi")["metadata"]["uid"]
    jobs = [kind.path_of(TEAM, "train") for kind in KINDS]
    status = f"{JOB.path_of(TEAM, 'train')}/status"

    async def write_to_jobs() -> None:
        """Write as JobWriter does; there are no jobs."""
        for path in jobs:
            for write in (kube.call("GET", path), kube.patch_job(path, {}, {})):
                with pytest.raises(Refused, match="not found"):
                    await write
        with pytest.raises(Refused, match="not found"):
            await kube.patch_job(status, {}, {})

    async def take_up() -> None:
        """Take up a PodGroup of Volcano, which does not exist."""
        with pytest.raises(Refused, match="not found"):
            await kube.call("GET", f"/apis/{PODGROUPS}/namespaces/{TEAM}/podgroups/train")
        await kube.patch_volcano_phase(TEAM, "train", {}, "Inqueue")

    async def tell_groups() -> None:
        """Report a reason on a PodGroup; there is none of KAI-Scheduler."""
        await kube.patch_podgroup_status(f"{GROUPS}/mpi", group, {})
        path = f"/apis/scheduling.run.ai/v2alpha2/namespaces/{TEAM}/podgroups/train"
        with pytest.raises(Refused, match="not found"):
            await kube.patch_podgroup_status(path, group, {})

    async def record() -> None:
        """Write a Workload that exists since before a restart, and whose job was changed."""
        within = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{TEAM}/workloads"
        requests: list[tuple[str, str]] = [("POST", within), ("GET", f"{within}/job-train")]
        requests += [("PATCH", f"{within}/job-train"), ("PATCH", f"{within}/job-train/status")]
        for method, path in requests:
            with pytest.raises(Refused):
                await kube.call(method, path, body={} if method == "POST" else None, content_type=MERGE_PATCH)

    asks: dict[str, Callable[[], Awaitable[object]]] = {
        "post_binding": lambda: kube.post_binding(PostBinding(uid, TEAM, "train-0", node, (), 0.0, {})),
        "patch_status": lambda: kube.patch_status(TEAM, "train-0", uid, {}),
        "ungate": lambda: kube.ungate(TEAM, "train-0", uid),
        "annotate": lambda: kube.annotate(TEAM, "train-0", uid, {}),
        "newest": lambda: kube.newest("/api/v1/pods"),
        "get_pod_node": lambda: kube.get_pod_node(TEAM, "train-0", uid),
        "evict": lambda: kube.evict(TEAM, "train-0", uid),
        "create_event": lambda: kube.create_event(TEAM, {}),
        "patch_job": write_to_jobs,
        "patch_volcano_phase": take_up,
        "patch_podgroup_status": tell_groups,
    }
    known = {name for name, _ in inspect.getmembers(Kube, inspect.iscoroutinefunction) if not name.startswith("_")}
    try:
        assert set(asks) == known - NEED_NO_RIGHT - OF_COMPONENTS, "a new kind of request: ask for it here"
        await asyncio.gather(record(), *(ask() for ask in asks.values()), return_exceptions=True)
    finally:
        await kube.close()


def asked(cluster: Cluster, account: str) -> Iterator[tuple[Right, bool]]:
    """The requests of the account to the API server, and whether they were allowed."""
    for event in cluster.audit():
        if event["user"]["username"] != f"system:serviceaccount:{NAMESPACE}:{account}" or "objectRef" not in event:
            continue
        about = event["objectRef"]
        resource = "/".join(segment for segment in (about["resource"], about.get("subresource")) if segment)
        allowed = event["annotations"]["authorization.k8s.io/decision"] == "allow"
        yield Right(event["verb"], about.get("apiGroup", ""), resource), allowed


def granted(cluster: Cluster, account: str) -> Iterator[Right]:
    """The rights that roles give the account, in the whole cluster or in one namespace."""
    subject = {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}
    for bindings, namespaced in ((f"{RBAC}/clusterrolebindings", False), (f"{RBAC}/rolebindings", True)):
        for binding in cluster.api.list(bindings):
            if subject not in binding.get("subjects", []):
                continue
            within = f"/namespaces/{binding['metadata']['namespace']}" if namespaced else ""
            role = cluster.api.get(f"{RBAC}{within}/{binding['roleRef']['kind'].lower()}s/{binding['roleRef']['name']}")
            for rule in role["rules"]:
                yield from (
                    Right(verb, group, resource)
                    for verb in rule["verbs"]
                    for group in rule["apiGroups"]
                    for resource in rule["resources"]
                )
