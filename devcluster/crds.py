"""When the kinds of CRDs are there."""

from __future__ import annotations

from devcluster.api import Api, Object

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def until_established(api: Api, name: str) -> None:
    """Returns when objects of it can be created. (`kubectl wait` fails while the CRD has no conditions yet.)"""
    api.wait_for(f"{CRDS}/{name}", _established)


def _established(crd: Object | None) -> bool:
    conditions = ((crd or {}).get("status") or {}).get("conditions") or []
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)
