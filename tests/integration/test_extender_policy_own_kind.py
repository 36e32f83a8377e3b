"""On a real API server: the manifests of a kind of the settings, and the extender's allowed writes on it."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from functools import partial
from typing import Any

import pytest
import yaml

from devcluster import Cluster
from devcluster.api import Object
from devcluster.muster import install
from extender.core.effects import StartJob
from extender.kube.api.connection import ApiError
from extender.kube.client import Kube
from extender.kube.kinds.change import clean, merge_patch, start, suspend
from tests.integration.extender import MERGE, Extender
from tests.integration.own_kind import EXAMPLE, MANIFEST, install_kind, kind
from tests.integration.team import GANG, QUEUE, Team
from tests.kube.kinds.jobs import SUSPENDED, plan_for, read

KIND = kind()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        install(running, EXAMPLE)
        install_kind(running)
        yield running


def path_of(team: Team) -> str:
    return KIND.path_of(team.name, "ocean")


def created(team: Team, meta: Object | None = None, **spec: Any) -> Object:
    obj = yaml.safe_load(MANIFEST)
    obj["metadata"] |= meta or {}
    obj["spec"] |= spec
    return team.api.create(path_of(team).rpartition("/")[0], obj)


def started(obj: Object) -> Object:
    """The object as Muster starts it."""
    after = deepcopy(obj)
    job = read(KIND, after)
    start(KIND, after, StartJob(job, plan_for(job), job.podsets.minimum))
    return after


async def call(kube: Kube, method: str, path: str, body: Object | None) -> None:
    await kube.call(method, path, body=body, content_type=MERGE)


def schedulers(obj: Object) -> list[str | None]:
    spec = obj["spec"]
    return [template["spec"].get("schedulerName") for template in (spec["coordinator"], spec["workers"]["template"])]


# When it is created.


@pytest.mark.parametrize(
    "meta",
    [{"labels": QUEUE}, {"labels": GANG}, {"labels": {}, "annotations": GANG}],
    ids=["queue", "label", "annotation"],
)
def test_one_that_asks_for_muster_is_created_suspended(team: Team, meta: Object) -> None:
    obj = created(team, meta)
    assert (obj["spec"]["suspend"], schedulers(obj)) == (True, ["muster", "muster"])
    assert read(KIND, obj).problem == ""


@pytest.mark.parametrize("meta", [{"labels": {}}, {"labels": QUEUE | {"muster.dev/gang": "false"}}])
def test_another_one_is_left_as_it_is(team: Team, meta: Object) -> None:
    obj = created(team, meta)
    assert (obj["spec"]["suspend"], schedulers(obj)) == (False, [None, None])


def test_nobody_else_starts_it_without_a_plan_and_its_user_stops_it(team: Team, extender: Extender) -> None:
    before = created(team)
    assert team.api.patch(path_of(team), {"spec": {"suspend": False}})["spec"]["suspend"]
    extender.patch(path_of(team), merge_patch(before, started(before)))
    running = team.api.patch(path_of(team), {"metadata": {"labels": {"a": "b"}}})
    assert (running["spec"]["suspend"], "muster.dev/plan" in running["metadata"]["annotations"]) == (False, True)
    stopped = team.api.patch(path_of(team), {"spec": {"suspend": True}})
    assert (stopped["spec"]["suspend"], "annotations" in stopped["metadata"]) == (True, False)


# The writes of Muster's own code.


def test_it_is_started_suspended_and_given_back(team: Team, extender: Extender) -> None:
    before = created(team)
    running = started(before)
    extender.patch(path_of(team), merge_patch(before, running))
    assert team.api.get(path_of(team))["spec"] == running["spec"]
    for change in (suspend, clean):
        now = team.api.get(path_of(team))
        after = deepcopy(now) | {"status": SUSPENDED}
        change(KIND, after)
        extender.patch(path_of(team), merge_patch(now, {key: after[key] for key in now}))
    after = team.api.get(path_of(team))
    assert after["spec"] == before["spec"]
    assert "annotations" not in after["metadata"]


# Writes that a holder of its token may not do.

CHANGES: list[tuple[str, Object]] = [
    ("spec", {"duration": "1h"}),
    ("spec.workers", {"replicas": 1}),
    ("spec.workers", {"image": "other"}),
    ("spec.workers.template", {"more": {}}),
    ("spec.workers.template.metadata", {"labels": {"app": "other"}}),
    ("spec.workers.template.metadata", {"annotations": {"example.com/a": "b"}}),
    ("spec.workers.template.metadata", {"annotations": {"muster.dev/required-topology": "rack"}}),
    ("spec.coordinator.spec", {"containers": [{"name": "main", "image": "other"}]}),
    ("spec.coordinator.spec", {"serviceAccountName": "admin"}),
    ("spec.coordinator.spec", {"tolerations": [{"operator": "Exists"}]}),
    ("spec.coordinator.spec", {"schedulerName": "other"}),
    ("spec.coordinator.spec", {"nodeSelector": {"a": "b"}}),
    ("metadata.labels", {"app": "other"}),
    ("metadata.labels", {"muster.dev/queue-name": "other"}),
    ("metadata", {"finalizers": ["example.com/held"]}),
    ("metadata.annotations", {"muster.dev/hold": "true"}),
]


def test_nothing_else_of_it_can_be_changed(team: Team, extender: Extender) -> None:
    before = created(team)
    for path, change in CHANGES:
        body: Object = {}
        place = body
        for key in path.split("."):
            place[key] = {}
            place = place[key]
        place.update(deepcopy(change))
        extender.refused("PATCH", path_of(team), body, MERGE)
        # A change that is allowed does not carry another one with it.
        body["spec"] = body.get("spec", {}) | {"suspend": False}
        extender.refused("PATCH", path_of(team), body, MERGE)
    for gone in ("coordinator", "workers"):
        extender.refused("PATCH", path_of(team), {"spec": {gone: None}}, MERGE)
    assert team.api.get(path_of(team)) == before


def test_one_that_does_not_ask_for_muster_is_left_alone(team: Team, extender: Extender) -> None:
    before = created(team, {"labels": {}}, suspend=True)
    extender.refused("PATCH", path_of(team), merge_patch(before, started(before)), MERGE)


def test_none_is_created_or_deleted_and_its_status_is_its_controllers(team: Team, extender: Extender) -> None:
    obj = created(team)
    collection = path_of(team).rpartition("/")[0]
    for method, path, body in (
        ("POST", collection, obj),
        ("DELETE", path_of(team), None),
        ("PUT", path_of(team), obj),
        ("PATCH", f"{path_of(team)}/status", {"status": {"active": 1}}),
    ):
        with pytest.raises(ApiError, match="forbidden"):
            extender.do(partial(call, method=method, path=path, body=body))
