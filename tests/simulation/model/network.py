"""The network between two processes: how long a message takes, and how requests to the API server end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from extender.simulation.clock import Clock
from tests.simulation.model.tasks import Process

NO_ANSWER = 0
"""The status of a request without an answer: it may or may not have been carried out."""


@dataclass(frozen=True, slots=True)
class Weather:
    """``hop_s``: a message's mean way; ``lag_s``: a watch event's. ``spikes``: the share of them that takes 100 times.

    ``errors``: the share of requests that the API server turns down with 500 or 429. ``losses``: the share whose answer
    is lost, although they were carried out. ``repeats``: the share of watch events that come twice.
    """

    hop_s: float = 0.001
    lag_s: float = 0.003
    spikes: float = 0.0
    errors: float = 0.0
    losses: float = 0.0
    repeats: float = 0.0


class Network:
    """The network of the whole cluster. ``weather`` may be changed at any time.

    ``api_down``: every request fails.
    ``queue_s``: how long a request waits in the API server before it is carried out.
    ``hanging``: how many of the extender's next requests hang.
    ``unread``: no job can be read.
    ``refuses``: the status with which the extender's writes are refused, 0 if they are not.
    """

    def __init__(self, clock: Clock, random: Random, weather: Weather | None = None) -> None:
        self.clock = clock
        self.weather = weather or Weather()
        self.api_down = False
        self.queue_s = 0.0
        self.hanging = 0
        self.unread = False
        self.refuses = 0
        self._random = random

    def hop(self) -> float:
        """Seconds that a message takes in one direction."""
        return self._spread(self.weather.hop_s)

    def lag(self) -> float:
        """Seconds from a change in the API server to the watch event."""
        return self._spread(self.weather.lag_s)

    def repeats(self) -> bool:
        return bool(self.weather.repeats) and self._random.random() < self.weather.repeats

    def unless_refused(self, write: Callable[[], int]) -> Callable[[], int]:
        """Wrap a write of the extender: when it arrives it may be refused."""
        return lambda: self.refuses or write()

    def request(self, write: Callable[[], int], timeout_s: float) -> Process[int]:
        """Carry ``write`` out at the API server; ends with the HTTP status, or NO_ANSWER.

        A request that is on its way lands even if its sender is killed meanwhile.
        """
        there_s, weather = self.hop() + self.queue_s, self.weather
        if self.api_down or (weather.errors and self._random.random() < weather.errors):
            yield 2 * there_s
            return self._random.choice((429, 500, 503, NO_ANSWER))
        status = NO_ANSWER

        def land() -> None:
            nonlocal status
            status = write()

        self.clock.after(there_s, land)
        if weather.losses and self._random.random() < weather.losses:
            # Either the connection breaks at once, or nothing more is heard from it.
            yield min(timeout_s, 2 * there_s if self._random.random() < 0.5 else timeout_s)
            return NO_ANSWER
        took_s = there_s + self.hop()
        yield min(took_s, timeout_s)
        return status if took_s <= timeout_s else NO_ANSWER

    def hung(self, write: Callable[[], int], timeout_s: float) -> Process[int]:
        """Send a request that gets no answer before its timeout.

        The API server carries it out at once, some time later, or never.
        """
        self.hanging -= 1
        lands_s = self._random.choice((self.hop(), timeout_s * self._random.random(), None))
        if lands_s is not None and lands_s < timeout_s:
            self.clock.after(lands_s, write)
        yield timeout_s
        return NO_ANSWER

    def _spread(self, mean_s: float) -> float:
        random = self._random.random
        spike = self.weather.spikes and random() < self.weather.spikes
        return mean_s * (0.5 + random()) * (100 if spike else 1)
