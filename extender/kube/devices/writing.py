"""Clear an allocation that no pod has reserved: all that Muster writes about devices."""

from __future__ import annotations

from extender.core.effects import Deallocate
from extender.kube.api.connection import read_as
from extender.kube.client import Kube
from extender.kube.devices.objects import ClaimStatusObject, ResourceClaimObject
from extender.kube.reading.objects import Meta
from extender.runtime.requests import OK, Response


async def deallocate(kube: Kube, effect: Deallocate, timeout_s: float) -> Response:
    """Clear the allocation of the ResourceClaim, in one attempt; nothing is written if there is none.

    412: a pod has reserved the claim meanwhile. Raises ApiError; 409 means that another client has written to it.
    """
    path = f"/apis/resource.k8s.io/v1/namespaces/{effect.namespace}/resourceclaims/{effect.name}"
    body = await kube.find(path, timeout_s=timeout_s)
    claim = ResourceClaimObject() if body is None else read_as(body, ResourceClaimObject)
    meta, status = claim.metadata or Meta(), claim.status or ClaimStatusObject()
    if meta.uid != effect.uid or status.allocation is None:
        return OK
    if status.reserved_for:
        return Response(412, f"ResourceClaim {effect.namespace}/{effect.name} is reserved for a pod again")
    seen = {"uid": effect.uid, "resourceVersion": meta.resource_version}
    await kube.patch_claim_status(path, {"metadata": seen, "status": {"allocation": None}}, timeout_s=timeout_s)
    return OK
