"""The files for TLS, and where TLS is required."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files. With ``client_ca`` a caller needs a certificate signed by it; without, callers need none."""

    cert: Path
    key: Path
    client_ca: Path | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        return (self.cert, self.key) if self.client_ca is None else (self.cert, self.key, self.client_ca)


def unguarded(
    host: str, cert: Path | None, key: Path | None, authority: Path | None, client_names: Collection[str]
) -> str:
    """The contradiction in these settings; empty if there is none."""
    if (cert is None) != (key is None):
        return "tls_cert_file and tls_key_file need each other"
    if authority is not None and cert is None:
        return "tls_client_ca_file needs tls_cert_file and tls_key_file"
    if client_names and authority is None:
        return "tls_client_names needs tls_client_ca_file"
    if ":" in host and not is_address(host):
        return f"listen_host {host!r} is not an address: the port is listen_port"
    if authority is None and not _is_loopback(host):
        return (
            f"listen_host {host!r} can be reached from other machines, and whoever reaches Muster can "
            "bind pods: set tls_cert_file, tls_key_file and tls_client_ca_file (mutual TLS), or listen on 127.0.0.1"
        )
    return ""


@lru_cache(maxsize=64)
def is_address(host: str) -> bool:
    """Whether it is an IP address, and not a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    return ip_address(host).is_loopback if is_address(host) else host == "localhost"
