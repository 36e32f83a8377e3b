"""kube-scheduler's plugin DynamicResources: the nodes with devices for a pod, and the devices of pods until Binding.

For an extended resource it makes a claim before it asks for the Binding, and deletes it if that fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from policies.model import Pod
from policies.model.devices import EXTENDED_USE, Allocation, ClaimUse, DeviceClaim, DeviceKey, Slice
from tests.simulation.model.apiserver import NOT_FOUND, OK, ApiServer
from tests.simulation.model.changes import Change, Kind
from tests.simulation.model.devices import TEMPLATES, choose, claims_of, node_of, spec_of
from tests.simulation.model.informer import Informer
from tests.simulation.model.network import Network
from tests.simulation.model.tasks import Process


@dataclass(frozen=True, slots=True)
class _Assumed:
    """A claim as this process has written it, with the written version."""

    version: int
    claim: DeviceClaim


class DynamicResources:
    """``changed`` is called when devices or claims have changed. Its picture of them begins with ``list``."""

    def __init__(self, api: ApiServer, network: Network, changed: Callable[[], None], request_s: float) -> None:
        self._api = api
        self._network = network
        self._changed = changed
        self._request_s = request_s
        self._in_flight: dict[str, Allocation] = {}
        """The devices that were chosen for a claim, and are not written yet, by its UID."""
        self._assumed: dict[str, _Assumed] = {}
        self._made: dict[str, DeviceClaim] = {}
        """The claims for extended resources of pods on their way to a Binding, by UID of the pod."""
        self._mismatched: dict[str, None] = {}
        """Claims of the pod that is looked at which are allocated elsewhere than on some node that would do."""
        self._watches = (
            Informer(api, network, Kind.DEVICES, self._seen, self._gone),
            Informer(api, network, Kind.CLAIMS, self._seen, self._gone),
        )

    def list(self) -> None:
        for watch in self._watches:
            watch.list()

    def stop(self) -> None:
        for watch in self._watches:
            watch.stop()

    def interrupt(self, seconds: float, *, relist: bool) -> None:
        for watch in self._watches:
            watch.interrupt(seconds, relist=relist)

    def _seen(self, change: Change, _: Change | None) -> None:
        assumed = self._assumed.get(change.uid)
        if assumed is not None and change.version >= assumed.version:
            del self._assumed[change.uid]
        if isinstance(change.value, DeviceClaim) and change.value.allocation is not None:
            self._in_flight.pop(change.uid, None)
        self._changed()

    def _gone(self, last: Change) -> None:
        self._assumed.pop(last.uid, None)
        self._in_flight.pop(last.uid, None)
        self._changed()

    def _claims(self) -> Iterator[DeviceClaim]:
        for uid, change in self._watches[1].known.items():
            assumed = self._assumed.get(uid)
            claim = change.value if assumed is None else assumed.claim
            assert isinstance(claim, DeviceClaim)
            yield claim
        # claims that this process has made, and that the watch has not shown yet
        yield from (assumed.claim for uid, assumed in self._assumed.items() if uid not in self._watches[1].known)

    def admits(self, pod: Pod) -> bool:
        """Whether all claims of the pod are there: before that kube-scheduler does not try it (PreEnqueue)."""
        return all(claim is not None or use.name == EXTENDED_USE for use, claim in self._uses(pod))

    def waits(self, pod: Pod) -> bool:
        """Before any node is looked at: a claim of the pod is not there, or is being allocated for another pod."""
        self._mismatched.clear()
        claims = [claim for use, claim in self._uses(pod) if use.name != EXTENDED_USE]
        return any(claim is None or claim.uid in self._in_flight for claim in claims)

    def _uses(self, pod: Pod) -> Sequence[tuple[ClaimUse, DeviceClaim | None]]:
        """The claims of the pod by their uses; None for a claim that is not there."""
        return list(zip(pod.device_claims, claims_of(pod, self._claims()), strict=True)) if pod.device_claims else []

    def refuses(self, pod: Pod, node: str) -> bool:
        """No devices for the pod are free on the node, or it has devices elsewhere."""
        if not pod.device_claims:
            return False
        return self._choice(pod, node) is None

    def _choice(self, pod: Pod, node: str) -> dict[str, Allocation] | None:
        wanted = {}
        for use, claim in self._uses(pod):
            if claim is None and use.name == EXTENDED_USE:
                claim = self._made_for(pod, use)
            if claim is None:
                return None
            if claim.allocation is None:
                wanted[claim.uid] = claim.spec
            elif node_of(claim.allocation) != node:
                self._mismatched[claim.uid] = None
                return None
        in_use = {device for claim in self._claims() if claim.allocation for device in claim.allocation.devices}
        in_use |= {device for chosen in self._in_flight.values() for device in chosen.devices}
        slices = (item.value for item in self._watches[0].known.values() if isinstance(item.value, Slice))
        there = [
            DeviceKey(*slice_.pool, device.name)
            for slice_ in slices
            if slice_.reach.node == node
            for device in slice_.devices
        ]
        return choose(wanted, node, there, in_use)

    def reserve(self, pod: Pod, node: str) -> None:
        """In memory alone."""
        self._in_flight |= self._choice(pod, node) or {}

    def before_bind(self, pod: Pod) -> Process[bool]:
        """Write the chosen devices, and the reservation, claim by claim. Returns whether all is written."""
        for use, claim in self._uses(pod):
            seen = claim
            if seen is None and use.name == EXTENDED_USE:
                seen = self._made_for(pod, use)
                yield from self._network.request(lambda made=seen: self._make(made), self._request_s)  # type: ignore[misc]
            if seen is None:
                return False
            written: DeviceClaim | None = None
            chosen = self._in_flight.get(seen.uid)

            def write(uid: str = seen.uid, chosen: Allocation | None = chosen) -> int:
                nonlocal written
                status, written = self._api.reserve_claim(uid, chosen, pod.uid)
                return status

            status = yield from self._network.request(write, self._request_s)
            if status != OK or written is None:
                return False
            change = self._api.changes[Kind.CLAIMS].get(seen.uid)
            known = self._watches[1].known.get(seen.uid)
            if change is not None and (known is None or known.version < change.version):
                self._assumed[seen.uid] = _Assumed(change.version, written)
            self._in_flight.pop(seen.uid, None)
        return True

    def unreserve(self, pod: Pod) -> Process[None]:
        """Take the reservations of the pod back. Allocations that are written stay."""
        for use, seen in self._uses(pod):
            made = self._made.pop(pod.uid, seen) if use.name == EXTENDED_USE else None
            if made is not None:
                self._in_flight.pop(made.uid, None)
                status = yield from self._network.request(
                    lambda uid=made.uid: self._delete(uid),  # type: ignore[misc]
                    self._request_s,
                )
                if status == OK:
                    self._assumed.pop(made.uid, None)
        for uid in [seen.uid for use, seen in self._uses(pod) if seen is not None and use.name != EXTENDED_USE]:
            if (there := self._api.claims.get(uid)) is None or there.allocation is None:
                self._in_flight.pop(uid, None)  # else it may be written, and is held until the watch shows that
            yield from self._network.request(lambda uid=uid: self._api.unreserve_claim(uid, pod.uid), self._request_s)  # type: ignore[misc]

    def _made_for(self, pod: Pod, use: ClaimUse) -> DeviceClaim:
        """The claim for the extended resource of the pod in this attempt."""
        name = f"{pod.uid}-extended-resources-{self._api.version}"
        spec = spec_of(TEMPLATES[use.template])
        made = DeviceClaim(pod.namespace, name, f"claim {name}", spec, owner=pod.uid, use=EXTENDED_USE)
        return self._made.setdefault(pod.uid, made)

    def _make(self, claim: DeviceClaim) -> int:
        if claim.owner not in self._api.pods:
            return NOT_FOUND  # the garbage collector would delete it
        self._api.set_claim(claim)
        return OK

    def _delete(self, uid: str) -> int:
        if uid in self._api.claims:
            self._api.remove_claim(uid)
        return OK

    def after_refusal(self, pod: Pod) -> Process[None]:
        """PostFilter: take one allocation of the pod back that keeps it from a node which would do otherwise."""
        claims = {claim.uid: claim for claim in self._claims()}
        free = [uid for uid in self._mismatched if uid in claims and not {*claims[uid].reserved_for} - {pod.uid}]
        if free:
            version = self._watches[1].known[free[0]].version
            yield from self._network.request(
                lambda: self._api.deallocate_claim(free[0], version, but=pod.uid), self._request_s
            )
