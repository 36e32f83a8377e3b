"""How a gang is named: annotations, labels, PodGroup objects, and what happens when they contradict each other."""

from __future__ import annotations

import pytest

from devcluster.api import Object
from tests.integration.stage import Stage, bound

pytestmark = pytest.mark.xdist_group("dialects")


def pod_group(stage: Stage, name: str, min_member: int, **spec: int) -> Object:
    path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{stage.namespace}/podgroups"
    body = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": min_member, **spec},
    }
    return stage.api.create(path, body)


def labelled(stage: Stage, name: str, group: str) -> Object:
    pod = stage.pod(name)
    pod["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": group}
    return pod


def test_a_coscheduling_pod_group_starts_whole(stage: Stage) -> None:
    stage.add_nodes(3)
    pod_group(stage, "mpi", 3)
    stage.create(labelled(stage, "mpi-0", "mpi"), labelled(stage, "mpi-1", "mpi"))
    stage.wait_reason("mpi", "MembersMissing")
    assert bound(stage.pods(), "mpi") == []
    stage.create(labelled(stage, "mpi-2", "mpi"))
    stage.wait_bound("mpi", size=3)


def test_a_missing_pod_group_is_a_reason_and_the_gang_starts_when_it_comes(stage: Stage) -> None:
    stage.add_nodes(2)
    stage.create(labelled(stage, "late-0", "late"), labelled(stage, "late-1", "late"))
    assert "no PodGroup named late" in stage.wait_reason("late", "PodGroupMissing")
    pod_group(stage, "late", 2)
    stage.wait_bound("late", size=2)


def test_labels_name_a_gang_as_annotations_do(stage: Stage) -> None:
    stage.add_nodes(2)
    pods = [stage.pod(f"worker-{i}") for i in range(2)]
    for pod in pods:
        pod["metadata"]["labels"] = {"muster.dev/pod-group": "worker", "muster.dev/min-member": "2"}
    stage.create(*pods)
    stage.wait(lambda seen: all(pod["spec"].get("nodeName") for pod in seen) and len(seen) == 2)
    assert all("muster.dev/release" in pod["metadata"]["annotations"] for pod in stage.pods())


def test_two_min_members_in_one_gang_are_reported_and_nobody_starts(stage: Stage) -> None:
    stage.add_nodes(2)
    stage.create(stage.pod("odd-0", gang="odd", size=2), stage.pod("odd-1", gang="odd", size=3))
    assert "different minMembers: 2, 3" in stage.wait_reason("odd", "Contradiction")
    assert bound(stage.pods(), "odd") == []


def test_a_gang_without_min_member_is_never_guessed(stage: Stage) -> None:
    stage.add_nodes(2)
    pod = stage.pod("lonely-0", gang="lonely", size=1)
    del pod["metadata"]["annotations"]["muster.dev/min-member"]
    stage.create(pod)
    assert "muster.dev/min-member" in stage.wait_reason("lonely", "MinMemberMissing")


def test_a_deleted_pod_group_keeps_the_gang_waiting(stage: Stage) -> None:
    stage.add_nodes(2)
    pod_group(stage, "gone", 2)
    stage.create(labelled(stage, "gone-0", "gone"))
    stage.wait_reason("gone", "MembersMissing")
    stage.api.delete(f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{stage.namespace}/podgroups/gone")
    stage.create(labelled(stage, "gone-1", "gone"))
    stage.wait_reason("gone", "PodGroupMissing")
    assert bound(stage.pods(), "gone") == []
