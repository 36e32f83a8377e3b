"""A server that asks for certificates, and its clients."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import httpx
import uvicorn

from devcluster.certificates import Authority, KeyPair
from extender.config.tls_files import TlsFiles
from extender.http.connections import BoundedProtocol, Connections
from extender.http.tls import Credentials
from extender.http.verbs import Receive, Scope, Send


async def hello(scope: Scope, receive: Receive, send: Send, body: bytes) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


@contextmanager
def serving(credentials: Credentials, names: tuple[str, ...] = (), body: bytes = b"ok\n") -> Iterator[int]:
    """The port of a server that sends this body to every client with valid credentials."""
    config = uvicorn.Config(
        partial(hello, body=body),
        http=partial(BoundedProtocol, shared=Connections(), allowed=names),  # type: ignore[arg-type]
        interface="asgi3",
        ws="none",
        loop="uvloop",
        lifespan="off",
        log_level="critical",
        log_config=None,
    )
    config.load()
    config.ssl = credentials.context
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


def said_to(context: ssl.SSLContext, port: int, host: str = "127.0.0.1") -> str:
    """The answer to a new connection; "" when it is shut out."""
    try:
        return httpx.get(f"https://{host}:{port}/healthz", verify=context, trust_env=False).text
    except (httpx.NetworkError, httpx.RemoteProtocolError):
        return ""


def trusting(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authority.certificate))


def serial(context: ssl.SSLContext, port: int) -> str:
    """The serial number of the certificate that the server shows to a new connection."""
    with (
        socket.create_connection(("127.0.0.1", port)) as raw,
        context.wrap_socket(raw, server_hostname="localhost") as wrapped,
    ):
        certificate = wrapped.getpeercert() or {}
        return str(certificate["serialNumber"])


def replace(files: TlsFiles, pair: KeyPair) -> None:
    files.cert.write_bytes(pair.certificate.read_bytes())
    files.key.write_bytes(pair.key.read_bytes())
