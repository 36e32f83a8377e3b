"""`muster doctor` where Kueue was removed and has left its webhooks, CRDs and finalizers behind."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from typer.testing import CliRunner

from devcluster import Cluster
from devcluster.crds import CRDS
from devcluster.muster import install_crds_of
from extender.cli.main import main

pytestmark = pytest.mark.xdist_group("doctor-leftovers")


def doctor(cluster: Cluster) -> list[dict[str, str]]:
    """The findings of doctor about Kueue."""
    argv = ["doctor", "--kubeconfig", str(cluster.kubeconfig), "--url", "http://127.0.0.1:1", "-o", "json"]
    findings = json.loads(CliRunner().invoke(main, argv).stdout)["findings"]
    return [one for one in findings if one["code"].startswith("Kueue")]


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
    said = doctor(cluster)
    assert [(one["code"], one["subject"]) for one in said] == [
        ("KueueOrphan", "kueue-validating"),
        ("KueueOrphan", "kueue-mutating"),
        ("KueueOrphan", "crd/workloads.kueue.x-k8s.io"),
        ("KueueFinalizer", "workloads.kueue.x-k8s.io/default/job-a"),
    ]
    for one in said:
        program, *argv = shlex.split(one["fix"])
        assert program == "kubectl"
        cluster.kubectl(*argv)
    assert doctor(cluster) == []
    assert cluster.api.get(f"{workloads}/job-a")["metadata"]["finalizers"] == ["example.com/kept"]
