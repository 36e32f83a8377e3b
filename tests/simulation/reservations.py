"""The referee of reserved room: it has an owner, it stays, and the start that was promised with it is kept.

It judges by what is written on the owners, asked for and answered, over all lives of the extender.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from extender.core.effects import AnswerFilter, Effect, Evict, Milestone, Reached, Reserve, SuspendJob
from extender.core.events import Event, FilterCalled, PodSeen, PodsSeen
from policies.model import GroupKey, Job, Pod, Requests, Reservation
from policies.model.duration import RunTerms
from tests.simulation.claims import Claims
from tests.simulation.evictions import OVERRUNS
from tests.simulation.model.apiserver import ApiServer
from tests.simulation.quota import Book, is_strict
from tests.simulation.shown import Shown
from tests.simulation.sight import Room, fits, take
from tests.simulation.terms import Terms

_PATIENCE_S = 15.0
"""How much later than promised a workload may start: its extender may be killed, and takes a moment to be back."""
_ROUNDED_S = 1e-6
"""The core counts by the wall clock, the simulator from 0."""
_CLEAN_S = 15.0
"""How long a reservation may be written on a workload that waits no more."""


def reserved(api: ApiServer) -> Iterator[tuple[GroupKey, Reservation, bool]]:
    """The reservations that are written: the owner of each, and whether that waits."""
    for job in api.jobs.values():
        if job.backfill is not None:
            yield job.key, job.backfill, job.suspended and not (job.held or job.ended)
    for pod in api.pods.values():
        if pod.backfill is not None and pod.group_key is not None:
            yield pod.group_key, pod.backfill, pod.live and not pod.node


def beside_reserved(room: Room, api: ApiServer, key: GroupKey | None) -> Room:
    """The room left for a workload if each other one gets all that is reserved for it. ``key``: None: a single pod."""
    left = {node: dict(amounts) for node, amounts in room.items()}
    for owner, reservation, _ in reserved(api):
        for node, requests in reservation.rooms if owner != key else ():
            if node in left:
                take(left[node], requests)
    return left


@dataclass(slots=True)
class _Promise:
    """The promise that goes with a reservation.

    ``until``: the first instant by which its owner was to start.
    ``excused``: a higher priority has come.
    ``made_by``: the UID of the job that has the reservation, or of the owner of the pod that has it.
    """

    reservation: Reservation
    until: float
    made_by: str
    excused: bool = False


def _promised_again(reservation: Reservation, effect: Reserve, before: _Promise | None) -> _Promise:
    """The promise from now on: the first instant counts, and an excuse stays."""
    until = reservation.until or inf
    made_by = effect.job.uid if effect.job is not None else _made_by(effect.pod) if effect.pod is not None else ""
    if before is None:
        return _Promise(reservation, until, made_by)
    return _Promise(reservation, min(until, before.until), made_by, before.excused)


def _made_by(pod: Pod) -> str:
    return pod.owner or pod.uid


class Reservations:
    """The promises that the extender has made. ``begin_life`` is called for each life of the extender."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._promises: dict[GroupKey, _Promise] = {}
        self._stale: dict[GroupKey, float] = {}
        self._began: dict[tuple[GroupKey, str], float] = {}
        """When the first pod of each release was bound."""

    def begin_life(self, shown: Shown, claims: Claims) -> None:
        self._shown = shown
        self._claims = claims

    def end_life(self, api: ApiServer) -> None:
        """Forget the promises that were never written: the next life of the extender cannot know them."""
        written = {key: reservation for key, reservation, _ in reserved(api)}
        self._promises = {
            key: promise for key, promise in self._promises.items() if written.get(key) == promise.reservation
        }

    def judge(self, event: Event, effects: Sequence[Effect], api: ApiServer, now: float) -> Iterator[str]:
        """Judge what the core asks for. Yields what is wrong."""
        self._note_begins(event)
        yield from self._judge_overruns(effects, api, now)
        if any(map(_gives_room, effects)):
            self._excuse(api)  # a workload that comes and is planned at once waits at no look
        for effect in effects:
            if isinstance(effect, Reached) and effect.milestone is Milestone.PLANNED:
                self._promises.pop(effect.key, None)
                yield from self._judge_order(effect.key, api)
            if isinstance(effect, AnswerFilter) and isinstance(event, FilterCalled):
                yield from self._judge_filter(effect, self._shown.pods.get(event.pod.uid, event.pod), now)
        last = {effect.key: effect for effect in effects if isinstance(effect, Reserve) and effect.backfill}
        for key, effect in last.items():
            before = self._promises.pop(key, None)
            if before is not None and self._is_bound_to_stay(before, now) and _waits(key, api):
                if effect.reservation is None:
                    yield f"{key} waits, and what is reserved for it until {before.until} is given up"
                elif not self._is_as_good(effect.reservation, before):
                    yield f"{key} has {before.reservation}, and is to have {effect.reservation}"
            if effect.reservation is not None:
                self._promises[key] = _promised_again(effect.reservation, effect, before)

    def look(self, api: ApiServer, now: float) -> Iterator[str]:
        """Judge what is written on the owners. Called every second or so."""
        stale = {key: reservation for key, reservation, waits in reserved(api) if not waits}
        self._stale = {key: self._stale.get(key, now) for key in stale}
        for key, since in self._stale.items():
            if self._terms.steady and now - since > _CLEAN_S:
                yield f"{key} waits no more, and has {stale[key]}"
        self._excuse(api)
        waiting = _priorities(api)
        for key, promise in self._promises.items():
            if self._judges_starts and not promise.excused and key in waiting and now > promise.until + _PATIENCE_S:
                yield f"{key} was to start by {promise.until:.1f}, and waits at {now:.1f}"

    def at_rest(self, api: ApiServer) -> Iterator[str]:
        """Judge once nothing is on its way any more: no reservation outlives the wait of its owner."""
        for key, reservation, waits in reserved(api):
            if not waits:
                yield f"{key} waits no more, and has {reservation}"

    def _excuse(self, api: ApiServer) -> None:
        """Excuse promises below the highest waiting priority, and drop promises to workloads that are gone.

        A higher priority may take what is reserved. Another workload may have the name of one that is gone.
        """
        there = (
            {job.uid for job in api.jobs.values()} | {*map(_made_by, api.pods.values())} if self._promises else set()
        )
        self._promises = {key: promise for key, promise in self._promises.items() if promise.made_by in there}
        waiting = _priorities(api) if self._promises else {}
        highest = max(waiting.values(), default=0)
        for key, promise in self._promises.items():
            promise.excused = promise.excused or waiting.get(key, highest) < highest

    @property
    def _judges_starts(self) -> bool:
        """Whether starts are judged. With queues they are not: quota is not reserved."""
        return self._terms.steady and not self._terms.queued

    def _is_bound_to_stay(self, promise: _Promise, now: float) -> bool:
        return self._terms.steady and not promise.excused and promise.until > now

    @staticmethod
    def _is_as_good(reservation: Reservation, before: _Promise) -> bool:
        """Whether the new reservation keeps the promise.

        Other nodes may replace the reserved ones if they bring the start forward. Where the start is not known, they
        may replace them at any time: any node may come free first.
        """
        if reservation.rooms == before.reservation.rooms:
            return reservation.until <= before.until
        return before.until == inf or 0 < reservation.until < before.until

    def _note_begins(self, event: Event) -> None:
        pods = [event.pod] if isinstance(event, PodSeen) else event.pods if isinstance(event, PodsSeen) else ()
        for pod in pods:
            if pod.stamp is not None and pod.group_key is not None and pod.stamp.at:
                release = pod.group_key, pod.stamp.release
                self._began[release] = min(pod.stamp.at, self._began.get(release, inf))

    def _judge_overruns(self, effects: Sequence[Effect], api: ApiServer, now: float) -> Iterator[str]:
        """Workloads are ended for an overrun only where their author says so, and others have reserved the room."""
        ended: dict[GroupKey | None, Job | None] = {}
        for effect in effects:
            if isinstance(effect, SuspendJob) and effect.reason.startswith(OVERRUNS):
                ended[effect.job.key] = effect.job
            elif isinstance(effect, Evict) and effect.reason.startswith(OVERRUNS) and effect.uid in self._shown.pods:
                ended[self._shown.pods[effect.uid].group_key] = None
        for key, job in ended.items():
            if key is not None:
                yield from self._judge_overrun(key, job, api, now)

    def _judge_overrun(self, key: GroupKey, job: Job | None, api: ApiServer, now: float) -> Iterator[str]:
        pods = [pod for pod in self._shown.members.get(key, {}).values() if pod.node and pod.live]
        declared = {pod.eviction.when_overrun for pod in pods} | {None if job is None else job.eviction.when_overrun}
        if declared - {None} != {True}:
            yield f"{key} is ended because it overruns, and its author has not declared that"
        stated = [pod.run for pod in pods] if job is None else [job.run]
        least = max((run.expected_s or 0.0 for run in stated), default=inf) + self._terms.overrun_s
        stamps = [pod.stamp for pod in pods if pod.stamp and pod.stamp.at]
        # A pod may have been seen in another gang: then its own stamp counts.
        began = min((self._began.get((key, stamp.release), stamp.at) for stamp in stamps), default=now)
        if now - began < least - _ROUNDED_S:
            yield f"{key} is ended because it overruns after {now - began:.1f} s, and may run for {least:.1f} s"
        others = {other: promise.reservation for other, promise in self._promises.items()}
        others |= {other: reservation for other, reservation, _ in reserved(api)}
        nodes, ranks = {pod.node for pod in pods}, _priorities(api)
        rank = max((pod.priority for pod in pods), default=0)
        if not any(
            node in nodes and other != key and ranks.get(other, rank) >= rank
            for other, reservation in others.items()
            for node, _ in reservation.rooms
        ):
            yield f"{key} is ended because it overruns, and no equal of it has reserved any of its room"

    def _judge_order(self, planned: GroupKey, api: ApiServer) -> Iterator[str]:
        """In a StrictFIFO queue nothing passes a workload that waits for its reservation."""
        if not self._terms.steady:
            return
        book, queues = Book(api.queues.values(), api.nodes.values()), _queues(api)
        queue, priorities = book.queue_of(queues.get(planned, "")), _priorities(api)
        if queue is None or not is_strict(queue) or queue.by_past_usage:
            return
        created = _created(api)
        for key in self._promises:
            same = book.queue_of(queues.get(key, "")) is queue and priorities.get(key) == priorities.get(planned)
            if same and created[key] < created[planned]:
                yield f"{planned} is planned before {key}, which waits in the same StrictFIFO queue"

    def _judge_filter(self, answer: AnswerFilter, pod: Pod, now: float) -> Iterator[str]:
        """A single pod is kept off reserved room, and a pod of a DaemonSet is not.

        Judged on nodes that have nothing else: there all of the room is free, and kept.
        """
        if pod.group_key is not None or pod.native_group:
            return
        for node, requests, promise in self._whole_nodes():
            free = self._shown.free(node)
            if pod.stays and node in answer.refused and fits(free, pod.requests):
                yield f"{pod.uid} belongs to {node}, and is kept off by what is reserved there"
            take(free, pod.requests)
            ends_in_time = now + _longest(pod.run) <= promise.reservation.until
            lasts = not (pod.stays or ends_in_time or promise.excused)
            if node in answer.passed and lasts and not fits(free, requests):
                yield f"{pod.uid} may go to {node}, where {promise.reservation} is kept"

    def _whole_nodes(self) -> Iterator[tuple[str, Requests, _Promise]]:
        """The reserved room of nodes without pods and claims, with the promise that it goes with."""
        claims = self._claims
        books = (claims.promised, claims.kept, claims.seats.sure, claims.doubts.minded)
        taken = {claim.node for book in books for claim in book.values()} | {*claims.on_their_way.values()}
        taken |= {pod.node for pod in self._shown.pods.values() if pod.node}
        slots = claims.admissions.slots
        # A job that may be stopped has its room until then.
        taken |= {node for key in slots.of for _, node, _ in slots.unfilled(key, claims.on_their_way)}
        for promise in self._promises.values():
            for node, requests in promise.reservation.rooms:
                if node in self._shown.nodes and node not in taken:
                    yield node, requests, promise


def _gives_room(effect: Effect) -> bool:
    """Whether a workload is planned, or gets a reservation, or a single pod may go to a node."""
    planned = isinstance(effect, Reached) and effect.milestone is Milestone.PLANNED
    return planned or isinstance(effect, AnswerFilter | Reserve)


def _longest(run: RunTerms) -> float:
    known = [seconds for seconds in run if seconds is not None]
    return min(known, default=inf)


def _waits(key: GroupKey, api: ApiServer) -> bool:
    return key in _priorities(api)


def _priorities(api: ApiServer) -> Mapping[GroupKey, int]:
    """The priority of each workload that waits, single pods included."""
    waiting = {job.key: job.shown().priority for job in api.jobs.values() if job.suspended and not job.ended}
    for pod in api.pods.values():
        if pod.node or not pod.live:
            continue
        key = pod.group_key or GroupKey(pod.namespace, f"pod {pod.name}")
        waiting[key] = max(waiting.get(key, pod.priority), pod.priority)
    return waiting


def _queues(api: ApiServer) -> Mapping[GroupKey, str]:
    queues = {pod.group_key: pod.queue for pod in api.pods.values() if pod.group_key is not None}
    return queues | {job.key: job.queue for job in api.jobs.values()}


def _created(api: ApiServer) -> Mapping[GroupKey, float]:
    by_key: dict[GroupKey, float] = {}
    for pod in api.pods.values():
        if pod.group_key is not None:
            by_key[pod.group_key] = min(by_key.get(pod.group_key, pod.created), pod.created)
    return by_key | {job.key: job.shown().created for job in api.jobs.values()}
