"""Starts a component on a free port and waits until it says that it is well."""

import ssl
import time
from collections.abc import Callable
from typing import TypeVar

import httpx

from devcluster.errors import ClusterError
from devcluster.ports import free_port
from devcluster.process import Process

P = TypeVar("P", bound=Process)

ATTEMPTS = 5
PATIENCE_S = 120.0
POLL_EVERY_S = 0.05  # components have to be polled: they announce their health to no other process


def start_on_free_port(start: Callable[[int], P], health: str, tls: ssl.SSLContext) -> tuple[P, int]:
    """Start the component with one free port after another, until no other process takes the port in the meantime.

    ``health``: the URL to ask, with {port} in it.
    """
    for _ in range(ATTEMPTS):
        port = free_port()
        process = start(port)
        if _healthy(process, health.format(port=port), tls):
            return process, port
        if "address already in use" not in process.tail(lines=200):
            raise ClusterError(f"{process.name} ended while it started ({process.returncode}):\n{process.tail()}")
    raise ClusterError(f"{process.name} found its port taken {ATTEMPTS} times:\n{process.tail()}")


def wait_until_healthy(process: Process, url: str, tls: ssl.SSLContext | bool = True) -> None:
    """Return when the process answers 200 there. Raises ClusterError if it ends, or takes too long."""
    if not _healthy(process, url, tls):
        raise ClusterError(f"{process.name} ended while it started ({process.returncode}):\n{process.tail()}")


def _healthy(process: Process, url: str, tls: ssl.SSLContext | bool) -> bool:
    """True once it answers, False when it has ended."""
    deadline = time.monotonic() + PATIENCE_S
    with httpx.Client(verify=tls, trust_env=False, timeout=5.0) as client:
        while time.monotonic() < deadline:
            try:
                if client.get(url).status_code == httpx.codes.OK:
                    return True
            except httpx.HTTPError:
                pass  # not listening yet
            try:
                process.wait(POLL_EVERY_S)
            except TimeoutError:
                continue
            return False
    raise ClusterError(f"{process.name} was not healthy after {PATIENCE_S:.0f} s:\n{process.tail()}")
