"""All resources that the core is kept informed of; of jobs and owners, the kinds that the cluster has now."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, Protocol

from extender.core.events import Event
from extender.kube.api.connection import ApiError
from extender.kube.client import Kube
from extender.kube.discovery import Served, served
from extender.kube.kinds.completion import Completion, by_name, limits_of
from extender.kube.kinds.owners import OWNER_KINDS, owners_of
from extender.kube.kinds.read import Reader
from extender.kube.kinds.resources import LIMITS, PRIORITIES, RUNTIMES, jobs_of
from extender.kube.kinds.volcano_job import volcano_jobs_of
from extender.kube.queues.following import QueueFollower
from extender.kube.queues.resources import VOLCANO_QUEUES
from extender.kube.reflector import Callback, Receiver, Reflector
from extender.kube.resources import (
    BUDGETS,
    DEVICE_CLASSES,
    DEVICES,
    GROUPS,
    GROUPS_OF_OTHERS,
    NAMESPACES,
    NATIVE_GANGS,
    NODES,
    PODS,
    VOLUME_RESOURCES,
    Resource,
    ValueT,
)
from extender.observe.sight import Sight
from extender.runtime.quarantine import Source
from policies.model import Node, Pod

log = logging.getLogger("muster")

_DEVICE_KINDS = frozenset(resource.kind for resource in DEVICES if resource is not DEVICE_CLASSES)
LOOK_AGAIN_S = 30.0
"""Seconds between two looks whether a kind has come to exist, or no longer exists."""
_TRY_AGAIN_S = 2.0


class Follower(Protocol):
    """Follows resources. ``run()`` never ends by itself. ``synced`` is set once everything has been dispatched."""

    synced: asyncio.Event

    async def run(self) -> None: ...

    def repeat(self) -> None:
        """Dispatch every known object again, in the way of a new list."""

    def replay(self) -> Iterator[tuple[Event, Source]]:
        """Every known object, in the way of a new list."""


class Followers(NamedTuple):
    """A follower for each resource of the core. Those of jobs, nodes and pods are also fields of their own."""

    all: list[Follower]
    jobs: JobFollower
    nodes: Reflector[Node, Event]
    pods: Reflector[Pod, Event]


def followers(kube: Kube, receiver: Receiver[Event], sight: Sight, reader: Reader) -> Followers:
    """Make all followers; pods refer to the objects of the first ones."""

    def follow(resource: Resource[ValueT, Event]) -> Reflector[ValueT, Event]:
        return Reflector(kube, resource, receiver, sight=sight)

    jobs, nodes, pods = JobFollower(kube, receiver, sight, reader), follow(NODES), follow(PODS)
    others = follow(GROUPS), *map(follow, VOLUME_RESOURCES), follow(BUDGETS)
    return Followers([jobs, follow(NAMESPACES), nodes, *others, pods], jobs, nodes, pods)


@dataclass(frozen=True, slots=True)
class _Noticed:
    """Passes every event on, and then calls ``changed``."""

    receiver: Receiver[Event]
    changed: Callable[[], None]

    def show(self, event: Event, source: Source) -> None:
        self.receiver.show(event, source)
        self.changed()

    def lose(self, event: Event, source: Source) -> None:
        self.receiver.lose(event, source)
        self.changed()


class JobFollower:
    """Follows every kind of job and owner that the API server serves, and objects that they refer to.

    Those are PodGroups and Queues of other projects, and DeviceClasses; while there is one, also devices and their
    claims. One request asks the API server for all kinds. Jobs are read together with the objects that complete their
    pods. When one of those changes, the jobs are listed again.
    """

    def __init__(
        self,
        kube: Kube,
        receiver: Receiver[Event],
        sight: Sight,
        reader: Reader,
        *,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.synced = asyncio.Event()
        self._kube = kube
        self._reader = reader
        self._pause = pause
        self._changed = asyncio.Event()
        volcano_jobs = volcano_jobs_of(reader)
        read: dict[Served, Resource[Any, Event]] = {
            **{
                (kind.version, kind.plural): jobs_of(kind, reader)
                for kind in reader.registry.kinds
                if kind.shown_in is None
            },
            **{(kind.version, kind.plural): owners_of(kind, reader) for kind in OWNER_KINDS},
            volcano_jobs.kind: volcano_jobs,
        }
        self._jobs = {
            kind: Reflector(kube, resource, receiver, sight=sight, pause=pause) for kind, resource in read.items()
        }
        others: tuple[Resource[Any, Event], ...] = (
            VOLCANO_QUEUES,
            *DEVICES,
            *GROUPS_OF_OTHERS,
            *NATIVE_GANGS,
        )
        classes = _Noticed(receiver, self._changed.set)
        self._groups = {
            resource.kind: Reflector(
                kube, resource, classes if resource is DEVICE_CLASSES else receiver, sight=sight, pause=pause
            )
            for resource in others
        }
        self._running: dict[Served, asyncio.Task[None]] = {}
        self.queues = QueueFollower(kube, receiver, sight, self._changed.set, pause=pause)

        def follow(resource: Resource[Any, None]) -> Reflector[Any, None]:
            return Reflector(kube, resource, Callback(lambda _: self._changed.set()), sight=sight, pause=pause)

        self._limits, self._runtimes, self._priorities = follow(LIMITS), follow(RUNTIMES), follow(PRIORITIES)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            lookups = self._limits, self._runtimes, self._priorities
            for lookup in lookups:
                group.create_task(lookup.run())
            for lookup in lookups:
                await lookup.synced.wait()
            while True:
                await self._look(group)
                # wait_for of Python 3.11 loses a cancellation that comes together with the awaited event.
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_AGAIN_S):
                        await self._changed.wait()

    def repeat(self) -> None:
        self.queues.repeat()
        for reflector in self._all.values():
            reflector.repeat()

    def replay(self) -> Iterator[tuple[Event, Source]]:
        return chain(self.queues.replay(), *[reflector.replay() for reflector in self._all.values()])

    @property
    def _all(self) -> dict[Served, Reflector[Any, Event]]:
        """Every reflector. Queues, PodGroups of other projects and devices come first, since pods refer to them."""
        return self._groups | self._jobs

    async def _look(self, group: asyncio.TaskGroup) -> None:
        """Follow the kinds that are served, and stop following the others."""
        self._changed.clear()
        there = await self._followed_queues(group)
        completion = self._completion()
        if completion != self._reader.completion:
            self._reader.completion = completion
            for kind in [kind for kind in self._running if kind in self._jobs and kind in there]:
                await self._stop(kind)
                self._jobs[kind].list_again()
        await self._follow_if(DEVICE_CLASSES.kind, DEVICE_CLASSES.kind in there, group)
        uses_devices = await self._has_device_classes()
        for kind in self._all:
            await self._follow_if(kind, kind in there and (uses_devices or kind not in _DEVICE_KINDS), group)
        for kind in self._running:
            await self._all[kind].synced.wait()
        self.synced.set()

    async def _follow_if(self, kind: Served, wanted: bool, group: asyncio.TaskGroup) -> None:
        reflector = self._all[kind]
        if wanted and kind not in self._running:
            self._running[kind] = group.create_task(reflector.run())
        elif not wanted and kind in self._running:
            log.info("%s of %s: no longer followed", kind[1], kind[0])
            await self._stop(kind)
            reflector.end()

    async def _has_device_classes(self) -> bool:
        """Whether any device can be claimed: every request for devices names a class."""
        classes = self._groups[DEVICE_CLASSES.kind]
        if DEVICE_CLASSES.kind in self._running:
            await classes.synced.wait()
        return any(True for _ in classes.known)

    async def _stop(self, kind: Served) -> None:
        task = self._running.pop(kind)
        task.cancel()
        await asyncio.wait([task])

    async def _followed_queues(self, group: asyncio.TaskGroup) -> Collection[Served]:
        """The kinds that the API server serves. Queues are followed before the jobs and pods that name them."""
        while True:
            try:
                there = await served(self._kube)
                await self.queues.look(there, group)
                return there
            except ApiError as error:
                log.warning("cannot see which kinds there are: %s", error)
                await self._pause(_TRY_AGAIN_S)

    def _completion(self) -> Completion:
        return Completion(
            limits=limits_of(self._limits.known),
            runtimes=None if self._runtimes.denied else by_name(self._runtimes.known),
            priorities=None if self._priorities.denied else by_name(self._priorities.known),
            workload_priorities=self.queues.priorities,
        )
