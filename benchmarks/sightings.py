"""Which pods are bound, where, and since when, as a client of the API server sees it while it happens."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import httpx

from devcluster import Api, ApiError, Watch
from devcluster.api import Object

PODS = "/api/v1/namespaces/default/pods"
GANG = "muster.dev/pod-group"
BOUND = "spec.nodeName!="


@dataclass(frozen=True)
class Sighting:
    """A pod's first appearance on a node, at that instant of ``time.perf_counter``."""

    gang: str
    node: str
    at: float


def annotated(pod: Object) -> str:
    """The gang that the pod names, if any."""
    return str(pod["metadata"].get("annotations", {}).get(GANG, ""))


class Sightings:
    """Watches the bound pods of the default namespace from entry to exit, in a thread of its own.

    ``gang_of``: which gang a pod counts as a member of; empty for a pod of none.
    """

    def __init__(self, api: Api, gang_of: Callable[[Object], str] = annotated) -> None:
        self._api = api
        self._gang_of = gang_of
        self._pods: dict[str, Sighting] = {}
        self._news = threading.Condition()
        self._stopped = False
        self._failure: Exception | None = None
        self._changes: Watch | None = None
        self._thread = threading.Thread(target=self._watch, name="benchmark-sightings", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped = True
        if self._changes is not None:
            self._changes.close()
        self._thread.join()

    def bound(self) -> dict[str, Sighting]:
        """Every pod seen bound so far, by UID, in order of sight."""
        with self._news:
            return dict(self._pods)

    def wait(self, count: int, timeout_s: float) -> dict[str, Sighting]:
        """Wait until that many pods were seen bound. Raises TimeoutError, or what broke the watch."""

        def settled() -> bool:
            return len(self._pods) >= count or self._failure is not None

        with self._news:
            self._news.wait_for(settled, timeout_s)
            if len(self._pods) >= count:
                return dict(self._pods)
            if self._failure is not None:
                raise self._failure
            raise TimeoutError(f"only {len(self._pods)} of {count} pods were bound after {timeout_s:g} s")

    def _watch(self) -> None:
        try:
            while not self._stopped:
                self._follow()
        except (httpx.HTTPError, ApiError) as error:
            with self._news:
                self._failure = error
                self._news.notify_all()

    def _follow(self) -> None:
        """One list and one watch. The API server may end a watch at any time: then a new list takes over."""
        page = self._api.get(PODS, fieldSelector=BOUND)
        for pod in page["items"]:
            self._see(pod)
        version = page["metadata"]["resourceVersion"]
        with contextlib.suppress(httpx.HTTPError, ApiError), self._api.watch(PODS, version, fieldSelector=BOUND) as new:
            self._changes = new
            if self._stopped:  # just before there was a watch to close
                return
            for kind, pod in new:
                if kind == "ADDED":
                    self._see(pod)

    def _see(self, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        if uid in self._pods:
            return
        with self._news:
            self._pods[uid] = Sighting(self._gang_of(pod), pod["spec"]["nodeName"], time.perf_counter())
            self._news.notify_all()


def by_gang(pods: dict[str, Sighting]) -> dict[str, list[Sighting]]:
    """The sightings of each gang's members; pods of no gang are left out."""
    gangs: dict[str, list[Sighting]] = {}
    for one in pods.values():
        if one.gang:
            gangs.setdefault(one.gang, []).append(one)
    return gangs


def longest_partial_s(pods: dict[str, Sighting], size: int, until: float) -> float:
    """The longest time for which a gang of that size was bound in part; a gang that never became whole counts to
    ``until``."""
    return max((_partial_s([one.at for one in gang], size, until) for gang in by_gang(pods).values()), default=0.0)


def _partial_s(instants: list[float], size: int, until: float) -> float:
    ordered = sorted(instants)
    return (ordered[size - 1] if len(ordered) >= size else until) - ordered[0]


def spread(pods: dict[str, Sighting], domain_of: Callable[[str], str]) -> list[int]:
    """Over how many different domains each gang lies; ``domain_of`` takes a node's name."""
    return [len({domain_of(one.node) for one in members}) for members in by_gang(pods).values()]
