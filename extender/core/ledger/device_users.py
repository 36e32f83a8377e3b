"""Have everybody who asks for devices ask in the amounts of now, once those are other ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from extender.core.ledger.claims import Claims
from extender.core.ledger.devices import Devices
from extender.core.ledger.pending import Nodes, Own, Pending
from extender.core.ledger.preemptions import Preemptions
from extender.core.ledger.store import Store
from policies.steps import AT_ONCE, Steps


@dataclass(eq=False)
class DeviceUsers:
    """The pods that ask for devices, and the jobs whose pods are to."""

    _store: Store
    _claims: Claims
    _devices: Devices
    _preemptions: Preemptions
    _pending: Pending

    def settle(self) -> Steps[bool]:
        """Evaluate what is new of devices, in steps. Returns whether pods ask for other amounts now: the cycle ends
        then, and the next one begins with that."""
        if self._devices.settled:
            return False
        yield from self._devices.settle()
        self.wake_for_grown()
        if not self._devices.restated:
            return False
        for number, uid in enumerate(self._devices.all_users(), 1):
            if (pod := self._store.pods.get(uid)) is not None:
                self._store.put_pod(pod)
                self.ask_again([uid])
            if not number % AT_ONCE:
                yield AT_ONCE
        self.look_at_jobs()
        self._pending.wake(Nodes())
        return True

    def wake_for_grown(self) -> None:
        """Wake what waits for devices, and search again for victims, if nodes offer more than before."""
        if grown := self._devices.take_grown():
            self._pending.wake(Nodes())
            for node in grown:
                self._preemptions.changed(node)

    def ask_again(self, uids: Iterable[str]) -> None:
        """Promise these pods what they ask for now, on the node that they were promised."""
        for uid in uids:
            claim = self._claims.get(uid)
            if claim is not None and claim.promised:
                self._claims.assume(self._store.pods[uid], claim.node)

    def look_at_jobs(self) -> None:
        """Look at the jobs again whose pods are to ask for devices: their templates may ask for other amounts now."""
        for workload in self._store.workloads.values():
            podsets = workload.podsets
            if podsets is not None and any(self._devices.concerns(one.template) for one in podsets.podsets):
                self._store.mark_dirty(workload)
                if workload.key in self._pending.keys:
                    self._pending.wake(Own(workload.key, anew=True))
