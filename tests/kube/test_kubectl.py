"""A client-only installation logs in by kubectl: requests pass its proxy, and errors are in its words."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from devcluster.binaries import locate
from extender.kube.api.connection import ApiError, Connection
from extender.kube.api.kubectl import log_in
from tests.kube.fake_api import OK, FakeApi, fake_api, watch
from tests.kube.test_tokens import kubeconfig


@pytest.fixture(autouse=True)
def scratch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The folder in which sockets are made; empty at the end. kubectl is that of the devcluster."""
    monkeypatch.setenv("PATH", f"{locate()['kubectl'].parent}{os.pathsep}{os.environ['PATH']}")
    with tempfile.TemporaryDirectory() as directory:  # pytest's own are too deep for a socket
        monkeypatch.setattr(tempfile, "tempdir", directory)
        yield Path(directory)
        assert list(Path(directory).iterdir()) == []


def modes(scratch: Path) -> list[int]:
    return [directory.stat().st_mode & 0o777 for directory in scratch.iterdir()]


def connected(api: FakeApi, at: Path) -> Path:
    return kubeconfig(at / "config", f"{api.url}/base", {"token": "own"})


def test_kubectl_says_who_asks_and_passes_all_else_on(tmp_path: Path, scratch: Path) -> None:
    async def script() -> None:
        async with fake_api() as (api, _):
            api.on("PATCH", "/base/api/v1/nodes/a b", OK)
            api.on("WATCH", "/base/api/v1/pods", watch({"type": "ADDED"}))
            connection = Connection(await log_in(connected(api, tmp_path)))
            assert modes(scratch) == [0o700]
            with pytest.raises(ValueError, match=r"install muster-scheduler\[server\]"):
                _ = connection.authority
            answer = await connection.call(
                "PATCH", "/api/v1/nodes/a%20b", query={"dryRun": "All"}, body={"x": 1}, impersonate="jane"
            )
            assert answer == b"{}"
            [request] = api.asked
            assert (request.query, request.body, request.impersonated) == ({"dryRun": "All"}, {"x": 1}, "jane")
            lines = connection.lines("/api/v1/pods", aiohttp.ClientTimeout(5), {"watch": "1"})
            assert [line async for line in lines] == [b'{"type": "ADDED"}']
            with pytest.raises(ApiError, match="404"):
                await connection.call("GET", "/api/v1/gone")
            await connection.close()

    asyncio.run(script())


def test_kubectl_logs_in_and_uses_the_context(tmp_path: Path) -> None:
    async def script() -> None:
        path = kubeconfig(tmp_path / "config", "http://127.0.0.1:1", {})
        with pytest.raises(ValueError, match=r"kubectl could not log in: .*prod"):
            await log_in(path, "prod")
        connection = Connection(await log_in(path, "c"))
        with pytest.raises(ApiError, match="connection refused") as refused:
            await connection.call("GET", "/version")
        assert refused.value.outage
        await connection.close()

    asyncio.run(script())


WAITS = """
import asyncio, signal, sys, tempfile
from extender.kube.api.kubectl import log_in
tempfile.tempdir = sys.argv[2]
login = asyncio.run(log_in(sys.argv[1]))
print("in", flush=True)
signal.pause()
"""


def test_the_proxy_ends_with_a_command_that_is_killed(tmp_path: Path, scratch: Path) -> None:
    path = kubeconfig(tmp_path / "config", "http://127.0.0.1:1", {})
    command = [sys.executable, "-c", WAITS, str(path), str(scratch)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == "in\n"
        [directory] = scratch.iterdir()
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(20)
            client.connect(str(directory / "api"))
            killed.kill()
            assert client.recv(1) == b""  # the proxy is gone


def test_without_kubectl_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match=r"no kubectl on the PATH .* or muster-scheduler\[server\]"):
        asyncio.run(log_in())
    with pytest.raises(FileNotFoundError, match=f"there is no kubeconfig {tmp_path}/none"):
        asyncio.run(log_in(tmp_path / "none"))
