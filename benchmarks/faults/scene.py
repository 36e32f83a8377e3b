"""A namespace with gangs on a real control plane: actions, views, and whether the promises are kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import contextmanager, suppress
from itertools import count
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
from pydantic import TypeAdapter

from benchmarks.stage import Mode, gang
from devcluster import ApiError, Cluster
from devcluster.api import Object
from devcluster.muster import RunningMuster
from extender.api.models import PREFIX, GangView

T = TypeVar("T")
PATIENCE_S = 60.0
POLL_EVERY_S = 0.01  # the extender's pages have no watch
WHOLE, GONE = "whole", "gone"
GANGS = TypeAdapter(list[GangView])
_numbers = count(1)


class Scene:
    """Made with ``with``; pods and nodes are gone after it. ``muster`` is the replica that is asked."""

    def __init__(self, cluster: Cluster, muster: RunningMuster) -> None:
        self.cluster = cluster
        self.api = cluster.api
        self.muster = muster
        self.namespace = f"scene-{next(_numbers)}"
        self.pods_path = f"/api/v1/namespaces/{self.namespace}/pods"
        self.nodes: list[str] = []

    def __enter__(self) -> Self:
        self.api.create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        self.api.wait_for(f"/api/v1/namespaces/{self.namespace}/serviceaccounts/default", bool)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self.pods():
            with suppress(ApiError):  # thousands at once can take longer than one request may
                self.api.delete(self.pods_path, {"gracePeriodSeconds": 0})
        for node in self.nodes:
            with suppress(ApiError):  # it may be one that a fault has taken
                self.api.delete(f"/api/v1/nodes/{node}")

    def add_nodes(self, number: int, gpus: int = 8) -> list[str]:
        prefix = f"{self.namespace}-{len(self.nodes)}-node"
        added = self.cluster.add_nodes(number, gpus=gpus, prefix=prefix, labels={"scene": self.namespace})
        self.nodes += added
        return added

    def members(self, name: str, size: int, *, gpus: int = 1, cpu: str = "1", **spec: Any) -> list[Object]:
        """The members of a gang for this scene's nodes, not created yet."""
        pods = gang(name, size, Mode.UNGATED, gpus=gpus, cpu=cpu)
        for pod in pods:
            pod["spec"] |= {"nodeSelector": {"scene": self.namespace}, **spec}
        return pods

    def create(self, pods: Iterable[Object]) -> None:
        self.api.create_all((self.pods_path, pod) for pod in pods)

    def pods(self) -> list[Object]:
        return self.api.list(self.pods_path)

    def bound(self, name: str) -> list[str]:
        """Names of the gang's members that have a node."""
        return _bound(self.pods(), name)

    def wait_bound(self, name: str, size: int, timeout_s: float = PATIENCE_S) -> None:
        self.api.wait_for(self.pods_path, lambda pods: len(_bound(pods, name)) >= size, timeout_s)

    @contextmanager
    def until_first_binding(self) -> Any:
        """The end of the block waits for the first Binding of a pod that is made in it."""
        version = self.api.get(self.pods_path)["metadata"]["resourceVersion"]
        with self.api.watch(self.pods_path, version, PATIENCE_S) as changes:
            yield
            next(pod for _, pod in changes if pod["spec"].get("nodeName"))

    def wait_leads(self, *, leads: bool = True) -> None:
        """Wait until the extender says of itself that it leads, or that it does not."""
        self.wait(lambda: self.metric("muster_leader"), lambda seen: seen == float(leads))

    def metric(self, name: str) -> float:
        lines = self.page("/metrics").text.splitlines()
        return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name} "))

    def gangs(self) -> dict[str, GangView]:
        """The gangs as the extender reports them, by name."""
        gangs = GANGS.validate_json(self.page(f"{PREFIX}/gangs").content)
        return {gang.name: gang for gang in gangs if gang.namespace == self.namespace}

    def page(self, path: str) -> httpx.Response:
        return httpx.get(f"{self.muster.url}{path}", trust_env=False, timeout=10).raise_for_status()

    def wait(self, look: Callable[[], T], holds: Callable[[T], bool], timeout_s: float = PATIENCE_S) -> T:
        """Look again and again until it is as expected. Raises TimeoutError."""
        deadline = time.monotonic() + timeout_s
        while True:
            seen: T | None = None
            with suppress(httpx.HTTPError):  # the extender may be on its way back
                if holds(seen := look()):
                    return seen
            if time.monotonic() > deadline:
                raise TimeoutError(f"not as expected within {timeout_s:g} s; last seen: {str(seen)[:400]}")
            time.sleep(POLL_EVERY_S)

    def settle(self, expected: dict[str, str], meanwhile: Callable[[], object] = bool) -> list[str]:
        """Wait until every gang is as expected: WHOLE, GONE, or waiting for that reason. Returns the remaining
        differences.

        Whole means that minMember of its members have a node; waiting, that none has one; gone, that there are none.
        ``meanwhile`` is called between two looks.
        """

        def look() -> list[str]:
            meanwhile()
            return self.wrong(expected)

        with suppress(TimeoutError):
            self.wait(look, lambda wrong: not wrong)
        return self.wrong(expected)

    def wrong(self, expected: dict[str, str]) -> list[str]:
        """The differences from the expected state, in words."""
        pods, gangs, mistakes = self.pods(), self.gangs(), []
        for name, end in expected.items():
            seen = gangs.get(name)
            bound, size = len(_bound(pods, name)), (seen and seen.min_member) or 0
            state = GONE if seen is None else seen.state
            if end == WHOLE and (bound < size or not size):
                mistakes.append(f"{name}: {bound} of {size} members are bound, and it is {state}")
            elif end != WHOLE and (bound or state != end):
                mistakes.append(f"{name}: {bound} members are bound, and it is {state} instead of {end}")
        return mistakes


def _bound(pods: Iterable[Object], name: str) -> list[str]:
    """The bound pods of a gang, by name: members are called after their gang, whatever their dialect."""
    members = (pod for pod in pods if pod["metadata"]["name"].rpartition("-")[0] == name)
    return [pod["metadata"]["name"] for pod in members if pod["spec"].get("nodeName")]
