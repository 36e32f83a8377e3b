"""TLS for the listening socket: the accepted callers, and new certificates without a restart."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path

from extender.config.tls_files import TlsFiles

log = logging.getLogger("muster")

_LOOK_AGAIN_S = 60.0
_CERTIFICATE = b"-----BEGIN CERTIFICATE-----"


class TlsError(Exception):
    """The TLS files cannot be used; the message says which and why, in one line."""


class Credentials:
    """The server's side of every handshake. ``context`` is for the listening socket and stays the same object."""

    def __init__(self, files: TlsFiles) -> None:
        """Raises TlsError if the files cannot be used."""
        self._files = files
        self._current = _server_context(files)
        self._read = _fingerprint(files)
        self.context = _server_context(files)
        self.context.sni_callback = self._take_current

    def renew(self) -> bool:
        """Load files that have changed, or an authority that was removed; returns whether it did.

        Unusable files are refused with one warning, and the present certificates stay in use. Open connections stay
        open.
        """
        now = _fingerprint(self._files)
        if now == self._read:
            return False
        self._read = now
        try:
            self._current = _server_context(self._files)
        except TlsError as error:
            log.warning("the new certificates cannot be used, those from before stay in use: %s", error)
            return False
        log.info("took up new certificates from %s", self._files.cert)
        return True

    async def follow(self) -> None:
        """Look for new files once a minute, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_AGAIN_S)
            self.renew()

    def _take_current(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        # OpenSSL asks before it sends or checks any certificate, and takes both from the context that is set here.
        connection.context = self._current


def _server_context(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # kube-scheduler, Prometheus and all recent client libraries speak it.
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # A resumed session would skip the check of a certificate whose authority has been removed since.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
    try:
        context.load_cert_chain(files.cert, files.key, password=_no_password)
        if files.client_ca is not None:
            context.load_verify_locations(files.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ssl.SSLError, ValueError) as error:
        raise TlsError(_fault(files, error)) from None
    return context


def _no_password() -> str:
    raise ValueError("the key is encrypted; Muster cannot ask for a password")


def _fault(files: TlsFiles, error: Exception) -> str:
    """The wrong file and its fault, as far as OpenSSL says."""
    for path in files.paths:
        wanted, begin = ("private key", b"PRIVATE KEY-----") if path == files.key else ("certificate", _CERTIFICATE)
        try:
            if begin not in path.read_bytes():
                return f"{path}: there is no {wanted} in PEM in it"
        except OSError as unreadable:
            return f"{path}: {unreadable.strerror}"
    what = getattr(error, "reason", None) or str(error)
    return f"{', '.join(map(str, files.paths))}: not usable together: {str(what).replace('_', ' ').lower()}"


def _fingerprint(files: TlsFiles) -> tuple[bytes | None, ...]:
    def content(path: Path) -> bytes | None:
        try:
            return path.read_bytes()
        except OSError:
            return None

    return tuple(map(content, files.paths))
