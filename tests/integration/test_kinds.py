"""Each kind of job with its own controller: its pods are the slots that were planned, and it is given back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
import yaml

from devcluster import Cluster
from devcluster.api import Object
from devcluster.controllers import start_controller
from devcluster.muster import install_gate, install_job_admission
from extender.core.effects import CleanJob, StartJob, SuspendJob
from extender.kube.client import Kube
from extender.kube.convert import pod_from
from extender.kube.kinds.kind import Kind
from extender.kube.kinds.read import Reader
from extender.kube.kinds.registry import KINDS
from extender.kube.kinds.trainer import MANAGER
from extender.kube.reading.objects import PodObject
from extender.kube.writer import KubeApi
from extender.runtime.requests import Response
from policies.model import GANG_GATE, Job, PlannedNodes, Pod
from tests.integration.team import Team
from tests.integration.training import TRAINING
from tests.kube.kinds.appwrappers import MIXED, SAMPLE, WRAPPED_JOBSET
from tests.kube.kinds.batch_jobs import INDEXED, PI
from tests.kube.kinds.rays import CLUSTER as RAY_CLUSTER
from tests.kube.kinds.rays import JOB as RAY_JOB
from tests.kube.kinds.test_jobset import WORKERS
from tests.kube.kinds.train_jobs import RUNTIME, TRAINJOB
from tests.kube.kinds.training_jobs import PYTORCH

pytestmark = pytest.mark.xdist_group("kinds")

PATIENCE_S = 120.0
LARGE = INDEXED.replace(": 5", ": 12")
MANIFESTS = {
    "Indexed Job": INDEXED,
    "Job": PI,
    "Job of 12 nodes": LARGE,
    "JobSet": WORKERS,
    "PyTorchJob": PYTORCH,
    **TRAINING,
    "RayCluster": RAY_CLUSTER,
    "RayCluster of 2 hosts": RAY_CLUSTER.replace("- replicas: 1", "- replicas: 3\n    numOfHosts: 2"),
    "RayCluster that scales": RAY_CLUSTER.replace("rayVersion", "enableInTreeAutoscaling: true\n  rayVersion"),
    # Its submitter comes when its cluster is ready.
    "RayJob": RAY_JOB.partition("  submitterPodTemplate:")[0],
    "TrainJob": TRAINJOB,
    "AppWrapper of a PyTorchJob": SAMPLE,
    "AppWrapper of a JobSet": WRAPPED_JOBSET,
    "AppWrapper of a Job and two pods": MIXED,
}
CONTROLLERS = ("trainer", "training-operator", "kuberay", "appwrapper")
"""mpi-operator runs once on a machine: test_kinds_with_muster.py has it."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        install_gate(running)
        install_job_admission(running)
        for name in CONTROLLERS:
            start_controller(running, name)
        install_runtime(running)
        yield running


def install_runtime(cluster: Cluster) -> None:
    """The one that the project ships for PyTorch, in small."""
    cluster.api.create("/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes", yaml.safe_load(RUNTIME))


class Stage:
    """A job in a namespace of its own, and Muster's reading and writing of it. No scheduler runs its pods."""

    def __init__(self, cluster: Cluster, manifest: str) -> None:
        self._cluster, self._api = cluster, cluster.api
        self.team = Team(cluster)
        obj = yaml.safe_load(manifest)
        # As people write it: the admission policy suspends it, and names the scheduler.
        (obj["spec"].get("runPolicy") or obj["spec"]).pop("suspend")
        self.kind: Kind = next(kind for kind in KINDS if kind.name == obj["kind"])
        obj["spec"].pop("selector", None)
        if self.kind.name == "Job":
            # Both are the API server's.
            obj["spec"]["template"]["metadata"] = {}
        self._path = self.kind.path_of(self.team.name, obj["metadata"]["name"])
        self._shown = (self.kind.shown_in or self.kind).path_of(self.team.name, obj["metadata"]["name"])
        self._api.create(self._path.rpartition("/")[0], obj)

    def until(self, holds: Callable[[Job], bool]) -> Job:
        """Wait until the job, as Muster reads it, is so."""
        self._api.wait_for(self._shown, lambda obj: obj is not None and holds(self._read(obj)), PATIENCE_S)
        return self._read(self._api.get(self._shown))

    def until_pods(self, count: int) -> list[Pod]:
        listed = self._api.wait_for(self.team.pods, lambda pods: len(pods) == count, PATIENCE_S)
        return [pod_from(msgspec.convert(obj, PodObject)) for obj in listed]

    def now(self) -> Object:
        """The job as its author sees it."""
        return without_entry(self._api.get(self._path))

    def send(self, effect: StartJob | SuspendJob | CleanJob) -> Response:
        """Send the write until no other client has written between its reading and its writing."""

        async def sent() -> Response:
            kube = await Kube.connect(self._cluster.kubeconfig)
            try:
                while (answer := await KubeApi(kube).send(effect, 30.0)).status == 409:
                    pass
                return answer
            finally:
                await kube.close()

        return asyncio.run(sent())

    def _read(self, obj: Object) -> Job:
        return Reader().read(self.kind, obj)


def planned(job: Job, nodes: str, each: int = 2) -> PlannedNodes:
    """A plan with ``each`` slots on each node."""
    places = (f"{nodes}-{at // each}" for at in range(100))
    return {podset.name: tuple(next(places) for _ in range(podset.count)) for podset in job.podsets.podsets}


def check_pods(job: Job, plan: PlannedNodes, pods: list[Pod]) -> None:
    """Each pod is a slot of the job and led to its node. One without an index is led to some node of its podset."""
    assert {pod.group_key for pod in pods} == {job.key}
    assert {pod.group.min_member for pod in pods if pod.group} == {job.podsets.first_wave}
    assert {pod.owner for pod in pods} == {job.uid}
    for podset in job.podsets.podsets:
        mine = [pod for pod in pods if pod.series == podset.name]
        assert len(mine) == podset.count
        assert all(pod.requests == podset.template.requests for pod in mine)
        if podset.indexed:
            assert {pod.identity for pod in mine} == {podset.slot(index) for index in range(podset.count)}
        for pod in mine:
            led = {name for term in pod.selection.affinity or () for requirement in term for name in requirement.values}
            own = plan[podset.name][pod.index or 0]
            assert own in led if pod.index is not None else led <= set(plan[podset.name])
            assert pod.gates == (() if led else (GANG_GATE,))


def without_entry(obj: Object) -> Object:
    """The TrainJob without Muster's entry for its JobSet, or its equivalent: the entry stays, but is empty."""
    spec = obj["spec"]
    if patches := spec.pop("runtimePatches", None):
        (entry,) = patches
        assert entry["manager"] == MANAGER
        jobs = entry["trainingRuntimeSpec"]["template"].get("spec", {}).get("replicatedJobs", ())
        assert {text for job in jobs for text in strings(job["template"])} <= {""}
    for override in spec.pop("podTemplateOverrides", ()):
        assert (set(override), set(strings(override["metadata"]))) == ({"targetJobs", "metadata"}, {""})
    if "annotations" in spec:
        assert set(spec.pop("annotations")) == {"muster.dev/workload", "muster.dev/hold", "muster.dev/queue-name"}
    return obj


def strings(obj: Any) -> Iterator[str]:
    """Every text in it."""
    if isinstance(obj, str):
        yield obj
    for value in obj.values() if isinstance(obj, dict) else obj if isinstance(obj, list) else ():
        yield from strings(value)


def stripped(obj: Any) -> Any:
    """The object without annotations that have no value, and without objects that are empty then."""
    if isinstance(obj, list):
        return [stripped(item) for item in obj]
    if not isinstance(obj, dict):
        return obj
    inner = {key: stripped(value) for key, value in obj.items()}
    if isinstance(marks := inner.get("annotations"), dict):
        inner["annotations"] = {key: value for key, value in marks.items() if value}
    return {key: value for key, value in inner.items() if key not in ("annotations", "metadata") or value}


@pytest.mark.parametrize("name", MANIFESTS)
def test_its_pods_are_its_slots_and_it_is_given_back(cluster: Cluster, name: str) -> None:
    stage = Stage(cluster, MANIFESTS[name])
    job = stage.until(lambda seen: seen.suspended and seen.stopped)
    assert job.problem == ""
    before = stage.now()
    total = sum(podset.count for podset in job.podsets.podsets)
    for nodes, each in (("first", 2), ("second", 1 if "12" in name else 2)):
        plan = planned(job, nodes, each)
        stage.until(lambda seen: seen.stopped)  # its controller looks at it again when it was cleaned
        started = stage.send(StartJob(job, plan, job.podsets.first_wave))
        assert (started.status, started.detail) == (200, "")
        running = stage.until(lambda seen: not seen.suspended)
        assert (running.plan, running.podsets, running.marked) == (plan, job.podsets, True)
        check_pods(job, plan, stage.until_pods(total))
        assert stage.send(SuspendJob(running, "the test takes it back")).done
        stopped = stage.until(lambda seen: seen.stopped)
        assert (stopped.plan, stopped.podsets, stopped.marked) == (None, job.podsets, True)
        assert stage.send(CleanJob(stopped)).done
        assert not stage.until(lambda seen: not seen.marked).finished
        stage.until_pods(0)
        after = stage.now()
        if stage.kind.name == "JobSet":
            assert stripped(after["spec"]) == stripped(before["spec"])
        else:
            assert after["spec"] == before["spec"]
        assert stripped(after)["metadata"].get("annotations") == stripped(before)["metadata"].get("annotations")
    events = cluster.api.list(f"/apis/events.k8s.io/v1/namespaces/{stage.team.name}/events")
    assert "the test takes it back" in {event.get("note") for event in events if event["reason"] == "Suspended"}
