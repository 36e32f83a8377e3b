"""Writes to a job: their content, what is compared before, and how the answers are handled."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from extender.core.effects import CleanJob, JobEffect, StartJob, SuspendJob
from extender.kube.kinds.change import start
from extender.kube.kinds.job import JOB
from extender.kube.kinds.kind import Object
from extender.kube.writer import KubeApi
from extender.runtime.requests import Response
from policies.model import NodeWait
from tests.kube.fake_api import OK, Answer, FakeApi, fake_api, refused
from tests.kube.kinds.batch_jobs import INDEXED
from tests.kube.kinds.jobs import SUSPENDED, plan_for, read, started, stored

PATH = "/apis/batch/v1/namespaces/team/jobs/indexed-job"
EVENTS = "/apis/events.k8s.io/v1/namespaces/team/events"


def waiting() -> Object:
    obj = stored(INDEXED)
    obj["spec"]["template"]["spec"]["schedulerName"] = "muster"
    return obj


START = StartJob(read(JOB, waiting()), plan_for(read(JOB, waiting())), 5)
SUSPEND = SuspendJob(START.job, "node n1 is lost")
CLEAN = CleanJob(START.job)


def answered(effect: JobEffect, obj: Object | None, *patched: Answer, status: Answer = OK) -> tuple[Response, FakeApi]:
    async def scenario() -> tuple[Response, FakeApi]:
        async with fake_api() as (api, kube):
            if obj is not None:
                api.on("GET", PATH, Answer(body=obj))
            api.on("PATCH", PATH, *(patched or (OK,)))
            api.on("PATCH", f"{PATH}/status", status)
            api.on("POST", EVENTS, OK)
            return await KubeApi(kube).send(effect, 5.0), api

    return asyncio.run(scenario())


def changed(obj: Object, **parts: Any) -> Object:
    after = deepcopy(obj)
    for field, fields in parts.items():
        after[field] = after.get(field, {}) | fields
    return after


def test_a_start_is_one_conditional_merge_patch() -> None:
    response, api = answered(START, waiting())
    assert response.done
    (patch,) = [request for request in api.asked if request.method == "PATCH"]
    assert patch.content_type == "application/merge-patch+json"
    assert (patch.body["metadata"]["uid"], patch.body["metadata"]["resourceVersion"]) == (START.job.uid, "7")
    assert patch.body["metadata"]["annotations"] == {"muster.dev/plan": '{"":"n0*2,n1*2,n2*1"}'}
    assert patch.body["spec"]["suspend"] is False
    assert set(patch.body["spec"]["template"]) == {"metadata", "spec"}
    assert set(patch.body["spec"]["template"]["spec"]) == {"affinity"}


UNPLANNED = StartJob(START.job, {}, 5, node_wait=NodeWait(1_767_323_045.0, 1))


def started_without_nodes() -> Object:
    obj = waiting()
    start(JOB, obj, UNPLANNED)
    return obj | {"status": {"active": 5}}


def test_a_job_is_started_without_nodes_by_one_patch_and_its_plan_follows_in_another() -> None:
    response, api = answered(UNPLANNED, waiting())
    (patch,) = api.bodies("PATCH")
    awaited = "nodes are awaited until 2026-01-02T03:04:05Z, attempt 1"
    assert (response.done, patch["metadata"]["annotations"]) == (True, {"muster.dev/plan": awaited})
    assert (patch["spec"]["suspend"], set(patch["spec"]["template"])) == (False, {"metadata"})
    assert answered(UNPLANNED, started_without_nodes())[1].bodies("PATCH") == [], "an answer that was lost"
    response, api = answered(START, started_without_nodes())
    (patch,) = api.bodies("PATCH")
    assert (response.done, patch["metadata"]["annotations"]) == (True, {"muster.dev/plan": '{"":"n0*2,n1*2,n2*1"}'})
    assert "spec" not in patch


@pytest.mark.parametrize(
    ("obj", "said"),
    [
        (changed(started_without_nodes(), spec={"parallelism": 6, "completions": 6}), "the job asks for other pods"),
        (changed(started_without_nodes(), spec={"suspend": True}), "the job has not stopped"),
        (changed(started_without_nodes(), metadata={"labels": {}}), "the job is not to be started any more"),
    ],
)
def test_no_plan_is_written_on_a_job_that_is_not_what_was_started_without_nodes(obj: Object, said: str) -> None:
    response, api = answered(START, obj)
    assert (response.status, api.bodies("PATCH")) == (412, [])
    assert response.detail.startswith(said)


def test_the_plan_is_written_on_one_that_is_held_when_it_runs() -> None:
    held = {"annotations": {**started_without_nodes()["metadata"]["annotations"], "muster.dev/hold": "true"}}
    response, api = answered(START, changed(started_without_nodes(), metadata=held))
    assert (response.done, len(api.bodies("PATCH"))) == (True, 1)


def test_a_job_that_cannot_be_read_was_not_written_to() -> None:
    async def scenario() -> Response:
        async with fake_api() as (api, kube):
            api.on("GET", PATH, refused(503))
            return await KubeApi(kube).send(START, 5.0)

    response = asyncio.run(scenario())
    assert (response.status, response.unsent) == (503, True)
    response, _ = answered(START, waiting(), refused(503))
    assert (response.status, response.unsent) == (503, False)


def test_a_start_whose_answer_was_lost_is_not_written_twice() -> None:
    response, api = answered(START, started(JOB, waiting()))
    assert (response.done, api.bodies("PATCH")) == (True, [])


@pytest.mark.parametrize(
    ("obj", "said"),
    [
        (changed(waiting(), spec={"parallelism": 6, "completions": 6}), "the job asks for other pods"),
        (changed(waiting(), spec={"parallelism": 0}), "it asks for no pod"),
        (changed(waiting(), status={"active": 1}), "the job has not stopped"),
        (changed(waiting(), spec={"suspend": False}), "the job has not stopped"),
        (changed(waiting(), metadata={"labels": {}}), "the job is not to be started any more"),
        (changed(waiting(), metadata={"annotations": {"muster.dev/hold": "true"}}), "the job is not to be started any"),
        (
            changed(waiting(), status={"conditions": [{"type": "Failed", "status": "True"}]}),
            "the job is not to be started any more",
        ),
        (
            changed(
                waiting(),
                metadata={
                    "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "x", "controller": True}]
                },
            ),
            "the job is not to be started any more",
        ),
    ],
    ids=str,
)
def test_nothing_is_written_to_a_job_that_is_not_what_was_planned(obj: Object, said: str) -> None:
    response, api = answered(START, obj)
    assert (response.status, api.bodies("PATCH")) == (412, [])
    assert response.detail.startswith(said)


def test_a_cronjobs_job_is_outermost() -> None:
    cron = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "c", "controller": True}
    response, _ = answered(START, changed(waiting(), metadata={"ownerReferences": [cron]}))
    assert response.done


@pytest.mark.parametrize("effect", [START, SUSPEND, CLEAN])
def test_another_job_under_the_name_is_left_alone(effect: JobEffect) -> None:
    response, api = answered(effect, changed(waiting(), metadata={"uid": "another"}))
    assert (response.status, api.bodies("PATCH")) == (404, [])
    assert answered(effect, None)[0].status == 404


def test_who_was_first_is_told_by_a_conflict() -> None:
    response, _ = answered(START, waiting(), refused(409, "Conflict", "the object has been modified"))
    assert response.status == 409


def test_a_suspension_takes_the_plan_off_and_says_why() -> None:
    response, api = answered(SUSPEND, started(JOB, waiting()))
    assert response.done
    (patch,) = api.bodies("PATCH")
    assert (patch["spec"], patch["metadata"]["annotations"]) == ({"suspend": True}, None)
    (event,) = api.bodies("POST")
    assert (event["reason"], event["note"], event["type"]) == ("Suspended", "node n1 is lost", "Warning")
    assert (event["regarding"]["kind"], event["regarding"]["uid"]) == ("Job", START.job.uid)


def test_a_suspended_job_is_told_nothing_again() -> None:
    response, api = answered(SUSPEND, waiting())
    assert (response.done, api.bodies("PATCH"), api.bodies("POST")) == (True, [], [])


def test_a_finished_job_is_not_suspended() -> None:
    over = changed(started(JOB, waiting()), status={"conditions": [{"type": "Complete", "status": "True"}]})
    response, api = answered(SUSPEND, over)
    assert (response.done, api.bodies("PATCH"), api.bodies("POST")) == (True, [], [])


def test_what_is_ours_comes_off_when_the_job_has_stopped() -> None:
    running = started(JOB, waiting())
    response, api = answered(CLEAN, running)
    assert (response.status, response.detail, api.bodies("PATCH")) == (412, "the job has not stopped", [])
    response, api = answered(CLEAN, changed(running, spec={"suspend": True}, status=SUSPENDED))
    assert response.done
    (patch,) = api.bodies("PATCH")
    assert patch["metadata"]["annotations"] is None
    off = {"annotations": None, "labels": {"muster.dev/led": None}}
    assert patch["spec"]["template"] == {"metadata": off, "spec": {"affinity": None}}
    assert answered(CLEAN, waiting())[1].bodies("PATCH") == []


def test_a_plan_that_does_not_fit_is_refused_with_that_reason() -> None:
    large = replace(START, plan={"": tuple(f"{index:0200d}" for index in range(5))})
    obj = changed(waiting(), metadata={"annotations": {"author": "x" * 262_000}})
    response, api = answered(large, obj)
    assert (response.status, response.detail) == (422, "its plan does not fit into 256 KiB of annotations")
    assert api.bodies("PATCH") == []


def test_a_kind_that_nobody_knows_is_gone() -> None:
    foreign = replace(START.job, owner=START.job.owner._replace(kind="Knot"))
    assert answered(CleanJob(foreign), None)[0].status == 404


RAN: Object = {**SUSPENDED, "startTime": "2026-01-02T03:04:05Z"}
"""The status of a suspended Job by the controllers before Kubernetes 1.36."""


@pytest.mark.parametrize("effect", [START, CLEAN])
def test_before_the_template_of_a_job_that_ran_is_written_its_start_time_is_cleared(effect: JobEffect) -> None:
    stopped = waiting() if effect is START else changed(started(JOB, waiting()), spec={"suspend": True})
    cleared = Answer(body={"metadata": {"resourceVersion": "8"}})
    response, api = answered(effect, changed(stopped, status=RAN), status=cleared)
    status, written = (request for request in api.asked if request.method == "PATCH")
    assert response.done
    meta = {"uid": START.job.uid, "resourceVersion": "7"}
    assert (status.path, status.body) == (f"{PATH}/status", {"status": {"startTime": None}, "metadata": meta})
    assert (written.path, written.body["metadata"]["resourceVersion"]) == (PATH, "8")
    assert "template" in written.body["spec"]


def test_where_it_may_not_be_cleared_the_write_itself_is_answered() -> None:
    response, api = answered(START, changed(waiting(), status=RAN), status=refused(403))
    assert response.done
    assert [body["metadata"]["resourceVersion"] for body in api.bodies("PATCH")] == ["7", "7"]
    response, api = answered(START, changed(waiting(), status=RAN), status=refused(409))
    assert (response.status, len(api.bodies("PATCH"))) == (409, 1)


@pytest.mark.parametrize(
    ("effect", "obj"),
    [
        (START, changed(waiting(), status=SUSPENDED)),
        (SUSPEND, changed(started(JOB, waiting()), status={"startTime": RAN["startTime"], "active": 5})),
        (CLEAN, changed(waiting(), status=RAN, metadata={"annotations": {"muster.dev/plan": "{}"}})),
    ],
    ids=["cleared by its controller", "runs", "nothing is written on its template"],
)
def test_else_its_status_is_left_alone(effect: JobEffect, obj: Object) -> None:
    response, api = answered(effect, obj, status=refused(500))
    assert response.done
    assert [request.path for request in api.asked if request.method == "PATCH"] == [PATH]
