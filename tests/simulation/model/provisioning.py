"""ProvisioningRequests: a leader requests nodes, and an autoscaler orders all nodes of a request, or fails it.

The outcome of the order is drawn apart from that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from extender.core.jobs.elastic import CapacityAsk
from extender.simulation.clock import Clock
from policies.model import InVain, Pod
from tests.simulation.model.apiserver import ApiServer
from tests.simulation.model.autoscaler import Autoscaler
from tests.simulation.model.process import Extender

_DECIDED_S = 2.0
_GRACE = 30
"""The rounds after which a request of an earlier life is deleted, if no workload asks for it."""


@dataclass(slots=True)
class _Request:
    """A request.

    ``granted``: None while it is undecided.
    ``told``: the life of the extender that knows the outcome.
    """

    granted: bool | None = None
    told: Extender | None = None
    unasked: int = 0
    ours: bool = True


class Provisioning:
    """``look`` is called round by round while the kind is ``served``."""

    def __init__(self, api: ApiServer, clock: Clock, autoscaler: Autoscaler) -> None:
        self.served = True
        self._api = api
        self._clock = clock
        self._autoscaler = autoscaler
        self._requests: dict[CapacityAsk, _Request] = {}
        self._leader: Extender | None = None

    def serve(self, *, served: bool) -> None:
        """The kind is installed, or taken out of the cluster with all objects of it."""
        self.served = served
        for ask in list(self._requests) if not served else ():
            del self._requests[ask]
            self._autoscaler.booked.pop(ask, None)

    def look(self, leader: Extender) -> None:
        if leader is not self._leader:
            self._leader = leader
            for known_request in self._requests.values():
                known_request.ours = False
        asks = leader.core.capacity_asks()
        for ask in [known_ask for known_ask in self._requests if known_ask not in asks]:
            known, rest = self._requests[ask], leader.core.capacity_rest(ask.key)
            known.unasked += 1
            if known.ours and rest is not None:
                self._note(ask, rest)
            if known.ours or known.unasked > _GRACE:
                del self._requests[ask]
                self._autoscaler.booked.pop(ask, None)
        for ask in asks:
            if (request := self._requests.get(ask)) is None:
                self._requests[ask] = _Request()
                self._clock.after(_DECIDED_S, partial(self._decide, ask))
            else:
                self._follow(leader, ask, request)

    def _note(self, ask: CapacityAsk, rest: InVain) -> None:
        """The job says how long it rests."""
        job = self._api.jobs.get(ask.key)
        if job is not None and job.uid == ask.job.uid:
            self._api.set_job(replace(job, in_vain=rest))

    def _follow(self, leader: Extender, ask: CapacityAsk, request: _Request) -> None:
        request.ours, request.unasked = True, 0
        if request.granted is not None and request.told is not leader:
            request.told = leader
            leader.tell_what_has_become_of(ask, granted=request.granted)

    def _decide(self, ask: CapacityAsk) -> None:
        if (request := self._requests.get(ask)) is not None:
            pods = list(self._pods(ask))
            request.granted = bool(pods) and self._autoscaler.provide(ask, pods)

    def _pods(self, ask: CapacityAsk) -> Iterator[Pod]:
        """The pods that the templates in the request describe."""
        job = self._api.jobs.get(ask.key)
        podsets = {podset.name: podset for podset in job.podsets} if job is not None and job.uid == ask.job.uid else {}
        for requested in ask.pods:
            if (podset := podsets.get(requested.podset)) is not None:
                own = podset.template.selection
                selector = tuple((dict(own.node_selector) | dict(requested.labels)).items())
                selection = replace(own, node_selector=selector, tolerations=(*own.tolerations, *requested.tolerations))
                for at in range(requested.count):
                    yield replace(podset.template, uid=f"{ask.key}-{requested.podset}-{at}", selection=selection)
