"""NVIDIA's quick-starts and ComputeDomains on a real control plane, with the stand-in for its driver."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
import yaml

from devcluster import Cluster
from devcluster.api import Object
from devcluster.controllers import start_controller
from devcluster.muster import RunningMuster, install_crds_of, install_gate, install_job_admission, start_muster
from devcluster.nvidia import NvidiaDriver
from devcluster.nvidia.objects import CLIQUE, LABEL
from extender.kube.kinds.registry import KINDS
from tests.integration.nvidia import NVBANDWIDTH, QUICKSTARTS

PATIENCE_S = 60.0
A100 = ("1g.5gb", "1g.5gb", "2g.10gb", "3g.20gb", "1g.12gb")
PATHS = {
    "Pod": "/api/v1/namespaces/{}/pods",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "ResourceClaim": "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims",
    "ComputeDomain": "/apis/resource.nvidia.com/v1beta1/namespaces/{}/computedomains",
    "MPIJob": "/apis/kubeflow.org/v2beta1/namespaces/{}/mpijobs",
}
GANG = {"muster.dev/gang": "true"}
QUEUE = {"kueue.x-k8s.io/queue-name": "gpus"}
QUOTA = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: any}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: gpus}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu, nvidia.com/mig-1g.12gb]
    flavors:
    - name: any
      resources: [{name: nvidia.com/gpu, nominalQuota: 8}, {name: nvidia.com/mig-1g.12gb, nominalQuota: 1}]
"""
LOCAL_QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: gpus}
spec: {clusterQueue: gpus}
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two racks of three nodes, a node of the control plane, and two with partitions of a GPU."""
    with Cluster() as running:
        driver = NvidiaDriver(running)
        for rack in ("rack-1", "rack-2"):
            driver.publish(running.add_nodes(3, prefix=rack, gpus=0, labels={CLIQUE: rack}), gpus=4)
        driver.publish(running.add_nodes(2, prefix="mig", gpus=0), gpus=0, mig=A100)
        running.add_nodes(1, prefix="plane", gpus=0, labels={"node-role.kubernetes.io/control-plane": ""})
        yield running


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    install_crds_of(cluster, "queues")
    running = start_muster(cluster)
    cluster.kubectl("apply", "-f", "-", stdin=QUOTA)
    install_gate(cluster)
    install_job_admission(cluster)
    start_controller(cluster, "mpi-operator")
    return running


@pytest.fixture
def namespace(cluster: Cluster, muster: RunningMuster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace for one test: everything in it is gone after it, and so are the labels of its domains."""
    name = "".join(char if char.isalnum() else "-" for char in request.node.name.lower())[-40:].strip("-")
    cluster.add_namespace(name)
    cluster.kubectl("apply", "-n", name, "-f", "-", stdin=LOCAL_QUEUE)
    yield name
    for kind in ("MPIJob", "Deployment", "Pod", "ComputeDomain", "ResourceClaim"):
        cluster.api.delete(PATHS[kind].format(name), {"gracePeriodSeconds": 0})
    cluster.api.wait_for(PATHS["Pod"].format(name), lambda pods: not pods)
    cluster.api.wait_for(PATHS["ResourceClaim"].format(name), lambda claims: not claims)
    cluster.api.wait_for("/api/v1/nodes", lambda nodes: all(LABEL not in node["metadata"]["labels"] for node in nodes))


def templates_of(obj: Object) -> list[Object]:
    """The pod, or the templates of pods, in a printed object."""
    match obj["kind"]:
        case "Pod":
            return [obj]
        case "Deployment":
            return [obj["spec"]["template"]]
        case "MPIJob":
            return [role["template"] for role in obj["spec"]["mpiReplicaSpecs"].values()]
    return []


def apply(cluster: Cluster, namespace: str, manifests: str, size: int, *, queued: bool) -> None:
    """Create the printed objects, whose pods and templates name one gang of that size.

    ``queued``: they name a queue. A Deployment and an MPIJob do so in place of their pods.
    """
    objects = list(filter(None, yaml.safe_load_all(manifests)))
    for obj in objects:
        for template in templates_of(obj):
            template["spec"] |= {"schedulerName": "muster", "terminationGracePeriodSeconds": 0}
            if obj["kind"] == "MPIJob":
                obj["metadata"]["labels"] = QUEUE if queued else GANG
            elif obj["kind"] == "Deployment" and queued:
                obj["metadata"]["labels"] = GANG | QUEUE
            else:
                notes = {"muster.dev/pod-group": "quickstart", "muster.dev/min-member": str(size)}
                template["metadata"].setdefault("annotations", {}).update(notes)
                template["metadata"].setdefault("labels", {}).update(QUEUE if queued else {})
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=yaml.safe_dump_all(objects))


def until_bound(cluster: Cluster, namespace: str, count: int) -> list[Object]:
    """Wait until there are ``count`` pods, and each has a node; sorted by name."""

    def all_bound(pods: list[Object]) -> bool:
        return len(pods) == count and all(pod["spec"].get("nodeName") for pod in pods)

    try:
        bound_pods = cluster.api.wait_for(PATHS["Pod"].format(namespace), all_bound, PATIENCE_S)
    except TimeoutError as error:
        pods = cluster.api.list(PATHS["Pod"].format(namespace))
        conditions = [condition.get("message") for pod in pods for condition in pod["status"].get("conditions", ())]
        raise AssertionError(f"{error}: {conditions}") from None
    return sorted(bound_pods, key=lambda pod: str(pod["metadata"]["name"]))


SIZES = {"gpu-test1": 2, "gpu-test3": 2, "gpu-test4": 2}


def admitted(muster: RunningMuster, namespace: str) -> int:
    """How many workloads of the namespace's queue have quota and nodes."""
    (queue,) = [
        queue for queue in ask(muster, "queues") if (queue["kind"], queue["namespace"]) == ("LocalQueue", namespace)
    ]
    return int(queue["admitted"])


@pytest.mark.parametrize("queued", [False, True], ids=["gang", "queue"])
@pytest.mark.parametrize("name", QUICKSTARTS)
def test_a_quick_start_of_nvidia_starts(
    cluster: Cluster, muster: RunningMuster, namespace: str, name: str, *, queued: bool
) -> None:
    size = SIZES.get(name, 1)
    apply(cluster, namespace, QUICKSTARTS[name], size, queued=queued)
    pods = until_bound(cluster, namespace, size)
    nodes = {pod["spec"]["nodeName"] for pod in pods}
    if name == "gpu-test4":
        assert nodes == {"mig-0", "mig-1"}, "all partitions of a pod are of one GPU, and each node has one"
    elif name == "gpu-test3":
        assert len(nodes) == 1, "they share a claim"
    claims = cluster.api.list(PATHS["ResourceClaim"].format(namespace))
    assert claims
    assert all(claim["status"]["allocation"]["devices"]["results"] for claim in claims)
    assert admitted(muster, namespace) == queued


@pytest.mark.parametrize("queued", [False, True], ids=["gang", "queue"])
def test_nvbandwidth_starts_in_one_clique_and_its_launcher_on_the_control_plane(
    cluster: Cluster, muster: RunningMuster, namespace: str, *, queued: bool
) -> None:
    assert any(kind.name == "MPIJob" for kind in KINDS)
    apply(cluster, namespace, NVBANDWIDTH, 3, queued=queued)
    launcher, *workers = until_bound(cluster, namespace, 3)
    assert launcher["spec"]["nodeName"] == "plane-0"
    assert admitted(muster, namespace) == queued
    cliques = {pod["spec"]["nodeName"].rpartition("-")[0] for pod in workers}
    assert len(workers) == 2
    assert cliques in ({"rack-1"}, {"rack-2"})
    ready = cluster.api.wait_for(
        PATHS["ComputeDomain"].format(namespace) + "/nvbandwidth",
        lambda seen: seen.get("status", {}).get("status") == "Ready",
        PATIENCE_S,
    )
    assert {node["cliqueID"] for node in ready["status"]["nodes"]} == cliques
    (shown,) = [domain for domain in ask(muster, "compute-domains") if domain["namespace"] == namespace]
    assert (shown["members"], shown["nodes"], {*shown["cliques"]}) == (2, 2, cliques)
    assert shown["workloads"] == [f"{namespace}/mpijob-nvbandwidth-test"]
    assert shown["problems"] == []
    (rack,) = [domain for domain in ask(muster, "domains") if domain["name"] in cliques]
    channels = next(device for device in rack["devices"] if device["name"].startswith("compute-domain-default-channel"))
    assert (channels["devices"], channels["free"], channels["used"]) == (3, 1, 2)


def ask(muster: RunningMuster, what: str) -> list[Object]:
    answer: list[Object] = httpx.get(f"{muster.url}/api/v1/{what}").raise_for_status().json()
    return answer
