"""Workloads of queues in situations that users of other schedulers have reported.

Each case states the outcome that a user calls right.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from devcluster import Cluster
from devcluster.api import Object
from devcluster.muster import RunningMuster
from tests.integration.preemption import start_with_preemption
from tests.integration.queueing import Queues
from tests.integration.stage import RealStage, add_priorities
from tests.scenarios.pods import bound, gated

pytestmark = pytest.mark.xdist_group("field-cases-queues")

API = "kueue.x-k8s.io/v1beta2"
NAMED = "kueue.x-k8s.io/queue-name"


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    running = start_with_preemption(cluster)
    add_priorities(cluster, {"low": 10, "high": 100})
    return running


@pytest.fixture
def queues(stage: RealStage) -> Iterator[Queues]:
    made = Queues(stage)
    made.apply(_written("ResourceFlavor", "any", {}))
    yield made
    made.remove()


def _written(kind: str, name: str, spec: Object, **meta: str) -> str:
    return yaml.safe_dump({"apiVersion": API, "kind": kind, "metadata": {"name": name, **meta}, "spec": spec})


def _cohort(name: str, parent: str) -> str:
    return _written("Cohort", name, {"parentName": parent} if parent else {})


def _queue(name: str, amounts: dict[str, str | int], cohort: str = "", **spec: Object) -> str:
    """A ClusterQueue with that quota, and the LocalQueue of its name. Cpu is covered in any case."""
    resources = [{"name": key, "nominalQuota": amounts[key]} for key in amounts]
    groups = [{"coveredResources": sorted({"cpu", *amounts}), "flavors": [{"name": "any", "resources": resources}]}]
    more: Object = {"cohortName": cohort} if cohort else {}
    written = {"namespaceSelector": {}, "resourceGroups": groups, **more, **spec}
    local = _written("LocalQueue", name, {"clusterQueue": name}, namespace="default")
    return "---\n".join((_written("ClusterQueue", name, written), local))


def _in_queue(pods: list[Object], queue: str) -> list[Object]:
    for obj in pods:
        obj["metadata"].setdefault("labels", {})[NAMED] = queue
    return pods


def test_an_elastic_gang_gives_back_one_pod_of_what_it_has_borrowed(stage: RealStage, queues: Queues) -> None:
    """Queues of weight 1 and 10 share eleven cpus; the first one has taken all by a gang of minimum 1. volcano#5994"""
    reclaims: Object = {"reclaimWithinCohort": "Any"}
    shares = {"small": 1, "large": 10}
    for name, cpu in shares.items():
        queues.apply(_queue(name, {"cpu": cpu}, "all", preemption=reclaims, fairSharing={"weight": str(cpu)}))
    stage.add_nodes(1, gpus=0, cpu="20")
    stage.create(*_in_queue(gated("elastic", 11, gpus=0, min_member=1), "small"))
    stage.until(lambda pods: len(bound(pods, "elastic")) == 11)
    stage.create(*_in_queue(gated("lender", 1, gpus=0), "large"))
    pods = stage.until(lambda pods: len(bound(pods, "lender")) == 1)
    assert sorted(member.name for member in bound(pods, "elastic") if member.live) == sorted(
        f"elastic-{at}" for at in range(10)
    )


def test_a_protected_bystander_stops_no_rightful_reclaim(stage: RealStage, queues: Queues) -> None:
    """A queue beside the parent uses its own at the lowest priority; below it one borrows. KAI-Scheduler#1750"""
    reclaims: Object = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}
    queues.apply("---\n".join((_cohort("root", ""), _cohort("parent", "root"))))
    for name, gpus, cohort in (("asks", 8, "parent"), ("borrows", 0, "parent"), ("protected", 8, "root")):
        queues.apply(_queue(name, {"nvidia.com/gpu": gpus}, cohort, preemption=reclaims))
    stage.add_nodes(2)
    stage.create(*_in_queue(gated("bystander", 1, priorityClassName="low"), "protected"))
    stage.create(*_in_queue(gated("borrower", 1, priorityClassName="high"), "borrows"))
    stage.until(lambda pods: len(bound(pods, "bystander")) == len(bound(pods, "borrower")) == 1)
    stage.create(*_in_queue(gated("wants", 1, priorityClassName="high"), "asks"))
    pods = stage.until(lambda pods: len(bound(pods, "wants")) == 1)
    assert [seen_pod.name for seen_pod in pods if seen_pod.live and seen_pod.node] == ["bystander-0", "wants-0"]


@pytest.mark.parametrize("kind", ["Job", "gang"])
def test_quota_that_a_shrinking_job_gives_back_starts_the_next(stage: RealStage, queues: Queues, kind: str) -> None:
    """An elastic Job of three pods is scaled to one, and a workload of two pods waits. kueue#6384"""
    queues.apply(_queue("team", {"cpu": 3}))
    stage.add_nodes(1, gpus=0)
    queues.job("first", "team", 3, gpus=0)
    queues.until_started("first", 3)
    if kind == "Job":
        queues.job("second", "team", 2, gpus=0)
    else:
        stage.create(*_in_queue(gated("second", 2, gpus=0), "team"))
    name = "job-second" if kind == "Job" else "second"
    stage.until_told(name, lambda seen: seen.state == "NoQuota")
    stage.api.patch(f"{queues.jobs}/first", {"spec": {"parallelism": 1, "completions": 1}})
    pods = stage.until(lambda pods: len(bound(pods, name)) == 2)
    assert len([member for member in bound(pods, "job-first") if member.live]) == 1
    used = queues.status("ClusterQueue", "team", lambda status: _used(status) == "3")
    assert _used(used) == "3"


def _used(status: Object) -> str:
    """Return the usage of the only resource by its workloads."""
    return str(status["flavorsUsage"][0]["resources"][0]["total"])
