"""Devices in a snapshot: drivers' slices, and pods' claims with their allocations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import msgspec
from msgspec import Struct, field

from extender.core.events import (
    ClaimTemplateSeen,
    ComputeDomainSeen,
    ComputeDomainsListed,
    DeviceClaimSeen,
    DeviceEvent,
    SliceSeen,
    TaintRuleSeen,
)
from extender.kube.client import Kube
from extender.kube.convert import readable
from extender.kube.devices.objects import (
    ClaimSpecObject,
    ComputeDomainObject,
    ConfigObject,
    DeviceClassObject,
    Opaque,
    ResourceClaimObject,
    ResourceClaimTemplateObject,
    SliceObject,
    TaintRuleObject,
)
from extender.kube.devices.reading import (
    TARGET,
    USE,
    claim_from,
    class_from,
    domain_from,
    slice_from,
    taint_rule_from,
    template_from,
)
from extender.kube.reading.objects import Meta
from extender.kube.resources import CLAIM_TEMPLATES, COMPUTE_DOMAINS, DEVICE_CLAIMS, DEVICE_CLASSES, SLICES, TAINT_RULES
from extender.kube.snapshots.jobs import listed
from policies.model.devices import DOMAIN_DRIVER, DOMAIN_LABEL, EXTENDED_USE

ObjectT = TypeVar(
    "ObjectT",
    DeviceClassObject,
    TaintRuleObject,
    SliceObject,
    ComputeDomainObject,
    ResourceClaimTemplateObject,
    ResourceClaimObject,
)
_READ = frozenset((USE, EXTENDED_USE, DOMAIN_LABEL, TARGET))
"""The labels and annotations of claims and templates that a decision reads."""


class DeviceObjects(Struct, rename="camel"):
    """All objects of ``resource.k8s.io``, and ComputeDomains; empty where the API server does not serve them."""

    classes: list[DeviceClassObject] = field(default_factory=list)
    taint_rules: list[TaintRuleObject] = field(default_factory=list)
    slices: list[SliceObject] = field(default_factory=list)
    compute_domains: list[ComputeDomainObject] = field(default_factory=list)
    claim_templates: list[ResourceClaimTemplateObject] = field(default_factory=list)
    claims: list[ResourceClaimObject] = field(default_factory=list)


async def take_devices(kube: Kube) -> DeviceObjects:
    """Read the objects, reduced to what a decision reads. Raises ApiError, or one of ``UNDECODABLE``."""
    return DeviceObjects(
        await _read(kube, DEVICE_CLASSES.path, DeviceClassObject),
        await _read(kube, TAINT_RULES.path, TaintRuleObject),
        await _read(kube, SLICES.path, SliceObject),
        await _read(kube, COMPUTE_DOMAINS.path, ComputeDomainObject),
        [
            _with_spec_reduced(claim_template)
            for claim_template in await _read(kube, CLAIM_TEMPLATES.path, ResourceClaimTemplateObject)
        ],
        [
            _with_spec_reduced(resource_claim)
            for resource_claim in await _read(kube, DEVICE_CLAIMS.path, ResourceClaimObject)
        ],
    )


def device_events(devices: DeviceObjects, unreadable: list[str]) -> Iterator[DeviceEvent]:
    """Yield the core's events; each object comes after the objects that it refers to.

    Unreadable objects are left out, and named in ``unreadable``.
    """
    yield from readable(class_from, devices.classes, unreadable)
    rules = readable(taint_rule_from, devices.taint_rules, unreadable)
    yield from (TaintRuleSeen(rule) for rule in rules if rule is not None)
    yield from map(SliceSeen, readable(slice_from, devices.slices, unreadable))
    yield from map(ComputeDomainSeen, readable(domain_from, devices.compute_domains, unreadable))
    yield ComputeDomainsListed(bool(devices.compute_domains))
    yield from map(ClaimTemplateSeen, readable(template_from, devices.claim_templates, unreadable))
    yield from map(DeviceClaimSeen, readable(claim_from, devices.claims, unreadable))


async def _read(kube: Kube, path: str, kind: type[ObjectT]) -> list[ObjectT]:
    """List a kind. The cluster may not serve it, and the user may lack the right to list it."""
    objects = [msgspec.json.decode(raw, type=kind) for raw in await listed(kube, path, (403, 404)) or ()]
    for obj in objects:
        obj.metadata = _reduced(obj.metadata or Meta())
    return objects


ClaimT = TypeVar("ClaimT", ResourceClaimTemplateObject, ResourceClaimObject)


def _with_spec_reduced(obj: ClaimT) -> ClaimT:
    """The claim without configuration of drivers, except the UID of its ComputeDomain."""
    spec = obj.spec if not isinstance(obj, ResourceClaimTemplateObject) else obj.spec and obj.spec.spec
    if isinstance(spec, ClaimSpecObject) and spec.devices is not None and spec.devices.config:
        opaque = [config.opaque for config in spec.devices.config if config.opaque is not None]
        domains = [
            config for config in opaque if config.driver == DOMAIN_DRIVER and isinstance(config.parameters, dict)
        ]
        of_domains = [
            Opaque(domain.driver, {key: domain.parameters.get(key) for key in ("kind", "domainID")})
            for domain in domains
        ]
        spec.devices.config = [ConfigObject(of_domain) for of_domain in of_domains] or None
    return obj


def _reduced(meta: Meta) -> Meta:
    labels, annotations = (
        {key: value for key, value in (mapping or {}).items() if key in _READ}
        for mapping in (meta.labels, meta.annotations)
    )
    return Meta(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        labels=labels or None,
        annotations=annotations or None,
        owner_references=[owner for owner in meta.owner_references or () if owner.controller] or None,
    )
