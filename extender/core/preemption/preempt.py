"""A workload that lacks room has others give way, where they have a lower priority and the whole of it fits then.

First what it is to have is written on it, then its victims are told, all of each; when the last of them has gone it is
planned like any other. What is written lets a restart go on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from extender.core import causes
from extender.core.causes import (
    Beside,
    Cause,
    Lacks,
    NoVictims,
    Uncreated,
    Untried,
    VictimsGone,
    WouldEvict,
    with_facts,
)
from extender.core.effects import Milestone
from extender.core.explain.telling import Reporter
from extender.core.ledger.claims import Claims
from extender.core.ledger.creation import FailedCreation, Trials
from extender.core.ledger.preemptions import MOST, Preemptions
from extender.core.ledger.quotas import Quotas
from extender.core.ledger.store import Process
from extender.core.limits import Limits, Preempts
from extender.core.preemption.reclaim import evicts
from extender.core.preemption.reservations import Reservations
from extender.core.preemption.search import Found, VictimSearch
from extender.core.queue.demands import to_complete
from extender.core.queue.line import Line
from extender.core.workload.shape import Demand, Shape
from extender.core.workload.workload import Workload
from policies.model import GroupKey
from policies.model.queues import Evicts
from policies.preemption.victims import Choice
from policies.steps import Steps

_Asks = tuple[Shape, str, float]
"""What tells apart for whom others have to give way: their shape, their ClusterQueue, and their age where it counts."""
_Stamp = tuple[tuple[int, ...], tuple[GroupKey, ...]]
"""As of what victims were found: what has changed so often, and to whom others gave way."""
_SEARCHES = 4
"""In one pass: each may take tens of milliseconds."""
_REST_S = 1.0
"""Whoever has begun to run may give way: that is looked at so often."""


def may_not_preempt(workload: Workload, demand: Demand) -> str:
    """Why others are evicted for it under no circumstances; empty if they may be: it has yet to start or has lost
    members since, its PriorityClass lets it, and a reservation can be written on it."""
    if workload.seated or workload.release.partial_since is not None:
        return "a part of it has started"
    if workload.members.bound and not workload.incomplete:
        return "a part of it has started"
    if workload.incomplete and len(to_complete(workload, demand.pods)) < workload.missing:
        return "the replacements of its lost members are yet to come"
    if not all(pod.preempts for pod in demand.pods):
        return "the preemptionPolicy of its PriorityClass is Never"
    written = workload.job is not None or workload.members.first is not None
    return "" if written else "it has no pods yet on which that could be written"


@dataclass(frozen=True, slots=True)
class Evict:
    """Others are to give way to the workload: the victims of this choice."""

    found: Found
    choice: Choice


@dataclass(frozen=True, slots=True)
class Later:
    """The turn of the workload comes later in the line: with that room it would borrow from farther away."""


class Preempting:
    """What the cycle asks about preemption."""

    def __init__(
        self,
        limits: Limits,
        process: Process,
        claims: Claims,
        quotas: Quotas,
        preemptions: Preemptions,
        failed_creation: FailedCreation,
        trials: Trials,
        reporter: Reporter,
        victims: VictimSearch,
        reservations: Reservations,
    ) -> None:
        self._process = process
        self._claims = claims
        self._quotas = quotas
        self._preemptions = preemptions
        self._failed_creation = failed_creation
        self._trials = trials
        self._reporter = reporter
        self._victims = victims
        self._reservations = reservations
        self._mode = limits.preemption
        self._vain: dict[_Asks, Beside | None] = {}
        """What was found for workloads that ask for the same, as of this epoch."""
        self._as_of = -1
        self._postponed: dict[GroupKey, tuple[_Stamp, Found]] = {}
        """What was found in this pass for those whose turn comes later by that."""
        self._looked_at = 0
        self._searches = 0
        self._rest_until = 0.0
        self._ripe_at = math.inf
        """When the next one has run for long enough to give way to somebody who was refused."""

    def due(self, at: float) -> float | None:
        """When somebody is to be looked at who may give way by then, no sooner than ``at``; None for nobody."""
        if self._mode is Preempts.OFF:
            return None
        if self._looked_at == self._preemptions.epoch:
            at = max(at, self._ripe_at)
        return None if at == math.inf else max(at, self._rest_until)

    def review(self, now: float) -> bool:
        """A pass begins. Returns whether everybody who waits is to be looked at because of it."""
        self._searches = 0
        self._postponed.clear()
        if (due := self.due(now)) is None or now < due:
            return False
        if now >= self._ripe_at:
            self._ripe_at = math.inf
            self._preemptions.ripen()
        self._looked_at, self._rest_until = self._preemptions.epoch, now + _REST_S
        return True

    @property
    def helps_above(self) -> float:
        """The priority above which others may be evicted for a workload, as far as the rules of all queues tell."""
        if self._mode is Preempts.OFF:
            return math.inf
        by_rules = any(map(evicts, self._quotas.queues.picture.queues.values()))
        return -math.inf if by_rules else self._preemptions.lowest

    def wants(self, workload: Workload, shape: Shape) -> bool:
        """Whether somebody may give way to it, as far as is known."""
        if self._mode is Preempts.OFF:
            return False
        preemptions, queue = self._preemptions, self._quotas.queue_of(workload.key)
        by_rules = queue is not None and evicts(queue)
        if workload.priority <= preemptions.lowest and not by_rules:
            return False
        if workload.key in preemptions.under_way or preemptions.spares(workload.key, shape):
            return False
        return self._as_of != preemptions.epoch or self._asks(workload, shape) not in self._vain

    def is_ready(self, key: GroupKey) -> bool:
        """Whether its victims have gone."""
        return self._preemptions.is_ready(key)

    def instead(
        self, workload: Workload, shape: Shape, why: Cause, line: Line, now: float
    ) -> Steps[Evict | Later | Cause]:
        """It cannot be admitted: whether others give way, or what else is to be said."""
        if self._mode is Preempts.OFF or not isinstance(why, Lacks):
            return why
        demand, known = workload.asked, self._without_search(workload, shape, why, now)
        if known is not None or demand is None:
            return known or why
        self._searches += workload.key not in self._postponed
        found = yield from self._find(workload, demand, shape, now)
        if found is None:
            return why
        if found.victims and self._mode is Preempts.ON and line.postpone(workload, found.usage, found.level):
            self._postponed[workload.key] = self._stamp(demand), found
            return Later()
        if found.lowest is not None:
            self._preemptions.looked(found.lowest)
        said = self._conclude(workload, self._asks(workload, shape), found, now)
        return said if isinstance(said, Evict) else why if said is None else with_facts(why, said)

    def _without_search(
        self, workload: Workload, shape: Shape, why: Lacks, now: float
    ) -> Lacks | causes.Preempting | None:
        """What is to be said where nobody is looked for who gives way; None if somebody is to be."""
        demand, key = workload.asked, workload.key
        if (preemption := self._preemptions.under_way.get(key)) is not None:
            if preemption.ready:
                return self._reservations.fail(workload, type(why)(VictimsGone(why)), now)
            return preemption.cause
        if demand is None or may_not_preempt(workload, demand) or self._awaits_own_room(workload):
            return why
        if workload.job is not None and (doubt := self._creation_doubt(workload)):
            return with_facts(why, doubt)
        if self._as_of != self._preemptions.epoch:
            self._vain, self._as_of = {}, self._preemptions.epoch
        asks, busy = self._asks(workload, shape), self._searches >= _SEARCHES and key not in self._postponed
        if asks in self._vain or busy or not self.wants(workload, shape):
            return why if (known := self._vain.get(asks)) is None else with_facts(why, known)
        return None

    def _creation_doubt(self, workload: Workload) -> Uncreated | None:
        """Why its pods may never be created, so that nobody is evicted for them; None if nothing says so."""
        failed, key = self._failed_creation, workload.key
        if failed.has_failed(key):
            return Uncreated(of_others=False)
        may = workload.members.live or failed.may_evict(key.namespace, workload.priority)
        return None if may else Uncreated(of_others=True)

    def _awaits_own_room(self, workload: Workload) -> bool:
        """Whether a member that is to be replaced terminates on an open node: its room is about to be free."""
        pods = (member.pod for member in workload.members) if workload.incomplete else ()
        going = (pod for pod in pods if pod.deleting and pod.node and not pod.terminal)
        return any(self._claims.admits(pod.node or "", pod.selection) for pod in going)

    def _find(self, workload: Workload, demand: Demand, shape: Shape, now: float) -> Steps[Found | None]:
        """What was found before its turn stands if nothing has changed since."""
        stamp, found = self._postponed.get(workload.key, (None, None))
        if stamp == self._stamp(demand):
            return found
        return (yield from self._victims.find(workload, demand, shape, now))

    def _stamp(self, demand: Demand) -> _Stamp:
        counts = demand.version, self._preemptions.epoch, self._claims.changes, self._quotas.version
        return counts, tuple(self._preemptions.under_way)

    def _conclude(self, workload: Workload, asks: _Asks, found: Found, now: float) -> Evict | Beside | None:
        """Whether others are to give way; or why not, to be said beside why it waits."""
        chosen = found.chosen
        if not isinstance(chosen, Choice):
            self._vain[asks] = None if chosen is None else NoVictims(chosen.beside or chosen.text)
            self._ripe_at = min(self._ripe_at, found.ripe_at + self._process.epoch)
        elif not chosen.victims or (self._mode is Preempts.ON and len(self._preemptions.under_way) >= MOST):
            return None
        elif self._mode is Preempts.ON:
            return self._spares(workload, now) or Evict(found, chosen)
        else:
            self._vain[asks] = WouldEvict(tuple(found.victims))
            self._reporter.reached(workload, Milestone.WOULD_PREEMPT, now, detail=chosen.text)
        return self._vain[asks]

    def _spares(self, workload: Workload, now: float) -> Untried | None:
        """Why nobody is evicted yet for a job whose pods do not exist: the API server might refuse them."""
        job = workload.job
        if job is None or not job.seen.suspended:
            return None
        return self._trials.spares(workload.key, job.seen.podsets, now)

    def _asks(self, workload: Workload, shape: Shape) -> _Asks:
        """In a queue that lets newer ones of the same priority be evicted, its age counts."""
        queue = self._quotas.queue_of(workload.key)
        if queue is None:
            return shape, "", 0.0
        aged = queue.preemption.within is Evicts.LOWER_OR_NEWER
        return shape, queue.name, workload.created if aged else 0.0
