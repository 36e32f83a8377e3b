"""The ledger of volumes: the nodes of bound claims, and what nodes have for claims that wait for a node.

A claim with a volume, or with a node that kube-scheduler has chosen, limits its pods to nodes. What other claims wait
for becomes amounts that nodes offer beside cpu and memory, as devices do. Volumes are counted by the lines of
``policies.devices.lines``; bytes are counted where a driver publishes how much it can provision for one node. So no
volume is promised twice, and the planner, quota and preemption need no code for volumes.

1. ``note`` records an event, and returns the claims that have changed.
2. ``mount`` returns a pod limited to the nodes of its volumes, with the amounts that its claims wait for.
3. ``settle`` has nodes offer what they have, in steps. The cycle does that before it plans, and sees every pod of
   ``all_users`` again if ``restated``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from extender.core.causes import VolumeNotBound
from extender.core.events import (
    CapacityGone,
    CapacitySeen,
    ClaimGone,
    ClaimSeen,
    StorageClassGone,
    StorageClassSeen,
    StorageDriverGone,
    StorageDriverSeen,
    VolumeEvent,
    VolumeGone,
    VolumeSeen,
)
from extender.core.ledger.claims import Claims
from extender.core.ledger.offers import Offers
from policies.devices.lines import Ask, Devices, Line, line_amounts, lines_of
from policies.model import HOSTNAME, Node, Pod, PodSets, Requests, Requirement, Terms, Topology
from policies.model.storage import ANY_STORAGE, READ_WRITE_ONCE_POD, SELECTED_NODE, Capacity, Storage, StorageClass
from policies.placement.matching import reached
from policies.placement.reach import Reach
from policies.steps import Steps, batched
from policies.words import STORAGE, VOLUME, WHOLE, distinct, listed, size

ClaimKey = tuple[str, str]
"""Namespace and name of a volume claim."""
MOST_ASKED = 256
"""Different requests of claims that are counted, at most. The others are left to kube-scheduler."""
_MANY = ("ReadWriteMany", "ReadOnlyMany")
"""The access modes with which pods on several nodes can use a volume."""
_PLENTY = 1 << 56
"""Bytes that a node offers if nothing says how much there is for it alone."""
_NODES = 8
"""Nodes whose volumes are counted in one unit of ``policies.steps``."""
_NAMED = 3
"""Claims that a reason names."""


class _Held(NamedTuple):
    """The meaning of a claim for its pods.

    ``nodes``: the nodes that it limits them to; None for all.
    ``waits_for``: the storage that it waits for; None if it has a volume.
    ``counted``: whether volumes for it are counted.
    ``provided``: whether bytes for it are counted.
    """

    nodes: Terms | None = None
    waits_for: Storage | None = None
    counted: bool = False
    provided: bool = False


_NOTHING = _Held()


class Volumes:
    """Claims, volumes, classes and capacities as last seen, and what nodes offer of them."""

    def __init__(self, room: Claims) -> None:
        self.claims: dict[ClaimKey, ClaimSeen] = {}
        self.volumes: dict[str, VolumeSeen] = {}
        self.classes: dict[str, StorageClass] = {}
        self.users: dict[ClaimKey, dict[str, None]] = {}
        """The pods that mount each claim, by UID."""
        self._pods: dict[str, Pod] = {}
        self.restated = False
        """Whether claims are counted in other amounts now, so that every pod with claims has to be seen again."""
        self._room = room
        self._of_claim: dict[ClaimKey, dict[str, None]] = {}
        """The volumes that name a claim."""
        self._counting: dict[str, None] = {}
        """The drivers that publish how much they can provision."""
        self._capacities: dict[str, Capacity] = {}
        self._near_volumes, self._near_capacities = Reach(), Reach()
        self._topologies: dict[str, tuple[Topology, Topology]] = {}
        """The topology that pods of a shared claim declare, and the one that is required of them, by UID."""
        self._storages: dict[Storage, None] = {}
        """The storage that claims wait for; its position is its number."""
        self._refused = False
        """Whether a claim is not counted for lack of space, while others may not be needed any more."""
        self._stored: dict[str, None] = {}
        """The classes whose bytes are counted."""
        self._lines: dict[Line, str] = {}
        self._amounts: dict[Ask, Requests] = {}
        self._based_on: tuple[object, ...] = ()
        self._matches: dict[str, int] = {}
        """The asked storage that each free volume serves, as bits."""
        self._provided: dict[str, int] = {}
        """The asked storage that can be provisioned for each node, as bits."""
        self._there: Counter[int] = Counter()
        """How many volumes and nodes have each combination of bits."""
        self.offers = Offers(room, "volumes")
        self._dirty: dict[str, None] = {}
        self._all_dirty = False

    # Events

    def note(self, event: VolumeEvent) -> list[ClaimKey]:
        """Record the event. Returns the claims that have changed."""
        match event:
            case ClaimSeen(namespace, name):
                return self._claim_changed((namespace, name), event)
            case ClaimGone(namespace, name):
                return self._claim_changed((namespace, name), None)
            case VolumeSeen(name):
                return self._volume_changed(name, event)
            case VolumeGone(name):
                return self._volume_changed(name, None)
            case CapacitySeen(capacity):
                self._capacity_changed(f"{capacity.namespace}/{capacity.name}", capacity)
            case CapacityGone(namespace, name):
                self._capacity_changed(f"{namespace}/{name}", None)
            case _:
                return self._provider_changed(event)
        return []

    def _provider_changed(
        self, event: StorageClassSeen | StorageClassGone | StorageDriverSeen | StorageDriverGone
    ) -> list[ClaimKey]:
        match event:
            case StorageClassSeen(seen):
                before, self.classes[seen.name] = self.classes.get(seen.name), seen
                changed = [seen.name] if before != seen else []
            case StorageClassGone(name):
                changed = [name] if self.classes.pop(name, None) is not None else []
            case StorageDriverSeen(name) | StorageDriverGone(name):
                counted, counts = name in self._counting, isinstance(event, StorageDriverSeen) and event.counts
                self._counting.pop(name, None)
                if counts:
                    self._counting[name] = None
                known = self.classes.values() if counted != counts else ()
                changed = [storage_class.name for storage_class in known if storage_class.provisioner == name]
        self._all_dirty |= bool(changed)
        waiting = ((key, claim.asks.storage_class) for key, claim in self.claims.items() if not claim.bound)
        return [key for key, storage_class in waiting if storage_class in changed]

    def _claim_changed(self, key: ClaimKey, claim: ClaimSeen | None) -> list[ClaimKey]:
        if self.claims.get(key) == claim:
            return []
        if claim is None:
            del self.claims[key]
        else:
            self.claims[key] = claim
        return [key]

    def _volume_changed(self, name: str, volume: VolumeSeen | None) -> list[ClaimKey]:
        before = self.volumes.pop(name, None)
        if volume is not None:
            self.volumes[name] = volume
        if before == volume:
            return []
        concerned: dict[ClaimKey, None] = {}
        for version in (before, volume):
            if version is not None and version.claim:
                concerned[version.namespace, version.claim] = None
        if before is not None and before.claim:
            named = self._of_claim[before.namespace, before.claim]
            named.pop(name, None)
            if not named:
                del self._of_claim[before.namespace, before.claim]
        if volume is not None and volume.claim:
            self._of_claim.setdefault((volume.namespace, volume.claim), {})[name] = None
        self._count_volume(name, volume)
        return list(concerned)

    def _count_volume(self, name: str, volume: VolumeSeen | None) -> None:
        """Count the volume for its nodes while no claim has it."""
        self._touch(self._near_volumes, name)
        self._near_volumes.drop(name)
        free = volume is not None and not volume.claim
        self._put(self._matches, name, self._match_of(volume) if volume is not None and free else None)
        if volume is not None and free:
            self._near_volumes.put(name, volume.nodes)
            self._touch(self._near_volumes, name)

    def _capacity_changed(self, name: str, capacity: Capacity | None) -> None:
        before = self._capacities.pop(name, None)
        if capacity is not None:
            self._capacities[name] = capacity
        if before == capacity:
            return
        self._touch(self._near_capacities, name)
        self._near_capacities.drop(name)
        if capacity is not None:
            self._near_capacities.put(name, capacity.nodes)
            self._touch(self._near_capacities, name)

    def _touch(self, reach: Reach, name: str) -> None:
        """Mark the nodes in reach of the volume or capacity to be counted again, if any pod waits for volumes."""
        if self._waited_for:
            nodes = reach.nodes_of(name, self._room.nodes)
            if nodes is None:
                self._all_dirty = True
            else:
                self._dirty |= dict.fromkeys(nodes)

    def refresh(self) -> bool:
        """Have nodes offer at once what an event has changed on a few of them. Returns whether ``settle`` has more to
        do."""
        if self._waited_for:
            dirty, self._dirty = tuple(self._dirty), {}
            for name in dirty:
                self._look_at(name)
            # Plans lose their room at once. More kinds of volumes than before count from ``settle`` on.
            self._offer(dirty)
            self._all_dirty |= self._based_on != self._basis()
        return not self.settled

    def node_changed(self, name: str) -> None:
        """Note a node that was added or changed."""
        if self._waited_for:
            # The number of nodes that a capacity serves depends on the labels of all nodes.
            self._all_dirty |= bool(self._capacities)
            self._dirty[name] = None

    def all_users(self) -> list[str]:
        """Return every pod that mounts claims, by UID. The caller sees them all again."""
        self.restated = False
        return list(self._pods)

    # Pods

    def concerns(self, pod: Pod) -> bool:
        """Whether the pod mounts claims or has mounted some, or pods of this template will."""
        return bool(pod.claims or pod.claim_makers) or pod.uid in self._pods

    def mount(self, pod: Pod) -> Pod:
        """Record a pod that mounts claims. Returns it limited to the nodes of its volumes, with the amounts that it
        waits for."""
        known = self._topologies.get(pod.uid)
        if known is not None and known[1] == pod.topology:
            pod = replace(pod, topology=known[0])
        if (before := self._pods.get(pod.uid)) is not None and _claims_of(before) != _claims_of(pod):
            self.unmount(before)
        self._pods[pod.uid] = pod
        for key in _claims_of(pod):
            users = self.users.setdefault(key, {})
            # A pod that had the claim alone shares it from now on, and may ask for other amounts.
            self.restated |= bool(users) and pod.uid not in users and self._held(key, None).waits_for is not None
            users[pod.uid] = None
        resolved = self.resolved(pod)
        if resolved.topology != pod.topology:
            self._topologies[pod.uid] = pod.topology, resolved.topology
        return resolved

    def unmount(self, pod: Pod) -> list[ClaimKey]:
        """Forget a pod that is gone. Returns its claims that other pods mount, too."""
        self._topologies.pop(pod.uid, None)
        shared = []
        for key in _claims_of(self._pods.pop(pod.uid, pod)):
            if (users := self.users.get(key)) is not None:
                users.pop(pod.uid, None)
                if users:
                    shared.append(key)
                else:
                    del self.users[key]
        return shared

    def resolved(self, pod: Pod, *, sharing: bool = False, first: bool = True) -> Pod:
        """Return the pod limited to the nodes of its volumes, with the amounts that its claims wait for.

        Of the pods of a gang that share a claim, the first asks for its volume, and the others go to the same node.

        ``sharing``: whether pods like this one will share the claims that it names.
        ``first``: with ``sharing``, whether the first of those pods is meant.
        """
        total = Counter(dict(_without_volumes(pod.requests)))
        nodes: dict[Terms, None] = {}
        topology = pod.topology
        for key, asks in self._uses(pod):
            held = self._held(key, asks)
            if held.nodes is not None:
                nodes[held.nodes] = None
            if held.waits_for is None:
                continue
            mates = self._mates(key, pod)
            shared = asks is None and (sharing or len(mates) > 1)
            if not shared or (first if sharing else mates[0] == pod.uid):
                total.update(dict(self._amounts_of(held)))
            if shared and held.nodes is None and not any(mode in _MANY for mode in held.waits_for.modes):
                topology = topology._replace(required=HOSTNAME, slice_size=None)
        selection, places = pod.selection, tuple(sorted(nodes))
        if selection.volumes != places:
            selection = replace(selection, volumes=places)
        return replace(pod, requests=tuple(sorted(total.items())), selection=selection, topology=topology)

    def _mates(self, key: ClaimKey, pod: Pod) -> list[str]:
        """The live pods of its gang that mount the claim, by UID, in the order in which they came."""
        group = pod.group_key
        mates = (self._pods[uid] for uid in self.users.get(key, ()) if group is not None or uid == pod.uid)
        return [mate.uid for mate in mates if mate.group_key == group and mate.live]

    def resolved_all(self, podsets: PodSets) -> PodSets:
        """Return the templates of a job, limited in the same way.

        A pod differs from its template if claims of its own name exist, or if it is the first pod of a shared claim.
        """
        if not any(self.concerns(pod) for podset in podsets.podsets for pod in podset.templates):
            return podsets
        resolved_podsets = []
        for podset in podsets.podsets:
            sharing = podset.size > 1
            made = podset.mapped(lambda pod, sharing=sharing: self.resolved(pod, sharing=sharing, first=False))  # type: ignore[misc]
            if any(map(self.concerns, podset.templates)):
                own, apart = zip(podset.pods(), made.pods(), strict=True), []
                for at, (pod, alike) in enumerate(own):
                    resolved = self.resolved(pod, sharing=sharing, first=not at)
                    if resolved != alike:
                        apart.append((pod.index or 0, resolved))
                made = replace(made, apart=tuple(apart))
            resolved_podsets.append(made)
        return PodSets(podsets.key, tuple(resolved_podsets))

    def lacking(self, pod: Pod) -> VolumeNotBound | None:
        """The first claim that keeps the pod from being planned; None if there is none.

        Such a claim does not exist, gets its volume without the pod, or belongs to another pod.
        """
        for name in pod.claims:
            key = pod.namespace, name
            claim = self.claims.get(key)
            if claim is None:
                return VolumeNotBound(name, pod.name, exists=False)
            if claim.trouble:
                return VolumeNotBound(name, pod.name, exists=True, trouble=claim.trouble)
            if name in pod.own_claims and claim.owner != pod.uid:
                return VolumeNotBound(name, pod.name, exists=True, trouble="was not made for that pod")
            if not claim.bound and not self._waits(claim):
                storage_class = claim.asks.storage_class
                known = storage_class in self.classes
                return VolumeNotBound(name, pod.name, exists=True, storage_class=storage_class, class_exists=known)
            if READ_WRITE_ONCE_POD in claim.asks.modes and (other := self._has_to_itself(key, pod)):
                trouble = f"is for one pod at a time ({READ_WRITE_ONCE_POD}), and pod {other} has it"
                return VolumeNotBound(name, pod.name, exists=True, trouble=trouble)
        return None

    def is_providing(self, pod: Pod) -> bool:
        """Whether a volume is being made, or bound, for a node that kube-scheduler has chosen for the pod."""
        claims = (self.claims.get(key) for key in _claims_of(pod))
        return any(claim is not None and claim.node and not claim.bound for claim in claims)

    def _has_to_itself(self, key: ClaimKey, pod: Pod) -> str:
        """The name of another pod that has a claim for one pod: a pod on a node, or of the same gang. Empty if there is
        none."""
        others = (self._pods[uid] for uid in self.users.get(key, ()) if uid != pod.uid)
        holders = (other for other in others if not other.terminal and (other.node or _are_mates(other, pod)))
        return next((holder.name for holder in holders), "")

    def remarks(self, pods: Sequence[Pod]) -> str:
        """Name the claims that wait and the claims that are tied to a node, for a reason; empty for most pods."""
        late: dict[str, list[str]] = {}
        pinned = []
        for pod in filter(self.concerns, pods):
            for key, asks in self._uses(pod):
                claim, held = self.claims.get(key), self._held(key, asks)
                if held.waits_for is not None and held.nodes is not None and claim is not None:
                    pinned.append(f"claim {key[1]} to node {claim.node}")
                elif held.counted or held.provided:
                    late.setdefault(held.waits_for.storage_class if held.waits_for else "", []).append(key[1])
        text = "".join(
            f"; StorageClass {name} is to provide for claim{'s' * (len(claims) > 1)} {listed(claims, _NAMED)}"
            for name, claims in late.items()
        )
        return text + (f"; kube-scheduler has tied {listed(pinned, _NAMED)} ({SELECTED_NODE})" if pinned else "")

    # Claims

    def _uses(self, pod: Pod) -> Iterator[tuple[ClaimKey, Storage | None]]:
        """Yield the claims of the pod, each with the storage that it asks for if it has yet to be created."""
        for name in pod.claims:
            yield (pod.namespace, name), None
        for maker in pod.claim_makers:
            yield (pod.namespace, maker.claim_of(pod.index or 0)), maker.asks

    def _waits(self, claim: ClaimSeen) -> bool:
        """Whether the claim gets a volume once its pod has a node.

        A claim whose author names its volume gets that at once. The name is also set while a volume that is reserved
        for the claim is being bound.
        """
        known, is_known = self.classes.get(claim.asks.storage_class), (claim.namespace, claim.name) in self._of_claim
        return known is not None and known.waits and (not claim.volume or is_known)

    def _held(self, key: ClaimKey, asks: Storage | None) -> _Held:
        """Return the meaning of a claim for its pods. ``asks``: the storage, for a claim that has yet to be created."""
        claim = self.claims.get(key)
        if claim is None and asks is None:
            return _NOTHING
        waits = asks if claim is None else claim.asks
        known = self.classes.get(waits.storage_class) if waits is not None else None
        bound = claim is not None and claim.bound
        for volume in (self.volumes[name] for name in self._of_claim.get(key, ())):
            if volume.bound or (not bound and known is not None and known.waits):
                return _Held(volume.nodes)
        if bound or waits is None or known is None or not known.waits or (claim is not None and claim.volume):
            return _NOTHING
        publishes = known.provisions and known.provisioner in self._counting
        if claim is not None and claim.node:
            return _Held(
                ((Requirement("metadata.name", "In", (claim.node,), is_field=True),),), waits, provided=publishes
            )
        anywhere = known.provisions and not known.topologies and not publishes
        return _Held(None, waits, counted=not anywhere, provided=publishes)

    # Amounts

    def _amounts_of(self, held: _Held) -> Requests:
        """Return the amounts that the claim asks of a node."""
        storage, amounts = held.waits_for or ANY_STORAGE, list[tuple[str, int]]()
        self._refused |= held.counted and storage not in self._storages and len(self._storages) >= MOST_ASKED
        if held.counted and (storage in self._storages or len(self._storages) < MOST_ASKED):
            if storage not in self._storages:
                self._storages[storage] = None
                self.restated = self._all_dirty = True
            amounts += self._of(Ask(1 << list(self._storages).index(storage)))
        if held.provided and storage.size:
            if storage.storage_class not in self._stored:
                self._stored[storage.storage_class] = None
                self.restated = self._all_dirty = True
            amounts.append((_stored(storage.storage_class), storage.size))
        return tuple(amounts)

    def _of(self, ask: Ask) -> Requests:
        if (known := self._amounts.get(ask)) is None:
            known = self._amounts[ask] = line_amounts(ask, self._lines, self._seen())
        return known

    def _match_of(self, volume: VolumeSeen) -> int:
        """Return the asked storage that the volume serves, as the bits of its numbers."""
        fits = (volume.offers.serves(storage, volume.labels) for storage in self._storages)
        return sum(1 << number for number, serves in enumerate(fits) if serves)

    def _put(self, matches: dict[str, int], name: str, match: int | None) -> None:
        """Record the asked storage that a volume or node serves; None if it is gone."""
        if before := matches.pop(name, None):
            self._there[before] -= 1
            if not self._there[before]:
                del self._there[before]
        if match is not None:
            matches[name] = match
            if match:
                self._there[match] += 1

    def _look_at(self, name: str) -> None:
        """Compute what can be provisioned for the node."""
        node = self._room.nodes.get(name)
        self._put(self._provided, name, None if node is None else self._provided_on(node))

    def _seen(self) -> list[int]:
        return sorted(self._there)

    def _basis(self) -> tuple[object, ...]:
        return tuple(self._storages), tuple(self._seen())

    # Nodes

    @property
    def settled(self) -> bool:
        """Whether nodes offer what they have, and pods ask for amounts of now."""
        return not (self.restated or self._refused or (self._waited_for and (self._all_dirty or self._dirty)))

    @property
    def _waited_for(self) -> bool:
        """Whether any pod waits for volumes that are counted."""
        return bool(self._storages or self._stored)

    def settle(self) -> Steps[None]:
        """Have every node offer what it has, in steps."""
        if self._all_dirty:
            self._all_dirty = False
            self._dirty = dict.fromkeys(self._room.nodes)
            self._near_capacities.count(self._room.nodes)
            for names in batched(tuple(self._matches)):
                for name in names:
                    if name in self._matches:
                        self._put(self._matches, name, self._match_of(self.volumes[name]))
                yield 1 + len(names) * len(self._storages) // _NODES
        dirty, self._dirty = tuple(self._dirty), {}
        for nodes in batched(dirty):
            for name in nodes:
                self._look_at(name)
            yield 1 + len(nodes) // _NODES
        for nodes in batched(tuple(self._room.nodes) if self._renew() else dirty):
            self._offer(nodes)
            yield 1 + len(nodes) // _NODES

    @property
    def has_refused(self) -> bool:
        """Whether a claim is not counted until others are forgotten."""
        return self._refused

    def forget_unasked(self, pods: Iterable[Pod]) -> None:
        """Make space for other claims, if at most half of the counted ones are needed. ``pods``: all pods."""
        held = [self._held(key, asks) for pod in pods for key, asks in self._uses(pod)]
        storages = {claim.waits_for: None for claim in held if claim.waits_for is not None and claim.counted}
        if len(storages) <= MOST_ASKED // 2:
            self._storages = storages
            self.restated = self._all_dirty = True
        self._refused = False

    def _renew(self) -> bool:
        """Make the lines again if the asked storage or the volumes have changed. Returns whether they have."""
        based_on = self._basis()
        if self._based_on == based_on:
            return False
        before, self._amounts, self._based_on = self._amounts, {}, based_on
        asks = {Ask(1 << number): storage for number, storage in enumerate(self._storages)}
        self._lines = _named_lines(asks, self._seen())
        self.restated |= any(self._of(ask) != before.get(ask, ()) for ask in asks)
        return True

    def _offer(self, nodes: Iterable[str]) -> None:
        """Have these nodes offer what they have."""
        for name in nodes:
            if (node := self._room.nodes.get(name)) is not None:
                self.offers.put(name, self._offered(node))

    def _offered(self, node: Node) -> Requests:
        """Count the volumes without a claim, and what can be provisioned."""
        free = Counter(self._matches[name] for name in self._near_volumes.at(node))
        there = [Devices(match, count, count) for match, count in free.items()]
        there.append(Devices(self._provided.get(node.name, 0), WHOLE, WHOLE))
        offered = {name: line.offered(there) for line, name in self._lines.items()}
        for storage_class in self._stored:
            offered[_stored(storage_class)] = self._bytes_on(node, storage_class)
        return tuple((name, much) for name, much in offered.items() if much)

    def counted_anew(self, name: str) -> dict[str, int]:
        """Count again what the node offers of volumes, to check the incremental count. Returns that count until all is
        counted."""
        node = self._room.nodes.get(name) if self.settled and self._waited_for else None
        return dict(self.offers.of(name) if node is None else self._offered(node))

    def _provided_on(self, node: Node) -> int:
        """Return the asked storage that can be provisioned for the node, as the bits of its numbers."""
        there = [self._capacities[name] for name in self._near_capacities.at(node)]
        match = 0
        for number, storage in enumerate(self._storages):
            known = self.classes.get(storage.storage_class)
            if known is None or not known.provisions or (known.topologies and not reached(node, known.topologies)):
                continue
            near = (capacity for capacity in there if capacity.storage_class == known.name)
            if (
                known.provisioner not in self._counting
                or not storage.size
                or any(capacity.suffices(storage.size) for capacity in near)
            ):
                match |= 1 << number
        return match

    def _bytes_on(self, node: Node, storage_class: str) -> int:
        """How many bytes a driver can provision for the node alone; plenty if it does not publish that by node."""
        near, capacities = self._near_capacities, self._capacities
        there = [name for name in near.at(node) if capacities[name].storage_class == storage_class]
        known = self.classes.get(storage_class)
        if known is None or known.provisioner not in self._counting:
            return _PLENTY
        if not all(map(near.is_local, there)):
            return _PLENTY
        return max((capacities[name].size for name in there), default=0)


def anywhere(pod: Pod | None) -> Pod | None:
    """The pod without its amounts and nodes of volumes: pods that differ only in those become equal."""
    if pod is None:
        return None
    return replace(pod, requests=_without_volumes(pod.requests), selection=replace(pod.selection, volumes=()))


def _without_volumes(requests: Requests) -> Requests:
    return tuple((name, much) for name, much in requests if not name.startswith((VOLUME, STORAGE)))


def _claims_of(pod: Pod) -> list[ClaimKey]:
    return [(pod.namespace, name) for name in pod.claims]


def _are_mates(pod: Pod, other: Pod) -> bool:
    return pod.live and pod.group_key is not None and pod.group_key == other.group_key


def _stored(storage_class: str) -> str:
    return f"{STORAGE}StorageClass {storage_class}"


def _named_lines(asks: Mapping[Ask, Storage], seen: Sequence[int]) -> dict[Line, str]:
    """Name the amount of each line. All names differ."""
    names: dict[Line, str] = {}
    for line in lines_of(asks, seen):
        exact = [_name_of(storage) for ask, storage in asks.items() if ask.match == line.match]
        parts = [_name_of(storage) for ask, storage in asks.items() if not ask.match & ~line.match]
        text = f"{VOLUME}{exact[0] if exact else listed(dict.fromkeys(parts), _NAMED)}"
        names[line] = distinct(text, names.values())
    return names


def _name_of(storage: Storage) -> str:
    """The text of asked storage: ``"StorageClass fast with 10 GiB"``."""
    return f"StorageClass {storage.storage_class}" + (f" with {size(storage.size)}" if storage.size else "")
