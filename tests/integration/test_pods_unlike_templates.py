"""Pods that differ from their template, on an API server that adds to them: learnt from pods, and by dry runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from devcluster import Cluster
from devcluster.admission import until_created_so
from devcluster.api import Object
from devcluster.muster import (
    RunningMuster,
    install_gate,
    install_job_admission,
    install_pod_trials,
    start_muster,
)
from devcluster.nodes import add, node
from tests.integration.team import GANG, Team

PLUGINS = "--enable-admission-plugins=ExtendedResourceToleration,PodNodeSelector"
_POLICIES = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"
SIDECAR = {
    "failurePolicy": "Fail",
    "reinvocationPolicy": "IfNeeded",
    "matchConstraints": {
        "namespaceSelector": {"matchLabels": {"inject": "yes"}},
        "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
    },
    "matchConditions": [
        {"name": "new", "expression": "!object.spec.?initContainers.orValue([]).exists(one, one.name == 'proxy')"}
    ],
    "mutations": [
        {
            "patchType": "ApplyConfiguration",
            "applyConfiguration": {
                "expression": "Object{spec: Object.spec{initContainers: [Object.spec.initContainers{name: 'proxy', "
                "image: 'proxy', restartPolicy: 'Always', resources: Object.spec.initContainers.resources{"
                "requests: {'cpu': '100m'}}}]}}"
            },
        }
    ],
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(flags={"kube-apiserver": [PLUGINS]}) as running:
        for path, spec in (("policies", SIDECAR), ("policybindings", {"policyName": "inject-proxy"})):
            body = {"metadata": {"name": "inject-proxy"}, "spec": spec}
            running.api.create(_POLICIES.replace("policies", path), body)
        injected = running.api.create(
            "/api/v1/namespaces", {"metadata": {"name": "probe", "labels": {"inject": "yes"}}}
        )
        assert injected
        running.api.wait_for("/api/v1/namespaces/probe/serviceaccounts/default", bool)
        probe = {"metadata": {"name": "probe"}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
        until_created_so(
            running.api, "/api/v1/namespaces/probe/pods", probe, lambda pod: "initContainers" in pod["spec"]
        )
        yield running


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    running = start_muster(cluster, {"preemption": "on"})
    install_gate(cluster)
    install_job_admission(cluster)
    install_pod_trials(cluster)
    return running


@pytest.fixture(params=[True, False], ids=["trials", "learning"])
def trials(muster: RunningMuster, request: pytest.FixtureRequest) -> bool:
    muster.restart_extender({"pod_trials": request.param})
    return bool(request.param)


@pytest.fixture
def tried(muster: RunningMuster) -> RunningMuster:
    """With trials, and nothing learnt."""
    muster.restart_extender()
    return muster


class Room:
    """Nodes for one test."""

    def __init__(self, cluster: Cluster) -> None:
        self._api, self._kubectl = cluster.api, cluster.kubectl
        self._names: list[str] = []

    def add(self, *names: str, cpu: int = 16, taint: bool = False, **labels: str) -> None:
        resources = {"cpu": str(cpu), "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "8"}
        made = [node(name, resources, labels, "v1.36.0") for name in names]
        for new_node in made if taint else ():
            new_node["spec"] = {"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]}
        self._names += names
        add(self._api, made, 30.0)

    def clear(self) -> None:
        """Delete the jobs with their pods, and then the nodes."""
        self._kubectl("delete", "jobs", "--all", "--all-namespaces")
        self._api.wait_for("/api/v1/pods", lambda pods: not pods, 60.0)
        for name in self._names:
            self._api.delete(f"/api/v1/nodes/{name}")


@pytest.fixture
def room(cluster: Cluster) -> Iterator[Room]:
    new_room = Room(cluster)
    yield new_room
    new_room.clear()


def job(team: Team, name: str = "train", pod: Object | None = None, **resources: Any) -> None:
    """Create a job of two pods with 8 GPUs each; ``resources``: further requests."""
    requirements = {"requests": resources, "limits": {"nvidia.com/gpu": "8"}}
    container = {"name": "main", "image": "train", "resources": requirements}
    team.create(team.job(name, labels=GANG, pod={"containers": [container], **(pod or {})}, spec={"backoffLimit": 0}))


def nodes(team: Team, count: int = 2) -> set[str]:
    """Wait until ``count`` pods have a node. Returns the nodes."""

    def of(pods: list[Object]) -> list[str]:
        return [
            pod["spec"]["nodeName"]
            for pod in pods
            if pod["spec"].get("nodeName") and not pod["metadata"].get("deletionTimestamp")
        ]

    listed = team.api.wait_for(team.pods, lambda pods: len(of(pods)) == count, 60.0)
    return set(of(listed))


def until_said(team: Team, text: str, name: str = "train") -> str:
    """Wait for an Event on the job whose note has that text."""
    path = f"/apis/events.k8s.io/v1/namespaces/{team.name}/events"

    def notes(events: list[Object]) -> list[str]:
        return [
            event["note"] for event in events if event["regarding"]["name"] == name and text in event.get("note", "")
        ]

    try:
        return notes(team.api.wait_for(path, lambda events: bool(notes(events)), 60.0))[-1]
    except TimeoutError:
        raise AssertionError([event.get("note") for event in team.api.list(path)]) from None


def injected(cluster: Cluster) -> Team:
    team = Team(cluster)
    cluster.api.patch(f"/api/v1/namespaces/{team.name}", {"metadata": {"labels": {"inject": "yes"}}})
    return team


def test_a_job_whose_pods_get_a_sidecar_runs_where_they_fit(cluster: Cluster, trials: bool, room: Room) -> None:
    room.add("a-0", "a-1")
    room.add("b-0", "b-1", cpu=96)
    team = injected(cluster)
    job(team, cpu="16")
    assert nodes(team) == {"b-0", "b-1"}
    if trials:
        plan = team.now()["metadata"]["annotations"]["muster.dev/plan"]
        assert "b-" in json.loads(plan)[""]


def test_without_such_nodes_it_waits_and_says_what_differs(cluster: Cluster, trials: bool, room: Room) -> None:
    room.add("a-0", "a-1")
    team = injected(cluster)
    job(team, cpu="16")
    message = until_said(team, "its pods ask for 16.1 cpu, their template for 16 cpu: 0 of 2 members")
    before = team.now()["metadata"]["generation"]
    with pytest.raises(TimeoutError):
        cluster.api.wait_for(team.pods, bool, 8.0)
    assert team.now()["metadata"]["generation"] == before, f"it is started again: {message}"
    room.add("b-0", "b-1", cpu=96)
    assert nodes(team) == {"b-0", "b-1"}
    assert trials is not None


def test_tolerations_that_the_api_server_adds_open_the_nodes(
    cluster: Cluster, tried: RunningMuster, room: Room
) -> None:
    room.add("gpu-0", "gpu-1", taint=True)
    team = Team(cluster)
    job(team)
    assert nodes(team) == {"gpu-0", "gpu-1"}


def test_the_node_selector_of_a_namespace_counts(cluster: Cluster, tried: RunningMuster, room: Room) -> None:
    room.add("a-0", "a-1")
    room.add("z-0", "z-1", pool="mine")
    team = Team(cluster)
    selector = {"scheduler.alpha.kubernetes.io/node-selector": "pool=mine"}
    cluster.api.patch(f"/api/v1/namespaces/{team.name}", {"metadata": {"annotations": selector}})
    job(team)
    assert nodes(team) == {"z-0", "z-1"}


def test_a_pod_level_limit_is_no_request(cluster: Cluster, trials: bool, room: Room) -> None:
    room.add("a-0", "a-1")
    team = Team(cluster)
    job(team, pod={"resources": {"limits": {"cpu": "20", "memory": "20Gi"}}}, cpu="1")
    assert nodes(team) == {"a-0", "a-1"}
    assert trials is not None


@pytest.mark.parametrize("why", ["PodSecurity", "service account"])
def test_what_refuses_the_pods_is_the_reason(cluster: Cluster, tried: RunningMuster, room: Room, why: str) -> None:
    room.add("a-0", "a-1")
    team = Team(cluster)
    if why == "PodSecurity":
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        cluster.api.patch(f"/api/v1/namespaces/{team.name}", {"metadata": {"labels": labels}})
        job(team)
    else:
        job(team, pod={"serviceAccountName": "nobody"})
    assert "the API server refuses its pods" in until_said(team, why)
    assert team.now()["spec"]["suspend"]
    if why == "PodSecurity":
        cluster.api.patch(
            f"/api/v1/namespaces/{team.name}", {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": None}}}
        )
        assert nodes(team) == {"a-0", "a-1"}, "asked again when the namespace changes"


def test_nobody_is_evicted_for_pods_that_a_quota_refuses(cluster: Cluster, tried: RunningMuster, room: Room) -> None:
    room.add("a-0", "a-1")
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    cluster.api.create(classes, {"metadata": {"name": "high"}, "value": 10000})
    victims, attackers = Team(cluster), Team(cluster)
    scope = [{"operator": "In", "scopeName": "PriorityClass", "values": ["high"]}]
    quota = {"hard": {"pods": "0"}, "scopeSelector": {"matchExpressions": scope}}
    quotas = f"/api/v1/namespaces/{attackers.name}/resourcequotas"
    cluster.api.create(quotas, {"metadata": {"name": "none"}, "spec": quota})
    cluster.api.wait_for(f"{quotas}/none", lambda obj: bool(obj["status"].get("hard")))
    job(victims, "victim")
    assert nodes(victims) == {"a-0", "a-1"}
    job(attackers, "evil", pod={"priorityClassName": "high"})
    until_said(attackers, "the API server refuses its pods", "evil")
    assert not victims.now("victim")["spec"]["suspend"]
    assert nodes(victims) == {"a-0", "a-1"}
    cluster.api.delete(f"{quotas}/none")
    assert nodes(attackers) == {"a-0", "a-1"}
