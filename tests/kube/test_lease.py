"""The events about the Lease while it is created, renewed, passed on and deleted, and while it cannot be read."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from extender.kube import client
from extender.kube import lease as followed
from extender.kube.lease import follow
from extender.observe.sight import Sight
from extender.runtime.election import LeaderElection, Lease
from tests.kube.fake_api import CUT, Answer, FakeApi, FakeTime, fake_api, refused, watch

PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


def lease(holder: str | None, second: int = 0, **spec: Any) -> dict[str, Any]:
    times = {"renewTime": f"2026-11-21T10:00:{second:02}.000000Z", "leaseDurationSeconds": 15}
    meta = {"name": "muster", "resourceVersion": str(second + 1)}
    return {"metadata": meta, "spec": {**times, "holderIdentity": holder, **spec}}


def listed(*items: dict[str, Any]) -> Answer:
    return Answer(body={"metadata": {"resourceVersion": "1"}, "items": list(items)})


def told(*answers: tuple[str, Answer], until: int) -> tuple[list[str | None], FakeApi]:
    """The first ``until`` holders that were reported."""

    async def script() -> tuple[list[str | None], FakeApi]:
        seen: list[str | None] = []
        enough = asyncio.Event()

        def see(current: Lease | None) -> None:
            seen.append(None if current is None else current.holder)
            if len(seen) == until:
                enough.set()

        async with fake_api() as (api, kube):
            for method in ("GET", "WATCH"):
                api.on(method, PATH, *(answer for verb, answer in answers if verb == method))
            following = asyncio.create_task(
                follow(kube, LeaderElection(enabled=True), see, Sight(), pause=FakeTime().pause)
            )
            await asyncio.wait_for(enough.wait(), 10)
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
        return seen, api

    return asyncio.run(script())


def change(kind: str, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": item}


def test_the_holder_now_and_every_change_of_it_is_told() -> None:
    changes = watch(
        change("MODIFIED", lease("a_1", 2)),
        change("BOOKMARK", {"metadata": {"resourceVersion": "5"}}),
        change("MODIFIED", lease("", 4)),
        change("MODIFIED", lease("b_1", 6)),
        change("DELETED", lease("b_1", 6)),
        stays_open=True,
    )
    seen, api = told(("GET", listed(lease("a_1"))), ("WATCH", changes), until=5)
    assert seen == ["a_1", "a_1", None, "b_1", None]
    assert {request.query["fieldSelector"] for request in api.asked} == {"metadata.name=muster"}


def test_a_lease_that_does_not_exist_yet_is_waited_for() -> None:
    seen, _ = told(("GET", listed()), ("WATCH", watch(change("ADDED", lease("a_1")), stays_open=True)), until=2)
    assert seen == [None, "a_1"]


def test_what_cannot_be_read_is_held_by_nobody() -> None:
    for strange in (
        lease("a_1", renewTime="yesterday"),
        lease("a_1", leaseDurationSeconds=None),
        {"metadata": {"name": "muster"}},
    ):
        seen, _ = told(("GET", listed(strange)), ("WATCH", watch(stays_open=True)), until=1)
        assert seen == [None]


def test_an_api_server_that_refuses_ends_or_expires_is_asked_again() -> None:
    expired = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}
    seen, _ = told(
        ("GET", refused(403, "Forbidden", "no right")),
        ("GET", CUT),
        ("GET", listed(lease("a_1"))),
        ("GET", listed(lease("b_1"))),
        ("WATCH", watch()),
        ("WATCH", watch(expired)),
        ("WATCH", watch(change("MODIFIED", lease("c_1")), stays_open=True)),
        until=4,
    )
    assert seen == ["a_1", "b_1", "b_1", "c_1"]


def test_a_watch_that_says_nothing_does_not_hide_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Lease is renewed every two seconds: a replica whose watch is silent looks again before a term is over."""
    assert followed._WATCH_S + client.GRACE_S <= 20
    monkeypatch.setattr(client, "GRACE_S", 0.05)
    monkeypatch.setattr(followed, "_WATCH_S", 0)
    silent = watch(stays_open=True)
    seen, _ = told(("GET", listed(lease("a_1"))), ("GET", listed(lease("b_1"))), ("WATCH", silent), until=2)
    assert seen == ["a_1", "b_1"]


def test_no_answer_can_ask_for_a_long_wait() -> None:
    seen, _ = told(
        ("GET", refused(429, Retry_After="300")), ("GET", listed(lease("a_1"))),
        ("WATCH", refused(429, Retry_After="300")), until=2,
    )  # fmt: skip
    assert seen == ["a_1", "a_1"]
