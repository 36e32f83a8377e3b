"""What is too large, and who is not kube-scheduler, gets a plain answer before it costs anything."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from extender import wire
from extender.metrics import Metrics
from extender.server import create_app
from extender.verbs import Message
from tests.running import Extender, running

pytestmark = pytest.mark.anyio
POD = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}}
VERBS = ["filter", "prioritize", "preempt", "bind"]


@pytest.fixture
async def extender() -> AsyncIterator[Extender]:
    async with running() as one:
        yield one


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
    told: list[Message] = []
    asked = 0

    async def receive() -> Message:
        nonlocal asked
        asked += 1
        return {"type": "http.request", "body": b"x" * 400, "more_body": True}

    async def send(message: Message) -> None:
        told.append(message)

    await app({"type": "http", "method": "POST", "path": f"/{verb}", "headers": []}, receive, send)
    assert told[0]["status"] == 413
    assert told[1]["body"] == b"the body is larger than 1000 bytes\n"
    assert asked == 3, "nothing is read beyond the limit"


def test_keys_in_another_case_are_read_in_small_documents_only() -> None:
    """Folding takes the whole document apart; kube-scheduler never needs it."""
    small = json.dumps({"pod": POD, "nodenames": ["n0"]}).encode()
    assert wire.decode_filter(small).candidates == ("n0",)
    with pytest.raises(wire.WireError):
        wire.decode_filter(json.dumps({"pod": POD, "nodenames": ["n0"], "x": "y" * wire.LONGEST_FOLDED}).encode())


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
