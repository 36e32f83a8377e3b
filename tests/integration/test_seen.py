"""A gang as the cluster's own tools show it: kubectl's columns and descriptions, Events, the plugin, and metrics."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from devcluster import Cluster
from devcluster.api import Object
from devcluster.muster import RunningMuster, start_muster
from extender.cli.main import main
from tests.integration.stage import RealStage

pytestmark = pytest.mark.xdist_group("seen")


@pytest.fixture(scope="module")
def metrics_url(cluster: Cluster) -> str:
    return f"http://127.0.0.1:{cluster.free_port()}/metrics"


@pytest.fixture(scope="module")
def muster(cluster: Cluster, metrics_url: str) -> RunningMuster:
    return start_muster(cluster, {"metrics_port": httpx.URL(metrics_url).port})


def member(name: str, group: str) -> Object:
    """A pod that names a PodGroup and takes a whole node."""
    amounts = {"nvidia.com/gpu": "8"}
    container = {"name": "main", "image": "none", "resources": {"requests": amounts, "limits": amounts}}
    labels = {"scheduling.x-k8s.io/pod-group": group}
    return {"metadata": {"name": name, "labels": labels}, "spec": {"containers": [container]}}


def told(stage: RealStage, reason: str) -> dict[str, list[str]]:
    """The texts of the Events with this reason, by kind of object."""
    notes: dict[str, list[str]] = {}
    for event in stage.api.list(f"/apis/events.k8s.io/v1/namespaces/{stage.namespace}/events"):
        if event["reason"] == reason and event.get("reportingController") == "muster.dev/extender":
            notes.setdefault(event["regarding"]["kind"], []).append(event["note"])
    return notes


def test_a_gang_is_followed_from_waiting_to_running(stage: RealStage, metrics_url: str) -> None:
    stage.add_nodes(2)
    stage.set_group("train", 2)
    stage.create(member("train-0", "train"))
    path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{stage.namespace}/podgroups/train"
    stage.api.wait_for(path, lambda group: bool(group.get("status", {}).get("conditions")))

    def columns(*args: str) -> list[str]:
        return stage.cluster.kubectl("get", "podgroups", "-n", stage.namespace, "--no-headers", *args).split()

    assert columns()[:5] == ["train", "2", "1", "0", "MembersMissing"]
    assert "1 of 2 members exist" in " ".join(columns("-o", "wide"))
    text = ["1 of 2 members exist"]
    assert told(stage, "MembersMissing") == {"PodGroup": text, "Pod": text}
    assert text[0] in stage.cluster.kubectl("describe", "pod", "train-0", "-n", stage.namespace)

    # The test cannot forward a port of this cluster: it has only pods and Events.
    kubectl = stage.cluster.binary("kubectl").parent
    args = ["explain", f"{stage.namespace}/train", "--kubeconfig", str(stage.cluster.kubeconfig)]
    result = CliRunner().invoke(main, args, env={"PATH": str(kubectl), "COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    assert f"{stage.namespace}/train  MembersMissing" in result.stdout
    assert "read from the pods and their Events" in result.stderr

    stage.create(member("train-1", "train"))
    stage.api.wait_for(path, lambda group: group["status"].get("phase") == "Scheduled")
    assert columns()[:5] == ["train", "2", "2", "2", "Running"]
    assert told(stage, "Running") == {"PodGroup": ["2 members are bound"], "Pod": ["2 members are bound"]}

    page = httpx.get(metrics_url, trust_env=False).text
    assert "muster_gang_starts_total 1.0" in page
    assert 'muster_gang_wait_seconds_count{size="2-8"} 1.0' in page
    assert 'muster_api_writes_total{kind="binding",outcome="done"} 2.0' in page
    assert stage.namespace not in page


def test_a_misspelt_key_is_told_on_the_pod_and_on_what_made_it(stage: RealStage, muster: RunningMuster) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}}
    job = {"metadata": {"name": "typo"}, "spec": {"suspend": True, "template": template}}
    made = stage.api.create(f"/apis/batch/v1/namespaces/{stage.namespace}/jobs", job)
    pod = member("typo-0", "unused")
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "typo",
        "uid": made["metadata"]["uid"],
        "controller": True,
    }
    pod["metadata"] = {"name": "typo-0", "annotations": {"muster.dev/podgroup": "typo"}, "ownerReferences": [owner]}
    stage.create(pod)
    events = f"/apis/events.k8s.io/v1/namespaces/{stage.namespace}/events"
    stage.api.wait_for(events, lambda seen: len([event for event in seen if event["reason"] == "UnreadKey"]) == 2)
    text = (
        "muster.dev/podgroup means nothing to Muster: write muster.dev/pod-group in the pod template, "
        "and create the pods again"
    )
    assert told(stage, "UnreadKey") == {"Pod": [text], "Job": [text]}


def unpinned(metrics_url: str) -> float:
    lines = httpx.get(metrics_url, trust_env=False).text.splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("muster_unpinned_pods_total ")))


def test_a_pod_that_is_created_without_its_pin_is_told_of_once(
    stage: RealStage, muster: RunningMuster, metrics_url: str
) -> None:
    """The component job-admission is not installed: nothing exchanges the plan of the template for a node."""
    before = unpinned(metrics_url)
    stage.add_nodes(2)
    free = {"key": "example.com/reserved", "operator": "DoesNotExist"}
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [free]}]}
        }
    }
    spec = {**member("", "")["spec"], "schedulerName": "muster", "restartPolicy": "Never", "affinity": affinity}
    job = {
        "metadata": {"name": "train", "labels": {"muster.dev/gang": "true"}},
        "spec": {
            "suspend": True,
            "completionMode": "Indexed",
            "completions": 2,
            "parallelism": 2,
            "template": {"spec": spec},
        },
    }
    stage.api.create(f"/apis/batch/v1/namespaces/{stage.namespace}/jobs", job)
    pods = f"/api/v1/namespaces/{stage.namespace}/pods"
    stage.api.wait_for(pods, lambda seen: len([pod for pod in seen if pod["spec"].get("nodeName")]) == 2)
    events = f"/apis/events.k8s.io/v1/namespaces/{stage.namespace}/events"
    stage.api.wait_for(events, lambda seen: len([event for event in seen if event["reason"] == "Unpinned"]) == 2)
    assert all("muster-job-pods is not installed, or has failed" in text for text in told(stage, "Unpinned")["Pod"])
    stage.wait(lambda: unpinned(metrics_url), lambda count: count == before + 2)  # the page is kept for a second


def test_kubectl_runs_the_plugin(stage: RealStage, muster: RunningMuster) -> None:
    stage.add_nodes(2, clique="rack")
    stage.set_group("big", 2)
    stage.set_group("small", 1)
    stage.create(member("small-0", "small"))
    stage.until_told("small", lambda seen: seen.state == "Running")
    stage.create(member("big-0", "big"), member("big-1", "big"))
    stage.until_told("big", lambda seen: seen.state == "NoRoom")
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "MUSTER_URL": muster.url}

    def kubectl(*args: str) -> str:
        argv = [str(stage.cluster.binary("kubectl")), "muster", *args]
        return subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout

    explained = json.loads(kubectl("explain", f"{stage.namespace}/big", "-o", "json"))
    assert explained["remedies"] == [
        f"wait for {stage.namespace}/small to finish: that frees enough in the cluster",
        f"1 more node with 8 GPUs free in the cluster, with labels stage={stage.namespace}",
    ]
    assert "NoRoom" in kubectl("gangs", "-n", stage.namespace)
    assert f"{stage.namespace}.rack" in kubectl("domains")


def test_an_autoscaler_sees_members_that_no_gate_holds_back(stage: RealStage) -> None:
    """Autoscalers add nodes for pods with the reason Unschedulable: docs/elastic.md explains this for gangs."""
    gated = member("gated-0", "gated")
    gated["spec"]["schedulingGates"] = [{"name": "muster.dev/gang"}]
    stage.set_group("gated", 1)
    stage.set_group("free", 1)
    stage.create(gated, member("free-0", "free"))

    def reasons(pods: list[Object]) -> dict[str, str]:
        return {
            pod["metadata"]["name"]: condition["reason"]
            for pod in pods
            for condition in pod.get("status", {}).get("conditions", ())
            if condition["type"] == "PodScheduled"
        }

    wanted = {"gated-0": "SchedulingGated", "free-0": "Unschedulable"}
    stage.api.wait_for(stage.pods_path, lambda pods: reasons(pods) == wanted)


def test_the_self_check_agrees_on_a_gang_that_runs_and_one_that_waits(stage: RealStage, metrics_url: str) -> None:
    stage.add_nodes(2)
    for name in ("runs", "waits"):
        stage.set_group(name, 2)
        stage.create(member(f"{name}-0", name), member(f"{name}-1", name))
        stage.until_noted(name, "Running" if name == "runs" else "NoRoom")
    done = CliRunner().invoke(main, ["verify", "--url", stage.muster.url, "-o", "json"])
    assert done.exit_code == 0, done.output
    agreed = json.loads(done.stdout)
    assert agreed["differences"] == []
    assert agreed["compared"]["claims"] >= 2
    assert agreed["compared"]["pending"] >= 1
    assert 'muster_verify_checks_total{outcome="agrees"}' in httpx.get(metrics_url).text
