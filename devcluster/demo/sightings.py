"""Records when a watch showed each change of the demo's pods: the only source of the demo's figures.

The conditions of the API have whole seconds. Under a clock that runs 60 times faster, that is a minute.
"""

import threading
import time
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from devcluster.api import Api
from devcluster.demo.ledger import PodTimes

INDEX = "batch.kubernetes.io/job-completion-index"


class Clock:
    """Seconds of the demo since the jobs were submitted."""

    def __init__(self, factor: float) -> None:
        self.factor = factor
        self._began = time.monotonic()

    def now_s(self) -> float:
        return (time.monotonic() - self._began) * self.factor

    def real_s(self, seconds: float) -> float:
        """The real duration, in seconds, of that many seconds of the demo."""
        return seconds / self.factor


class Sightings:
    """Watches the pods of one namespace in a thread while the `with` block runs."""

    def __init__(self, api: Api, namespace: str, clock: Clock) -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._clock = clock
        self._times: dict[str, PodTimes] = {}
        self._objects: dict[str, dict[str, Any]] = {}
        self._changes = 0
        self._changed = threading.Condition()
        self._failure: Exception | None = None
        self._watch = api.watch(self._path)
        self._thread = threading.Thread(target=self._read, name="demo-sightings", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watch.close()
        self._thread.join()

    def times(self) -> list[PodTimes]:
        """Every pod that was ever seen, by name."""
        with self._changed:
            return sorted(self._times.values(), key=lambda pod: pod.name)

    def pod(self, name: str) -> dict[str, Any] | None:
        """The pod of that short name ("train-a-0") as it was last seen, if it exists."""
        with self._changed:
            return next((pod for pod in self._objects.values() if short_name(pod) == name), None)

    def wait(self, seen_changes: int, timeout_s: float) -> int:
        """Return at the first change after the given number of changes, or at the timeout; returns their number."""
        with self._changed:
            self._changed.wait_for(lambda: self._changes > seen_changes or self._failure is not None, timeout_s)
            if self._failure is not None:
                raise self._failure
            return self._changes

    def _read(self) -> None:
        try:
            for kind, pod in self._watch:
                self._note(kind, pod)
            # The API server ends no watch within half an hour.
            self._fail(ConnectionError("the API server ended the watch of the demo's pods"))
        except Exception as error:
            self._fail(error)

    def _note(self, kind: str, pod: dict[str, Any]) -> None:
        now_s = self._clock.now_s()
        uid = pod["metadata"]["uid"]
        with self._changed:
            before = self._times.get(uid) or PodTimes(pod["metadata"]["labels"]["job-name"], short_name(pod))
            self._times[uid] = advanced(before, kind, pod, now_s)
            self._objects[uid] = pod
            if kind == "DELETED":
                del self._objects[uid]
            self._changes += 1
            self._changed.notify_all()

    def _fail(self, error: Exception) -> None:
        with self._changed:
            self._failure = error
            self._changed.notify_all()


def short_name(pod: dict[str, Any]) -> str:
    """The name without the random end that the Job controller gives it."""
    labels = pod["metadata"]["labels"]
    return f"{labels['job-name']}-{labels[INDEX]}"


def advanced(times: PodTimes, kind: str, pod: dict[str, Any], now_s: float) -> PodTimes:
    """The pod's times after one event of the watch; earlier times stay."""
    node, phase = pod["spec"].get("nodeName"), pod["status"].get("phase")
    if node and times.bound_s is None:
        times = replace(times, node=node, bound_s=now_s)
    if phase == "Running" and times.running_s is None:
        times = replace(times, running_s=now_s)
    if (phase in ("Succeeded", "Failed") or kind == "DELETED") and times.ended_s is None:
        times = replace(times, ended_s=now_s, succeeded=phase == "Succeeded")
    return times
