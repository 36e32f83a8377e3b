"""Manifests as the documents of other projects print them (tests/manifests), with the real controllers and Muster.

Those of one folder are applied at once, each in a namespace of its own, while no node is open; then the nodes open.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
import msgspec
import pytest

from devcluster import Cluster, binaries, nodes
from devcluster.api import ApiError, Object
from devcluster.controllers import start_controller
from devcluster.muster import RunningMuster, install_crds_of, install_gate, install_job_admission, start_muster
from extender.kube.convert import pod_from
from extender.kube.kinds.read import Reader
from extender.kube.kinds.trainer import TRAIN_JOB
from extender.kube.reading.objects import PodObject
from policies.model import Pod
from tests.integration.team import Team
from tests.integration.volcano import install_queues, install_volcano
from tests.kube.test_printed_manifests import check_podsets
from tests.manifests import Manifest, manifests

# mpi-operator runs once on a machine.
pytestmark = pytest.mark.xdist_group("kinds-with-muster")

PATIENCE_S = 120.0
POLL_EVERY_S = 0.2
CONTROLLERS = {
    "jobset": ("trainer",),
    "trainer": ("trainer",),
    "training-operator": ("training-operator",),
    "mpi-operator": ("mpi-operator",),
    "kuberay": ("kuberay",),
    "lws": ("lws",),
    "vllm": ("lws",),
    "kueue": ("trainer", "lws"),
    "volcano": ("training-operator",),
    "nvidia": ("mpi-operator", "lws"),
}
"""The controllers of each folder. JobSet's comes with Trainer's."""
LEVELS = {
    "rack": "cloud.provider.com/topology-rack",
    "pool": "cloud.google.com/gke-nodepool",
    "block": "cloud.provider.com/topology-block",
}
"""The nearest first."""
ONLY_TRIED = ("ClusterQueue", "Queue", "CronJob", "RayService")
"""Kinds that are sent by a dry run: they have no effect here, or none within the patience of a test."""
SHARED = ("ClusterTrainingRuntime", "ResourceFlavor", "Topology", "Cohort")
"""Other kinds without a namespace."""
MACHINE = {"cpu": "250", "memory": "4Ti", "ephemeral-storage": "4Ti", "pods": "110", "hugepages-2Mi": "16Gi"}
POOLS: tuple[tuple[str, int, dict[str, str], dict[str, str]], ...] = (
    ("gpu", 24, {"nvidia.com/gpu": "8"}, {}),
    (
        "p5", 2,
        {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "32"}, {"node.kubernetes.io/instance-type": "p5.48xlarge"},
    ),
    ("training", 2, {}, {"node-type": "training"}),
    ("t4", 1, {"nvidia.com/gpu.shared": "10"}, {"nvidia.com/gpu.product": "Tesla-T4-SHARED"}),
    (
        "mig", 1,
        {"nvidia.com/mig-1g.5gb": "2", "nvidia.com/mig-3g.20gb": "1"}, {"nvidia.com/gpu.product": "A100-SXM4-40GB"},
    ),
    ("v6e", 4, {"google.com/tpu": "4"}, {"cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice"}),
    ("v5e", 8, {"google.com/tpu": "4"}, {"cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice"}),
)  # fmt: skip


def path_of(obj: Object, namespace: str) -> str:
    """The path of the collection that the object is in."""
    base = f"/apis/{obj['apiVersion']}" if "/" in obj["apiVersion"] else f"/api/{obj['apiVersion']}"
    plural = f"{obj['kind'].lower()}s".replace("topologys", "topologies")
    if obj["kind"] in (*SHARED, "ClusterQueue", "Queue"):
        return f"{base}/{plural}"
    return f"{base}/namespaces/{namespace}/{plural}"


@dataclass
class Applied:
    """A manifest in a namespace of its own.

    ``refusal``: the message of the API server if it refuses the manifest.
    ``warnings``: its warnings.
    """

    printed: Manifest
    namespace: str = ""
    obj: Object = field(default_factory=dict)
    refusal: str = ""
    warnings: str = ""

    @property
    def gangs(self) -> list[str]:
        """The names of its gangs."""
        name = self.printed.must["gang"].replace("*", self.obj["metadata"]["name"].removeprefix(self.generated))
        groups = self.printed.must.get("groups", 1)
        return [f"{name}-{at}" for at in range(groups)] if self.printed.kind == "LeaderWorkerSet" else [name]

    @property
    def generated(self) -> str:
        return str(self.printed.obj["metadata"].get("generateName", ""))

    @property
    def is_gang(self) -> bool:
        must = self.printed.must
        known = "gang" in must and must.get("managed", True)
        return known and "refused" not in must and self.printed.kind not in ONLY_TRIED

    @property
    def coming(self) -> int:
        """How many of its pods run in the end."""
        if "waits" in self.printed.must:
            return 0
        return int(self.printed.must.get("comes", self.printed.size)) * int(self.printed.must.get("groups", 1))

    def waits_at_first(self) -> set[str]:
        """The reasons that it may have while no node is open."""
        own = self.printed.must.get("waits", "NoRoom")
        return {own} if own == "InvalidJob" else {own, "NoRoom"}

    def still_waits(self) -> set[str]:
        """The reason that it has then; none where it runs."""
        return {*self.printed.must.get("waits", "").split()}


class Stage:
    """The manifests of one folder, applied."""

    def __init__(self, cluster: Cluster, muster: RunningMuster, folder: str) -> None:
        self.cluster, self.api, self.muster = cluster, cluster.api, muster
        self._client = httpx.Client(base_url=cluster.api.server, verify=cluster.api._tls, trust_env=False, timeout=60)
        self._shared: set[str] = set()
        mine = [printed for printed in manifests() if printed.page.partition("/")[0] == folder]
        self.applied = [self._apply(printed) for printed in mine]

    def close(self) -> None:
        """Close the nodes again, and delete the objects that make pods."""
        self.open(opened=False)
        for applied in self.applied:
            if applied.obj and applied.printed.kind not in ONLY_TRIED:
                path = path_of(applied.obj, applied.namespace)
                name = "" if applied.printed.kind == "Pod" else f"/{applied.obj['metadata']['name']}"
                self.api.delete(path + name, propagationPolicy="Background")
        self._client.close()

    def open(self, *, opened: bool = True) -> None:
        """Open all nodes, or close them."""
        for node in self.api.list(nodes.NODES):
            self.api.patch(f"{nodes.NODES}/{node['metadata']['name']}", {"spec": {"unschedulable": not opened}})

    def _apply(self, printed: Manifest) -> Applied:
        tried = printed.kind in ONLY_TRIED
        applied = Applied(printed, "default" if tried else Team(self.cluster).name)
        beside = [] if tried else [obj for obj in printed.beside if obj["metadata"].get("name") not in self._shared]
        self._shared |= {obj["metadata"]["name"] for obj in beside if obj["kind"] in SHARED}
        try:
            first, *others = printed.members
            for obj in (*(obj for obj in beside if obj["kind"] != "Pod"), *others):
                self._send(obj, applied.namespace)
            applied.obj, applied.warnings = self._send(first, applied.namespace, tried=tried)
        except ApiError as refused:
            applied.refusal = str(refused)
        return applied

    def _send(self, obj: Object, namespace: str, *, tried: bool = False) -> tuple[Object, str]:
        """Create it as ``kubectl create --validate=strict`` does. Returns the warnings of the API server, too."""
        if "namespace" in obj["metadata"]:
            obj = {**obj, "metadata": {**obj["metadata"], "namespace": namespace}}
        params = {"fieldValidation": "Strict"} | ({"dryRun": "All"} if tried else {})
        answer = self._client.post(path_of(obj, namespace), json=obj, params=params)
        if answer.is_error:
            raise ApiError(answer.status_code, answer.text)
        return answer.json(), " ".join(answer.headers.get_list("warning"))

    def gangs(self) -> dict[tuple[str, str], Mapping[str, Any]]:
        answer = httpx.get(f"{self.muster.url}/gangs", trust_env=False, timeout=30).raise_for_status()
        return {(gang["namespace"], gang["name"]): gang for gang in answer.json()}

    def until(self, expected: Callable[[Applied], set[str]], because: Callable[[Applied], str] = lambda _: "") -> None:
        """Wait until each gang is in one of these states, if there are any, and has these words in its message."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            gangs, off = self.gangs(), dict[str, Any]()
            for applied in self.applied:
                for name in applied.gangs if applied.is_gang else ():
                    seen = gangs.get((applied.namespace, name), {})
                    state, message = seen.get("state", ""), seen.get("message", "")
                    if state not in (expected(applied) or {state}) or because(applied) not in message:
                        off[f"{applied.printed.name} {name}"] = (expected(applied), state, message)
            if not off:
                return
            assert time.monotonic() < deadline, "\n".join(f"{name}: {details}" for name, details in off.items())
            time.sleep(POLL_EVERY_S)  # a page that one has to ask for

    def told(self, names: Container[str]) -> str:
        """How the gangs of these manifests stand."""
        gangs = self.gangs()
        keys = [
            (applied.namespace, name)
            for applied in self.applied
            if applied.printed.name in names
            for name in applied.gangs
        ]
        return "\n".join(f"{key}: {gangs[key]['state']}: {gangs[key]['message']}" for key in keys if key in gangs)

    def pods(self) -> dict[str, list[Pod]]:
        """Return the live pods of Muster's scheduler, by namespace."""
        by_namespace: dict[str, list[Pod]] = {applied.namespace: [] for applied in self.applied}
        for obj in self.api.list("/api/v1/pods"):
            pod = pod_from(msgspec.convert(obj, PodObject))
            if pod.namespace in by_namespace and pod.live and pod.scheduler == "muster":
                by_namespace[pod.namespace].append(pod)
        return by_namespace

    def until_bound(self) -> dict[str, list[Pod]]:
        """Wait until as many pods of each run as the table says; returns them."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            pods = self.pods()
            bound = {namespace: [pod for pod in members if pod.node] for namespace, members in pods.items()}
            off = {
                applied.printed.name: (applied.coming, len(bound[applied.namespace]), len(pods[applied.namespace]))
                for applied in self.applied
                if applied.is_gang and len(bound[applied.namespace]) != applied.coming
            }
            if not off:
                return bound
            assert time.monotonic() < deadline, f"to run, bound, there: {off}\n{self.told(off)}"
            time.sleep(POLL_EVERY_S)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        install_volcano(running.api)
        install_queues(running.api)
        install_crds_of(running, "queues")
        install_gate(running)
        install_job_admission(running)
        add_nodes(running)
        yield running


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    levels = [f"{name}={key}" for name, key in LEVELS.items()]
    return start_muster(cluster, {"topology_levels": levels}, {"leaderElection": {"leaderElect": False}})


@pytest.fixture
def stage(cluster: Cluster, muster: RunningMuster, folder: str) -> Iterator[Stage]:
    start_controllers(cluster, folder)
    new_stage = Stage(cluster, muster, folder)
    yield new_stage
    new_stage.close()


def start_controllers(cluster: Cluster, folder: str) -> None:
    running = {process.name for process in cluster.processes}
    for name in CONTROLLERS[folder]:
        if name not in running:
            start_controller(cluster, name)


def add_nodes(cluster: Cluster) -> None:
    """Closed: four in a rack and a node pool, eight in a block."""
    version, added = binaries.kubernetes_version(), []
    for pool, count, devices, labels in POOLS:
        for at in range(count):
            places = {LEVELS["rack"]: f"{pool}-{at // 4}", LEVELS["block"]: f"{pool}-{at // 8}"}
            places |= {LEVELS["pool"]: f"{pool}-{at // 4}", "cloud.google.com/gke-tpu-topology": "4x4"}
            node = nodes.node(f"{pool}-{at}", MACHINE | devices, labels | places, version)
            added.append(node | {"spec": {"unschedulable": True}})
    cluster.api.create_all((nodes.NODES, node) for node in added)


@pytest.mark.parametrize("folder", CONTROLLERS)
def test_each_does_what_the_table_says(stage: Stage) -> None:
    check_answers(stage)
    check_waiting(stage)
    check_trainjobs(stage)
    stage.open()
    check_places(stage, stage.until_bound())


def check_answers(stage: Stage) -> None:
    """Check that the API server's strict validation refuses exactly the objects of the table, in its words."""
    wrong = {}
    for applied in stage.applied:
        must = applied.printed.must
        if "refused" in must:
            if must["refused"] not in applied.refusal.replace('\\"', '"'):
                wrong[applied.printed.name] = applied.refusal or "it was taken"
        elif applied.refusal:
            wrong[applied.printed.name] = applied.refusal
        if must.get("warns", "") not in applied.warnings:
            wrong[applied.printed.name] = f"warnings: {applied.warnings}"
    assert wrong == {}


def check_waiting(stage: Stage) -> None:
    """A job without pods, suspended; pods with their gate. The reason is its own where something else keeps it."""

    stage.until(Applied.waits_at_first)
    pods = stage.pods()
    for applied in stage.applied:
        if (
            applied.is_gang
            and "apps" not in applied.obj["apiVersion"]
            and applied.printed.kind not in ("LeaderWorkerSet", "Pod")
        ):
            assert pods[applied.namespace] == [], applied.printed.name
    assert [pod.name for members in pods.values() for pod in members if pod.node] == []


def check_trainjobs(stage: Stage) -> None:
    """Each TrainJob is read in the JobSet that its controller has made of it."""
    for applied in stage.applied:
        if applied.printed.kind == "TrainJob" and applied.is_gang:
            name = applied.obj["metadata"]["name"]
            jobset = stage.api.get(f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{applied.namespace}/jobsets/{name}")
            job = Reader().read(TRAIN_JOB, jobset)
            assert job.problem == ""
            assert job.podsets.key.name == applied.printed.must["gang"]
            check_podsets(applied.printed, job.podsets.podsets)


def check_places(stage: Stage, bound: Mapping[str, list[Pod]]) -> None:
    """The gangs that still wait say why. Others, and their slices, are in one domain each where they ask for it."""
    stage.until(Applied.still_waits, lambda waiting: str(waiting.printed.must.get("because", "")))
    labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in stage.api.list(nodes.NODES)}
    for applied in stage.applied:
        gangs: dict[str, list[Pod]] = {}
        for pod in bound[applied.namespace]:
            gangs.setdefault(pod.group.name if pod.group is not None else "", []).append(pod)
        for pods in gangs.values():
            if level := applied.printed.must.get("together"):
                assert len({labels[pod.node or ""][level] for pod in pods}) == 1, applied.printed.name
            for level, size in applied.printed.must.get("slices", {}).items():
                by_slice: dict[int, set[str]] = {}
                for pod in pods:
                    by_slice.setdefault((pod.index or 0) // size, set()).add(labels[pod.node or ""][level])
                assert {len(domains) for domains in by_slice.values()} == {1}, applied.printed.name
