"""Count devices and volumes again, and restate the requests of the pods and jobs that ask for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from extender.core.ledger.claims import Claims
from extender.core.ledger.devices import Devices
from extender.core.ledger.pending import Nodes, Own, Pending
from extender.core.ledger.preemptions import Preemptions
from extender.core.ledger.store import Store
from extender.core.ledger.volumes import Volumes
from extender.core.workload.workload import Workload
from policies.model import GroupKey, Pod, PodSets
from policies.steps import AT_ONCE, Steps


@dataclass(eq=False)
class DeviceUsers:
    """The pods that ask for devices or volumes, and the jobs whose pods are to."""

    _store: Store
    _claims: Claims
    _devices: Devices
    _volumes: Volumes
    _preemptions: Preemptions
    _pending: Pending

    def __post_init__(self) -> None:
        self._uncounted: dict[GroupKey, None] = {}
        self.to_come: Callable[[Workload], PodSets | None] = lambda _: None
        """Returns the podsets of pods that are yet to come for a workload that was not settled yet."""

    def settle(self) -> Steps[bool]:
        """Count new devices and volumes, in steps.

        Returns whether pods ask for other amounts than before. Then the cycle ends, and the next one begins with those.
        """
        restated = False
        for counted in (self._devices, self._volumes):
            if not counted.settled:
                restated |= yield from self._settle(counted)
        return restated

    def _settle(self, counted: Devices | Volumes) -> Steps[bool]:
        if counted.has_refused:
            pods = [*self._store.pods.values(), *self._to_come()]
            counted.forget_unasked(filter(counted.concerns, pods))
            yield len(pods)
        yield from counted.settle()
        self.wake_for_grown(counted)
        if not counted.restated:
            return False
        for number, uid in enumerate(counted.all_users(), 1):
            if (pod := self._store.pods.get(uid)) is not None:
                self._store.put_pod(pod)
                self.ask_again([uid], counted)
            if not number % AT_ONCE:
                yield AT_ONCE
        self.look_at_jobs(counted)
        self._pending.wake(Nodes())
        return True

    def settle_all(self) -> Steps[None]:
        """Count all devices and volumes that pods ask for, and templates of pods that have yet to come.

        Nothing is left to count at the instant of the return, whatever events have come since the call.
        """
        counted: dict[GroupKey, PodSets] = {}
        self._uncounted = dict.fromkeys(reversed(self._store.workloads))  # the last is taken first
        while self._uncounted or not (self._devices.settled and self._volumes.settled):
            while self._uncounted:
                key, _ = self._uncounted.popitem()
                workload = self._store.workloads.get(key)
                podsets = None if workload is None else self._podsets_of(workload)
                if podsets is not None and counted.get(key) is not podsets:
                    counted[key] = podsets
                    self._devices.resolved_all(self._volumes.resolved_all(podsets))  # what is asked for is counted now
                yield 1
            yield from self.settle()

    def recount(self, key: GroupKey) -> None:
        """Count what the pods of the workload ask for before ``settle_all`` returns: it may have changed."""
        self._uncounted[key] = None

    def _podsets_of(self, workload: Workload) -> PodSets | None:
        """Return the podsets of the workload whose pods have yet to come; None if it has none."""
        return workload.podsets or self.to_come(workload)

    def _to_come(self) -> Iterator[Pod]:
        """Yield the templates of pods that have yet to come."""
        for podsets in filter(None, map(self._podsets_of, self._store.workloads.values())):
            for podset in podsets.podsets:
                yield from podset.templates

    def wake_for_grown(self, counted: Devices | Volumes) -> None:
        """Wake workloads that wait for room, and search for victims again, if nodes offer more than before."""
        if grown := counted.offers.take_grown():
            self._pending.wake(Nodes())
            for node in grown:
                self._preemptions.note_freed_room(node)

    def ask_again(self, uids: Iterable[str], counted: Devices | Volumes) -> None:
        """Renew the promises of these pods with the amounts that they ask for now. These may exceed the former
        amounts."""
        for uid in uids:
            claim = self._claims.get(uid)
            if claim is not None and claim.promised:
                self._claims.assume(self._store.pods[uid], claim.node)
                counted.offers.check_again(claim.node)

    def look_at_jobs(self, counted: Devices | Volumes) -> None:
        """Settle the jobs whose templates ask for devices or volumes: their amounts may have changed."""
        for workload in self._store.workloads.values():
            podsets = workload.podsets
            if podsets is not None and any(
                counted.concerns(pod) for podset in podsets.podsets for pod in podset.templates
            ):
                self._store.mark_dirty(workload)
                if workload.key in self._pending.keys:
                    self._pending.wake(Own(workload.key, recompute=True))
