"""Reasons and hints are reported on pods, jobs and groups: once, and again if the write failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from extender.core.effects import Hint, Report
from extender.kube.reading.queue_name import MISSPELT
from policies.model import Controller, Dialect, GroupKey
from tests.kube.fake_api import OK, FakeApi, refused
from tests.kube.writing import EVENTS, GROUP_STATUS, Writer, posts, written


def report(code: str = "NoRoom", group_uid: str | None = None, message: str = "3 of 8 fit") -> Report:
    return Report(GroupKey("team", "train"), group_uid, ("u", "p"), code, message, warning=True, members=8, bound=3)


def reported(setup: Callable[[FakeApi], None], *reports: Report) -> tuple[list[str], FakeApi]:
    async def write(writer: Writer) -> list[str]:
        return [(await writer.run(writer.writes.report(effect))) for effect in reports]

    results, api, _ = written(setup, write)
    return results, api


def test_a_reason_is_an_event_on_a_member() -> None:
    _, api = reported(lambda api: api.on("POST", EVENTS, OK), report())
    (event,) = api.bodies("POST")
    assert (event["reason"], event["note"], event["type"]) == ("NoRoom", "3 of 8 fit", "Warning")
    assert event["regarding"] == {"kind": "Pod", "apiVersion": "v1", "namespace": "team", "name": "p", "uid": "u"}


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
    assert [(condition["type"], condition["status"], condition["reason"]) for condition in conditions] == [
        ("Scheduled", "False", "NoRoom"),
        ("Scheduled", "True", "Running"),
        ("Scheduled", "True", "Ended"),
    ]


def test_the_condition_of_a_group_that_was_made_anew_begins_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    instants = iter(f"2026-01-01T00:00:{second:02}Z" for second in range(60))
    monkeypatch.setattr("extender.kube.reports.instant", lambda _: next(instants))

    def setup(api: FakeApi) -> None:
        api.on("POST", EVENTS, OK)
        api.on("PATCH", GROUP_STATUS, OK)

    _, api = reported(setup, *(report(group_uid=uid, message=why) for uid, why in [("g", "a"), ("g", "b"), ("h", "b")]))
    first, second, anew = [body["status"]["conditions"][0]["lastTransitionTime"] for body in api.bodies("PATCH")]
    assert first == second < anew


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
    _, api, _ = written(lambda api: api.on("POST", EVENTS, OK), lambda writer: writer.run(writer.writes.report(hint)))
    assert [event["regarding"]["uid"] for event in api.bodies("POST")] == ["u", "j"]
    assert {(event["reason"], event["note"]) for event in api.bodies("POST")} == {("UnreadKey", hint.message)}


@pytest.mark.parametrize("message", [MISSPELT, f"{MISSPELT} in the pod template"])
def test_a_misspelt_key_that_is_read_is_not_called_unread(message: str) -> None:
    hint = Hint("u", "team", "p", message, None)
    _, api, _ = written(lambda api: api.on("POST", EVENTS, OK), lambda writer: writer.run(writer.writes.report(hint)))
    assert {(event["reason"], event["note"]) for event in api.bodies("POST")} == {("MisspeltKey", message)}


def test_an_event_that_is_there_once_is_enough() -> None:
    """After a restart the pod is reported again: its Event has the same name."""
    hint = Hint("u", "team", "p", "it was created without its node", None, "Unpinned", once=True)
    there = refused(409, "AlreadyExists", "events.events.k8s.io already exists")
    results, api, _ = written(lambda api: api.on("POST", EVENTS, OK, there), lambda writer: _twice(writer, hint))
    assert results == ["", ""]
    assert [event["metadata"]["name"] for event in api.bodies("POST")] == ["p.unpinned.u"] * 2


async def _twice(writer: Writer, hint: Hint) -> list[str]:
    return [await writer.run(writer.writes.report(hint)) for _ in range(2)]


def test_a_hint_about_a_job_without_pods_is_an_event_on_the_job_alone() -> None:
    hint = Hint("", "team", "train", "kueue.sh/queue-name is misspelt", Controller("batch/v1", "Job", "train", "j"))
    _, api, _ = written(lambda api: api.on("POST", EVENTS, OK), lambda writer: writer.run(writer.writes.report(hint)))
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
