"""Follow the queue objects: the kinds that the API server serves, each in one version."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import aclosing
from itertools import chain
from time import time
from typing import Any, Generic, TypeVar

from extender.core.events import Event
from extender.kube.api.connection import ApiError
from extender.kube.client import Kube
from extender.kube.discovery import Served
from extender.kube.lease import lease_from
from extender.kube.queues.resources import (
    CLASSES,
    PROVISIONING,
    QUEUE_GROUP,
    QUEUE_KINDS,
    VERSIONS,
    WORKLOADS,
    FollowedQueue,
    path_of,
    workload_priorities,
)
from extender.kube.reflector import Callback, Receiver, Reflector
from extender.kube.resources import Resource
from extender.observe.sight import Sight
from extender.runtime.quarantine import Source

log = logging.getLogger("muster")
ValueT = TypeVar("ValueT")
EventT = TypeVar("EventT")
KUEUE_RUNS = "Kueue's controller runs: Muster does not manage queues"
LEASE = "c1f6bfd2.kueue.x-k8s.io"
"""The Lease by which Kueue elects its leader, in any namespace."""
_LEASES = "/apis/coordination.k8s.io/v1/leases"
_SKEW_S = 60.0
"""Seconds that a Lease counts after it ran out, for clocks that differ and for a controller that restarts."""


class _Kind(Generic[ValueT, EventT]):
    """A kind that comes in several versions; one of them is followed."""

    def __init__(self, plural: str, of_version: Callable[[str], Resource[ValueT, EventT]]) -> None:
        self.plural = plural
        self.of_version = of_version
        self.version = ""
        self.reflector: Reflector[ValueT, EventT]
        self._task: asyncio.Task[None] | None = None

    async def follow(self, version: str, group: asyncio.TaskGroup) -> None:
        """Follow the kind in that version from now on. Without a version its objects are reported as gone."""
        if version == self.version:
            return
        self.version = version
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None
        if not version:
            log.info("%s of %s: not followed any more", self.plural, QUEUE_GROUP)
            self.reflector.end()
            return
        self.reflector.read_at(self.of_version(version))
        self._task = group.create_task(self.reflector.run())


class QueueFollower:
    """Follows all queue objects.

    ``changed``: called when something else than a queue object has changed.
    ``kueue_runs``: whether Kueue's controller was seen to run.
    """

    def __init__(
        self,
        kube: Kube,
        receiver: Receiver[Event],
        sight: Sight,
        changed: Callable[[], None],
        *,
        pause: Callable[[float], Awaitable[None]],
    ) -> None:
        self.kueue_runs = False
        self.workloads = ""
        """The version to write Workload objects in; empty while Kueue runs and writes them."""
        self.provisions = False
        """Whether nodes can be requested by ProvisioningRequests."""
        self._kube = kube
        self._kinds: dict[str, _Kind[Any, Any]] = {
            **{plural: _Kind(plural, of_version) for plural, of_version in QUEUE_KINDS.items()},
            CLASSES: _Kind(CLASSES, workload_priorities),
        }
        for plural, kind in self._kinds.items():
            target: Receiver[Any] = receiver if plural in QUEUE_KINDS else Callback(lambda _: changed())
            kind.reflector = Reflector(kube, kind.of_version(VERSIONS[0]), target, sight=sight, pause=pause)

    async def look(self, there: Collection[Served], group: asyncio.TaskGroup) -> None:
        """Follow what the API server serves; returns once all of it has been read. Raises ApiError."""
        served = {
            plural: [version for version in VERSIONS if (f"{QUEUE_GROUP}/{version}", plural) in there]
            for plural in self._kinds
        }
        await self._look_for_kueue(any(served.values()))
        records = [
            version for version in VERSIONS if (f"{QUEUE_GROUP}/{version}", WORKLOADS) in there and not self.kueue_runs
        ]
        self.workloads = next(iter(records), "")
        self.provisions = PROVISIONING in there and not self.kueue_runs
        for plural, kind in self._kinds.items():
            left_alone = self.kueue_runs and plural in QUEUE_KINDS
            version = "" if left_alone else await self._version(kind, served[plural])
            await kind.follow(version, group)
        for kind in self._kinds.values():
            if kind.version:
                await kind.reflector.synced.wait()

    def repeat(self) -> None:
        """Dispatch every known object again, in the way of a new list."""
        for plural in QUEUE_KINDS:
            self._kinds[plural].reflector.repeat()

    def replay(self) -> Iterator[tuple[Event, Source]]:
        """Every known object, in the way of a new list."""
        return chain.from_iterable([self._kinds[plural].reflector.replay() for plural in QUEUE_KINDS])

    @property
    def notice(self) -> str:
        """A notice for people; empty if there is none."""
        return KUEUE_RUNS if self.kueue_runs else ""

    @property
    def priorities(self) -> Mapping[str, int] | None:
        """The values of the WorkloadPriorityClasses by name; None if they cannot be read."""
        kind = self._kinds[CLASSES]
        return dict(kind.reflector.known) if kind.version and not kind.reflector.denied else None

    def known(self) -> Iterator[FollowedQueue]:
        """Yield every known object."""
        for plural in QUEUE_KINDS:
            kind = self._kinds[plural]
            for uid, seen in kind.reflector.known_by_uid.items():
                namespace = getattr(seen.object, "namespace", "")
                within = f"namespaces/{namespace}/{plural}" if namespace else plural
                yield FollowedQueue(seen.object, uid, f"{path_of(kind.version, within)}/{seen.object.name}")

    async def _look_for_kueue(self, served: bool) -> None:
        runs = served and await kueue_runs(self._kube)
        if runs != self.kueue_runs:
            log.warning("%s", KUEUE_RUNS if runs else "Kueue's controller has stopped: Muster manages the queues")
        self.kueue_runs = runs

    async def _version(self, kind: _Kind[Any, Any], served: list[str]) -> str:
        """The version to follow: the present one while it is served, else the newest that can be read.

        Where Kueue installed the kind, the API server converts by Kueue's webhook, which may be gone.
        """
        if kind.version in served:
            return kind.version
        for version in served:
            try:
                await self._kube.newest(path_of(version, kind.plural))
            except ApiError as error:
                if error.status == 500:
                    log.warning("%s of %s cannot be read as %s: %s", kind.plural, QUEUE_GROUP, version, error)
                    continue
            return version
        return ""


async def kueue_runs(kube: Kube) -> bool:
    """Whether Kueue's Lease is being renewed. False if Muster may not read Leases. Raises ApiError in an outage."""
    try:
        async with aclosing(kube.list_pages(_LEASES, selector=f"metadata.name={LEASE}")) as pages:
            leases = [lease_from(item) async for page in pages for item in page.items]
    except ApiError as error:
        if error.status in (403, 404):
            return False
        raise
    return any(lease is not None and lease.renewed_at + lease.duration_s + _SKEW_S > time() for lease in leases)
