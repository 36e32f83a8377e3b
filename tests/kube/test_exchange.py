"""Requests on kept connections: which are sent again, and which part of a broken answer does not count as an answer."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from kubernetes.aio.client import Configuration

from devcluster.certificates import Authority
from extender.kube.api import exchange
from extender.kube.api.connection import ApiError, Connection, StandbyError, UnreachableError
from extender.kube.api.exchange import Exchanges
from extender.kube.api.login import OfficialLogin
from extender.kube.client import Kube
from tests.kube.fake_api import OK, fake_api


def said(content: str = "{}", status: str = "200 OK", *headers: str) -> bytes:
    lines = "".join(f"{header}\r\n" for header in headers)
    return f"HTTP/1.1 {status}\r\n{lines}Content-Length: {len(content)}\r\n\r\n{content}".encode()


class Server:
    """Answers with these bytes, in order, and closes the connection where they are empty."""

    def __init__(self, *replies: bytes | asyncio.Future[bytes]) -> None:
        self.connections = 0
        self.heads: list[str] = []
        self.asked = asyncio.Event()
        self._replies = list(replies)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while self._replies:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                self.heads.append(head)
                self.asked.set()
                await reader.readexactly(int(head.partition("Content-Length: ")[2].partition("\r\n")[0]))
                reply = self._replies.pop(0)
                content = reply if isinstance(reply, bytes) else await reply
                if not content:
                    break
                writer.write(content)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()


@asynccontextmanager
async def served(server: Server, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context)
    yield listening.sockets[0].getsockname()[1]
    listening.close()


def with_server(server: Server, script: Callable[[Connection], Awaitable[None]]) -> None:
    async def run() -> None:
        async with served(server) as port:
            connection = Connection(OfficialLogin(Configuration(host=f"http://127.0.0.1:{port}/base")))
            try:
                await script(connection)
            finally:
                await connection.close()

    asyncio.run(run())


def test_requests_follow_each_other_on_one_connection() -> None:
    server = Server(said('{"a": 1}'), b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + said('{"b": 2}'))

    async def script(connection: Connection) -> None:
        assert await connection.call("PATCH", "/it", body={"c": 3}) == b'{"a": 1}'
        assert await connection.call("GET", "/that", query={"limit": "1"}) == b'{"b": 2}'

    with_server(server, script)
    assert server.connections == 1
    assert [head.partition("\r\n")[0] for head in server.heads] == [
        "PATCH /base/it HTTP/1.1",
        "GET /base/that?limit=1 HTTP/1.1",
    ]


@pytest.mark.parametrize("method", ["GET", "PATCH", "POST", "DELETE"])
def test_a_page_of_somebody_else_is_no_answer_whatever_its_status(method: str) -> None:
    """After a page of a captive portal, or of a proxy without its API server, the outcome of a write is unknown."""

    async def script(connection: Connection) -> None:
        with pytest.raises(UnreachableError, match="something else answers for the API server"):
            await connection.call(method, "/it")
        assert connection.was_away(10)
        assert await connection.call(method, "/it") == b"{}"

    with_server(Server(said("<!DOCTYPE html><html>Sign in</html>"), said("{}")), script)


def test_content_in_chunks_is_put_together() -> None:
    chunks = b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{"a\r\n5\r\n": 1}\r\n0\r\n\r\n'

    async def script(connection: Connection) -> None:
        assert await connection.call("GET", "/it") == b'{"a": 1}'

    with_server(Server(chunks), script)


@pytest.mark.parametrize("broken", [b"", said("{}")[:-1], b"no HTTP\r\n\r\n"], ids=["closed", "cut", "no HTTP"])
def test_of_a_broken_connection_the_outcome_is_unknown_and_the_next_request_takes_another(broken: bytes) -> None:
    server = Server(broken, b"", said("{}"))

    async def script(connection: Connection) -> None:
        with pytest.raises(UnreachableError):
            await connection.call("PATCH", "/it", timeout_s=0.5)
        assert connection.was_away(10)
        with pytest.raises(UnreachableError):
            await connection.call("PATCH", "/it")
        assert await connection.call("PATCH", "/it") == b"{}"

    with_server(server, script)
    assert server.connections == 3


def test_a_late_answer_is_not_taken_for_that_to_the_next_request() -> None:
    async def run() -> None:
        late = asyncio.get_running_loop().create_future()
        server = Server(late, said("second"))
        async with served(server) as port:
            exchanges = Exchanges(f"http://127.0.0.1:{port}", None, None, most=1)
            with pytest.raises(TimeoutError):
                await exchanges.ask("PATCH", "/it", {}, b"", timeout_s=0.05)
            late.set_result(said("first"))
            assert (await exchanges.ask("PATCH", "/it", {}, b"", timeout_s=5)).content == b"second"
            exchanges.close()

    asyncio.run(run())


def test_a_request_beyond_the_most_waits_for_its_turn() -> None:
    async def run() -> None:
        server = Server(said("first"), said("second"))
        async with served(server) as port:
            exchanges = Exchanges(f"http://127.0.0.1:{port}", None, None, most=1)
            requests = [exchanges.ask("GET", "/it", {}, b"", timeout_s=5) for _ in range(2)]
            assert [answer.content for answer in await asyncio.gather(*requests)] == [b"first", b"second"]
            exchanges.close()
        assert server.connections == 1

    asyncio.run(run())


def test_who_stops_leading_while_a_write_waits_for_its_connection_does_not_send_it() -> None:
    async def run() -> None:
        slow: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        server, leads = Server(slow, said(), said()), True
        async with served(server) as port:
            connection = Connection(OfficialLogin(Configuration(host=f"http://127.0.0.1:{port}")), connections=1)
            kube = Kube(connection, may_write=lambda: leads)
            first = asyncio.create_task(kube.call("GET", "/it"))
            write = asyncio.create_task(kube.call("PATCH", "/it"))
            await server.asked.wait()
            leads = False
            slow.set_result(said())
            await first
            with pytest.raises(StandbyError):
                await write
            await kube.call("GET", "/it")
            await connection.close()
        assert [head.partition(" ")[0] for head in server.heads] == ["GET", "GET"]

    asyncio.run(run())


def test_what_the_server_closes_is_not_used_again() -> None:
    server = Server(said("{}", "200 OK", "Connection: close"), said("{}"))

    async def script(connection: Connection) -> None:
        for _ in range(2):
            await connection.call("GET", "/it")

    with_server(server, script)
    assert server.connections == 2


def test_what_nobody_has_used_for_long_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "IDLE_S", 0.0)
    server = Server(said(), said())

    async def script(connection: Connection) -> None:
        for _ in range(2):
            await connection.call("GET", "/it")

    with_server(server, script)
    assert server.connections == 2


@pytest.mark.parametrize(
    ("answer", "status", "pause"),
    [
        (said('{"reason": "TooManyRequests"}', "429 Too Many", "retry-after: 3"), 429, 3.0),
        (said("", "307 Moved", "Location: /other"), 307, None),
        (said("a page of a proxy", "502 Bad Gateway"), 502, None),
    ],
)
def test_whatever_is_no_success_is_an_error(answer: bytes, status: int, pause: float | None) -> None:
    async def script(connection: Connection) -> None:
        with pytest.raises(ApiError) as caught:
            await connection.call("GET", "/it")
        assert (caught.value.status, caught.value.retry_after_s) == (status, pause)

    with_server(Server(answer), script)


def test_an_answer_without_end_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "LARGEST_ANSWER", 10)

    async def script(connection: Connection) -> None:
        with pytest.raises(UnreachableError, match="more than 10 bytes"):
            await connection.call("GET", "/it")

    with_server(Server(said("x" * 11)), script)


def test_a_name_cannot_end_the_line_that_it_is_in() -> None:
    server = Server(said())

    async def script(connection: Connection) -> None:
        await connection.call("GET", "/a b\r\nX: y?c=%2B")

    with_server(server, script)
    assert server.heads[0].startswith("GET /base/a%20b%0D%0AX:%20y?c=%2B HTTP/1.1\r\nHost: 127.0.0.1")


def test_a_proxy_is_used_where_one_is_configured() -> None:
    async def run() -> None:
        async with fake_api() as (api, _):
            api.on("PATCH", "/it", OK)
            configuration = Configuration(host="http://nowhere.invalid")
            configuration.proxy = api.url
            connection = Connection(OfficialLogin(configuration))
            await connection.call("PATCH", "/it", body={})
            await connection.close()
            assert [request.method for request in api.asked] == ["PATCH"]

    asyncio.run(run())


@pytest.mark.parametrize("name", [None, "kubernetes", "another"])
def test_the_server_has_to_show_who_it_is(tmp_path: Path, name: str | None) -> None:
    ours, theirs = Authority(tmp_path / "ours"), Authority(tmp_path / "theirs")
    pair = ours.serving("api")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)

    async def asked(port: int, authority: Authority) -> bytes:
        configuration = Configuration(host=f"https://127.0.0.1:{port}", ssl_ca_cert=str(authority.certificate))
        configuration.tls_server_name = name
        connection = Connection(OfficialLogin(configuration))
        try:
            return await connection.call("GET", "/it")
        finally:
            await connection.close()

    async def run() -> None:
        async with served(Server(said("{}")), context) as port:
            with pytest.raises(UnreachableError, match="certificate"):
                await asked(port, theirs)
            if name == "another":
                with pytest.raises(UnreachableError, match="certificate"):
                    await asked(port, ours)
            else:
                assert await asked(port, ours) == b"{}"

    asyncio.run(run())


def test_an_address_that_does_not_answer_keeps_nobody_from_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """An example is the address of a network that a resolver names and that no route leads to."""
    silent = socket.socket()
    silent.bind(("127.0.0.1", 0))
    silent.listen(0)
    filling = [socket.socket() for _ in range(4)]
    for sock in filling:
        sock.settimeout(0)
        sock.connect_ex(silent.getsockname())

    async def run() -> None:
        async with served(Server(said("{}"))) as port:
            addresses = [silent.getsockname(), ("127.0.0.1", port)]
            resolved = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address) for address in addresses]
            monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: resolved)
            connection = Connection(OfficialLogin(Configuration(host="http://api.invalid")))
            assert await connection.call("GET", "/it", timeout_s=5) == b"{}"
            await connection.close()

    asyncio.run(run())
    for sock in (silent, *filling):
        sock.close()
