"""kube-scheduler 1.36, in one life: scheduling cycles one after the other, binding cycles beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from random import Random

from extender.simulation.clock import Timer
from policies.model import Pod
from tests.simulation.model.apiserver import NOT_FOUND, OK, ApiServer
from tests.simulation.model.backlog import Backlog, DevicesChanged, Place, PodWent, Queued, StorageChanged
from tests.simulation.model.cache import Bars, Cache, no_bars
from tests.simulation.model.cycle import BindRequest, Chosen, Cycle, Failed, Profile, Refused, Verbs
from tests.simulation.model.devices import as_shown
from tests.simulation.model.dra import DynamicResources
from tests.simulation.model.network import Network
from tests.simulation.model.observed import ObservedCluster
from tests.simulation.model.preemption import Victims, candidates, cheapest
from tests.simulation.model.storage import VolumeBinding
from tests.simulation.model.tasks import Lane, Process, Task

REQUEST_S = 5.0
"""How long a request to the API server may take."""
_REPEATED_S = 0.31
"""How long a refused write is repeated before it counts as failed."""
_WRITES_AT_ONCE = 1000


class Nomination(Enum):
    """The effect of a failed cycle on the pod's nomination, unless the cycle sets one."""

    KEEP = "keep"
    CLEAR = "clear"


@dataclass(slots=True)
class _Open:
    """A binding cycle that waits for its answer, and the end of its patience."""

    queued: Queued
    timer: Timer


class KubeScheduler:
    """A life of kube-scheduler, which begins with a list of everything.

    ``find``: returns the extender that listens now; None: there is no extender.
    """

    def __init__(
        self,
        api: ApiServer,
        network: Network,
        random: Random,
        profile: Profile,
        find: Callable[[], Verbs | None] | None = None,
        bars: Bars = no_bars,
    ) -> None:
        self.cycles = 0
        self.binds: dict[BindRequest, _Open] = {}
        self._api = api
        self._network = network
        self._clock = network.clock
        self._profile = profile
        self._find = find
        self._cache = Cache(bars)
        self._storage = VolumeBinding(api, network, self._storage_changed, REQUEST_S)
        self._dra = DynamicResources(api, network, self._devices_changed, REQUEST_S)
        self._backlog = Backlog(lambda: self._clock.now, self._dra.admits, longest_s=profile.longest_backoff_s)
        self._cycle = Cycle(network, random, profile, self._cache, self._storage, self._dra, find)
        self._writes = Lane(self._clock, _WRITES_AT_ONCE)
        self._said: dict[str, str] = {}
        self._thaw = 0.0
        self._loop: Task | None = None
        self._timer: Timer | None = None
        self.observed = ObservedCluster(api, network, profile.name, self._cache, self._backlog, self._dra, self._go_on)
        self._storage.list()
        self.observed.list()

    def kill(self) -> None:
        """The process ends, and its connections close."""
        self.observed.stop()
        self._storage.stop()
        self._writes.cancel()
        for stopping in (self._loop, self._timer):
            if stopping is not None:
                stopping.cancel()
        for request in list(self.binds):
            self._close(request)

    def freeze(self, seconds: float) -> None:
        """The process stands still, as after SIGSTOP."""
        self._thaw = max(self._thaw, self._clock.now + seconds)
        self.observed.interrupt(seconds, relist=False)
        self._storage.interrupt(seconds, relist=False)

    def refused_by(self, uid: str) -> tuple[str, ...]:
        """The plugins that refused the pod when it was tried last; empty if none has, or if it does not wait."""
        queued = self._backlog.pods.get(uid)
        return () if queued is None else queued.rejectors

    def has_yet_to_try(self, uids: Iterable[str]) -> bool:
        """Whether some of these pods are in its queue, and none of them was refused yet."""
        queued = [queued_pod for queued_pod in map(self._backlog.pods.get, uids) if queued_pod is not None]
        untried = (Place.ACTIVE, Place.FLYING)
        return bool(queued) and all(
            queued_pod.place in untried and not (queued_pod.refusals or queued_pod.errors) for queued_pod in queued
        )

    def _storage_changed(self) -> None:
        self._backlog.tell(StorageChanged())
        self._go_on()

    def _devices_changed(self) -> None:
        self._backlog.tell(DevicesChanged())
        self._go_on()

    def _go_on(self) -> None:
        """Continue with the queue, which may have a pod to be scheduled."""
        if self._loop is None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            # The first step of a process is taken before it can be noted, so note that it is on its way.
            self._loop = Task(self._clock, self._run(), self._rest)
            self._loop.go_on()

    def _rest(self) -> None:
        self._loop = None
        if (at := self._backlog.next_ready()) is not None:
            self._timer = self._clock.at(at, self._go_on)

    def _run(self) -> Process[None]:
        while (queued := self._backlog.pop()) is not None:
            for delay_s in self._schedule(queued):
                yield delay_s
                while self._clock.now < self._thaw:
                    yield self._thaw - self._clock.now

    def _schedule(self, queued: Queued) -> Process[None]:
        pod = queued.pod
        self.cycles += 1
        yield self._profile.takes_s(self._clock.now)
        verdict = yield from self._cycle.run(pod)
        if self._left(pod.uid):
            return
        match verdict:
            case Chosen(node):
                self._backlog.remove(pod.uid)
                self._cache.assume(pod, node)
                if pod.claims:
                    self._storage.reserve(pod, node)
                if pod.device_claims:
                    self._dra.reserve(pod, node)
                if pod.claims or pod.device_claims:
                    self._writes.submit(self._prepare(queued, node))
                else:
                    self._bind(queued, node)
            case Failed():
                self._backlog.failed(queued)
                yield from self._say(pod, None, "SchedulerError: the extender has failed", Nomination.CLEAR)
            case Refused(_, rejectors, message):
                if pod.device_claims:
                    yield from self._dra.after_refusal(pod)
                nomination = yield from self._preempt(pod, verdict)
                if not self._left(pod.uid):
                    self._backlog.refused(queued, rejectors)
                    self._renominate(pod, nomination)
                    yield from self._say(pod, message, message, nomination)

    def _left(self, uid: str) -> bool:
        """Whether the pod has gone, or was bound by another scheduler, during its cycle."""
        seen = self.observed.pod(uid)
        return seen is None or bool(seen.node) or seen.terminal

    def _renominate(self, pod: Pod, nomination: Nomination | str) -> None:
        match nomination:
            case Nomination.KEEP:
                self.observed.nominate_as_seen(pod)
            case Nomination.CLEAR:
                self._cache.nominate(pod, None)
            case node:
                self._cache.nominate(pod, node)

    def _preempt(self, pod: Pod, refused: Refused) -> Process[Nomination | str]:
        """The node to be nominated because its victims are evicted, or what happens to the nomination without one."""
        if not refused.plugins:
            return Nomination.CLEAR
        if self._waits_for_victims(pod):
            return Nomination.KEEP
        victims = candidates(pod, self._cache, refused.plugins)
        if not victims:
            return Nomination.CLEAR
        if self._find is not None:
            victim_uids = {node: tuple(victim.uid for victim in pods) for node, pods in victims.items()}
            answer = yield from self._cycle.ask(lambda extender: extender.preempt(as_shown(pod), victim_uids))
            if answer is None or not answer.victims:
                return Nomination.KEEP
            victims = _chosen(victims, answer.victims)
        node = cheapest(victims)
        for victim in victims[node]:
            self._writes.submit(self._evict(victim.uid, pod.uid))
        return node

    def _waits_for_victims(self, pod: Pod) -> bool:
        there = self._cache.pods.get(pod.nominated_node or "", {})
        return any(other.deleting and other.priority < pod.priority for other in there.values())

    def _evict(self, victim: str, preemptor: str) -> Process[None]:
        """Delete a victim. If that fails, its end wakes no pod, so the preemptor is tried again."""
        status = yield from self._network.request(lambda: self._api.delete_pod(victim), REQUEST_S)
        if status not in (OK, NOT_FOUND):
            yield _REPEATED_S
            self._backlog.activate(preemptor)
            self._go_on()

    def _say(self, pod: Pod, refusal: str | None, text: str, nomination: Nomination | str) -> Process[None]:
        """PATCH the pod's condition, when it differs.

        Only a nomination that this cycle knew at its beginning is cleared.
        """
        facts: dict[str, object] = {"refusal": refusal}
        if isinstance(nomination, str) and not isinstance(nomination, Nomination):
            facts["nominated_node"] = nomination
        elif nomination is Nomination.CLEAR and pod.nominated_node:
            facts["nominated_node"] = None
        if self._said.get(pod.uid, pod.refusal) == text and len(facts) == 1:
            return
        self._said[pod.uid] = text
        yield from self._network.request(lambda: self._api.touch_pod(pod.uid, **facts), REQUEST_S)

    # Binding cycles.

    def _prepare(self, queued: Queued, node: str) -> Process[None]:
        """Do PreBind: write the node on the pod, have its volumes provided, and write its claims of devices.

        Then the Binding is requested.
        """
        pod = queued.pod
        if pod.device_claims and pod.nominated_node != node:
            yield from self._network.request(lambda: self._api.touch_pod(pod.uid, nominated_node=node), REQUEST_S)
        done = not pod.claims or (yield from self._storage.before_bind(pod, node))
        if done and (not pod.device_claims or (yield from self._dra.before_bind(pod))):
            self._bind(queued, node)
        else:
            self._bind_failed(queued)

    def _bind(self, queued: Queued, node: str) -> None:
        pod = queued.pod
        if self._find is None:
            self._writes.submit(self._bind_alone(queued, node))
            return
        request = BindRequest(pod, node, lambda error: self._answered(request, error))
        expires = self._clock.now + self._profile.bind_timeout_s
        self.binds[request] = _Open(queued, self._clock.at(expires, lambda: self._answered(request, "timed out")))
        self._clock.after(self._network.hop(), lambda: self._call(request))

    def _call(self, request: BindRequest) -> None:
        """Deliver the request, if an extender listens."""
        extender = self._find() if self._find is not None else None
        if request not in self.binds:
            return
        if extender is None:
            self._answered(request, "connection refused")
        else:
            extender.bind(request)

    def _bind_alone(self, queued: Queued, node: str) -> Process[None]:
        pod = queued.pod
        name = (pod.namespace, pod.name)
        status = yield from self._network.request(lambda: self._api.bind(pod.uid, name, node, {}), REQUEST_S)
        if status != OK:
            self._bind_failed(queued)

    def _answered(self, request: BindRequest, error: str) -> None:
        if request not in self.binds:
            return
        if self._clock.now < self._thaw:
            self._clock.at(self._thaw, lambda: self._answered(request, error))
            return
        queued = self.binds[request].queued
        self._close(request)
        if error:
            self._bind_failed(queued)

    def _close(self, request: BindRequest) -> None:
        """This end of the connection is closed; the other end notices."""
        self.binds.pop(request).timer.cancel()
        if self._find is not None:
            find = self._find
            self._clock.after(
                self._network.hop(), lambda: extender.hang_up(request) if (extender := find()) is not None else None
            )

    def _bind_failed(self, queued: Queued) -> None:
        pod = queued.pod
        self._storage.unreserve(pod)
        if pod.device_claims:
            self._writes.submit(self._dra.unreserve(pod))
        if pod.uid in self._cache.assumed:
            self._cache.take(pod.uid)
            self._backlog.tell(PodWent(pod))
        seen = self.observed.pod(pod.uid)
        if seen is None:
            return
        if not seen.node:
            queued.pod = seen
            self._backlog.failed(queued)
        self._writes.submit(self._say(pod, None, "SchedulerError: the bind has failed", Nomination.CLEAR))
        self._go_on()


def _chosen(victims: Victims, allowed: Mapping[str, tuple[str, ...]]) -> Victims:
    """The candidates that the extender has left."""
    return {node: tuple(pod for pod in victims[node] if pod.uid in uids) for node, uids in allowed.items()}
