"""How a PodGroup of Volcano is taken up, and the other writes on it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from extender.core.effects import Enqueue, Report
from extender.kube.kinds.read import Reader
from extender.kube.writer import KubeApi
from extender.runtime.requests import OK as DONE
from extender.runtime.requests import ApiCall, Response
from policies.model import Dialect, GroupKey
from tests.kube.fake_api import OK, Answer, FakeApi, fake_api, refused

KEY = GroupKey("team", "train-j")
TAKE_UP = Enqueue(KEY, "g")
GROUP = "/apis/scheduling.volcano.sh/v1beta1/namespaces/team/podgroups/train-j"
EVENTS = "/apis/events.k8s.io/v1/namespaces/team/events"
METADATA = {"uid": "g", "resourceVersion": "7"}


def group(phase: str | None = "Pending", uid: str = "g") -> Answer:
    status = {} if phase is None else {"status": {"phase": phase}}
    return Answer(body={"metadata": {**METADATA, "uid": uid}, "spec": {"minMember": 2}, **status})


def sent(effect: ApiCall = TAKE_UP, **answers: tuple[str, Answer]) -> tuple[Response, FakeApi]:
    """``get=(path, answer)``: by the method."""

    async def scenario() -> tuple[Response, FakeApi]:
        async with fake_api() as (api, kube):
            for method, (path, answer) in answers.items():
                api.on(method.upper(), path, answer)
            writer = KubeApi(kube, Reader(("muster", "volcano-of-ours")))
            return await writer.send(effect, 5.0), api

    return asyncio.run(scenario())


@pytest.mark.parametrize("phase", [None, "", "Pending"])
def test_it_is_inqueue_in_the_version_that_was_looked_at(phase: str | None) -> None:
    answer, api = sent(get=(GROUP, group(phase)), patch=(GROUP, OK))
    assert answer == DONE
    *_, tried, written = api.asked
    assert (tried.path, written.path) == (f"{GROUP}/status", GROUP), "its CRD has no status subresource"
    assert tried.body == written.body == {"metadata": METADATA, "status": {"phase": "Inqueue"}}
    assert written.content_type == "application/merge-patch+json"


def test_where_there_is_a_status_subresource_that_alone_is_written_to() -> None:
    answer, api = sent(get=(GROUP, group()), patch=(f"{GROUP}/status", OK))
    assert answer == DONE
    assert [request.path for request in api.asked if request.method == "PATCH"] == [f"{GROUP}/status"]


@pytest.mark.parametrize(
    "seen", [refused(404, "NotFound"), group(uid="another"), group("Inqueue"), group("Running"), group("Unknown")]
)
def test_nothing_is_written_on_another_one_or_on_one_that_is_taken_up(seen: Answer) -> None:
    answer, api = sent(get=(GROUP, seen), patch=(GROUP, OK))
    assert (answer, api.bodies("PATCH")) == (DONE, [])


def test_what_fails_is_told_to_whoever_tries_again() -> None:
    conflict, _ = sent(get=(GROUP, group()), patch=(GROUP, refused(409, "Conflict")))
    assert conflict.status == 409
    forbidden, _ = sent(get=(GROUP, refused(403, "Forbidden", "podgroups.scheduling.volcano.sh is forbidden")))
    assert (forbidden.status, "podgroups.scheduling.volcano.sh is forbidden" in forbidden.detail) == (403, True)
    unreadable, api = sent(get=(GROUP, Answer(body={"spec": {"minMember": "many"}})))
    assert (unreadable.status, api.bodies("PATCH")) == (422, [])
    assert "podgroups/train-j cannot be read: Expected `int | null`, got `str`" in unreadable.detail


@pytest.mark.parametrize(
    ("code", "phase"), [("NoRoom", "Inqueue"), ("Running", "Running"), ("Ended", "Completed"), ("Partial", "Inqueue")]
)
def test_its_phase_follows_its_gang(code: str, phase: str) -> None:
    report = Report(KEY, "g", None, code, "3 of 8 fit", warning=True, dialect=Dialect.VOLCANO)
    answer, api = sent(report, post=(EVENTS, OK), patch=(GROUP, OK))
    assert answer == DONE
    assert api.bodies("PATCH")[-1] == {"metadata": {"uid": "g"}, "status": {"phase": phase}}
    (event,) = api.bodies("POST")
    assert (event["regarding"]["apiVersion"], event["regarding"]["kind"], event["note"]) == (
        "scheduling.volcano.sh/v1beta1", "PodGroup", "3 of 8 fit"
    )  # fmt: skip


def test_one_that_was_not_taken_up_is_not_taken_up_by_what_is_told_of_it() -> None:
    report = Report(KEY, "g", None, "NoRoom", "none", warning=True, dialect=Dialect.VOLCANO, pending=True)
    answer, api = sent(report, post=(EVENTS, OK), patch=(GROUP, OK))
    assert (answer, len(api.bodies("POST")), api.bodies("PATCH")) == (DONE, 1, [])


def test_a_podgroup_that_is_gone_needs_no_phase() -> None:
    report = Report(KEY, "g", None, "Running", "all run", warning=False, dialect=Dialect.VOLCANO)
    assert sent(report, post=(EVENTS, OK))[0] == DONE
    assert sent(replace(report), post=(EVENTS, OK), patch=(GROUP, refused(403, "Forbidden")))[0].status == 403
