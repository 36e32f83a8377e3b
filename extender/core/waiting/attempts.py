"""A workload's turn in the admission pass: it is planned and the plan committed, or it is said why not."""

from __future__ import annotations

from itertools import islice

from extender.core.commit import Commit
from extender.core.gang.demands import Demands
from extender.core.gang.milestones import Milestone
from extender.core.gang.problems import running, worded
from extender.core.gang.shape import Demand, Shape
from extender.core.planner import Changed, Plan, Planner
from extender.core.preemption import Preempting
from extender.core.quota.elastic import Elastic
from extender.core.quota.queued import Queued
from extender.core.reasons import Reason
from extender.core.state import State
from extender.core.telling import explain, reached
from extender.core.waiting.line import Line
from extender.core.waiting.shortfalls import Shortfalls
from extender.core.waiting.turns import in_need, put_off
from extender.core.workload import Workload
from policies.api import PolicyError
from policies.steps import Steps, metered

_UNPROVEN = Reason(
    "Creating", "others wait, and pods of another job are yet to be created that may never come", warning=False
)
LOOK, TRY, SEAT = 2, 50, 4
"""What it costs to look at a workload, to try to place it, and for each member, in units of about 5 microseconds."""


class Attempts:
    """``vain``: what was spent on those who could not be admitted, since the pass began."""

    def __init__(
        self,
        state: State,
        planner: Planner,
        demands: Demands,
        commit: Commit,
        queued: Queued,
        shortfalls: Shortfalls,
        preempting: Preempting,
        elastic: Elastic,
    ) -> None:
        self.vain = 0
        self._in_need: tuple[str, ...] | None = None
        self._state = state
        self._planner = planner
        self._demands = demands
        self._commit = commit
        self._queued = queued
        self._shortfalls = shortfalls
        self._preempting = preempting
        self._elastic = elastic

    def begin(self) -> None:
        """A pass begins."""
        self.vain, self._in_need = 0, None

    def admit(self, workload: Workload, line: Line, now: float) -> Steps[int]:
        """Plan it and commit the plan, or explain. Returns what it has cost beyond what a plain one would.

        One that changes meanwhile is looked at again in the next pass. It may turn out that its turn
        comes later in ``line``.
        """
        waiting = self._state.waiting
        if workload.releasing:
            waiting.looked_at(workload.key)
            yield LOOK
            return 0
        if workload.asked is None:
            yield from self._demands.ask(workload)
        demand = workload.asked
        if demand is None:
            return 0
        waiting.looked_at(workload.key)
        if demand.trouble is not None:
            self._explain(workload, demand.trouble, now)
        if (shape := demand.shape) is None or now < workload.retries.not_before:
            yield LOOK
            return 0
        state = self._state
        why = until_created(state, workload, now) or self._until_proven(workload, now) or until_gone(state, workload)
        if why is None and not self._preempting.is_ready(workload.key):
            why = self._queued.refused(workload, shape, self._shortfalls)
        why = why or until_started(state, workload, demand, related=shape.related)
        if why is not None:
            why = yield from self._instead(workload, shape, why, line, now)
            self.tell(workload, why, LOOK, now)
            yield LOOK
            return 0
        plain = TRY + SEAT * len(demand.pods)
        why, spent = yield from metered(self._try(workload, demand, shape, line, now))
        if why is not None:
            why = yield from self._instead(workload, shape, why, line, now)
            self.tell(workload, why, max(spent, plain), now)
        if spent < plain:
            yield min(plain - spent, self._state.limits.slice_units)
        return max(0, spent - plain)

    def _until_proven(self, workload: Workload, now: float) -> Reason | None:
        """While others wait, one job alone whose pods may never come has room at a time. Two that take turns would
        never leave the room free at once that a larger gang waits for."""
        state, namespace = self._state, workload.key.namespace
        if not put_off(state, workload) or not state.creation.in_doubt(workload.key):
            return None
        if self._in_need is None:  # those that are put off come last: whoever waits now has had his turn
            self._in_need = tuple(islice(dict.fromkeys(in_need(state, now)), 2))
        if all(other == namespace for other in self._in_need):
            return None
        state.creation.refuse(workload.key, now)
        return _UNPROVEN

    def _try(self, workload: Workload, demand: Demand, shape: Shape, line: Line, now: float) -> Steps[Reason | None]:
        """Commit a plan, or say why there is none; neither if it has changed meanwhile."""
        self._state.changes.wary |= shape.related
        try:
            found = yield from self._queued.plan(workload, demand, shape, self._shortfalls, line)
        except PolicyError as error:
            self.blame(workload, error, now)
            return None
        match found:
            case Plan():
                yield from self._commit.commit(workload, found, self._planner.holds, now)
                self._state.quotas.count_unseen(workload)  # before anybody else is planned
                return None
            case Changed():
                self._state.waiting.look_again(workload.key)
                return None
        workload.unadvise()
        # The same words are the same object: most often nothing is new for those who have been told.
        reason = workload.telling.reason if found.reason == workload.telling.reason else found.reason
        # What lacks room with quota of its own says nothing of others.
        scope = f"{found.scope}/{workload.key}" if self._state.quotas.has_own(workload.key) else found.scope
        self._shortfalls.put(found.lack, shape, reason, scope, found.rests_on, found.waits_for)
        return reason

    def _instead(self, workload: Workload, shape: Shape, why: Reason, line: Line, now: float) -> Steps[Reason | None]:
        """It cannot be admitted: others give way to it, or nodes are asked for, or what else is to be said. None if its
        turn is yet to come."""
        if (pending := self._elastic.pending(workload, shape)) is not None:
            return pending
        instead = yield from self._preempting.instead(workload, shape, why, line, now)
        if instead is None:
            return None
        said = self._elastic.instead(workload, shape, instead, now)
        if workload.key in self._state.quotas.whole:
            self._queued.quota_taken(workload, self._shortfalls)
        return said

    def blame(self, workload: Workload, error: PolicyError, now: float) -> None:
        """A policy failed: that costs the workload its turn, and a while."""
        state = self._state
        state.waiting.looked_at(workload.key)
        state.blame(error.policy)
        reached(state, workload, Milestone.DELAYED, now, detail=str(error))
        workload.retries.fail(now, state.limits.retry_max_s)
        self._explain(workload, Reason("PolicyFailed", str(error)), now)
        state.touch(workload)

    def tell(self, workload: Workload, why: Reason | None, cost: int, now: float) -> None:
        self.vain += cost
        if why is not None and why is not workload.telling.reason and (workload.whole or not workload.seated):
            self._explain(workload, why, now)

    def _explain(self, workload: Workload, why: Reason, now: float) -> None:
        """Why its members wait: all of them, or those beyond the quorum of a gang that runs."""
        why = worded(workload, why, self._state)
        if (workload.whole or workload.grows) and why.code != "OtherScheduler":
            workload.telling.explain_surplus(why)
            why = running(workload, self._state)
        explain(self._state, workload, why, now)


def until_created(state: State, workload: Workload, now: float) -> Reason | None:
    """Pods of jobs that were admitted are still being created: more of them would keep room for long."""
    podsets = workload.podsets
    if podsets is None or state.creation.lets(workload.key, podsets.minimum, now, state.limits.creation_s):
        return None
    return state.creation.reason


def until_gone(state: State, workload: Workload) -> Reason | None:
    """It gives way to another one, and some of it has yet to go."""
    if (preemptor := state.preemptions.leaving.get(workload.key)) is None:
        return None
    return Reason("Preempted", f"it gives way to {preemptor.mention}, and its pods have yet to go", warning=False)


def until_started(state: State, workload: Workload, demand: Demand, *, related: bool) -> Reason | None:
    """The topology spread of one that is being started counts its pods, or the other way round. What is half-released
    waits for nobody."""
    if workload.release.partial_since is not None:
        return None
    return state.starting.ahead(workload.key, demand.pods, related=related)
