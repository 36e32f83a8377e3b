"""Puts a controller on a cluster: its CRDs and webhooks as its project ships them, and its process on loopback.

A webhook is called through its Service. There is no network of Services here, so the Service is of the type
ExternalName and leads to this machine: the API server checks the certificate for the name of the Service all the same.
"""

import base64
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import yaml

from devcluster.api import Object
from devcluster.builds import Module
from devcluster.certificates import Authority
from devcluster.cluster import Cluster
from devcluster.controllers.catalogue import CATALOGUE, Controller, Place
from devcluster.errors import ClusterError
from devcluster.process import Process
from devcluster.progress import Progress, silent

PATIENCE_S = 120.0
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"


def start_controller(cluster: Cluster, name: str, progress: Progress = silent) -> Process:
    """Build, install and start it; returns when it is ready and its webhooks answer."""
    controller = CATALOGUE[name]
    module = Module(controller.folder, {name: controller.package})
    program = module.programs([name], progress)[name]
    source = module.source(controller.module, progress)
    progress(f"starting {name} {controller.version}")
    directory = cluster.directory / name
    place = Place(directory / "certificates", directory / "config.yaml", cluster.free_port(), cluster.free_port())
    place.certificates.mkdir(parents=True)
    cluster.api.create("/api/v1/namespaces", {"metadata": {"name": controller.namespace}})
    _install_crds(cluster, source, controller.crds)
    place.config.write_text(yaml.safe_dump(controller.config(place)))
    _install_webhooks(cluster, source, controller, place)
    argv = [str(program), f"--config={place.config}"]
    process = cluster.start(name, argv, {"KUBECONFIG": str(cluster.kubeconfig)})
    _until_ready(process, f"http://127.0.0.1:{place.health_port}/readyz")
    return process


def _documents(source: Path, pattern: str) -> Iterator[Object]:
    for path in sorted(source.glob(pattern)):
        for document in yaml.safe_load_all(path.read_text()):
            if document and document.get("kind") != "Kustomization":
                yield document


def _install_crds(cluster: Cluster, source: Path, pattern: str) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    found = [one for one in _documents(source, pattern) if one["kind"] == "CustomResourceDefinition"]
    if not found:
        raise ClusterError(f"no CRD matches {pattern} in {source}")
    for crd in found:
        cluster.api.create(path, crd)
    for crd in found:
        cluster.api.wait_for(f"{path}/{crd['metadata']['name']}", _established)


def _established(crd: Object | None) -> bool:
    conditions = ((crd or {}).get("status") or {}).get("conditions") or []
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


def _install_webhooks(cluster: Cluster, source: Path, controller: Controller, place: Place) -> None:
    namespace, webhooks = controller.namespace, controller.webhooks
    service = {"metadata": {"name": webhooks.service}, "spec": {"type": "ExternalName", "externalName": "localhost"}}
    cluster.api.create(f"/api/v1/namespaces/{namespace}/services", service)
    authority = Authority(cluster.directory / controller.name / "authority")
    pair = authority.serving("tls", f"{webhooks.service}.{namespace}.svc")
    shutil.copy(pair.certificate, place.certificates / "tls.crt")
    shutil.copy(pair.key, place.certificates / "tls.key")
    bundle = base64.b64encode(authority.certificate.read_bytes()).decode()
    for document in _documents(source, webhooks.manifests):
        validating = document["kind"] == "ValidatingWebhookConfiguration"
        document["metadata"]["name"] = webhooks.validating if validating else webhooks.mutating
        for webhook in document["webhooks"]:
            told = webhook["clientConfig"]
            told["caBundle"] = bundle
            told["service"] |= {"name": webhooks.service, "namespace": namespace, "port": place.webhook_port}
            if any("pods" in rule["resources"] for rule in webhook["rules"]):
                # As the project's own kustomize patches have it.
                only = {"key": webhooks.pods, "operator": "Exists"}
                webhook["objectSelector"] = {"matchExpressions": [only]}
        cluster.api.create(f"{_ADMISSION}/{document['kind'].lower()}s", document)


def _until_ready(process: Process, url: str) -> None:
    ended = threading.Event()
    for _ in range(int(PATIENCE_S / 0.1)):
        try:
            if httpx.get(url, trust_env=False, timeout=5.0).status_code == httpx.codes.OK:
                return
        except httpx.HTTPError:
            pass  # not listening yet
        if not process.running:
            raise ClusterError(f"{process.name} ended while it started ({process.returncode}):\n{process.tail()}")
        ended.wait(0.1)
    raise ClusterError(f"{process.name} was not ready after {PATIENCE_S:.0f} s:\n{process.tail()}")
