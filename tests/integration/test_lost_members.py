"""A running gang loses a member while another workload waits, on the real control plane: the replacement gets the room.

The Job controller makes the next pod of a Job ten seconds after one has failed, that of StatefulSets at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from devcluster import Cluster
from devcluster.api import Object
from devcluster.muster import RunningMuster, install_gate, install_job_admission, start_muster
from policies.model import Pod
from tests.integration.preemption import PRIORITIES, with_preemption
from tests.integration.stage import RealStage, add_priorities
from tests.scenarios.pods import bound, gated, pod

pytestmark = pytest.mark.xdist_group("lost-members")

GRACE_S = 25.0


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    manifests = with_preemption(cluster.directory / "with-preemption")
    settings = {"preemption": "on", "replacement_grace_s": GRACE_S}
    running = start_muster(cluster, settings, manifests=manifests)
    install_gate(cluster)
    install_job_admission(cluster)
    add_priorities(cluster, PRIORITIES)
    return running


@pytest.fixture
def stage(cluster: Cluster, muster: RunningMuster) -> Iterator[RealStage]:
    """A namespace and nodes for one test. Controllers' objects are deleted before the pods."""
    with RealStage(cluster, muster) as real_stage:
        yield real_stage
        for kind in ("batch/v1/namespaces/{}/jobs", "apps/v1/namespaces/{}/statefulsets"):
            path = f"/apis/{kind.format(real_stage.namespace)}"
            real_stage.api.delete(path, {"propagationPolicy": "Background"})
            real_stage.api.wait_for(path, lambda left: not left)


def ranks(stage: RealStage, count: int = 3) -> None:
    """A Job whose pods are a gang by their annotations, on all nodes; then a job of one pod that waits."""
    stage.add_nodes(count)
    marked = {"muster.dev/pod-group": "ranks", "muster.dev/min-member": str(count)}
    _create_job(stage, "ranks", count, template={"annotations": marked})
    stage.until(lambda pods: len(_on(pods, "ranks")) == count)
    _create_job(stage, "filler", 1, labels={"muster.dev/gang": "true"})
    stage.until_noted("filler", "NoRoom")


def until_whole_again(stage: RealStage, lost: Pod, count: int = 3) -> None:
    """The filler gets nothing meanwhile."""
    seen: dict[str, None] = {}

    def holds(pods: Sequence[Pod]) -> bool:
        seen.update(dict.fromkeys(filler.name for filler in pods if filler.name.startswith("filler")))
        there = _on(pods, "ranks")
        return len(there) == count and lost.uid not in {member.uid for member in there}

    pods = stage.until(holds)
    assert lost.node in {member.node for member in _on(pods, "ranks")}
    assert not seen


def test_a_container_fails(stage: RealStage) -> None:
    ranks(stage)
    lost = _on(stage.until(bool), "ranks")[1]
    status = {"status": {"phase": "Failed"}}
    stage.api.patch(f"{stage.pods_path}/{lost.name}/status", status, "application/merge-patch+json")
    until_whole_again(stage, lost)


def test_a_node_is_drained_and_opened_again(stage: RealStage) -> None:
    ranks(stage)
    lost = _on(stage.until(bool), "ranks")[1]
    assert lost.node
    stage.cordon(lost.node)
    stage.delete(lost.name)
    stage.until(lambda pods: lost.uid not in {member.uid for member in pods})
    stage.cordon(lost.node, on=False)
    until_whole_again(stage, lost)


def test_a_statefulset_is_restarted_pod_by_pod(stage: RealStage) -> None:
    stage.add_nodes(3)
    sets = f"/apis/apps/v1/namespaces/{stage.namespace}/statefulsets"
    template = {"metadata": {"labels": {"app": "ranks"}}, "spec": _at_home(stage, "ranks")}
    spec = {"replicas": 3, "serviceName": "ranks", "selector": {"matchLabels": {"app": "ranks"}}, "template": template}
    stage.api.create(sets, {"metadata": {"name": "ranks", "labels": {"muster.dev/gang": "true"}}, "spec": spec})
    before = {member.uid for member in _on(stage.until(lambda pods: len(_on(pods, "ranks")) == 3), "ranks")}
    _create_job(stage, "filler", 1, labels={"muster.dev/gang": "true"})
    stage.until_noted("filler", "NoRoom")
    restarted = {"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}
    patch = {"spec": {"template": {"metadata": {"annotations": restarted}}}}
    stage.api.patch(f"{sets}/ranks", patch, "application/merge-patch+json")

    def renewed(pods: Sequence[Pod]) -> bool:
        assert not any(seen_pod.name.startswith("filler") for seen_pod in pods)
        there = _on(pods, "ranks")
        return len(there) == 3 and before.isdisjoint(member.uid for member in there)

    stage.until(renewed)


def test_a_gang_of_a_higher_priority_evicts_others_for_a_late_replacement(stage: RealStage) -> None:
    stage.add_nodes(3)
    pods = gated("ranks", 3, priorityClassName="inference")
    stage.create(*pods)
    stage.until(lambda there: len(bound(there, "ranks")) == 3)
    stage.create(*gated("filler", 1, priorityClassName="dev"))
    stage.until_noted("filler", "NoRoom")
    stage.delete("ranks-1")
    stage.until(lambda there: len(bound(there, "filler")) == 1)
    stage.create(pods[1])
    stage.until(lambda there: len(bound(there, "ranks")) == 3 and not bound(there, "filler"))


def _create_job(stage: RealStage, name: str, count: int, *, template: Object | None = None, **meta: object) -> None:
    spec = {**_at_home(stage, name), "restartPolicy": "Never"}
    job = {
        "metadata": {"name": name, **meta},
        "spec": {
            "completions": count,
            "parallelism": count,
            "completionMode": "Indexed",
            "template": {"metadata": template or {}, "spec": spec},
        },
    }
    stage.api.create(f"/apis/batch/v1/namespaces/{stage.namespace}/jobs", job)


def _at_home(stage: RealStage, name: str) -> Object:
    """The spec of such a pod, on the nodes of this stage."""
    spec: Object = pod(name)["spec"]
    return {"schedulerName": "muster", "nodeSelector": {"stage": stage.namespace}} | spec


def _on(pods: Sequence[Pod], name: str) -> list[Pod]:
    """The pods of that name that run."""
    return [member for member in pods if member.name.startswith(f"{name}-") and member.node and member.live]
