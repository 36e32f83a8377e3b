"""Objects as helm renders them and as kustomize builds them."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from charts.templates import CHART, MANIFESTS, switch
from devcluster import binaries
from devcluster.documents import read_all
from devcluster.helm import Helm

Object = dict[str, Any]
Objects = dict[tuple[str, str, str], Object]

_OF_HELM = ("app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "app.kubernetes.io/version", "helm.sh/chart")
_OF_BOTH = ("app.kubernetes.io/name", "app.kubernetes.io/part-of")


def objects(text: str) -> Objects:
    """Return the objects of a stream of documents by kind, namespace and name; none of them comes twice."""
    by_key: Objects = {}
    for obj in read_all(text):
        if obj is None:
            continue
        key = obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
        assert key not in by_key, key
        by_key[key] = obj
    return by_key


def by_helm(helm: Helm, *args: str | Path, namespace: str = "kube-system") -> Objects:
    return objects(helm("template", "muster", CHART, f"--namespace={namespace}", *args))


def by_kustomize(folder: Path, components: Iterable[str]) -> Objects:
    """Return the base with these components, in a kustomization that is written into an empty folder."""
    there = Path(os.path.relpath(MANIFESTS, folder))
    named = [str(there / "components" / name) for name in components]
    kustomization = {"resources": [str(there / "base")], "components": named}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return built(folder)


def built(folder: Path) -> Objects:
    """Return the objects that kustomize builds from a folder."""
    argv = [str(binaries.locate()["kubectl"]), "kustomize", str(folder)]
    return objects(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)


def alike(given: Objects) -> Objects:
    """Return the objects without the differences that are meant.

    These are the labels of a release, the hash of a ConfigMap (in its name, or an annotation of the pods), and comments
    in it. kustomize reorders containers, their mounts and volumes, and doubles empty lines in expressions.
    """
    return {(obj["kind"], obj["metadata"].get("namespace", ""), _named(obj)): _alike(obj) for obj in given.values()}


def _named(one: Object) -> str:
    name: str = one["metadata"]["name"]
    return re.sub(r"^(muster-(?:scheduler-)?config)-[a-z0-9]{10}$", r"\1", name)


def _alike(one: Object) -> Object:
    one = _settled(one)
    one["metadata"]["name"] = _named(one)
    if one["kind"] == "ConfigMap":
        one["data"] = {name: yaml.safe_load(text) for name, text in one["data"].items()}
    if one["kind"] == "Deployment":
        template = one["spec"]["template"]
        template["metadata"] = _settled({"metadata": template["metadata"]})["metadata"]
        volumes = template["spec"].get("volumes", [])
        mounts = [container.get("volumeMounts", []) for container in template["spec"]["containers"]]
        for entries in (template["spec"]["containers"], volumes, *mounts):
            entries.sort(key=lambda entry: entry["name"])
        for volume in volumes:
            if "configMap" in volume:
                volume["configMap"]["name"] = _named({"metadata": volume["configMap"]})
    if "AdmissionPolicy" in one["kind"]:
        one["spec"] = json.loads(re.sub(r"(\\n)+", r"\\n", json.dumps(one["spec"])))
    return one


def _settled(one: Object) -> Object:
    meta = dict(one["metadata"])
    labels = {key: value for key, value in meta.pop("labels", {}).items() if key not in (*_OF_HELM, *_OF_BOTH)}
    annotations = {
        key: value
        for key, value in meta.pop("annotations", {}).items()
        if key not in ("checksum/config", "helm.sh/resource-policy")
    }
    return {**one, "metadata": {**meta, "labels": labels, "annotations": annotations}}


def switches(components: Iterable[str]) -> list[str]:
    """Return the arguments that turn these components on, and all others off, with the labels of a Prometheus."""
    wanted = {switch(name) for name in components}
    known: dict[str, bool] = yaml.safe_load((CHART / "values.yaml").read_text())["components"]
    labels = r"--set=networkPolicy.prometheusLabels.app\.kubernetes\.io/name=prometheus"
    return [*(f"--set=components.{name}={str(name in wanted).lower()}" for name in known), labels]
