"""Preemption on the real control plane: the right workloads are evicted whole, and their preemptor starts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devcluster import Cluster
from devcluster.api import Object
from devcluster.muster import RunningMuster
from tests.integration.preemption import PRIORITIES, Tutorial, ending_late, let_end, on, start_with_preemption
from tests.integration.queueing import Queues
from tests.integration.stage import RealStage, add_priorities
from tests.scenarios.pods import bound, gang, gated, member, pod, whole

pytestmark = pytest.mark.xdist_group("preemption")


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    running = start_with_preemption(cluster)
    add_priorities(cluster, PRIORITIES)
    return running


def test_exactly_the_dev_pods_give_way_to_a_gang(stage: RealStage) -> None:
    tutorial = Tutorial(stage)
    stage.create(*gated("inference", 4, gpus=1, priorityClassName="inference"))
    tutorial.until_only_dev_pods_have_gone()
    message = stage.until_noted("dev-", "Evicted")
    assert f"preempted by {stage.namespace}/inference" in message


def test_exactly_the_dev_pods_give_way_to_pods_of_no_gang(stage: RealStage) -> None:
    tutorial = Tutorial(stage)
    tutorial.create_inference_pods()
    tutorial.until_only_dev_pods_have_gone()


def test_a_gang_that_requires_a_clique_evicts_victims_of_one_clique_and_starts_there(stage: RealStage) -> None:
    """In each of four cliques of 16 nodes one gang of two is in the way."""
    where: dict[str, str] = {}
    for clique in "abcd":
        for name in stage.add_nodes(16, clique=clique):
            where[name] = clique
        stage.create(*gated(f"busy-{clique}", 2, priorityClassName="training", topology="clique"))
        stage.until(lambda pods, name=f"busy-{clique}": len(bound(pods, name)) == 2)  # type: ignore[misc]
        # The next pods go into the next clique.
        for name in [node for node, of in where.items() if of == clique]:
            stage.cordon(name)
    for name in where:
        stage.cordon(name, on=False)
    stage.create(*gated("large", 16, priorityClassName="inference", topology="clique"))
    pods = stage.until(lambda pods: len(bound(pods, "large")) == 16)
    (clique,) = {where[seen_pod.node] for seen_pod in bound(pods, "large") if seen_pod.node}
    left = whole(pods, [f"busy-{letter}" for letter in "abcd"], 2)
    assert left == [f"busy-{letter}" for letter in "abcd" if letter != clique]


def test_a_preemptor_that_is_deleted_leaves_nobody_evicted_who_had_not_been_told(stage: RealStage) -> None:
    """The victims take their time to end, and the room that is kept for the preemptor is free once it is deleted."""
    stage.add_nodes(2)
    stage.create(*ending_late([member(f"slow-{at}", "slow", 2, priorityClassName="dev") for at in (0, 1)]))
    stage.until(lambda pods: len(bound(pods, "slow")) == 2)
    stage.create(*gang("urgent", 1, priorityClassName="inference"))
    stage.until(lambda pods: all(victim.deleting for victim in pods if victim.name.startswith("slow")))
    stage.delete("urgent-0")
    stage.until(lambda pods: not any(seen_pod.name == "urgent-0" for seen_pod in pods))
    let_end(stage, "slow-0", "slow-1")
    stage.until(lambda pods: not pods)
    stage.create(*gang("next", 2, priorityClassName="dev"))
    stage.until(lambda pods: len(bound(pods, "next")) == 2)


def test_others_give_way_if_a_node_is_cordoned_while_its_victims_go(stage: RealStage) -> None:
    """The room is of no use any more. No other workload is evicted before that shows."""
    stage.add_nodes(3)
    slow = ending_late(gated("slow", 2, priorityClassName="dev"))
    stage.create(*slow, *gated("train", 1, priorityClassName="training"))
    pods = stage.until(lambda pods: len(bound(pods, "slow")) == 2 and len(bound(pods, "train")) == 1)
    lost = next(victim.node for victim in bound(pods, "slow") if victim.node)
    stage.create(*gated("urgent", 2, priorityClassName="inference"))
    pods = stage.until(lambda pods: all(victim.deleting for victim in pods if victim.name.startswith("slow")))
    assert len(on(pods, "train")) == 1
    stage.cordon(lost)
    let_end(stage, "slow-0", "slow-1")
    pods = stage.until(lambda pods: len(bound(pods, "urgent")) == 2)
    assert lost not in {seen_pod.node for seen_pod in bound(pods, "urgent")}


def test_a_victim_job_with_no_backoff_runs_again_later(stage: RealStage) -> None:
    """The job is suspended, which counts no failure, and started again when there is room."""
    jobs = f"/apis/batch/v1/namespaces/{stage.namespace}/jobs"
    stage.add_nodes(2)
    spec = {**pod("victim")["spec"], "restartPolicy": "Never", "priorityClassName": "dev"}
    job: Object = {
        "metadata": {"name": "victim", "labels": {"muster.dev/gang": "true"}},
        "spec": {
            "completions": 2,
            "parallelism": 2,
            "completionMode": "Indexed",
            "backoffLimit": 0,
            "template": {"spec": spec},
        },
    }
    stage.api.create(jobs, job)
    stage.until(lambda pods: len(on(pods, "victim")) == 2)
    stage.create(*gated("urgent", 2, priorityClassName="inference"))
    stage.until(lambda pods: len(bound(pods, "urgent")) == 2 and not on(pods, "victim"))
    now = stage.api.get(f"{jobs}/victim")
    assert now["spec"]["suspend"]
    stage.succeed("urgent-0", "urgent-1")
    stage.until(lambda pods: len(on(pods, "victim")) == 2)
    now = stage.api.get(f"{jobs}/victim")
    assert not now["spec"]["suspend"]
    assert not now["status"].get("failed")
    stage.api.delete(f"{jobs}/victim", {"propagationPolicy": "Background"})


def test_the_surplus_of_a_gang_gives_way_and_the_gang_runs_on(stage: RealStage) -> None:
    stage.add_nodes(4)
    stage.create(*gated("elastic", 4, min_member=2, priorityClassName="dev"))
    stage.until(lambda pods: len(bound(pods, "elastic")) == 4)
    stage.create(*gated("urgent", 2, priorityClassName="inference"))
    pods = stage.until(lambda pods: len(bound(pods, "urgent")) == 2)
    assert sorted(seen_pod.name for seen_pod in bound(pods, "elastic")) == ["elastic-0", "elastic-1"]
    assert f"preempted by {stage.namespace}/urgent" in stage.until_noted("elastic-3", "Evicted")


def test_a_stateful_set_gives_up_a_pod_beyond_its_minimum_and_grows_back(stage: RealStage) -> None:
    """The controller creates that pod again at once, in order, and the pod waits until there is room."""
    sets, labels = f"/apis/apps/v1/namespaces/{stage.namespace}/statefulsets", {"app": "web"}
    stage.add_nodes(3)
    template = {"metadata": {"labels": labels}, "spec": {**pod("web")["spec"], "priorityClassName": "dev"}}
    spec = {"replicas": 3, "serviceName": "web", "selector": {"matchLabels": labels}, "template": template}
    set_labels = {"muster.dev/gang": "true", "muster.dev/min-member": "2"}
    stage.api.create(sets, {"metadata": {"name": "web", "labels": set_labels}, "spec": spec})
    before = {seen_pod.uid for seen_pod in on(stage.until(lambda pods: len(on(pods, "web")) == 3), "web")}
    stage.create(*gated("urgent", 1, priorityClassName="inference"))
    pods = stage.until(lambda pods: len(bound(pods, "urgent")) == 1 and len(on(pods, "web")) == 2)
    assert len(before.intersection(seen_pod.uid for seen_pod in on(pods, "web"))) == 2
    stage.succeed("urgent-0")
    stage.until(lambda pods: len(on(pods, "web")) == 3)
    stage.api.delete(f"{sets}/web", {"propagationPolicy": "Background"})


def test_a_budget_keeps_a_pod_of_no_gang_until_it_lets_it_go(stage: RealStage) -> None:
    budgets = f"/apis/policy/v1/namespaces/{stage.namespace}/poddisruptionbudgets"
    stage.add_nodes(1)
    alone = pod("dev", priorityClassName="dev")
    alone["metadata"]["labels"] = {"app": "dev"}
    stage.create(alone)
    stage.until(lambda pods: len(on(pods, "dev")) == 1)
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "dev"}}}
    stage.api.create(budgets, {"metadata": {"name": "dev"}, "spec": spec})
    stage.api.wait_for(
        f"{budgets}/dev", lambda budget: bool(budget) and budget.get("status", {}).get("currentHealthy") == 1
    )
    stage.create(*gated("urgent", 1, priorityClassName="inference"))
    stage.until_told("urgent", lambda seen: f"PodDisruptionBudget {stage.namespace}/dev does not let" in seen.message)
    assert len(on(stage.pods(), "dev")) == 1
    stage.api.delete(f"{budgets}/dev")
    stage.until(lambda pods: len(bound(pods, "urgent")) == 1 and not on(pods, "dev"))


def test_a_pod_of_no_gang_runs_for_as_long_as_it_says(stage: RealStage) -> None:
    stage.add_nodes(1)
    alone = pod("dev", priorityClassName="dev")
    alone["metadata"]["annotations"] = {"muster.dev/min-runtime": "1h"}
    stage.create(alone)
    stage.until(lambda pods: len(on(pods, "dev")) == 1)
    stage.create(*gated("urgent", 1, priorityClassName="inference"))
    stage.until_told("urgent", lambda seen: "has run for less than its minimum" in seen.message)
    assert len(on(stage.pods(), "dev")) == 1
    stage.api.patch(f"{stage.pods_path}/dev", {"metadata": {"annotations": {"muster.dev/min-runtime": "0"}}})
    stage.until(lambda pods: len(bound(pods, "urgent")) == 1 and not on(pods, "dev"))


# Lent quota that its owner reclaims.


def _queue(name: str, nominal: int, rules: str) -> str:
    return f"""\
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata:
  name: {name}
spec:
  cohortName: labs
  namespaceSelector: {{}}
  preemption:
    reclaimWithinCohort: {rules}
  resourceGroups:
    - coveredResources: ["cpu", "memory", "nvidia.com/gpu"]
      flavors:
        - name: gpus
          resources:
            - name: "nvidia.com/gpu"
              nominalQuota: {nominal}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata:
  name: {name}
  namespace: default
spec:
  clusterQueue: {name}
"""


FLAVOR = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata:
  name: gpus
"""
LABS = FLAVOR + _queue("research", 8, "Never") + _queue("production", 16, "Any")
"""Research has 8 GPUs and production 16; each may borrow what is free in the other queue."""


@pytest.fixture
def labs(stage: RealStage) -> Iterator[Queues]:
    """Three nodes of 8 GPUs, and quota for all of them."""
    queues = Queues(stage)
    stage.add_nodes(3)
    queues.apply(LABS)
    yield queues
    queues.remove()


def test_lent_quota_is_taken_back_from_exactly_the_borrower(labs: Queues) -> None:
    labs.job("own", "research", 1)
    labs.until_started("own", 1)
    labs.job("borrower", "research", 1)
    labs.until_started("borrower", 1)
    labs.job("lender", "production", 2)
    labs.until_started("lender", 2)
    borrower = labs.until("borrower", lambda job: job["spec"]["suspend"] is True)
    assert not borrower["status"].get("failed")
    assert labs.until_started("own", 1)["spec"]["suspend"] is False
    assert len(bound(labs.stage.pods(), "job-lender")) == 2
    labs.end("lender")
    labs.until_started("borrower", 1)
