"""What the core is told while lists and watches come, break, lag behind and come back."""

from __future__ import annotations

from typing import Any

from extender.kube.resources import GROUPS, NODES, PODS, VOLUMES
from tests.kube.fake_api import CUT, Answer, FakeApi, refused, watch
from tests.kube.reflecting import change, follow, listed, node, pod

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
    assert {asked.query["resourceVersion"] for asked in followed.api.asked[3:]} == {"7"}
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
    assert followed.told == ["+local:data", "-local:data", "+local:other", "-local:other"]


def test_volumes_that_may_not_be_read_hold_up_nobody() -> None:
    def setup(api: FakeApi) -> None:
        api.on("GET", VOLUMES.path, refused(403, "Forbidden"), listed(volume("local", nodeAffinity=LOCAL)))
        api.on("WATCH", VOLUMES.path, watch(stays_open=True))

    followed = follow(VOLUMES, setup, until="+local:data")
    assert (followed.told, followed.before_sync) == (["+local:data"], []), "it counts as read, and is looked at again"


def test_a_refusal_of_an_api_server_that_has_just_started_costs_no_more_than_moments() -> None:
    """It refuses everybody until it has read the roles. Where the right is missing it is asked less and less often."""
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
