"""Waits for the time when admission policies and webhooks are in force."""

from __future__ import annotations

import time
from collections.abc import Callable

import httpx

from devcluster.api import Api, ApiError, Object
from devcluster.errors import ClusterError

PATIENCE_S = 60.0
_POLL_EVERY_S = 0.05


def until_created_so(api: Api, collection: str, probe: Object, holds: Callable[[Object], bool]) -> None:
    """The API server takes a policy up a while after it is written, and says so nowhere: try, without creating."""
    deadline = time.monotonic() + PATIENCE_S
    while not _is_created_so(api, collection, probe, holds):
        if time.monotonic() > deadline:
            raise ClusterError(f"what changes new objects of {collection} was not in force after {PATIENCE_S:.0f} s")
        time.sleep(_POLL_EVERY_S)


def _is_created_so(api: Api, collection: str, probe: Object, holds: Callable[[Object], bool]) -> bool:
    """Not while the API server lacks the schema of a new kind, by which it applies policies."""
    try:
        return holds(api.create(f"{collection}?dryRun=All", probe))
    except ApiError as refusal:
        if refusal.code == httpx.codes.SERVICE_UNAVAILABLE:
            return False
        raise
