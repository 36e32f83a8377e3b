"""Devices that drivers publish, and the claims by which pods ask for them (``resource.k8s.io``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import NamedTuple

from policies.model.node import Taint, Terms, Toleration


class Quantity(NamedTuple):
    """The amount of a capacity, exactly."""

    amount: Fraction


class Version(NamedTuple):
    """A semantic version. ``pre``: the parts of a pre-release, numbers before words; empty without one."""

    major: int
    minor: int
    patch: int
    pre: tuple[tuple[int, int, str], ...] = ()


class Flag(Enum):
    """A boolean attribute: True and 1 would be one key of a dictionary."""

    NO = False
    YES = True


Path = tuple[str, ...]
"""The path of a fact: ``("driver",)``, ``("attributes", domain)``, or ``("attributes", domain, name)``."""
Value = Flag | int | str | Version | Quantity
Facts = Mapping[Path, Value]
"""The facts of a device that selectors read. A domain that exists has the value ``Flag.YES``."""
EXTENDED_USE = "resource.kubernetes.io/extended-resource-claim"
"""The annotation of a claim that kube-scheduler makes for a pod's extended resources, and the claim's ``use``."""

DOMAIN_DRIVER = "compute-domain.nvidia.com"
"""The driver of the channels and daemons of ComputeDomains."""
DOMAIN_LABEL = "resource.nvidia.com/computeDomain"
"""The label of the nodes that NVIDIA's driver has prepared for a ComputeDomain: its UID."""


class PoolKey(NamedTuple):
    """A pool of devices; names of pools are unique for each driver."""

    driver: str
    pool: str


class DeviceKey(NamedTuple):
    """A device, as allocations name it."""

    driver: str
    pool: str
    device: str


@dataclass(frozen=True, slots=True)
class Reach:
    """The nodes that reach a device: that ``node``, nodes that match any of the ``terms``, or without both all."""

    node: str = ""
    terms: Terms | None = None


@dataclass(frozen=True, slots=True)
class Device:
    """A device of a slice.

    ``reach``: set if each device of the slice states its own.
    ``uncounted``: why it may serve several claims at a time, such as shares; empty for most.
    ``partition``: it shares counters with other devices.
    """

    name: str
    facts: Facts
    taints: tuple[Taint, ...] = ()
    reach: Reach | None = None
    uncounted: str = ""
    partition: bool = False


@dataclass(frozen=True, slots=True)
class Slice:
    """A ResourceSlice: a part of a pool. ``slices``: how many the pool has in this ``generation``."""

    name: str
    pool: PoolKey
    generation: int
    slices: int
    reach: Reach
    devices: tuple[Device, ...] = ()


@dataclass(frozen=True, slots=True)
class TaintRule:
    """A DeviceTaintRule: the devices with that driver, pool and name have the taint; empty for any."""

    name: str
    taint: Taint
    driver: str = ""
    pool: str = ""
    device: str = ""

    def concerns(self, key: DeviceKey) -> bool:
        """Whether the rule gives the device the taint."""
        ids = (self.driver, self.pool, self.device)
        return all(name in ("", of) for name, of in zip(ids, key, strict=True))


class DeviceRequirement(NamedTuple):
    """A demand on a device: selectors of the class, then of the request, and the tolerated taints."""

    device_class: str
    selectors: tuple[str, ...] = ()
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """Devices of one class.

    ``count``: how many; None for all that match on the node.
    ``admin``: they may be in use.
    ``uncounted``: a demand beyond whole devices, such as a capacity; empty for most.
    """

    device_class: str
    selectors: tuple[str, ...] = ()
    count: int | None = 1
    admin: bool = False
    tolerations: tuple[Toleration, ...] = ()
    uncounted: str = ""


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """A request of a claim: the first of the ``alternatives`` that can be met; most often there is only one."""

    name: str
    alternatives: tuple[DeviceRequest, ...]


@dataclass(frozen=True, slots=True)
class ClaimSpec:
    """The requests of a claim.

    ``constraints``: what its devices must have in common, in words.
    ``domain``: the UID of the ComputeDomain that it is for, or empty.
    ``daemon``: it is for a daemon of the domain, and no channel.
    """

    requests: tuple[ClaimRequest, ...] = ()
    constraints: tuple[str, ...] = ()
    domain: str = ""
    daemon: bool = False


@dataclass(frozen=True, slots=True)
class Allocation:
    """The devices of a claim, without those of admin access, and the nodes that reach them; None for all."""

    devices: tuple[DeviceKey, ...] = ()
    nodes: Terms | None = None


@dataclass(frozen=True, slots=True)
class DeviceClaim:
    """A ResourceClaim.

    ``reserved_for``: the UIDs of its consumers.
    ``owner``: the UID of the pod for which it was made, as its claim ``use``; both empty for one that pods name
    themselves.
    """

    namespace: str
    name: str
    uid: str
    spec: ClaimSpec = ClaimSpec()
    allocation: Allocation | None = None
    reserved_for: tuple[str, ...] = ()
    owner: str = ""
    use: str = ""


@dataclass(frozen=True, slots=True)
class ClaimTemplate:
    """A ResourceClaimTemplate: a claim is made of it for each pod."""

    namespace: str
    name: str
    spec: ClaimSpec = ClaimSpec()


@dataclass(frozen=True, slots=True)
class ComputeDomain:
    """A ComputeDomain of NVIDIA's driver: pods whose GPUs share memory over NVLink.

    ``template``: the template of its pods' channels.
    ``nodes``: how many nodes it states; 0 for any number.
    """

    namespace: str
    name: str
    uid: str
    template: str = ""
    nodes: int = 0

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class ClaimUse(NamedTuple):
    """A claim of a pod, by its name in the pod: the ``claim`` that users made, or one made of the ``template``."""

    name: str
    claim: str = ""
    template: str = ""
