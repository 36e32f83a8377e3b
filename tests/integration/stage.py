"""The real stage, in a namespace of its own: for scenarios, and for tests that need a real control plane."""

from __future__ import annotations

import copy
import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
import msgspec
from pydantic import TypeAdapter

from devcluster import Cluster
from devcluster.api import ApiError
from devcluster.muster import RunningMuster
from extender.api.models import PREFIX, DomainStock, GangView
from extender.kube.convert import pod_from
from extender.kube.reading.objects import PodObject
from policies.model import Pod
from tests.integration.tollgate import TollGate
from tests.scenarios.stage import Object

PATIENCE_S = 60.0
POLL_EVERY_S = 0.004
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
RUN_FOR = "devcluster.muster.dev/run-for"
GANGS, DOMAINS = TypeAdapter(list[GangView]), TypeAdapter(list[DomainStock])
T = TypeVar("T")
_numbers = itertools.count(1)


class RealStage:
    """A namespace and its nodes; both are gone after the ``with`` block. Without ``muster``: kube-scheduler alone."""

    def __init__(self, cluster: Cluster, muster: RunningMuster | None, tollgate: TollGate | None = None) -> None:
        self.cluster = cluster
        self.api = cluster.api
        self.namespace = f"stage-{next(_numbers)}"
        self.cliques: dict[str, str] = {}
        self._muster = muster
        self._tollgate = tollgate
        self._nodes: list[str] = []
        self._added = 0

    def __enter__(self) -> Self:
        selector = f"stage={self.namespace}" if self.cluster.profile.selects_nodes else ""
        self.cluster.add_namespace(self.namespace, node_selector=selector)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._tollgate is not None:
            self._tollgate.open()
        self.api.delete(self.pods_path, {"gracePeriodSeconds": 0})
        self.api.wait_for(self.pods_path, lambda pods: not pods)
        for node in self._nodes:
            self.api.delete(f"/api/v1/nodes/{node}")

    @property
    def muster(self) -> RunningMuster:
        assert self._muster is not None, "kube-scheduler is alone"
        return self._muster

    def ask(self, muster: RunningMuster) -> None:
        """Ask this replica from now on."""
        self._muster = muster

    @property
    def at_home(self) -> Object:
        """The part of a pod's spec that keeps it on this stage's nodes, where its namespace does not."""
        return {} if self.cluster.profile.selects_nodes else {"nodeSelector": {"stage": self.namespace}}

    @property
    def pods_path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    # Acts of users and operators.

    def add_nodes(
        self, count: int, gpus: int = 8, *, clique: str = "", labels: Mapping[str, str] | None = None, **has: Any
    ) -> list[str]:
        """Add nodes. ``has``: further fields, such as cpu and pods."""
        prefix = f"{self.namespace}-{self._added}-node"
        self._added += count
        labels = {"stage": self.namespace} | dict(labels or {})
        labels |= {"nvidia.com/gpu.clique": f"{self.namespace}.{clique}"} if clique else {}
        added = self.cluster.add_nodes(count, gpus=gpus, prefix=prefix, labels=labels, **has)
        self._nodes += added
        self.cliques |= dict.fromkeys(added, clique) if clique else {}
        return added

    def adopt(self, name: str) -> None:
        """Have a node that was made in another way removed with the others."""
        self._nodes.append(name)

    def remove_node(self, name: str) -> None:
        self._nodes.remove(name)
        self.api.delete(f"/api/v1/nodes/{name}")

    def cordon(self, name: str, *, on: bool = True) -> None:
        self.api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": on}})

    def create(self, *pods: Object) -> None:
        for pod in pods:
            self.api.create(self.pods_path, self._at_home(pod))

    def create_all(self, pods: Iterable[Object]) -> None:
        self.api.create_all((self.pods_path, self._at_home(pod)) for pod in pods)

    def create_until(self, pods: Iterable[Object], holds: Callable[[Pod], bool]) -> None:
        version = self.api.get(self.pods_path)["metadata"]["resourceVersion"]
        with self.api.watch(self.pods_path, version, PATIENCE_S) as changes:
            self.create_all(pods)
            next(pod for _, pod in changes if holds(_pod(pod)))

    def delete(self, *names: str) -> None:
        for name in names:
            self.api.delete(f"{self.pods_path}/{name}", {"gracePeriodSeconds": 0})

    def succeed(self, *names: str) -> None:
        for name in names:
            self.api.patch(f"{self.pods_path}/{name}", {"metadata": {"annotations": {RUN_FOR: "1ms"}}})
        self.until(lambda pods: all(pod.phase == "Succeeded" for pod in pods if pod.name in names))

    def open_gate(self, name: str, gate: str) -> None:
        patch = {"spec": {"schedulingGates": [{"name": gate, "$patch": "delete"}]}}
        self.api.patch(f"{self.pods_path}/{name}", patch, "application/strategic-merge-patch+json")

    def set_group(self, name: str, min_member: int) -> None:
        try:
            self.api.patch(self._group(name), {"spec": {"minMember": min_member}})
        except ApiError as error:
            if error.code != httpx.codes.NOT_FOUND:
                raise
            named = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": name}}
            self.api.create(self._group(), {**named, "spec": {"minMember": min_member}})

    def remove_group(self, name: str) -> None:
        self.api.delete(self._group(name))

    # Faults of processes.

    def kill_extender(self) -> None:
        self.muster.extender.kill()

    def start_extender(self) -> None:
        self.muster.restart_extender()

    def kill_scheduler(self) -> None:
        self.muster.scheduler.kill()

    def start_scheduler(self) -> None:
        self.muster.restart_scheduler()

    def stop_scheduler_after(self, pods: int) -> None:
        assert self._tollgate is not None
        self._tollgate.close_after(pods)

    def let_scheduler_go_on(self) -> None:
        assert self._tollgate is not None
        self._tollgate.open()

    # Views.

    def pods(self) -> list[Pod]:
        return [_pod(pod) for pod in self.api.list(self.pods_path)]

    def gangs(self) -> dict[str, GangView]:
        if self._muster is None:
            return {}
        # By the path that a Muster of before /api/v1 has, too.
        gangs = GANGS.validate_json(self._ask("/gangs").content)
        return {gang.name: gang for gang in gangs if gang.namespace == self.namespace}

    def domains(self) -> dict[str, DomainStock]:
        """The stock of each domain, by its name."""
        return {domain.name: domain for domain in DOMAINS.validate_json(self._ask(f"{PREFIX}/domains").content)}

    def until_unschedulable(self, name: str) -> str:
        """Wait until kube-scheduler marks this pod as unschedulable, and return its message."""

        def said(pod: Object | None) -> str:
            conditions = (pod or {}).get("status", {}).get("conditions", ())
            return next(
                (str(condition["message"]) for condition in conditions if condition.get("reason") == "Unschedulable"),
                "",
            )

        return said(self.api.wait_for(f"{self.pods_path}/{name}", lambda pod: bool(said(pod)), PATIENCE_S))

    def held(self) -> int:
        return self._metric("muster_held_binds")

    def filter_calls(self) -> int:
        return self._metric("muster_verb_calls_total", '"filter"')

    def advised(self, verdict: str) -> int:
        return self._metric("muster_advisory_verdicts_total", f'"{verdict}"')

    def until(self, holds: Callable[[Sequence[Pod]], bool]) -> Sequence[Pod]:
        seen: Sequence[Pod] = ()

        def so(pods: list[Object]) -> bool:
            nonlocal seen
            seen = [_pod(pod) for pod in pods]
            return holds(seen)

        self.api.wait_for(self.pods_path, so, PATIENCE_S)
        return seen

    def until_told(self, gang: str, holds: Callable[[GangView], bool]) -> GangView:
        seen = self.wait(lambda: self.gangs().get(gang), lambda seen: seen is not None and holds(seen))
        assert seen is not None
        return seen

    def until_held(self, holds: Callable[[int], bool]) -> None:
        self.wait(self.held, holds)

    def wait(self, look: Callable[[], T], holds: Callable[[T], bool], timeout_s: float = PATIENCE_S) -> T:
        """Poll ``look``, which has no watch, such as the extender's own pages, until its result is as expected."""
        deadline = time.monotonic() + timeout_s
        while not holds(seen := look()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not as expected within {timeout_s} s; last seen: {seen}")
            time.sleep(POLL_EVERY_S)
        return seen

    def conditions(self, name: str) -> list[Object]:
        """The conditions of the PodGroup, as soon as it has any."""

        def has_some(group: Object | None) -> bool:
            return bool(group and group.get("status", {}).get("conditions"))

        conditions: list[Object] = self.api.wait_for(self._group(name), has_some, PATIENCE_S)["status"]["conditions"]
        return conditions

    def until_noted(self, gang: str, code: str) -> str:
        """Wait for the Kubernetes Event with this reason, on the gang or a member, and return its text."""

        def told(event: Object) -> bool:
            return event["reason"] == code and str(event["regarding"]["name"]).startswith(gang)

        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        events = self.api.wait_for(path, lambda events: any(map(told, events)), PATIENCE_S)
        return next(str(event["note"]) for event in events if told(event))

    def _at_home(self, written: Object) -> Object:
        """The pod for this stage's nodes alone, whatever other tests have left behind for a moment."""
        pod = copy.deepcopy(written)
        scheduler = "default-scheduler" if self._muster is None else "muster"
        pod["spec"] = {"schedulerName": scheduler, **self.at_home} | pod["spec"]
        return pod

    def _group(self, name: str = "") -> str:
        path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{self.namespace}/podgroups"
        return f"{path}/{name}" if name else path

    def _metric(self, name: str, label: str = "") -> int:
        """The sum of a metric over the series that have this in their labels."""
        lines = self._ask("/metrics").text.splitlines()
        samples = (line for line in lines if line.partition("{")[0].partition(" ")[0] == name and label in line)
        return int(sum(float(line.rpartition(" ")[2]) for line in samples))

    def _ask(self, path: str) -> httpx.Response:
        return httpx.get(f"{self.muster.url}{path}", trust_env=False).raise_for_status()


def add_priorities(cluster: Cluster, priorities: Mapping[str, int]) -> None:
    """Create these priority classes."""
    for name, value in priorities.items():
        cluster.api.create(CLASSES, {"metadata": {"name": name}, "value": value})


def _pod(obj: Object) -> Pod:
    return pod_from(msgspec.convert(obj, PodObject))
