"""The extender under test, with a referee that looks over its shoulder."""

from __future__ import annotations

from typing import Any

from extender.core.effects import AnswerFilter
from extender.runtime.requests import ApiCall, Response, Send
from policies.model import Pod
from tests.simulation.broken import BrokenPromiseError
from tests.simulation.model.process import Extender
from tests.simulation.model.tasks import Process
from tests.simulation.referee import Referee
from tests.simulation.sends import Sends


class CuriousExtender(Extender):
    """Is asked every filter question twice, as kube-scheduler may; and every request that it sends is judged."""

    def __init__(self, referee: Referee, *args: Any, **facts: Any) -> None:
        super().__init__(*args, **facts)
        self._referee = referee
        self._sent: dict[int, tuple[Sends, ApiCall]] = {}

    def filter(self, pod: Pod, candidates: tuple[str, ...]) -> AnswerFilter | None:
        first, second = super().filter(pod, candidates), super().filter(pod, candidates)
        if first and second and (first.passed, first.reason) != (second.passed, second.reason):
            raise BrokenPromiseError(f"asked twice about {pod.name}, filter answered {first} and then {second}")
        return first

    def _send(self, request: Send) -> Process[None]:
        sends = self._referee.sends
        self._sent[request.ticket] = sends, request.call
        if (complaint := sends.begin(request.call, self.calls, self._clock.now)) is not None:
            raise BrokenPromiseError(complaint)
        yield from super()._send(request)

    def _answered(self, ticket: int, response: Response) -> None:
        if (sent := self._sent.pop(ticket, None)) is not None:
            sends, call = sent
            sends.end(call, response, self._clock.now)
        super()._answered(ticket, response)
