"""Devices of the model: slices of drivers, claims, and which device a claim gets.

Pods and nodes of the model list devices as amounts of resources, which the referee counts like any other. The extender
and kube-scheduler see pods and nodes without these amounts, and slices and claims instead.

Kinds of devices: small and large ones; worn ones, which have a taint; fast and slow ones, which are alternatives of
each other; a full one and its two parts, which share counters; channels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from extender.core.events import DeviceClassSeen
from extender.core.ledger.domains import DAEMON_CLASS
from policies.model import Node, Pod, PodSets, Requests, Requirement, Taint, Terms, Toleration
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
    Path,
    PoolKey,
    Reach,
    Slice,
    Value,
)

Thing = Slice | ClaimTemplate | DeviceClassSeen
"""An object of devices that is seldom written: a slice, a template of claims, a class."""

DRIVER = "gpu.example.com"
WORN_TOO, ANY, LARGE = "devices.sim/worn-too", "devices.sim/any", "devices.sim/large"
"""Amounts of the model: small, large and worn devices, of these the ones without a taint, of these the large ones."""
EITHER, WATCHED, CHANNEL = "devices.sim/either", "devices.sim/watched", "devices.sim/channel"
"""Amounts of the model: how often a fast device or two slow ones can be given; plenty where a device can be watched by
admin access; channels of ComputeDomains."""
PARTS = "devices.sim/parts"
"""The amount of the parts of a device, of which the full one has two. No part is free while the full one is in use."""
_AMOUNTS = (WORN_TOO, ANY, LARGE, EITHER, WATCHED, CHANNEL, PARTS)
_PLENTY = 1000
RESOURCE = "gpu.example.com/device"
"""The extended resource that the class of any device offers."""
TEMPLATES: dict[str, Requests] = {
    "one": ((ANY, 1), (WORN_TOO, 1)),
    "two": ((ANY, 2), (WORN_TOO, 2)),
    "large": ((ANY, 1), (LARGE, 1), (WORN_TOO, 1)),
    "both": ((ANY, 2), (LARGE, 1), (WORN_TOO, 2)),
    "tolerant": ((WORN_TOO, 2),),
    "either": ((EITHER, 1),),
    "watching": ((WATCHED, 1),),
    "part": ((PARTS, 1),),
    "full": ((PARTS, 2),),
}
"""The templates of claims, by name, and the amounts of each: a large device is one of any kind, too."""
_KIND = f"device.attributes['{DRIVER}'].kind"
_KINDS_OF = {
    "any.example.com": ("small", "large", "worn"),
    "large.example.com": ("large",),
    "fast.example.com": ("fast",),
    "slow.example.com": ("slow",),
    "channel.example.com": ("channel",),
    "full.example.com": ("full",),
    "part.example.com": ("part",),
}
CLASSES = tuple(
    DeviceClassSeen(
        name, RESOURCE * (name == "any.example.com"), (" || ".join(f"{_KIND} == '{kind}'" for kind in kinds),)
    )
    for name, kinds in _KINDS_OF.items()
)
_SHARING = ("full", "part")
_WEAR = Taint("example.com/worn", "", "NoSchedule")
DAEMONS = DeviceClassSeen(DAEMON_CLASS, "", ("false",))
"""The class by which the extender knows that the driver prepares nodes for domains."""


def uid_of(thing: Thing) -> str:
    """The UID of one that has none of its own."""
    return f"{type(thing).__name__}/{thing.name}"


def slice_of(node: str, kinds: Sequence[str], generation: int = 1) -> Slice:
    """The slice of a node with devices of these kinds."""
    return Slice(node, PoolKey(DRIVER, node), generation, 1, Reach(node), tuple(map(_device, kinds, range(len(kinds)))))


def _device(kind: str, number: int) -> Device:
    domain = ("attributes", DRIVER)
    facts: dict[Path, Value] = {("driver",): DRIVER, domain: Flag.YES, (*domain, "kind"): kind}
    taints = (_WEAR,) if kind == "worn" else ()
    return Device(f"{kind}-{number}", facts, taints, partition=kind in _SHARING)


def spec_of(requests: Requests, domain: str = "") -> ClaimSpec:
    """The claim of these amounts. A request of a smaller amount stands in the larger ones, too."""
    amounts = Counter(dict(requests))
    tolerant = DeviceRequest("any.example.com", tolerations=(Toleration(_WEAR.key, "Exists", "", ""),))
    counts = (
        (amounts[LARGE], (DeviceRequest("large.example.com"),)),
        (amounts[ANY] - amounts[LARGE], (DeviceRequest("any.example.com"),)),
        (amounts[WORN_TOO] - amounts[ANY], (tolerant,)),
        (amounts[EITHER], (DeviceRequest("fast.example.com"), DeviceRequest("slow.example.com", count=2))),
        (amounts[WATCHED], (DeviceRequest("any.example.com", admin=True),)),
        (amounts[CHANNEL], (DeviceRequest("channel.example.com"),)),
        (amounts[PARTS] // 2, (DeviceRequest("full.example.com"),)),
        (amounts[PARTS] % 2, (DeviceRequest("part.example.com"),)),
    )
    requests_of = [
        ClaimRequest(f"r{at}", tuple(replace(request, count=n * (request.count or 0)) for request in alternatives))
        for at, (n, alternatives) in enumerate(counts)
        if n
    ]
    return ClaimSpec(tuple(requests_of), domain=domain)


def listed(published: Slice | None) -> Requests:
    """The amounts of a slice."""
    return amounts_of([] if published is None else [device.name for device in published.devices])


def amounts_of(names: Iterable[str]) -> Requests:
    """The amounts of devices with these names."""
    there = Counter(map(_kind_of, names))
    fit = there["small"] + there["large"]
    counts = (
        (WORN_TOO, fit + there["worn"]),
        (ANY, fit),
        (LARGE, there["large"]),
        (EITHER, there["fast"] + there["slow"] // 2),
        (WATCHED, _PLENTY if fit else 0),
        (CHANNEL, there["channel"]),
        (PARTS, there["part"]),
    )
    return tuple((name, much) for name, much in counts if much)


def left_of(names: Iterable[str], used: Collection[str]) -> dict[str, int]:
    """All amounts of the devices with these names that are left: used devices can still be watched."""
    there = list(names)
    free = dict(amounts_of(_free(there, used)))
    return dict.fromkeys(_AMOUNTS, 0) | free | {WATCHED: dict(amounts_of(there)).get(WATCHED, 0)}


def _free(there: Iterable[str], used: Collection[str]) -> list[str]:
    """The devices of a node that can be allocated."""
    return [name for name in there if name not in used and not any(_exclude(name, other) for other in used)]


def _exclude(name: str, other: str) -> bool:
    """Whether one of these devices of a node is a part of the other one."""
    return {_kind_of(name), _kind_of(other)} == {*_SHARING}


def _kind_of(name: str) -> str:
    return name.partition("-")[0]


def with_amounts(there: Requests, amounts: Requests) -> Requests:
    """The same requests with exactly these amounts of devices."""
    return tuple(sorted((*(pair for pair in there if pair[0] not in (*_AMOUNTS, RESOURCE)), *amounts)))


def amounts_in(requests: Requests) -> Requests:
    """Return the amounts of devices among the requests."""
    return tuple(pair for pair in requests if pair[0] in _AMOUNTS)


def foreseen(amounts: Requests) -> Requests:
    """Return the amounts of devices, without the amount that kube-scheduler alone counts."""
    return tuple(pair for pair in amounts if pair[0] != PARTS)


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


def choose(
    specs: Mapping[str, ClaimSpec], node: str, there: Sequence[DeviceKey], in_use: Collection[DeviceKey]
) -> dict[str, Allocation] | None:
    """Devices for these claims, by UID, as kube-scheduler finds them: the first that fit, with other choices tried.

    ``there``: the devices of the node, of which some are ``in_use``.
    """
    wanted = [(uid, request.alternatives) for uid, spec in specs.items() for request in spec.requests]
    free = _free([key.device for key in there], [key.device for key in there if key in in_use])
    chosen = _assign(wanted, [key for key in there if key.device in free], there)
    if chosen is None:
        return None
    return {uid: Allocation(tuple(device for whose, device in chosen if whose == uid), at(node)) for uid in specs}


_Chosen = list[tuple[str, DeviceKey]]


def _assign(
    wanted: Sequence[tuple[str, Sequence[DeviceRequest]]], free: list[DeviceKey], there: Sequence[DeviceKey]
) -> _Chosen | None:
    """The devices of all requests; of each the first alternative that leaves enough to the others."""
    if not wanted:
        return []
    (uid, alternatives), rest = wanted[0], wanted[1:]
    tries = (_take(uid, request, request.count or 0, rest, free, there) for request in alternatives)
    return next((chosen for chosen in tries if chosen is not None), None)


def _take(
    uid: str,
    request: DeviceRequest,
    count: int,
    rest: Sequence[tuple[str, Sequence[DeviceRequest]]],
    free: list[DeviceKey],
    there: Sequence[DeviceKey],
) -> _Chosen | None:
    """Take ``count`` more devices for the request, and those of the ``rest``."""
    if request.admin and sum(_suits(device, request) for device in there) < count:
        return None
    if request.admin or not count:
        return _assign(rest, free, there)
    tried: set[str] = set()
    for device in free:
        kind = _kind_of(device.device)
        if not _suits(device, request) or kind in tried:
            continue
        tried.add(kind)  # another one of the same kind leaves the same to the others
        left = [other for other in free if other != device and not _exclude(other.device, device.device)]
        if (chosen := _take(uid, request, count - 1, rest, left, there)) is not None:
            return [(uid, device), *chosen]
    return None


def _suits(device: DeviceKey, request: DeviceRequest) -> bool:
    kind = _kind_of(device.device)
    return kind in _KINDS_OF[request.device_class] and (kind != "worn" or bool(request.tolerations))
