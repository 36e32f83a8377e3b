"""Bodies that are too large, and clients other than kube-scheduler, get a plain answer before they cost anything."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import httpx
import pytest

from extender.core.ledger.state import State
from extender.http import wire
from extender.http.hosts import Hosts
from extender.http.server import create_app
from extender.http.verbs import LARGE, LARGEST_BIND, Message
from extender.observe.metrics import Metrics
from tests.running import Extender, eventually, running

pytestmark = pytest.mark.anyio
POD = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}}
VERBS = ["filter", "prioritize", "preempt", "bind"]


@pytest.fixture
async def extender() -> AsyncIterator[Extender]:
    async with running() as started:
        yield started


async def test_more_candidates_than_allowed_are_an_error_in_words(extender: Extender) -> None:
    names = [f"n{n}" for n in range(50_001)]
    answer = (await extender.post("filter", {"Pod": POD, "NodeNames": names})).json()
    assert answer["Error"] == "the request names 50001 nodes, and max_candidates is 50000"
    assert answer["NodeNames"] == []
    assert (await extender.post("prioritize", {"Pod": POD, "NodeNames": names})).json() == []
    victims = {name: {"Pods": [{"UID": "v"}]} for name in names}
    preempted = await extender.post("preempt", {"Pod": POD, "NodeNameToMetaVictims": victims})
    assert preempted.json() == {"NodeNameToMetaVictims": {}}
    assert (await extender.post("filter", {"Pod": POD, "NodeNames": names[:50_000]})).json()["Error"] == ""


@pytest.mark.parametrize("verb", VERBS)
async def test_a_page_in_a_browser_cannot_call(extender: Extender, verb: str) -> None:
    answer = await extender.client.post(f"/{verb}", content=b"{}", headers={"Origin": "https://evil.example"})
    assert answer.status_code == 403


@pytest.mark.parametrize("verb", VERBS)
async def test_a_body_that_does_not_state_its_length_ends_at_the_limit_too(extender: Extender, verb: str) -> None:
    app = create_app(extender.runner, Metrics(lambda: extender.core.state), bind_timeout_s=30, max_body=1000)
    messages: list[Message] = []
    asked = 0

    async def receive() -> Message:
        nonlocal asked
        asked += 1
        return {"type": "http.request", "body": b"x" * 400, "more_body": True}

    async def send(message: Message) -> None:
        messages.append(message)

    await app(
        {"type": "http", "method": "POST", "path": f"/{verb}", "headers": [(b"host", b"localhost")]}, receive, send
    )
    assert messages[0]["status"] == 413
    assert messages[1]["body"] == b"the body is larger than 1000 bytes\n"
    assert asked == 3, "nothing is read beyond the limit"


def test_keys_in_another_case_are_read_in_small_documents_only() -> None:
    """Folding takes the whole document apart; kube-scheduler never needs it."""
    small = json.dumps({"pod": POD, "nodenames": ["n0"]}).encode()
    assert wire.decode_filter(small).candidates == ("n0",)
    with pytest.raises(wire.WireError):
        wire.decode_filter(json.dumps({"pod": POD, "nodenames": ["n0"], "x": "y" * wire.LONGEST_FOLDED}).encode())


EVIL = {
    "names": '"NodeNames":[' + '"a",' * 60_000 + '"a"]',
    "nodes": '"Nodes":{"items":[' + '{"metadata":{"name":"a"}},' * 60_000 + "{}]}",
    "containers": '"Pod":{"spec":{"containers":[' + "{}," * 60_000 + "{}]}}",
    "gates": '"Pod":{"spec":{"schedulingGates":[' + "{}," * 60_000 + "{}]}}",
    "labels": '"Pod":{"metadata":{"labels":{' + '"":"",' * 60_000 + '"":""}}}',
    "victims": '"NodeNameToMetaVictims":{"a":{"Pods":[' + '{"UID":"a"},' * 60_000 + '{"UID":"a"}]}}',
    "victims of nodes": '"NodeNameToVictims":{' + ",".join(f'"{at}":{{}}' for at in range(60_000)) + "}",
}


@pytest.mark.parametrize("evil", EVIL)
def test_parts_are_counted_before_they_are_taken_apart(evil: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part costs microseconds, and a body has room for millions of them."""

    def never(*_: object) -> None:
        raise AssertionError("taken apart")

    for name in ("pod_sent", "_node_name", "_victim_uid"):
        monkeypatch.setattr(wire, name, never)
    body = ("{" + EVIL[evil] + ("" if "Pod" in EVIL[evil][:5] else f',"Pod":{json.dumps(POD)}') + "}").encode()
    decode = wire.decode_preempt if "Victims" in EVIL[evil] else wire.decode_filter
    if "Pod" not in EVIL[evil][:5]:
        monkeypatch.setattr(wire, "pod_sent", lambda _: "a pod")
    with pytest.raises(wire.WireError, match=r"\d+ (parts|nodes)"):
        decode(body, 20_000)


def test_commas_in_texts_of_an_ordinary_size_are_no_parts_too_many() -> None:
    script = {"containers": [{"name": "main", "args": ["a,[{" * 5_000]}]}
    body = json.dumps({"Pod": {**POD, "spec": script}, "NodeNames": [f"n{n}" for n in range(5_000)]}).encode()
    assert len(wire.decode_filter(body).candidates) == 5_000


def test_whole_nodes_of_a_large_cluster_are_read() -> None:
    """kube-scheduler sends whole nodes without nodeCacheCapable, if the limit allows such bodies."""
    filler = "x" * 10_000
    nodes = [{"metadata": {"name": f"n{n}", "annotations": {"a": filler}}} for n in range(1_000)]
    body = json.dumps({"Pod": POD, "Nodes": {"items": nodes}}).encode()
    assert len(wire.decode_filter(body).nodes or {}) == 1_000


async def test_a_bind_is_four_names_and_no_more(extender: Extender) -> None:
    answer = await extender.post("bind", b"{" + b" " * LARGEST_BIND)
    assert (answer.status_code, answer.text) == (413, f"the body is larger than {LARGEST_BIND} bytes\n")


async def test_large_bodies_are_read_one_at_a_time(extender: Extender) -> None:
    """A waiting body is not read: it stays with its sender. A body of an ordinary size does not wait."""
    app = create_app(extender.runner, Metrics(lambda: extender.core.state), bind_timeout_s=30, max_body=4 << 20)
    read, answered = [0, 0], asyncio.Event()
    go_on = asyncio.Event()

    def call(which: int) -> asyncio.Task[None]:
        async def receive() -> Message:
            read[which] += 1
            if which == 0 and read[0] == 3:
                await go_on.wait()
            return {"type": "http.request", "body": b"x" * (LARGE // 2), "more_body": read[which] < 4}

        async def send(_: Message) -> None:
            if which == 1:
                answered.set()

        headers = [(b"host", b"localhost"), (b"content-length", str(2 * LARGE).encode())]
        scope = {"type": "http", "method": "POST", "path": "/filter", "headers": headers}
        return asyncio.ensure_future(app(scope, receive, send))

    first = call(0)
    await eventually(lambda: read[0] == 3)
    second = call(1)
    small = await extender.post("filter", {"Pod": POD, "NodeNames": []})
    assert small.json()["Error"] == ""
    assert read == [3, 0]
    go_on.set()
    await asyncio.wait_for(asyncio.gather(first, second), 10)
    assert answered.is_set()
    assert read == [4, 4]


HOSTS = [
    "localhost",
    "localhost:10290",
    "LOCALHOST.",
    "127.0.0.1:10290",
    "[::1]:10290",
    "10.1.2.3",
    "muster.internal:1",
]


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("path", ["/gangs", "/readyz", "/metrics"])
async def test_a_name_that_is_ours_and_every_address_are_answered(extender: Extender, host: str, path: str) -> None:
    """The callers are kube-scheduler, probes, port-forwards, and scrapers that use a pod's address."""
    hosts = Hosts(["Muster.Internal"])
    app = create_app(extender.runner, Metrics(lambda: State()), bind_timeout_s=30, max_body=1, hosts=hosts)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        assert (await client.get(path, headers={"Host": host})).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example:10290", "127.0.0.1.evil.example", "localhost.evil.example", "", "[", "x\x1b"]
)
async def test_a_page_whose_name_leads_to_this_machine_reads_nothing(extender: Extender, host: str) -> None:
    """DNS rebinding: the browser takes it for the same origin, and says which."""
    for path in ("/gangs", "/explain/a/b", "/metrics", "/healthz"):
        answer = await extender.client.get(path, headers={"Host": host})
        assert answer.status_code == 421
        assert "add the name to allowed_hosts" in answer.text
        assert answer.text.strip().isprintable()
    assert (await extender.client.post("/bind", content=b"{}", headers={"Host": host})).status_code == 421


def test_one_host_is_named() -> None:
    host = (b"host", b"localhost")
    assert [(Hosts().refusal(headers) or [0])[0] for headers in ([], [host], [host, host])] == [400, 0, 400]
    assert Hosts(every=True).refusal([(b"host", b"any")]) is None, "with TLS the certificate decides"


async def test_what_an_error_quotes_is_one_printable_line(extender: Extender) -> None:
    forged = {**POD, "spec": {"overhead": {"a\nb\x1b[31m": "\r\nforged"}}}
    answer = (await extender.post("filter", {"Pod": forged, "NodeNames": []})).json()
    assert answer["Error"].isprintable()


PATHS = [
    *("/gangs/a/b%0Ac", "/gangs/%2e%2e/%2e%2e", "/explain/%1b[31m/x", "/gangs/" + "x" * 5000 + "/y", "/gangs/%ff/%fe"),
    *("/filter/../bind", "/bind/", "/docs", "/openapi.json", "/gangs/a/b?c=%00"),
]


@pytest.mark.parametrize("path", PATHS)
async def test_a_page_that_is_not_there_is_not_there(extender: Extender, path: str) -> None:
    answer = await extender.client.get(path)
    assert answer.status_code in (404, 405)
    assert answer.text.strip().isprintable()
