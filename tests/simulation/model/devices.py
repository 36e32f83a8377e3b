"""Devices of the model: slices of drivers, claims, and which device a claim gets.

Drivers have two kinds of devices: large ones, and others. Pods and nodes of the model list them as amounts of two
resources, which the referee counts like any other. The extender and kube-scheduler see pods and nodes without these
amounts, and slices and claims instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from extender.core.events import DeviceClassSeen
from extender.core.ledger.domains import DAEMON_CLASS
from policies.model import Node, Pod, PodSets, Requests, Requirement, Terms
from policies.model.devices import (
    EXTENDED_USE,
    Allocation,
    ClaimRequest,
    ClaimSpec,
    ClaimTemplate,
    ClaimUse,
    Device,
    DeviceClaim,
    DeviceKey,
    DeviceRequest,
    Flag,
    PoolKey,
    Reach,
    Slice,
)

Thing = Slice | ClaimTemplate | DeviceClassSeen
"""An object of devices that is seldom written: a slice, a template of claims, a class."""

DRIVER = "gpu.example.com"
ANY, LARGE, CHANNEL = "devices.sim/any", "devices.sim/large", "devices.sim/channel"
"""Amounts of the model: devices of any kind, large ones among them, and beside them channels of ComputeDomains."""
_AMOUNTS = (ANY, LARGE, CHANNEL)
RESOURCE = "gpu.example.com/device"
"""The extended resource that the class of any device offers."""
TEMPLATES: dict[str, Requests] = {
    "one": ((ANY, 1),),
    "two": ((ANY, 2),),
    "large": ((ANY, 1), (LARGE, 1)),
    "both": ((ANY, 2), (LARGE, 1)),
}
"""The templates of claims, by name, and the amounts of each: a large device is one of any kind, too."""
_KIND = f"device.attributes['{DRIVER}'].kind"
CLASSES = (
    DeviceClassSeen("any.example.com", RESOURCE, (f"{_KIND} != 'channel'",)),
    DeviceClassSeen("large.example.com", "", (f"{_KIND} == 'large'",)),
    DeviceClassSeen("channel.example.com", "", (f"{_KIND} == 'channel'",)),
)
DAEMONS = DeviceClassSeen(DAEMON_CLASS, "", ("false",))
"""The class by which the extender knows that the driver prepares nodes for domains."""
_CLASS_OF = {ANY: CLASSES[0].name, LARGE: CLASSES[1].name, CHANNEL: CLASSES[2].name}


def uid_of(thing: Thing) -> str:
    """The UID of one that has none of its own."""
    return f"{type(thing).__name__}/{thing.name}"


def slice_of(node: str, kinds: Sequence[str], generation: int = 1) -> Slice:
    """The slice of a node with devices of these kinds, ``large``, ``small`` or ``channel``."""
    return Slice(node, PoolKey(DRIVER, node), generation, 1, Reach(node), tuple(map(_device, kinds, range(len(kinds)))))


def _device(kind: str, number: int) -> Device:
    domain = ("attributes", DRIVER)
    return Device(f"{kind}-{number}", {("driver",): DRIVER, domain: Flag.YES, (*domain, "kind"): kind})


def spec_of(requests: Requests, domain: str = "") -> ClaimSpec:
    """A claim of that many devices. Large ones stand in both amounts."""
    amounts = dict(requests)
    counts = (
        (LARGE, amounts.get(LARGE, 0)),
        (ANY, amounts.get(ANY, 0) - amounts.get(LARGE, 0)),
        (CHANNEL, amounts.get(CHANNEL, 0)),
    )
    requests_of = [
        ClaimRequest(f"r{at}", (DeviceRequest(_CLASS_OF[name], (), n),)) for at, (name, n) in enumerate(counts) if n
    ]
    return ClaimSpec(tuple(requests_of), domain=domain)


def listed(published: Slice | None) -> Requests:
    """The amounts of a slice."""
    return amounts_of([] if published is None else [device.name for device in published.devices])


def amounts_of(names: Sequence[str]) -> Requests:
    """The amounts of devices with these names."""
    large, channels = (sum(name.startswith(kind) for name in names) for kind in ("large", "channel"))
    counts = (ANY, len(names) - channels), (LARGE, large), (CHANNEL, channels)
    return tuple((name, much) for name, much in counts if much)


def with_amounts(there: Requests, amounts: Requests) -> Requests:
    """The same requests with exactly these amounts of devices."""
    return tuple(sorted((*(pair for pair in there if pair[0] not in (*_AMOUNTS, RESOURCE)), *amounts)))


def amounts_in(requests: Requests) -> Requests:
    """Return the amounts of devices among the requests."""
    return tuple(pair for pair in requests if pair[0] in _AMOUNTS)


def by_resource(template: str) -> ClaimUse:
    """The use of as many devices as that template has, by the extended resource: kube-scheduler makes the claim."""
    return ClaimUse(EXTENDED_USE, "", template)


def as_scheduled(pod: Pod) -> Pod:
    """The pod as kube-scheduler's plugins see it: claims and extended resources in place of amounts."""
    return replace(pod, requests=with_amounts(pod.requests, ())) if pod.device_claims else pod


def as_shown(pod: Pod) -> Pod:
    """The pod as its object says."""
    much = sum(dict(TEMPLATES[use.template])[ANY] for use in pod.device_claims if use.name == EXTENDED_USE)
    if not much:
        return as_scheduled(pod)
    claims = tuple(use for use in pod.device_claims if use.name != EXTENDED_USE)
    return replace(pod, requests=with_amounts(pod.requests, ((RESOURCE, much),)), device_claims=claims)


def node_as_shown(node: Node) -> Node:
    """The node as its object says."""
    left = with_amounts(node.allocatable, ())
    return node if len(left) == len(node.allocatable) else replace(node, allocatable=left)


def podsets_as_shown(podsets: PodSets) -> PodSets:
    """The podsets as their object says."""
    if not any(podset.template.device_claims for podset in podsets.podsets):
        return podsets
    return PodSets(
        podsets.key, tuple(replace(podset, template=as_shown(podset.template)) for podset in podsets.podsets)
    )


def at(node: str) -> Terms:
    """The terms that an allocation on that node has."""
    return ((Requirement("metadata.name", "In", (node,), is_field=True),),)


def node_of(allocation: Allocation) -> str:
    """The node that reaches its devices."""
    assert allocation.nodes is not None
    return allocation.nodes[0][0].values[0]


def claims_of(pod: Pod, claims: Iterable[DeviceClaim]) -> list[DeviceClaim | None]:
    """Return the claims of the pod, in its order; None for a claim that is not there."""
    known = list(claims)
    return [next((claim for claim in known if _is_for(claim, pod, use)), None) for use in pod.device_claims]


def _is_for(claim: DeviceClaim, pod: Pod, use: ClaimUse) -> bool:
    if use.claim:
        return (claim.namespace, claim.name) == (pod.namespace, use.claim)
    return (claim.owner, claim.use) == (pod.uid, use.name)


def choose(specs: Mapping[str, ClaimSpec], node: str, free: Sequence[DeviceKey]) -> dict[str, Allocation] | None:
    """Devices for these claims, by UID, as kube-scheduler finds them: the first that fit, with other choices tried."""
    wanted = [
        (uid, request.alternatives[0].device_class)
        for uid, spec in specs.items()
        for request in spec.requests
        for _ in range(request.alternatives[0].count or 0)
    ]
    chosen = _assign(wanted, list(free))
    if chosen is None:
        return None
    return {uid: Allocation(tuple(device for whose, device in chosen if whose == uid), at(node)) for uid in specs}


def _is_of(kind: str, device_class: str) -> bool:
    return kind != "channel" if device_class == _CLASS_OF[ANY] else _CLASS_OF.get(f"devices.sim/{kind}") == device_class


def _assign(wanted: Sequence[tuple[str, str]], free: list[DeviceKey]) -> list[tuple[str, DeviceKey]] | None:
    if not wanted:
        return []
    (uid, name), rest = wanted[0], wanted[1:]
    tried: set[str] = set()
    for device in free:
        kind = device.device.partition("-")[0]
        if not _is_of(kind, name) or kind in tried:
            continue
        tried.add(kind)  # another one of the same kind leaves the same to the others
        assigned = _assign(rest, [other for other in free if other != device])
        if assigned is not None:
            return [(uid, device), *assigned]
    return None
