"""kube-scheduler's own preemption on the real control plane breaks no gang in part. Muster's is off, as by default."""

from __future__ import annotations

import pytest

from devcluster import Cluster
from devcluster.api import Object
from devcluster.muster import RunningMuster, install_gate, install_job_admission, start_muster
from tests.integration.preemption import PRIORITIES, Tutorial, ending_late, let_end, on
from tests.integration.stage import RealStage, add_priorities
from tests.scenarios.pods import bound, gated, pod

pytestmark = pytest.mark.xdist_group("preemption")


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    running = start_muster(cluster)
    install_gate(cluster)
    install_job_admission(cluster)
    add_priorities(cluster, PRIORITIES)
    return running


def urgent(gpus: int = 8) -> Object:
    return pod("urgent", gpus=gpus, priorityClassName="inference")


def test_exactly_the_dev_pods_give_way_to_pods_of_no_gang(stage: RealStage) -> None:
    tutorial = Tutorial(stage)
    tutorial.create_inference_pods()
    tutorial.until_only_dev_pods_have_gone()


def test_a_whole_gang_gives_way_to_a_pod_of_no_gang(stage: RealStage) -> None:
    stage.add_nodes(2)
    stage.create(*gated("train", 2, priorityClassName="training"))
    stage.until(lambda pods: len(bound(pods, "train")) == 2)
    stage.create(urgent())
    stage.until(lambda pods: len(on(pods, "urgent")) == 1 and not on(pods, "train"))
    assert f"preempted by {stage.namespace}/pod urgent" in stage.until_noted("train-", "Evicted")
    stage.until(lambda pods: all(seen_pod.reservation is None for seen_pod in pods))


def test_a_gang_goes_only_where_no_pod_of_no_gang_would_do(stage: RealStage) -> None:
    """The gang has the lower priority, and kube-scheduler alone would choose its node."""
    stage.add_nodes(1)
    stage.create(*gated("train", 1, priorityClassName="dev"))
    stage.until(lambda pods: len(bound(pods, "train")) == 1)
    stage.add_nodes(1)
    stage.create(pod("alone", priorityClassName="training"))
    stage.until(lambda pods: len(on(pods, "alone")) == 1)
    stage.create(urgent())
    pods = stage.until(lambda pods: len(on(pods, "urgent")) == 1)
    assert len(bound(pods, "train")) == 1
    assert not on(pods, "alone")


def test_beside_a_gang_kube_scheduler_evicts_the_pods_of_no_gang(stage: RealStage) -> None:
    stage.add_nodes(1)
    stage.create(*gated("train", 1, gpus=4, priorityClassName="training"), pod("dev", gpus=4, priorityClassName="dev"))
    stage.until(lambda pods: len(bound(pods, "train")) == 1 and len(on(pods, "dev")) == 1)
    stage.create(urgent())
    pods = stage.until(lambda pods: len(on(pods, "urgent")) == 1)
    assert not on(pods, "dev")
    assert not bound(pods, "train")


def test_a_job_is_suspended_and_runs_again_later(stage: RealStage) -> None:
    """With no backoff one deleted pod would end the job."""
    jobs = f"/apis/batch/v1/namespaces/{stage.namespace}/jobs"
    stage.add_nodes(2)
    spec = {**pod("victim")["spec"], "restartPolicy": "Never", "priorityClassName": "training"}
    spec |= {"nodeSelector": {"stage": stage.namespace}}
    indexed = {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimit": 0}
    labels = {"muster.dev/gang": "true"}
    job = {"metadata": {"name": "victim", "labels": labels}, "spec": {**indexed, "template": {"spec": spec}}}
    stage.api.create(jobs, job)
    stage.until(lambda pods: len(on(pods, "victim")) == 2)
    stage.create(urgent())
    stage.until(lambda pods: len(on(pods, "urgent")) == 1 and not on(pods, "victim"))
    assert stage.api.get(f"{jobs}/victim")["spec"]["suspend"]
    stage.succeed("urgent")
    stage.until(lambda pods: len(on(pods, "victim")) == 2)
    now = stage.api.get(f"{jobs}/victim")
    assert not now["spec"]["suspend"]
    assert not now["status"].get("failed")
    stage.api.delete(f"{jobs}/victim", {"propagationPolicy": "Background"})


def test_a_restart_of_muster_goes_on_with_it(stage: RealStage) -> None:
    stage.add_nodes(2)
    stage.create(*ending_late(gated("slow", 2, priorityClassName="training")))
    stage.until(lambda pods: len(bound(pods, "slow")) == 2)
    stage.create(urgent())
    stage.until(lambda pods: all(victim.deleting for victim in pods if victim.name.startswith("slow")))
    stage.kill_extender()
    stage.start_extender()
    pods = stage.until(lambda pods: len(pods) == 3)
    (kept,) = [seen_pod.reservation for seen_pod in pods if seen_pod.name == "urgent"]
    assert kept is not None
    room = kept.rooms[0][0]
    victims = {victim.node: victim.name for victim in pods if victim.name != "urgent"}
    let_end(stage, victims.pop(room))
    pods = stage.until(lambda pods: len(on(pods, "urgent")) == 1)
    assert [seen_pod.node for seen_pod in on(pods, "urgent")] == [room]
    let_end(stage, *victims.values())
