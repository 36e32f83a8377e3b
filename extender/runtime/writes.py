"""How each write is carried out: what is sent again, what is settled by a look at the pod, and when to give up.

Each method is a procedure: it yields requests and pauses, is sent the answers, and returns how the write ended.
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
"""What is sent in answer to a pause means nothing."""

PATIENCE_S = 10.0
"""How long a write that is not a Binding is repeated while the API server answers; a Binding has its own deadline."""
_LONGEST_S = 120.0
"""And at most, also when it answers nobody: one write alone may be what it does not answer."""
ATTEMPT_S = 5.0
REPORT_S = 10.0
TRIAL_S = 2.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0

Simple = Nominate | Ungate | Wake | Confirm | Evict


class Patience:
    """With one write. Time in which the API server answers nobody does not count, as the plan of nobody else would get
    any further either; nor time in which this process stands still."""

    def __init__(self, now: float) -> None:
        self.left_s = PATIENCE_S
        self._latest = now + _LONGEST_S
        self._looked_at = now

    def is_over(self, now: float, heard_at: float) -> bool:
        """After an attempt in vain. ``heard_at``: when any request was answered last."""
        if heard_at >= self._looked_at:
            self.left_s -= min(now - self._looked_at, ATTEMPT_S + _LONGEST_PAUSE_S)
        self._looked_at = now
        return self.left_s <= 0 or now >= self._latest


class Writes:
    """``now`` is the clock of the deadlines, in seconds. ``jitter`` gives a factor for each pause, 0.5 to 1.

    ``retried`` is called with the kind of each write that is sent once more.
    """

    def __init__(self, now: Callable[[], float], jitter: Callable[[], float], retried: Callable[[str], None]) -> None:
        self._now = now
        self._jitter = jitter
        self._retried = retried
        self._heard_at = -inf

    def heard(self, answer: Response) -> None:
        """A request was answered so, whoever's it was."""
        if answer.status:
            self._heard_at = self._now()

    def bind(self, effect: PostBinding, still_wanted: Callable[[], bool]) -> Procedure[tuple[Outcome, str]]:
        """Bind the pod before the deadline; nothing is sent once it is no longer wanted.

        REFUSED: nothing was sent, the API server has said no, or the pod was seen unbound, gone or elsewhere. UNKNOWN:
        nothing could be seen in time, or nothing was sent and an earlier Binding may have been written.
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
        """Set or clear the nomination. Empty when done, or the pod is gone or bound; else the error."""
        plain = replace(effect, renew=False) if effect.renew else effect
        # Writing what is there already changes nothing and wakes nobody, so a renewal clears first.
        # What is ``parked`` has a label of ours with its nomination, and without it none: each of the three changes it.
        if effect.node and effect.parked and (detail := (yield from self.persist(plain, "nomination"))):
            return detail
        if effect.node and (effect.renew or effect.parked):
            cleared = replace(plain, node=None)
            if detail := (yield from self.persist(cleared, "nomination")):
                return detail
        return (yield from self.persist(plain, "nomination"))

    def job(self, effect: JobEffect | Enqueue, still_wanted: Callable[[], bool]) -> Procedure[tuple[Outcome, str]]:
        """Start, suspend or clean a job, or let it make its pods. What is written depends on the object as it is: each
        attempt looks again."""
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
        """Write down for whom room is kept, or take that off. Empty when done, else the error: also if the workload is
        gone."""
        return (yield from self._until_done(effect, "reservation"))

    def deallocate(self, effect: Deallocate) -> Procedure[str]:
        """Take the allocation off a claim. Empty when done, or there is none; else the error: also if the claim was
        reserved meanwhile."""
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

    def tell(self, effect: Report | Hint) -> Procedure[str]:
        """Report a gang's reason, or a hint, once. Empty when done, else the error."""
        answer = yield Request(effect, REPORT_S)
        return "" if answer.done else answer.detail or "no answer"

    def try_pod(self, effect: TryPod) -> Procedure[PodTried]:
        """Create a pod by a dry run, once. 412: that is not possible here; 429: it is refused for now."""
        answer = yield Request(effect, TRIAL_S)
        verdicts = {412: Verdict.UNAVAILABLE, 429: Verdict.NOT_NOW}
        verdict = Verdict.PASSED if answer.done else verdicts.get(answer.status, Verdict.REFUSED)
        if answer.outage or answer.status == 404:
            verdict = Verdict.UNANSWERED
        return PodTried(effect.job.key, effect.shape, verdict, answer.pod, answer.detail)

    def _settle(self, effect: PostBinding, failed: Response) -> Procedure[tuple[Outcome, str] | None]:
        """What a failed Binding has left behind, from the pod itself. None: it is unbound, so try again."""
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
            # A conflict on an unbound pod is final: it is being deleted, or has scheduling gates.
            return (Outcome.REFUSED, failed.detail) if failed.status == 409 else None
        return Outcome.UNKNOWN, failed.detail

    def persist(self, effect: Simple, kind: str) -> Procedure[str]:
        """Repeat the write while it may go better; empty when it is done, or pointless for the pod as it is now.

        An eviction is not repeated in an outage: nobody is evicted then.
        """
        patience = Patience(self._now())
        for attempt in count():
            answer = yield Request(effect, ATTEMPT_S)
            if answer.done:
                return ""
            # Somebody on the way may say 404 who has lost the API server: the gang would wait for what is not written.
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
        """After an attempt in vain: it was refused for good, or has been tried for long enough."""
        return not (answer.passing or answer.status in again) or patience.is_over(self._now(), self._heard_at)

    def _is_pointless(self, effect: Simple) -> Procedure[bool]:
        """What is about a bound pod, if it is gone; what leads a pod to a node, also if it has one."""
        seen = yield Request(LookAtPod(effect.uid, effect.namespace, effect.name), ATTEMPT_S)
        return seen.done and (seen.node is None if isinstance(effect, Evict | Confirm) else seen.node != "")

    def _pause(self, answer: Response, attempt: int, deadline: float) -> Pause:
        pause_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(attempt, 10)) * self._jitter()
        return Pause(max(0.0, min(max(pause_s, answer.retry_after_s), deadline - self._now())))
