"""How each write is carried out: when it is repeated, when a look at the pod decides, and when to give up.

Each method is a procedure: it yields requests and pauses, receives the answers, and returns how the write ended.
Nothing here sends or sleeps, so the same procedures run on an event loop and under the simulator's clock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from dataclasses import replace
from itertools import count
from math import inf
from typing import TypeVar

from extender.core.answers import Outcome, PodTried, Verdict
from extender.core.effects import (
    Confirm,
    Deallocate,
    Enqueue,
    Evict,
    Hint,
    JobEffect,
    Nominate,
    PostBinding,
    Report,
    Reserve,
    TryPod,
    Ungate,
    Wake,
)
from extender.runtime.requests import LookAtPod, Pause, Request, Response

EndingT = TypeVar("EndingT")
Procedure = Generator[Request | Pause, Response, EndingT]
"""A write in steps. The answer to a pause has no meaning."""

PATIENCE_S = 10.0
"""Seconds for which a write is repeated while the API server answers; a Binding has its own deadline."""
_LONGEST_S = 120.0
"""Most seconds for which a write is repeated without answers, since it may be the only one that gets none."""
ATTEMPT_S = 5.0
REPORT_S = 10.0
TRIAL_S = 2.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0

Simple = Nominate | Ungate | Wake | Confirm | Evict


class Patience:
    """The time left for repeating one write.

    Time without any answer of the API server does not count, since no other plan would get further either. Time in
    which this process stands still does not count either.
    """

    def __init__(self, now: float) -> None:
        self.left_s = PATIENCE_S
        self._latest = now + _LONGEST_S
        self._looked_at = now

    def is_over(self, now: float, heard_at: float) -> bool:
        """Whether to give up after a failed attempt. ``heard_at``: when any request was last answered."""
        if heard_at >= self._looked_at:
            self.left_s -= min(now - self._looked_at, ATTEMPT_S + _LONGEST_PAUSE_S)
        self._looked_at = now
        return self.left_s <= 0 or now >= self._latest


class Writes:
    """The procedures of all writes.

    ``now``: the clock of the deadlines, in seconds.
    ``jitter``: a factor from 0.5 to 1 for each pause.
    ``retried``: called with the kind of each write that is repeated.
    """

    def __init__(self, now: Callable[[], float], jitter: Callable[[], float], retried: Callable[[str], None]) -> None:
        self._now = now
        self._jitter = jitter
        self._retried = retried
        self._heard_at = -inf

    def heard(self, answer: Response) -> None:
        """Record that any request was answered."""
        if answer.status:
            self._heard_at = self._now()

    def bind(self, effect: PostBinding, still_wanted: Callable[[], bool]) -> Procedure[tuple[Outcome, str]]:
        """Bind the pod before the deadline; nothing is sent once the call no longer waits.

        REFUSED: nothing was sent, the API server refused, or the pod was seen unbound, gone or on another node.
        UNKNOWN: the pod could not be read in time, or nothing was sent and an earlier Binding may have been written.
        """
        last = "there was no time left to post the Binding"
        for attempt in count():
            left = effect.deadline - self._now()
            unsent = Outcome.UNKNOWN if effect.again and not attempt else Outcome.REFUSED
            if not still_wanted():
                return unsent, "kube-scheduler no longer waits for this Binding"
            if left <= 0:
                return unsent, last
            answer = yield Request(effect, min(ATTEMPT_S, left))
            if answer.done:
                return Outcome.DONE, ""
            last = answer.detail
            if answer.status != 429 and (outcome := (yield from self._settle(effect, answer))) is not None:
                return outcome
            self._retried("binding")
            yield self._pause(answer, attempt, effect.deadline)
        raise AssertionError

    def nominate(self, effect: Nominate) -> Procedure[str]:
        """Set or clear the nomination. Returns empty when done, or if the pod is gone or bound; else the error."""
        plain = replace(effect, renew=False) if effect.renew else effect
        # Writing the present value changes nothing and wakes no pod, so a renewal clears it first.
        if effect.node and effect.parked and (detail := (yield from self.persist(plain, "nomination"))):
            return detail
        if effect.node and (effect.renew or effect.parked):
            cleared = replace(plain, node=None)
            if detail := (yield from self.persist(cleared, "nomination")):
                return detail
        return (yield from self.persist(plain, "nomination"))

    def job(self, effect: JobEffect | Enqueue, still_wanted: Callable[[], bool]) -> Procedure[tuple[Outcome, str]]:
        """Start, suspend or clean a job, or enqueue its PodGroup. Each attempt reads the object again, since the write
        depends on it."""
        patience = Patience(self._now())
        doubtful = False
        for attempt in count():
            if not still_wanted():
                return Outcome.UNKNOWN, "another write to the job is to follow"
            answer = yield Request(effect, ATTEMPT_S)
            if answer.done:
                return Outcome.DONE, ""
            doubtful |= answer.outage and not answer.unsent
            if self._gives_up(answer, patience):
                unwritten = Outcome.UNSENT if answer.unsent and answer.passing else Outcome.REFUSED
                return Outcome.UNKNOWN if doubtful else unwritten, answer.detail
            self._retried("enqueue" if isinstance(effect, Enqueue) else "job")
            yield self._pause(answer, attempt, self._now() + patience.left_s)
        raise AssertionError

    def reserve(self, effect: Reserve) -> Procedure[str]:
        """Write or remove a reservation. Returns empty when done, else the error, also if the workload is gone."""
        return (yield from self._until_done(effect, "reservation"))

    def deallocate(self, effect: Deallocate) -> Procedure[str]:
        """Clear the allocation of a claim. Returns empty when done, or if there is none; else the error.

        A claim that was reserved meanwhile is an error, too.
        """
        return (yield from self._until_done(effect, "deallocation"))

    def _until_done(self, effect: Reserve | Deallocate, kind: str) -> Procedure[str]:
        patience = Patience(self._now())
        for attempt in count():
            answer = yield Request(effect, ATTEMPT_S)
            if answer.done:
                return ""
            if self._gives_up(answer, patience):
                return answer.detail or "no answer"
            self._retried(kind)
            yield self._pause(answer, attempt, self._now() + patience.left_s)
        raise AssertionError

    def report(self, effect: Report | Hint) -> Procedure[str]:
        """Write a gang's reason, or a hint, once. Returns empty when done, else the error."""
        answer = yield Request(effect, REPORT_S)
        return "" if answer.done else answer.detail or "no answer"

    def try_pod(self, effect: TryPod) -> Procedure[PodTried]:
        """Create a pod by a dry run, once. 412: not possible in this cluster; 429: refused for now."""
        answer = yield Request(effect, TRIAL_S)
        verdicts = {412: Verdict.UNAVAILABLE, 429: Verdict.NOT_NOW}
        verdict = Verdict.PASSED if answer.done else verdicts.get(answer.status, Verdict.REFUSED)
        if answer.outage or answer.status == 404:
            verdict = Verdict.UNANSWERED
        return PodTried(effect.job.key, effect.shape, verdict, answer.pod, answer.detail)

    def _settle(self, effect: PostBinding, failed: Response) -> Procedure[tuple[Outcome, str] | None]:
        """Read from the pod what a failed Binding has left behind. None: the pod is unbound, so try again."""
        if not failed.passing and failed.status != 409:
            return Outcome.REFUSED, failed.detail
        for attempt in count():
            left = effect.deadline - self._now()
            if left <= 0:
                break
            seen = yield Request(LookAtPod(effect.uid, effect.namespace, effect.name), min(ATTEMPT_S, left))
            if not seen.done:
                if not seen.passing:
                    break
                yield self._pause(seen, attempt, effect.deadline)
                continue
            if seen.node == effect.node:
                return Outcome.DONE, ""
            if seen.node != "":
                gone = seen.node is None
                return Outcome.REFUSED, "the pod is gone" if gone else f"the pod is already on {seen.node}"
            # A conflict about an unbound pod is final: the pod is being deleted, or has scheduling gates.
            return (Outcome.REFUSED, failed.detail) if failed.status == 409 else None
        return Outcome.UNKNOWN, failed.detail

    def persist(self, effect: Simple, kind: str) -> Procedure[str]:
        """Repeat the write while it may succeed. Returns empty when done, or if it is pointless now; else the error.

        An eviction is not repeated in an outage, in which nothing is evicted.
        """
        patience = Patience(self._now())
        for attempt in count():
            answer = yield Request(effect, ATTEMPT_S)
            if answer.done:
                return ""
            # A proxy that has lost the API server may answer 404. Without this look, the gang would wait for a lost
            # write.
            if answer.status in (404, 409, 422) and (yield from self._is_pointless(effect)):
                return ""
            if self._gives_up(answer, patience, again=(404, 409)):
                return answer.detail
            if answer.outage and isinstance(effect, Evict):
                return answer.detail
            self._retried(kind)
            yield self._pause(answer, attempt, self._now() + patience.left_s)
        raise AssertionError

    def _gives_up(self, answer: Response, patience: Patience, again: Collection[int] = (409,)) -> bool:
        """Whether to stop after a failed attempt: refused finally, or tried for long enough."""
        return not (answer.passing or answer.status in again) or patience.is_over(self._now(), self._heard_at)

    def _is_pointless(self, effect: Simple) -> Procedure[bool]:
        """Whether the write has no use any more.

        A write about a bound pod is pointless if the pod is gone; one that steers a pod to a node, also if the pod has
        one.
        """
        seen = yield Request(LookAtPod(effect.uid, effect.namespace, effect.name), ATTEMPT_S)
        return seen.done and (seen.node is None if isinstance(effect, Evict | Confirm) else seen.node != "")

    def _pause(self, answer: Response, attempt: int, deadline: float) -> Pause:
        pause_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(attempt, 10)) * self._jitter()
        return Pause(max(0.0, min(max(pause_s, answer.retry_after_s), deadline - self._now())))
