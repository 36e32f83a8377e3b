"""Changes of a collection as the API server reports them, and the error that every call of the API may end in."""

import contextlib
import json
import math
import socket
import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self

import httpx


class ApiError(Exception):
    """The API server refused: its status code, its reason (as in "NotFound") and its message."""

    def __init__(self, code: int, message: str, reason: str = "") -> None:
        super().__init__(f"{code} {reason}: {message}" if reason else f"{code}: {message}")
        self.code = code
        self.reason = reason
        self.message = message

    @classmethod
    def from_body(cls, code: int, body: str) -> Self:
        """From a Status object, or from any text that came instead of one."""
        with contextlib.suppress(json.JSONDecodeError):
            status = json.loads(body)
            if isinstance(status, dict):
                return cls(code, str(status.get("message", body)), str(status.get("reason", "")))
        return cls(code, body.strip())


def raise_for_status(answer: httpx.Response) -> None:
    if answer.is_error:
        raise ApiError.from_body(answer.status_code, answer.read().decode(errors="replace"))


def collection_of(path: str) -> tuple[str, str | None]:
    """Split the path of an object into its collection and its name; a collection has no name."""
    parts = path.strip("/").split("/")
    resource = parts[2:] if parts[0] == "api" else parts[3:]  # behind api/v1 or apis/GROUP/VERSION
    if resource[0] == "namespaces" and len(resource) > 2:
        resource = resource[2:]
    if len(resource) == 1:
        return path, None
    collection, _, name = path.rstrip("/").rpartition("/")
    return collection, name


class Watch:
    """Iterates over (type, object); ends at the timeout, on `close()`, or when the server ends it.

    `close()` may be called from another thread: it wakes the one that is waiting for the next change.
    """

    def __init__(
        self,
        client: httpx.Client,
        path: str,
        resource_version: str | None,
        timeout_s: float | None,
        params: Mapping[str, str | int],
    ) -> None:
        query: dict[str, str | int] = {**params, "watch": "true"}
        if resource_version is not None:
            query["resourceVersion"] = resource_version
        self._deadline = math.inf
        if timeout_s is not None:
            self._deadline = time.monotonic() + timeout_s
            # The server's own timer ends a quiet watch; it counts whole seconds.
            query["timeoutSeconds"] = max(1, math.ceil(timeout_s))
        request = client.build_request("GET", path, params=query, timeout=httpx.Timeout(60.0, read=None))
        self._response = client.send(request, stream=True)
        self._closed = False
        raise_for_status(self._response)

    def __iter__(self) -> Iterator[tuple[str, dict[str, Any]]]:
        try:
            for line in self._response.iter_lines():
                if self._closed or time.monotonic() > self._deadline:
                    return
                change = json.loads(line)
                if change["type"] == "ERROR":
                    status = change["object"]
                    raise ApiError(status.get("code", 0), status.get("message", ""), status.get("reason", ""))
                yield change["type"], change["object"]
        except (httpx.HTTPError, httpx.StreamError):
            if not self._closed:
                raise
        finally:
            self._response.close()

    def close(self) -> None:
        self._closed = True
        stream = self._response.extensions.get("network_stream")
        raw = stream.get_extra_info("socket") if stream is not None else None
        if raw is not None:
            with contextlib.suppress(OSError):
                raw.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        self._response.close()
