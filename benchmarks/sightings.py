"""Watches, as a client of the API server, which pods are bound, where, since when, and which gangs have a reason."""

from __future__ import annotations

import contextlib
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import httpx

from devcluster import Api, ApiError, Watch
from devcluster.api import Object
from extender.kube.reports import CONTROLLER

PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
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


class Watching(ABC):
    """Follows a collection from entry to exit, in a thread of its own. ``_see`` is given every object that is new.

    ``selector``: the ``fieldSelector`` of the collection's list and watch.
    """

    def __init__(self, api: Api, path: str, selector: str = "") -> None:
        self._api = api
        self._path = path
        self._selector = selector
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

    @abstractmethod
    def _see(self, obj: Object) -> None: ...

    def _await(self, settled: Callable[[], bool], timeout_s: float) -> bool:
        """Whether the state was reached in time. Raises the error that broke the watch."""
        with self._news:
            self._news.wait_for(lambda: settled() or self._failure is not None, timeout_s)
            if not settled() and self._failure is not None:
                raise self._failure
            return settled()

    def _watch(self) -> None:
        try:
            while not self._stopped:
                self._follow()
        except (httpx.HTTPError, ApiError) as error:
            with self._news:
                self._failure = error
                self._news.notify_all()

    def _follow(self) -> None:
        """Follow one list and one watch. The API server may end a watch at any time: then a new list takes over."""
        page = self._api.get(self._path, fieldSelector=self._selector)
        for obj in page["items"]:
            self._see(obj)
        version = page["metadata"]["resourceVersion"]
        watch = self._api.watch(self._path, version, fieldSelector=self._selector)
        with contextlib.suppress(httpx.HTTPError, ApiError), watch as new:
            self._changes = new
            if self._stopped:  # just before there was a watch to close
                return
            for kind, obj in new:
                if kind == "ADDED":
                    self._see(obj)


class Sightings(Watching):
    """The bound pods of the default namespace. ``gang_of``: which gang a pod counts as a member of; empty for none."""

    def __init__(self, api: Api, gang_of: Callable[[Object], str] = annotated) -> None:
        super().__init__(api, PODS, BOUND)
        self._gang_of = gang_of
        self._pods: dict[str, Sighting] = {}

    def bound(self) -> dict[str, Sighting]:
        """Every pod seen bound so far, by UID, in order of sight."""
        with self._news:
            return dict(self._pods)

    def wait(self, count: int, timeout_s: float) -> dict[str, Sighting]:
        """Wait until that many pods were seen bound. Raises TimeoutError, or the error that broke the watch."""
        if not self._await(lambda: len(self._pods) >= count, timeout_s):
            raise TimeoutError(f"only {len(self._pods)} of {count} pods were bound after {timeout_s:g} s")
        return self.bound()

    def _see(self, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        if uid in self._pods:
            return
        with self._news:
            self._pods[uid] = Sighting(self._gang_of(pod), pod["spec"]["nodeName"], time.perf_counter())
            self._news.notify_all()


class Reasons(Watching):
    """The gangs of the default namespace for which Muster has given a reason for waiting, in an Event on a member."""

    def __init__(self, api: Api) -> None:
        super().__init__(api, EVENTS)
        self._explained: set[str] = set()

    def wait(self, count: int, timeout_s: float) -> None:
        """Wait until that many gangs have a reason. Raises TimeoutError, or the error that broke the watch."""
        if not self._await(lambda: len(self._explained) >= count, timeout_s):
            raise TimeoutError(
                f"only {len(self._explained)} of {count} gangs were given a reason after {timeout_s:g} s"
            )

    def _see(self, event: Object) -> None:
        if event["reportingController"] != CONTROLLER or event["reason"] != "NoRoom":
            return
        with self._news:
            self._explained.add(event["regarding"]["name"].rpartition("-")[0])
            self._news.notify_all()


def by_gang(pods: dict[str, Sighting]) -> dict[str, list[Sighting]]:
    """The sightings of each gang's members; single pods are left out."""
    gangs: dict[str, list[Sighting]] = {}
    for sighting in pods.values():
        if sighting.gang:
            gangs.setdefault(sighting.gang, []).append(sighting)
    return gangs


def longest_partial_s(pods: dict[str, Sighting], size: int, until: float) -> float:
    """The longest time for which a gang of that size was bound in part; an incomplete gang counts to ``until``."""
    return max(
        (_partial_s([sighting.at for sighting in gang], size, until) for gang in by_gang(pods).values()), default=0.0
    )


def _partial_s(instants: list[float], size: int, until: float) -> float:
    ordered = sorted(instants)
    return (ordered[size - 1] if len(ordered) >= size else until) - ordered[0]


def spread(pods: dict[str, Sighting], domain_of: Callable[[str], str]) -> list[int]:
    """Over how many different domains each gang lies; ``domain_of`` takes a node's name."""
    return [len({domain_of(sighting.node) for sighting in members}) for members in by_gang(pods).values()]
