"""The health probe of the manifests: ask the Muster on this machine for its health (`python -m extender.probe`).

A kubelet starts it every few seconds. So it imports only the standard library, the reader of YAML files and the table
of old names. Muster's other modules cost more than a second of processor time to import. It does not check the
settings, which Muster itself does when it starts.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from extender.config.aliases import rename_settings

if TYPE_CHECKING:
    import ssl

_ANSWER_S = 5.0
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - listening on all addresses, Muster is found on loopback
_SETTINGS = ("listen_host", "listen_port", "tls_cert_file", "tls_key_file", "tls_client_ca_file")


class ProbeError(Exception):
    """Muster could not be asked; the message says why, in one line."""


class Listener(NamedTuple):
    """The address on which Muster listens, as in its settings. The files are in PEM format."""

    host: str = "127.0.0.1"
    port: int = 10290
    cert: str | None = None
    key: str | None = None
    client_ca: str | None = None

    @property
    def address(self) -> str:
        """The host by which a process on this machine finds Muster."""
        return _ANY.get(self.host, self.host)

    @property
    def url(self) -> str:
        scheme = "http" if self.cert is None else "https"
        return f"{scheme}://{f'[{self.address}]' if ':' in self.address else self.address}:{self.port}"


def ask(listener: Listener, *, ready: bool) -> tuple[bool, str]:
    """Whether Muster is well, and its text. ``ready``: to answer kube-scheduler; else only alive. Raises ProbeError."""
    page = "/readyz" if ready else "/healthz"
    if listener.cert is None:
        connection = HTTPConnection(listener.address, listener.port, timeout=_ANSWER_S)
    else:
        connection = HTTPSConnection(listener.address, listener.port, timeout=_ANSWER_S, context=_trust(listener))
    try:
        connection.request("GET", page)
        answer = connection.getresponse()
        return answer.status == 200, answer.read().decode(errors="replace").strip()
    except (OSError, HTTPException) as error:
        raise ProbeError(f"no answer from {listener.url}{page}: {_why(error)}") from None
    finally:
        connection.close()


def listener_from(path: str | None, environment: Mapping[str, str]) -> Listener:
    """The listener by the settings file, overridden by MUSTER_* variables. Raises ProbeError."""
    values = _read(path) if path is not None else {}
    given = {name.lower(): value for name, value in environment.items()}
    given = {name.removeprefix("muster_"): value for name, value in given.items() if name.startswith("muster_")}
    for settings in (values, given):
        rename_settings(settings)
    values |= {name: given[name] for name in _SETTINGS if name in given}
    defaults = Listener()
    port = values.get("listen_port", defaults.port)
    if not str(port).isdecimal() or len(str(port)) > 5:  # a longer number overflows in the connect call
        raise ProbeError(f"listen_port: {port!r} is not a port")
    files = (str(values[name]) if values.get(name) else None for name in _SETTINGS[2:])
    return Listener(str(values.get("listen_host", defaults.host)), int(port), *files)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the probe. Exit code 0: Muster is well; 1: it answers that it is not; 2: it could not be asked."""
    parser = ArgumentParser("python -m extender.probe", description="Ask the Muster on this machine how it is.")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--ready", action="store_true", help="has it read the cluster? (the default)")
    kind.add_argument("--live", action="store_true", help="does it answer at all?")
    parser.add_argument("--config", metavar="FILE", help="Muster's settings file (YAML)")
    given = parser.parse_args(arguments)
    try:
        well, answer = ask(listener_from(given.config, os.environ), ready=not given.live)
    except ProbeError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2
    print(answer)  # noqa: T201
    return 0 if well else 1


def _why(error: Exception) -> str:
    """The error in words, without numbers. Only the standard library: the probe starts every few seconds."""
    known = isinstance(error, ConnectionError) and error.errno
    return os.strerror(known).lower() if known else str(error) or type(error).__name__


def _trust(listener: Listener) -> ssl.SSLContext:
    """A context with the server's own certificate that trusts the authority of the callers.

    The server's name is not compared: the probe asks 127.0.0.1, which need not be in the certificate.
    """
    import ssl

    try:
        context = ssl.create_default_context(cafile=listener.client_ca or listener.cert)
        context.check_hostname = False
        context.load_cert_chain(listener.cert or "", listener.key)
    except OSError as error:
        files = ", ".join(filter(None, listener[2:]))
        raise ProbeError(f"Muster cannot be asked over HTTPS with {files}: {error.strerror or error}") from None
    return context


def _read(path: str) -> dict[str, Any]:
    from extender.config.reading import UnreadableYamlError, read_mapping

    try:
        return read_mapping(Path(path))
    except UnreadableYamlError as error:
        raise ProbeError(" ".join(str(error).split())) from None


if __name__ == "__main__":
    sys.exit(main())
