"""Muster's requests to the API server: paths and bodies, without the official client's typed models.

A typed pod costs 210 us and 48 KiB, and the typed bind call raises on success. Muster needs only a few fields.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp

from extender.core.effects import PostBinding
from extender.kube.api.connection import (
    METADATA_ONLY,
    REQUEST_TIMEOUT_S,
    ApiError,
    Connection,
    StandbyError,
    error_from,
    read_as,
)
from extender.kube.api.pages import Change, Listed, Page, is_older, pages
from extender.kube.reading.objects import AnyObject, Meta, PodObject
from policies.model import GANG_GATE

GRACE_S = 10.0
"""Seconds that a watch may outlast what was asked for. A longer one is taken to be dead."""
_SILENCE_S = 30.0
"""Seconds without a byte after which the read of a page fails."""
EVICTED_BY = "muster.dev/evicted-by"
"""The label that the policy in manifests/base/extender-policy.yaml demands of Muster's evictions."""


class CredentialsError(Exception):
    """No credentials were found for the API server; the message says why."""


class Kube:
    """Requests to one API server. Every method raises ApiError, or UnreachableError if there was no answer in time.

    ``may_write`` is asked right before each write is sent. If it returns False, nothing is sent and StandbyError is
    raised. A pod is patched only at its last seen version (``saw``). If another client has written to it since, that is
    a 409.
    """

    def __init__(self, connection: Connection, *, may_write: Callable[[], bool] = lambda: True) -> None:
        self._connection = connection
        self._may_write = may_write
        self._versions: dict[str, str] = {}
        self.behind = False
        """Whether the watch has yet to show the pods as they were when this replica took over. Nothing is evicted
        meanwhile."""

    @classmethod
    async def connect(
        cls,
        kubeconfig: str | os.PathLike[str] | None = None,
        context: str | None = None,
        *,
        connections: int = 64,
        may_write: Callable[[], bool] = lambda: True,
    ) -> Kube:
        """Log in with the credentials that ``Connection.open`` finds. Raises CredentialsError if it finds none."""
        try:
            connection = await Connection.open(kubeconfig, context, connections=connections)
        except (OSError, ValueError) as problem:
            raise CredentialsError(f"no credentials for the API server: {problem}") from None
        return cls(connection, may_write=may_write)

    async def close(self) -> None:
        await self._connection.close()

    def was_away(self, lately_s: float) -> bool:
        """Whether a request met an outage of the API server within the last ``lately_s`` seconds."""
        return self._connection.was_away(lately_s)

    async def clock(self) -> datetime | None:
        """The time by the API server's clock, to a second; None if its answer has none."""
        limits = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S)
        async with self._connection.answer("GET", "/version", limits) as answer:
            header = answer.headers.get("Date")
        return parsedate_to_datetime(header) if header else None

    def saw(self, uid: str, version: str | None) -> None:
        """Record that the pod with that UID was seen at that resource version, or (None) is gone."""
        if version is None:
            self._versions.pop(uid, None)
        elif not is_older(version, self._versions.get(uid)):
            self._versions[uid] = version

    async def call(self, method: str, path: str, **request: Any) -> bytes:
        """Make one request, as ``Connection.call`` does."""
        if method != "GET":
            request["check"] = self._check_lead
        return await self._connection.call(method, path, **request)

    async def find(self, path: str, **request: Any) -> bytes | None:
        """The object at that path; None if the API server answers 404."""
        try:
            return await self.call("GET", path, **request)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def _check_lead(self) -> None:
        if not self._may_write():
            raise StandbyError

    def list_pages(self, path: str, *, selector: str = "", labels: str = "") -> AsyncGenerator[Page, None]:
        """Yield the pages of one consistent list, of objects with these fields and labels. A 410 in the middle means:
        start again."""
        return pages(lambda query: self._page(path, {**query, **_selecting(selector, labels)}))

    async def newest(self, path: str) -> str:
        """The version of the list as of now."""
        return (await self._page(path, {"limit": "1"})).metadata.resource_version or ""

    async def _page(self, path: str, query: Mapping[str, str]) -> Listed:
        return read_as(await self.call("GET", path, query=query, timeout_s=60.0, silence_s=_SILENCE_S), Listed)

    async def watch(
        self, path: str, resource_version: str, *, lasts_s: int, selector: str = "", labels: str = ""
    ) -> AsyncGenerator[Change, None]:
        """Yield the changes after that version, until the server ends the watch after ``lasts_s`` seconds.

        Raises for ERROR lines, and for a watch that is still open GRACE_S later.
        """
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(lasts_s),
            **_selecting(selector, labels),
        }
        limits = aiohttp.ClientTimeout(total=lasts_s + GRACE_S)
        async with aclosing(self._connection.lines(path, limits, query)) as lines:
            async for text in lines:
                if not text.strip():
                    continue
                change = read_as(text, Change)
                if change.type == "ERROR":
                    raise error_from(0, change.object)
                yield change

    async def post_binding(self, effect: PostBinding, *, timeout_s: float = REQUEST_TIMEOUT_S) -> None:
        """Bind the pod if it still has that UID, and write the annotations on it in the same step."""
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": effect.name,
                "namespace": effect.namespace,
                "uid": effect.uid,
                "annotations": dict(effect.annotations),
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": effect.node},
        }
        await self.call("POST", f"{_pod(effect.namespace, effect.name)}/binding", body=body, timeout_s=timeout_s)

    async def patch_status(
        self,
        namespace: str,
        name: str,
        uid: str,
        status: Mapping[str, Any],
        labels: Mapping[str, str | None] | None = None,
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        """Merge strategically into a pod's status: conditions are merged by type. Another UID: 409 or 422.

        ``labels``: changed in the same write; None removes one.
        """
        change: dict[str, Any] = {"status": status} | ({"metadata": {"labels": labels}} if labels else {})
        await self._patch_pod(f"{_pod(namespace, name)}/status", uid, change, timeout_s)

    async def ungate(
        self, namespace: str, name: str, uid: str, pin: Sequence[str] = (), *, timeout_s: float = REQUEST_TIMEOUT_S
    ) -> None:
        """Remove Muster's scheduling gate from a pod, and no other; no change if it is off. Another UID: 422.

        ``pin``: restrict the pod to these nodes in the same write. The affinity has a term for each node, by a field
        and not by a label. kube-scheduler then looks at no other node, as it does for the pods of a DaemonSet.
        """
        spec: dict[str, Any] = {"schedulingGates": [{"name": GANG_GATE, "$patch": "delete"}]}
        if pin:
            terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]} for node in pin]
            required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
            spec["affinity"] = {"nodeAffinity": required}
        await self._patch_pod(_pod(namespace, name), uid, {"spec": spec}, timeout_s)

    async def annotate(
        self,
        namespace: str,
        name: str,
        uid: str,
        annotations: Mapping[str, str | None],
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        """Write annotations on a pod; None removes one. Another UID: 409 or 422."""
        await self._patch_pod(_pod(namespace, name), uid, {"metadata": {"annotations": annotations}}, timeout_s)

    async def get_pod_node(
        self, namespace: str, name: str, uid: str, *, timeout_s: float = REQUEST_TIMEOUT_S
    ) -> str | None:
        """The node that the pod is bound to; "" while it is unbound, None if it is gone or has another UID."""
        body = await self.find(_pod(namespace, name), timeout_s=timeout_s)
        pod = PodObject() if body is None else read_as(body, PodObject)
        meta = pod.metadata or Meta()
        if meta.uid != uid:
            return None
        self._wrote(uid, meta.resource_version)
        return (pod.spec.node_name or "") if pod.spec else ""

    async def evict(self, namespace: str, name: str, uid: str, *, timeout_s: float = REQUEST_TIMEOUT_S) -> None:
        """Ask for the pod's eviction. 429: a disruption budget does not allow it now."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace, "labels": {EVICTED_BY: "extender"}},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        await self.call("POST", f"{_pod(namespace, name)}/eviction", body=body, timeout_s=timeout_s)

    async def create_event(self, namespace: str, event: Mapping[str, Any]) -> None:
        """Create an ``events.k8s.io/v1`` Event."""
        await self.call("POST", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", body=event)

    async def patch_podgroup_status(self, path: str, uid: str, status: Mapping[str, Any]) -> None:
        """Merge into the status of the PodGroup at that path; lists are replaced as a whole."""
        body = {"metadata": {"uid": uid}, "status": status}
        await self._patch(f"{path}/status", body, "application/merge-patch+json")

    async def patch_claim_status(self, path: str, change: Mapping[str, Any], *, timeout_s: float) -> None:
        """Merge into the status of the ResourceClaim at that path, if its metadata are still those of ``change``."""
        await self._patch(f"{path}/status", change, "application/merge-patch+json", timeout_s=timeout_s)

    async def patch_volcano_phase(
        self,
        namespace: str,
        name: str,
        seen: Mapping[str, Any],
        phase: str,
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        """Write the phase of a ``scheduling.volcano.sh/v1beta1`` PodGroup whose metadata are still those ``seen``.

        Its CRD has no status subresource (config/crd/volcano/bases/scheduling.volcano.sh_podgroups.yaml). A CRD with
        one would silently ignore a write of the status to the object itself, so the subresource is tried first.
        """
        path = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups/{name}"
        body = {"metadata": seen, "status": {"phase": phase}}
        for tried in (f"{path}/status", path):
            try:
                await self._patch(tried, body, "application/merge-patch+json", timeout_s=timeout_s)
            except ApiError as error:
                if error.status != 404 or tried == path:
                    raise
            else:
                return

    async def patch_job(
        self, path: str, seen: Mapping[str, Any], change: Mapping[str, Any], *, strict: bool = False, **request: Any
    ) -> bytes:
        """Merge into an object if its metadata are still the ``seen`` ones; lists are replaced as a whole.

        ``strict``: the API server refuses unknown fields instead of dropping them. Returns the metadata.
        """
        meta = {"uid": seen.get("uid"), "resourceVersion": seen.get("resourceVersion")}
        body = {**change, "metadata": {**change.get("metadata", {}), **meta}}
        query = {"fieldValidation": "Strict"} if strict else None
        return await self._patch(path, body, "application/merge-patch+json", query=query, **request)

    async def _patch_pod(self, path: str, uid: str, change: Mapping[str, Any], timeout_s: float) -> None:
        known = self._versions.get(uid)
        meta = {"uid": uid} if known is None else {"uid": uid, "resourceVersion": known}
        body = {**change, "metadata": {**change.get("metadata", {}), **meta}}
        answer = await self._patch(path, body, timeout_s=timeout_s)
        self._wrote(uid, (read_as(answer, AnyObject).metadata or Meta()).resource_version)

    def _wrote(self, uid: str, version: str | None) -> None:
        """Record the version of a write's answer. The watch may have shown meanwhile that the pod is gone; then
        nothing is kept."""
        if version and uid in self._versions:
            self.saw(uid, version)

    async def _patch(
        self, path: str, body: Mapping[str, Any], kind: str = "application/strategic-merge-patch+json", **request: Any
    ) -> bytes:
        return await self.call("PATCH", path, body=body, content_type=kind, accept=METADATA_ONLY, **request)


def _selecting(fields: str, labels: str) -> dict[str, str]:
    return {key: text for key, text in (("fieldSelector", fields), ("labelSelector", labels)) if text}


def _pod(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}"
