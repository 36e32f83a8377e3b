"""Preemption in the cycle: a workload that lacks room evicts others, if rules and priorities allow it and it fits then.

First the reservation is written on the preemptor. Then its victims are evicted, each as a whole. When the last of them
has gone, the preemptor is planned like any other workload. A restart continues from the written reservation.
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

_SearchKey = tuple[Shape, str, float]
"""Cache key of a victim search: shape, ClusterQueue, and creation time if the queue may evict newer workloads."""
_Stamp = tuple[tuple[int, ...], tuple[GroupKey, ...]]
"""The versions of everything that a victim search depends on, and the preemptions that were under way."""
_SEARCHES = 4
"""Victim searches in one pass. Each may take tens of milliseconds."""
_REST_S = 1.0
"""Seconds between looks for new candidates that have begun to run."""


def may_not_preempt(workload: Workload, demand: Demand) -> str:
    """Why no victim may be evicted for the workload under any circumstances; empty if some may.

    It must not have started, or have lost members since. Its PriorityClass has to allow it, and its job or a pod must
    exist to carry the reservation.
    """
    if workload.has_promised_quorum or workload.release.partial_since is not None:
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
    """An outcome of a turn: evict the victims of this choice."""

    found: Found
    choice: Choice


@dataclass(frozen=True, slots=True)
class Later:
    """An outcome of a turn: push the workload back in the line, since it would borrow from farther away."""


class Preempting:
    """The preemption steps of the cycle."""

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
        self._failed_searches: dict[_SearchKey, Beside | None] = {}
        """Failed searches, by cache key, as of the search version ``_as_of``."""
        self._as_of = -1
        self._postponed: dict[GroupKey, tuple[_Stamp, Found]] = {}
        """Results of this pass for workloads that were pushed back in the line because of them."""
        self._looked_at = 0
        self._searches = 0
        self._rest_until = 0.0
        self._ripe_at = math.inf
        """When the next candidate has run for the minimum that protected it."""

    def due(self, at: float) -> float | None:
        """When new candidates are to be looked for, no sooner than ``at``; None if there is no need."""
        if self._mode is Preempts.OFF:
            return None
        if self._looked_at == self._preemptions.search_version:
            at = max(at, self._ripe_at)
        return None if at == math.inf else max(at, self._rest_until)

    def review(self, now: float) -> bool:
        """Begin a pass.

        Returns whether every waiting workload is to be looked at because there may be new candidates.
        """
        self._searches = 0
        self._postponed.clear()
        if (due := self.due(now)) is None or now < due:
            return False
        if now >= self._ripe_at:
            self._ripe_at = math.inf
            self._preemptions.invalidate_searches()
        self._looked_at, self._rest_until = self._preemptions.search_version, now + _REST_S
        return True

    @property
    def helps_above(self) -> float:
        """The priority above which a workload may have victims, as far as the rules of all queues tell."""
        if self._mode is Preempts.OFF:
            return math.inf
        by_rules = any(map(evicts, self._quotas.queues.snapshot.queues.values()))
        return -math.inf if by_rules else self._preemptions.lowest

    def may_have_victims(self, workload: Workload, shape: Shape) -> bool:
        """Whether the workload may have victims, as far as is known."""
        if self._mode is Preempts.OFF:
            return False
        preemptions, queue = self._preemptions, self._quotas.queue_of(workload.key)
        by_rules = queue is not None and evicts(queue)
        if workload.priority <= preemptions.lowest and not by_rules:
            return False
        if workload.key in preemptions.under_way or preemptions.failed_for(workload.key, shape):
            return False
        return self._as_of != preemptions.search_version or self._key(workload, shape) not in self._failed_searches

    def is_ready(self, key: GroupKey) -> bool:
        """Whether the victims of the workload have gone."""
        return self._preemptions.is_ready(key)

    def fallback(
        self, workload: Workload, shape: Shape, why: Cause, line: Line, now: float
    ) -> Steps[Evict | Later | Cause]:
        """Look for victims of a workload that cannot be admitted. Returns the outcome, or the cause why it waits."""
        if self._mode is Preempts.OFF or not isinstance(why, Lacks):
            return why
        demand, known = workload.current_demand, self._without_search(workload, shape, why, now)
        if known is not None or demand is None:
            return known or why
        self._searches += workload.key not in self._postponed
        search = yield from self._find(workload, demand, shape, now)
        if search is None:
            return why
        if search.victims and self._mode is Preempts.ON and line.postpone(workload, search.usage, search.level):
            self._postponed[workload.key] = self._stamp(demand), search
            return Later()
        if search.lowest is not None:
            self._preemptions.set_lowest(search.lowest)
        conclusion = self._conclude(workload, self._key(workload, shape), search, now)
        return (
            conclusion if isinstance(conclusion, Evict) else why if conclusion is None else with_facts(why, conclusion)
        )

    def _without_search(
        self, workload: Workload, shape: Shape, why: Lacks, now: float
    ) -> Lacks | causes.Preempting | None:
        """The cause why the workload waits, if no search is made for it; None if one is to be made."""
        demand, key = workload.current_demand, workload.key
        if (preemption := self._preemptions.under_way.get(key)) is not None:
            if preemption.ready:
                return self._reservations.fail(workload, type(why)(VictimsGone(why)), now)
            return preemption.cause
        if demand is None or may_not_preempt(workload, demand) or self._awaits_own_room(workload):
            return why
        if workload.job is not None and (doubt := self._creation_doubt(workload)):
            return with_facts(why, doubt)
        if self._as_of != self._preemptions.search_version:
            self._failed_searches, self._as_of = {}, self._preemptions.search_version
        asks, busy = self._key(workload, shape), self._searches >= _SEARCHES and key not in self._postponed
        if asks in self._failed_searches or busy or not self.may_have_victims(workload, shape):
            return why if (known := self._failed_searches.get(asks)) is None else with_facts(why, known)
        return None

    def _creation_doubt(self, workload: Workload) -> Uncreated | None:
        """Why its pods may never be created, so that no victim is evicted for them; None if nothing suggests that."""
        failed, key = self._failed_creation, workload.key
        if failed.has_failed(key):
            return Uncreated(of_others=False)
        may = workload.members.live or failed.may_evict(key.namespace, workload.priority)
        return None if may else Uncreated(of_others=True)

    def _awaits_own_room(self, workload: Workload) -> bool:
        """Whether a lost member still terminates on an open node, so that its room will soon be free."""
        pods = (member.pod for member in workload.members) if workload.incomplete else ()
        going = (pod for pod in pods if pod.deleting and pod.node and not pod.terminal)
        return any(self._claims.admits(pod.node or "", pod.selection) for pod in going)

    def _find(self, workload: Workload, demand: Demand, shape: Shape, now: float) -> Steps[Found | None]:
        """Search for victims, or return the result from earlier in the pass if nothing has changed since."""
        stamp, search = self._postponed.get(workload.key, (None, None))
        if stamp == self._stamp(demand):
            return search
        return (yield from self._victims.find(workload, demand, shape, now))

    def _stamp(self, demand: Demand) -> _Stamp:
        counts = demand.version, self._preemptions.search_version, self._claims.changes, self._quotas.version
        return counts, tuple(self._preemptions.under_way)

    def _conclude(self, workload: Workload, asks: _SearchKey, search: Found, now: float) -> Evict | Beside | None:
        """Cache the result. Returns the eviction, or else why there is none; None if there is nothing to add."""
        chosen = search.chosen
        if not isinstance(chosen, Choice):
            self._failed_searches[asks] = None if chosen is None else NoVictims(chosen.beside or chosen.text)
            self._ripe_at = min(self._ripe_at, search.ripe_at + self._process.wall_offset)
        elif not chosen.victims or (self._mode is Preempts.ON and len(self._preemptions.under_way) >= MOST):
            return None
        elif self._mode is Preempts.ON:
            return self._untried(workload, now) or Evict(search, chosen)
        else:
            self._failed_searches[asks] = WouldEvict(tuple(search.victims))
            self._reporter.reached(workload, Milestone.WOULD_PREEMPT, now, detail=chosen.text)
        return self._failed_searches[asks]

    def _untried(self, workload: Workload, now: float) -> Untried | None:
        """Why no victim is evicted yet for a job without pods, which the API server might refuse."""
        job = workload.job
        if job is None or not job.seen.suspended:
            return None
        return self._trials.why_untried(workload.key, job.seen.podsets, now)

    def _key(self, workload: Workload, shape: Shape) -> _SearchKey:
        """The cache key of a search. Age counts only in a queue that may evict newer workloads of the same priority."""
        queue = self._quotas.queue_of(workload.key)
        if queue is None:
            return shape, "", 0.0
        aged = queue.preemption.within is Evicts.LOWER_OR_NEWER
        return shape, queue.name, workload.created if aged else 0.0
