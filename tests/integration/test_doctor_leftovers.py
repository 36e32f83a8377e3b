"""`muster doctor` and what others have left behind: webhooks, CRDs and finalizers of Kueue, labels and devices."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from typer.testing import CliRunner

from devcluster import Cluster
from devcluster.crds import CRDS
from devcluster.errors import ClusterError
from devcluster.muster import install_crds_of
from devcluster.nvidia import NvidiaDriver
from devcluster.nvidia.objects import DOMAIN, GPU, LABEL
from extender.cli.main import main

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
LEFT = "DriverWithoutSlices", "StaleDomainLabel", "LeakedAllocation"
pytestmark = pytest.mark.xdist_group("doctor-leftovers")


def doctor(cluster: Cluster, *codes: str) -> list[dict[str, str]]:
    """The findings of doctor whose codes begin with one of these."""
    argv = ["doctor", "--kubeconfig", str(cluster.kubeconfig), "--url", "http://127.0.0.1:1", "-o", "json"]
    findings = json.loads(CliRunner().invoke(main, argv).stdout)["findings"]
    return [finding for finding in findings if finding["code"].startswith(codes)]


def run(cluster: Cluster, finding: dict[str, str]) -> None:
    """Run the command that the finding has."""
    program, *argv = shlex.split(finding["fix"])
    assert program == "kubectl"
    cluster.kubectl(*argv)


def test_what_kueue_has_left_behind_is_found_and_mended_by_the_commands_that_are_told(
    cluster: Cluster,
) -> None:
    """Webhooks that fail closed, CRDs that convert by them, and finalizers: the printed commands are run."""
    install_crds_of(cluster, "queues")
    service = {"namespace": "kueue-gone", "name": "kueue-webhook-service", "path": "/convert"}
    client: dict[str, Any] = {"clientConfig": {"service": service}}
    group = {"apiGroups": ["kueue.x-k8s.io"], "apiVersions": ["*"], "resources": ["workloads"]}
    rules = {"rules": [{**group, "operations": ["UPDATE"]}]}
    hook = {"name": "vworkload.kb.io", "admissionReviewVersions": ["v1"], "sideEffects": "None", **client, **rules}
    workloads = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads"
    meta = {"name": "job-a", "finalizers": ["kueue.x-k8s.io/resource-in-use", "example.com/kept"]}
    cluster.api.create(
        workloads, {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": meta, "spec": {}}
    )
    conversion = {"strategy": "Webhook", "webhook": {**client, "conversionReviewVersions": ["v1"]}}
    crd = f"{CRDS}/workloads.kueue.x-k8s.io"
    cluster.api.patch(crd, {"spec": {"conversion": conversion}})
    for kind in ("validating", "mutating"):
        configurations = f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations"
        cluster.api.create(configurations, {"metadata": {"name": f"kueue-{kind}"}, "webhooks": [hook]})
    findings = doctor(cluster, "Kueue")
    assert [(leftover["code"], leftover["subject"]) for leftover in findings] == [
        ("KueueOrphan", "kueue-validating"),
        ("KueueOrphan", "kueue-mutating"),
        ("KueueOrphan", "crd/workloads.kueue.x-k8s.io"),
        ("KueueFinalizer", "workloads.kueue.x-k8s.io/default/job-a"),
    ]
    for finding in findings:
        run(cluster, finding)
    assert doctor(cluster, "Kueue") == []
    assert cluster.api.get(f"{workloads}/job-a")["metadata"]["finalizers"] == ["example.com/kept"]


def test_devices_and_labels_that_are_left_behind_are_found_and_mended_by_the_commands_that_are_told(
    cluster: Cluster,
) -> None:
    """A driver publishes nothing, a node has the label of a domain that is gone, and no pod uses a claim's device."""
    driver = NvidiaDriver(cluster)
    cluster.add_nodes(1, prefix="rack", gpus=0, labels={LABEL: "b1d5f1d0-0000-4000-8000-000000000000"})
    request = {"name": "gpu", "exactly": {"deviceClassName": GPU}}
    claim = f"{CLAIMS}/left"
    cluster.api.create(CLAIMS, {"metadata": {"name": "left"}, "spec": {"devices": {"requests": [request]}}})
    results = [{"request": "gpu", "driver": GPU, "pool": "rack-0", "device": "gpu-0"}]
    cluster.api.patch(f"{claim}/status", {"status": {"allocation": {"devices": {"results": results}}}})
    silent, other, label, leaked = doctor(cluster, *LEFT)
    assert {silent["subject"], other["subject"]} == {GPU, DOMAIN}
    assert (label["subject"], leaked["subject"]) == ("rack-0", "ResourceClaim default/left")
    cluster.api.patch(claim, {"metadata": {"labels": {"changed": "since"}}})
    with pytest.raises(ClusterError, match="the object has been modified"):
        run(cluster, leaked)
    driver.publish(["rack-0"], gpus=1)
    for finding in doctor(cluster, *LEFT):
        run(cluster, finding)
    assert doctor(cluster, *LEFT) == []
    assert "allocation" not in cluster.api.get(claim).get("status", {})
