"""Admission: a job is suspended when it is created."""

from __future__ import annotations

from typing import Any

import pytest

from devcluster.api import Object
from tests.facts.fact import fact
from tests.facts.jobsets import JOBSETS, install_jobsets, jobset, jobsets_of
from tests.facts.place import Place, conditions, until
from tests.facts.policies import JOBS, applies, install, patches, tried, until_active

QUEUE = "kueue.x-k8s.io/queue-name"
MANAGED = [
    {"name": "names-a-queue", "expression": f"has(object.metadata.labels) && '{QUEUE}' in object.metadata.labels"},
]
SUSPEND_BY_PATCH = patches("""[
  JSONPatch{op: 'add', path: '/spec/suspend', value: true},
  JSONPatch{op: 'add', path: '/spec/template/spec/schedulerName', value: 'muster'}]""")
SUSPEND_BY_APPLY = applies("""Object{spec: Object.spec{suspend: true,
  template: Object.spec.template{spec: Object.spec.template.spec{schedulerName: 'muster'}}}}""")
ALL_TEMPLATES = applies("""Object{spec: Object.spec{suspend: true,
  replicatedJobs: object.spec.replicatedJobs.map(role, Object.spec.replicatedJobs{name: role.name,
    template: Object.spec.replicatedJobs.template{spec: Object.spec.replicatedJobs.template.spec{
      template: Object.spec.replicatedJobs.template.spec.template{
        spec: Object.spec.replicatedJobs.template.spec.template.spec{schedulerName: 'muster'}}}}})}}""")
ALL_TEMPLATES_BY_PATCH = patches("""[JSONPatch{op: 'add', path: '/spec/suspend', value: true}] +
  lists.range(size(object.spec.replicatedJobs)).map(i, JSONPatch{op: 'add', value: 'muster',
    path: '/spec/replicatedJobs/' + string(i) + '/template/spec/template/spec/schedulerName'})""")


def managed(place: Place, **spec: Any) -> Object:
    """A Job that names a queue."""
    job = place.job(**spec)
    job["metadata"]["labels"] = {QUEUE: "team-a"}
    return job


def is_led(job: Object) -> bool:
    """Suspended, and its pods are for Muster."""
    return bool(job["spec"].get("suspend")) and job["spec"]["template"]["spec"]["schedulerName"] == "muster"


@fact(
    "admission.suspend-job",
    "A MutatingAdmissionPolicy suspends a Job that names a queue and sets `schedulerName` in its template at CREATE, "
    "by JSONPatch or by ApplyConfiguration, also over an explicit `suspend: false`.",
    result="Both work. No pod is created; the Job gets the condition Suspended. A Job without the label is left alone.",
    consequence="Manifests need neither `suspend` nor `schedulerName`. No webhook is needed.",
)
@pytest.mark.parametrize("mutation", [SUSPEND_BY_PATCH, SUSPEND_BY_APPLY], ids=["patch", "apply"])
def test_a_job_is_suspended_when_it_is_created(place: Place, mutation: Object) -> None:
    install(place, JOBS, mutation, matchConditions=MANAGED)
    until_active(place, place.jobs, managed(place), is_led)
    for name, given in (("bare", {}), ("explicit", {"suspend": False})):
        assert is_led(place.api.create(place.jobs, managed(place, name=name, **given)))
        job = place.until_job(lambda job: conditions(job) == {"Suspended": "True"}, name)
        assert "startTime" not in job["status"]
    assert place.pods_of("bare") == place.pods_of("explicit") == []
    other = place.create_job("other")
    assert (other["spec"]["suspend"], other["spec"]["template"]["spec"]["schedulerName"]) == (
        False,
        "default-scheduler",
    )


@fact(
    "admission.suspend-jobset",
    "A policy for a custom resource with a list of templates (the shape of a JobSet) suspends it and sets "
    "`schedulerName` in every template by ApplyConfiguration, the list being keyed by name.",
    result="Works; other fields of the templates stay.",
    consequence="One policy for each kind, with its path to the templates.",
)
def test_a_jobset_is_suspended_when_it_is_created(place: Place) -> None:
    install_jobsets(place)
    install(place, JOBSETS, ALL_TEMPLATES)
    led = until_active(place, jobsets_of(place), jobset(), lambda obj: obj["spec"].get("suspend") is True)
    assert schedulers(led) == ["muster", "muster"]
    assert [replicated["replicas"] for replicated in led["spec"]["replicatedJobs"]] == [1, 3]
    containers = [
        replicated["template"]["spec"]["template"]["spec"]["containers"] for replicated in led["spec"]["replicatedJobs"]
    ]
    assert containers == [[{"name": "main", "image": "train"}]] * 2


def schedulers(one: Object) -> list[str]:
    specs = [role["template"]["spec"]["template"]["spec"] for role in one["spec"]["replicatedJobs"]]
    return [spec.get("schedulerName", "") for spec in specs]


@fact(
    "admission.suspend-jobset-by-patch",
    "The same by JSONPatch, with one patch for each index of the list (`lists.range`).",
    result="Works as well: CEL has `lists.range` here.",
    consequence="Kinds whose list of templates is not keyed by name go by JSONPatch.",
)
def test_a_jobset_is_suspended_by_patches(place: Place) -> None:
    install_jobsets(place)
    install(place, JOBSETS, ALL_TEMPLATES_BY_PATCH)
    led = until_active(place, jobsets_of(place), jobset(), lambda obj: obj["spec"].get("suspend") is True)
    assert schedulers(led) == ["muster", "muster"]


@fact(
    "admission.kind-added-later",
    "A policy with `failurePolicy: Fail` for a kind whose CRD is created after the policy, and an object of the kind "
    "at once.",
    result="The first object that is accepted is suspended. Until then creations wait (2 s) or are answered 503.",
    consequence="The policies may be installed before the operators whose kinds they name: nothing slips through.",
)
def test_a_kind_that_is_added_later(place: Place) -> None:
    install(place, JOBSETS, ALL_TEMPLATES)
    install_jobsets(place)
    first = until(lambda: tried(place, jobsets_of(place), jobset()), lambda seen: isinstance(seen, dict))
    assert isinstance(first, dict)
    assert (first["spec"].get("suspend"), schedulers(first)) == (True, ["muster", "muster"])
