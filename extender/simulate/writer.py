"""Carries out the core's writes as the extender's own writer does: the same attempts, the same conclusions."""

from __future__ import annotations

from collections.abc import Callable

from extender.core.effects import Evict, Nominate, PostBinding, Ungate, Wake
from extender.core.events import Outcome
from extender.simulate.apiserver import CONFLICT, INVALID, NOT_FOUND, OK, ApiServer
from extender.simulate.clock import Process
from extender.simulate.network import NO_ANSWER, Network

PATIENCE_S = 10.0
ATTEMPT_S = 5.0
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0
_FAILED = "the API server said {}"


class Writer:
    """Each method is a process; its result is what the extender's ``KubeWriter`` would have returned."""

    def __init__(self, api: ApiServer, network: Network) -> None:
        self._api = api
        self._network = network
        self._clock = network.clock

    def bind(self, effect: PostBinding, still_wanted: Callable[[], bool]) -> Process[tuple[Outcome, str]]:
        """Post a Binding before its deadline, and settle what is in doubt by looking at the pod."""
        name = (effect.namespace, effect.name)
        last = "there was no time left to post the Binding"
        attempt = 0
        while True:
            left = effect.deadline - self._clock.now
            if not still_wanted():
                return Outcome.REFUSED, "kube-scheduler no longer waits for this Binding"
            if left <= 0:
                return Outcome.REFUSED, last
            status = yield from self._network.request(
                lambda: self._api.bind(effect.uid, name, effect.node, effect.annotations), min(ATTEMPT_S, left)
            )
            if status == OK:
                return Outcome.DONE, ""
            last = _FAILED.format(status)
            if status != 429:
                outcome = yield from self._settle(effect, status)
                if outcome is not None:
                    return outcome
            yield self._pause(attempt, effect.deadline)
            attempt += 1

    def nominate(self, effect: Nominate) -> Process[str]:
        """An error, or nothing. A renewal clears first, or nobody would hear of it."""
        name = (effect.namespace, effect.name)
        if effect.renew and effect.node:
            detail = yield from self._persist(effect, lambda: self._api.nominate(effect.uid, name, None), _bound)
            if detail:
                return detail
        return (yield from self._persist(effect, lambda: self._api.nominate(effect.uid, name, effect.node), _bound))

    def ungate(self, effect: Ungate) -> Process[str]:
        name = (effect.namespace, effect.name)
        return (yield from self._persist(effect, lambda: self._api.ungate(effect.uid, name, effect.pin), _bound))

    def wake(self, effect: Wake) -> Process[str]:
        return (yield from self._persist(effect, lambda: self._api.touch_pod(effect.uid), _bound))

    def evict(self, effect: Evict) -> Process[str]:
        return (yield from self._persist(effect, lambda: self._api.delete_pod(effect.uid), _gone))

    def _settle(self, effect: PostBinding, status: int) -> Process[tuple[Outcome, str] | None]:
        """What a failed Binding has left behind. None: the pod is unbound, so try again."""
        if not _passing(status) and status != CONFLICT:
            return Outcome.REFUSED, _FAILED.format(status)
        attempt = 0
        while (left := effect.deadline - self._clock.now) > 0:
            node: str | None = ""

            def look() -> int:
                nonlocal node
                node = self._api.node_of(effect.uid, (effect.namespace, effect.name))
                return OK

            answer = yield from self._network.request(look, min(ATTEMPT_S, left))
            if answer != OK:
                yield self._pause(attempt, effect.deadline)
                attempt += 1
                continue
            if node == effect.node:
                return Outcome.DONE, ""
            if node != "":
                return Outcome.REFUSED, "the pod is gone" if node is None else f"the pod is already on {node}"
            return (Outcome.REFUSED, _FAILED.format(status)) if status == CONFLICT else None
        return Outcome.UNKNOWN, _FAILED.format(status)

    def _persist(
        self, pod: Nominate | Ungate | Wake | Evict, write: Callable[[], int], pointless: Callable[[str | None], bool]
    ) -> Process[str]:
        """Repeat the write while it may go better; empty when it is done, or pointless for the pod's present node."""
        deadline = self._clock.now + PATIENCE_S
        attempt = 0
        while True:
            status = yield from self._network.request(write, ATTEMPT_S)
            if status in (OK, NOT_FOUND):
                return ""
            if status in (CONFLICT, INVALID) and pointless(self._api.node_of(pod.uid, (pod.namespace, pod.name))):
                return ""
            if not (_passing(status) or status == CONFLICT) or self._clock.now >= deadline:
                return _FAILED.format(status)
            yield self._pause(attempt, deadline)
            attempt += 1

    def _pause(self, attempt: int, deadline: float) -> float:
        pause_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(attempt, 10))
        return max(0.0, min(pause_s, deadline - self._clock.now))


def _bound(node: str | None) -> bool:
    """It has a node, or is gone: nothing about where it goes matters any more."""
    return node != ""


def _gone(node: str | None) -> bool:
    return node is None


def _passing(status: int) -> bool:
    """It may go better next time."""
    return status == NO_ANSWER or status == 429 or status >= 500
