"""Kubernetes objects as they come from the API server, and the nouns that they become."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from extender.core.events import VolumeSeen
from extender.kube.podgroups.coscheduling import group_from
from extender.kube.reading.constraints import MOST_CONDITIONS
from extender.kube.reading.identity import UnreadableError
from extender.kube.reading.objects import ClaimObject, GroupObject, GroupSpec, Meta, VolumeObject
from extender.kube.reading.volumes import claim_from, volume_from
from policies.model import (
    Controller,
    Dialect,
    GroupKey,
    GroupRef,
    Pod,
    PodGroup,
    Requirement,
    Selection,
    Stamp,
    Taint,
    Toleration,
)
from tests.kube.converting import node, pod


@pytest.mark.parametrize(("absent", "said"), [("name", "name"), ("namespace", "namespace"), ("uid", "UID")])
def test_a_pod_must_say_which_it_is(absent: str, said: str) -> None:
    with pytest.raises(UnreadableError, match=f"the pod has no {said}"):
        pod({absent: None})


def test_everything_may_be_null() -> None:
    converted = pod(containers=None, tolerations=None, volumes=None, nodeName=None, affinity=None, nodeSelector=None)
    assert converted == Pod(uid="u", namespace="team", name="p", scheduler="")


def test_a_pending_pod_with_its_refusal() -> None:
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/4 nodes"}
    pending = pod(
        {
            "creationTimestamp": "1970-01-01T00:01:00Z",
            "ownerReferences": [{"uid": "a"}, {"uid": "b", "controller": True}],
        },
        {"phase": "Pending", "nominatedNodeName": "n1", "conditions": [{"type": "Ready"}, refused]},
        schedulerName="muster",
        priority=7,
        schedulingGates=[{"name": "muster.dev/gang"}],
    )
    assert (pending.created, pending.owner, pending.priority, pending.gates) == (60.0, "b", 7, ("muster.dev/gang",))
    assert (pending.nominated_node, pending.refusal, pending.scheduler, pending.node) == (
        "n1",
        "0/4 nodes",
        "muster",
        None,
    )


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
    converted = pod({"ownerReferences": [job | change]})
    assert converted.controller == (Controller("batch/v1", "Job", "train", "j") if told else None)


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
    converted = pod(status={"phase": "Running", "startTime": started}, nodeName="n1", activeDeadlineSeconds=deadline_s)
    assert converted.ends == ends


def test_a_bound_pod_that_is_being_deleted() -> None:
    converted = pod({"deletionTimestamp": "2026-01-01T00:00:00Z"}, {"phase": "Running"}, nodeName="n1")
    assert (converted.node, converted.phase, converted.deleting, converted.live) == ("n1", "Running", True, False)


def test_what_the_pod_demands_of_a_node() -> None:
    terms = [
        {"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["h100"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    converted = pod(
        nodeSelector={"b": "2", "a": "1"},
        affinity={"nodeAffinity": required},
        tolerations=[{"operator": "Exists"}, {"key": "k", "value": "v", "effect": "NoSchedule"}],
    )
    assert converted.selection == Selection(
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
    metadata = {"annotations": {"kueue.x-k8s.io/podset-group-name": "leader-and-workers"}}
    assert pod(metadata).podset_group == "leader-and-workers"
    assert not pod().podset_group


def test_native_groups_are_noticed() -> None:
    assert pod(schedulingGroup={"podGroupName": "x"}).native_group == "x"
    assert pod(schedulingGroup={}).native_group
    assert not pod().native_group


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("train-x7k2p-train-pgt-0-5b9f", True),
        ("train-x7k2p-train-pgt-1-5b9f", False),
        ("other-x7k2p-other-pgt-0-5b9f", False),
        ("train", False),
        ("", False),
    ],
)
def test_the_group_that_the_job_controller_has_made_is_no_native_group(name: str, made: bool) -> None:
    maker = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "j", "controller": True}
    converted = pod({"ownerReferences": [maker]}, schedulingGroup={"podGroupName": name})
    assert (converted.job_group, converted.native_group) == ((name, "") if made else ("", name or "unnamed"))
    for other in ({"kind": "ReplicaSet"}, {"apiVersion": "batch.volcano.sh/v1alpha1"}, {"controller": False}):
        stranger = pod({"ownerReferences": [maker | other]}, schedulingGroup={"podGroupName": name})
        assert (stranger.job_group, stranger.native_group) == ("", name or "unnamed")


def test_a_group_of_a_job_that_muster_has_started_is_none() -> None:
    maker = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "j", "controller": True}
    meta = {"ownerReferences": [maker], "annotations": {"muster.dev/workload": "j"}}
    converted = pod(meta, schedulingGroup={"podGroupName": "train-x-train-pgt-0-y"})
    assert (converted.job_group, converted.native_group) == ("", "")


def test_device_claims_are_noticed() -> None:
    assert pod(resourceClaims=[{"name": "x"}]).device_claims
    assert not pod(resourceClaims=[]).device_claims


def test_a_pod_that_still_has_its_plan_is_not_pinned() -> None:
    assert [pod({"annotations": {"muster.dev/nodes": nodes}}).unpinned for nodes in ("a,b", "")] == [True, False]
    assert not pod().unpinned


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
    converted = node(
        spec={"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule"}]},
        status={
            "allocatable": {"cpu": "7500m", "memory": "1Ki", "nvidia.com/gpu": "8", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    )
    assert converted.allocatable == (("cpu", 7500), ("memory", 1024), ("nvidia.com/gpu", 8), ("pods", 110))
    assert (converted.unschedulable, converted.taints, converted.ready) == (True, (Taint("k", "", "NoSchedule"),), True)


@pytest.mark.parametrize("conditions", [None, [], [{"type": "Ready", "status": "Unknown"}]])
def test_a_node_that_does_not_say_it_is_ready_is_not(conditions: list[dict[str, str]] | None) -> None:
    assert not node(status={"conditions": conditions}).ready


def test_a_pod_group_object() -> None:
    meta = {"name": "g", "namespace": "team", "uid": "u", "creationTimestamp": "1970-01-01T00:00:01Z"}
    group = group_from(
        msgspec.convert({"metadata": meta, "spec": {"minMember": 4, "scheduleTimeoutSeconds": 30}}, GroupObject)
    )
    assert group == PodGroup(GroupKey("team", "g"), "u", 4, created=1.0, timeout_s=30.0)


@pytest.mark.parametrize(
    ("volume", "phase", "bound"),
    [
        ("pv-1", "Bound", True),
        ("pv-1", None, True),
        ("pv-1", "Pending", False),  # there is no such volume, say
        ("pv-1", "Lost", False),
        ("", "Pending", False),
        (None, None, False),
    ],
)
def test_a_claim_is_bound_when_it_has_a_volume(volume: str | None, phase: str | None, bound: bool) -> None:
    meta = {"name": "c", "namespace": "team", "uid": "u"}
    claim_object = {"metadata": meta, "spec": {"volumeName": volume}, "status": {"phase": phase}}
    claim = msgspec.convert(claim_object, ClaimObject)
    seen = claim_from(claim)
    assert (seen.namespace, seen.name, seen.bound) == ("team", "c", bound)


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
    pod_annotations = {
        "muster.dev/workload": "jobset-uid",
        "muster.dev/pod-group": "train",
        "muster.dev/min-member": "2",
    }
    converted = pod({"ownerReferences": [maker], "annotations": pod_annotations})
    assert (converted.owner, converted.controller) == (
        "jobset-uid",
        Controller("batch/v1", "Job", "train-workers-0", "child"),
    )
    assert converted.group is not None
    assert converted.hint is None


def test_annotations_without_values_have_been_taken_off_its_job() -> None:
    maker = {"uid": "child", "controller": True}
    empty = dict.fromkeys(("muster.dev/workload", "muster.dev/pod-group", "muster.dev/min-member"), "")
    converted = pod({"ownerReferences": [maker], "annotations": empty})
    assert (converted.owner, converted.group, converted.hint) == ("child", None, None)
    named = pod({"ownerReferences": [maker], "annotations": {**empty, "muster.dev/pod-group": "train"}})
    assert named.group_key == GroupKey("team", "train")


@pytest.mark.parametrize(
    "named", [{}, {"muster.dev/pod-group": "other", "muster.dev/min-member": "1"}], ids=["no gang", "another"]
)
def test_a_pod_on_a_node_stays_in_the_gang_that_it_was_bound_with(named: dict[str, str]) -> None:
    """Otherwise its quota would be given out twice while it runs."""
    stamped = {"muster.dev/gang-uid": "g", "muster.dev/release": "r", "muster.dev/gang-name": "train"}
    stamped |= {"muster.dev/gang-queue": "team", "muster.dev/release-quorum": "2"}
    bound = pod({"annotations": {**stamped, **named}}, nodeName="n")
    assert bound.group == GroupRef("train", Dialect.ANNOTATION, 2)
    assert bound.stamp is not None
    assert bound.stamp.queue == "team"
    free = pod({"annotations": {**stamped, **named}})
    assert (free.stamp, free.group and free.group.name) == (None, named.get("muster.dev/pod-group"))
