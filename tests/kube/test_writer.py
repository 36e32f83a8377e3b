"""How writes end: some are retried, some are settled by a look at the pod, and some are abandoned."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from extender.core.answers import Outcome
from extender.core.effects import Evict, Nominate, PostBinding
from extender.kube.writer import KubeApi
from tests.kube.fake_api import CUT, OK, Answer, FakeApi, FakeTime, fake_api, refused
from tests.kube.writing import BINDING, EVENTS, EVICTION, POD, STATUS, Writer, Written, pod, posts, written

BIND = PostBinding("u", "team", "p", "n1", (1,), 110.0, {"muster.dev/release": "r"})
CONFLICT = refused(409, "Conflict", "pod p is already assigned to node")


def bound(setup: Callable[[FakeApi], None], still_wanted: Callable[[], bool] = lambda: True) -> Written:
    return written(setup, lambda writer: writer.run(writer.writes.bind(BIND, still_wanted)))


def test_a_binding_carries_uid_node_and_annotations() -> None:
    result, api, _ = bound(lambda api: api.on("POST", BINDING, OK))
    assert result == (Outcome.DONE, "")
    (body,) = api.bodies("POST")
    assert body["metadata"] == {
        "name": "p",
        "namespace": "team",
        "uid": "u",
        "annotations": {"muster.dev/release": "r"},
    }
    assert body["target"] == {"apiVersion": "v1", "kind": "Node", "name": "n1"}


def test_an_overloaded_server_is_asked_again_when_it_said() -> None:
    result, api, time = bound(lambda api: api.on("POST", BINDING, refused(429, Retry_After="2"), OK))
    assert result == (Outcome.DONE, "")
    assert (posts(api), time.pauses) == (2, [2.0])


def test_a_binding_that_arrived_although_its_answer_was_lost_is_done() -> None:
    def setup(api: FakeApi) -> None:
        api.on("POST", BINDING, CUT)
        api.on("GET", POD, pod("n1"))

    result, api, _ = bound(setup)
    assert (result, posts(api)) == ((Outcome.DONE, ""), 1)


@pytest.mark.parametrize("lost", [CUT, refused(500), refused(503), refused(504)], ids=lambda answer: str(answer.status))
def test_a_binding_that_did_not_arrive_is_posted_again(lost: Answer) -> None:
    def setup(api: FakeApi) -> None:
        api.on("POST", BINDING, lost, OK)
        api.on("GET", POD, pod())

    result, api, _ = bound(setup)
    assert (result, posts(api)) == ((Outcome.DONE, ""), 2)


def test_a_conflict_is_a_success_when_the_pod_sits_on_that_node() -> None:
    def setup(api: FakeApi) -> None:
        api.on("POST", BINDING, CONFLICT)
        api.on("GET", POD, pod("n1"))

    assert bound(setup)[0] == (Outcome.DONE, "")


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (pod("n2"), "the pod is already on n2"),
        (pod("n1", uid="another"), "the pod is gone"),
        (refused(404), "the pod is gone"),
        (pod(), "409 Conflict: pod p is already assigned to node"),
    ],
)
def test_any_other_conflict_is_a_refusal(seen: Answer, said: str) -> None:
    def setup(api: FakeApi) -> None:
        api.on("POST", BINDING, CONFLICT)
        api.on("GET", POD, seen)

    assert bound(setup)[0] == (Outcome.REFUSED, said)


@pytest.mark.parametrize("status", [400, 403, 404, 422])
def test_a_clear_no_is_a_refusal_at_once(status: int) -> None:
    result, api, time = bound(lambda api: api.on("POST", BINDING, refused(status, "No", "why")))
    assert result == (Outcome.REFUSED, f"{status} No: why")
    assert (len(api.asked), time.pauses) == (1, [])


def test_nothing_is_sent_when_nobody_waits() -> None:
    result, api, _ = bound(lambda api: api.on("POST", BINDING, OK), lambda: False)
    assert result == (Outcome.REFUSED, "kube-scheduler no longer waits for this Binding")
    assert api.asked == []


def test_of_a_binding_that_is_not_sent_nobody_knows_whether_an_earlier_one_was_written() -> None:
    again = replace(BIND, again=True)
    result, api, _ = written(lambda _: None, lambda writer: writer.run(writer.writes.bind(again, lambda: False)))
    assert result[0] is Outcome.UNKNOWN
    assert posts(api) == 0


def test_a_retry_stops_when_nobody_waits_any_more() -> None:
    wishes = iter([True, False])
    result, api, _ = bound(lambda api: api.on("POST", BINDING, refused(429)), lambda: next(wishes))
    assert result == (Outcome.REFUSED, "kube-scheduler no longer waits for this Binding")
    assert posts(api) == 1


def test_nothing_is_sent_after_the_deadline() -> None:
    result, api, time = bound(lambda api: api.on("POST", BINDING, refused(429, Retry_After="60")))
    assert result[0] is Outcome.REFUSED
    assert (posts(api), time.now) == (1, BIND.deadline)


def test_what_cannot_be_seen_by_the_deadline_is_unknown() -> None:
    def setup(api: FakeApi) -> None:
        api.on("POST", BINDING, CUT)
        api.on("GET", POD, CUT)

    result, api, time = bound(setup)
    assert result[0] is Outcome.UNKNOWN
    assert (posts(api), time.now) == (1, BIND.deadline)


def test_an_eviction_is_of_that_very_pod() -> None:
    result, api, _ = written(
        lambda api: api.on("POST", EVICTION, refused(429), OK),
        lambda writer: writer.run(writer.writes.persist(Evict("u", "team", "p", "never whole"), "eviction")),
    )
    assert result == ""
    assert [body.get("deleteOptions") for body in api.bodies("POST")[:2]] == [{"preconditions": {"uid": "u"}}] * 2


@pytest.mark.parametrize("outage", [CUT, refused(503)])
def test_nobody_is_evicted_through_an_outage_nor_right_after_it(outage: Answer) -> None:
    async def twice(writer: Writer) -> list[str]:
        return [
            await writer.run(writer.writes.persist(Evict("u", "team", "p", "never whole"), "eviction"))
            for _ in range(2)
        ]

    (through, after), api, _ = written(lambda api: api.on("POST", EVICTION, outage, OK), twice)
    assert through
    assert after == "the API server was away a moment ago, and the gang may become whole yet"
    assert len(api.bodies("POST")) == 1


def test_whoever_is_evicted_is_told_why_and_evicted_even_if_nobody_can_be_told() -> None:
    for answer in (OK, refused(403, "Forbidden", "no")):

        def setup(api: FakeApi, answer: Answer = answer) -> None:
            api.on("POST", EVICTION, OK)
            api.on("POST", EVENTS, answer)

        result, api, _ = written(
            setup, lambda writer: writer.run(writer.writes.persist(Evict("u", "team", "p", "never whole"), "eviction"))
        )
        assert result == ""
        event = api.bodies("POST")[-1]
        assert (event["reason"], event["note"], event["regarding"]["uid"]) == ("Evicted", "never whole", "u")


def test_nobody_is_evicted_while_the_watch_of_pods_lags_behind_a_change_of_the_leader() -> None:
    async def scenario() -> tuple[str, list[Any]]:
        async with fake_api() as (api, kube):
            api.on("POST", EVICTION, OK)
            kube.behind = True
            answer = await KubeApi(kube).send(Evict("u", "team", "p", "never whole"), 5.0)
            return answer.detail, api.bodies("POST")

    detail, posted = asyncio.run(scenario())
    assert "lags behind" in detail
    assert posted == []


def test_writes_that_are_sent_again_are_counted_by_kind() -> None:
    async def scenario() -> list[str]:
        time = FakeTime()
        async with fake_api() as (api, kube):
            api.on("POST", BINDING, refused(429), OK)
            api.on("PATCH", STATUS, refused(500), refused(500), OK)
            writer = Writer(kube, time)
            await writer.run(writer.writes.bind(BIND, lambda: True))
            await writer.run(writer.writes.nominate(Nominate("u", "team", "p", "n1")))
            return writer.retried

    assert asyncio.run(scenario()) == ["binding", "nomination", "nomination"]


def test_a_pod_is_patched_only_as_it_was_seen_last_and_looked_at_anew_after_a_conflict() -> None:
    """A replica that has lost the Lease, and does not know yet, cannot undo what the next leader has written."""

    def versioned(version: int) -> Answer:
        return Answer(
            body={"metadata": {"name": "p", "namespace": "team", "uid": "u", "resourceVersion": str(version)}}
        )

    async def scenario() -> list[str]:
        async with fake_api() as (api, kube):
            api.on(
                "PATCH", STATUS, versioned(8), refused(409, "Conflict", "the object has been modified"), versioned(12)
            )
            api.on("GET", POD, versioned(11))
            writer = Writer(kube, FakeTime())
            kube.saw("u", "7")
            kube.saw("u", "6")  # an older version than the known one changes nothing
            for node in ("n0", "n1", "n2", "n3"):
                assert await writer.run(writer.writes.nominate(Nominate("u", "team", "p", node))) == ""
            kube.saw("u", None)
            for _ in range(2):  # an answer about a pod that is gone is not kept
                await writer.run(writer.writes.nominate(Nominate("u", "team", "p", None)))
            return [body["metadata"].get("resourceVersion") for body in api.bodies("PATCH")]

    assert asyncio.run(scenario()) == ["7", "8", "11", "12", "12", None, None]
