"""ResourceSlices, DeviceClasses, ResourceClaims and ResourceClaimTemplates as the API sends them (v1)."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from extender.kube.reading.objects import Amounts, Meta, NodeSelector, Present, TaintObject, Tolerates


class Attribute(Struct, gc=False):
    """An attribute of a device, with one field set. Lists, which are alpha, are not read."""

    string: str | None = None
    integer: int | None = field(default=None, name="int")
    boolean: bool | None = field(default=None, name="bool")
    version: str | None = None


class Capacity(Struct, rename="camel"):
    value: str | int | float | None = None


class DeviceObject(Struct, rename="camel"):
    name: str | None = None
    attributes: dict[str, Attribute] | None = None
    capacity: dict[str, Capacity] | None = None
    taints: list[TaintObject] | None = None
    consumes_counters: list[Present] | None = None
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    allow_multiple_allocations: bool | None = None


class Pool(Struct, rename="camel"):
    name: str | None = None
    generation: int | None = None
    resource_slice_count: int | None = None


class SliceSpec(Struct, rename="camel"):
    driver: str | None = None
    pool: Pool | None = None
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: list[DeviceObject] | None = None


class SliceObject(Struct):
    """ResourceSlice."""

    metadata: Meta | None = None
    spec: SliceSpec | None = None


class TaintedDevices(Struct):
    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class TaintRuleSpec(Struct, rename="camel"):
    device_selector: TaintedDevices | None = None
    taint: TaintObject | None = None


class TaintRuleObject(Struct):
    """DeviceTaintRule."""

    metadata: Meta | None = None
    spec: TaintRuleSpec | None = None


class Cel(Struct):
    expression: str | None = None


class SelectorObject(Struct):
    cel: Cel | None = None


class DeviceClassSpec(Struct, rename="camel"):
    extended_resource_name: str | None = None
    selectors: list[SelectorObject] | None = None


class DeviceClassObject(Struct):
    """DeviceClass."""

    metadata: Meta | None = None
    spec: DeviceClassSpec | None = None


class CapacityRequests(Struct):
    requests: Amounts | None = None


class ExactRequest(Struct, rename="camel"):
    """The field ``exactly`` of a request, or an item of ``firstAvailable``, which has no admin access."""

    device_class_name: str | None = None
    selectors: list[SelectorObject] | None = None
    allocation_mode: str | None = None
    count: int | None = None
    admin_access: bool | None = None
    tolerations: list[Tolerates] | None = None
    capacity: CapacityRequests | None = None


class RequestObject(Struct, rename="camel"):
    name: str | None = None
    exactly: ExactRequest | None = None
    first_available: list[ExactRequest] | None = None


class ConstraintObject(Struct, rename="camel"):
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class Opaque(Struct):
    """Configuration for a driver. ``parameters`` have any form, since each driver has its own."""

    driver: str | None = None
    parameters: Any = None


class ConfigObject(Struct):
    opaque: Opaque | None = None


class DevicesSpec(Struct):
    requests: list[RequestObject] | None = None
    constraints: list[ConstraintObject] | None = None
    config: list[ConfigObject] | None = None


class ClaimSpecObject(Struct):
    devices: DevicesSpec | None = None


class Result(Struct, rename="camel"):
    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    admin_access: bool | None = None


class Results(Struct):
    results: list[Result] | None = None


class AllocationObject(Struct, rename="camel"):
    devices: Results | None = None
    node_selector: NodeSelector | None = None


class Consumer(Struct):
    uid: str | None = None


class ClaimStatusObject(Struct, rename="camel"):
    allocation: AllocationObject | None = None
    reserved_for: list[Consumer] | None = None


class ResourceClaimObject(Struct):
    """ResourceClaim."""

    metadata: Meta | None = None
    spec: ClaimSpecObject | None = None
    status: ClaimStatusObject | None = None


class TemplateSpec(Struct):
    spec: ClaimSpecObject | None = None


class ResourceClaimTemplateObject(Struct):
    """ResourceClaimTemplate."""

    metadata: Meta | None = None
    spec: TemplateSpec | None = None


class ChannelTemplate(Struct):
    name: str | None = None


class Channel(Struct, rename="camel"):
    resource_claim_template: ChannelTemplate | None = None


class ComputeDomainSpec(Struct, rename="camel"):
    num_nodes: int | None = None
    channel: Channel | None = None


class ComputeDomainObject(Struct):
    """ComputeDomain of resource.nvidia.com/v1beta1."""

    metadata: Meta | None = None
    spec: ComputeDomainSpec | None = None
