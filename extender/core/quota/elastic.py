"""Flavors whose nodes are made when somebody asks for them: a workload that has quota of one, and no nodes, asks for
capacity and keeps that quota meanwhile.

What is asked for a job is told to whoever can ask (``asks``), and what becomes of it is an event. A gang of pods asks
by being let go without a plan (``letting_go``), and so does a job where nobody can ask (``unplanned``). When the nodes
come the workload is planned like any other. If they do not come in time the quota is for everybody again, and after a
pause it asks anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from extender.core.answers import CapacityAnswered
from extender.core.claim import Owner
from extender.core.events import CapacityServed
from extender.core.gang.backoff import pause_s
from extender.core.gang.letting_go import awaiting, lacking, let_go, let_job_go, shown, unseen
from extender.core.gang.shape import Demand, Shape
from extender.core.quota.asked import Asked
from extender.core.quota.asking import Asking, CapacityAsk, asked_pods
from extender.core.quota.flavoring import Flavoring, PartKey
from extender.core.reasons import Reason
from extender.core.state import State
from extender.core.telling import explain
from extender.core.workload import Workload
from policies.model import GroupKey, InVain, LetGo, Pod
from policies.model.queues import ClusterQueue
from policies.quota.choices import Choices
from policies.quota.flavors import Assignment, Fit
from policies.words import listed, many

MOST = 32
"""Workloads for which nodes are asked at a time."""
_TRIES = 16
"""Assignments of flavors that are looked at for one of them."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 60.0, 1800.0


@dataclass(frozen=True, slots=True)
class _Denied:
    """It asks again after ``until``."""

    attempts: int
    until: float
    text: str


class Elastic:
    """``instead`` and ``pending`` are asked in an admission pass; ``follow`` is called after every event."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._limits = state.limits.elastic
        self._served: bool | None = None
        """Whether nodes can be asked for; None: nobody has said so yet."""
        self._asking: dict[GroupKey, Asking] = {}
        self._denied: dict[GroupKey, _Denied] = {}
        self._aside: dict[GroupKey, None] = {}
        """Who would ask, and is looked at again when another one asks no more."""

    @property
    def asks(self) -> tuple[CapacityAsk, ...]:
        """What is asked for just now."""
        return tuple(one.ask for one in self._asking.values() if one.ask is not None)

    def lets_go(self, key: GroupKey, uid: str) -> bool:
        """Whether this pod is to be tried without a plan, for whoever makes nodes to see."""
        asking, workload = self._asking.get(key), self._state.workloads.get(key)
        record = None if workload is None else workload.job
        return (asking is not None and uid in asking.shown) or (record is not None and uid in record.shown)

    def pending(self, workload: Workload, shape: Shape) -> Reason | None:
        """What it waits for, if it has asked for nodes. One that asks for other pods by now has to ask anew."""
        asking, record = self._asking.get(workload.key), workload.job
        if record is not None and record.awaits_nodes:
            queue = self._state.quotas.members.queue_of(workload.key) or ""
            what = shown(workload.members.slots.templates.values())
            return awaiting(queue, record.seen.flavor_names, what) if asking is None else asking.reason
        if asking is not None and asking.shape != shape:
            self._end(workload.key)
            return None
        if asking is not None and record is None:
            self._show(workload, asking)
        return None if asking is None else asking.reason

    def instead(self, workload: Workload, shape: Shape, why: Reason, now: float) -> Reason:
        """It has no room, and nobody gives way to it: whether nodes are asked for, or what else is to be said."""
        demand, queue = workload.asked, self._state.quotas.queue_of(workload.key)
        if (
            not self._limits.flavors
            or why.code != "NoRoom"
            or demand is None
            or queue is None
            or not self._may(workload)
        ):
            return why
        denied = self._denied.get(workload.key) or self._recall(workload, now)
        if denied is not None and now < denied.until:
            return why._replace(message=f"{why.message}; {denied.text}")
        asked = Asked(workload, demand.pods, queue, self._state.quotas.queues.picture)
        found = self._choice(asked, demand, queue)
        if found is None:
            return why
        if keeps := self._keeps(workload, demand, asked.flavorings(found)):
            return why._replace(message=f"{why.message}; no nodes are asked for: {keeps}")
        if len(self._asking) >= MOST:
            self._aside[workload.key] = None
        can = (self._served is not None or workload.job is None) and len(self._asking) < MOST
        return self._begin(workload, shape, asked, found, now) if can else why

    def served(self, event: CapacityServed, _now: float) -> None:
        """Whether the cluster has what nodes are asked for by."""
        self._served = event.served
        for key in [one.key for one in self.asks] if not event.served else ():
            self._end(key)
        for key in self._state.waiting.keys:
            self._state.waiting.look_again(key)

    def answered(self, event: CapacityAnswered, now: float) -> None:
        """What has become of it."""
        asking = self._asking.get(event.key)
        if asking is None or asking.ask is None or asking.attempt != event.attempt:
            return
        if not event.granted:
            self._deny(event.key, asking, event.detail, now)
        elif not asking.granted:
            until = now + self._limits.within_s
            self._asking[event.key] = replace(asking, granted=True, until=until)
            self._state.waiting.look_again(event.key)

    def follow(self, now: float) -> None:
        """Who has its nodes, or waits for them no more, asks no longer."""
        for key, asking in list(self._asking.items()):
            workload = self._state.workloads.get(key)
            if workload is None or not self._goes_on(workload, asking):
                self._end(key)
            elif asking.until and now >= asking.until:
                late = "they were granted, and it has no plan on them" if asking.granted else "not enough came"
                self._deny(key, asking, f"{late} within {self._limits.within_s:.0f} s", now)
        for key, denied in list(self._denied.items()):
            if key not in self._state.waiting.keys and not _comes_back(self._state.workloads.get(key)):
                del self._denied[key]
            elif denied.until and now >= denied.until:
                self._denied[key] = replace(denied, until=0.0)
                self._state.waiting.look_again(key)

    def next_end(self) -> float | None:
        """When something is given up, or asked for again."""
        ends = [one.until for one in self._asking.values()] + [one.until for one in self._denied.values()]
        return min(filter(None, ends), default=None)

    def _choice(self, asked: Asked, demand: Demand, queue: ClusterQueue) -> Assignment | None:
        """The first flavors with quota for all of its pods of which one is elastic."""
        picture, podsets = self._state.quotas.queues.picture, asked.podsets(demand.pods)
        choices = Choices(picture.tree, picture.flavors, queue, asked.closed())
        found = choices.first(podsets)
        for _ in range(_TRIES):
            if found.fit is not Fit.FITS:
                return None
            if any(name in self._limits.flavors for some in found.flavors.values() for name in some.values()):
                return found
            found = choices.after(found, podsets, "no node of it has room")
        return None

    def _begin(self, workload: Workload, shape: Shape, asked: Asked, found: Assignment, now: float) -> Reason:
        """Keep the quota, and ask."""
        state, demand, key = self._state, workload.asked, workload.key
        assert demand is not None  # noqa: S101
        denied = self._denied.get(key)
        attempt, ask, made = 1 if denied is None else denied.attempts + 1, None, asked.flavorings(found)
        if workload.job is not None and self._served:
            ask = CapacityAsk(key, workload.job.seen.owner, asked_pods(demand, made), attempt)
        usage: dict[tuple[str, str], int] = {}
        for one in asked.podsets(demand.pods):
            for resource, flavor in found.flavors[one.name].items():
                usage[flavor, resource] = usage.get((flavor, resource), 0) + one.requests.get(resource, 0)
        state.quotas.reserve(key, usage)
        names = tuple(dict.fromkeys(flavor for flavor, _ in usage))
        queue = state.quotas.members.queue_of(key) or ""
        until = now + self._limits.within_s
        lets_go = workload.job is not None and ask is None
        # However late its start is answered, it may have been done: until then its quota is for nobody else.
        ends = 0.0 if lets_go else until
        asking = self._asking[key] = Asking(attempt, demand.pods, shape, queue, names, ends, ask)
        workload.telling.note(now, f"asks for nodes, attempt {attempt}")
        if workload.job is None:
            self._show(workload, asking)
        elif lets_go:
            let_job_go(state, workload, made, LetGo(float(ceil(until - state.epoch)), attempt))
        return asking.reason

    def _show(self, workload: Workload, asking: Asking) -> None:
        pods = [] if workload.asked is None else _there(workload, workload.asked)
        shown = let_go(self._state, workload, pods, asking.shown)
        self._asking[workload.key] = replace(asking, shown=shown)

    def _keeps(self, workload: Workload, demand: Demand, made: Mapping[PartKey, Flavoring]) -> str:
        """What keeps it from asking; empty for nothing."""
        flavors = self._state.quotas.queues.picture.flavors
        if workload.job is None:
            return lacking(_there(workload, demand), made, flavors, of_job=False, to_come=False)
        if self._served is not False:
            return ""
        pods = [workload.members.stands_for(pod.identity) for pod in demand.pods]
        return unseen(pods, made, self._limits.flavors) or lacking(pods, made, flavors, of_job=True, to_come=True)

    def _may(self, workload: Workload) -> bool:
        """It has yet to start, nobody gives way to it, and all that it needs nodes for can be asked for: a job, or pods
        that are all there."""
        record, key = workload.job, workload.key
        ready = workload.podsets is None if record is None else record.plannable
        if not ready or workload.seated or workload.members.bound:
            return False
        if self._state.namespaces.ending(key.namespace) is not None:
            return False
        return key not in self._state.preemptions.under_way and key in self._state.waiting.keys

    def _goes_on(self, workload: Workload, asking: Asking) -> bool:
        """Whether it has yet to get its nodes, and its queue and flavors are there still."""
        quotas = self._state.quotas
        if asking.ask is None and workload.job is not None:
            return workload.job.awaits_nodes and workload.job.writing is not None  # else it is looked after by itself
        known = all(name in quotas.queues.picture.flavors for name in asking.flavors)
        there = known and quotas.members.queue_of(workload.key) == asking.queue and quotas.route(workload).why is None
        return there and self._may(workload)

    def _deny(self, key: GroupKey, asking: Asking, detail: str, now: float) -> None:
        """It gives its quota back, and asks again after a pause that grows."""
        self._end(key)
        text = self.in_vain(key, asking.attempt, asking.flavors, detail, now)
        if (workload := self._state.workloads.get(key)) is not None:
            workload.telling.note(now, text)
            explain(self._state, workload, Reason("NoRoom", text), now)

    def in_vain(self, key: GroupKey, attempts: int, flavors: Sequence[str], detail: str, now: float) -> str:
        """It has asked for so long: it rests. Returns what is to be said."""
        pause = pause_s(attempts, _FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        text = f"nodes of {listed(flavors)} were asked for in vain: {detail}; it asks again {pause:.0f} s later"
        self._denied[key] = _Denied(attempts, now + pause, text)
        return text

    def rest(self, key: GroupKey) -> InVain | None:
        """So long it asks for nothing, to be written on its job."""
        denied = self._denied.get(key)
        if denied is None or not denied.until:
            return None
        return InVain(float(ceil(denied.until - self._state.epoch)), denied.attempts)

    def _recall(self, workload: Workload, now: float) -> _Denied | None:
        """As an earlier life of ours has written it on its job."""
        said = None if workload.job is None else workload.job.seen.in_vain
        if said is None:
            return None
        left = min(said.until + self._state.epoch - now, _LONGEST_PAUSE_S)
        text = f"nodes were asked for in vain, {many(said.attempts, 'time')} in a row; it asks again {left:.0f} s later"
        denied = self._denied[workload.key] = _Denied(said.attempts, now + left if left > 0 else 0.0, text)
        return denied

    def _end(self, key: GroupKey) -> None:
        """It asks no more."""
        if self._asking.pop(key, None) is not None:
            self._state.quotas.unreserve(key)
            for one in (key, *self._aside):
                self._state.waiting.look_again(one)
            self._aside.clear()


def _comes_back(workload: Workload | None) -> bool:
    """Whether its job is being suspended, to wait again."""
    record = None if workload is None else workload.job
    return record is not None and not record.seen.finished and (record.seen.suspended or bool(record.stop))


def _there(workload: Workload, demand: Demand) -> list[Pod]:
    """The pods that ask, as they are."""
    live = workload.members.live
    return [live[pod.uid].pod for pod in demand.pods if pod.uid in live]


def kept_nodes(state: State) -> dict[str, None]:
    """Nodes on which somebody has room by such a flavor who is not there yet: whoever makes nodes also takes empty ones
    away, and knows of no plan of ours."""
    if not state.limits.elastic.flavors:
        return {}
    promised = state.claims.promised_nodes.items()
    return {node: None for node, owners in promised if any(_is_elastic(state, owner) for owner in owners)}


def _is_elastic(state: State, owner: Owner) -> bool:
    claim = state.claims.get(owner)
    if claim is None or claim.workload is None:
        return False
    use = state.quotas.uses.of(claim.workload).get(owner)
    return use is not None and not state.limits.elastic.flavors.isdisjoint(use.flavors.values())
