"""Devices for scripts: slices of nodes, classes, and gangs whose pods have claims of them."""

from __future__ import annotations

from dataclasses import replace

from extender.core.events import ClaimTemplateSeen, DeviceClaimSeen, DeviceClassSeen, SliceSeen
from policies.model import Pod, Requirement, Terms
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
    PoolKey,
    Reach,
    Slice,
)
from tests.builders import gang
from tests.policies.devices.vendors import DEVICES, NVIDIA

CLASS = DeviceClassSeen(NVIDIA, "", ("device.driver == 'gpu.nvidia.com'",))
LARGE = "device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity('40Gi'))"


def devices(node: str, *kinds: str, reach: Reach | None = None) -> SliceSeen:
    """The slice of a node, with devices of these kinds: ``h100-0``, ``h100-1``, ..."""
    made = tuple(Device(f"{kind}-{number}", DEVICES[kind].facts()) for number, kind in enumerate(kinds))
    return SliceSeen(Slice(node, PoolKey(NVIDIA, node), 1, 1, reach or Reach(node), made))


def gpus(*nodes: str, count: int = 8) -> list[SliceSeen]:
    return [devices(node, *["h100"] * count) for node in nodes]


def request(count: int | None = 1, *selectors: str, name: str = "gpu", **more: bool | str) -> ClaimRequest:
    return ClaimRequest(name, (DeviceRequest(NVIDIA, selectors, count, **more),))  # type: ignore[arg-type]


def template(*requests: ClaimRequest, name: str = "gpus") -> ClaimTemplateSeen:
    return ClaimTemplateSeen(ClaimTemplate("default", name, ClaimSpec(requests)))


def with_template(name: str, count: int, template: str = "gpus", **facts: object) -> list[Pod]:
    """A gang whose pods have a claim of that template each, and request no other GPUs."""
    return [replace(pod, device_claims=(ClaimUse("gpu", "", template),)) for pod in gang(name, count, gpus=0, **facts)]  # type: ignore[arg-type]


def with_claim(name: str, count: int, claim: str = "shared") -> list[Pod]:
    """A gang whose pods share a claim."""
    return [replace(pod, device_claims=(ClaimUse("gpu", claim, ""),)) for pod in gang(name, count, gpus=0)]


def at(node: str) -> Terms:
    return ((Requirement("metadata.name", "In", (node,), is_field=True),),)


def claim(
    name: str,
    *requests: ClaimRequest,
    pod: Pod | None = None,
    node: str = "",
    devices: tuple[str, ...] = (),
    extended: bool = False,
) -> DeviceClaimSeen:
    """A claim, of a pod if ``pod`` is given.

    ``devices``: allocated ones of that node. ``extended``: for the pod's resources.
    """
    held = tuple(DeviceKey(NVIDIA, node, device) for device in devices)
    allocation = Allocation(held, at(node)) if node else None
    owner, use = ("", "") if pod is None else (pod.uid, EXTENDED_USE if extended else "gpu")
    reserved = (pod.uid,) if pod is not None and node else ()
    return DeviceClaimSeen(
        DeviceClaim("default", name, f"uid-{name}", ClaimSpec(requests), allocation, reserved, owner, use)
    )
