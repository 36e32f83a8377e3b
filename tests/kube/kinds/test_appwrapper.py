"""AppWrappers are read, started and given back: what is written stands in ``podSetInfos``, and its components stay."""

from __future__ import annotations

from copy import deepcopy

import pytest

from extender.kube.kinds.appwrapper import APP_WRAPPER, RESETTING
from extender.kube.kinds.change import clean, suspend
from extender.kube.kinds.kind import Object
from policies.model import GroupKey
from tests.kube.kinds.appwrappers import MIXED, SAMPLE, STOPPED, written
from tests.kube.kinds.jobs import by_patch, plan_for, pod, read, sizes, slots, started, stored, without_status


def test_an_appwrapper_of_a_pytorchjob_is_read() -> None:
    job = read(APP_WRAPPER, stored(SAMPLE, **STOPPED))
    assert (job.key, job.owner.kind) == (GroupKey("team", "appwrapper-sample-pytorch-job"), "AppWrapper")
    assert (job.managed, job.suspended, job.stopped, job.problem, job.marked) == (True, True, True, "", False)
    assert sizes(job) == {"00/0-master": 1, "00/1-worker": 2}
    assert {one.template.controller for one in job.podsets.podsets} == {job.owner}
    assert [dict(one.template.requests)["cpu"] for one in job.podsets.podsets] == [1000, 1000]


@pytest.mark.parametrize(
    ("phase", "stopped", "finished"),
    [
        ("", True, False),
        ("Suspended", True, False),
        ("Suspending", False, False),
        ("Resetting", False, False),
        ("Succeeded", False, True),
        ("Failed", False, True),
    ],
)
def test_its_phase_says_whether_it_has_stopped_or_finished(phase: str, stopped: bool, finished: bool) -> None:
    job = read(APP_WRAPPER, stored(SAMPLE, phase=phase))
    assert (job.stopped, job.finished) == (stopped, finished)
    assert job.delay == (RESETTING if phase == "Resetting" else "")


def test_the_plan_is_written_beside_the_components_and_they_stay_as_they_are() -> None:
    obj = stored(MIXED, **STOPPED)
    after = started(APP_WRAPPER, obj)
    assert after["spec"]["suspend"] is False
    assert [one["template"] for one in after["spec"]["components"]] == [
        one["template"] for one in obj["spec"]["components"]
    ]
    gang = {"muster.dev/pod-group": "appwrapper-mixed", "muster.dev/min-member": "5", "muster.dev/workload": "6f9a-uid"}
    assert written(after) == [
        [],
        [gang | {"muster.dev/component": "1", "muster.dev/nodes": "n0,n0,n1"}],
        [gang | {"muster.dev/component": "2", "muster.dev/podset": "0", "muster.dev/nodes": "n1"}],
        [gang | {"muster.dev/component": "3", "muster.dev/podset": "0", "muster.dev/nodes": "n2"}],
    ]
    job = read(APP_WRAPPER, after)
    assert (job.marked, job.plan, job.podsets) == (True, plan_for(job), read(APP_WRAPPER, obj).podsets)


@pytest.mark.parametrize("manifest", [SAMPLE, MIXED])
def test_it_is_given_back_as_it_was_written(manifest: str) -> None:
    obj = stored(manifest, **STOPPED)
    after = by_patch(obj, started(APP_WRAPPER, obj))
    suspend(APP_WRAPPER, after)
    assert read(APP_WRAPPER, after).marked
    clean(APP_WRAPPER, after)
    assert without_status(after) == without_status(obj)


def test_one_that_has_finished_is_cleaned_where_it_is() -> None:
    obj = stored(MIXED, phase="Succeeded")
    after = started(APP_WRAPPER, obj)
    clean(APP_WRAPPER, after)
    assert written(after) == [[], [], [], []]
    assert not read(APP_WRAPPER, after).marked


def test_labels_that_somebody_has_added_for_the_pods_stay() -> None:
    obj = stored(SAMPLE, **STOPPED)
    obj["spec"]["components"][0]["podSetInfos"] = [{"labels": {"a": "b"}}, {"labels": {"a": "c"}}]
    assert [dict(one.template.labels)["a"] for one in read(APP_WRAPPER, obj).podsets.podsets] == ["b", "c"]
    after = started(APP_WRAPPER, obj)
    suspend(APP_WRAPPER, after)
    clean(APP_WRAPPER, after)
    assert without_status(after) == without_status(obj)


def test_its_pods_fill_its_slots() -> None:
    after = started(APP_WRAPPER, stored(MIXED, **STOPPED))
    job = read(APP_WRAPPER, after)
    _, workers, *alone = after["spec"]["components"]
    found = []
    for at in range(3):
        template = made_of(workers["template"]["spec"]["template"], workers["podSetInfos"][0])
        found.append(pod(template, f"w{at}", **{"batch.kubernetes.io/job-completion-index": str(at)}))
    for one in alone:
        template = made_of(one["template"], one["podSetInfos"][0])
        found.append(pod(template, one["template"]["metadata"]["name"]))
    assert [(one.series, one.index) for one in found] == [
        *(("01/", at) for at in range(3)),
        ("02/1-0", None),
        ("03/1-0", None),
    ]
    assert {one.identity for one in found[:3]} < slots(job)
    assert {one.group_key for one in found} == {job.key}
    assert {one.owner for one in found} == {job.uid}
    shapes = {one.name: one.template for one in job.podsets.podsets}
    assert all(one.requests == shapes[one.series].requests for one in found)
    assert all(set(one.labels) >= set(shapes[one.series].labels) for one in found)


def made_of(template: Object, info: Object) -> Object:
    """As its controller makes it: it adds to what the component says."""
    made = deepcopy(template)
    meta = made.setdefault("metadata", {})
    for part in ("annotations", "labels"):
        meta[part] = {**info.get(part, {}), **meta.get(part, {})}
    return made
