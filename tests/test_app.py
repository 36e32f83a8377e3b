"""The composition root: a part that fails in an unforeseen way ends the process, and is not quietly missed."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from extender.app import StartError, _essential, _listen
from extender.kube.api.connection import Connection
from tests.running import running

pytestmark = pytest.mark.anyio


async def test_the_process_ends_when_a_part_fails_in_an_unforeseen_way() -> None:
    async def fail() -> None:
        raise RecursionError

    async with running() as extender, asyncio.timeout(10):
        task = _essential(fail(), extender.runner)
        await extender.runner.failed.wait()
        assert task.done()


async def test_a_part_that_is_cancelled_has_not_failed() -> None:
    async def stay() -> None:
        await asyncio.Event().wait()

    async with running() as extender:
        task = _essential(stay(), extender.runner)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert not extender.runner.failed.is_set()


async def test_a_port_that_is_taken_is_told_by_the_name_of_its_setting() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as other,
        pytest.raises(StartError, match="choose another metrics_port"),
    ):
        _listen("127.0.0.1", other.getsockname()[1], "metrics_port")


async def test_an_address_that_is_not_of_this_machine_is_told_by_the_name_of_its_setting() -> None:
    with pytest.raises(StartError, match=r"192\.0\.2\.1:1: .*; choose another listen_host, an address of this machine"):
        _listen("192.0.2.1", 1, "listen_port")


async def test_the_server_of_a_kubeconfig_without_a_scheme_is_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(
        "{clusters: [{name: c, cluster: {server: 'api.example.com:6443'}}], users: [{name: u, user: {token: t}}], "
        "contexts: [{name: c, context: {cluster: c, user: u}}], current-context: c}"
    )
    with pytest.raises(ValueError, match=r"6443.*without https:// before it"):
        await Connection.open(file)
