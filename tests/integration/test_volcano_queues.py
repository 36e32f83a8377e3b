"""Volcano's Queues on the real control plane: a capability, shares by weight, deserved amounts, and a closed queue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from devcluster import Cluster
from devcluster.api import Object
from devcluster.muster import RunningMuster, install_gate, start_muster
from tests.integration.stage import RealStage
from tests.integration.volcano import GROUPS, JOBS, JobController, install_queues, install_volcano
from tests.scenarios.pods import bound, pod

pytestmark = pytest.mark.xdist_group("volcano-queues")

GPU = "nvidia.com/gpu"
QUEUES = f"/apis/{GROUPS}/queues"


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    install_volcano(cluster.api)
    install_queues(cluster.api)
    for name in ("root", "default"):
        _create(cluster, name)  # Volcano's own controller makes these
    running = start_muster(cluster, {"queue_policy": "proportion", "preemption": "on"})
    install_gate(cluster)
    return running


def _create(cluster: Cluster, name: str, **spec: Any) -> None:
    queue = {"apiVersion": GROUPS, "kind": "Queue", "metadata": {"name": name}, "spec": {"weight": 1, **spec}}
    cluster.api.create(QUEUES, queue)


class Queues:
    """Queues and gangs of a stage; the objects are gone after it."""

    def __init__(self, stage: RealStage) -> None:
        self.stage = stage
        self._made: list[str] = []

    def create(self, name: str, **spec: Any) -> None:
        _create(self.stage.cluster, name, **spec)
        self._made.append(name)

    def gang(self, name: str, size: int, queue: str = "") -> None:
        """A PodGroup that names that queue, and its pods, each with all GPUs of a node."""
        group: Object = {"apiVersion": GROUPS, "kind": "PodGroup", "metadata": {"name": name}}
        spec = {"minMember": size} | ({"queue": queue} if queue else {})
        path = f"/apis/{GROUPS}/namespaces/{self.stage.namespace}/podgroups"
        self.stage.api.create(path, group | {"spec": spec})
        pods = [pod(f"{name}-{at}") for at in range(size)]
        for obj in pods:
            obj["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": name}
        self.stage.create_all(pods)

    def until_bound(self, name: str, size: int) -> None:
        self.stage.until(lambda pods: len(bound(pods, name)) == size)

    def reason(self, name: str, code: str) -> str:
        return self.stage.until_told(name, lambda gang: gang.state == code).message

    def shown(self, name: str) -> Object:
        """The queue as `muster queues` shows it."""
        listed = httpx.get(f"{self.stage.muster.url}/queues", trust_env=False).raise_for_status().json()
        return next(queue for queue in listed if queue["name"] == f"volcano/{name}")

    def remove(self) -> None:
        for name in self._made:
            self.stage.api.delete(f"{QUEUES}/{name}")


@pytest.fixture
def queues(stage: RealStage) -> Iterator[Queues]:
    new_queues = Queues(stage)
    yield new_queues
    new_queues.remove()


def test_a_gang_waits_at_the_capability_of_its_queue_and_starts_when_room_is_given_back(
    stage: RealStage, queues: Queues
) -> None:
    stage.add_nodes(6)
    queues.create("vision", capability={GPU: 16})
    queues.create("speech", weight=3)
    queues.gang("first", 2, "vision")
    queues.until_bound("first", 2)
    queues.gang("second", 2, "vision")
    assert queues.reason("second", "NoQuota") == (
        f"Queue vision: it asks for 16 {GPU}, and 0 of 16 {GPU} are left; it is used by {stage.namespace}/first (16)"
    )
    queues.gang("other", 2, "speech")
    queues.until_bound("other", 2)
    queues.gang("default", 1)
    queues.until_bound("default", 1)
    queues.gang("nowhere", 1, "nobody-made-it")
    assert queues.reason("nowhere", "QueueMissing") == "there is no Queue nobody-made-it of Volcano"
    stage.succeed("first-0", "first-1")
    queues.until_bound("second", 2)
    assert "status" not in stage.api.get(f"{QUEUES}/vision"), "the status is its controller's"


def test_a_volcano_job_is_taken_up_when_its_queue_has_room(stage: RealStage, queues: Queues) -> None:
    stage.add_nodes(4)
    queues.create("vision", capability={GPU: 16})
    queues.gang("first", 1, "vision")
    queues.until_bound("first", 1)
    template = {"spec": pod("any")["spec"] | {"nodeSelector": {"stage": stage.namespace}}}
    tasks = [{"name": "worker", "replicas": 2, "template": template}]
    spec = {"minAvailable": 2, "schedulerName": "muster", "queue": "vision", "tasks": tasks}
    with JobController(stage.api) as controller:
        job = {"apiVersion": JOBS, "kind": "Job", "metadata": {"name": "train"}, "spec": spec}
        name = controller.create(stage.namespace, job)["metadata"]["name"]
        why = queues.reason(name, "NoQuota")
        assert why.startswith(f"Queue vision: it asks for 16 {GPU}, and 8 of 16 {GPU} are left")
        assert not any(member.name.startswith("train-") for member in stage.pods()), "no pod of it exists"
        stage.succeed("first-0")
        stage.until(
            lambda pods: sum(bool(member.node) for member in pods if member.name.startswith("train-worker-")) == 2
        )


def test_a_suspended_job_starts_when_the_queue_that_it_names_has_room(stage: RealStage, queues: Queues) -> None:
    stage.add_nodes(4)
    queues.create("vision", capability={GPU: 16})
    queues.gang("first", 2, "vision")
    queues.until_bound("first", 2)
    metadata = {
        "name": "train",
        "annotations": {"muster.dev/gang": "true", "scheduling.volcano.sh/queue-name": "vision"},
    }
    ours = {"schedulerName": "muster", "nodeSelector": {"stage": stage.namespace}, "restartPolicy": "Never"}
    template = {"spec": pod("any")["spec"] | ours}
    spec = {"suspend": True, "completionMode": "Indexed", "parallelism": 2, "completions": 2, "template": template}
    path = f"/apis/batch/v1/namespaces/{stage.namespace}/jobs"
    stage.api.create(path, {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})
    assert queues.reason("job-train", "NoQuota").startswith(f"Queue vision: it asks for 16 {GPU}, and 0 of 16")
    stage.succeed("first-0", "first-1")
    stage.api.wait_for(f"{path}/train", lambda job: bool(job) and job["status"].get("ready") == 2, 60.0)
    used = next(quota for quota in queues.shown("vision")["quotas"] if quota["resource"] == GPU)
    assert (used["used"], used["most"]) == (16, 16)
    stage.api.delete(f"{path}/train", {"propagationPolicy": "Background"})


def test_the_queue_that_has_least_of_its_part_is_served_first(stage: RealStage, queues: Queues) -> None:
    stage.add_nodes(4)
    queues.create("large", reclaimable=False)
    queues.create("small")
    for name in ("l-0", "l-1", "l-2"):
        queues.gang(name, 1, "large")
        queues.until_bound(name, 1)
    queues.gang("s-0", 1, "small")
    queues.until_bound("s-0", 1)
    for name, queue in (("l-next", "large"), ("s-next", "small")):
        queues.gang(name, 1, queue)
        queues.reason(name, "NoRoom")
    stage.succeed("l-0-0")
    queues.until_bound("s-next", 1)
    queues.reason("l-next", "NoRoom")
    assert not bound(stage.pods(), "l-next")


def test_what_a_queue_deserves_is_taken_back_from_one_that_is_reclaimable(stage: RealStage, queues: Queues) -> None:
    stage.add_nodes(3)
    queues.create("kept", deserved={GPU: 8}, reclaimable=False)
    queues.create("borrows", deserved={GPU: 8})
    queues.create("comes", deserved={GPU: 16})
    for name, queue in (("k-0", "kept"), ("b-0", "borrows"), ("b-1", "borrows")):
        queues.gang(name, 1, queue)
        queues.until_bound(name, 1)
    queues.gang("c-0", 1, "comes")
    queues.until_bound("c-0", 1)
    left = [seen_pod.name for seen_pod in stage.pods() if seen_pod.node and not seen_pod.deleting]
    assert {"k-0-0", "c-0-0"} < set(left)
    assert len(left) == 3
    queues.gang("c-1", 1, "comes")
    queues.reason("c-1", "NoRoom")
    assert bound(stage.pods(), "k-0"), "nobody takes back from it"


def test_what_a_queue_deserves_by_weight_is_taken_back(stage: RealStage, queues: Queues) -> None:
    stage.add_nodes(4)
    queues.create("first")
    queues.create("second")
    for name in ("f-0", "f-1", "f-2", "f-3"):
        queues.gang(name, 1, "first")
        queues.until_bound(name, 1)
    for name in ("s-0", "s-1"):
        queues.gang(name, 1, "second")
        queues.until_bound(name, 1)
    queues.gang("s-2", 1, "second")
    queues.reason("s-2", "NoRoom")
    left = [seen_pod.name for seen_pod in stage.pods() if seen_pod.node and not seen_pod.deleting]
    assert sorted(name[0] for name in left) == ["f", "f", "s", "s"]


def test_a_closed_queue_takes_nobody_new(stage: RealStage, queues: Queues) -> None:
    stage.add_nodes(2)
    queues.create("closes")
    queues.gang("runs", 1, "closes")
    queues.until_bound("runs", 1)
    stage.api.patch(f"{QUEUES}/closes/status", {"status": {"state": "Closing"}})
    stage.wait(lambda: queues.shown("closes"), lambda queue: queue["problems"] == ["it is closed"])
    queues.gang("late", 1, "closes")
    assert queues.reason("late", "QueueStopped") == "Queue closes is closed"
    stage.api.patch(f"{QUEUES}/closes/status", {"status": {"state": "Open"}})
    queues.until_bound("late", 1)
