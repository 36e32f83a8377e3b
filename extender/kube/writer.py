"""Carries out the core's writes: retries what may go better, settles what is in doubt, and says how each one ended."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from typing import Any

from extender.core.effects import Evict, Nominate, PostBinding, Report, Ungate, Wake
from extender.core.events import Outcome
from extender.kube.client import Kube
from extender.kube.connection import ApiError
from extender.kube.reports import Reporter, instant

PATIENCE_S = 10.0
"""How long a write that is not a Binding is repeated; a Binding has its own deadline."""
ATTEMPT_S = 5.0
_RECOVERY_S = 20.0
"""How long after an outage nobody is evicted: kube-scheduler's longest backoff (10 s as shipped), twice."""
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0
_KINDS: dict[type[object], str] = {Nominate: "nomination", Ungate: "ungate", Wake: "wake", Evict: "eviction"}


class KubeWriter:
    """The runner's Writer. ``clock`` is the one that deadlines are on; ``pause`` sleeps that many seconds.

    ``retried`` is called with the kind of each write that is sent once more.
    """

    def __init__(
        self,
        kube: Kube,
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        retried: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._kube = kube
        self._clock = clock
        self._pause = pause
        self._retried = retried
        self._reporter = Reporter(kube)

    async def write_binding(self, effect: PostBinding, still_wanted: Callable[[], bool]) -> tuple[Outcome, str]:
        """Bind the pod before the deadline; nothing is sent once it is no longer wanted.

        REFUSED means that the pod was seen unbound, gone or elsewhere; UNKNOWN that nothing could be seen in time.
        """
        last = "there was no time left to post the Binding"
        for attempt in count():
            left = effect.deadline - self._clock()
            if not still_wanted():
                return Outcome.REFUSED, "kube-scheduler no longer waits for this Binding"
            if left <= 0:
                return Outcome.REFUSED, last
            try:
                await self._kube.post_binding(effect, timeout_s=min(ATTEMPT_S, left))
            except ApiError as error:
                last = str(error)
                if error.status != 429 and (outcome := await self._settle(effect, error)) is not None:
                    return outcome
                self._retried("binding")
                await self._wait(error, attempt, effect.deadline)
            else:
                return Outcome.DONE, ""
        raise AssertionError

    async def write_nomination(self, effect: Nominate) -> str | None:
        """Set or clear ``status.nominatedNodeName``. None when done, or the pod is gone or bound; else the error."""
        # Writing what is there already changes nothing and wakes nobody, so a renewal clears first.
        for node in (None, effect.node) if effect.renew and effect.node else (effect.node,):
            detail = await self._patch_status(effect, {"nominatedNodeName": node})
            if detail is not None:
                return detail
        return None

    async def write_ungate(self, effect: Ungate) -> str | None:
        """Take our scheduling gate off, and pin the pod if asked. None when done or the pod is gone; else the error."""
        return await self._persist(
            effect,
            lambda: self._kube.ungate(effect.namespace, effect.name, effect.uid, effect.pin),
            pointless=lambda node: node != "",
        )

    async def write_wake(self, effect: Wake) -> str | None:
        """Change a condition that nobody reads. None when done or pointless, else the error."""
        condition = {
            "type": "muster.dev/Woken",
            "status": "True",
            "lastTransitionTime": instant("seconds"),
            "reason": "RoomMayHaveChanged",
            # Instants of conditions are in whole seconds; two wakes in one second must differ all the same.
            "message": f"Woken at {instant('microseconds')}.",
        }
        return await self._patch_status(effect, {"conditions": [condition]})

    async def write_eviction(self, effect: Evict) -> str | None:
        """Evict the pod, with the grace period it asks for, and say why. None when done or gone, else the error.

        Not through an outage, nor right after it: while the API server was away nobody could complete the gang.
        """
        if self._kube.was_away(_RECOVERY_S):
            return "the API server was away a moment ago, and the gang may become whole yet"
        detail = await self._persist(
            effect,
            lambda: self._kube.evict(effect.namespace, effect.name, effect.uid),
            pointless=lambda node: node is None,
            through_outages=False,
        )
        if detail is None:
            # What is done is done, whether or not somebody can be told.
            with suppress(ApiError):
                await self._reporter.tell_evicted(effect)
        return detail

    async def write_report(self, effect: Report) -> str | None:
        """Tell a gang's reason where people look. None when done, else the error."""
        try:
            await self._reporter.tell(effect)
        except ApiError as error:
            return str(error)
        return None

    async def _settle(self, effect: PostBinding, error: ApiError) -> tuple[Outcome, str] | None:
        """What a failed Binding has left behind, from the pod itself. None: it is unbound, so try again."""
        if not error.passing and error.status != 409:
            return Outcome.REFUSED, str(error)
        for attempt in count():
            left = effect.deadline - self._clock()
            if left <= 0:
                break
            try:
                node = await self._kube.get_pod_node(
                    effect.namespace, effect.name, effect.uid, timeout_s=min(ATTEMPT_S, left)
                )
            except ApiError as unseen:
                if not unseen.passing:
                    break
                await self._wait(unseen, attempt, effect.deadline)
                continue
            if node == effect.node:
                return Outcome.DONE, ""
            if node != "":
                return Outcome.REFUSED, "the pod is gone" if node is None else f"the pod is already on {node}"
            # A conflict on an unbound pod is final: it is being deleted, or has scheduling gates.
            return (Outcome.REFUSED, str(error)) if error.status == 409 else None
        return Outcome.UNKNOWN, str(error)

    async def _patch_status(self, effect: Nominate | Wake, status: dict[str, Any]) -> str | None:
        return await self._persist(
            effect,
            lambda: self._kube.patch_status(effect.namespace, effect.name, effect.uid, status),
            pointless=lambda node: node != "",
        )

    async def _persist(
        self,
        pod: Nominate | Ungate | Wake | Evict,
        write: Callable[[], Awaitable[None]],
        *,
        pointless: Callable[[str | None], bool],
        through_outages: bool = True,
    ) -> str | None:
        """Repeat the write while it may go better; None when it is done, or pointless for the pod's present node."""
        deadline = self._clock() + PATIENCE_S
        for attempt in count():
            try:
                await write()
            except ApiError as error:
                if error.status == 404:
                    return None
                if error.status in (409, 422) and await self._is(pod, pointless):
                    return None
                if not (error.passing or error.status == 409) or self._clock() >= deadline:
                    return str(error)
                if error.outage and not through_outages:
                    return str(error)
                self._retried(_KINDS[type(pod)])
                await self._wait(error, attempt, deadline)
            else:
                return None
        raise AssertionError

    async def _is(self, pod: Nominate | Ungate | Wake | Evict, pointless: Callable[[str | None], bool]) -> bool:
        try:
            return pointless(await self._kube.get_pod_node(pod.namespace, pod.name, pod.uid))
        except ApiError:
            return False

    async def _wait(self, error: ApiError, attempt: int, deadline: float) -> None:
        pause = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** min(attempt, 10)) * random.uniform(0.5, 1.0)  # noqa: S311
        pause = max(pause, error.retry_after_s or 0.0)
        await self._pause(max(0.0, min(pause, deadline - self._clock())))
