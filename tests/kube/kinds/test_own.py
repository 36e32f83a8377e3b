"""Kinds of the settings are read, started, distinguished and given back like the kinds that Muster has built in."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from msgspec import convert

from extender.config.job_kinds import JobKind
from extender.kube.keys import INDEX_LABEL, PODSET
from extender.kube.kinds.job import JOB
from extender.kube.kinds.kind import Kind, Object
from extender.kube.kinds.own import own_kinds
from extender.kube.kinds.registry import Registry
from extender.kube.reading.objects import Meta
from policies.model import GroupKey
from tests.kube.kinds.jobs import by_patch, plan_for, pod, read, sizes, slots, started, stopped_again, stored

RANK = "science.example.com/rank"
SIMULATION: Object = {
    "version": "science.example.com/v1",
    "kind": "Simulation",
    "plural": "simulations",
    "podsets": [
        {
            "name": "solver",
            "template": "spec.solver.template",
            "count": "spec.solver.replicas",
            "index_label": RANK,
        },
        {"name": "viewer", "template": "spec.viewer", "count": 1, "optional": True},
    ],
    "finished": ["Done", "status.phase=Failed"],
}
MANIFEST = """
apiVersion: science.example.com/v1
kind: Simulation
metadata:
  name: ocean
  labels: {muster.dev/queue-name: team}
spec:
  suspend: true
  solver:
    replicas: 4
    template:
      spec:
        containers:
          - name: main
            image: ocean
            resources: {limits: {nvidia.com/gpu: 8}}
  viewer:
    spec:
      containers:
        - name: main
          image: viewer
"""


def kind(**said: Any) -> Kind:
    (own,) = own_kinds([JobKind.model_validate(SIMULATION | said)])
    return own


def without(obj: Object, *path: str) -> Object:
    after = deepcopy(obj)
    place = after
    for key in path[:-1]:
        place = place[key]
    del place[path[-1]]
    return after


def test_its_podsets_are_those_that_the_setting_says() -> None:
    job = read(kind(), stored(MANIFEST))
    assert (job.key, job.problem) == (GroupKey("team", "simulation-ocean"), "")
    assert sizes(job) == {"1-solver": 4, "1-viewer": 1}
    assert [podset.indexed for podset in job.podsets.podsets] == [True, False]
    assert [dict(podset.template.requests).get("nvidia.com/gpu") for podset in job.podsets.podsets] == [8, None]


def test_a_podset_that_is_optional_may_be_left_out_and_no_other() -> None:
    assert sizes(read(kind(), without(stored(MANIFEST), "spec", "viewer"))) == {"1-solver": 4}
    assert read(kind(), without(stored(MANIFEST), "spec", "solver")).problem == "it has no spec.solver.template"


def test_one_pod_is_asked_for_where_no_number_is_said() -> None:
    assert sizes(read(kind(), without(stored(MANIFEST), "spec", "solver", "replicas")))["1-solver"] == 1


@pytest.mark.parametrize("count", [-1, "4", True, 1.5, [4]])
def test_what_is_no_number_of_pods_is_the_reason_of_the_job(count: object) -> None:
    obj = stored(MANIFEST)
    obj["spec"]["solver"]["replicas"] = count
    assert read(kind(), obj).problem == "its spec.solver.replicas is not a number of pods"


@pytest.mark.parametrize("template", [7, "x", [], {"spec": 7}, {"metadata": []}])
def test_what_is_no_pod_template_is_the_reason_of_the_job(template: object) -> None:
    obj = stored(MANIFEST)
    obj["spec"]["solver"]["template"] = template
    assert read(kind(), obj).problem


def test_its_pods_are_its_slots_whatever_its_controller_writes_on_them() -> None:
    """A label of another controller is no index of its own kind."""
    obj = stored(MANIFEST)
    job = read(kind(), obj)
    running = started(kind(), obj)
    spec = running["spec"]
    ranks = [pod(spec["solver"]["template"], f"solver-{at}", **{RANK: str(at)}) for at in range(4)]
    viewer = pod(spec["viewer"], "viewer-x", **{RANK: "3", "apps.kubernetes.io/pod-index": "7"})
    assert {member.identity for member in ranks} == {slot for slot in slots(job) if slot[0] == ranks[0].identity[0]}
    assert (viewer.series, viewer.index) == ("1-viewer", None)
    assert {member.owner for member in (*ranks, viewer)} == {job.uid}
    assert {member.group_key for member in (*ranks, viewer)} == {job.key}


def test_it_is_given_back_as_it_was() -> None:
    obj = stored(MANIFEST)
    # A user's own values of these keys are restored.
    obj["spec"]["viewer"]["metadata"] = {"annotations": {PODSET: "mine", "a": "b"}}
    running = by_patch(obj, started(kind(), obj))
    assert running["spec"]["solver"]["template"]["metadata"]["annotations"][PODSET] == "solver"
    assert running["spec"]["solver"]["template"]["metadata"]["annotations"][INDEX_LABEL] == RANK
    again = stopped_again(kind(), running)
    assert again["spec"] == obj["spec"]
    assert again["metadata"].get("annotations", {}) == {}
    assert not read(kind(), again).marked


def test_a_template_of_another_kind_keeps_what_its_author_has_written() -> None:
    """Muster does not own those keys there, and the admission policy would refuse to let it remove them."""
    from tests.kube.kinds.batch_jobs import INDEXED

    obj = stored(INDEXED)
    obj["spec"]["template"]["metadata"].setdefault("annotations", {})[PODSET] = "mine"
    running = started(JOB, obj)
    assert running["spec"]["template"]["metadata"]["annotations"][PODSET] == "mine"
    assert stopped_again(JOB, running)["spec"] == obj["spec"]


def test_a_started_one_is_read_as_it_was_planned() -> None:
    job = read(kind(), stored(MANIFEST))
    running = read(kind(), started(kind(), stored(MANIFEST)))
    assert (running.suspended, running.plan, running.podsets) == (False, plan_for(job), job.podsets)


@pytest.mark.parametrize(
    ("status", "finished"),
    [
        ({}, False),
        ({"conditions": [{"type": "Done", "status": "True"}]}, True),
        ({"conditions": [{"type": "Done", "status": "False"}]}, False),
        ({"phase": "Failed"}, True),
        ({"phase": "Running"}, False),
    ],
)
def test_it_has_finished_by_the_signs_of_the_setting(status: Object, *, finished: bool) -> None:
    assert read(kind(), stored(MANIFEST, **status)).finished is finished


@pytest.mark.parametrize(
    ("said", "status", "stopped"),
    [
        ({}, {}, True),
        ({}, {"active": 2}, False),
        ({}, {"phase": "Running"}, True),
        ({"active": []}, {"active": 2}, True),
        ({"stopped": "status.phase=Suspended"}, {}, True),
        ({"stopped": "status.phase=Suspended"}, {"phase": "Running"}, False),
        ({"stopped": "status.phase=Suspended"}, {"phase": "Suspended"}, True),
        ({"stopped": "Suspended", "began": ["status.startTime"]}, {"phase": "New"}, True),
        ({"stopped": "Suspended", "began": ["status.startTime"]}, {"startTime": "x"}, False),
    ],
)
def test_it_has_stopped_by_the_signs_of_the_setting(said: Object, status: Object, *, stopped: bool) -> None:
    assert read(kind(**said), stored(MANIFEST, **status)).stopped is stopped


def test_one_that_somebody_else_looks_after_is_left_alone() -> None:
    obj = stored(MANIFEST)
    obj["spec"]["managedBy"] = "other.example.com/x"
    setting = {"managed_by": "spec.managedBy", "managers": ["example.com/x"]}
    assert read(kind(), obj).managed
    assert not read(kind(**setting), obj).managed
    obj["spec"]["managedBy"] = "example.com/x"
    assert read(kind(**setting), obj).managed


def test_what_it_makes_is_its_own() -> None:
    owner = {"apiVersion": "science.example.com/v1beta1", "kind": "Simulation", "name": "ocean", "controller": True}
    made = convert({"labels": {"muster.dev/gang": "true"}, "ownerReferences": [owner]}, Meta)
    assert Registry().is_wanted(JOB, made)
    assert not Registry([kind()]).is_wanted(JOB, made)
    workflow = convert({"labels": {"muster.dev/gang": "true"}, "ownerReferences": [owner | {"kind": "Study"}]}, Meta)
    assert Registry([kind()]).is_wanted(JOB, workflow)


def test_it_is_found_by_its_group_and_name() -> None:
    own = kind()
    assert Registry([own]).kind_of("science.example.com/v1", "Simulation") is own
    assert Registry([own]).kind_of("batch/v1", "Job") is JOB
    assert Registry().kind_of("science.example.com/v1", "Simulation") is None
