"""A batch/v1 Job is read, started, suspended and given back; its progress, and its remaining pods."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from extender.core.effects import StartJob
from extender.kube.kinds.change import TOO_LARGE, clean, start
from extender.kube.kinds.completion import GATED, ON_A_NODE, Completion, LimitItem
from extender.kube.kinds.job import JOB
from extender.kube.kinds.kind import Object, UnreadableJobError
from extender.kube.kinds.plan import plan_from
from extender.kube.kinds.read import ANOTHER_SCHEDULER, NO_PODS, TWO_GANGS, TWO_MINIMA, Reader
from policies.model import Controller, GroupKey
from tests.kube.kinds.batch_jobs import INDEX, INDEXED, OWN_AFFINITY, PI, indexed, template
from tests.kube.kinds.jobs import (
    SUSPENDED,
    UID,
    affinity_names,
    by_patch,
    plan_for,
    pod,
    read,
    sizes,
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
    assert {member.identity for member in pods} == slots(read(JOB, obj))
    assert {member.group_key for member in pods} == {GroupKey("team", "job-indexed-job")}
    assert {member.group.min_member for member in pods if member.group} == {5}
    assert {member.hint for member in pods} == {None}, "what Muster writes is no mistake of theirs"


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
    """In a job with a smaller minMember, pods with higher indexes may be in the plan while lower ones are not."""
    plan = {"": tuple(f"n{index}" for index in range(5))}
    all_of_it, fewer = started(JOB, indexed(), plan, minimum=5), started(JOB, indexed(), plan, minimum=3)
    assert len(list(affinity_names(template(all_of_it)))) == 5
    assert "affinity" not in template(fewer)["spec"]
    assert template(fewer)["metadata"]["annotations"]["muster.dev/nodes"] == "n0,n1,n2,n3,n4"


def test_without_indexes_up_to_64_nodes_are_named_and_beyond_that_none() -> None:
    for count, named in ((9, 9), (64, 64), (65, 0)):
        obj = indexed(completionMode="NonIndexed", parallelism=count, completions=count)
        after = started(JOB, obj, {"": tuple(f"n{index}" for index in range(count))})
        assert "muster.dev/nodes" not in template(after)["metadata"]["annotations"]
        assert len(list(affinity_names(template(after))) if named else []) == named
        assert ("affinity" in template(after)["spec"]) is bool(named)
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


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, True),
        ({"active": 1}, False),
        ({"startTime": "2026-01-02T03:04:05Z"}, False),
        ({"startTime": "2026-01-02T03:04:05Z", **SUSPENDED}, True),
        ({"active": 2, **SUSPENDED}, False),
        ({"active": 0, "terminating": 3, **SUSPENDED}, True),
        ({"conditions": [{"type": "Suspended", "status": "False"}]}, False),
    ],
    ids=str,
)
def test_it_has_stopped_when_its_controller_has_seen_the_suspension(status: Object, expected: bool) -> None:
    assert read(JOB, stored(INDEXED, **status)).stopped is expected
    assert not read(JOB, stored(INDEXED, **status) | {"spec": {**indexed()["spec"], "suspend": False}}).stopped


def test_it_runs_when_a_pod_is_ready_or_was() -> None:
    assert not read(JOB, stored(INDEXED, active=5, ready=0)).running
    for field in ("ready", "succeeded", "failed"):
        assert read(JOB, stored(INDEXED, active=4, **{field: 1})).running


@pytest.mark.parametrize(
    ("suspend", "status", "expected"),
    [
        (False, {"startTime": "2026-01-02T03:04:05Z", "conditions": [{"type": "Suspended", "status": "False"}]}, True),
        (False, {"startTime": "2026-01-02T03:04:05Z", "active": 0, "ready": 0}, True),
        (False, {"startTime": "2026-01-02T03:04:05Z", "active": 1}, False),
        (False, {"startTime": "2026-01-02T03:04:05Z", "failed": 1}, False),
        (False, {"conditions": [{"type": "Suspended", "status": "True"}]}, False),
        (True, {"startTime": "2026-01-02T03:04:05Z"}, False),
    ],
    ids=str,
)
def test_it_has_no_pods_when_its_controller_has_begun_and_none_is_there(
    suspend: bool, status: Object, expected: bool
) -> None:
    spec = {**indexed()["spec"], "suspend": suspend}
    assert read(JOB, stored(INDEXED, **status) | {"spec": spec}).no_pods is expected


@pytest.mark.parametrize("said", ["Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"])
def test_it_has_finished_at_a_final_condition_or_when_it_is_being_deleted(said: str) -> None:
    assert read(JOB, stored(INDEXED, conditions=[{"type": said, "status": "True"}])).finished
    assert not read(JOB, stored(INDEXED, conditions=[{"type": said, "status": "False"}])).finished
    obj = stored(INDEXED)
    obj["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    assert read(JOB, obj).finished


def test_a_finished_job_keeps_its_template_and_nothing_else_of_ours() -> None:
    after = started(JOB, stored(INDEXED)) | {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    written = deepcopy(template(after))
    assert read(JOB, after).marked
    clean(JOB, after)
    assert "annotations" not in after["metadata"]
    assert template(after) == written, "the API server lets nobody write it"
    assert not read(JOB, after).marked


@pytest.mark.parametrize("where", ["metadata", "template"])
def test_fewer_pods_are_enough_if_it_says_so(where: str) -> None:
    obj = stored(INDEXED)
    meta = obj["metadata"] if where == "metadata" else template(obj)["metadata"]
    meta["annotations"] = {"muster.dev/min-member": "3"}
    job = read(JOB, obj)
    assert (job.podsets.minimum, sizes(job)) == (3, {"": 5})


def test_kueues_minimum_is_read_as_well() -> None:
    obj = stored(INDEXED)
    obj["metadata"]["annotations"] = {"kueue.x-k8s.io/job-min-parallelism": "2"}
    assert read(JOB, obj).podsets.minimum == 2
    obj["metadata"]["annotations"]["muster.dev/min-member"] = "3"
    assert read(JOB, obj).problem == TWO_MINIMA


def test_a_gang_that_its_template_names_is_its_gang() -> None:
    obj = stored(INDEXED)
    template(obj)["metadata"]["annotations"] = {"muster.dev/pod-group": "train"}
    job = read(JOB, obj)
    assert job.key == GroupKey("team", "train")
    assert job.podsets.podsets[0].template.group_key == job.key
    template(obj)["metadata"]["labels"]["muster.dev/pod-group"] = "another"
    assert read(JOB, obj).problem == TWO_GANGS


def test_one_that_ends_without_a_pod_may_be_started_and_one_that_pauses_not() -> None:
    nothing = read(JOB, indexed(completions=0))
    assert (nothing.podsets.podsets, nothing.problem) == ((), "")
    assert read(JOB, indexed(parallelism=0)).problem == NO_PODS


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"parallelism": 0}, NO_PODS),
        ({"parallelism": 20_000, "completions": 20_000}, "it has 20,000 pods, and no more than 10,000 can be planned"),
        ({"parallelism": "many"}, "its parallelism is not a number of pods"),
        ({"template": None}, "it has no template"),
        ({"template": {"spec": {"containers": 7}}}, "its pod template cannot be read: "),
        (
            {"template": {"spec": {"containers": [{"resources": {"limits": {"cpu": "lots"}}}]}}},
            "its pods cannot be read: the request for cpu",
        ),
        ({"template": {"metadata": {"annotations": {"muster.dev/min-member": "6"}}}}, "muster.dev/min-member is '6', "),
        ({"template": {"metadata": {"annotations": {"muster.dev/required-topology": "!"}}}}, "muster.dev/required-top"),
        ({"template": {"metadata": {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}}}, "its pod template names a Po"),
        ({"template": {"spec": {"schedulerName": "volcano"}}}, ANOTHER_SCHEDULER.format("volcano")),
        (
            {"template": {"spec": {"schedulingGates": [{"name": "muster.dev/gang"}, {"name": "example.com/quota"}]}}},
            GATED.format("example.com/quota"),
        ),
        ({"template": {"spec": {"nodeName": "node-2"}}}, ON_A_NODE.format("node-2")),
    ],
    ids=str,
)
def test_what_keeps_it_from_being_planned_is_one_sentence(change: Object, problem: str) -> None:
    job = read(JOB, indexed(**change))
    assert job.problem.startswith(problem)
    assert (job.uid, job.key.name) == (UID, "job-indexed-job")


def test_a_job_that_was_there_before_the_component_is_the_default_schedulers() -> None:
    """The API server has written the name: docs/migrate-kueue.md."""
    job = indexed(template={"spec": {"schedulerName": "default-scheduler"}})
    assert read(JOB, job, "muster").problem == ANOTHER_SCHEDULER.format("default-scheduler")


def test_who_is_held_and_who_is_looked_after_by_somebody_else() -> None:
    obj = stored(INDEXED)
    obj["metadata"]["labels"]["muster.dev/hold"] = "true"
    assert read(JOB, obj).held
    assert read(JOB, indexed(managedBy="kubernetes.io/job-controller")).managed
    assert not read(JOB, indexed(managedBy="kueue.x-k8s.io/multikueue")).managed


def test_a_job_that_asks_for_a_native_gang_is_left_alone() -> None:
    gang: Object = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    basic: Object = {"schedulingPolicy": {"basic": {}}}
    assert not read(JOB, indexed(scheduling=gang)).managed
    assert not read(JOB, indexed(template={"spec": {"schedulingGroup": {"podGroupName": "own"}}})).managed
    assert [read(JOB, indexed(scheduling=scheduling)).managed for scheduling in (basic, {}, None)] == [True] * 3


@pytest.mark.parametrize(
    ("place", "value", "problem"),
    [
        ("labels", "True", "muster.dev/hold is 'True': write true to hold it, or false"),
        ("annotations", "yes", "muster.dev/hold is 'yes': write true to hold it, or false"),
        ("annotations", "false", ""),
        ("labels", "", ""),
    ],
)
def test_who_wants_to_hold_a_job_by_a_value_that_cannot_be_read_is_told(place: str, value: str, problem: str) -> None:
    obj = indexed()
    obj["metadata"].setdefault(place, {})["muster.dev/hold"] = value
    job = read(JOB, obj)
    assert (job.problem, job.held) == (problem, False)


@pytest.mark.parametrize("place", ["labels", "annotations"])
def test_who_asks_for_a_gang_by_a_value_that_cannot_be_read_is_told_and_waits(place: str) -> None:
    obj = indexed()
    obj["metadata"]["labels"] = {}
    obj["metadata"].setdefault(place, {})["muster.dev/gang"] = "True"
    job = read(JOB, obj)
    problem = "muster.dev/gang is 'True': write true to have Muster admit it, or false to have it left alone"
    assert (job.managed, job.problem) == (True, problem)
    assert not read(JOB, obj | {"spec": obj["spec"] | {"suspend": False}}).managed, "it runs: nobody stops it for that"
    obj["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "team-queue"
    assert read(JOB, obj | {"spec": obj["spec"] | {"suspend": False}}).managed, "by its queue"


def test_a_plan_that_no_object_can_hold_is_refused() -> None:
    nodes = tuple(f"{index:060d}" for index in range(5000))
    obj = indexed(parallelism=5000, completions=5000)
    with pytest.raises(UnreadableJobError, match=TOO_LARGE):
        start(JOB, obj, StartJob(read(JOB, obj), {"": nodes}, 5000))


@pytest.mark.parametrize(
    "text", ["", "null", "[]", "{", '{"": 7}', '{"": "a"}', '{"": "a*x"}', '{"": "a*-1"}', '{"": "a*99999999"}']
)
def test_a_plan_that_nobody_can_have_written_is_none(text: str) -> None:
    assert plan_from(text) is None


def test_a_spec_is_read_once_and_again_when_anything_that_it_rests_on_changes() -> None:
    reader = Reader(("muster",))
    obj = stored(INDEXED)
    obj["metadata"]["generation"] = 3
    first = reader.read(JOB, obj)
    later = deepcopy(obj) | {"status": {"active": 1}}
    assert reader.read(JOB, later).podsets is first.podsets
    assert not reader.read(JOB, later).stopped
    changes: list[Callable[[Object], object]] = [
        lambda changed: (
            changed["metadata"].update(generation=4) or changed["spec"].update(parallelism=4, completions=4)
        ),
        lambda changed: changed["metadata"].update(annotations={"muster.dev/min-member": "4"}),
    ]
    for change in changes:
        other = deepcopy(obj)
        change(other)
        assert reader.read(JOB, other).podsets.minimum == 4
        assert reader.read(JOB, obj).podsets == first.podsets
    reader.completion = Completion({"team": (LimitItem("Container", default_request={"memory": "1Gi"}),)})
    assert dict(reader.read(JOB, obj).podsets.podsets[0].template.requests)["memory"] == 2**30


def test_what_has_finished_before_it_starts_again_does_not_come_again() -> None:
    job = read(JOB, stored(INDEXED, completedIndexes="0,2-3", succeeded=3, **SUSPENDED))
    (podset,) = job.podsets.podsets
    assert [pod.index for pod in podset.pods()] == [1, 4]
    assert (podset.count, job.podsets.minimum) == (5, 2)
    again = started(
        JOB, stored(INDEXED, completedIndexes="0,2-3", succeeded=3, **SUSPENDED), {"": ("", "a", "", "", "b")}
    )
    assert template(again)["metadata"]["annotations"]["muster.dev/nodes"] == ",a,,,b"
    assert template(again)["metadata"]["annotations"]["muster.dev/min-member"] == "2"
    assert read(JOB, again).done == {podset.slot(at) for at in (0, 2, 3)}
    again["status"] = {"completedIndexes": "0-3", "succeeded": 4, "active": 1}
    runs = read(JOB, again)
    assert runs.podsets == job.podsets, "what finishes while it runs keeps its slot"
    assert runs.done == {podset.slot(at) for at in range(4)}
    again["status"] = {"completedIndexes": "0-9", "succeeded": 10}
    assert read(JOB, again).done == {podset.slot(at) for at in range(5)}


def test_without_indexes_only_those_that_are_left_come() -> None:
    waiting = stored(PI, succeeded=1, **SUSPENDED)
    job = read(JOB, waiting)
    assert (sizes(job), job.podsets.minimum) == ({"": 2}, 2)
    again = started(JOB, waiting, {"": ("a", "b")})
    assert read(JOB, again).closed == 0
    again["status"] = {"succeeded": 2, "active": 1}
    assert read(JOB, again).podsets == job.podsets
    assert read(JOB, again).closed == 1
    again["spec"]["parallelism"] = 1
    assert sizes(read(JOB, again)) == {"": 1}, "its user has made it smaller"
    queue = stored(PI, succeeded=1, **SUSPENDED)
    queue["spec"]["completions"] = None
    assert sizes(read(JOB, queue)) == {"": 3}, "nobody says how many there are to be"
    again = started(JOB, queue, {"": ("a", "", "b")})
    assert read(JOB, again).closed == 2, "its controller makes no pod when one has ended well"
    again["status"] = {"active": 2}
    assert read(JOB, again).closed == 0


def test_an_index_that_has_failed_for_good_does_not_come_again() -> None:
    """With backoffLimitPerIndex, or by FailIndex of a podFailurePolicy."""
    waiting = stored(INDEXED, completedIndexes="0", succeeded=1, failedIndexes="2-3", failed=2, **SUSPENDED)
    job = read(JOB, waiting)
    (podset,) = job.podsets.podsets
    assert [pod.index for pod in podset.pods()] == [1, 4]
    assert job.podsets.minimum == 2
    again = started(JOB, waiting, {"": ("", "a", "", "", "b")})
    again["status"] = {"completedIndexes": "0", "failedIndexes": "1-3", "active": 1}
    runs = read(JOB, again)
    assert runs.podsets == job.podsets, "what fails while it runs keeps its slot"
    assert runs.done == {podset.slot(at) for at in range(4)}


@pytest.mark.parametrize("completed", [{}, {"completedIndexes": "0-4", "succeeded": 5}])
def test_of_more_indexes_than_pods_those_that_have_failed_for_good_are_no_longer_left(completed: Object) -> None:
    obj = indexed(completions=10, parallelism=4)
    obj["status"] = {**completed, "failedIndexes": "5-7", "failed": 3, **SUSPENDED}
    assert sizes(read(JOB, obj)) == {"": 2 if completed else 4}


def test_a_reader_looks_again_when_an_index_has_failed_for_good() -> None:
    obj, reader = stored(INDEXED), Reader()
    obj["metadata"]["generation"] = 1
    assert reader.read(JOB, obj).podsets.minimum == 5
    assert reader.read(JOB, obj | {"status": {"failedIndexes": "4"}}).podsets.minimum == 4


@pytest.mark.parametrize("said", ["", "x", "-1", "1-x", "9-0", "7-99999999999", None, 7])
def test_what_names_no_index_of_its_own_changes_nothing(said: Any) -> None:
    assert read(JOB, stored(INDEXED, completedIndexes=said)).podsets == read(JOB, stored(INDEXED)).podsets


def test_nothing_is_left_of_a_job_whose_indexes_have_all_finished() -> None:
    assert read(JOB, stored(INDEXED, completedIndexes="0-99999999999", **SUSPENDED)).problem == NO_PODS
