"""The kinds that the API server serves, read by one request for all."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from extender.kube.api.connection import read_as
from extender.kube.client import Kube
from extender.kube.reading.objects import Named

Served = tuple[str, str]
"""The version (GROUP/VERSION) and the plural of a kind."""
_ACCEPT = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class _Kind(msgspec.Struct):
    kind: str = ""


class _Resource(msgspec.Struct, rename="camel"):
    resource: str = ""
    response_kind: _Kind | None = None


class _Version(msgspec.Struct):
    version: str = ""
    resources: list[_Resource] | None = None


class _Group(msgspec.Struct):
    metadata: Named | None = None
    versions: list[_Version] | None = None


class _Groups(msgspec.Struct):
    """``apidiscovery.k8s.io/v2`` APIGroupDiscoveryList."""

    items: list[_Group] | None = None


async def served(kube: Kube) -> dict[Served, str]:
    """The name of each kind; empty if the API server cannot list all kinds at once. Raises ApiError."""
    groups = await kube.find("/apis", accept=_ACCEPT)
    return {} if groups is None else dict(_kinds(groups))


def _kinds(answer: bytes) -> Iterator[tuple[Served, str]]:
    for group in read_as(answer, _Groups).items or ():
        name = (group.metadata and group.metadata.name) or ""
        for version in group.versions or ():
            for resource in version.resources or ():
                yield (f"{name}/{version.version}", resource.resource), (resource.response_kind or _Kind()).kind
