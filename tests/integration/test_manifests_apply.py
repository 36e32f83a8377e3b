"""A real API server accepts the shipped objects, also with PodSecurity and quotas: manifests, CRD and examples."""

import os
from pathlib import Path

import yaml

from devcluster import Cluster
from devcluster.muster import MANIFESTS, NAMESPACE, install


def test_the_api_server_accepts_every_manifest(tmp_path: Path) -> None:
    with Cluster(profile="cloud") as cluster:
        install(cluster)
        install(cluster)  # and once more: an upgrade applies existing objects
        dry_run = ("--dry-run=server", "--validate=strict")
        applied = cluster.kubectl("apply", *dry_run, "-k", str(MANIFESTS / "base"))
        assert "deployment.apps/muster created" in applied
        cluster.kubectl("create", *dry_run, "-f", str(MANIFESTS / "examples"))

        # Its kinds belong to the Prometheus Operator, which is not here.
        components = sorted(
            folder for folder in (MANIFESTS / "components").iterdir() if folder.name != "prometheus-operator"
        )
        everything = {
            "resources": [os.path.relpath(MANIFESTS / "base", tmp_path)],
            "components": [os.path.relpath(component, tmp_path) for component in components],
        }
        (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(everything))
        applied = cluster.kubectl("apply", *dry_run, "-k", str(tmp_path))
        for name in (
            "configmap/muster-alerts",
            "configmap/muster-dashboard",
            "networkpolicy.networking.k8s.io/muster-metrics",
            "networkpolicy.networking.k8s.io/muster-to-prometheus",
        ):
            assert f"{name} created" in applied
        built = yaml.safe_load_all(cluster.kubectl("kustomize", str(tmp_path)))
        deployments = {obj["metadata"]["name"]: obj for obj in built if obj["kind"] == "Deployment"}
        assert sorted(deployments) == ["muster", "muster-dashboard"]
        deployment = deployments["muster"]
        ports = [
            port["name"]
            for container in deployment["spec"]["template"]["spec"]["containers"]
            for port in container["ports"]
        ]
        assert sorted(ports) == ["metrics", "muster-metrics"]

        # Its namespace enforces "restricted", and has a ResourceQuota: the pods are created all the same.
        cluster.kubectl("apply", "-k", str(MANIFESTS / "base"))
        made = cluster.api.wait_for(f"/api/v1/namespaces/{NAMESPACE}/pods", lambda pods: len(pods) == 2)
        assert {obj["metadata"]["labels"]["app.kubernetes.io/name"] for obj in made} == {"muster"}
