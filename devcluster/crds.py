"""Waits for the time when the kinds of CRDs are served."""

from __future__ import annotations

import time

import httpx

from devcluster.api import Api, ApiError, Object
from devcluster.errors import ClusterError

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PATIENCE_S = 60.0
_NOT_YET = (httpx.codes.NOT_FOUND, httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE)


def until_established(api: Api, name: str) -> None:
    """Returns when objects of it can be created, and listed in each version.

    ``kubectl wait`` fails while the CRD has no conditions yet. An established kind may still be unknown under its path,
    or its cache be filled: the API server answers 404, or 429 "storage is (re)initializing".
    """
    crd = api.wait_for(f"{CRDS}/{name}", _established)
    group, plural = crd["spec"]["group"], crd["spec"]["names"]["plural"]
    for version in (served_version["name"] for served_version in crd["spec"]["versions"] if served_version["served"]):
        deadline = time.monotonic() + PATIENCE_S
        while not _lists(api, f"/apis/{group}/{version}/{plural}"):
            if time.monotonic() > deadline:
                raise ClusterError(f"{plural} of {group}/{version} could not be listed after {PATIENCE_S:.0f} s")
            time.sleep(0.05)


def _lists(api: Api, path: str) -> bool:
    try:
        api.get(path, limit=1)
    except ApiError as refusal:
        if refusal.code not in _NOT_YET:
            raise
        return False
    return True


def _established(crd: Object | None) -> bool:
    conditions = ((crd or {}).get("status") or {}).get("conditions") or []
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)
