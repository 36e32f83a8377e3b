"""The events for the core while lists and watches come, break, lag behind and come back.

A reflector waits for no server indefinitely, keeps nothing without bounds, and knows when it has caught up.
"""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import pytest

from extender.kube import client
from extender.kube.api import connection
from extender.kube.api.connection import LONGEST_RETRY_AFTER_S, error_from
from extender.kube.reflector import WATCH_S, Callback, Reflector
from extender.kube.resources import GROUPS, NODES, PODS, VOLUMES
from extender.observe.sight import DARK_S, Sight
from tests.kube.fake_api import CUT, Answer, FakeApi, FakeTime, fake_api, refused, watch
from tests.kube.reflecting import change, follow, listed, node, pod, told
from tests.running import eventually

GONE_410 = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}


def test_a_list_is_read_page_by_page_and_then_watched() -> None:
    def setup(api: FakeApi) -> None:
        api.on("GET", NODES.path, listed(node("a"), version=7, more="next"), listed(node("b"), version=7))
        api.on("WATCH", NODES.path, watch(change("ADDED", node("c", 8)), stays_open=True))

    followed = follow(NODES, setup, until="+c")
    assert followed.told == ["+a", "+b", "+c"]
    first, second, third = followed.api.asked
    assert (first.query["limit"], second.query["continue"]) == ("500", "next")
    assert (third.query["resourceVersion"], third.query["allowWatchBookmarks"]) == ("7", "true")


def test_what_no_decision_uses_is_not_told() -> None:
    heartbeat = {**node("a", 2), "status": {"conditions": [{"type": "Ready", "status": "True", "message": "alive"}]}}

    def setup(api: FakeApi) -> None:
        api.on("GET", NODES.path, listed(node("a")))
        lines = [
            change("MODIFIED", heartbeat),
            change("MODIFIED", node("a", 3, zone="z")),
            change("ADDED", node("end")),
        ]
        api.on("WATCH", NODES.path, watch(*lines, stays_open=True))

    assert follow(NODES, setup, until="+end").told == ["+a", "+a", "+end"]


def test_deleted_objects_are_gone_once() -> None:
    def setup(api: FakeApi) -> None:
        api.on("GET", PODS.path, listed(pod("p", "u1")))
        lines = [
            change("DELETED", pod("p", "u1")),
            change("DELETED", pod("p", "u1")),
            change("ADDED", pod("p", "u2")),
        ]
        api.on("WATCH", PODS.path, watch(*lines, stays_open=True))

    assert follow(PODS, setup, until="+p:u2").told == ["+p:u1", "-u1", "+p:u2"]


def test_a_watch_that_ended_goes_on_from_the_last_bookmark() -> None:
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "40"}}}

    def setup(api: FakeApi) -> None:
        api.on("GET", NODES.path, listed(version=7))
        again = watch(change("ADDED", node("a", 41)), stays_open=True)
        api.on("WATCH", NODES.path, watch(change("ADDED", node("b", 20)), bookmark), again)

    followed = follow(NODES, setup, until="+a")
    assert followed.asked == ["GET", "WATCH", "WATCH"]
    assert followed.api.asked[-1].query["resourceVersion"] == "40"
    assert followed.time.pauses == []


def test_a_broken_connection_is_followed_by_a_pause_and_the_same_version() -> None:
    lost = (CUT, CUT)  # the client itself repeats a GET once

    def setup(api: FakeApi) -> None:
        api.on("GET", NODES.path, *lost, listed(version=7))
        last = watch(change("ADDED", node("a")), stays_open=True)
        api.on("WATCH", NODES.path, *lost, refused(429, Retry_After="9"), last)

    followed = follow(NODES, setup, until="+a")
    assert followed.asked == ["GET"] * 3 + ["WATCH"] * 4
    assert {request.query["resourceVersion"] for request in followed.api.asked[3:]} == {"7"}
    first, second, third = followed.time.pauses
    assert 0 < first < second
    assert third >= 6.75


def test_the_picture_is_new_within_seconds_of_the_end_of_a_long_outage() -> None:
    def setup(api: FakeApi) -> None:
        api.on("GET", NODES.path, listed(version=7))
        refusals = [refused(429)] * 12
        api.on("WATCH", NODES.path, *refusals, watch(change("ADDED", node("a")), stays_open=True))

    pauses = follow(NODES, setup, until="+a").time.pauses
    assert len(pauses) == 12
    assert max(pauses) < 4


def test_a_line_cut_short_is_a_broken_connection() -> None:
    def setup(api: FakeApi) -> None:
        api.on("GET", NODES.path, listed(version=7))
        cut = watch(change("ADDED", node("a", 8)), b'{"type":"ADDED","obj')
        api.on("WATCH", NODES.path, cut, watch(change("ADDED", node("b", 9)), stays_open=True))

    followed = follow(NODES, setup, until="+b")
    assert followed.told == ["+a", "+b"]
    assert followed.api.asked[-1].query["resourceVersion"] == "8"


def test_after_410_everything_is_listed_again_and_what_vanished_is_gone() -> None:
    for too_old in (watch(GONE_410), refused(410, "Expired")):

        def setup(api: FakeApi, too_old: Answer = too_old) -> None:
            api.on("GET", NODES.path, listed(node("a"), node("b")), listed(node("b"), node("c"), version=50))
            api.on("WATCH", NODES.path, too_old, watch(change("ADDED", node("end")), stays_open=True))

        followed = follow(NODES, setup, until="+end")
        assert followed.told == ["+a", "+b", "-a", "+c", "+end"]
        assert followed.asked == ["GET", "WATCH", "GET", "WATCH"]
        assert followed.time.pauses == []


def test_a_server_that_always_says_410_is_not_asked_in_a_tight_loop() -> None:
    def setup(api: FakeApi) -> None:
        api.on("GET", NODES.path, listed())
        expired = [refused(410)] * 4
        api.on("WATCH", NODES.path, *expired, watch(change("ADDED", node("end")), stays_open=True))

    assert len(follow(NODES, setup, until="+end").time.pauses) == 3


def test_a_list_that_expires_in_the_middle_starts_again() -> None:
    def setup(api: FakeApi) -> None:
        half = listed(node("a"), more="next")
        api.on("GET", NODES.path, half, refused(410, "Expired"), listed(node("b")))
        api.on("WATCH", NODES.path, watch(stays_open=True))

    assert follow(NODES, setup, until="+b").told == ["+b"]


def test_a_name_used_anew_while_nobody_looked_is_another_object() -> None:
    def setup(api: FakeApi) -> None:
        api.on("GET", PODS.path, listed(pod("p", "u1")), listed(pod("p", "u2")))
        api.on("WATCH", PODS.path, watch(GONE_410), watch(stays_open=True))

    assert follow(PODS, setup, until="+p:u2").told == ["+p:u1", "-u1", "+p:u2"]


def test_an_unreadable_object_is_skipped_and_the_last_readable_one_kept() -> None:
    bad = pod("p", "u1", overhead={"cpu": "lots"})

    def setup(api: FakeApi) -> None:
        api.on("GET", PODS.path, listed(pod("p", "u1"), pod("q", "u2", overhead={"cpu": "x"})), listed(bad))
        lines = [change("MODIFIED", bad), GONE_410]
        end = watch(change("DELETED", bad), change("ADDED", pod("end", "e")), stays_open=True)
        api.on("WATCH", PODS.path, watch(*lines), end)

    assert follow(PODS, setup, until="+end:e").told == ["+p:u1", "-u1", "+end:e"]


def test_a_kind_that_does_not_exist_counts_as_empty_until_it_does() -> None:
    group = {"metadata": {"name": "g", "namespace": "team", "uid": "u"}, "spec": {"minMember": 2}}

    def setup(api: FakeApi) -> None:
        api.on("GET", GROUPS.path, refused(404), refused(404), listed(group), refused(404), listed(group))
        api.on("WATCH", GROUPS.path, refused(404), watch(stays_open=True))

    followed = follow(GROUPS, setup, until="-team/g")
    assert followed.told == ["+team/g", "-team/g"]
    assert all(pause >= 24 for pause in followed.time.pauses)


def volume(name: str, phase: str = "Bound", claim: str = "data", **spec: Any) -> dict[str, Any]:
    bound = {"claimRef": {"namespace": "team", "name": claim}}
    meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": "9"}
    return {"metadata": meta, "spec": bound | spec, "status": {"phase": phase}}


LOCAL = {"required": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In"}]}]}}


def test_only_volumes_that_some_nodes_alone_reach_are_told_while_they_are_bound() -> None:
    def setup(api: FakeApi) -> None:
        api.on("GET", VOLUMES.path, listed(volume("everywhere"), volume("local", nodeAffinity=LOCAL)))
        changes = (
            change("MODIFIED", volume("local", claim="other", nodeAffinity=LOCAL)),
            change("MODIFIED", volume("local", "Released", claim="other", nodeAffinity=LOCAL)),
        )
        api.on("WATCH", VOLUMES.path, watch(*changes, stays_open=True))

    followed = follow(VOLUMES, setup, until="-local:other")
    assert followed.told == ["+local:data", "+local:other", "-local:other"]


def test_volumes_that_may_not_be_read_hold_up_nobody() -> None:
    def setup(api: FakeApi) -> None:
        api.on("GET", VOLUMES.path, refused(403, "Forbidden"), listed(volume("local", nodeAffinity=LOCAL)))
        api.on("WATCH", VOLUMES.path, watch(stays_open=True))

    followed = follow(VOLUMES, setup, until="+local:data")
    assert (followed.told, followed.before_sync) == (["+local:data"], []), "it counts as read, and is looked at again"


def test_a_refusal_of_an_api_server_that_has_just_started_costs_no_more_than_moments() -> None:
    """The API server refuses every client until it has read the roles.

    A missing right is asked for at growing intervals.
    """
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "40"}}}

    def setup(api: FakeApi) -> None:
        local = volume("local", nodeAffinity=LOCAL)
        api.on("GET", VOLUMES.path, listed(local), *(refused(403, "Forbidden") for _ in range(9)), listed())
        api.on("WATCH", VOLUMES.path, watch(bookmark), refused(403, "Forbidden"), watch(stays_open=True))

    followed = follow(VOLUMES, setup, until="-local:data")
    assert followed.told == ["+local:data", "-local:data"], "what was read before it counts meanwhile"
    assert sum(followed.time.pauses[:3]) < 5
    assert followed.time.pauses[-1] > 20


def test_a_kind_that_must_exist_is_never_taken_for_empty() -> None:
    def setup(api: FakeApi) -> None:
        api.on("GET", NODES.path, listed(node("a")), refused(404), refused(403), listed(node("a"), node("b")))
        api.on("WATCH", NODES.path, watch(GONE_410), watch(stays_open=True))

    assert follow(NODES, setup, until="+b").told == ["+a", "+b"]


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
    """The server, or a proxy, may keep a watch open beyond the time that was asked for."""
    monkeypatch.setattr(client, "GRACE_S", 0.05)
    monkeypatch.setattr("extender.kube.reflector.WATCH_S", (0, 0))

    def setup(api: FakeApi) -> None:
        api.on("GET", NODES.path, listed(version=7))
        api.on("WATCH", NODES.path, watch(stays_open=True), watch(change("ADDED", node("a", 8)), stays_open=True))

    followed = follow(NODES, setup, until="+a")
    assert followed.asked[:3] == ["GET", "WATCH", "WATCH"]
    assert {request.query["resourceVersion"] for request in followed.api.asked[1:]} == {"7"}


def test_a_silent_watch_is_noticed_within_45_seconds() -> None:
    """The server is asked to end each watch soon, and has a grace to do it in."""

    def setup(api: FakeApi) -> None:
        api.on("GET", NODES.path, listed(version=7))
        ended = [watch({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "8"}}})] * 50
        api.on("WATCH", NODES.path, *ended, watch(change("ADDED", node("a", 9)), stays_open=True))

    timeouts = [int(request.query["timeoutSeconds"]) for request in follow(NODES, setup, until="+a").api.asked[1:]]
    assert max(timeouts) + client.GRACE_S <= 45
    assert len(set(timeouts)) > 1, "not all watches should end at once"
    # One silent watch, the longest pause and one watch without changes: these alone make no replica unready.
    assert WATCH_S[1] + client.GRACE_S + 1.25 * LONGEST_RETRY_AFTER_S + WATCH_S[1] < DARK_S


def test_a_watch_that_ends_in_time_without_a_word_is_followed_at_once() -> None:
    """The watch of a kind without changes stays empty.

    Only a watch that the server ends at once is followed by a pause.
    """

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
        api.on("GET", PODS.path, listed(*large[:5], more="x"), *(listed(item, more="y") for item in large), listed())
        api.on("WATCH", PODS.path, watch(change("ADDED", pod("end", "e")), stays_open=True))

    followed = follow(PODS, setup, until="+end:e")
    assert followed.told == [*(f"+p{at}:u{at}" for at in range(6)), "+end:e"]
    limits = [request.query["limit"] for request in followed.api.asked if request.method == "GET"]
    assert limits[:2] == ["500", "250"]
    assert set(limits[1:]) == {"250"}, "what was too much once is not asked for again"


def test_it_has_caught_up_when_it_knows_what_was_newest_when_that_was_asked() -> None:
    """The reflector learns that from an object, or from a bookmark where nothing has changed for a while."""
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
            await eventually(lambda: len([request for request in api.asked if request.query.get("limit") == "1"]) == 1)
            await asyncio.sleep(0)
            caught_up = catching_up.done()
            for task in (running, catching_up):
                task.cancel()
            await asyncio.gather(running, catching_up, return_exceptions=True)
            return caught_up

    assert not asyncio.run(scenario())
