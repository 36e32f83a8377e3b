"""Keep a short-lived token of another ServiceAccount in a file: `muster token`.

A pod has one ServiceAccount, and a projected token is always of that one. Muster and its kube-scheduler are two
accounts in one pod. So a container of the pod requests tokens of the second account (TokenRequest), and writes them to
a directory that only Muster's container mounts.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from extender.kube.api.connection import ApiError, Connection, read_as

log = logging.getLogger("muster")

TOKEN, AUTHORITY = "token", "ca.crt"
"""The files of an in-cluster identity."""
SHORTEST_S = 600
"""The shortest lifetime of a token that the API server grants."""
LONGEST_S = 1 << 32
"""The longest lifetime of a token that the API server grants."""
RETRY_S = 5.0


@dataclass(frozen=True, slots=True)
class Account:
    """A ServiceAccount."""

    namespace: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Account:
        """Read NAMESPACE/NAME. Raises ValueError."""
        namespace, _, name = text.partition("/")
        if not namespace or not name or "/" in name:
            raise ValueError(f"{text} is not NAMESPACE/NAME of a ServiceAccount")
        return cls(namespace, name)


class _Spec(msgspec.Struct, rename="camel"):
    expiration_seconds: int


class _Status(msgspec.Struct):
    token: str


class _TokenRequest(msgspec.Struct):
    spec: _Spec
    status: _Status


async def keep_fresh(
    connection: Connection,
    account: Account,
    directory: Path,
    lifetime_s: int,
    *,
    authority: Path | None,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Write a token of the account into the directory, and a new one after half its lifetime, until cancelled.

    ``authority``: the file with the API server's certificate authority; it is copied beside each token.
    """
    while True:
        try:
            token, lasts_s = await request_token(connection, account, lifetime_s)
            _leave(directory, token, authority)
        except (ApiError, OSError) as error:
            log.warning("no new token for %s/%s: %s", account.namespace, account.name, error)
            await pause(RETRY_S)
        else:
            log.info("wrote a token of %s/%s that lasts %d s", account.namespace, account.name, lasts_s)
            await pause(lasts_s / 2)


async def request_token(connection: Connection, account: Account, lifetime_s: int) -> tuple[str, int]:
    """Return a new token, and the seconds for which the API server grants it."""
    path = f"/api/v1/namespaces/{account.namespace}/serviceaccounts/{account.name}/token"
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": lifetime_s},
    }
    answer = read_as(await connection.call("POST", path, body=body), _TokenRequest)
    return answer.status.token, answer.spec.expiration_seconds


def _leave(directory: Path, token: str, authority: Path | None) -> None:
    if authority is not None:
        _write(directory / AUTHORITY, authority.read_bytes())
    # The token comes last, so that a process that waits for it finds both files.
    _write(directory / TOKEN, token.encode())


def _write(path: Path, content: bytes) -> None:
    """Write the file in one step, so that a reader finds it whole. Only its user may read it."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    new.replace(path)
