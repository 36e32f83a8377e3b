"""Removes the traces of load tests: namespaces with their label and name, and the objects in them."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from extender.cli.bench.plan import NAMESPACES, OWNER, PREFIX, RUN, started
from extender.kube.api.connection import ApiError, UnreachableError
from extender.kube.client import Kube
from extender.kube.reading.objects import AnyObject, Meta
from policies.words import listed, many

_LOOK_EVERY_S = 0.25
_COUNT_EVERY_S = 5.0
_KINDS = {"pod": "/api/v1/namespaces/{}/pods", "Job": "/apis/batch/v1/namespaces/{}/jobs"}


@dataclass(frozen=True, slots=True)
class Leftover:
    """The namespace of a run that may have crashed. ``owner``: the host and process that made it."""

    namespace: str
    uid: str
    run: str
    owner: str

    @property
    def alive(self) -> str:
        """Explain why its run may still go on; empty if it does not."""
        host, process, start = (*self.owner.split("/"), "", "", "")[:3]
        if host != socket.gethostname():
            return f"it was made on {host or 'an unknown host'}, and its run may still go on there"
        lives = process.isdecimal() and bool(start) and started(int(process)) == start
        return f"its run goes on: process {process} of this host" if lives else ""


@dataclass(frozen=True, slots=True)
class Removed:
    """A namespace after its removal.

    ``counts``: the number of removed objects of each kind.
    ``why_kept``: why the namespace was kept, if it was.
    """

    namespace: str
    counts: dict[str, int]
    why_kept: str = ""

    def __str__(self) -> str:
        counts = " and ".join(many(count, kind) for kind, count in self.counts.items()) or "nothing"
        if self.why_kept:
            return f"kept {self.namespace}: {self.why_kept}; removed from it: {counts}"
        return f"removed {self.namespace}, with {counts} in it"


async def leftovers(kube: Kube) -> list[Leftover]:
    """The namespaces that carry the label and the name of a run. Raises ApiError."""
    runs = []
    async for page in kube.list_pages(NAMESPACES, labels=RUN):
        for raw in page.items:
            meta = msgspec.json.decode(raw, type=AnyObject).metadata or Meta()
            run = (meta.labels or {}).get(RUN, "")
            if run and meta.uid and meta.name == f"{PREFIX}{run}":
                owner = (meta.annotations or {}).get(OWNER, "")
                runs.append(Leftover(meta.name, meta.uid, run, owner))
    return runs


async def remove(kube: Kube, leftover: Leftover, timeout_s: float, note: Callable[[str], None]) -> Removed:
    """Delete the namespace, and wait until it is gone.

    If other clients have objects in it, it stays, and only the run's objects are deleted. Raises ApiError, and
    TimeoutError if no more objects disappear for ``timeout_s`` seconds.
    """
    namespace = leftover.namespace
    own: dict[str, int] = {}
    foreign: list[str] = []
    for kind, path in _KINDS.items():
        metas = await _metas(kube, path.format(namespace))
        own[kind] = sum(1 for meta in metas if (meta.labels or {}).get(RUN) == leftover.run)
        foreign += [f"{kind} {meta.name}" for meta in metas if (meta.labels or {}).get(RUN) != leftover.run]
    counts = {kind: count for kind, count in own.items() if count}
    note(f"removing {namespace}")
    if not foreign:
        await _delete_namespace(kube, leftover)
    paths, left, counted = list(_KINDS.values()), sum(own.values()), time.monotonic()
    async with asyncio.timeout(timeout_s) as limit:
        paths = await _delete_all(kube, paths, leftover)
        while await _is_left(kube, leftover, whole=not foreign):
            await asyncio.sleep(_LOOK_EVERY_S)
            if time.monotonic() - counted < _COUNT_EVERY_S:
                continue
            paths = await _delete_all(kube, paths, leftover)
            still, counted = await _count(kube, leftover), time.monotonic()
            note(f"removing {namespace}: {many(still, 'object')} left")
            if still < left:
                left = still
                limit.reschedule(asyncio.get_running_loop().time() + timeout_s)
    return Removed(namespace, counts, f"others have put {listed(foreign, 3)} into it" if foreign else "")


async def _is_left(kube: Kube, leftover: Leftover, *, whole: bool) -> bool:
    """Whether the namespace still exists; without ``whole``, whether objects of the run do."""
    if not whole:
        return await _count(kube, leftover) > 0
    left = await kube.find(f"{NAMESPACES}/{leftover.namespace}")
    return left is not None and (msgspec.json.decode(left, type=AnyObject).metadata or Meta()).uid == leftover.uid


async def _delete_namespace(kube: Kube, leftover: Leftover) -> None:
    try:
        body: dict[str, Any] = {"preconditions": {"uid": leftover.uid}}
        await kube.call("DELETE", f"{NAMESPACES}/{leftover.namespace}", body=body)
    except ApiError as error:
        if error.status not in (404, 409):  # gone, or on its way already
            raise


async def _count(kube: Kube, leftover: Leftover) -> int:
    """Count the objects of the run that are left."""
    own = f"{RUN}={leftover.run}"
    return sum([len(await _metas(kube, path.format(leftover.namespace), own)) for path in _KINDS.values()])


async def _delete_all(kube: Kube, paths: list[str], leftover: Leftover) -> list[str]:
    """Delete the run's objects; returns the paths without an answer in time, which happens with thousands of pods.

    The namespace controller begins seconds later: until then the pods would run on.
    """
    again = []
    for path in paths:
        query, body = {"labelSelector": f"{RUN}={leftover.run}"}, {"propagationPolicy": "Background"}
        try:
            await kube.call("DELETE", path.format(leftover.namespace), query=query, body=body)
        except UnreachableError:
            again.append(path)
        except ApiError as error:
            if error.status != 404:
                raise
    return again


async def _metas(kube: Kube, path: str, labels: str = "") -> list[Meta]:
    pages = kube.list_pages(path, labels=labels)
    raws = [raw async for page in pages for raw in page.items]
    return [msgspec.json.decode(raw, type=AnyObject).metadata or Meta() for raw in raws]
