"""Lets Volcano's job controller make the pods of a PodGroup.

A Volcano Job has pods only when the phase of its PodGroup is neither empty nor Pending (syncJob of
pkg/controllers/job/job_controller_actions.go): the scheduler says with the phase Inqueue that it has taken the PodGroup
up.
"""

from __future__ import annotations

import msgspec

from extender.core.effects import Enqueue
from extender.kube.api.connection import ApiError
from extender.kube.client import Kube
from extender.kube.podgroups.volcano import INQUEUE, PODGROUPS, VolcanoGroup
from extender.kube.reading.objects import UNDECODABLE, Meta


async def enqueue(kube: Kube, effect: Enqueue, timeout_s: float) -> None:
    """One attempt; nothing is written where the PodGroup is gone or has been taken up.

    Raises ApiError; 409 means that somebody has written to the PodGroup meanwhile.
    """
    namespace, name = effect.key
    path = f"/apis/{PODGROUPS}/namespaces/{namespace}/podgroups/{name}"
    try:
        group = msgspec.json.decode(await kube.call("GET", path, timeout_s=timeout_s), type=VolcanoGroup)
    except ApiError as error:
        if error.status != 404:
            raise
        return
    except UNDECODABLE as error:
        raise ApiError(422, "Unreadable", f"{path} cannot be read: {error}") from None
    meta = group.metadata or Meta()
    if meta.uid == effect.uid and group.pending:
        seen = {"uid": effect.uid, "resourceVersion": meta.resource_version}
        await kube.patch_volcano_phase(namespace, name, seen, INQUEUE, timeout_s=timeout_s)
