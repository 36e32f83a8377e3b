"""ComputeDomains for scripts: the slices of nodes, the driver's templates, and gangs that have channels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from extender.core.events import ClaimTemplateSeen, ComputeDomainSeen, DeviceClaimSeen, DeviceClassSeen, SliceSeen
from policies.model import Pod
from policies.model.devices import (
    DOMAIN_LABEL,
    Allocation,
    ClaimRequest,
    ClaimSpec,
    ClaimTemplate,
    ClaimUse,
    ComputeDomain,
    Device,
    DeviceClaim,
    DeviceKey,
    DeviceRequest,
    PoolKey,
    Reach,
    Slice,
)
from tests.builders import cluster, gang, node
from tests.core.devices import at
from tests.core.script import Script
from tests.policies.devices.vendors import IMEX, Published

CHANNEL, DAEMON = "compute-domain-default-channel.nvidia.com", "compute-domain-daemon.nvidia.com"
CLASSES = (
    DeviceClassSeen(CHANNEL, "", (f"device.driver == '{IMEX}' && device.attributes['{IMEX}'].type == 'channel'",)),
    DeviceClassSeen(DAEMON, "", (f"device.driver == '{IMEX}' && device.attributes['{IMEX}'].type == 'daemon'",)),
)
LABEL = DOMAIN_LABEL


def fabric(node: str) -> SliceSeen:
    """The slice that the driver publishes of a node beside its GPUs: a channel and a daemon."""
    kinds = ("channel", "daemon")
    devices = tuple(Device(f"{kind}-0", Published(IMEX, {"type": kind, "id": 0}).facts()) for kind in kinds)
    return SliceSeen(Slice(f"{node}-imex", PoolKey(IMEX, node), 1, 1, Reach(node), devices))


def spec(uid: str, *, daemon: bool = False) -> ClaimSpec:
    kind = "daemon" if daemon else "channel"
    return ClaimSpec((ClaimRequest(kind, (DeviceRequest(DAEMON if daemon else CHANNEL),)),), (), uid, daemon)


def domain(name: str, nodes: int = 0, namespace: str = "default") -> ComputeDomainSeen:
    return ComputeDomainSeen(ComputeDomain(namespace, name, f"uid-{name}", f"{name}-channel", nodes))


def template(name: str, namespace: str = "default") -> ClaimTemplateSeen:
    """The template that the driver's controller makes for the pods of a domain."""
    return ClaimTemplateSeen(ClaimTemplate(namespace, f"{name}-channel", spec(f"uid-{name}")))


def in_domain(name: str, count: int, *, of: str = "", gpus: int = 4, **facts: object) -> list[Pod]:
    """A gang whose pods have a channel of the domain ``of``, or of one of its own name."""
    uses = (ClaimUse("channel", "", f"{of or name}-channel"),)
    return [replace(pod, device_claims=uses) for pod in gang(name, count, gpus=gpus, **facts)]  # type: ignore[arg-type]


def allocated(pod: Pod, of: str, node: str) -> DeviceClaimSeen:
    """The claim that was made for the pod, with the channel of that node."""
    held = Allocation((DeviceKey(IMEX, node, "channel-0"),), at(node))
    made = DeviceClaim("default", f"{pod.name}-channel", f"claim-{pod.uid}", spec(f"uid-{of}"), held, (pod.uid,))
    return DeviceClaimSeen(replace(made, owner=pod.uid, use="channel"))


ScriptT = TypeVar("ScriptT", bound=Script)


def racks(*cliques: str, domains: tuple[str, ...] = (), host_managed: bool = False, **how: Any) -> Script:
    """Cliques whose nodes have channels, a node of the control plane without, and domains with their templates."""
    return racks_of(Script, *cliques, domains=domains, host_managed=host_managed, **how)


def racks_of(
    script_type: type[ScriptT], *cliques: str, domains: tuple[str, ...] = (), host_managed: bool = False, **how: Any
) -> ScriptT:
    """The same, for another kind of script."""
    nodes = cluster(*cliques)
    plane = node("plane-0", 0, labels={"node-role.kubernetes.io/control-plane": ""})
    script = script_type(*nodes, plane, **how)
    for event in CLASSES[: 1 if host_managed else 2]:
        script.feed(event)
    for machine in nodes:
        script.feed(fabric(machine.name))
    for name in domains:
        script.feed(domain(name))
        script.feed(template(name))
    return script
