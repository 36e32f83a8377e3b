"""Nodes that are made: the workloads that request and await them, for how long, and which nodes are to stay.

A workload requests nodes no longer than it awaits them. It stops when they are denied, and pauses before the next
request.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from extender.core.answers import CapacityAnswered
from extender.core.events import Event, JobSeen
from extender.core.jobs.elastic import CapacityAsk
from policies.model import GroupKey, Pod
from tests.builders import GPU
from tests.simulation import relations
from tests.simulation.admissions import Admissions
from tests.simulation.awaited_nodes import pods_of
from tests.simulation.claims import Claims
from tests.simulation.company import Company
from tests.simulation.model.world import World
from tests.simulation.queue_plan import FLAVOR, MADE
from tests.simulation.quota import QuotaJudge, flavors_of
from tests.simulation.seating import seats
from tests.simulation.shown import Shown
from tests.simulation.sight import nominated

_SLOW_S = 5.0
_PAUSE_S = 60.0
_EARLY_S = 1.0
"""The annotation of a job has whole seconds."""


class AskedNodes:
    """The capacity requests in one life of the extender.

    ``within_s``: how long nodes are awaited, and once more when they are granted.
    """

    def __init__(self, within_s: float) -> None:
        self._within_s = within_s
        self._since: dict[CapacityAsk, float] = {}
        self._denied: dict[tuple[GroupKey, int], float] = {}
        self._rests: dict[GroupKey, tuple[str, float]] = {}
        """The jobs that state a pause on themselves, also for a new leader: their UID, and its end."""
        self._stood_until = 0.0

    def pardon(self, until: float) -> None:
        """The extender stands still: it reads an answer only after that, and awaits the granted nodes from then on."""
        self._stood_until = until

    def hear(self, event: Event, now: float) -> None:
        if isinstance(event, CapacityAnswered) and not event.granted:
            self._denied[event.key, event.attempt] = now
        if isinstance(event, JobSeen):
            job = event.job
            self._rests[job.key] = job.uid, 0.0 if job.in_vain is None else job.in_vain.until

    def look(self, asks: Sequence[CapacityAsk], now: float) -> str | None:
        """The complaint about a request that is too early, or kept for too long. To be called every second or so."""
        for ask in asks:
            uid, until = self._rests.get(ask.key, ("", 0.0))
            if ask not in self._since and ask.job.uid == uid and now < until - _EARLY_S:
                return f"{ask.key} asks for nodes at {now:.1f} s, and rests until {until:.1f} s"
            before = self._denied.get((ask.key, ask.attempt - 1), float("-inf"))
            if ask not in self._since and now - before < _PAUSE_S - _SLOW_S:
                return f"{ask.key} asks for nodes again, {now - before:.1f} s after there were none"
        self._since = {ask: self._since.get(ask, now) for ask in asks}
        for ask, since in self._since.items():
            if since < self._denied.get((ask.key, ask.attempt), float("-inf")):
                return f"{ask.key} asks for nodes, and was told that there are none"
            if now - max(since, self._stood_until) > 2 * self._within_s + _SLOW_S:
                return f"{ask.key} asks for nodes since {since:.1f} s"
        return None


_KEPT_S = 8.0
"""The time within which a node that awaits pods of a job is marked to stay."""


class MadeNodes:
    """The made nodes in one life of the extender."""

    def __init__(
        self, shown: Shown, claims: Claims, admissions: Admissions, quota: QuotaJudge, company: Company
    ) -> None:
        self._shown = shown
        self._company = company
        self._claims = claims
        self._admissions = admissions
        self._quota = quota
        self._since: dict[str, float] = {}
        """The nodes that await pods of jobs, and since when."""

    def look(self, world: World, *, calm: bool) -> str | None:
        """The complaint about a job that awaits nodes beyond its deadline, or while there are some."""
        now, extender, awaiting = world.clock.now, world.extender, self._admissions.awaiting
        if extender is None or not extender.recovered or extender.frozen or world.network.api_down:
            self._since.clear()
            return None
        self._since = {name: self._since.get(name, now) for name in self._awaited(now)}
        idle = self._admissions.left_alone()
        if (late := awaiting.late(idle, now)) is not None or not calm:
            return late
        fitting = set()
        for key in (key for key in idle if awaiting.of[key].shown):
            pods = pods_of(job := awaiting.of[key].job, awaiting.tolerated(job))
            if self._fit(pods):
                fitting.add(key)
        return awaiting.roomy(fitting, now)

    def _fit(self, pods: Sequence[Pod]) -> bool:
        """Whether there are nodes for all of the pods, whichever promised pods are bound at that time."""
        company = self._company
        bound = company.bound()
        sides = [bound, [*bound, *company.promised(surely=False)], company.on_nodes()]
        if not relations.related(pods, sides[1]):
            sides = sides[:1]
        elif company.stands_back(pods) or company.in_rounds or nominated(self._shown.pods.values()):
            return False
        room = self._claims.left(self._shown.nodes)
        return all(seats(self._shown.nodes, room, pods, (), len(pods), side) >= len(pods) for side in sides)

    def taken_away(self, name: str, now: float) -> str | None:
        """The complaint about an empty node that the autoscaler takes away, although pods are awaited there."""
        since = self._since.get(name)
        if since is None or now - since <= _KEPT_S:
            return None
        return f"{name} is taken away, and pods of a job are awaited there since {since:.1f} s"

    def judge_kept(self, kept: Iterable[str], now: float) -> str | None:
        """The complaint about nodes that are to stay, once all is settled. ``kept``: the nodes that are marked so."""
        idle = set(kept) - self._awaited(now)
        return f"at rest: {sorted(idle)} are to stay, and nobody is awaited there" if idle else None

    def _awaited(self, now: float) -> set[str]:
        """Nodes of the flavor that is made, where jobs with quota of it have slots whose pods are yet to come."""
        books, admissions, nodes = self._quota.books(now - 120.0), self._admissions, set[str]()
        for key, admission in admissions.slots.of.items():
            queues = [book.queue_of(self._quota.local_of(key)) for book in books]
            if not admission.trouble and all(queue is not None and MADE in flavors_of(queue) for queue in queues):
                slots = admissions.slots.unfilled(key, self._claims.on_their_way)
                nodes |= {node for _, node, requests in slots if dict(requests).get(GPU)}
        labels = {name: node.labels.get(FLAVOR) for name, node in self._shown.nodes.items()}
        return {node for node in nodes if labels.get(node) == MADE}
