"""The driver's requests to the API server, one at a time, and their answers."""

from __future__ import annotations

from dataclasses import dataclass

from extender.core.effects import Write
from policies.model import Pod


@dataclass(frozen=True, slots=True)
class LookAtPod:
    """GET the pod; the answer has its node."""

    uid: str
    namespace: str
    name: str


ApiCall = Write | LookAtPod
"""A write is one attempt of the effect that asks for it. ``Nominate.renew`` is split into two writes before."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request, to be answered within ``timeout_s`` seconds."""

    call: ApiCall
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Send:
    """Send this request, and give the answer to ``Driver.answered`` with the ticket."""

    ticket: int
    call: ApiCall
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Pause:
    """Continue after that many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Failed:
    """A failed write for which the core does not wait: a line for the log."""

    kind: str
    detail: str


class Ended:
    """The outcome of a request: its HTTP ``status``; 0 without an answer."""

    __slots__ = ()
    status: int

    @property
    def outage(self) -> bool:
        """Whether there was no answer, only that of a proxy, or an internal error of the API server."""
        return self.status == 0 or self.status >= 500

    @property
    def passing(self) -> bool:
        """Whether a later attempt may succeed: overload, or an outage."""
        return self.outage or self.status == 429


@dataclass(frozen=True, slots=True)
class Response(Ended):
    """The answer to a request. ``status``: HTTP's; 0 without an answer, so that it may or may not have been carried
    out.

    ``node``: of a pod that was read: empty while it has none, None if the pod is gone or has another UID.
    ``unsent``: the request ended before the part that changes something was sent.
    ``pod``: the pod that a dry run would have created.
    """

    status: int
    detail: str = ""
    retry_after_s: float = 0.0
    node: str | None = ""
    unsent: bool = False
    pod: Pod | None = None

    @property
    def done(self) -> bool:
        return 200 <= self.status < 300


OK = Response(200)
UNFORESEEN = 500
"""The status of a write that ended by an error in Muster itself. It is repeated with pauses, as in an outage."""
