"""Objects that Kueue leaves behind without its controller: webhooks without an answer, and finalizers.

Kueue's CRDs convert between their versions by a webhook, and its admission webhooks fail closed. Without its service
no job, pod or queue object in their rules can be written. Queue objects can be read in one version only.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from extender.cli.doctor.finding import Finding, error, warning
from extender.kube.queues.resources import CLASSES, QUEUE_GROUP, QUEUE_KINDS, WORKLOADS

Tree = Mapping[str, Any]
Read = Callable[[str, str], Awaitable[Tree | None]]
"""Reads the object at a path, with a subject for messages; None if it does not exist or may not be read."""

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_CONFIGURATIONS = ("validatingwebhookconfigurations", "mutatingwebhookconfigurations")
_PLURALS = (*QUEUE_KINDS, CLASSES, WORKLOADS, "admissionchecks")
_FINALIZERS = ("kueue.x-k8s.io/resource-in-use", "kueue.x-k8s.io/managed")
_MANAGED = "labelSelector=kueue.x-k8s.io/managed%3Dtrue"
_QUEUED = "labelSelector=kueue.x-k8s.io/queue-name"
_MOST = 500
"""The most objects of a kind that are read: some of them are enough to show a fault."""

ServiceName = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class Held:
    """An object that cannot be deleted until its finalizers are removed."""

    resource: str
    namespace: str
    name: str
    finalizers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Objects that Kueue has left behind.

    ``service``: Kueue's service without endpoints.
    ``webhooks``: resource and name of each configuration that calls such a service.
    ``crds``: CRDs whose versions are converted by such a service.
    ``held``: objects with a finalizer of Kueue.
    """

    service: ServiceName = ("", "")
    webhooks: tuple[tuple[str, str], ...] = ()
    crds: tuple[str, ...] = ()
    held: tuple[Held, ...] = ()


async def look(read: Read) -> Leftovers:
    """Find Kueue's leftovers. Only for clusters where Kueue's controller does not run."""
    configurations = [
        (resource, configuration)
        for resource in _CONFIGURATIONS
        for configuration in ((await read(resource, f"{_ADMISSION}/{resource}")) or {}).get("items") or []
    ]
    crds = {
        plural: crd
        for plural in _PLURALS
        if (crd := await read(f"CRD {plural}", f"{CRDS}/{plural}.{QUEUE_GROUP}")) is not None
    }
    services = {service for _, configuration in configurations for service in _admitting(configuration)} | {
        *map(_converting, crds.values())
    }
    dead = {service for service in sorted(services - {("", "")}) if not await _answers(read, service)}
    webhooks = [
        (resource, _name(configuration))
        for resource, configuration in configurations
        if dead & {*_admitting(configuration)}
    ]
    converted = [f"{plural}.{QUEUE_GROUP}" for plural, crd in crds.items() if _converting(crd) in dead]
    held = [held async for held in _held(read, crds)] if crds or configurations else []
    return Leftovers(min(dead, default=("", "")), tuple(webhooks), tuple(converted), tuple(held))


def check(left: Leftovers) -> Iterator[Finding]:
    """Yield a finding for each leftover, with the command that removes it, in the order for running these."""
    where = "/".join(left.service)
    for resource, name in left.webhooks:
        what = f"it asks the service {where} of Kueue, which has no endpoints: what it is about cannot be written"
        yield error("KueueOrphan", name, what, f"kubectl delete {resource.removesuffix('s')} {name}")
    for name in left.crds:
        what = f"it converts by the service {where} of Kueue, which has no endpoints: one version cannot be read"
        patch = '{"spec":{"conversion":{"strategy":"None","webhook":null}}}'
        yield error("KueueOrphan", f"crd/{name}", what, f"kubectl patch crd {name} --type=merge -p '{patch}'")
    for held in left.held:
        theirs = ", ".join(key for key in held.finalizers if key in _FINALIZERS)
        others = json.dumps([key for key in held.finalizers if key not in _FINALIZERS])
        patch = f'{{"metadata":{{"finalizers":{others}}}}}'
        within = f" -n {held.namespace}" if held.namespace else ""
        fix = f"kubectl patch {held.resource} {held.name}{within} --type=merge -p '{patch}'"
        subject = f"{held.resource}/{held.namespace}/{held.name}" if held.namespace else f"{held.resource}/{held.name}"
        what = f"it has the finalizer {theirs}, which only Kueue takes off: it cannot be deleted"
        yield warning("KueueFinalizer", subject, what, fix)


async def _answers(read: Read, service: ServiceName) -> bool:
    """Whether some endpoint of the service is ready, or the service is outside the cluster.

    A service that may not be read is taken as ready.
    """
    namespace, name = service
    path = f"/api/v1/namespaces/{namespace}/services/{name}"
    service_object = await read(f"Service {namespace}/{name}", path)
    if service_object is not None and (service_object.get("spec") or {}).get("type") == "ExternalName":
        return True
    path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?labelSelector=kubernetes.io/service-name"
    slices = await read(f"endpoints of Service {namespace}/{name}", f"{path}%3D{name}")
    if slices is None:
        return True
    endpoints = [end for slice_ in slices.get("items") or [] for end in slice_.get("endpoints") or []]
    return any((endpoint.get("conditions") or {}).get("ready") is not False for endpoint in endpoints)


async def _held(read: Read, crds: Mapping[str, Tree]) -> AsyncIterator[Held]:
    """Find objects with Kueue's finalizers. They are read in the stored version, which needs no conversion."""
    paths = {"pods": f"/api/v1/pods?{_MANAGED}&limit={_MOST}", "jobs": f"/apis/batch/v1/jobs?{_QUEUED}&limit={_MOST}"}
    for plural, crd in crds.items():
        versions = (crd.get("spec") or {}).get("versions") or []
        stored = next(
            (version["name"] for version in versions if version.get("storage") and version.get("served")), None
        )
        if stored is not None:
            paths[f"{plural}.{QUEUE_GROUP}"] = f"/apis/{QUEUE_GROUP}/{stored}/{plural}?limit={_MOST}"
    for resource, path in paths.items():
        for obj in ((await read(resource, path)) or {}).get("items") or []:
            meta = obj.get("metadata") or {}
            finalizers = tuple(meta.get("finalizers") or ())
            if any(key in _FINALIZERS for key in finalizers):
                yield Held(resource, meta.get("namespace") or "", meta.get("name") or "", finalizers)


def _admitting(configuration: Tree) -> Iterator[ServiceName]:
    """The services of Kueue that the configuration calls."""
    for hook in configuration.get("webhooks") or []:
        service = (hook.get("clientConfig") or {}).get("service") or {}
        if "kueue" in service.get("name", ""):
            yield service.get("namespace", ""), service["name"]


def _converting(crd: Tree) -> ServiceName:
    conversion = (crd.get("spec") or {}).get("conversion") or {}
    service = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service") or {}
    return service.get("namespace", ""), service.get("name", "")


def _name(obj: Tree) -> str:
    name: str = obj["metadata"]["name"]
    return name
