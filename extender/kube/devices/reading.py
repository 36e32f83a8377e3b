"""Turn the API server's device objects into the nouns of ``policies.model.devices``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from extender.core.events import DeviceClassSeen
from extender.kube.devices.objects import (
    Attribute,
    Channel,
    ChannelTemplate,
    ClaimSpecObject,
    ComputeDomainObject,
    ComputeDomainSpec,
    ConstraintObject,
    DeviceClassObject,
    DeviceClassSpec,
    DeviceObject,
    DevicesSpec,
    ExactRequest,
    RequestObject,
    ResourceClaimObject,
    ResourceClaimTemplateObject,
    SelectorObject,
    SliceObject,
    SliceSpec,
    TaintRuleObject,
    TaintRuleSpec,
)
from extender.kube.reading.constraints import selection_of, taints_of, tolerations_of
from extender.kube.reading.identity import UnreadableError, identity, name_of, owning_pod
from extender.kube.reading.objects import Affinity, Meta, NodeAffinity, NodeSelector, PodSpec
from extender.kube.reading.plain import plain
from policies.devices.selectors import version
from policies.model import Terms
from policies.model.devices import (
    DOMAIN_DRIVER,
    DOMAIN_LABEL,
    EXTENDED_USE,
    Allocation,
    ClaimRequest,
    ClaimSpec,
    ClaimTemplate,
    ComputeDomain,
    Device,
    DeviceClaim,
    DeviceKey,
    DeviceRequest,
    Facts,
    Flag,
    Path,
    PoolKey,
    Quantity,
    Reach,
    Slice,
    TaintRule,
    Value,
)
from policies.model.quantities import exact

USE = "resource.kubernetes.io/pod-claim-name"
"""The annotation of a claim that was made for a pod: the name of the claim within the pod."""
TARGET = "resource.nvidia.com/computeDomainTarget"
"""The label that says whether the claim is for pods of workloads or for daemons of the domain."""
_CHANNEL, _DAEMON = "ComputeDomainChannelConfig", "ComputeDomainDaemonConfig"
_HARD = ("NoSchedule", "NoExecute")


def slice_from(obj: SliceObject) -> Slice:
    """Read a slice. Raises UnreadableError without a name, driver or pool, or if its node selector is too large."""
    name, spec = name_of(obj.metadata, "ResourceSlice"), obj.spec or SliceSpec()
    pool = spec.pool
    if not spec.driver or pool is None or not pool.name:
        raise UnreadableError(f"ResourceSlice {name} has no driver, or no pool")
    each = bool(spec.per_device_node_selection)
    devices = tuple(_device(device, spec.driver, name, each=each) for device in spec.devices or () if device.name)
    reach = Reach() if each else _reach(spec.node_name, spec.node_selector, name)
    key = PoolKey(_once(spec.driver), _once(pool.name))
    return Slice(name, key, pool.generation or 0, pool.resource_slice_count or 1, reach, devices)


def _device(device: DeviceObject, driver: str, name: str, *, each: bool) -> Device:
    taints = tuple(taint for taint in taints_of(device.taints or ()) if taint.effect in _HARD)
    shared = "several claims at a time" if device.allow_multiple_allocations else ""
    reach = _reach(device.node_name, device.node_selector, name) if each else None
    partition = bool(device.consumes_counters)
    return Device(_once(device.name or ""), _facts(device, driver), taints, reach, shared, partition)


def _facts(device: DeviceObject, driver: str) -> Facts:
    """The facts that selectors read of a device. Unreadable ones are left out, so selectors on them fail as in
    kube-scheduler."""
    facts: dict[Path, Value] = {_path("driver"): _once(driver)}
    for name, attribute in (device.attributes or {}).items():
        if (value := _value(attribute)) is not None:
            domain, short = _qualified(name, driver)
            facts[_path("attributes", domain)] = Flag.YES
            facts[_path("attributes", domain, short)] = value
    for name, capacity in (device.capacity or {}).items():
        domain, short = _qualified(name, driver)
        facts[_path("capacity", domain)] = Flag.YES
        try:
            facts[_path("capacity", domain, short)] = _quantity(str(capacity.value))
        except ValueError:
            continue
    return facts


def _value(attribute: Attribute) -> Value | None:
    if attribute.string is not None:
        return _once(attribute.string)
    if attribute.boolean is not None:
        return Flag(attribute.boolean)
    if attribute.integer is not None:
        return attribute.integer
    return None if attribute.version is None else version(attribute.version)


@lru_cache(maxsize=4096)
def _quantity(text: str) -> Quantity:
    return Quantity(exact(text))


@lru_cache(maxsize=65536)
def _once(text: str) -> str:
    """The same object for all devices with the same text."""
    return text


@lru_cache(maxsize=4096)
def _path(*parts: str) -> Path:
    return parts


def _qualified(name: str, driver: str) -> tuple[str, str]:
    domain, _, short = name.rpartition("/")
    return domain or driver, short


def _reach(node: str | None, selector: NodeSelector | None, name: str) -> Reach:
    return Reach(_once(node or ""), None if node else _terms(selector, f"ResourceSlice {name}"))


def _terms(selector: NodeSelector | None, whose: str) -> Terms | None:
    """The terms of the node selector; None for every node."""
    if selector is None:
        return None
    nodes = selection_of(PodSpec(affinity=Affinity(NodeAffinity(selector))))
    if nodes is None:
        raise UnreadableError(f"{whose} has a node selector that is too large")
    return nodes.affinity


def taint_rule_from(obj: TaintRuleObject) -> TaintRule | None:
    """Read a taint rule; None if it keeps claims from no device. Raises UnreadableError without a name.

    Without a selector the rule covers no device, with an empty one every device.
    """
    name, spec = name_of(obj.metadata, "DeviceTaintRule"), obj.spec or TaintRuleSpec()
    where, taints = spec.device_selector, taints_of([spec.taint] if spec.taint is not None else ())
    if where is None or not taints or taints[0].effect not in _HARD:
        return None
    return TaintRule(name, taints[0], where.driver or "", where.pool or "", where.device or "")


def class_from(obj: DeviceClassObject) -> DeviceClassSeen:
    """Read a class. Raises UnreadableError without a name."""
    spec = obj.spec or DeviceClassSpec()
    name = name_of(obj.metadata, "DeviceClass")
    return DeviceClassSeen(name, plain(spec.extended_resource_name or ""), tuple(_expressions(spec.selectors)))


def _expressions(selectors: Iterable[SelectorObject] | None) -> Iterator[str]:
    """Yield the expressions. A selector without CEL belongs to a later version, and is refused by its name."""
    return (selector.cel.expression or "" if selector.cel is not None else "no cel" for selector in selectors or ())


def template_from(obj: ResourceClaimTemplateObject) -> ClaimTemplate:
    """Read a template. Raises UnreadableError without a name or a namespace."""
    _, namespace, name = identity(obj.metadata or Meta(), "ResourceClaimTemplate")
    return ClaimTemplate(namespace, name, _spec(obj.spec.spec if obj.spec is not None else None, obj.metadata))


def claim_from(obj: ResourceClaimObject) -> DeviceClaim:
    """Read a claim. Raises UnreadableError without a UID, a name or a namespace."""
    meta, status = obj.metadata or Meta(), obj.status
    uid, namespace, name = identity(meta, "ResourceClaim")
    given = status.allocation if status is not None else None
    allocation = None
    if given is not None:
        results = given.devices.results if given.devices is not None else None
        devices = tuple(
            DeviceKey(result.driver or "", result.pool or "", result.device or "")
            for result in results or ()
            if not result.admin_access
        )
        allocation = Allocation(devices, _terms(given.node_selector, f"ResourceClaim {name}"))
    reserved = tuple(consumer.uid or "" for consumer in (status.reserved_for if status is not None else None) or ())
    annotations = meta.annotations or {}
    use = plain(annotations.get(USE, "")) or (EXTENDED_USE if EXTENDED_USE in annotations else "")
    return DeviceClaim(namespace, name, uid, _spec(obj.spec, meta), allocation, reserved, owning_pod(meta), use)


def domain_from(obj: ComputeDomainObject) -> ComputeDomain:
    """Read a ComputeDomain. Raises UnreadableError without a UID, a name or a namespace."""
    uid, namespace, name = identity(obj.metadata or Meta(), "ComputeDomain")
    spec = obj.spec or ComputeDomainSpec()
    template = (spec.channel or Channel()).resource_claim_template or ChannelTemplate()
    return ComputeDomain(namespace, name, uid, plain(template.name or ""), max(0, spec.num_nodes or 0))


def _spec(spec: ClaimSpecObject | None, meta: Meta | None) -> ClaimSpec:
    devices = spec.devices if spec is not None else None
    if devices is None:
        return ClaimSpec()
    return ClaimSpec(
        tuple(_request(request) for request in devices.requests or ()),
        tuple(_constraint(constraint) for constraint in devices.constraints or ()),
        *_domain(devices, meta),
    )


def _domain(devices: DevicesSpec, meta: Meta | None) -> tuple[str, bool]:
    """The UID of the claim's ComputeDomain, and whether the claim is for a daemon.

    The driver's controller labels the claim with both. Without labels the opaque configuration counts, which the driver
    reads.
    """
    labels = (meta.labels if meta is not None else None) or {}
    if (uid := labels.get(DOMAIN_LABEL)) and (target := labels.get(TARGET)) in ("Workload", "Daemon"):
        return plain(uid), target == "Daemon"
    for config in devices.config or ():
        opaque = config.opaque
        parameters = opaque.parameters if opaque is not None and opaque.driver == DOMAIN_DRIVER else None
        if isinstance(parameters, dict) and (kind := parameters.get("kind")) in (_CHANNEL, _DAEMON):
            return plain(str(parameters.get("domainID") or "")), kind == _DAEMON
    return "", False


def _request(request: RequestObject) -> ClaimRequest:
    """Convert a request. One of neither kind belongs to a later version."""
    name = plain(request.name or "")
    if request.first_available:
        return ClaimRequest(name, tuple(_exact(exact_request) for exact_request in request.first_available))
    if request.exactly is not None:
        return ClaimRequest(name, (_exact(request.exactly),))
    return ClaimRequest(name, (DeviceRequest("", uncounted="a request of a kind that is not known"),))


def _exact(request: ExactRequest) -> DeviceRequest:
    count = None if request.allocation_mode == "All" else request.count or 1
    known = request.allocation_mode in (None, "", "All", "ExactCount")
    shares = request.capacity is not None and request.capacity.requests
    return DeviceRequest(
        plain(request.device_class_name or ""),
        tuple(_expressions(request.selectors)),
        count,
        admin=bool(request.admin_access),
        tolerations=tolerations_of(request.tolerations or ()),
        uncounted="a share of a device's capacity" if shares else "" if known else "a mode that is not known",
    )


def _constraint(constraint: ConstraintObject) -> str:
    """A constraint in words for people."""
    if constraint.match_attribute:
        return f"devices with the same {plain(constraint.match_attribute)}"
    if constraint.distinct_attribute:
        return f"devices with different {plain(constraint.distinct_attribute)}"
    return "a constraint of a kind that is not known"
