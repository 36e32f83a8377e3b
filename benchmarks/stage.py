"""The stage of a benchmark: a fresh control plane with nodes, the scheduler under test, and what both have used."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from benchmarks.meter import cpu_ms
from benchmarks.scrape import Page
from benchmarks.sightings import GANG, PODS
from devcluster import Cluster, Scheduler
from devcluster.api import Object
from devcluster.binaries import minor
from devcluster.muster import RunningMuster, install_gate, start_muster
from devcluster.progress import Progress, silent
from extender.kube.dialects import MIN_MEMBER

CLIQUE, BLOCK, ZONE = "nvidia.com/gpu.clique", "example.com/block", "example.com/zone"
NODES_PER_CLIQUE = 16
LEVELS = [f"clique={CLIQUE}", f"block={BLOCK}", f"zone={ZONE}"]
"""The value of the setting `topology_levels` for nodes that are in ``domains_of``."""
GPUS_PER_NODE = 8
GPU = "nvidia.com/gpu"
YOUTH_S = 30.0
UNTHROTTLED = {"leaderElection": {"leaderElect": False}, "clientConnection": {"qps": 5000, "burst": 10000}}
"""The configuration of kube-scheduler in every mode.

Neither a Lease nor a limit of its own client is to be measured.
"""


class Mode(StrEnum):
    """The scheduler: kube-scheduler alone as the reference, or with Muster steering it in one of its ways."""

    ADAPTIVE = "alone-adaptive"
    ALL = "alone-all"
    AUTO = "auto"
    NOMINATE = "nominate"
    PIN_DOMAIN = "pin-domain"
    PIN_NODE = "pin-node"
    UNGATED = "ungated"
    NATIVE = "native"

    @property
    def alone(self) -> bool:
        return self in (Mode.ADAPTIVE, Mode.ALL, Mode.NATIVE)

    @property
    def gated(self) -> bool:
        return not self.alone and self is not Mode.UNGATED

    @property
    def scheduler_name(self) -> str:
        return "default-scheduler" if self.alone else "muster"


MODES = """alone-adaptive and alone-all: kube-scheduler without Muster, with its default sampling of nodes and
looking at every node; neither keeps gangs together. auto, nominate, pin-domain, pin-node: Muster with that setting
of `steering`. ungated: Muster without the admission policy, the slow path. native: kube-scheduler's own gang scheduling
(off by default), without Muster: it keeps gangs together, and knows of no cliques."""
_ON_136 = minor() < (1, 37)
_VERSION = f"scheduling.k8s.io/{'v1alpha2' if _ON_136 else 'v1beta1'}"
POD_GROUPS = f"/apis/{_VERSION}/namespaces/default/podgroups"
_GATES = f"--feature-gates=GenericWorkload=true,WorkloadWithJob=true{',GangScheduling=true' if _ON_136 else ''}"
NATIVE = {
    "kube-apiserver": [_GATES, f"--runtime-config={_VERSION}=true"],
    "kube-controller-manager": [_GATES],
    "kube-scheduler": [_GATES],
}
"""The additional flags of each component where gangs are scheduled natively."""


class Stage:
    """A control plane of its own for one run; kube-scheduler runs only after ``start_scheduler``.

    ``settings``: changes to the settings of the extender that Muster ships.
    ``labels``: the labels of a node by its number.
    ``cluster``: the control plane, not entered yet, where it is not the usual one.
    ``platform``: the platform of its nodes, which get the labels besides.
    ``furnish``: creates further objects before Muster starts.
    """

    def __init__(
        self,
        mode: Mode,
        nodes: int,
        progress: Progress = silent,
        settings: dict[str, Any] | None = None,
        labels: Callable[[int], dict[str, str]] | None = None,
        cluster: Cluster | None = None,
        platform: str = "",
        gpus: int = GPUS_PER_NODE,
        furnish: Callable[[Cluster, list[str]], None] = lambda *_: None,
    ) -> None:
        self.mode = mode
        self.muster: RunningMuster | None = None
        self._nodes, self._platform, self._gpus, self._furnish = nodes, platform, gpus, furnish
        self._progress = progress
        self._steering = {} if mode is Mode.UNGATED else {"steering": mode.value}
        self._settings = {**self._steering, **(settings or {})}
        self._labels = labels or (lambda number: {CLIQUE: clique_of(number)})
        self._cluster = cluster or Cluster(progress, flags=NATIVE if mode is Mode.NATIVE else {})
        self._scheduler: Scheduler | None = None

    def __enter__(self) -> Self:
        self._cluster.__enter__()
        try:
            self._prepare()
        except BaseException:
            self._cluster.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cluster.__exit__(kind, error, trace)

    def _prepare(self) -> None:
        self.api = self._cluster.api
        self._progress(f"adding {self._nodes} nodes")
        self.node_names = self._cluster.add_nodes(
            self._nodes, platform=self._platform, gpus=self._gpus, labels=self._labels
        )
        self._furnish(self._cluster, self.node_names)
        if self.mode.alone:
            return
        self._progress("starting Muster")
        self.muster = start_muster(self._cluster, self._settings, UNTHROTTLED)
        self.muster.scheduler.terminate()
        if self.mode.gated:
            install_gate(self._cluster)

    def create(self, pods: Iterable[Object]) -> None:
        """Create many pods as fast as the API server takes them, in no certain order; native groups before them."""
        if self.mode is Mode.NATIVE:
            pods = list(pods)
            sizes = {pod["metadata"]["annotations"][GANG]: pod["metadata"]["annotations"][MIN_MEMBER] for pod in pods}
            self.api.create_all((POD_GROUPS, _native_group(name, int(size))) for name, size in sizes.items())
        self.api.create_all((PODS, pod) for pod in pods)

    def create_in_order(self, pods: Iterable[Object]) -> None:
        for pod in pods:
            self.api.create(PODS, pod)

    def pause(self, name: str) -> None:
        """Stop the process, which then sees no events. The extender is called muster."""
        for process in self._cluster.processes:
            if process.name == name:
                process.signal(signal.SIGSTOP)

    def end_muster(self) -> None:
        """Kill the extender."""
        if self.muster is not None:
            self.muster.extender.kill()

    def restart_muster(self) -> int:
        """Start the extender again; returns its process id when it is ready."""
        assert self.muster is not None  # noqa: S101 - asked in Muster's modes alone
        self.muster.restart_extender()
        return self.muster.extender.pid

    def start_scheduler(self) -> None:
        """Start kube-scheduler, and resume Muster if it was paused. Returns when kube-scheduler is healthy."""
        if self.muster is None:
            share = 100 if self.mode is Mode.ALL else 0
            self._scheduler = self._cluster.start_scheduler({**UNTHROTTLED, "percentageOfNodesToScore": share})
            return
        self.muster.extender.signal(signal.SIGCONT)
        self.muster.restart_scheduler()
        self._scheduler = self.muster.scheduler

    def cpu_ms(self) -> dict[str, float]:
        """The processor time of every process so far, this benchmark's own client included."""
        times = {_NAMES.get(process.name, process.name): cpu_ms(process.pid) for process in self._cluster.processes}
        return times | {"benchmark": cpu_ms(os.getpid())}

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self._cluster.kubeconfig

    def scheduler_page(self) -> Page:
        """Read kube-scheduler's /metrics, again while it has not read yet which users may."""
        assert self._scheduler is not None  # noqa: S101 - asked after it was started
        deadline = time.monotonic() + YOUTH_S
        while True:
            try:
                return Page(self._scheduler.metrics())
            except httpx.HTTPStatusError as refused:
                if refused.response.status_code != httpx.codes.FORBIDDEN or time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    @property
    def muster_url(self) -> str:
        assert self.muster is not None  # noqa: S101 - asked in Muster's modes alone
        return self.muster.url

    def muster_page(self) -> Page:
        """The extender's /metrics."""
        return Page(httpx.get(f"{self.muster_url}/metrics", trust_env=False, timeout=30).raise_for_status().text)

    def writes(self) -> dict[str, float]:
        """How many writes to the API server the extender has made, by kind."""
        return {} if self.muster is None else self.muster_page().by("kind", "muster_api_writes_total")


_NAMES = {"kube-scheduler-muster": "kube-scheduler", "muster": "extender"}


def clique_of(node: int | str) -> str:
    """The clique of a node, by its number or its name."""
    number = node if isinstance(node, int) else int(node.rpartition("-")[2])
    return f"fabric.{number // NODES_PER_CLIQUE}"


def domains_of(number: int) -> dict[str, str]:
    """The labels of a node at three levels: ten cliques make a block, ten blocks a zone."""
    clique = number // NODES_PER_CLIQUE
    return {CLIQUE: clique_of(number), BLOCK: f"block-{clique // 10}", ZONE: f"zone-{clique // 100}"}


def pod(name: str, mode: Mode, *, gpus: int = 0, cpu: str = "1", **spec: Any) -> Object:
    """A single pod; keywords go into its spec."""
    amount = {"cpu": cpu} | ({GPU: str(gpus)} if gpus else {})
    return {
        "metadata": {"name": name},
        "spec": {
            "schedulerName": mode.scheduler_name,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "none", "resources": {"requests": amount, "limits": amount}}],
            **spec,
        },
    }


def gang(name: str, size: int, mode: Mode, *, gpus: int = 1, cpu: str = "1") -> list[Object]:
    """The members of a gang, not created yet."""
    members = [pod(f"{name}-{index}", mode, gpus=gpus, cpu=cpu) for index in range(size)]
    for member in members:
        member["metadata"]["annotations"] = {GANG: name, MIN_MEMBER: str(size)}
        if mode is Mode.NATIVE:
            member["spec"]["schedulingGroup"] = {"podGroupName": name}
    return members


def _native_group(name: str, size: int) -> Object:
    return {"metadata": {"name": name}, "spec": {"schedulingPolicy": {"gang": {"minCount": size}}}}


def gangs(count: int, size: int, mode: Mode, **shape: Any) -> Iterator[Object]:
    """The members of many gangs, gang by gang."""
    for number in range(count):
        yield from gang(f"gang-{number}", size, mode, **shape)
