"""A replica: it follows the cluster all the time, and acts while it leads.

A takeover is a restart without the reading: a new core learns everything from what the reflectors know, and continues
from what is bound. The loss of the lead is the same, after which the new core is silent. Only the API objects carry
over from one term to the next. So a takeover cannot fail in a way in which a restart succeeds.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Callable, Iterator
from itertools import chain

from extender.core.engine import Engine
from extender.core.events import Event
from extender.kube.api.connection import ApiError
from extender.kube.client import Kube
from extender.kube.following import followers
from extender.kube.kinds.read import Reader
from extender.kube.lease import follow
from extender.kube.queues.capacity import Capacity, CapacityKeeper
from extender.kube.queues.protection import NodeKeeper
from extender.kube.queues.status import QueueWriter
from extender.kube.queues.workloads import WorkloadWriter
from extender.observe.sight import Sight
from extender.observe.topology import levels_line, topology
from extender.runtime import garbage
from extender.runtime.election import LeaderElection, Leadership
from extender.runtime.runner import Api, Runner

log = logging.getLogger("muster")

_ASK_AGAIN_S = 1.0
_LOST = "this replica of Muster does not lead any more; try again"


class Replica:
    """Keeps the runner's core up to date, and lets it act: from the first sync on, or from term to term."""

    def __init__(
        self,
        kube: Kube,
        runner: Runner,
        new_core: Callable[[], Engine],
        new_api: Callable[[], Api],
        sight: Sight,
        reader: Reader | None = None,
        *,
        workload_objects: bool = True,
        capacity: Capacity | None = None,
    ) -> None:
        """``capacity``: settings for requesting nodes of elastic flavors, if there are any."""
        self._runner = runner
        self._sight = sight
        self._kube = kube
        self._new_core = new_core
        self._new_api = new_api
        reader = reader or Reader()
        following = followers(kube, runner, sight, reader)
        self._followers, self._pods, self.queues = following.all, following.pods, following.jobs.queues
        self._tasks: asyncio.TaskGroup | None = None
        self._catching_up: list[asyncio.Task[None]] = []
        self._queue_writer = writer = QueueWriter(kube, self._acting, self.queues.known)
        self._workload_writer = WorkloadWriter(
            kube, self._acting, lambda: self.queues.workloads if workload_objects else "", lambda: writer.places
        )
        self._node_keeper = NodeKeeper(
            kube, self._acting, lambda: {node.name: uid for uid, node in following.nodes.known_by_uid.items()}
        )
        self._capacity = (
            None
            if capacity is None
            else CapacityKeeper(
                kube, self._acting, lambda: self.queues.provisions, runner.dispatch, reader.registry, capacity
            )
        )

    def objects(self) -> Iterator[Event]:
        """Yield the events of each existing object that the core was shown, in the order of a start."""
        known = [follower.replay() for follower in self._followers]
        shown = (self._runner.quarantine.as_shown(*shown_object) for shown_object in chain.from_iterable(known))
        return (event for event in shown if event is not None)

    def restart_core(self) -> None:
        """Replace an acting core by a new one that learns everything from the objects, as at a takeover.

        This happens within the process. Drift is in the core alone, and nothing of the old core is kept. The objects
        that the watches have shown are read by the same code as after a restart of the process.
        """
        if self._tasks is not None and self._runner.acting.is_set():
            self._kube.behind = True
            self._catching_up.append(self._tasks.create_task(self._catch_up()))
            self._start_over("Muster restarts its core; try again")
            self._runner.act()
            garbage.freeze_present()

    async def run(self, election: LeaderElection, leadership: Leadership) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._tasks = group
            for follower in self._followers:
                group.create_task(follower.run())
            for follower in self._followers:
                await follower.synced.wait()
            group.create_task(self._queue_writer.run())
            group.create_task(self._workload_writer.run())
            group.create_task(self._node_keeper.run())
            if self._capacity is not None:
                group.create_task(self._capacity.run())
            garbage.collect_rarely()
            self._log_reading()
            if not election.enabled:
                return self._runner.act()
            self._runner.standing_by = True
            group.create_task(follow(self._kube, election, leadership.seen, self._sight))
            await self._serve_terms(leadership, group)

    def _acting(self) -> Engine | None:
        """The core while it decides; None otherwise."""
        return self._runner.core if self._runner.acting.is_set() else None

    async def _serve_terms(self, leadership: Leadership, group: asyncio.TaskGroup) -> None:
        while True:
            log.info("standing by: in sync, and another replica leads or none does")
            await leadership.change(held=False)
            began = time.perf_counter()
            self._kube.behind = True
            self._catching_up = [group.create_task(self._catch_up())]
            self._start_over(_LOST)
            self._runner.act()
            await self._runner.acting.wait()
            log.info("leading as %s, after %.2f s of taking over", leadership.holder, time.perf_counter() - began)
            gc.freeze()
            await leadership.change(held=True)
            for task in self._catching_up:
                task.cancel()
            log.warning("not leading any more; the Lease was last seen with %s", leadership.holder or "nobody")
            self._start_over(_LOST)
            self._runner.standing_by = True
            garbage.freeze_present()

    async def _catch_up(self) -> None:
        """Wait until the watch of pods has caught up with the present.

        Until then it may lack the last Binding of the former leader, and a complete gang would seem to be partly bound.
        """
        while True:
            try:
                await self._pods.catch_up()
            except ApiError as error:
                log.warning("the newest version of the pods is unknown: %s", error)
                await asyncio.sleep(_ASK_AGAIN_S)
            else:
                self._kube.behind = False
                return

    def _start_over(self, why: str) -> None:
        self._runner.start_over(self._new_core(), self._new_api(), why)
        for follower in self._followers:
            follower.repeat()

    def _log_reading(self) -> None:
        state = self._runner.core.state
        log.info("read %d nodes, %d pods, %d gangs", len(state.claims.nodes), len(state.pods), len(state.workloads))
        levels = topology(state.claims.snapshot(), configured=bool(state.claims.configured))
        torn = any(level.contradictions for level in levels.levels)
        log.log(logging.WARNING if torn else logging.INFO, levels_line(levels))
