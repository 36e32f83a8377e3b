"""Volumes in the model: kube-scheduler's plugin VolumeBinding, the controller that binds them, and a provisioner."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random

from extender.core.events import CapacitySeen, ClaimSeen, StorageClassSeen, StorageDriverSeen, VolumeSeen
from extender.simulation.clock import Clock
from policies.model import HOSTNAME, Pod, Requirement, Terms
from policies.model.storage import NO_PROVISIONER, Capacity, Storage, StorageClass
from tests.simulation.model.apiserver import OK, ApiServer, uid_of
from tests.simulation.model.changes import Change, Kind, StorageObject
from tests.simulation.model.informer import Informer
from tests.simulation.model.network import Network
from tests.simulation.model.tasks import Process

LOCAL, MADE = "local", "made"
"""The classes: volumes that are there, and volumes that are made for a node."""
WAITS_S = 600.0
"""How long kube-scheduler waits until the volumes of a pod are bound."""
_LOOKS_S = 0.5
_DRIVER = "disk.example.com"
_PLENTY = 1_000_000


def asking(storage_class: str, size: int) -> Storage:
    return Storage(storage_class, size, ("ReadWriteOnce",))


def nodes_in(terms: Terms | None) -> tuple[str, ...]:
    """The nodes that reach a volume. Volumes of the model name them by their label."""
    return () if terms is None else tuple(value for term in terms for expression in term for value in expression.values)


def on(*nodes: str) -> Terms:
    return ((Requirement(HOSTNAME, "In", nodes),),)


def classes(nodes: tuple[str, ...]) -> tuple[StorageClassSeen, StorageClassSeen]:
    """Both classes. Volumes are made for these nodes alone."""
    made = StorageClass(MADE, _DRIVER, waits=True, topologies=on(*nodes))
    return StorageClassSeen(StorageClass(LOCAL, NO_PROVISIONER, waits=True)), StorageClassSeen(made)


def counting(sizes: Mapping[str, int]) -> tuple[StorageObject, ...]:
    """The driver that makes volumes, and that publishes how much it can make for each node."""
    return (StorageDriverSeen(_DRIVER, counts=True), *(_capacity(node, size) for node, size in sizes.items()))


def _capacity(node: str, size: int) -> CapacitySeen:
    return CapacitySeen(Capacity("default", node, MADE, on(node), size))


def free(name: str, node: str, size: int) -> VolumeSeen:
    """A local volume that no claim has."""
    return VolumeSeen(name, "", "", on(node), False, asking(LOCAL, size))  # noqa: FBT003


@dataclass(frozen=True, slots=True)
class Storages:
    """The volumes and claims as one component knows them."""

    claims: Mapping[str, ClaimSeen]
    volumes: Mapping[str, VolumeSeen]
    made: Mapping[str, int]
    """The nodes for which volumes are made, and how much at most: plenty where the driver does not say."""

    def of_claim(self, claim: ClaimSeen) -> VolumeSeen | None:
        """The volume that the claim has, or that is kept for it."""
        mine = (
            volume
            for volume in self.volumes.values()
            if (volume.namespace, volume.claim) == (claim.namespace, claim.name)
        )
        return next(mine, None)

    def nodes_of(self, claim: ClaimSeen) -> tuple[str, ...] | None:
        """The nodes that it holds its pods to; None for one that is held to none."""
        if (volume := self.of_claim(claim)) is not None:
            return nodes_in(volume.nodes)
        return (claim.node,) if claim.node else None


def known_of(changes: Mapping[str, Change]) -> Storages:
    things = [change.value for change in changes.values()]
    known = [thing.storage_class for thing in things if isinstance(thing, StorageClassSeen)]
    made = next((nodes_in(storage_class.topologies) for storage_class in known if storage_class.name == MADE), ())
    counts = any(isinstance(thing, StorageDriverSeen) and thing.counts for thing in things)
    sizes = {thing.capacity.name: thing.capacity.size for thing in things if isinstance(thing, CapacitySeen)}
    return Storages(
        {thing.name: thing for thing in things if isinstance(thing, ClaimSeen)},
        {thing.name: thing for thing in things if isinstance(thing, VolumeSeen)},
        {node: sizes.get(node, 0) if counts else _PLENTY for node in made},
    )


class VolumeBinding:
    """kube-scheduler's plugin for volumes. ``changed`` is called when volumes or claims have changed.

    The plugin writes its choice for a pod at PreBind, and does not undo it.
    """

    def __init__(self, api: ApiServer, network: Network, changed: Callable[[], None], request_s: float) -> None:
        self._api = api
        self._network = network
        self._changed = changed
        self._request_s = request_s
        self._chosen: dict[str, dict[str, str]] = {}
        """The volume that was chosen for each claim of a pod, by its UID; empty for one that is to be made."""
        self._watch = Informer(api, network, Kind.STORAGE, lambda *_: changed(), lambda _: changed())

    def list(self) -> None:
        self._watch.list()

    def stop(self) -> None:
        self._watch.stop()

    def interrupt(self, seconds: float, *, relist: bool) -> None:
        self._watch.interrupt(seconds, relist=relist)

    def waits(self, pod: Pod) -> bool:
        """A claim of the pod is not there."""
        known = self._watch.known
        return any(f"claim {pod.namespace}/{name}" not in known for name in pod.claims)

    def refuses(self, pod: Pod, node: str) -> bool:
        """The claims of the pod have volumes elsewhere, or find none there."""
        return self._choice(pod, node) is None

    def _choice(self, pod: Pod, node: str) -> dict[str, str] | None:
        known, chosen = known_of(self._watch.known), dict[str, str]()
        taken = {volume for choice in self._chosen.values() for volume in choice.values()}
        for name in pod.claims:
            claim = known.claims.get(name)
            if claim is None:
                return None
            where = known.nodes_of(claim)
            if where is not None and node not in where:
                return None
            if where is not None and (claim.bound or known.of_claim(claim) is not None):
                continue
            if claim.asks.storage_class == MADE:
                if claim.asks.size > known.made.get(node, 0):
                    return None  # each claim by itself
                chosen[name] = ""
                continue
            there = [
                volume
                for volume in known.volumes.values()
                if not volume.claim and volume.name not in taken and node in nodes_in(volume.nodes)
            ]
            fitting = sorted(
                (volume.offers.size, volume.name) for volume in there if volume.offers.size >= claim.asks.size
            )
            if not fitting:
                return None
            chosen[name] = fitting[0][1]
            taken.add(fitting[0][1])
        return chosen

    def reserve(self, pod: Pod, node: str) -> None:
        """In memory alone."""
        self._chosen[pod.uid] = self._choice(pod, node) or {}

    def before_bind(self, pod: Pod, node: str) -> Process[bool]:
        """Write the chosen volumes, and wait until the pod's claims are bound. Returns whether they are."""
        for name, volume in self._chosen.get(pod.uid, {}).items():

            def write(name: str = name, volume: str = volume) -> int:
                return self._api.choose_volume((pod.namespace, name), volume, node)

            if (yield from self._network.request(write, self._request_s)) != OK:
                return False
        until = self._network.clock.now + WAITS_S
        while self._network.clock.now < until:
            known = known_of(self._watch.known)
            claims = [known.claims.get(name) for name in pod.claims]
            if any(claim is None or not (claim.bound or known.nodes_of(claim)) for claim in claims):
                # The provisioner may have given up, or the watch does not show the write yet.
                yield _LOOKS_S
                api = known_of(self._api.changes[Kind.STORAGE])
                now = [api.claims.get(name) for name in pod.claims]
                if any(claim is None or not (claim.bound or api.nodes_of(claim)) for claim in now):
                    return False
            elif all(claim is not None and claim.bound for claim in claims):
                self._chosen.pop(pod.uid, None)
                return True
            yield _LOOKS_S
        return False

    def unreserve(self, pod: Pod) -> None:
        """Forget the choice; what is written stays."""
        self._chosen.pop(pod.uid, None)


class StorageController:
    """Binds volumes to the claims that they are kept for, and makes volumes for the chosen nodes.

    Now and then a volume cannot be made. Local volumes whose claim is gone are emptied. The driver publishes what it
    can make some time after it has made a volume.
    """

    def __init__(self, api: ApiServer, clock: Clock, dice: Random) -> None:
        self._api = api
        self._clock = clock
        self._dice = dice
        self._most: dict[str, int] = {}
        """The size that the driver has for each node, made volumes included."""
        self._making: dict[str, ClaimSeen] = {}
        """The claims whose volumes are made, and are yet to be written."""
        api.listeners[Kind.STORAGE].append(self._changed)

    def _changed(self, change: Change) -> None:
        thing = change.value
        if isinstance(thing, VolumeSeen) and not change.gone and thing.claim and not thing.bound:
            self._clock.after(self._dice.random(), lambda: self._bind(thing.name))
        if isinstance(thing, ClaimSeen) and not change.gone and thing.node and not thing.bound:
            slow = self._dice.random() < 0.1
            self._clock.after(40 * self._dice.random() if slow else self._dice.random(), lambda: self._make(thing))
        if isinstance(thing, CapacitySeen):
            self._most.setdefault(thing.capacity.name, thing.capacity.size)
        if isinstance(thing, ClaimSeen) and change.gone:
            self._clock.after(self._dice.random(), lambda: self._empty(thing))

    def _known(self) -> Storages:
        return known_of(self._api.changes[Kind.STORAGE])

    def _bind(self, name: str) -> None:
        known = self._known()
        volume = known.volumes.get(name)
        claim = known.claims.get(volume.claim) if volume is not None else None
        if volume is not None and claim is None and volume.claim:
            self._api.set_storage(replace(volume, namespace="", claim="", bound=False))
        if volume is not None and claim is not None and not claim.bound:
            self._api.set_storage(replace(volume, bound=True))
            self._api.set_storage(replace(claim, bound=True, volume=name))

    def _make(self, wanted: ClaimSeen) -> None:
        known = self._known()
        claim = known.claims.get(wanted.name)
        if claim is None or claim.bound or not claim.node or claim.name in self._making:
            return
        if self._dice.random() < 0.1 or claim.asks.size > (self._left(claim.node) if self._most else _PLENTY):
            self._api.set_storage(replace(claim, node=""))
            return
        self._making[claim.name] = claim
        if self._most and self._dice.random() < 0.3:
            # The volume of another claim is there, so the driver publishes what is left.
            self._api.set_storage(_capacity(claim.node, self._left(claim.node)))
            self._clock.after(self._dice.random(), lambda: self._write(claim))
        else:
            self._write(claim)

    def _write(self, made_for: ClaimSeen) -> None:
        """Write the volume that was made for the claim. One for a claim that is gone is deleted again."""
        del self._making[made_for.name]
        if (claim := self._known().claims.get(made_for.name)) is not None:
            name = f"made-{claim.name}"
            self._api.set_storage(
                VolumeSeen(name, claim.namespace, claim.name, on(made_for.node), offers=made_for.asks)
            )
            self._api.set_storage(replace(claim, bound=True, volume=name))
        self._publish(made_for.node)

    def _left(self, node: str) -> int:
        """The size that the driver can still make for the node."""
        there = (volume for volume in self._known().volumes.values() if node in nodes_in(volume.nodes))
        used = sum(volume.offers.size for volume in there if volume.name.startswith("made-"))
        return (
            self._most.get(node, 0)
            - used
            - sum(claim.asks.size for claim in self._making.values() if claim.node == node)
        )

    def _publish(self, node: str) -> None:
        if node in self._most:
            self._clock.after(self._dice.random(), lambda: self._api.set_storage(_capacity(node, self._left(node))))

    def _empty(self, claim: ClaimSeen) -> None:
        if claim.name in self._known().claims:
            return
        for volume in list(self._known().volumes.values()):
            if volume.claim == claim.name and volume.name.startswith("made-"):
                self._api.remove_storage(uid_of(volume))
                self._publish(nodes_in(volume.nodes)[0])
            elif volume.claim == claim.name:
                self._api.set_storage(replace(volume, namespace="", claim="", bound=False))


def claims_of(pod: Pod, known: Storages) -> Iterator[ClaimSeen]:
    """Yield the claims of the pod that are there."""
    for name in pod.claims:
        if (claim := known.claims.get(name)) is not None:
            yield claim
