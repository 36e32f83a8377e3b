"""The login of an installation without the official client: by kubectl, which reads the kubeconfig.

kubectl has every way to log in that people use. Its proxy acts with the user's rights for everybody who reaches it. So
it listens on a socket in a directory that only this user can open, and it ends with the command, however that ends.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
import tempfile
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import aiohttp

_START_S = 20.0
_SERVES = b"Starting to serve on"
_GUARDED = 'exec 3<&0; { cat <&3; rm -rf "$0"; kill $$; } >/dev/null 2>&1 & exec "$@" 3<&- </dev/null'
"""Runs a program until the standard input ends, then removes the directory $0.

The program so ends with the process that holds its input. A process that is killed could not end it otherwise.
"""
_LARGEST_EVENT = 2 << 20
"""Bytes of a line that aiohttp buffers, as with the official client."""


class KubectlLogin:
    """A Login by a running ``kubectl proxy``."""

    host = "http://localhost"
    server_name: str | None = None
    direct = False
    tls: ssl.SSLContext | None = None

    def __init__(self, proxy: Process, socket: Path) -> None:
        self._proxy = proxy
        self._socket = socket

    @property
    def authority(self) -> Path | None:
        """Raises ValueError, because kubectl does not show the certificate authority."""
        raise ValueError(
            "this needs the certificate of the API server: install muster-scheduler[server] (docs/install.md)"
        )

    async def authorization(self) -> str | None:
        """None, because kubectl adds the header."""
        return None

    def session(self) -> aiohttp.ClientSession:
        """A pool of connections to the proxy."""
        connector = aiohttp.UnixConnector(str(self._socket), limit=0)  # watches stay open, one for each kind
        return aiohttp.ClientSession(connector=connector, trust_env=False, read_bufsize=_LARGEST_EVENT)

    async def close(self) -> None:
        await _end(self._proxy, self._socket.parent)


async def log_in(kubeconfig: str | os.PathLike[str] | None = None, context: str | None = None) -> KubectlLogin:
    """Log in as kubectl does with that kubeconfig and context. Raises ValueError or OSError."""
    argv = _command(kubeconfig, context)
    directory = Path(tempfile.mkdtemp(prefix="muster-"))  # for this user only
    socket = directory / "api"
    proxy = None
    serves = False
    with tempfile.TemporaryFile() as complaints:  # a pipe without a reader would fill up
        try:
            # A session of its own: Ctrl-C must not end the proxy, through which Muster may have to clean up.
            proxy = await asyncio.create_subprocess_exec(
                "sh", "-c", _GUARDED, directory, *argv, "proxy", f"--unix-socket={socket}", "--append-server-path",
                stdin=PIPE, stdout=PIPE, stderr=complaints, start_new_session=True,
            )  # fmt: skip
            assert proxy.stdout is not None  # noqa: S101 - asked for as a pipe
            line = await asyncio.wait_for(proxy.stdout.readline(), _START_S)
            serves = line.startswith(_SERVES)
        except TimeoutError:
            raise ValueError(f"kubectl did not log in within {_START_S:.0f} s") from None
        finally:
            if not serves:
                await _end(proxy, directory)
        if not serves:
            complaints.seek(0)
            complaint = " ".join(complaints.read().decode("utf-8", "replace").split())
            raise ValueError(f"kubectl could not log in: {complaint or 'no reason given'}")
    return KubectlLogin(proxy, socket)


def _command(kubeconfig: str | os.PathLike[str] | None, context: str | None) -> list[str]:
    if kubeconfig is not None and not Path(kubeconfig).is_file():
        raise FileNotFoundError(f"there is no kubeconfig {os.fspath(kubeconfig)}")
    program = shutil.which("kubectl")
    if program is None:
        raise ValueError(
            "there is no kubectl on the PATH to log in with: install it, or muster-scheduler[server], that needs none: "
            "docs/install.md"
        )
    named = [f"--kubeconfig={os.fspath(kubeconfig)}"] if kubeconfig is not None else []
    return [program, *named, *([f"--context={context}"] if context is not None else [])]


async def _end(proxy: Process | None, directory: Path) -> None:
    if proxy is not None and proxy.stdin is not None:
        proxy.stdin.close()
        await proxy.wait()
    shutil.rmtree(directory, ignore_errors=True)
