"""How writes end: what is retried, what is settled by a look at the pod, and what is given up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from extender.core.answers import Outcome
from extender.core.effects import Evict, Hint, Nominate, PostBinding, Report, Wake
from extender.kube.client import Kube
from extender.kube.constraints import WOKEN
from extender.kube.writer import KubeApi
from extender.runtime.requests import OK as DONE
from extender.runtime.requests import Pause
from extender.runtime.writes import Procedure, Writes
from policies.model import Controller, Dialect, GroupKey
from tests.kube.fake_api import CUT, OK, Answer, FakeApi, FakeTime, fake_api, refused

POD = "/api/v1/namespaces/team/pods/p"
BINDING, STATUS, EVICTION = f"{POD}/binding", f"{POD}/status", f"{POD}/eviction"
EVENTS = "/apis/events.k8s.io/v1/namespaces/team/events"
GROUP_STATUS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/team/podgroups/train/status"
BIND = PostBinding("u", "team", "p", "n1", (1,), 110.0, {"muster.dev/release": "r"})
CONFLICT = refused(409, "Conflict", "pod p is already assigned to node")

EndingT = TypeVar("EndingT")
Written = tuple[Any, FakeApi, FakeTime]


def pod(node: str = "", uid: str = "u") -> Answer:
    return Answer(body={"metadata": {"name": "p", "namespace": "team", "uid": uid}, "spec": {"nodeName": node}})


class Writer:
    """Procedures, one after the other, with an API server and a clock that the test plays."""

    def __init__(self, kube: Kube, time: FakeTime) -> None:
        self.retried: list[str] = []
        self.writes = Writes(time.clock, lambda: 1.0, self.retried.append)
        self._api = KubeApi(kube)
        self._time = time

    async def run(self, procedure: Procedure[EndingT]) -> EndingT:
        try:
            wish = next(procedure)
            while True:
                if isinstance(wish, Pause):
                    await self._time.pause(wish.seconds)
                    wish = procedure.send(DONE)
                else:
                    wish = procedure.send(await self._api.send(wish.asked, wish.timeout_s))
        except StopIteration as end:
            ending: EndingT = end.value
            return ending


def written(setup: Callable[[FakeApi], None], write: Callable[[Writer], Awaitable[Any]]) -> Written:
    async def scenario() -> Written:
        time = FakeTime()
        async with fake_api() as (api, kube):
            setup(api)
            result = await write(Writer(kube, time))
            return result, api, time

    return asyncio.run(scenario())


def bound(setup: Callable[[FakeApi], None], still_wanted: Callable[[], bool] = lambda: True) -> Written:
    return written(setup, lambda writer: writer.run(writer.writes.bind(BIND, still_wanted)))


def posts(api: FakeApi) -> int:
    return len(api.bodies("POST"))


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


def test_a_nomination_sets_the_node_of_that_very_pod() -> None:
    result, api, _ = written(
        lambda api: api.on("PATCH", STATUS, OK),
        lambda writer: writer.run(writer.writes.nominate(Nominate("u", "team", "p", "n1"))),
    )
    assert result == ""
    assert api.bodies("PATCH") == [{"metadata": {"uid": "u"}, "status": {"nominatedNodeName": "n1"}}]
    assert api.asked[0].content_type == "application/strategic-merge-patch+json"


@pytest.mark.parametrize(
    ("effect", "nodes"),
    [
        (Nominate("u", "team", "p", None), [None]),
        (Nominate("u", "team", "p", "n1", renew=True), [None, "n1"]),
        (Nominate("u", "team", "p", None, renew=True), [None]),
    ],
)
def test_a_nomination_is_cleared_and_renewed(effect: Nominate, nodes: list[str]) -> None:
    _, api, _ = written(
        lambda api: api.on("PATCH", STATUS, OK), lambda writer: writer.run(writer.writes.nominate(effect))
    )
    assert [body["status"]["nominatedNodeName"] for body in api.bodies("PATCH")] == nodes


def test_a_pod_that_only_plugins_have_refused_gets_other_labels_with_each_write() -> None:
    """That is what wakes it if it was pod affinity: a nomination that ends is nothing to that plugin."""
    effect = Nominate("u", "team", "p", "n1", parked=True)
    _, api, _ = written(
        lambda api: api.on("PATCH", STATUS, OK), lambda writer: writer.run(writer.writes.nominate(effect))
    )
    told = [(body["status"]["nominatedNodeName"], body["metadata"]["labels"]) for body in api.bodies("PATCH")]
    led = ("n1", {WOKEN: "true"})
    assert told == [led, (None, {WOKEN: None}), led]


@pytest.mark.parametrize("lost", [CUT, refused(429), refused(500), refused(409)], ids=lambda answer: str(answer.status))
def test_a_nomination_is_repeated_while_it_may_go_better(lost: Answer) -> None:
    def setup(api: FakeApi) -> None:
        api.on("PATCH", STATUS, lost, lost, OK)
        api.on("GET", POD, pod())

    result, api, _ = written(setup, lambda writer: writer.run(writer.writes.nominate(Nominate("u", "team", "p", "n1"))))
    assert (result, len(api.bodies("PATCH"))) == ("", 3)


@pytest.mark.parametrize(
    ("answer", "seen"),
    [
        (refused(404), refused(404)),
        (refused(409), pod(uid="another")),
        (refused(422), pod(uid="another")),
        (refused(422), pod("n2")),
    ],
)
def test_nobody_minds_a_nomination_of_a_pod_that_is_gone_or_bound(answer: Answer, seen: Answer) -> None:
    def setup(api: FakeApi) -> None:
        api.on("PATCH", STATUS, answer)
        api.on("GET", POD, seen)

    assert written(setup, lambda writer: writer.run(writer.writes.nominate(Nominate("u", "team", "p", "n1"))))[0] == ""


def test_a_nomination_is_given_up_with_the_last_error() -> None:
    result, _, time = written(
        lambda api: api.on("PATCH", STATUS, refused(503, "Down", "later")),
        lambda writer: writer.run(writer.writes.nominate(Nominate("u", "team", "p", "n1"))),
    )
    assert result == "503 Down: later"
    assert time.now == pytest.approx(110.0)


def test_a_wake_changes_the_pod_every_time() -> None:
    async def twice(writer: Writer) -> None:
        for _ in range(2):
            assert await writer.run(writer.writes.persist(Wake("u", "team", "p"), "wake")) == ""

    _, api, _ = written(lambda api: api.on("PATCH", STATUS, OK), twice)
    one, two = (body["status"]["conditions"] for body in api.bodies("PATCH"))
    assert one[0]["type"] == two[0]["type"] == "muster.dev/Woken"
    assert one != two


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


def report(code: str = "NoRoom", group_uid: str | None = None, message: str = "3 of 8 fit") -> Report:
    return Report(GroupKey("team", "train"), group_uid, ("u", "p"), code, message, warning=True, members=8, bound=3)


def reported(setup: Callable[[FakeApi], None], *reports: Report) -> tuple[list[str], FakeApi]:
    async def write(writer: Writer) -> list[str]:
        return [(await writer.run(writer.writes.report(one)))[0] for one in reports]

    results, api, _ = written(setup, write)
    return results, api


def test_a_reason_is_an_event_on_a_member() -> None:
    _, api = reported(lambda api: api.on("POST", EVENTS, OK), report())
    (event,) = api.bodies("POST")
    assert (event["reason"], event["note"], event["type"]) == ("NoRoom", "3 of 8 fit", "Warning")
    assert event["regarding"] == {"kind": "Pod", "apiVersion": "v1", "namespace": "team", "name": "p", "uid": "u"}


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

    said, posted = asyncio.run(scenario())
    assert "lags behind" in said
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


def test_a_reason_is_an_event_and_a_condition_of_the_group() -> None:
    def setup(api: FakeApi) -> None:
        api.on("POST", EVENTS, OK)
        api.on("PATCH", GROUP_STATUS, OK)

    results, api = reported(
        setup, report(group_uid="g"), report("Running", group_uid="g"), report("Ended", group_uid="g")
    )
    assert results == [""] * 3
    assert [event["regarding"]["kind"] for event in api.bodies("POST")] == ["PodGroup", "Pod"] * 3
    assert [body["status"]["phase"] for body in api.bodies("PATCH")] == ["Pending", "Scheduled", "Finished"]
    assert [(body["status"]["members"], body["status"]["scheduled"]) for body in api.bodies("PATCH")] == [(8, 3)] * 3
    conditions = [body["status"]["conditions"][0] for body in api.bodies("PATCH")]
    assert [(one["type"], one["status"], one["reason"]) for one in conditions] == [
        ("Scheduled", "False", "NoRoom"),
        ("Scheduled", "True", "Running"),
        ("Scheduled", "True", "Ended"),
    ]


def test_of_a_group_of_kai_it_is_a_scheduling_condition_until_it_starts() -> None:
    status = "/apis/scheduling.run.ai/v2alpha2/namespaces/team/podgroups/train/status"

    def setup(api: FakeApi) -> None:
        api.on("POST", EVENTS, OK)
        api.on("PATCH", status, OK)

    waits = replace(report(group_uid="g"), dialect=Dialect.KAI, bound=0)
    broken = replace(waits, code="Partial", bound=3)
    results, api = reported(setup, waits, broken, replace(broken, code="Running"))
    assert results == [""] * 3
    assert {event["regarding"]["apiVersion"] for event in api.bodies("POST")} == {"scheduling.run.ai/v2alpha2", "v1"}
    (condition,), *later = [body["status"]["schedulingConditions"] for body in api.bodies("PATCH")]
    assert (condition["type"], condition["status"]) == ("UnschedulableOnNodePool", "True")
    assert condition["reasons"] == [{"reason": "NoRoom", "message": "3 of 8 fit"}]
    assert later == [None, None]


def test_the_owner_of_the_pods_is_told_with_one_event_more() -> None:
    owner = Controller("batch/v1", "Job", "train", "j")
    _, api = reported(lambda api: api.on("POST", EVENTS, OK), replace(report(), owner=owner))
    pod, job = (event["regarding"] for event in api.bodies("POST"))
    assert pod["kind"] == "Pod"
    assert job == {"kind": "Job", "apiVersion": "batch/v1", "namespace": "team", "name": "train", "uid": "j"}
    assert {event["note"] for event in api.bodies("POST")} == {"3 of 8 fit"}


def test_an_owner_that_is_the_podgroup_itself_is_told_once() -> None:
    def setup(api: FakeApi) -> None:
        api.on("POST", EVENTS, OK)
        api.on("PATCH", GROUP_STATUS, OK)

    own = Controller("scheduling.x-k8s.io/v1alpha1", "PodGroup", "train", "g")
    _, api = reported(setup, replace(report(group_uid="g"), owner=own))
    assert [event["regarding"]["kind"] for event in api.bodies("POST")] == ["PodGroup", "Pod"]


def test_a_hint_is_an_event_on_the_pod_and_on_what_made_it() -> None:
    job = Controller("batch/v1", "Job", "train", "j")
    hint = Hint("u", "team", "p", "muster.dev/podgroup means nothing to Muster", job)
    _, api, _ = written(lambda api: api.on("POST", EVENTS, OK), lambda one: one.run(one.writes.hint(hint)))
    assert [event["regarding"]["uid"] for event in api.bodies("POST")] == ["u", "j"]
    assert {(event["reason"], event["note"]) for event in api.bodies("POST")} == {("UnreadKey", hint.message)}


def test_a_hint_about_a_job_without_pods_is_an_event_on_the_job_alone() -> None:
    hint = Hint("", "team", "train", "kueue.sh/queue-name is misspelt", Controller("batch/v1", "Job", "train", "j"))
    _, api, _ = written(lambda api: api.on("POST", EVENTS, OK), lambda one: one.run(one.writes.hint(hint)))
    assert [event["regarding"]["uid"] for event in api.bodies("POST")] == ["j"]


def test_the_same_reason_is_told_once() -> None:
    _, api = reported(lambda api: api.on("POST", EVENTS, OK), report(), report(), report("Other"), report())
    assert [event["reason"] for event in api.bodies("POST")] == ["NoRoom", "Other", "NoRoom"]


def test_a_reason_that_could_not_be_told_is_told_again() -> None:
    results, api = reported(lambda api: api.on("POST", EVENTS, refused(403, "Forbidden", "no"), OK), report(), report())
    assert (results, posts(api)) == (["403 Forbidden: no", ""], 2)


def test_a_group_or_namespace_that_is_gone_is_no_error() -> None:
    terminating = refused(403, "Forbidden", "unable to create new content because it is being terminated")
    results, _ = reported(lambda api: api.on("POST", EVENTS, terminating), report(group_uid="g"))
    assert results == [""]


def test_a_long_reason_fits_into_an_event() -> None:
    _, api = reported(lambda api: api.on("POST", EVENTS, OK), report(message="ü" * 2000))
    note = api.bodies("POST")[0]["note"]
    assert len(note.encode()) <= 1024
    assert note.endswith("ü...")


def test_a_pod_is_patched_only_as_it_was_seen_last_and_looked_at_anew_after_a_conflict() -> None:
    """So a replica that has lost the lead, and does not know yet, cannot undo what the next one has written."""

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
            kube.saw("u", "6")  # what is older than what is known tells nothing
            for node in ("n0", "n1", "n2", "n3"):
                assert await writer.run(writer.writes.nominate(Nominate("u", "team", "p", node))) == ""
            kube.saw("u", None)
            for _ in range(2):  # what is answered about a pod that is gone is not kept
                await writer.run(writer.writes.nominate(Nominate("u", "team", "p", None)))
            return [body["metadata"].get("resourceVersion") for body in api.bodies("PATCH")]

    assert asyncio.run(scenario()) == ["7", "8", "11", "12", "12", None, None]
