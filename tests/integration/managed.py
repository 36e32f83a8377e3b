"""A job as its author has applied it, and its course with Muster and its own controller."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import msgspec
import yaml

from devcluster import Cluster
from devcluster.api import Object
from extender.kube.convert import pod_from
from extender.kube.kinds.kind import Kind
from extender.kube.kinds.read import Reader
from extender.kube.kinds.registry import KINDS
from extender.kube.reading.objects import PodObject
from policies.model import CLIQUE, Job, Pod
from tests.integration.team import Team
from tests.integration.test_kinds import stripped, without_entry

PATIENCE_S = 180.0
_spares = itertools.count(1)


class Managed:
    """A job as its author has applied it, in a namespace of its own."""

    def __init__(self, cluster: Cluster, manifest: str, kinds: Sequence[Kind] = KINDS) -> None:
        self._api, self._cluster = cluster.api, cluster
        self._team = Team(cluster)
        obj = yaml.safe_load(manifest)
        (obj["spec"].get("runPolicy") or obj["spec"]).pop("suspend")
        self.kind: Kind = next(kind for kind in kinds if kind.name == obj["kind"])
        if self.kind.name == "Job":
            # Both are the API server's.
            del obj["spec"]["template"]["metadata"]
            obj["spec"].pop("selector", None)
        self._path = self.kind.path_of(self._team.name, obj["metadata"]["name"])
        self._shown = (self.kind.shown_in or self.kind).path_of(self._team.name, obj["metadata"]["name"])
        self._api.create(self._path.rpartition("/")[0], obj)
        self.until(bool)

    def now(self) -> Job:
        return self._read(self._api.get(self._shown))

    def until_noted(self, code: str) -> None:
        """Wait until an Event with that reason regards the job."""

        def told(events: list[Object]) -> bool:
            return any(
                event["reason"] == code and event["regarding"]["kind"] == self.kind.name
                for event in events
                if event.get("reportingController") == "muster.dev/extender"
            )

        self._api.wait_for(f"/apis/events.k8s.io/v1/namespaces/{self._team.name}/events", told, PATIENCE_S)

    def until_running(self, count: int, but: frozenset[str] = frozenset()) -> list[Pod]:
        """Wait until there are ``count`` pods with a node, none of them in ``but``."""

        def run(listed: list[Object]) -> bool:
            pods = self._live(listed)
            return len(pods) == count and all(pod.node and pod.uid not in but for pod in pods)

        return self._live(self._api.wait_for(self._team.pods, run, PATIENCE_S))

    def pods(self) -> list[Pod]:
        return self._live(self._api.list(self._team.pods))

    def succeed(self, pod: Pod) -> None:
        """Let the pod's containers end well."""
        self._api.patch(
            f"{self._team.pods}/{pod.name}", {"metadata": {"annotations": {"devcluster.muster.dev/run-for": "1ms"}}}
        )

    def fail(self, pod: Pod) -> None:
        """Let the pod's containers run and end with an error, as a kubelet reports it."""

        def runs(pods: list[Object]) -> bool:
            return any(obj["metadata"]["uid"] == pod.uid and obj["status"].get("phase") == "Running" for obj in pods)

        self._api.wait_for(self._team.pods, runs, PATIENCE_S)
        ended: Object = {"name": "main", "image": "x", "imageID": "", "ready": False, "restartCount": 0}
        ended["state"] = {"terminated": {"exitCode": 1, "reason": "Error"}}
        status = {"phase": "Failed", "containerStatuses": [ended]}
        self._api.patch(f"{self._team.pods}/{pod.name}/status", {"status": status})

    def say(self, status: Object) -> None:
        """Write the status, as the job's controller does."""
        self._api.patch(f"{self._path}/status", {"status": status})

    def until(self, holds: Callable[[Object], bool], patience_s: float = PATIENCE_S) -> None:
        """Wait until the object is so."""
        self._api.wait_for(self._shown, lambda obj: obj is not None and holds(obj), patience_s)

    def suspend(self, **labels: str) -> None:
        """Suspend the job as its user does, with a label for it."""
        change: Object = {"suspend": True}
        for field in reversed(self.kind.suspend.split(".")[:-1]):
            change = {field: change}
        marks = {f"muster.dev/{key}": value for key, value in labels.items()}
        self._api.patch(self._path, {**change, "metadata": {"labels": marks}})

    def as_written(self) -> Object:
        """The spec and annotations that its user wrote, without annotations that have lost their values."""
        obj = without_entry(self._api.get(self._path))
        written: Object = stripped({"spec": obj["spec"], "annotations": obj["metadata"].get("annotations", {})})
        return written

    def scale(self, replicas: int, *removed: str) -> None:
        """Scale the job as Ray's autoscaler does: it names the workers to remove."""
        (group,) = self._api.get(self._path)["spec"]["workerGroupSpecs"]
        strategy = {"workersToDelete": list(removed)}
        self._api.patch(
            self._path, {"spec": {"workerGroupSpecs": [{**group, "replicas": replicas, "scaleStrategy": strategy}]}}
        )

    def change(self, spec: Object) -> None:
        """Change the spec, as the job's user does."""
        self._api.patch(self._path, {"spec": spec}, "application/merge-patch+json")

    def lose_node(self, pod: Pod, before_its_pods_are_gone: Callable[[], None] = lambda: None) -> None:
        """Delete the pod's node, and the terminating pods there: the garbage collector takes a minute for them."""
        node = f"/api/v1/nodes/{pod.node}"
        clique = self._api.get(node)["metadata"]["labels"].get(CLIQUE)
        self._api.delete(node)

        def told(pods: list[Object]) -> bool:
            there = [tenant for tenant in pods if tenant["spec"].get("nodeName") == pod.node]
            return all("deletionTimestamp" in tenant["metadata"] for tenant in there)

        there = self._api.wait_for(self._team.pods, told, PATIENCE_S)
        before_its_pods_are_gone()
        for lost_pod in there:
            if lost_pod["spec"].get("nodeName") == pod.node:
                self._api.delete(f"{self._team.pods}/{lost_pod['metadata']['name']}", {"gracePeriodSeconds": 0})
        self._cluster.add_nodes(1, prefix=f"spare-{next(_spares)}", labels={CLIQUE: clique} if clique else None)

    def check_nodes(self, pods: list[Pod]) -> None:
        """Each pod runs where the plan on its job says, and all in one clique, if nodes have any."""
        job, nodes = self.now(), {node["metadata"]["name"]: node for node in self._api.list("/api/v1/nodes")}
        assert job.plan is not None
        assert len({nodes[pod.node or ""]["metadata"]["labels"].get(CLIQUE) for pod in pods}) == 1
        for pod in pods:
            planned = job.plan[pod.series]
            indexed = next(podset.indexed for podset in job.podsets.podsets if podset.name == pod.series)
            if indexed:
                assert pod.index is not None
                assert pod.node == planned[pod.index]
            else:
                assert pod.node in planned

    def delete(self) -> None:
        self._api.delete(self._path, {"propagationPolicy": "Background"})
        self._api.wait_for(self._team.pods, lambda pods: not pods, PATIENCE_S)

    def is_clean(self, obj: Object) -> bool:
        job = self._read(obj)
        return job.suspended and not job.marked

    def _live(self, found: list[Object]) -> list[Pod]:
        pods = [pod_from(msgspec.convert(obj, PodObject)) for obj in found]
        return [pod for pod in pods if pod.live]

    def _read(self, obj: Object) -> Job:
        return Reader().read(self.kind, obj)


def close(cluster: Cluster, *, closed: bool) -> None:
    for node in cluster.api.list("/api/v1/nodes"):
        cluster.api.patch(f"/api/v1/nodes/{node['metadata']['name']}", {"spec": {"unschedulable": closed}})


def check_all_or_none(cluster: Cluster, manifest: str) -> None:
    """Check that the job runs twice as a whole where there is room, and then is as its author wrote it."""
    close(cluster, closed=True)
    managed = Managed(cluster, manifest)
    managed.until_noted("NoRoom")
    assert (managed.now().suspended, managed.pods()) == (True, [])
    written = managed.as_written()
    close(cluster, closed=False)
    total = sum(podset.count for podset in managed.now().podsets.podsets)
    first = managed.until_running(total)
    managed.check_nodes(first)
    managed.suspend()
    second = managed.until_running(total, but=frozenset(pod.uid for pod in first))
    managed.check_nodes(second)
    managed.suspend(hold="true")
    managed.until(managed.is_clean)
    assert managed.as_written() == written
    managed.delete()
