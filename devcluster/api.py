"""A thin client of the Kubernetes API: plain JSON objects in and out, with the administrator's certificate."""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx

from devcluster import burst
from devcluster.certificates import KeyPair
from devcluster.tls import client_context
from devcluster.watch import ApiError, Watch, collection_of, raise_for_status

Object = dict[str, Any]

__all__ = ["Api", "ApiError", "Object"]

PATIENCE_S = 60.0
TIMEOUT_S = 90.0  # longer than the 60 s after which the API server ends a request, so that its answer is seen


class Api:
    """Paths are those of the API server, as in "/api/v1/namespaces/default/pods/web-0"; keywords become the query."""

    def __init__(self, server: str, authority: Path, pair: KeyPair) -> None:
        self.server = server
        self._tls = client_context(authority, pair)
        self._client = httpx.Client(base_url=server, verify=self._tls, timeout=TIMEOUT_S, trust_env=False)

    def get(self, path: str, **params: str | int) -> Object:
        return self._call("GET", path, params=params)

    def list(self, path: str, **params: str | int) -> list[Object]:
        """The items of a collection, as in list("/api/v1/pods", labelSelector="app=web")."""
        items: list[Object] = self.get(path, **params)["items"]
        return items

    def create(self, path: str, obj: Object, *, user: str = "") -> Object:
        """POST the object to its collection (or to a subresource such as a pod's binding).

        ``user``: the user to impersonate; empty: the administrator.
        """
        return self._call("POST", path, json=obj, headers={"Impersonate-User": user} if user else None)

    def create_all(self, creations: Iterable[tuple[str, Object]]) -> None:
        """Create many objects as fast as the API server takes them, waiting where it asks for that (429)."""
        burst.send_all(self.server, self._tls, "POST", creations)

    def patch_all(self, patches: Iterable[tuple[str, Object]]) -> None:
        """PATCH many objects by their paths, each with a merge patch, as `create_all` creates them."""
        burst.send_all(self.server, self._tls, "PATCH", patches)

    def patch(
        self,
        path: str,
        body: Any,
        type: str = "application/merge-patch+json",  # noqa: A002
        *,
        user: str = "",
    ) -> Object:
        """PATCH an object, or its subresource when the path ends with one ("/status"). ``user``: as in ``create``."""
        headers = {"Content-Type": type} | ({"Impersonate-User": user} if user else {})
        return self._call("PATCH", path, json=body, headers=headers)

    def replace(self, path: str, obj: Object, *, user: str = "") -> Object:
        """PUT the object. ``user``: as in ``create``."""
        return self._call("PUT", path, json=obj, headers={"Impersonate-User": user} if user else None)

    def delete(self, path: str, body: Object | None = None, **params: str | int) -> Object:
        """DELETE an object or a collection; `body` holds DeleteOptions."""
        return self._call("DELETE", path, params=params, json=body)

    def raw(self, path: str) -> str:
        """The text of an endpoint that does not speak JSON, such as /metrics or /readyz."""
        answer = self._client.get(path)
        raise_for_status(answer)
        return answer.text

    def watch(
        self, path: str, resource_version: str | None = None, timeout_s: float | None = None, **params: str | int
    ) -> Watch:
        """Changes of a collection as (type, object), until the timeout or `close()`.

        Without a resource version it begins with an ADDED for every object that exists.
        """
        return Watch(self._client, path, resource_version, timeout_s, params)

    def wait_for(
        self, path: str, predicate: Callable[[Any], bool], timeout_s: float = PATIENCE_S, **params: str | int
    ) -> Any:
        """Watch until the predicate holds, and return what it was called with; TimeoutError otherwise.

        The path of an object gives the predicate that object, or None while there is none. The path of a collection
        gives it the list of the objects that exist, in order of first sight.
        """
        collection, name = collection_of(path)
        if name is not None:
            params = {**params, "fieldSelector": f"metadata.name={name}"}
        subject: Object | list[Object] | None = None
        for seen in self.states(collection, timeout_s, **params):
            subject = _subject(seen, name)
            if predicate(subject):
                return subject
        raise TimeoutError(f"{path} did not become as expected within {timeout_s} s; last seen: {_brief(subject)}")

    def states(self, collection: str, timeout_s: float = math.inf, **params: str | int) -> Iterator[dict[str, Object]]:
        """The objects of a collection by UID, now and after every change, until the timeout. It is one dict all along.

        The server may end a watch at any time, above all that of a slow reader; then a new list takes over.
        """
        deadline = time.monotonic() + timeout_s
        while (left_s := deadline - time.monotonic()) > 0:
            page = self.get(collection, **params)
            seen = {item["metadata"]["uid"]: item for item in page["items"]}
            yield seen
            limit_s = None if math.isinf(left_s) else left_s
            with self.watch(collection, page["metadata"]["resourceVersion"], limit_s, **params) as changes:
                for kind, obj in changes:
                    if kind == "DELETED":
                        seen.pop(obj["metadata"]["uid"], None)
                    else:
                        seen[obj["metadata"]["uid"]] = obj
                    yield seen

    def close(self) -> None:
        self._client.close()

    def _call(self, method: str, path: str, **request: Any) -> Object:
        answer = self._client.request(method, path, **request)
        raise_for_status(answer)
        result: Object = answer.json()
        return result


def _subject(seen: dict[str, Object], name: str | None) -> Object | list[Object] | None:
    items = list(seen.values())
    return items if name is None else (items[-1] if items else None)


def _brief(subject: Object | list[Object] | None) -> str:
    """Enough of the last state to see what is wrong, not a screen full of JSON."""
    if isinstance(subject, list):
        return f"{len(subject)} objects"
    return "nothing" if subject is None else str(subject.get("status", subject))[:1000]
