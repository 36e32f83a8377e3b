"""The memory, parsing and waiting that one caller can cost Muster, through real sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from extender.http import connections
from extender.http.connections import MAX_HEAD, MAX_HEADERS, Connections
from tests.connecting import REQUEST, Served
from tests.running import eventually

pytestmark = pytest.mark.anyio


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with Served(Connections()).serving() as server:
        yield server


HEADS = {
    "one endless header": [REQUEST, b"X: ", *[b"x" * 65_536] * 100],
    "an endless URL": [b"GET /", *[b"x" * 65_536] * 100],
    "endless headers": [REQUEST, *[b"X: x\r\n" * 10_000] * 100],
    "one header too many": [REQUEST, b"X: x\r\n" * MAX_HEADERS, b"\r\n"],
    "a byte too many": [REQUEST, b"X: " + b"x" * MAX_HEAD + b"\r\n\r\n"],
    "no end of lines before": [b"\r\n" * 100, b"GET / HTTP/1.1\r\nA", *[b"x" * 65_536] * 10],
}


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
async def test_a_head_beyond_its_limit_is_refused_and_not_kept(served: Served, head: list[bytes]) -> None:
    caller = await served.caller()
    await caller.send(*head)
    assert await caller.status() in (431, 0)
    assert await caller.closed()
    (protocol,) = served.protocols
    assert protocol._received <= MAX_HEAD + connections._SLICE, "nothing is parsed after the slice that was too much"
    assert len(protocol.headers) <= MAX_HEADERS
    assert served.refusals == {"headers": 1}
    assert served.requests == 0
    assert served.shared.arriving_bytes == 0
    assert await (await served.caller()).get() == 200


async def test_the_refusal_says_the_limits(served: Served) -> None:
    caller = await served.caller()
    await caller.send(REQUEST + b"X: x\r\n" * 120 + b"\r\n")
    text = await caller._reader.read()
    assert text.startswith(b"HTTP/1.1 431 ")
    assert text.endswith(b"the head of a request has at most 16384 bytes and 100 headers\n")


async def test_heads_of_an_ordinary_size_are_answered(served: Served) -> None:
    caller = await served.caller()
    for _ in range(3):
        await caller.send(REQUEST + b"X: " + b"x" * 8000 + b"\r\n" + b"Y: y\r\n" * 80, b"\r\n")
        assert await caller.status() == 200
    assert served.refusals == {}


@pytest.mark.parametrize(
    "part", [b"1;" + b"x" * 65_536, b"0\r\n" + b"T: " + b"x" * 65_536, b"0\r\n" + b"T: t\r\n" * 9000]
)
async def test_a_body_in_chunks_cannot_smuggle_a_head(served: Served, part: bytes) -> None:
    caller = await served.caller()
    await caller.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", part, part[4:])
    assert await caller.status() in (431, 0)
    assert served.refusals == {"headers": 1}


async def test_a_body_in_small_chunks_is_read(served: Served) -> None:
    caller = await served.caller()
    await caller.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
    await caller.send(*[b"100\r\n" + b"x" * 256 + b"\r\n"] * 4000, b"0\r\n\r\n")
    assert await caller.status() == 200
    assert served.body == 256 * 4000


async def test_whoever_sends_slowly_is_cut_off(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "ARRIVAL_S", 0.05)
    for start in (b"G", REQUEST, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx"):
        caller = await served.caller()
        await caller.send(start)
        assert await caller.status() == 408
        assert await caller.closed()
    assert served.refusals == {"slow": 3}


async def test_a_connection_without_a_request_is_closed_in_the_end(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "IDLE_S", 0.05)
    assert await (await served.caller()).closed()
    caller = await served.caller()
    assert await caller.get() == 200
    assert await caller.closed()


async def test_an_answer_that_nobody_reads_is_not_kept_for_ever(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "DRAIN_S", 0.05)
    caller = await served.caller()
    await caller.send(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
    await eventually(lambda: served.refusals["slow"] == 1)
    assert served.protocols[0].transport.is_closing()


async def test_a_request_that_was_answered_early_is_not_read_to_its_end(served: Served) -> None:
    caller = await served.caller()
    await caller.send(b"POST /unread HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n", *[b"x" * 65_536] * 64)
    assert await caller.status() in (200, 0)
    assert await caller.closed()


@pytest.mark.parametrize("page", ["/held", "/whole"])
async def test_a_request_before_the_answer_to_the_last_is_refused_and_the_last_is_answered(
    served: Served, page: str
) -> None:
    caller = await served.caller()
    await caller.send(f"GET {page} HTTP/1.1\r\nHost: a\r\n\r\n".encode() + (REQUEST + b"\r\n") * 1000)
    served.go_on.set()
    answer = await caller.rest()
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"\r\nconnection: close\r\n" in answer
    assert answer.count(b"HTTP/1.1") == 1
    assert served.requests == 1
    assert served.refusals == {"malformed": 1}


async def test_a_caller_that_leaves_after_two_requests_at_once_leaves_nothing_behind(served: Served) -> None:
    caller = await served.caller()
    await caller.send(b"GET /held HTTP/1.1\r\nHost: a\r\n\r\n" + REQUEST + b"\r\n")
    await eventually(lambda: served.refusals["malformed"] == 1)
    caller.close()
    await eventually(lambda: not served.shared._open)


async def test_beyond_the_most_the_connection_that_waits_longest_gives_way() -> None:
    async with Served(Connections(3)).serving() as served:
        held = await served.caller()
        await held.send(b"GET /held HTTP/1.1\r\nHost: a\r\n\r\n")
        await eventually(lambda: served.requests == 1)
        slow, idle = await served.caller(), await served.caller()
        await slow.send(REQUEST)
        assert await idle.get() == 200
        kube_scheduler = await served.caller()
        assert await kube_scheduler.get() == 200
        assert await slow.closed()
        assert await idle.get() == 200, "it has waited for less long"
        assert [await (await served.caller()).get() for _ in range(20)] == [200] * 20
        served.go_on.set()
        assert await held.status() == 200, "what is being answered never gives way"
        assert served.refusals["connections"] == 21


async def test_when_everybody_is_being_answered_the_new_one_is_closed() -> None:
    async with Served(Connections(2)).serving() as served:
        held = [await served.caller() for _ in range(2)]
        for caller in held:
            await caller.send(b"GET /held HTTP/1.1\r\nHost: a\r\n\r\n")
        await eventually(lambda: served.requests == 2)
        assert await (await served.caller()).closed()
        served.go_on.set()
        assert [await caller.status() for caller in held] == [200, 200]


async def test_the_bytes_of_unfinished_requests_are_bounded_together() -> None:
    """A request that is sent at once still succeeds."""
    async with Served(Connections(most_bytes=1 << 20)).serving() as served:
        start = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 400000\r\n\r\n"
        slow = [await served.caller() for _ in range(10)]
        for caller in slow:
            await caller.send(start, b"x" * 300_000)
            assert served.shared.arriving_bytes <= 1 << 20
        quick = await served.caller()
        await quick.send(start, b"x" * 400_000)
        assert await quick.status() == 200
        assert served.shared.arriving_bytes <= 1 << 20
        assert served.refusals["connections"] >= 7
        assert await slow[0].closed()


async def test_what_is_no_http_is_refused_once(served: Served) -> None:
    caller = await served.caller()
    await caller.send(b"\x16\x03\x01\x00\xff" * 50_000)
    assert await caller.status() in (400, 0)
    assert served.refusals == {"malformed": 1}


async def test_a_whole_answer_ends_the_request_and_not_the_connection(served: Served) -> None:
    caller = await served.caller()
    whole = REQUEST.replace(b"/", b"/whole", 1)
    for head in (whole, whole):
        await caller.send(head + b"\r\n")
        assert await caller.status() == 200
    await caller.send(whole + b"Connection: close\r\n\r\n")
    assert await caller.rest() == (
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 3\r\nconnection: close\r\n\r\n[1]"
    )
    assert served.requests == 3
    assert served.shared.arriving_bytes == 0


async def test_nobody_is_answered_twice(served: Served) -> None:
    caller = await served.caller()
    assert await caller.get() == 200
    (protocol,) = served.protocols
    protocol.answer(b"[1]")
    await caller.send(REQUEST + b"Connection: close\r\n\r\n")
    assert b"[1]" not in await caller.rest()
