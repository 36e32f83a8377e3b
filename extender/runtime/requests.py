"""What the driver asks of the API server, one request at a time, and what it is answered."""

from __future__ import annotations

from dataclasses import dataclass

from extender.core.effects import Write
from policies.model import Pod


@dataclass(frozen=True, slots=True)
class LookAtPod:
    """GET the pod: the answer says which node it has."""

    uid: str
    namespace: str
    name: str


Asked = Write | LookAtPod
"""A write is asked for by the effect that calls for it: one attempt of it. ``Nominate.renew`` is split before."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request, to be answered within ``timeout_s`` seconds."""

    asked: Asked
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Send:
    """Send this request, and give the answer to ``Driver.answered`` with the ticket."""

    ticket: int
    asked: Asked
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Pause:
    """Go on after so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Failed:
    """A write that the core does not wait for could not be carried out: a line for the log."""

    kind: str
    detail: str


class Ended:
    """How a request went, as its ``status`` tells: that of HTTP, 0 when nobody answered."""

    __slots__ = ()
    status: int

    @property
    def outage(self) -> bool:
        """Nobody has answered, or only somebody on the way, or the API server is not itself."""
        return self.status == 0 or self.status >= 500

    @property
    def passing(self) -> bool:
        """It may go better a moment later: overload, or an outage."""
        return self.outage or self.status == 429


@dataclass(frozen=True, slots=True)
class Response(Ended):
    """How a request ended. ``status`` is HTTP's; 0 when nobody answered: it may or may not have been carried out.

    ``node``, of a pod that was looked at: empty while it has none, None when it is gone or another one has its name.
    ``unsent``: it ended before anything was asked for that changes something. ``pod``: what a dry run would have made.
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
"""The status of a write that an error in Muster itself has ended: it is repeated with pauses, as in an outage."""
