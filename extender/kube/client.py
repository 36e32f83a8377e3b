"""The connection to the API server: the official client's credentials and pool, raw bytes instead of its typed models.

A typed pod costs 210 us and 48 KiB; the typed bind call raises on success. Paths, bodies and bytes are all that is needed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import aiohttp
import msgspec
from kubernetes.aio.client import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config import ConfigException, load_incluster_config, refresh_token
from kubernetes.aio.config.kube_config import KUBE_CONFIG_DEFAULT_LOCATION, load_kube_config

from extender.core.effects import PostBinding
from extender.kube.objects import Meta, PodObject

REQUEST_TIMEOUT_S = 10.0
PAGE_SIZE = 500
_SILENCE_S = 120.0
"""A watch without a byte for so long is dead: bookmarks come about once a minute."""


class ApiError(Exception):
    """The API server said no. ``retry_after_s`` is what it asked for, if it did."""

    def __init__(self, status: int, reason: str, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(f"{status} {reason}: {message}" if status else message)
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after_s = retry_after_s

    @property
    def passing(self) -> bool:
        """It may go better a moment later: overload, an outage, a lost connection."""
        return self.status == 0 or self.status == 429 or self.status >= 500


class UnreachableError(ApiError):
    """No answer: whether the request was carried out is not known."""

    def __init__(self, message: str) -> None:
        super().__init__(0, "Unreachable", message)


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a list: objects as raw JSON, and the version of the whole list."""

    items: list[msgspec.Raw]
    resource_version: str


@dataclass(frozen=True, slots=True)
class Change:
    """A line of a watch: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."""

    type: str
    object: msgspec.Raw


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str | None = None
    continue_: str | None = msgspec.field(default=None, name="continue")


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _Status(msgspec.Struct):
    reason: str | None = None
    message: str | None = None
    code: int | None = None


class _Line(msgspec.Struct):
    type: str
    object: msgspec.Raw


class Kube:
    """One API server. Every method raises ApiError, or UnreachableError when there was no answer in time."""

    def __init__(self, configuration: Configuration, *, connections: int = 64) -> None:
        configuration.connection_pool_maxsize = connections
        self._configuration = configuration
        self._rest = RESTClientObject(configuration)
        self._host: str = configuration.host.rstrip("/")
        self._refreshing: asyncio.Task[None] | None = None

    @classmethod
    async def connect(cls, kubeconfig: str | os.PathLike[str] | None = None, *, connections: int = 64) -> Kube:
        """By the kubeconfig named, else $KUBECONFIG or ~/.kube/config, else in-cluster. ValueError: none can be read."""
        configuration = Configuration()
        loader: Any = None
        try:
            if kubeconfig or os.path.exists(KUBE_CONFIG_DEFAULT_LOCATION.split(os.pathsep)[0]):
                path = None if kubeconfig is None else os.fspath(kubeconfig)
                if path is not None and not os.path.exists(path):
                    raise ValueError(f"there is no file {path}")
                loader = await load_kube_config(path, client_configuration=configuration, persist_config=False)
            else:
                load_incluster_config(client_configuration=configuration)
        except ConfigException as error:
            raise ValueError(str(error)) from None
        kube = cls(configuration, connections=connections)
        if loader is not None:
            # Tokens of cloud logins expire; in-cluster tokens are read again by a hook of the configuration.
            kube._refreshing = asyncio.create_task(refresh_token(loader, configuration))
        return kube

    async def close(self) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()
        await self._rest.close()

    async def list_pages(self, path: str, *, limit: int = PAGE_SIZE) -> AsyncIterator[Page]:
        """The pages of one consistent list. A 410 in the middle means: start again."""
        query: dict[str, str] = {"limit": str(limit)}
        while True:
            page = msgspec.json.decode(await self.call("GET", path, query=query, timeout_s=60.0), type=_List)
            yield Page(page.items or [], page.metadata.resource_version or "")
            if not page.metadata.continue_:
                return
            query["continue"] = page.metadata.continue_

    async def watch(self, path: str, resource_version: str, *, lasts_s: int = 300) -> AsyncIterator[Change]:
        """Changes after that version, until the server ends it, at the latest after ``lasts_s``. ERROR lines raise."""
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(lasts_s),
        }
        timeout = aiohttp.ClientTimeout(total=lasts_s + 60, sock_connect=10, sock_read=_SILENCE_S)
        async with self._answer("GET", path, query=query, timeout=timeout) as answer:
            async for text in answer.content:
                if not text.strip():
                    continue
                try:
                    line = msgspec.json.decode(text, type=_Line)
                except msgspec.MsgspecError as error:
                    raise UnreachableError(f"the watch of {path} was cut: {error}") from None
                if line.type == "ERROR":
                    raise _error(0, line.object)
                yield Change(line.type, line.object)

    async def post_binding(self, effect: PostBinding, *, timeout_s: float = REQUEST_TIMEOUT_S) -> None:
        """Bind the pod, if it still has that UID, and write the annotations on it in the same step."""
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

    async def patch_status(self, namespace: str, name: str, uid: str, status: Mapping[str, Any]) -> None:
        """Strategic merge into a pod's status: conditions are merged by type. Another UID: 409 or 422."""
        body = {"metadata": {"uid": uid}, "status": status}
        kind = "application/strategic-merge-patch+json"
        await self.call("PATCH", f"{_pod(namespace, name)}/status", body=body, content_type=kind)

    async def get_pod_node(
        self, namespace: str, name: str, uid: str, *, timeout_s: float = REQUEST_TIMEOUT_S
    ) -> str | None:
        """The node that the pod is bound to, "" while it is unbound, None if it is gone or has another UID."""
        try:
            body = await self.call("GET", _pod(namespace, name), timeout_s=timeout_s)
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        pod = msgspec.json.decode(body, type=PodObject)
        if (pod.metadata or Meta()).uid != uid:
            return None
        return (pod.spec.node_name or "") if pod.spec else ""

    async def evict(self, namespace: str, name: str, uid: str) -> None:
        """Ask for the pod's eviction. 429: a disruption budget does not allow it now."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        await self.call("POST", f"{_pod(namespace, name)}/eviction", body=body)

    async def create_event(self, namespace: str, event: Mapping[str, Any]) -> None:
        """Create an ``events.k8s.io/v1`` Event."""
        await self.call("POST", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", body=event)

    async def patch_podgroup_status(self, namespace: str, name: str, uid: str, status: Mapping[str, Any]) -> None:
        """Merge into the status of a ``scheduling.x-k8s.io/v1alpha1`` PodGroup; lists are replaced as a whole."""
        path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{namespace}/podgroups/{name}/status"
        body = {"metadata": {"uid": uid}, "status": status}
        await self.call("PATCH", path, body=body, content_type="application/merge-patch+json")

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> bytes:
        """One request, answered in full within ``timeout_s`` seconds."""
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        async with self._answer(method, path, query=query, body=body, content_type=content_type, timeout=timeout) as ok:
            return await ok.read()

    @asynccontextmanager
    async def _answer(
        self,
        method: str,
        path: str,
        *,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        url = f"{self._host}{path}?{urlencode(query)}" if query else self._host + path
        headers = {"Accept": "application/json", "Content-Type": content_type, "User-Agent": "muster"}
        token = await self._configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        if token:
            headers["Authorization"] = token
        try:
            wrapped = await self._rest.request(method, url, headers=headers, body=body, _request_timeout=timeout)
            async with wrapped.response as answer:
                if answer.status >= 400:
                    raise _error(answer.status, await answer.read(), answer.headers.get("Retry-After"))
                yield answer
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise UnreachableError(f"{method} {path}: {str(error) or type(error).__name__}") from None


def _pod(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def _error(status: int, body: bytes | msgspec.Raw, retry_after: str | None = None) -> ApiError:
    """From a ``v1.Status``, or from whatever a proxy in between said."""
    try:
        said = msgspec.json.decode(body, type=_Status)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        said = _Status(message=bytes(body[:200]).decode("utf-8", "replace") if isinstance(body, bytes) else "")
    seconds = float(retry_after) if retry_after is not None and retry_after.isdigit() else None
    return ApiError(status or said.code or 500, said.reason or "", said.message or "", seconds)
