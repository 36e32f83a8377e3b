"""Whether Kueue's own controller runs: then the queues are its own, and Muster is the gang scheduler behind it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from time import time

from extender.kube.api.connection import ApiError
from extender.kube.client import Kube
from extender.kube.lease import lease_from

LEASE = "c1f6bfd2.kueue.x-k8s.io"
"""By which Kueue elects its leader, in whichever namespace it runs."""
_LEASES = "/apis/coordination.k8s.io/v1/leases"
_SKEW_S = 60.0
"""A Lease that ran out so short a time ago still counts: clocks differ, and a controller that starts anew is one."""


async def kueue_runs(kube: Kube, clock: Callable[[], float] = time) -> bool:
    """Whether such a Lease is renewed. Where Muster may not look, nobody holds it. Raises ApiError in an outage."""
    try:
        async with aclosing(kube.list_pages(_LEASES, selector=f"metadata.name={LEASE}")) as pages:
            found = [lease_from(item) async for page in pages for item in page.items]
    except ApiError as error:
        if error.status in (403, 404):
            return False
        raise
    return any(one is not None and one.renewed_at + one.duration_s + _SKEW_S > clock() for one in found)
