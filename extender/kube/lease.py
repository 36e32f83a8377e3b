"""Follows the one Lease by which kube-scheduler elects its leader."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from datetime import datetime

import msgspec

from extender.kube.api.connection import ApiError
from extender.kube.client import Kube
from extender.kube.reading.objects import UNDECODABLE
from extender.observe.sight import Sight
from extender.runtime.election import LeaderElection, Lease

log = logging.getLogger("muster")

_PAUSE_S = 1.0
_WATCH_S = 10
"""Short, because the Lease is renewed every two seconds: a dead watch must not cost a leader more than a term."""
_KIND = "leases"


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: datetime | None = None


class _Lease(msgspec.Struct):
    spec: _Spec | None = None


async def follow(
    kube: Kube,
    election: LeaderElection,
    seen: Callable[[Lease | None], None],
    sight: Sight,
    *,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Report every change of the Lease until cancelled, with None while there is none; ``sight`` learns of every
    answer.

    A list and a watch of one name need no more rights than a Role can give. While the API server is unreachable nothing
    is reported, and leadership expires by itself.
    """
    path = f"/apis/coordination.k8s.io/v1/namespaces/{election.namespace}/leases"
    selector = f"metadata.name={election.name}"
    sight.heard(_KIND)
    while True:
        try:
            version = ""
            lease: Lease | None = None
            async with aclosing(kube.list_pages(path, selector=selector)) as pages:
                async for page in pages:
                    version = page.resource_version
                    lease = next(map(lease_from, page.items), lease)
            if lease is None:
                log.warning(
                    "there is no Lease %s/%s: does kube-scheduler run with leaderElection.leaderElect?",
                    election.namespace,
                    election.name,
                )
            sight.heard(_KIND)
            seen(lease)
            async with aclosing(kube.watch(path, version, lasts_s=_WATCH_S, selector=selector)) as changes:
                async for change in changes:
                    sight.heard(_KIND)
                    if change.type != "BOOKMARK":
                        seen(None if change.type == "DELETED" else lease_from(change.object))
            sight.heard(_KIND)
        except ApiError as error:
            log.warning("the Lease %s/%s cannot be followed: %s", election.namespace, election.name, error)
        # A server that ends each watch at once must not cause a tight loop, so a normal end pauses, too.
        await pause(_PAUSE_S)


def lease_from(raw: msgspec.Raw) -> Lease | None:
    """Parse the Lease; None if it has no holder or cannot be read, which counts the same."""
    try:
        spec = msgspec.json.decode(raw, type=_Lease).spec
    except UNDECODABLE as error:
        log.warning("the Lease cannot be read: %s", error)
        return None
    if spec is None or not spec.holder_identity or spec.renew_time is None or not spec.lease_duration_seconds:
        return None
    return Lease(spec.holder_identity, spec.renew_time.timestamp(), float(spec.lease_duration_seconds))
