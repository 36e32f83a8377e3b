"""Queues on the real control plane: the tutorials, flavors, quota without nodes, borrowing, a restart, forged plans."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import yaml
from typer.testing import CliRunner

from devcluster import Cluster
from devcluster.api import Object
from devcluster.muster import RunningMuster
from extender.cli.main import main
from extender.kube.queues.runs import RUNS
from tests.integration.queueing import A100, GPU, Queues, start_with_queues
from tests.integration.stage import RealStage
from tests.manifests_of_queues import JOB, TEAMS, TUTORIAL
from tests.scenarios.pods import bound, gated

pytestmark = pytest.mark.xdist_group("queues")
QUEUE, CLUSTER_QUEUE, FLAVOR = "kueue-gang-queue", "heavy-ml-cluster-queue", "a100-gpu-80gb"
PLAN, FLAVORS = "muster.dev/plan", "muster.dev/flavors"


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    return start_with_queues(cluster)


@pytest.fixture
def queues(stage: RealStage) -> Iterator[Queues]:
    new_queues = Queues(stage)
    yield new_queues
    new_queues.remove()


def test_the_tutorials_job_twice(stage: RealStage, queues: Queues) -> None:
    queues.apply(TUTORIAL)
    stage.add_nodes(8, labels=A100)  # room for both: it is the quota that lacks
    jobs = yaml.safe_load(JOB.format(name="first")), yaml.safe_load(JOB.format(name="second"))
    stage.api.create(queues.jobs, jobs[0])
    started = queues.until_started("first", 4)
    assert started["metadata"]["annotations"]["muster.dev/flavors"] == '{"":{"nvidia.com/gpu":"a100-gpu-80gb"}}'
    stage.api.create(queues.jobs, jobs[1])
    why = queues.reason("second", "NoQuota")
    for text in ("heavy-ml-cluster-queue", "32", "a100-gpu-80gb", f"{queues.home}/job-first"):
        assert text in why
    assert queues.until("second", bool)["spec"]["suspend"]
    hint = stage.until_noted("first", "MisspeltKey")
    assert "kueue.sh/queue-name is a misspelt kueue.x-k8s.io/queue-name" in hint
    both = {"pendingWorkloads": 1, "reservingWorkloads": 1, "admittedWorkloads": 1}
    for kind, name in (("ClusterQueue", "heavy-ml-cluster-queue"), ("LocalQueue", "kueue-gang-queue")):
        status = queues.status(kind, name, lambda status: all(status.get(key) == both[key] for key in both))
        (flavor,) = status["flavorsUsage"]
        assert [(resource["name"], resource["total"]) for resource in flavor["resources"]] == [(GPU, "32")]
        (active,) = [condition for condition in status["conditions"] if condition["type"] == "Active"]
        assert (active["status"], active["reason"]) == ("True", "Ready")
    assert queues.record("first", "Admitted", "True")["admission"]["clusterQueue"] == "heavy-ml-cluster-queue"
    queues.record("second", "QuotaReserved", "False", position=1)
    queues.end("first")
    queues.until_started("second", 4)
    queues.status("ClusterQueue", "heavy-ml-cluster-queue", lambda status: status["pendingWorkloads"] == 0)
    queues.record("first", "Finished", "True")
    queues.record("second", "Admitted", "True", position=None)
    queues.status("LocalQueue", "kueue-gang-queue", lambda status: any(map(has_run_of_32, status["conditions"])))


def has_run_of_32(condition: Object) -> bool:
    return condition["type"] == RUNS and [*json.loads(condition["message"])] == ["32"]


def test_a_job_that_is_to_run_longer_than_its_queue_allows_waits_until_it_says_less(
    stage: RealStage, queues: Queues
) -> None:
    name = "  name: heavy-ml-cluster-queue\n"
    queues.apply(TUTORIAL.replace(name, f"{name}  annotations: {{muster.dev/max-run: 1h}}\n", 1))
    stage.add_nodes(4, labels=A100)
    long = yaml.safe_load(JOB.format(name="long"))
    long["metadata"]["annotations"] = {"muster.dev/expected-duration": "90m"}
    stage.api.create(queues.jobs, long)
    why = queues.reason("long", "RunTooLong")
    assert "its author expects it to run for 1 h 30 min, and ClusterQueue heavy-ml-cluster-queue allows 1 h" in why
    marks = {"muster.dev/expected-duration": "45m"}
    stage.api.patch(f"{queues.jobs}/long", {"metadata": {"annotations": marks}})
    queues.until_started("long", 4)


def test_quota_that_is_free_is_no_room(stage: RealStage, queues: Queues) -> None:
    """Kueue admits the first: 32 GPUs are free. On no node are 8 of them."""
    queues.apply(TUTORIAL)
    stage.add_nodes(8, gpus=4, labels=A100)
    queues.job("fragmented", "kueue-gang-queue", 4, gpus=8)
    seen = stage.until_told("job-fragmented", lambda gang: gang.state not in ("Running", "Pending"))
    assert "a100-gpu-80gb" in seen.message, seen
    queues.job("behind", "kueue-gang-queue", 4, gpus=4)
    queues.until_started("behind", 4)
    assert queues.until("fragmented", bool)["spec"]["suspend"]


def test_three_teams_that_may_borrow(stage: RealStage, queues: Queues) -> None:
    queues.apply(TEAMS)
    stage.add_nodes(8)
    queues.job("a", "team-a", 4)  # 32: 16 of its own, 16 borrowed
    queues.until_started("a", 4)
    queues.status("ClusterQueue", "team-a", lambda status: borrowed(status) == "16")
    queues.job("more", "team-a", 3)  # 24 more are beyond the 32 that it may borrow
    assert "8" in queues.reason("more", "NoQuota")
    queues.job("c", "team-c", 4)
    queues.until_started("c", 4)
    queues.job("b", "team-b", 2)  # its own 16 are lent: they come back when a job of the borrower ends
    queues.reason("b", "NoQuota")
    queues.end("a")
    queues.until_started("b", 2)


def borrowed(status: Object) -> str:
    return str(status["flavorsUsage"][0]["resources"][0]["borrowed"])


def test_a_restart_keeps_what_is_used(stage: RealStage, queues: Queues) -> None:
    queues.apply(TUTORIAL)
    stage.add_nodes(8, labels=A100)
    queues.job("first", "kueue-gang-queue", 4)
    queues.until_started("first", 4)
    stage.muster.restart_extender()
    queues.job("second", "kueue-gang-queue", 4)
    assert "job-first" in queues.reason("second", "NoQuota")
    queues.end("first")
    queues.until_started("second", 4)


def test_the_local_queue_that_has_used_less_comes_first_after_a_restart_too(stage: RealStage, queues: Queues) -> None:
    by_usage = "admissionScope: {admissionMode: UsageBasedAdmissionFairSharing}"
    queues.apply(TUTORIAL.replace("cohort: ml-cohort", by_usage))
    queues.apply(TUTORIAL.split("---\n")[2].replace("kueue-gang-queue", "idle"))
    stage.add_nodes(4, labels=A100)
    queues.job("runs", "kueue-gang-queue", 4)
    queues.until_started("runs", 4)

    def is_stored(status: Object) -> bool:
        shared = status.get("fairSharing", {}).get("admissionFairSharingStatus", {})
        return GPU in shared.get("consumedResources", {})

    queues.status("LocalQueue", "kueue-gang-queue", is_stored)
    queues.job("older", "kueue-gang-queue", 4)
    queues.reason("older", "NoQuota")
    stage.muster.restart_extender()
    queues.job("younger", "idle", 4)
    queues.reason("younger", "NoQuota")
    queues.end("runs")
    queues.until_started("younger", 4)
    queues.reason("older", "NoQuota")
    queues.end("younger")
    queues.until_started("older", 4)


def test_what_names_a_queue_that_is_not_there_waits(stage: RealStage, queues: Queues) -> None:
    queues.apply(TUTORIAL)
    stage.add_nodes(2, labels=A100)
    queues.job("train", "nowhere", 2)
    assert "there is no LocalQueue nowhere" in queues.reason("train", "QueueMissing")


def test_a_gang_of_pods_waits_for_quota_and_then_runs(stage: RealStage, queues: Queues) -> None:
    queues.apply(TUTORIAL)
    stage.add_nodes(8, labels=A100)
    for name in ("first", "second"):
        members = gated(name, 4)
        for member in members:
            member["metadata"]["labels"] = {"muster.dev/queue-name": "kueue-gang-queue"}
        stage.create(*members)
        if name == "first":
            stage.until(lambda pods: len(bound(pods, "first")) == 4)
    why = stage.until_told("second", lambda gang: gang.state == "NoQuota").message
    assert f"{queues.home}/first (32)" in why
    stage.delete(*(f"first-{at}" for at in range(4)))
    stage.until(lambda pods: len(bound(pods, "second")) == 4)


# Flavors: the flavor of a job, and the report of a flavor that cannot be used.


SPOT = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata:
  name: spot
spec:
  nodeLabels: {capacity: spot}
  nodeTaints:
    - {key: spot, value: "true", effect: NoSchedule}
  tolerations:
    - {key: spot, operator: Equal, value: "true", effect: NoSchedule}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata:
  name: on-demand
spec:
  nodeLabels: {capacity: on-demand}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata:
  name: both
spec:
  namespaceSelector: {}
  resourceGroups:
    - coveredResources: [cpu, nvidia.com/gpu]
      flavors:
        - name: spot
          resources: [{name: nvidia.com/gpu, nominalQuota: 64}]
        - name: on-demand
          resources: [{name: nvidia.com/gpu, nominalQuota: 64}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata:
  name: both
  namespace: default
spec:
  clusterQueue: both
"""


def test_the_next_flavor_is_taken_where_there_is_quota_and_no_node(stage: RealStage, queues: Queues) -> None:
    """Spot nodes are tainted: the pods get the toleration of the flavor, and lose it when the job is suspended."""
    queues.apply(SPOT)
    spot = stage.add_nodes(2, labels={"capacity": "spot"})
    on_demand = stage.add_nodes(2, labels={"capacity": "on-demand"})
    for name in spot:
        taints = [{"key": "spot", "value": "true", "effect": "NoSchedule"}]
        stage.api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": taints}})
    queues.job("cheap", "both", 2)
    cheap = queues.until_started("cheap", 2)
    assert "spot" in cheap["metadata"]["annotations"]["muster.dev/flavors"]
    assert [toleration["key"] for toleration in cheap["spec"]["template"]["spec"]["tolerations"]] == ["spot"]
    queues.job("dear", "both", 2)
    dear = queues.until_started("dear", 2)
    assert "on-demand" in dear["metadata"]["annotations"]["muster.dev/flavors"]
    assert "tolerations" not in dear["spec"]["template"]["spec"]
    pods = stage.until(lambda pods: sum(pod.node is not None for pod in pods) == 4)
    nodes = {pod.name.partition("-")[0]: {two.node for two in pods if two.name[0] == pod.name[0]} for pod in pods}
    assert nodes == {"cheap": set(spot), "dear": set(on_demand)}
    stage.api.patch(
        f"{queues.jobs}/cheap", {"metadata": {"labels": {"muster.dev/hold": "true"}}, "spec": {"suspend": True}}
    )
    cleaned = queues.until("cheap", lambda job: "muster.dev/flavors" not in job["metadata"].get("annotations", {}))
    assert "tolerations" not in cleaned["spec"]["template"]["spec"]


def test_podsets_of_a_group_get_nodes_of_one_flavor(stage: RealStage, queues: Queues) -> None:
    """Two spot nodes would do for the workers, and not for their leader as well."""
    queues.apply(SPOT)
    stage.add_nodes(2, labels={"capacity": "spot"})
    on_demand = stage.add_nodes(3, labels={"capacity": "on-demand"})
    members = gated("pair", 3)
    for member in members:
        member["metadata"]["labels"] = {"muster.dev/queue-name": "both"}
        member["metadata"]["annotations"]["kueue.x-k8s.io/podset-group-name"] = "leader-and-workers"
    (container,) = members[-1]["spec"]["containers"]
    for amounts in container["resources"].values():
        amounts["nvidia.com/gpu"] = "7"
    stage.create(*members)
    pods = bound(stage.until(lambda pods: len(bound(pods, "pair")) == 3), "pair")
    assert {pod.node for pod in pods} == set(on_demand)


def test_what_is_advised_makes_it_start(stage: RealStage, queues: Queues) -> None:
    """The job wants more GPUs than its queue can have; then nodes lack the flavor's label, and one is cordoned."""
    queues.apply(TUTORIAL.replace("nominalQuota: 32", "nominalQuota: 24"))
    names = stage.add_nodes(4)
    stage.cordon(names[1])
    queues.job("train", "kueue-gang-queue", 4)

    def advice(code: str) -> str:
        queues.reason("train", code)
        arguments = ["explain", f"{stage.namespace}/job-train", "--url", stage.muster.url, "-o", "json"]
        answer = CliRunner().invoke(main, arguments)
        assert answer.exit_code == 0, answer.output
        return str(json.loads(answer.stdout)["remedies"][0])

    assert advice("NoQuota") == (
        "it can never start in ClusterQueue heavy-ml-cluster-queue as that is (32 nvidia.com/gpu wanted, 24 at most): "
        "raise nominalQuota of flavor a100-gpu-80gb in ClusterQueue heavy-ml-cluster-queue to 32 nvidia.com/gpu, or "
        "make it smaller"
    )
    queues.apply(TUTORIAL)
    ((label, value),) = A100.items()
    assert advice("NoRoom") == (
        f"put {names[1]} back in service and label {', '.join(names[:3])} and {names[3]} with {label}={value}: "
        "it would fit now"
    )
    stage.cordon(names[1], on=False)
    for name in names:
        stage.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": A100}})
    queues.until_started("train", 4)


def test_a_queue_that_cannot_be_used_says_why(stage: RealStage, queues: Queues) -> None:
    flavorless = "---\n".join(text for text in TUTORIAL.split("---\n") if "ResourceFlavor" not in text)
    queues.apply(flavorless)
    stage.add_nodes(4, labels=A100)
    queues.job("train", "kueue-gang-queue", 4)
    assert "a100-gpu-80gb" in queues.reason("train", "QueueInactive")
    status = queues.status("ClusterQueue", "heavy-ml-cluster-queue", lambda status: bool(status.get("conditions")))
    active, warning = status["conditions"]
    assert (active["status"], "a100-gpu-80gb" in active["message"]) == ("False", True)
    assert "there is no limit" in warning["message"]
    queues.apply(TUTORIAL)
    queues.until_started("train", 4)


RACKS = """\
apiVersion: kueue.x-k8s.io/v1beta1
kind: Topology
metadata:
  name: racks
spec:
  levels:
    - nodeLabel: example.com/block
    - nodeLabel: example.com/rack
"""


def test_a_queue_whose_topology_is_missing_says_why(stage: RealStage, queues: Queues) -> None:
    queues.apply(TUTORIAL.replace("  nodeLabels:", "  topologyName: racks\n  nodeLabels:"))
    stage.add_nodes(4, labels=A100)
    queues.job("train", "kueue-gang-queue", 4)
    assert "there is no Topology racks" in queues.reason("train", "QueueInactive")
    queues.status("ClusterQueue", "heavy-ml-cluster-queue", lambda status: "racks" in str(status.get("conditions")))
    queues.apply(RACKS)
    queues.until_started("train", 4)


# Plans that another client has written.


def used(queues: Queues, gpus: int) -> None:
    """Wait until the ClusterQueue says that this number of GPUs of its flavor is reserved."""

    def holds(status: dict[str, object]) -> bool:
        text = json.dumps(status.get("flavorsReservation"))
        return f'"{FLAVOR}"' in text and f'"total": "{gpus}"' in text

    queues.status("ClusterQueue", CLUSTER_QUEUE, holds)


@pytest.mark.parametrize(
    "plan",
    [
        None,
        "nodes are awaited until 9999-12-31T23:59:59Z, attempt 999999",
        '{"": "\\ud800*8"}',
    ],
    ids=["a plan", "a text in its place", "no text"],
)
def test_a_forged_plan_is_no_admission(stage: RealStage, queues: Queues, plan: str | None) -> None:
    """D1, D2 and D9: 64 of 32 GPUs, and the neighbour has none.

    The administrator writes Muster's annotations, as a tenant may where no admission component prevents it.
    """
    queues.apply(TUTORIAL)
    nodes = stage.add_nodes(8, labels=A100)
    queues.job("forged", QUEUE, 8)
    queues.reason("forged", "NoQuota")
    marks = {PLAN: plan or json.dumps({"": ",".join(f"{node}*1" for node in nodes)})}
    marks[FLAVORS] = json.dumps({"": {GPU: FLAVOR}}) if plan is None else '{"":{"nvidia.com/gpu":"\\ud800"}}'
    stage.api.patch(f"{queues.jobs}/forged", {"metadata": {"annotations": marks}, "spec": {"suspend": False}})
    queues.until("forged", lambda job: job["spec"]["suspend"] and PLAN not in job["metadata"].get("annotations", {}))
    queues.job("honest", QUEUE, 4)
    queues.until_started("honest", 4)
    used(queues, 32)
    queues.reason("forged", "NoQuota")


@pytest.mark.parametrize("flavor", ["other", "\\ud800", "\\u001b[31mX"], ids=ascii)
def test_flavors_that_are_edited_are_counted_as_before_after_a_restart(
    stage: RealStage, queues: Queues, flavor: str
) -> None:
    """D6, and the time bomb of D1."""
    queues.apply(TUTORIAL)
    stage.add_nodes(8, labels=A100)
    queues.job("first", QUEUE, 4)
    queues.until_started("first", 4)
    marks = {FLAVORS: f'{{"":{{"{GPU}":"{flavor}"}}}}'}
    stage.api.patch(f"{queues.jobs}/first", {"metadata": {"annotations": marks}})
    stage.muster.restart_extender()
    queues.job("second", QUEUE, 1)
    queues.reason("second", "NoQuota")
    used(queues, 32)
    queues.end("first")
    queues.until_started("second", 1)
