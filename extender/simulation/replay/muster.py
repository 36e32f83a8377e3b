"""Run Muster on a trace: the unchanged core receives the jobs' pods as they come and go.

``control_plane.py`` says what is collapsed compared with the full model of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from extender.core.engine import Engine
from extender.core.events import Event
from extender.core.explain.reasons import text_of
from extender.simulation.replay.control_plane import CollapsedControlPlane
from extender.simulation.replay.course import Course, Life
from extender.simulation.replay.shape import GPU
from policies.model import GroupKey, Node, Pod, Topology
from policies.model.mentions import full
from policies.model.topology import SILENT


@dataclass(frozen=True, slots=True)
class Expected:
    """How good the expected starts of a ClusterQueue were, by its last starts. Without queues its name is empty.

    ``tenth``, ``median``, ``nine_tenths``: quantiles of the actual wait, divided by the first expected wait.
    """

    queue: str
    starts: int
    tenth: float
    median: float
    nine_tenths: float


@dataclass(frozen=True, slots=True)
class Foresight:
    """The reservations and the expected starts of a run.

    ``kept``: GPU-hours that were idle because they were reserved.
    ``backfilled``: jobs that started on a node that was reserved for another job.
    ``late_s``: for each job whose reservation had an instant, the seconds by which it started after the earliest one.
    """

    kept: float
    backfilled: int
    late_s: tuple[float, ...]
    expected: tuple[Expected, ...]


class Muster:
    """Decides as the extender does. A job's pods are one gang, gated at admission; ended pods are removed at once.

    Evicted pods keep their nodes for the grace period, and the job returns to the queue with its age.
    ``topology``: what every job asks of the levels.
    ``facts``: events that the core sees besides nodes before it begins.
    """

    def __init__(
        self,
        course: Course,
        nodes: Sequence[Node],
        core: Engine,
        topology: Topology = SILENT,
        facts: Iterable[Event] = (),
    ) -> None:
        self._course = course
        self._topology = topology
        self._lives: dict[str, Life] = {}
        self._backfilled: dict[int, None] = {}
        """The jobs that started on reserved nodes, by number."""
        self._late_s: list[float] = []
        self._control_plane = CollapsedControlPlane(core, course.clock, self._bound, self._evict)
        self._control_plane.begin(nodes, facts)

    def submitted(self, life: Life) -> None:
        for pod in life.pods(self._topology):
            self._lives[pod.uid] = life
            self._control_plane.see(pod)

    def ended(self, life: Life) -> None:
        # All pods end before the first is removed, so that none counts as a lost member.
        uids = [pod.uid for pod in life.pods()]
        for uid in uids:
            self._control_plane.see(replace(self._control_plane.pods[uid], phase="Succeeded"))
        self._remove(uids)

    def reasons(self) -> dict[str, str]:
        """Why each submitted job waits whose gang never was complete."""
        texts = {}
        for life in [life for life in self._course.lives if life.whole_s is None]:
            key = GroupKey(life.arrival.namespace, life.arrival.name)
            if (workload := self._control_plane.core.state.workloads.get(key)) is not None:
                texts[life.arrival.name] = full(text_of(workload.reason_state.cause), workload.key.namespace)
        return texts

    def foresight(self) -> Foresight:
        """The reservations and the expected starts of the run so far."""
        state = self._control_plane.core.state
        kept = state.backfills.idle_s(self._course.clock.now).get(GPU, 0.0) / 3600
        expected = (
            Expected(
                queue, len(ratios), *(round(float(quantile), 3) for quantile in np.quantile(ratios, (0.1, 0.5, 0.9)))
            )
            for queue, ratios in sorted(state.expectations.errors.items())
        )
        return Foresight(kept, len(self._backfilled), tuple(self._late_s), tuple(expected))

    def _bound(self, pod: Pod) -> None:
        life, node = self._lives[pod.uid], pod.node or ""
        self._course.place(life, node)
        own = GroupKey(life.arrival.namespace, life.arrival.name)
        if (start_by := self._control_plane.start_by.pop(own, None)) is not None:
            self._late_s.append(round(max(0.0, self._course.clock.now - start_by), 3))
        reservations = self._control_plane.core.state.backfills.of
        if any(node in reservation.rooms for key, reservation in reservations.items() if key != own):
            self._backfilled[life.number] = None

    def _evict(self, pod: Pod) -> None:
        """Remove all pods of the gang, whether the core evicts them or suspends the job."""
        if pod.deleting:
            return
        life = self._lives[pod.uid]
        uids = [pod.uid for pod in life.pods()]
        self._course.interrupt(life)
        for uid in uids:
            self._control_plane.see(replace(self._control_plane.pods[uid], deleting=True))
        self._course.clock.after(self._course.terms.grace_s, lambda: self._evicted(life, uids))

    def _evicted(self, life: Life, uids: Sequence[str]) -> None:
        self._course.vacate(life)
        self._remove(uids)
        self.submitted(life)

    def _remove(self, uids: Sequence[str]) -> None:
        for uid in uids:
            self._control_plane.gone(uid)
            del self._lives[uid]
