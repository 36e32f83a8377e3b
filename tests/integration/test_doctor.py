"""`muster doctor` on a real control plane: nothing on a healthy installation, and every planted fault on a bad one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from devcluster import Cluster
from devcluster.binaries import kubernetes_version
from devcluster.muster import MANIFESTS, RunningMuster, install_gate, start_muster
from extender.cli.main import main
from tests.client_alone import alone

pytestmark = pytest.mark.xdist_group("doctor")

BASE = MANIFESTS / "base"
FILES = f"--kube-scheduler-config={BASE / 'kube-scheduler-config.yaml'}", f"--config={BASE / 'muster.yaml'}"
DEPLOYMENT = "/apis/apps/v1/namespaces/kube-system/deployments/muster"
GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1"
ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/muster-extender"
PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
Doctor = Callable[..., list[dict[str, str]]]


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    """A whole installation: beside the processes the Deployment, which the cluster's own kube-scheduler places."""
    running = start_muster(cluster)
    install_gate(cluster)
    cluster.add_nodes(2, prefix="gpu", labels={"nvidia.com/gpu.clique": "a"})
    cluster.add_nodes(2, prefix="system", gpus=0)
    cluster.start_scheduler({"leaderElection": {"leaderElect": True}}, name="kube-scheduler-own")
    base = yaml.safe_load_all(cluster.kubectl("kustomize", str(BASE)))
    deployment = yaml.safe_dump_all([doc for doc in base if doc["kind"] == "Deployment"])
    # kube-scheduler may not be newer than the API server.
    deployment = re.sub(r"(kube-scheduler:)v[0-9.]+", rf"\g<1>{kubernetes_version()}", deployment)
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=deployment)
    cluster.api.wait_for(DEPLOYMENT, lambda obj: obj["status"].get("readyReplicas") == obj["spec"]["replicas"])
    return running


@pytest.fixture
def doctor(cluster: Cluster, muster: RunningMuster) -> Doctor:
    def run(*args: str, code: int | None = 1) -> list[dict[str, str]]:
        argv = ["doctor", "--kubeconfig", str(cluster.kubeconfig), "--url", muster.url, "-o", "json", *args]
        result = CliRunner().invoke(main, argv)
        assert code in (None, result.exit_code), result.output
        findings: list[dict[str, str]] = json.loads(result.stdout)["findings"]
        return findings

    return run


@pytest.fixture
def pods(cluster: Cluster) -> Iterator[Callable[..., None]]:
    """Creates pods; they are gone afterwards."""

    def create(name: str, *, scheduler: str = "muster", gpus: int = 1, gated: bool = False, **more: Any) -> None:
        amounts = {"nvidia.com/gpu": str(gpus)} if gpus else {}
        container = {"name": "main", "image": "none", "resources": {"requests": amounts, "limits": amounts}}
        spec: dict[str, Any] = {"schedulerName": scheduler, "containers": [container]}
        if gated:
            spec["schedulingGates"] = [{"name": "muster.dev/gang"}]
        cluster.api.create(PODS, {"metadata": {"name": name, **more}, "spec": spec})

    yield create
    cluster.api.delete(PODS, {"gracePeriodSeconds": 0})
    cluster.api.wait_for(PODS, lambda left: not left)


def codes(findings: list[dict[str, str]]) -> set[str]:
    return {finding["code"] for finding in findings}


def test_a_healthy_installation_has_no_findings(cluster: Cluster, doctor: Doctor, pods: Callable[..., None]) -> None:
    for at in range(2):
        pods(f"train-{at}", annotations={"muster.dev/pod-group": "train", "muster.dev/min-member": "2"})
    cluster.api.wait_for(PODS, lambda seen: [bool(pod["spec"].get("nodeName")) for pod in seen] == [True, True])
    assert doctor(code=0) == []


def test_the_shipped_role_is_enough_to_look_at_everything(
    cluster: Cluster, muster: RunningMuster, monkeypatch: pytest.MonkeyPatch
) -> None:
    roles = str(MANIFESTS / "components" / "doctor-role" / "roles.yaml")
    cluster.kubectl("apply", "--server-side", "--validate=strict", "-f", roles)
    cluster.kubectl("create", "serviceaccount", "physician")
    who = ("--serviceaccount=default:physician",)
    cluster.kubectl("create", "clusterrolebinding", "physician", "--clusterrole=muster-doctor", *who)
    cluster.kubectl("create", "rolebinding", "physician", "--role=muster-doctor", "--namespace=kube-system", *who)
    kubeconfig = cluster.service_account_kubeconfig("default", "physician")
    args = ["doctor", "--kubeconfig", str(kubeconfig), "--url", muster.url, "-o", "json"]
    # Roles are taken up a moment after they are written.
    reports = [json.loads(CliRunner().invoke(main, args).stdout)["findings"] for _ in range(3)]
    assert reports[-1] == []
    alone(monkeypatch)
    assert json.loads(CliRunner().invoke(main, args).stdout)["findings"] == []


def test_every_fault_of_what_people_run_is_found(cluster: Cluster, doctor: Doctor, pods: Callable[..., None]) -> None:
    gang, size = "muster.dev/pod-group", "muster.dev/min-member"
    pods("typo", annotations={gang: "typo", "muster.dev/min-members": "2"})
    pods("odd", annotations={gang: "Not A Name", size: "2"})
    pods("lonely", annotations={gang: "lonely"})
    pods("two-0", annotations={gang: "two", size: "2"})
    pods("two-1", annotations={gang: "two", size: "3"})
    pods("split-0", annotations={gang: "split", size: "2"}, scheduler="muster")
    pods("split-1", annotations={gang: "split", size: "2"}, scheduler="nobody")
    pods("foreign", annotations={gang: "foreign", size: "1"}, scheduler="nobody")
    pods("orphan", scheduler="nobody", gated=True, annotations={gang: "orphan", size: "1"})
    pods("stray", gated=True)
    pods("lost", labels={"scheduling.x-k8s.io/pod-group": "lost"})
    pods("high", annotations={gang: "high", size: "9", "muster.dev/required-topology": "galaxy"})
    pods("other", scheduler="default-scheduler")
    template = {
        "spec": {"schedulerName": "muster", "restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}
    }
    marks = {"metadata": {"annotations": {"muster.dev/podgroup": "train"}}}
    job = {"spec": {"suspend": True, "template": template | marks}}
    cluster.api.create(JOBS, {"metadata": {"name": "train", "annotations": {gang: "train"}}} | job)
    cluster.api.wait_for(f"{PODS}/other", lambda pod: pod["spec"].get("nodeName"))
    faults = {(finding["code"], finding["subject"]) for finding in doctor()}
    assert {
        ("UnknownKey", "default/typo"),
        ("UnreadableGang", "default/odd"),
        ("NoMinMember", "default/lonely"),
        ("SizesDiffer", "default/two"),
        ("SchedulersDiffer", "default/split"),
        ("GangOfAnother", "default/foreign"),
        ("OrphanGate", "default/orphan"),
        ("OrphanGate", "default/stray"),
        ("PodGroupMissing", "default/lost"),
        ("UnknownLevel", "default/high"),
        ("OtherSchedulersGpus", "default/other"),
        ("KeyOnOwner", "Job default/train"),
        ("UnknownKey", "Job default/train"),
    } <= faults
    cluster.api.delete(f"{JOBS}/train")


def test_nodes_without_labels_and_labels_that_contradict_are_found(cluster: Cluster, doctor: Doctor) -> None:
    zone = "topology.kubernetes.io/zone"
    extra = cluster.add_nodes(1, prefix="bare")
    extra += cluster.add_nodes(2, prefix="torn", labels=lambda at: {"nvidia.com/gpu.clique": "t", zone: f"z{at}"})
    assert {"NodesWithoutLabel", "LevelsContradict"} <= codes(doctor())
    for name in extra:
        cluster.api.delete(f"/api/v1/nodes/{name}")


def test_a_missing_right_is_found_by_its_name(cluster: Cluster, doctor: Doctor) -> None:
    role = cluster.api.get(ROLE)
    rules = [rule for rule in role["rules"] if "pods/binding" not in rule["resources"]]
    cluster.api.patch(ROLE, {"rules": rules}, type="application/merge-patch+json")
    # The API server takes changes of roles up a moment later, and says so nowhere: ask again.
    findings = next(seen for _ in range(20) if "MissingRight" in codes(seen := doctor()))
    assert "it may not create pods/binding" in {finding["what"] for finding in findings}
    cluster.api.patch(ROLE, {"rules": role["rules"]}, type="application/merge-patch+json")
    assert any(codes(doctor(code=None)) == set() for _ in range(20))


def test_an_admission_policy_that_is_not_there_or_not_bound_is_found(cluster: Cluster, doctor: Doctor) -> None:
    admission = "/apis/admissionregistration.k8s.io/v1"
    cluster.api.delete(f"{admission}/mutatingadmissionpolicybindings/muster-gang-gate")
    assert codes(doctor()) == {"GateNotBound"}
    cluster.api.delete(f"{admission}/mutatingadmissionpolicies/muster-gang-gate")
    assert codes(doctor()) == {"NoGate"}
    install_gate(cluster)
    assert doctor(code=0) == []


def test_a_kueue_that_manages_the_same_kinds_is_found_by_its_webhooks(cluster: Cluster, doctor: Doctor) -> None:
    webhooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    config = "/api/v1/namespaces/kueue-system/configmaps"
    name, nobody = (
        "kueue-validating-webhook-configuration",
        {"matchConditions": [{"name": "never", "expression": "false"}]},
    )
    service = {"clientConfig": {"service": {"namespace": "kueue-system", "name": "kueue-webhook-service", "path": "/"}}}
    rules = {
        "rules": [{"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"]}]
    }
    hook = {"name": "vjob.kb.io", "admissionReviewVersions": ["v1"], "sideEffects": "None"} | service | rules | nobody
    cluster.api.create(webhooks, {"metadata": {"name": name}, "webhooks": [hook]})
    (orphan,) = doctor()
    assert (orphan["code"], orphan["subject"]) == ("KueueOrphan", name)
    cluster.kubectl("create", "namespace", "kueue-system")
    somewhere = {"metadata": {"name": "kueue-webhook-service"}, "spec": {"type": "ExternalName", "externalName": "a.b"}}
    cluster.api.create("/api/v1/namespaces/kueue-system/services", somewhere)
    assert [finding["code"] for finding in doctor()] == ["KueueManagesJobs"], "its settings are nowhere to be read"
    kind = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}
    for frameworks, managed in ((["batch/job", "pod"], True), (["pod"], False)):
        data = {"controller_manager_config.yaml": yaml.safe_dump(kind | {"integrations": {"frameworks": frameworks}})}
        cluster.api.create(config, {"metadata": {"name": "kueue-manager-config"}, "data": data})
        findings = doctor(code=None)
        assert ["manages batch/job:" in finding["what"] for finding in findings] == [True] * managed
        cluster.api.delete(f"{config}/kueue-manager-config")
    cluster.api.delete(f"{webhooks}/{name}")


def test_a_configuration_in_the_cluster_is_found_and_read(cluster: Cluster, doctor: Doctor) -> None:
    template = cluster.api.get(DEPLOYMENT)["spec"]["template"]["spec"]
    name = next(volume["configMap"]["name"] for volume in template["volumes"] if volume["name"] == "scheduler-config")
    path = f"/api/v1/namespaces/kube-system/configmaps/{name}"
    ((key, text),) = cluster.api.get(path)["data"].items()
    spoilt = yaml.safe_load(text)
    spoilt["extenders"][1]["ignorable"] = True
    spoilt["percentageOfNodesToScore"] = 50
    cluster.api.patch(path, {"data": {key: yaml.safe_dump(spoilt)}}, type="application/merge-patch+json")
    assert codes(doctor()) == {"Ignorable", "NodesSampled"}
    cluster.api.patch(path, {"data": {key: text}}, type="application/merge-patch+json")


def test_a_deployment_of_another_version_that_is_not_ready_is_found(cluster: Cluster, doctor: Doctor) -> None:
    containers = [{"name": "kube-scheduler", "image": "registry.k8s.io/kube-scheduler:v1.34.1"}]
    template = {"spec": {"containers": containers, "nodeSelector": {"no": "where"}}}
    strategy = {"$retainKeys": ["type"], "type": "Recreate"}  # the pods before it are not kept until these are ready
    spec = {"spec": {"replicas": 3, "strategy": strategy, "template": template}}
    cluster.api.patch(DEPLOYMENT, spec, type="application/strategic-merge-patch+json")
    cluster.api.wait_for(DEPLOYMENT, _none_is_ready)
    assert {"SchedulerVersion", "NotReady"} <= codes(doctor())
    cluster.api.delete(DEPLOYMENT, {"propagationPolicy": "Background"})
    cluster.api.wait_for(DEPLOYMENT, lambda deployment: deployment is None)
    assert doctor(*FILES, code=0) == []
    assert codes(doctor(code=0)) == {"NoDeployment"}


def test_a_lease_that_nobody_renews_an_identity_that_is_gone_and_a_muster_that_is_silent_are_found(
    cluster: Cluster, muster: RunningMuster, doctor: Doctor
) -> None:
    lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/muster"
    muster.stop()
    cluster.api.patch(
        lease, {"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}}, type="application/merge-patch+json"
    )
    cluster.api.delete("/api/v1/namespaces/kube-system/serviceaccounts/muster-extender")
    assert {"NobodyLeads", "NotReachable", "NoServiceAccount"} <= codes(doctor(*FILES))
    cluster.api.patch(
        lease, {"spec": {"renewTime": "2099-01-01T00:00:00.000000Z"}}, type="application/merge-patch+json"
    )
    assert "ClockSkew" in codes(doctor(*FILES))


def test_pods_that_no_scheduler_knows_are_found_when_their_kind_is_gone(cluster: Cluster, doctor: Doctor) -> None:
    cluster.api.delete("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/podgroups.scheduling.x-k8s.io")
    cluster.api.wait_for("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", lambda kinds: not kinds)
    cluster.api.create(
        PODS,
        {
            "metadata": {"name": "lost", "labels": {"scheduling.x-k8s.io/pod-group": "lost"}},
            "spec": {"schedulerName": "muster", "containers": [{"name": "main", "image": "none"}]},
        },
    )
    assert "NoPodGroupKind" in codes(doctor())


def test_nobody_who_may_look_is_one_sentence(cluster: Cluster, tmp_path: Path) -> None:
    for kubeconfig, words in (
        (tmp_path / "none", "no credentials"),
        (_elsewhere(cluster, tmp_path), "does not answer"),
    ):
        result = CliRunner().invoke(main, ["doctor", "--kubeconfig", str(kubeconfig)])
        assert result.exit_code == 2
        assert words in result.output
        assert len(result.output.strip().splitlines()) == 1


def _elsewhere(cluster: Cluster, folder: Path) -> Path:
    """A kubeconfig of a server that is not there."""
    content = yaml.safe_load(cluster.kubeconfig.read_text())
    content["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    path = folder / "elsewhere"
    path.write_text(yaml.safe_dump(content))
    return path


def _none_is_ready(deployment: Any) -> bool:
    status, generation = deployment["status"], deployment["metadata"]["generation"]
    return bool(status["observedGeneration"] == generation and not status.get("readyReplicas"))
