"""The tutorial of preemption, and the manifests with the component that lets Muster evict single pods."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from devcluster import Cluster
from devcluster.api import Object
from devcluster.muster import (
    RunningMuster,
    install_crds_of,
    install_gate,
    install_job_admission,
    start_muster,
    with_components,
)
from policies.model import Pod
from tests.integration.stage import RealStage
from tests.scenarios.pods import bound, gated, pod

ENDS_LATE = "devcluster.muster.dev/ends-late"
PRIORITIES = {"dev": 100, "training": 500, "inference": 10_000}


def with_preemption(folder: Path) -> Path:
    """A kustomization in that folder."""
    return with_components(folder, "preemption")


def start_with_preemption(cluster: Cluster) -> RunningMuster:
    """Start Muster with queues, preemption and both admission components."""
    install_crds_of(cluster, "queues")
    manifests = with_preemption(cluster.directory / "with-preemption")
    running = start_muster(cluster, {"preemption": "on", "preemption_timeout_s": 120}, manifests=manifests)
    install_gate(cluster)
    install_job_admission(cluster)
    return running


def on(pods: Sequence[Pod], prefix: str) -> list[Pod]:
    """The pods with a node whose names begin like that."""
    return [seen_pod for seen_pod in pods if seen_pod.node and seen_pod.live and seen_pod.name.startswith(prefix)]


def ending_late(pods: Sequence[Object]) -> Sequence[Object]:
    """Return the pods, whose containers ignore SIGTERM: after a deletion they run on until `let_end`."""
    for obj in pods:
        obj["metadata"].setdefault("annotations", {})[ENDS_LATE] = "true"
        obj["spec"]["terminationGracePeriodSeconds"] = 3600
    return pods


def let_end(stage: RealStage, *names: str) -> None:
    """Let pods that end late end now."""
    for name in names:
        stage.api.patch(f"{stage.pods_path}/{name}", {"metadata": {"annotations": {ENDS_LATE: None}}})


def _are_on(count: int, pods: Sequence[Pod]) -> bool:
    return len(on(pods, "inference")) == count


def create_job(stage: RealStage, name: str, size: int, priority: str, says: dict[str, str] | None = None) -> str:
    """A suspended job. Returns its path."""
    jobs = f"/apis/batch/v1/namespaces/{stage.namespace}/jobs"
    spec = {**pod(name)["spec"], "restartPolicy": "Never", "priorityClassName": priority}
    stage.api.create(
        jobs,
        {
            "metadata": {"name": name, "labels": {"muster.dev/gang": "true"}, "annotations": says or {}},
            "spec": {
                "completions": size,
                "parallelism": size,
                "completionMode": "Indexed",
                "backoffLimit": 0,
                "template": {"spec": spec},
            },
        },
    )
    return f"{jobs}/{name}"


class Tutorial:
    """3 nodes of 4 GPUs: four dev pods on the first, a training pod of 4 GPUs on each of the others."""

    def __init__(self, stage: RealStage) -> None:
        self.stage = stage
        (self.first,) = stage.add_nodes(1, gpus=4)
        stage.create(
            *(
                pod(f"dev-{number}", gpus=1, priorityClassName="dev", terminationGracePeriodSeconds=2)
                for number in range(4)
            )
        )
        stage.until(lambda pods: len(on(pods, "dev")) == 4)
        stage.add_nodes(2, gpus=4)
        stage.create(*gated("train", 2, gpus=4, priorityClassName="training"))
        stage.until(lambda pods: len(bound(pods, "train")) == 2)

    def create_inference_pods(self) -> None:
        """Create four single pods, each when those before it have their nodes.

        If pods preempt at once, and so evict the same pods, kube-scheduler 1.36 may leave one waiting for 5 minutes,
        until it flushes its queue (kubernetes#141694).
        """
        for number in range(4):
            self.stage.create(pod(f"inference-{number}", gpus=1, priorityClassName="inference"))
            self.stage.until(partial(_are_on, number + 1))

    def until_only_dev_pods_have_gone(self) -> None:
        pods = self.stage.until(partial(_are_on, 4))
        assert {member.node for member in on(pods, "inference")} == {self.first}
        assert len(bound(pods, "train")) == 2
        assert not on(pods, "dev")
