"""Volcano Jobs with Muster's schedulerName on a real control plane, with a stand-in for Volcano's job controller."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from devcluster import Cluster
from devcluster.api import Object
from devcluster.muster import RunningMuster, install_gate, start_muster
from policies.model import CLIQUE
from tests.integration.team import Team
from tests.integration.volcano import GROUPS, JOBS, JobController, install_volcano

pytestmark = pytest.mark.xdist_group("volcano-jobs")

PATIENCE_S = 60.0
VOLCANO_JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: tensorflow-dist
spec:
  minAvailable: 3
  schedulerName: muster
  tasks:
    - replicas: 1
      name: ps
      template:
        spec:
          containers:
            - {name: tensorflow, image: tf, resources: {limits: {nvidia.com/gpu: 8}}}
    - replicas: 2
      name: worker
      template:
        spec:
          containers:
            - {name: tensorflow, image: tf, resources: {limits: {nvidia.com/gpu: 8}}}
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        install_volcano(running.api)
        install_gate(running)
        yield running


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    return start_muster(cluster)


@pytest.fixture(scope="module")
def controller(cluster: Cluster, muster: RunningMuster) -> Iterator[JobController]:
    with JobController(cluster.api) as running:
        yield running


class Submitted:
    """A Volcano Job of its author, with the pods that its controller makes."""

    def __init__(self, team: Team, controller: JobController, name: str, **spec: Any) -> None:
        manifest = yaml.safe_load(VOLCANO_JOB)
        manifest["metadata"]["name"] = name
        manifest["spec"] |= spec
        self._team, self._api, self._name, self._controller = team, team.api, name, controller
        self.made = controller.create(team.name, manifest)
        self.job = self._api.get(f"/apis/{JOBS}/namespaces/{team.name}/jobs/{name}")
        self._group = f"/apis/{GROUPS}/namespaces/{team.name}/podgroups/{self.made['metadata']['name']}"

    def group(self) -> Object:
        return self._api.get(self._group)

    def until_phase(self, phase: str) -> Object:
        def reached(group: Object | None) -> bool:
            return group is not None and group.get("status", {}).get("phase") == phase

        group: Object = self._api.wait_for(self._group, reached, PATIENCE_S)
        return group

    def until_pods(self, holds: Callable[[list[Object]], bool]) -> list[Object]:
        selected = f"volcano.sh/job-name={self._name}"
        pods: list[Object] = self._api.wait_for(self._team.pods, holds, PATIENCE_S, labelSelector=selected)
        return pods

    def restart(self) -> None:
        self._controller.restart(self.job)

    def until_bound(self, count: int) -> list[Object]:
        return bound(self.until_pods(lambda pods: len(bound(pods)) == count))

    def until_noted(self, code: str) -> str:
        """Wait until an Event with that reason regards the Volcano Job; returns its note."""

        def about(events: list[Object]) -> list[Object]:
            return [
                event
                for event in events
                if (event["reason"], event["regarding"]["kind"], event["regarding"]["name"])
                == (code, "Job", self._name)
            ]

        path = f"/apis/events.k8s.io/v1/namespaces/{self._team.name}/events"
        events: list[Object] = self._api.wait_for(path, lambda events: bool(about(events)), PATIENCE_S)
        note: str = about(events)[0]["note"]
        return note

    def delete_pods(self) -> None:
        selected = f"volcano.sh/job-name={self._name}"
        self._api.delete(self._team.pods, {"gracePeriodSeconds": 0}, labelSelector=selected)
        self.until_pods(lambda pods: not pods)


def bound(pods: list[Object]) -> list[Object]:
    return [pod for pod in pods if "nodeName" in pod["spec"]]


def test_of_two_jobs_on_room_for_one_the_second_waits_as_a_whole_and_runs_after_it(
    cluster: Cluster, controller: JobController
) -> None:
    team = Team(cluster)
    for clique, count in (("a", 2), ("b", 3)):
        cluster.add_nodes(count, prefix=clique, labels={CLIQUE: clique})
    first = Submitted(team, controller, "first")
    assert "status" not in first.made or not first.made["status"]
    pods = first.until_bound(3)
    assert {pod["spec"]["nodeName"].partition("-")[0] for pod in pods} == {"b"}, "the clique that holds all of it"
    first.until_phase("Running")
    for at in range(2):
        cluster.api.patch(f"/api/v1/nodes/a-{at}", {"spec": {"unschedulable": True}})
    second = Submitted(team, controller, "second", queue="research")
    assert second.made["status"] == {"phase": "Pending"}
    assert second.until_noted("NoRoom").startswith("0 of 3 members fit")
    assert second.group()["status"]["phase"] == "Pending"
    assert not second.until_pods(lambda _: True), "it is planned before its pods exist"
    first.delete_pods()
    second.until_bound(3)
    spec, running = second.made["spec"], second.until_phase("Running")
    assert running["spec"] == spec, "nothing but the phase is written"
    second.delete_pods()


def test_a_job_starts_with_min_available_of_its_pods(cluster: Cluster, controller: JobController) -> None:
    team = Team(cluster)
    cluster.add_nodes(3, prefix="elastic")
    names = [node["metadata"]["name"] for node in cluster.api.list("/api/v1/nodes")]
    for name in names:
        cluster.api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": name not in ("elastic-0", "elastic-1")}})
    task = yaml.safe_load(VOLCANO_JOB)["spec"]["tasks"][1] | {"replicas": 3}
    job = Submitted(team, controller, "elastic", minAvailable=2, tasks=[task])
    assert job.made["spec"]["minTaskMember"] == {"worker": 3}
    job.until_bound(2)
    job.until_phase("Running")
    cluster.api.patch("/api/v1/nodes/elastic-2", {"spec": {"unschedulable": False}})
    job.until_bound(3)
    job.delete_pods()


def test_a_job_that_its_controller_restarts_is_planned_anew(cluster: Cluster, controller: JobController) -> None:
    team = Team(cluster)
    for node in cluster.api.list("/api/v1/nodes"):
        cluster.api.patch(f"/api/v1/nodes/{node['metadata']['name']}", {"spec": {"unschedulable": False}})
    job = Submitted(team, controller, "restarted")
    job.until_phase("Running")
    job.restart()
    job.until_phase("Running")
    job.until_bound(3)
    job.delete_pods()


def test_one_that_cannot_be_planned_before_its_pods_is_planned_when_they_are_there(
    cluster: Cluster, controller: JobController
) -> None:
    team = Team(cluster)
    tasks = yaml.safe_load(VOLCANO_JOB)["spec"]["tasks"]
    tasks[1]["template"]["spec"]["schedulingGates"] = [{"name": "example.com/quota"}]
    job = Submitted(team, controller, "gated", tasks=tasks)
    job.until_phase("Inqueue")
    assert job.until_noted("Gated").startswith("2 of 3 members are gated by example.com/quota")
    job.delete_pods()


def test_a_job_of_another_scheduler_is_left_to_it(cluster: Cluster, controller: JobController) -> None:
    team = Team(cluster)
    for node in cluster.api.list("/api/v1/nodes"):
        cluster.api.patch(f"/api/v1/nodes/{node['metadata']['name']}", {"spec": {"unschedulable": False}})
    theirs = Submitted(team, controller, "theirs", schedulerName="volcano")
    ours = Submitted(team, controller, "ours")
    ours.until_phase("Running")
    assert theirs.group()["metadata"]["resourceVersion"] == theirs.made["metadata"]["resourceVersion"]
    assert not cluster.api.list(team.pods, labelSelector="volcano.sh/job-name=theirs")
    ours.delete_pods()
