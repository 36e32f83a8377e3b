"""The objects that Muster has made for jobs: the Workloads that show them, and what it asked for nodes with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import NamedTuple

import msgspec

from extender.cli.release.steps import Step
from extender.kube.api.connection import ApiError
from extender.kube.client import Kube
from extender.kube.queues.capacity import CAPACITY
from extender.kube.queues.resources import PROVISIONING, VERSIONS, path_of
from extender.kube.queues.workloads import RECORD
from extender.kube.reading.objects import UNDECODABLE, AnyObject

DELETED = "it is deleted: Muster made it"


class _Kind(NamedTuple):
    """``paths``: of its versions, of which the first that is served is asked for. ``label``: of those that are ours."""

    name: str
    paths: tuple[str, ...]
    label: str


_KINDS = (
    _Kind("Workload", tuple(path_of(one, "workloads") for one in VERSIONS), f"{RECORD}=true"),
    _Kind("ProvisioningRequest", ("/apis/{}/{}".format(*PROVISIONING),), CAPACITY),
    _Kind("PodTemplate", ("/api/v1/podtemplates",), CAPACITY),
)


async def made(kube: Kube) -> AsyncIterator[Step | str]:
    """A step for each object; or why some cannot be looked at."""
    for kind in _KINDS:
        for path in kind.paths:
            try:
                async for page in kube.list_pages(path, labels=kind.label):
                    for raw in page.items:
                        yield _step(kind, path, raw)
                break
            except ApiError as error:
                if error.status != 404:
                    yield f"{kind.name} objects cannot be read: {error}"
                    break


def _step(kind: _Kind, path: str, raw: msgspec.Raw) -> Step | str:
    try:
        meta = msgspec.json.decode(raw, type=AnyObject).metadata
    except UNDECODABLE as error:
        return f"a {kind.name} cannot be read: {error}"
    if meta is None or not (meta.name and meta.namespace and meta.uid):
        return f"a {kind.name} lacks its name, namespace or UID"
    above, _, plural = path.rpartition("/")
    place = f"{above}/namespaces/{meta.namespace}/{plural}/{meta.name}"
    return Step(meta.namespace, kind.name, meta.name, (DELETED,), partial(_delete, place, meta.uid))


async def _delete(path: str, uid: str, kube: Kube) -> None:
    await kube.call("DELETE", path, body={"preconditions": {"uid": uid}})
