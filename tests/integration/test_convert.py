"""On a real API server with Kueue's own CRDs: the output of `muster convert` is valid there, also without v1beta1."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from devcluster import Cluster
from devcluster.api import ApiError, Object
from devcluster.builds import Module
from devcluster.crds import CRDS, until_established
from devcluster.errors import ClusterError
from devcluster.muster import MANIFESTS, start_muster
from devcluster.progress import silent
from extender.cli.convert.rewrite import rewrite
from extender.cli.main import main
from tests.manifests_of_kueue import EVERY_CHANGE
from tests.manifests_of_queues import FLAVORS

KUEUE = Module(Path(__file__).parent / "kueue_next", {})
"""The newest release of Kueue that the module proxy serves; it has both versions, and 0.20 serves v1beta2 alone."""
GONE = {
    "admissionchecks": {"spec.retryDelayMinutes"},
    "clusterqueues": {"spec.cohort", "spec.admissionChecks"},
    "multikueueclusters": {"spec.kubeConfig", "spec.clusterProfileRef"},
    "workloads": {"spec.priorityClassName", "spec.priorityClassSource"},
}
"""Fields of v1beta1 that v1beta2 has not. Those of the status are Kueue's to write."""
TUTORIAL = MANIFESTS / "examples" / "queues" / "tutorial-v1beta2.yaml"


@pytest.fixture(scope="module")
def crds() -> dict[str, Object]:
    """Kueue's, by their plural names."""
    folder = KUEUE.source("sigs.k8s.io/kueue", silent) / "config" / "components" / "crd" / "bases"
    definitions = [yaml.safe_load(file.read_text()) for file in sorted(folder.glob("*.yaml"))]
    return {definition["spec"]["names"]["plural"]: definition for definition in definitions}


@pytest.fixture(scope="module")
def cluster(crds: dict[str, Object]) -> Iterator[Cluster]:
    with Cluster() as running:
        for crd in crds.values():
            running.api.create(CRDS, crd)
        for crd in crds.values():
            until_established(running.api, crd["metadata"]["name"])
        yield running


def test_each_field_that_goes_is_converted(crds: dict[str, Object]) -> None:
    gone = {}
    for plural, crd in crds.items():
        old, new = (set(_fields(_schema(crd, version), "")) for version in ("v1beta1", "v1beta2"))
        if lost := {path for path in old - new if not path.startswith("status")}:
            gone[plural] = {path for path in lost if path.rpartition(".")[0] not in lost}
    assert gone == GONE


def _schema(crd: Object, version: str) -> Any:
    return next(entry["schema"]["openAPIV3Schema"] for entry in crd["spec"]["versions"] if entry["name"] == version)


def _fields(schema: Any, path: str) -> Iterator[str]:
    for name, below in schema.get("properties", {}).items():
        yield (place := f"{path}.{name}".lstrip("."))
        yield from _fields(below, place)
    if "items" in schema:
        yield from _fields(schema["items"], path)


def test_what_is_valid_before_is_valid_afterwards(cluster: Cluster, crds: dict[str, Object]) -> None:
    plurals = {crd["spec"]["names"]["kind"]: plural for plural, crd in crds.items()}
    kinds = set()
    for text in (EVERY_CHANGE, FLAVORS):
        pairs = zip(_objects(text), _objects(rewrite(text).text), strict=True)
        for old, new in pairs:
            kinds.add(old["kind"])
            for obj in (old, new):
                within = f"namespaces/{obj['metadata']['namespace']}/" if "namespace" in obj["metadata"] else ""
                collection = f"/apis/{obj['apiVersion']}/{within}{plurals[obj['kind']]}"
                cluster.api.create(f"{collection}?dryRun=All&fieldValidation=Strict", obj)
    assert kinds == plurals.keys()


def _objects(text: str) -> Iterator[Any]:
    for document in yaml.safe_load_all(text):
        for obj in document.get("items", [document]):
            if obj["apiVersion"].startswith("kueue.x-k8s.io/"):
                yield obj


def test_where_v1beta1_is_gone_muster_follows_what_was_converted(cluster: Cluster, crds: dict[str, Object]) -> None:
    for crd in crds.values():
        path = f"{CRDS}/{crd['metadata']['name']}"
        now = cluster.api.get(path)
        (old,) = (version for version in now["spec"]["versions"] if version["name"] == "v1beta1")
        old["served"] = False
        cluster.api.replace(path, now)
    with pytest.raises(ClusterError, match=r'no matches for kind "ClusterQueue" in version "kueue\.x-k8s\.io/v1beta1"'):
        cluster.kubectl("apply", "-f", "-", stdin=FLAVORS)
    converted = CliRunner().invoke(main, ["convert"], input=FLAVORS).stdout
    cluster.kubectl("apply", "--validate=strict", "-f", "-", stdin=converted)
    cluster.kubectl("apply", "--validate=strict", "-f", str(TUTORIAL))
    start_muster(cluster)
    for name, flavors in (("heavy-ml-cluster-queue", 1), ("gpu-cluster-queue", 3)):
        path = f"/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{name}"
        queue = cluster.api.wait_for(path, lambda obj: bool((obj or {}).get("status", {}).get("conditions")))
        assert {entry["type"]: entry["status"] for entry in queue["status"]["conditions"]}["Active"] == "True"
        assert len(queue["status"]["flavorsReservation"]) == flavors


def test_a_field_that_is_not_converted_would_be_refused(cluster: Cluster) -> None:
    """The API server judges strictly: else the tests above would show nothing."""
    obj = next(document for document in _objects(EVERY_CHANGE) if document["kind"] == "ClusterQueue")
    obj["apiVersion"] = "kueue.x-k8s.io/v1beta2"
    with pytest.raises(ApiError, match=r'unknown field "spec\.cohort"'):
        cluster.api.create("/apis/kueue.x-k8s.io/v1beta2/clusterqueues?dryRun=All&fieldValidation=Strict", obj)
