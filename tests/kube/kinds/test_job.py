"""A batch/v1 Job is read, started, suspended and given back."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

from extender.kube.kinds.job import JOB
from policies.model import Controller, GroupKey
from tests.kube.kinds.batch_jobs import INDEX, INDEXED, OWN_AFFINITY, PI, indexed, template
from tests.kube.kinds.jobs import (
    UID,
    affinity_names,
    by_patch,
    plan_for,
    pod,
    read,
    slots,
    started,
    stopped_again,
    stored,
    without_status,
)


def test_an_indexed_job_is_one_podset_with_its_name_and_its_requests() -> None:
    job = read(JOB, stored(INDEXED))
    assert job.key == GroupKey("team", "job-indexed-job")
    assert job.owner == Controller("batch/v1", "Job", "indexed-job", UID)
    (podset,) = job.podsets.podsets
    assert (podset.count, podset.minimum, podset.indexed, podset.name) == (5, 5, True, "")
    assert podset.template.requests == (("cpu", 2000), ("nvidia.com/gpu", 1), ("pods", 1))
    assert podset.template.group_key == job.key
    assert podset.template.created > 0
    assert (job.managed, job.suspended, job.stopped, job.finished, job.held, job.marked) == (True,) * 3 + (False,) * 3
    assert (job.plan, job.problem) == (None, "")


def test_its_pods_fill_its_slots() -> None:
    obj = stored(INDEXED)
    after = started(JOB, obj)
    pods = [pod(template(after), f"p{index}", UID, **{INDEX: str(index)}) for index in range(5)]
    assert {one.identity for one in pods} == slots(read(JOB, obj))
    assert {one.group_key for one in pods} == {GroupKey("team", "job-indexed-job")}
    assert {one.group.min_member for one in pods if one.group} == {5}
    assert {one.hint for one in pods} == {None}, "what Muster writes is no mistake of theirs"


def test_starting_writes_the_plan_on_it_and_names_few_nodes_in_its_template() -> None:
    obj = stored(INDEXED)
    after = started(JOB, obj)
    assert after["spec"]["suspend"] is False
    assert json.loads(after["metadata"]["annotations"]["muster.dev/plan"]) == {"": "n0*2,n1*2,n2*1"}
    assert template(after)["metadata"]["annotations"] == {
        "muster.dev/pod-group": "job-indexed-job",
        "muster.dev/min-member": "5",
        "muster.dev/workload": UID,
    }
    assert list(affinity_names(template(after))) == ["n0", "n1", "n2"]


def test_a_started_job_is_read_as_it_was_planned() -> None:
    obj = stored(INDEXED)
    before, after = read(JOB, obj), read(JOB, started(JOB, obj))
    assert after.podsets == before.podsets
    assert after.plan == plan_for(before)
    assert (after.suspended, after.stopped, after.marked) == (False, False, True)


@pytest.mark.parametrize("manifest", [INDEXED, PI])
@pytest.mark.parametrize(
    "change",
    [
        {},
        {"metadata": {"annotations": {"author": "says"}}},
        {"metadata": {"annotations": {"muster.dev/pod-group": "train", "muster.dev/min-member": "2"}}},
        {"metadata": {"labels": {"muster.dev/pod-group": "train"}}},
        {"metadata": {}},
        {"affinity": {}},
        {"affinity": {"nodeAffinity": {}}},
        {"affinity": OWN_AFFINITY},
        {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}}},
        {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}},
    ],
    ids=str,
)
def test_it_is_given_back_as_its_author_wrote_it(manifest: str, change: dict[str, Any]) -> None:
    obj = stored(manifest)
    if "metadata" in change:
        template(obj)["metadata"] = deepcopy(change["metadata"])
    else:
        template(obj)["spec"] |= deepcopy(change)
    running = by_patch(obj, started(JOB, obj))
    assert read(JOB, running).marked
    assert read(JOB, running).podsets == read(JOB, obj).podsets
    back = by_patch(running, stopped_again(JOB, running))
    assert without_status(back) == obj
    assert not read(JOB, back).marked


def test_a_job_without_template_metadata_is_given_back_without() -> None:
    obj = stored(PI)
    del template(obj)["metadata"]
    running = started(JOB, obj)
    assert without_status(stopped_again(JOB, running)) == obj


def test_more_nodes_than_eight_are_an_annotation_for_the_policy() -> None:
    obj = indexed(parallelism=9, completions=9)
    nodes = tuple(f"n{index}" for index in range(9))
    after = started(JOB, obj, {"": nodes})
    assert template(after)["metadata"]["annotations"]["muster.dev/nodes"] == ",".join(nodes)
    assert template(after)["metadata"]["labels"]["muster.dev/led"] == "index"
    assert "affinity" not in template(after)["spec"]
    assert without_status(stopped_again(JOB, after)) == obj


def test_an_affinity_of_its_own_is_left_alone() -> None:
    obj = indexed()
    template(obj)["spec"]["affinity"] = deepcopy(OWN_AFFINITY)
    after = started(JOB, obj)
    assert template(after)["spec"]["affinity"] == OWN_AFFINITY
    assert template(after)["metadata"]["annotations"]["muster.dev/nodes"] == "n0,n0,n1,n1,n2"
    assert template(after)["metadata"]["labels"]["muster.dev/led"] == "index"
    assert without_status(stopped_again(JOB, after)) == obj


@pytest.mark.parametrize(
    ("more", "led"),
    [
        ({"minDomains": 2}, False),
        ({"minDomains": 2, "nodeAffinityPolicy": "Ignore"}, True),
        ({"minDomains": 2, "whenUnsatisfiable": "ScheduleAnyway"}, True),
        ({"topologyKey": "kubernetes.io/hostname"}, True),
        ({"topologyKey": "kubernetes.io/hostname", "minDomains": 2}, False),
        ({}, False),
    ],
)
@pytest.mark.parametrize("count", [5, 9])
def test_pods_whose_spread_needs_more_nodes_than_named_nodes_leave_are_led_by_nothing(
    more: dict[str, Any], count: int, *, led: bool
) -> None:
    obj = indexed(parallelism=count, completions=count)
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **more}
    template(obj)["spec"]["topologySpreadConstraints"] = [spread]
    after = started(JOB, obj, {"": tuple(f"n{index}" for index in range(count))})
    meta = template(after)["metadata"]
    written = (
        "affinity" in template(after)["spec"],
        "muster.dev/nodes" in meta["annotations"],
        "muster.dev/led" in meta["labels"],
    )
    assert any(written) is led
    assert without_status(stopped_again(JOB, after)) == obj


def test_a_plan_that_lacks_slots_is_an_annotation_with_gaps() -> None:
    after = started(JOB, indexed(), {"": ("a", "", "b")}, minimum=2)
    assert template(after)["metadata"]["annotations"]["muster.dev/nodes"] == "a,,b,,"
    assert read(JOB, after).plan == {"": ("a", "", "b")}


def test_node_affinity_leads_only_those_whose_whole_number_has_to_start() -> None:
    """Of others a pod whose index is not below its minMember may be in the plan."""
    plan = {"": tuple(f"n{index}" for index in range(5))}
    all_of_it, fewer = started(JOB, indexed(), plan, minimum=5), started(JOB, indexed(), plan, minimum=3)
    assert len(list(affinity_names(template(all_of_it)))) == 5
    assert "affinity" not in template(fewer)["spec"]
    assert template(fewer)["metadata"]["annotations"]["muster.dev/nodes"] == "n0,n1,n2,n3,n4"


def test_without_indexes_up_to_64_nodes_are_named_and_beyond_that_none() -> None:
    for count, said in ((9, 9), (64, 64), (65, 0)):
        obj = indexed(completionMode="NonIndexed", parallelism=count, completions=count)
        after = started(JOB, obj, {"": tuple(f"n{index}" for index in range(count))})
        assert "muster.dev/nodes" not in template(after)["metadata"]["annotations"]
        assert len(list(affinity_names(template(after))) if said else []) == said
        assert ("affinity" in template(after)["spec"]) is bool(said)
        assert not read(JOB, obj).podsets.podsets[0].indexed


def test_with_more_completions_than_pods_an_index_is_no_slot() -> None:
    (podset,) = read(JOB, indexed(parallelism=2)).podsets.podsets
    assert (podset.count, podset.indexed, podset.completions) == (2, False, 5)
    (podset,) = read(JOB, indexed(parallelism=7)).podsets.podsets
    assert (podset.count, podset.indexed, podset.completions) == (5, True, 0)


def test_starting_it_anew_replaces_the_old_plan() -> None:
    obj = stored(INDEXED)
    first = started(JOB, obj, {"": tuple("abcde")})
    again = deepcopy(first)
    again["spec"]["suspend"] = True
    assert started(JOB, again, {"": tuple("vwxyz")}) == started(JOB, obj, {"": tuple("vwxyz")})
