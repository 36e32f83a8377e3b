"""Kubernetes objects as they come from the API server, and what decisions make of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from extender.core.events import ClaimSeen, VolumeSeen
from extender.kube.convert import UnreadableError, claim_from, node_from, pod_from, volume_from
from extender.kube.objects import ClaimObject, GroupObject, GroupSpec, Meta, NodeObject, PodObject, VolumeObject
from extender.kube.podgroups.coscheduling import group_from
from extender.kube.quantity import milli, whole
from extender.kube.selections import MOST_CONDITIONS
from policies.model import Controller, GroupKey, Node, Pod, PodGroup, Requirement, Selection, Stamp, Taint, Toleration

FULL: dict[str, Any] = {"cpu": "1", "nvidia.com/gpu": "8"}


def pod(meta: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **spec: Any) -> Pod:
    metadata = {"name": "p", "namespace": "team", "uid": "u", **(meta or {})}
    return pod_from(msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, PodObject))


def node(**fields: Any) -> Node:
    return node_from(msgspec.convert({"metadata": {"name": "n", "uid": "u"}, **fields}, NodeObject))


def container(restart: str | None = None, limits: Any = None, **requests: str) -> dict[str, Any]:
    return {"restartPolicy": restart, "resources": {"requests": requests, "limits": limits}}


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("0", 0),
        ("8", 8),
        ("100m", 1),
        ("1500m", 2),
        ("1.5", 2),
        (".5", 1),
        ("5.", 5),
        ("1e3", 1000),
        ("1E3", 1000),
        ("2E", 2 * 10**18),
        ("12k", 12_000),
        ("40Gi", 40 * 2**30),
        ("1.5Gi", 3 * 2**29),
        ("1n", 1),
        ("9Ei", 2**63 - 1),
        ("1e999", 2**63 - 1),
        (3, 3),
        (1.5, 2),
    ],
)
def test_quantities_are_rounded_up_in_their_base_unit(text: str | int | float, amount: int) -> None:
    assert whole(text) == amount


@pytest.mark.parametrize(("text", "amount"), [("100m", 100), ("0.1", 100), ("2", 2000), ("100u", 1), ("1500m", 1500)])
def test_cpu_is_in_millicores(text: str, amount: int) -> None:
    assert milli(text) == amount


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "one", "1ki", "1mi", "--1", "1e", "1e99999", "0x10", "NaN", "Inf", "1_0", "٣"]
)
def test_what_is_not_a_quantity_is_said(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        whole(text)


def test_containers_add_up_and_each_pod_takes_one_place() -> None:
    found = pod(containers=[container(cpu="500m", memory="1Gi"), container(**FULL)])
    assert found.requests == (("cpu", 1500), ("memory", 2**30), ("nvidia.com/gpu", 8), ("pods", 1))


def test_init_containers_run_one_after_another() -> None:
    found = pod(initContainers=[container(cpu="3"), container(cpu="2")], containers=[container(cpu="1")])
    assert dict(found.requests)["cpu"] == 3000


def test_sidecars_run_beside_everything_that_starts_after_them() -> None:
    found = pod(
        initContainers=[container(cpu="1"), container("Always", cpu="2"), container(cpu="4")],
        containers=[container(cpu="3")],
    )
    assert dict(found.requests)["cpu"] == 6000  # 4 + 2 while the last init container runs; 3 + 2 afterwards


def test_limits_stand_for_missing_requests() -> None:
    found = pod(containers=[container(limits={"nvidia.com/gpu": "4", "cpu": "2"}, cpu="1")])
    assert found.requests == (("cpu", 1000), ("nvidia.com/gpu", 4), ("pods", 1))


def test_overhead_is_added_and_pod_level_resources_replace_the_sum() -> None:
    found = pod(
        containers=[container(memory="1", **FULL)],
        resources={"requests": {"cpu": "5", "nvidia.com/gpu": "9"}},
        overhead={"cpu": "250m"},
    )
    assert found.requests == (("cpu", 5250), ("memory", 1), ("nvidia.com/gpu", 8), ("pods", 1))


def test_an_unreadable_amount_names_the_pod_and_the_resource() -> None:
    with pytest.raises(UnreadableError, match=r"cpu: 'lots' is not a quantity \(pod team/p\)"):
        pod(containers=[container(cpu="lots")])


@pytest.mark.parametrize(("absent", "said"), [("name", "name"), ("namespace", "namespace"), ("uid", "UID")])
def test_a_pod_must_say_which_it_is(absent: str, said: str) -> None:
    with pytest.raises(UnreadableError, match=f"the pod has no {said}"):
        pod({absent: None})


def test_everything_may_be_null() -> None:
    found = pod(containers=None, tolerations=None, volumes=None, nodeName=None, affinity=None, nodeSelector=None)
    assert found == Pod(uid="u", namespace="team", name="p", scheduler="")


def test_a_pending_pod_with_its_refusal() -> None:
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/4 nodes"}
    found = pod(
        {
            "creationTimestamp": "1970-01-01T00:01:00Z",
            "ownerReferences": [{"uid": "a"}, {"uid": "b", "controller": True}],
        },
        {"phase": "Pending", "nominatedNodeName": "n1", "conditions": [{"type": "Ready"}, refused]},
        schedulerName="muster",
        priority=7,
        schedulingGates=[{"name": "muster.dev/gang"}],
    )
    assert (found.created, found.owner, found.priority, found.gates) == (60.0, "b", 7, ("muster.dev/gang",))
    assert (found.nominated_node, found.refusal, found.scheduler, found.node) == ("n1", "0/4 nodes", "muster", None)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, True),
        ({"kind": "Node"}, False),
        ({"kind": "Job\x1b[2J"}, False),
        ({"name": "Train_1"}, False),
        ({"name": "t" * 300}, False),
        ({"apiVersion": "batch v1"}, False),
        ({"uid": "j\n"}, False),
        ({"controller": False}, False),
    ],
)
def test_an_owner_is_told_of_what_happens_if_an_event_can_name_it(change: dict[str, object], *, told: bool) -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "j", "controller": True}
    found = pod({"ownerReferences": [job | change]})
    assert found.controller == (Controller("batch/v1", "Job", "train", "j") if told else None)


@pytest.mark.parametrize(
    ("kind", "annotations", "by_cost"),
    [
        ("ReplicaSet", {}, True),
        ("ReplicaSet", {"controller.kubernetes.io/pod-deletion-cost": "7"}, False),
        ("Job", {}, False),
    ],
)
def test_a_replica_without_a_deletion_cost_is_told_from_others(
    kind: str, annotations: dict[str, str], *, by_cost: bool
) -> None:
    maker = {"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": "r", "controller": True}
    assert pod({"ownerReferences": [maker], "annotations": annotations}).removed_by_cost is by_cost


def test_a_scheduler_error_is_no_refusal() -> None:
    failed = {"type": "PodScheduled", "status": "False", "reason": "SchedulerError", "message": "timeout"}
    assert pod(status={"conditions": [failed]}).refusal is None


@pytest.mark.parametrize(
    ("deadline_s", "started", "ends"),
    [(60, "1970-01-01T00:01:00Z", 120.0), (60, None, None), (None, "1970-01-01T00:01:00Z", None)],
)
def test_a_pod_with_an_active_deadline_says_when_it_ends(
    deadline_s: int | None, started: str | None, ends: float | None
) -> None:
    found = pod(status={"phase": "Running", "startTime": started}, nodeName="n1", activeDeadlineSeconds=deadline_s)
    assert found.ends == ends


def test_a_bound_pod_that_is_being_deleted() -> None:
    found = pod({"deletionTimestamp": "2026-01-01T00:00:00Z"}, {"phase": "Running"}, nodeName="n1")
    assert (found.node, found.phase, found.deleting, found.live) == ("n1", "Running", True, False)


def test_what_the_pod_demands_of_a_node() -> None:
    terms = [
        {"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["h100"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    found = pod(
        nodeSelector={"b": "2", "a": "1"},
        affinity={"nodeAffinity": required},
        tolerations=[{"operator": "Exists"}, {"key": "k", "value": "v", "effect": "NoSchedule"}],
    )
    assert found.selection == Selection(
        node_selector=(("a", "1"), ("b", "2")),
        affinity=(
            (Requirement("gpu", "In", ("h100",)),),
            (Requirement("metadata.name", "In", ("n1",), is_field=True),),
        ),
        tolerations=(Toleration("", "Exists", "", ""), Toleration("k", "Equal", "v", "NoSchedule")),
    )


def test_volume_claims_of_both_kinds() -> None:
    volumes = [
        {"name": "a", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "b", "ephemeral": {}},
        {"name": "d"},
    ]
    assert pod(volumes=volumes).claims == ("c", "p-b")


def test_the_group_of_its_podset_is_an_annotation() -> None:
    said = {"annotations": {"kueue.x-k8s.io/podset-group-name": "leader-and-workers"}}
    assert pod(said).podset_group == "leader-and-workers"
    assert not pod().podset_group


def test_native_groups_and_device_claims_are_noticed() -> None:
    assert pod(schedulingGroup={"podGroupName": "x"}).native_group == "x"
    assert pod(schedulingGroup={}).native_group
    assert not pod().native_group
    assert pod(resourceClaims=[{"name": "x"}]).device_claims
    assert not pod(resourceClaims=[]).device_claims


def test_the_stamp_of_a_binding() -> None:
    stamped = {"muster.dev/gang-uid": "g", "muster.dev/release": "r", "muster.dev/release-complete": "true"}
    assert pod({"annotations": stamped}, nodeName="n").stamp == Stamp("g", "r", complete=True)
    broken = {**stamped, "muster.dev/release-complete": "false"}
    assert pod({"annotations": broken}, nodeName="n").stamp == Stamp("g", "r", complete=False)
    assert pod({"annotations": {"muster.dev/gang-uid": "g"}}, nodeName="n").stamp is None
    named = {**stamped, "muster.dev/gang-name": "train"}
    assert pod({"annotations": named}, nodeName="n").stamp == Stamp("g", "r", complete=True, name="train")
    assert pod({"annotations": {**named, "muster.dev/gang-name": "x" * 254}}, nodeName="n").stamp is None


def test_a_node() -> None:
    found = node(
        spec={"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule"}]},
        status={
            "allocatable": {"cpu": "7500m", "memory": "1Ki", "nvidia.com/gpu": "8", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    )
    assert found.allocatable == (("cpu", 7500), ("memory", 1024), ("nvidia.com/gpu", 8), ("pods", 110))
    assert (found.unschedulable, found.taints, found.ready) == (True, (Taint("k", "", "NoSchedule"),), True)


@pytest.mark.parametrize("conditions", [None, [], [{"type": "Ready", "status": "Unknown"}]])
def test_a_node_that_does_not_say_it_is_ready_is_not(conditions: list[dict[str, str]] | None) -> None:
    assert not node(status={"conditions": conditions}).ready


def test_a_pod_group_object() -> None:
    meta = {"name": "g", "namespace": "team", "uid": "u", "creationTimestamp": "1970-01-01T00:00:01Z"}
    found = group_from(
        msgspec.convert({"metadata": meta, "spec": {"minMember": 4, "scheduleTimeoutSeconds": 30}}, GroupObject)
    )
    assert found == PodGroup(GroupKey("team", "g"), "u", 4, created=1.0, timeout_s=30.0)


@pytest.mark.parametrize(("volume", "bound"), [("pv-1", True), ("", False), (None, False)])
def test_a_claim_is_bound_when_it_has_a_volume(volume: str | None, bound: bool) -> None:
    meta = {"name": "c", "namespace": "team", "uid": "u"}
    claim = msgspec.convert({"metadata": meta, "spec": {"volumeName": volume}}, ClaimObject)
    assert claim_from(claim) == ClaimSeen("team", "c", bound)


IN_ZONE = {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "z", "operator": "In", "values": ["a"]}]}]}}
CLAIM = {"namespace": "team", "name": "c"}


def volume(phase: str = "Bound", **spec: Any) -> VolumeSeen | None:
    obj = {"metadata": {"name": "pv", "uid": "u"}, "spec": spec, "status": {"phase": phase}}
    return volume_from(msgspec.convert(obj, VolumeObject))


def test_a_volume_that_only_some_nodes_reach() -> None:
    nodes = ((Requirement("z", "In", ("a",)),),)
    assert volume(claimRef=CLAIM, nodeAffinity=IN_ZONE) == VolumeSeen("pv", "team", "c", nodes)
    assert volume(claimRef=CLAIM, nodeAffinity={"required": {"nodeSelectorTerms": []}}) == VolumeSeen(
        "pv", "team", "c", ()
    )


MANY = [{"matchExpressions": [{"key": "z", "operator": "Exists"}]}] * (MOST_CONDITIONS + 1)


@pytest.mark.parametrize(
    ("phase", "spec"),
    [
        ("Available", {"nodeAffinity": IN_ZONE}),
        ("Released", {"claimRef": CLAIM, "nodeAffinity": IN_ZONE}),
        ("Bound", {"claimRef": CLAIM}),
        ("Bound", {"claimRef": CLAIM, "nodeAffinity": {}}),
        ("Bound", {"claimRef": CLAIM, "nodeAffinity": {"required": {"nodeSelectorTerms": MANY}}}),
    ],
)
def test_other_volumes_concern_nobody(phase: str, spec: dict[str, Any]) -> None:
    assert volume(phase, **spec) is None


@pytest.mark.parametrize("text", ["yesterday", "2026-01-01T00:00:00", "2026-13-01T00:00:00Z"])
def test_what_is_not_an_instant_is_said(text: str) -> None:
    with pytest.raises(UnreadableError, match="is not an instant"):
        pod({"creationTimestamp": text})


@pytest.mark.parametrize(("said", "read"), [(None, None), (0, None), (-1, None), (90, 90.0)])
def test_a_podgroup_without_a_limit_of_its_own(said: int | None, read: float | None) -> None:
    meta = Meta(name="train", namespace="team", uid="g")
    group = group_from(GroupObject(metadata=meta, spec=GroupSpec(min_member=2, schedule_timeout_seconds=said)))
    assert group.timeout_s == read


def test_a_pod_belongs_to_the_job_that_it_names_and_not_to_the_one_that_made_it() -> None:
    maker = {"apiVersion": "batch/v1", "kind": "Job", "name": "train-workers-0", "uid": "child", "controller": True}
    said = {"muster.dev/workload": "jobset-uid", "muster.dev/pod-group": "train", "muster.dev/min-member": "2"}
    found = pod({"ownerReferences": [maker], "annotations": said})
    assert (found.owner, found.controller) == ("jobset-uid", Controller("batch/v1", "Job", "train-workers-0", "child"))
    assert found.group is not None
    assert found.hint is None


def test_annotations_without_values_have_been_taken_off_its_job() -> None:
    maker = {"uid": "child", "controller": True}
    empty = dict.fromkeys(("muster.dev/workload", "muster.dev/pod-group", "muster.dev/min-member"), "")
    found = pod({"ownerReferences": [maker], "annotations": empty})
    assert (found.owner, found.group, found.hint) == ("child", None, None)
    named = pod({"ownerReferences": [maker], "annotations": {**empty, "muster.dev/pod-group": "train"}})
    assert named.group_key == GroupKey("team", "train")
