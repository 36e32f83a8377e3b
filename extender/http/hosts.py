"""The host names that Muster answers to.

A web page can let its own name lead to 127.0.0.1 (DNS rebinding), and read there what plain HTTP serves. Its requests
still have that name in the Host header. An address cannot be such a name, and with TLS the browser compares the name
with the certificate. So only names are checked, and only in plain HTTP.
"""

from __future__ import annotations

from collections.abc import Iterable

from extender.config.tls_files import is_address
from extender.observe.logs import printable

LOOPBACK = "localhost"
_LONGEST = 253


class Hosts:
    """The accepted host names: ``names``, localhost and every IP address. ``every``: all names are accepted."""

    def __init__(self, names: Iterable[str] = (), *, every: bool = False) -> None:
        self._names = {LOOPBACK, *map(_plain, names)}
        self._every = every

    def refusal(self, headers: Iterable[tuple[bytes, bytes]]) -> tuple[int, str] | None:
        """The status and text that refuse a request with these headers; None if it is meant for Muster."""
        if self._every:
            return None
        hosts = [value for name, value in headers if name == b"host"]
        if len(hosts) != 1:
            return 400, f"the request has {len(hosts)} Host headers, and should have one\n"
        host = _without_port(hosts[0].decode("latin-1"))
        if _plain(host) in self._names or is_address(host):
            return None
        shown = printable(host[:_LONGEST])
        return 421, f"Muster does not answer to the name {shown!r}: if it should, add the name to allowed_hosts\n"


def _plain(name: str) -> str:
    return name.lower().removesuffix(".")


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
