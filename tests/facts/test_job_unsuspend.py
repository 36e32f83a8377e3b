"""A Job that is unsuspended with its plan."""

from __future__ import annotations

from typing import Any

import pytest

from devcluster.api import ApiError
from tests.facts.fact import fact
from tests.facts.place import Place, conditions, paused


def plan(node: str) -> dict[str, Any]:
    """The PATCH that starts a Job: unsuspend, metadata and node affinity of the template."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    template = {
        "metadata": {"annotations": {"muster.dev/plan": node}, "labels": {"muster.dev/planned": "true"}},
        "spec": {"affinity": {"nodeAffinity": required}},
    }
    return {"spec": {"suspend": False, "template": template}}


@fact(
    "unsuspend.at-once",
    "One PATCH unsuspends a Job and writes annotations, labels and node affinity of its template, "
    "before the Job controller has seen the Job.",
    result="Accepted without the condition Suspended (1.36.0 and 1.36.1 answer 422). All pods carry the three.",
    consequence="One PATCH admits a Job. No condition has to be awaited first.",
)
def test_one_patch_at_once(place: Place) -> None:
    with paused(place.cluster, "kube-controller-manager"):
        created = place.create_job(suspend=True)
        version = {"resourceVersion": created["metadata"]["resourceVersion"]}
        patched = place.patch_job(plan("node-7") | {"metadata": version})
        assert conditions(patched) == {}
    for pod in place.until_pods(lambda pods: len(pods) == 2):
        assert pod["metadata"]["annotations"]["muster.dev/plan"] == "node-7"
        assert pod["metadata"]["labels"]["muster.dev/planned"] == "true"
        assert pod["spec"]["affinity"] == plan("node-7")["spec"]["template"]["spec"]["affinity"]


@fact(
    "unsuspend.version-of-the-creation",
    "The PATCH with the `resourceVersion` of the creation, after the controller has marked the Job Suspended.",
    result="409 Conflict: the controller's status write, milliseconds after the creation, is a new version.",
    consequence="The PATCH takes the version of the last watch event; a 409 is tried again on the next event, "
    "not planned again unless the spec (`metadata.generation`) has changed.",
)
def test_the_version_of_the_creation_is_soon_stale(place: Place) -> None:
    created = place.create_job(suspend=True)
    marked = place.until_job(lambda job: conditions(job) == {"Suspended": "True"})
    with pytest.raises(ApiError) as refused:
        place.patch_job(plan("node-7") | {"metadata": {"resourceVersion": created["metadata"]["resourceVersion"]}})
    assert refused.value.code == 409
    assert created["metadata"]["generation"] == marked["metadata"]["generation"]


@fact(
    "unsuspend.stale-version",
    "The same PATCH with a `resourceVersion` that is not the Job's present one.",
    result="409 Conflict; the Job stays suspended and nothing of the PATCH is written.",
    consequence="The version that was planned for goes into the PATCH: a Job that changed meanwhile is planned again.",
)
def test_a_stale_version_is_refused(place: Place) -> None:
    created = place.create_job(suspend=True)
    place.patch_job({"metadata": {"labels": {"changed": "meanwhile"}}})
    with pytest.raises(ApiError) as refused:
        place.patch_job(plan("node-7") | {"metadata": {"resourceVersion": created["metadata"]["resourceVersion"]}})
    assert refused.value.code == 409
    left = place.until_job(lambda job: conditions(job) == {"Suspended": "True"})
    assert left["spec"]["suspend"] is True
    assert "affinity" not in left["spec"]["template"]["spec"]
