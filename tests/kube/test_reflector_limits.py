"""A reflector waits for nobody for ever, keeps nothing without bounds, and knows when it has caught up."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import pytest

from extender.kube import client
from extender.kube.api import connection
from extender.kube.api.connection import LONGEST_RETRY_AFTER_S, error_from
from extender.kube.reflector import WATCH_S, Callback, Reflector
from extender.kube.resources import NODES, PODS
from extender.observe.sight import DARK_S, Sight
from tests.kube.fake_api import FakeApi, FakeTime, fake_api, refused, watch
from tests.kube.reflecting import change, follow, listed, node, pod, told
from tests.running import eventually


@pytest.mark.parametrize("asked", ["300", "9" * 400])
def test_no_answer_of_the_api_server_can_ask_for_a_long_wait(asked: str) -> None:
    def setup(api: FakeApi) -> None:
        api.on("GET", NODES.path, refused(429, Retry_After=asked), listed(version=7))
        last = watch(change("ADDED", node("a")), stays_open=True)
        api.on("WATCH", NODES.path, refused(429, Retry_After=asked), refused(503, Retry_After=asked), last)

    pauses = follow(NODES, setup, until="+a").time.pauses
    assert len(pauses) == 3
    assert max(pauses) <= 1.25 * LONGEST_RETRY_AFTER_S
    assert error_from(429, b"", asked).retry_after_s == LONGEST_RETRY_AFTER_S


def test_a_watch_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that the server, or a proxy, keeps open beyond the time that was asked for."""
    monkeypatch.setattr(client, "GRACE_S", 0.05)
    monkeypatch.setattr("extender.kube.reflector.WATCH_S", (0, 0))

    def setup(api: FakeApi) -> None:
        api.on("GET", NODES.path, listed(version=7))
        api.on("WATCH", NODES.path, watch(stays_open=True), watch(change("ADDED", node("a", 8)), stays_open=True))

    followed = follow(NODES, setup, until="+a")
    assert followed.asked[:3] == ["GET", "WATCH", "WATCH"]
    assert {asked.query["resourceVersion"] for asked in followed.api.asked[1:]} == {"7"}


def test_a_silent_watch_is_noticed_within_45_seconds() -> None:
    """The server is asked to end each watch soon, and has a grace to do it in."""

    def setup(api: FakeApi) -> None:
        api.on("GET", NODES.path, listed(version=7))
        ended = [watch({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "8"}}})] * 50
        api.on("WATCH", NODES.path, *ended, watch(change("ADDED", node("a", 9)), stays_open=True))

    asked = [int(one.query["timeoutSeconds"]) for one in follow(NODES, setup, until="+a").api.asked[1:]]
    assert max(asked) + client.GRACE_S <= 45
    assert len(set(asked)) > 1, "not all watches should end at once"
    # One silent watch, the longest pause and one in which nothing happens: that alone makes nobody unready.
    assert WATCH_S[1] + client.GRACE_S + 1.25 * LONGEST_RETRY_AFTER_S + WATCH_S[1] < DARK_S


def test_a_watch_that_ends_in_time_without_a_word_is_followed_at_once() -> None:
    """Of a kind of which nothing changes nothing is said. Only a watch that is ended at once is followed by a pause."""

    def setup(api: FakeApi) -> None:
        api.on("GET", NODES.path, listed(version=7))
        api.on("WATCH", NODES.path, watch(), watch(), watch(change("ADDED", node("a")), stays_open=True))

    minutes = count(step=60)
    assert follow(NODES, setup, until="+a", clock=lambda: float(next(minutes))).time.pauses == []
    assert len(follow(NODES, setup, until="+a").time.pauses) == 2


def test_what_was_last_heard_of_a_kind_is_known() -> None:
    def setup(api: FakeApi) -> None:
        api.on("GET", NODES.path, listed(version=7))
        dark = [refused(429, Retry_After="10")] * 10
        api.on("WATCH", NODES.path, *dark, watch(change("ADDED", node("a")), stays_open=True))

    followed = follow(NODES, setup, until="+a")
    assert sum(followed.time.pauses) > 10 * 7
    assert followed.sight.ages() == {"nodes": 0}
    followed.time.now += DARK_S + 1
    assert followed.sight.dark() == pytest.approx({"nodes": DARK_S + 1})


def test_an_object_of_many_megabytes_is_read() -> None:
    """etcd takes 1.5 MB of it, and every "<" in it is six characters of JSON."""
    huge = pod("huge", "u1", args=["\x01" * 1_400_000])

    def setup(api: FakeApi) -> None:
        api.on("GET", PODS.path, listed(version=7))
        lines = [change("ADDED", huge), change("ADDED", pod("end", "e"))]
        api.on("WATCH", PODS.path, watch(*lines, stays_open=True))

    assert follow(PODS, setup, until="+end:e").told == ["+huge:u1", "+end:e"]


def test_a_line_without_end_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "LONGEST_LINE", 1 << 20)

    def setup(api: FakeApi) -> None:
        api.on("GET", PODS.path, listed(version=7))
        endless = watch(b"x" * (3 << 20), stays_open=True)
        api.on("WATCH", PODS.path, endless, watch(change("ADDED", pod("end", "e")), stays_open=True))

    assert follow(PODS, setup, until="+end:e").told == ["+end:e"]


def test_a_page_too_large_to_be_kept_is_asked_for_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """500 pods of 1.5 MB each, which one tenant can make, must not end the process at every start."""
    monkeypatch.setattr(connection, "LARGEST_ANSWER", 100_000)
    large = [pod(f"p{at}", f"u{at}", args=["x" * 30_000]) for at in range(6)]

    def setup(api: FakeApi) -> None:
        api.on("GET", PODS.path, listed(*large[:5], more="x"), *(listed(one, more="y") for one in large), listed())
        api.on("WATCH", PODS.path, watch(change("ADDED", pod("end", "e")), stays_open=True))

    followed = follow(PODS, setup, until="+end:e")
    assert followed.told == [*(f"+p{at}:u{at}" for at in range(6)), "+end:e"]
    limits = [asked.query["limit"] for asked in followed.api.asked if asked.method == "GET"]
    assert limits[:2] == ["500", "250"]
    assert set(limits[1:]) == {"250"}, "what was too much once is not asked for again"


def test_it_has_caught_up_when_it_knows_what_was_newest_when_that_was_asked() -> None:
    """By an object, or by a bookmark where nothing has changed for a while."""
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "20"}}}
    for newer in (change("ADDED", node("b", 20)), bookmark):

        async def scenario(newer: dict[str, Any] = newer) -> list[str]:
            story: list[str] = []
            async with fake_api() as (api, kube):
                api.on("GET", NODES.path, listed(node("a"), version=7), listed(version=19))
                api.on("WATCH", NODES.path, watch(change("ADDED", node("c", 18))), watch(newer, stays_open=True))
                paused = asyncio.Event()

                async def pause(_: float) -> None:
                    await paused.wait()

                sight = Sight(FakeTime().clock)
                reflector = Reflector(
                    kube, NODES, Callback(lambda event: story.append(told(event))), sight=sight, pause=pause
                )
                running = asyncio.create_task(reflector.run())
                await asyncio.wait_for(reflector.synced.wait(), 20)
                await asyncio.wait_for(reflector.catch_up(), 20)
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
            return story

        assert asyncio.run(scenario())[:2] == ["+a", "+c"]


def test_it_has_not_caught_up_while_the_watch_says_nothing() -> None:
    async def scenario() -> bool:
        async with fake_api() as (api, kube):
            api.on("GET", NODES.path, listed(node("a"), version=7), listed(version=19))
            api.on("WATCH", NODES.path, watch(change("ADDED", node("c", 18)), stays_open=True))
            seen = asyncio.Event()
            reflector = Reflector(
                kube,
                NODES,
                Callback(lambda event: seen.set() if told(event) == "+c" else None),
                sight=Sight(FakeTime().clock),
            )
            running = asyncio.create_task(reflector.run())
            await asyncio.wait_for(reflector.synced.wait(), 20)
            catching_up = asyncio.create_task(reflector.catch_up())
            await asyncio.wait_for(seen.wait(), 20)
            await eventually(lambda: len([one for one in api.asked if one.query.get("limit") == "1"]) == 1)
            await asyncio.sleep(0)
            caught_up = catching_up.done()
            for task in (running, catching_up):
                task.cancel()
            await asyncio.gather(running, catching_up, return_exceptions=True)
            return caught_up

    assert not asyncio.run(scenario())
