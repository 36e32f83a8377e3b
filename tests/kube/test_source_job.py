"""How a TrainJob is written to, of which Muster reads the JobSet."""

from __future__ import annotations

import asyncio

import pytest

from extender.core.effects import StartJob
from extender.kube.kinds.jobset import JOBSET
from extender.kube.kinds.kind import Object
from extender.kube.kinds.trainer import TRAIN_JOB, carried
from extender.kube.writer import KubeApi
from extender.runtime.requests import Response
from tests.kube.fake_api import Answer, Asked, fake_api, refused
from tests.kube.kinds.jobs import plan_for, read
from tests.kube.kinds.test_node_wait import started_without_nodes
from tests.kube.kinds.train_jobs import jobset, older, train_job

PATH = TRAIN_JOB.path_of("team", "torch-ddp")
SHOWN = JOBSET.path_of("team", "torch-ddp")
DONE = Answer(body={"metadata": {"resourceVersion": "8"}})
FROZEN = refused(403, "Forbidden", "PodTemplateOverrides can only be modified when the TrainJob is suspended")


def started(obj: object, *answers: Answer) -> tuple[Response, list[Asked]]:
    """The answer, and the PATCHes that were sent."""
    job = read(TRAIN_JOB, jobset())

    async def scenario() -> tuple[Response, list[Asked]]:
        async with fake_api() as (api, kube):
            api.on("GET", SHOWN, Answer(body=jobset()))
            api.on("GET", PATH, Answer(body=obj))
            api.on("PATCH", PATH, *answers)
            response = await KubeApi(kube).send(StartJob(job, plan_for(job), 3), 5.0)
            return response, [request for request in api.asked if request.method == "PATCH"]

    return asyncio.run(scenario())


def test_a_start_is_one_conditional_patch_of_fields_that_its_crd_has() -> None:
    response, (patch,) = started(train_job(), DONE)
    assert response.done
    assert patch.query == {"fieldValidation": "Strict"}
    assert (patch.body["metadata"]["uid"], patch.body["metadata"]["resourceVersion"]) == ("train-uid", "7")
    assert set(patch.body["spec"]) == {"suspend", "runtimePatches"}


def test_where_the_entry_cannot_be_changed_in_the_patch_that_starts_it_that_goes_first() -> None:
    response, (_, first, second) = started(older(), FROZEN, DONE, DONE)
    assert response.done
    assert set(first.body["spec"]) == {"annotations", "podTemplateOverrides"}
    assert set(first.body["metadata"]) == {"uid", "resourceVersion"}
    assert second.body["spec"] == {"suspend": False}
    assert set(second.body["metadata"]["annotations"]) == {"muster.dev/plan"}
    assert second.body["metadata"]["resourceVersion"] == "8", "nobody has written to it since"


@pytest.mark.parametrize("status", [400, 409, 422])
def test_any_other_refusal_is_the_answer(status: int) -> None:
    response, patches = started(older(), refused(status, "", "unknown field"))
    assert (response.status, len(patches)) == (status, 1)


def led(**changed: object) -> tuple[Response, list[Asked]]:
    """The same of one that runs without nodes, and is to get them. ``changed``: in the spec of the TrainJob."""
    made = started_without_nodes(jobset(), TRAIN_JOB, pool="spot")
    job = read(TRAIN_JOB, made)
    obj: Object = carried(train_job(), made, entry=True)
    obj["spec"] |= changed

    async def scenario() -> tuple[Response, list[Asked]]:
        async with fake_api() as (api, kube):
            api.on("GET", SHOWN, Answer(body=made))
            api.on("GET", PATH, Answer(body=obj))
            for path in (SHOWN, PATH):
                api.on("PATCH", path, DONE)
            response = await KubeApi(kube).send(StartJob(job, plan_for(job), 3), 5.0)
            return response, [request for request in api.asked if request.method == "PATCH"]

    return asyncio.run(scenario())


def test_the_nodes_of_one_that_was_started_without_nodes_are_written_on_its_jobset_and_its_entry_stays() -> None:
    response, patches = led()
    assert response.done
    assert [request.path for request in patches] == [SHOWN, PATH], "the entry is frozen while it runs"
    for patch in patches:
        assert patch.body["metadata"]["annotations"] == {"muster.dev/plan": '{"000000000":"n0*2,n1*1"}'}
        assert "spec" not in patch.body


def test_one_that_its_user_has_suspended_meanwhile_is_not_unsuspended() -> None:
    response, patches = led(suspend=True)
    assert (response.status, patches) == (412, [])
