"""Puts a controller on a cluster: its CRDs and webhooks as its project ships them, and its process on loopback.

The API server calls a webhook through its Service. This machine has no network of Services, so the Service is of the
type ExternalName and leads to loopback. The API server still checks the certificate for the name of the Service.
"""

import base64
import shutil
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import httpx
import yaml

from devcluster.api import Object
from devcluster.builds import Module
from devcluster.certificates import Authority
from devcluster.cluster import Cluster
from devcluster.controllers.catalogue import CATALOGUE, Controller, Place, Webhooks
from devcluster.crds import CRDS, until_established
from devcluster.documents import read_all
from devcluster.errors import ClusterError
from devcluster.process import Process
from devcluster.progress import Progress, silent
from devcluster.watch import ApiError

PATIENCE_S = 120.0
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"


def build_controller(controller: Controller, progress: Progress) -> tuple[Path, Path]:
    """Build the controller; returns its program and the folder with its source. Downloads what is missing."""
    module = Module(controller.folder, {controller.name: controller.package})
    return module.programs([controller.name], progress)[controller.name], module.source(controller.module, progress)


def start_controller(cluster: Cluster, name: str, progress: Progress = silent, options: Sequence[str] = ()) -> Process:
    """Build, install and start the controller, after the ones it needs; returns when it and its webhooks are ready.

    ``options``: arguments beside its own.
    """
    controller = CATALOGUE[name]
    for needed in controller.needs:
        if all(process.name != needed for process in cluster.processes):
            start_controller(cluster, needed, progress)
    program, source = build_controller(controller, progress)
    progress(f"starting {name} {controller.version}")
    place = Place(cluster.directory / name, cluster.kubeconfig, cluster.free_port(), cluster.free_port())
    place.certificates.mkdir(parents=True)
    cluster.api.create("/api/v1/namespaces", {"metadata": {"name": controller.namespace}})
    _create_crds(cluster, _crds(source, controller.crds))
    if controller.config is not None:
        place.config.write_text(yaml.safe_dump(controller.config(place)))
    if controller.webhooks is not None:
        _install_webhooks(cluster, source, controller, controller.webhooks, place)
    argv = [str(program), *controller.arguments(place), *options]
    # Where it writes temporary files, or looks for certificates among them, is its own directory.
    environment = {"KUBECONFIG": str(place.kubeconfig), "TMPDIR": str(place.directory), **controller.environment}
    process = cluster.start(name, argv, environment)
    if controller.webhooks is not None and controller.webhooks.secret:
        _mount(cluster, controller.namespace, controller.webhooks, place)
    _until_ready(process, controller.health_url(place))
    return process


def install_crds(cluster: Cluster, *names: str) -> None:
    """Install the CRDs of these controllers without processes and webhooks; returns when their kinds are served.

    All are created at once, because the API server takes as long to serve many new kinds as to serve one.
    """
    crds: list[Object] = []
    for name in names:
        controller = CATALOGUE[name]
        source = Module(controller.folder, {name: controller.package}).source(controller.module, silent)
        crds += _crds(source, controller.crds)
    _create_crds(cluster, crds)


def _documents(source: Path, pattern: str) -> Iterator[Object]:
    for path in sorted(source.glob(pattern)):
        for document in read_all(path.read_text()):
            if document and document.get("kind") != "Kustomization":
                yield document


def _crds(source: Path, pattern: str) -> list[Object]:
    crds = [document for document in _documents(source, pattern) if document["kind"] == "CustomResourceDefinition"]
    if not crds:
        raise ClusterError(f"no CRD matches {pattern} in {source}")
    return crds


def _create_crds(cluster: Cluster, crds: Sequence[Object]) -> None:
    for crd in crds:
        cluster.api.create(CRDS, crd)
    for crd in crds:
        until_established(cluster.api, crd["metadata"]["name"])
    for crd in crds:
        _until_admitted(cluster, crd["spec"])


def _until_admitted(cluster: Cluster, spec: Object) -> None:
    """Wait until the API server has the schema by which mutating admission policies change an established kind.

    The API server looks for new schemas every 5 s and answers 503 until then, where such a policy matches
    (typeConverterManager of its package mutating).
    """
    scope = "namespaces/default/" if spec["scope"] == "Namespaced" else ""
    kind = spec["names"]["kind"]
    for version in (
        f"{spec['group']}/{served_version['name']}" for served_version in spec["versions"] if served_version["served"]
    ):
        probe = {"apiVersion": version, "kind": kind, "metadata": {"name": "muster-probe"}, "spec": {}}
        path = f"/apis/{version}/{scope}{spec['names']['plural']}?dryRun=All"
        deadline = time.monotonic() + PATIENCE_S
        while not _answers(cluster, path, probe):
            if time.monotonic() > deadline:
                raise ClusterError(f"{kind} of {version} was not admitted after {PATIENCE_S:.0f} s")
            time.sleep(0.1)


def _answers(cluster: Cluster, path: str, probe: Object) -> bool:
    """Whether the API server accepts the probe's kind.

    Refusals other than "not yet" concern the almost empty object.
    """
    try:
        cluster.api.create(path, probe)
    except ApiError as refusal:
        return refusal.code not in (httpx.codes.NOT_FOUND, httpx.codes.SERVICE_UNAVAILABLE)
    return True


def _install_webhooks(cluster: Cluster, source: Path, controller: Controller, webhooks: Webhooks, place: Place) -> None:
    namespace = controller.namespace
    service = {"metadata": {"name": webhooks.service}, "spec": {"type": "ExternalName", "externalName": "localhost"}}
    cluster.api.create(f"/api/v1/namespaces/{namespace}/services", service)
    client: Object = {"service": {"name": webhooks.service, "namespace": namespace, "port": place.webhook_port}}
    if webhooks.secret:
        if webhooks.mounted is not None:
            webhooks.mounted.unlink(missing_ok=True)  # of a former run
        cluster.api.create(f"/api/v1/namespaces/{namespace}/secrets", {"metadata": {"name": webhooks.secret}})
    else:
        client["caBundle"] = _certify(place, f"{webhooks.service}.{namespace}.svc")
    _convert(cluster, webhooks.converts, client)
    for document in _documents(source, webhooks.manifests):
        validating = document["kind"] == "ValidatingWebhookConfiguration"
        document["metadata"]["name"] = webhooks.validating if validating else webhooks.mutating
        for webhook in document["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            webhook["clientConfig"] = client | {"service": client["service"] | {"path": path}}
            if any("pods" in rule["resources"] for rule in webhook["rules"]):
                # As the project's own kustomize patches have it.
                only = {"key": webhooks.pods, "operator": "Exists"}
                webhook["objectSelector"] = {"matchExpressions": [only]}
        cluster.api.create(f"{_ADMISSION}/{document['kind'].lower()}s", document)


def _convert(cluster: Cluster, crds: Iterable[str], client: Object) -> None:
    """Set the conversion webhook that the kustomization patches in. The controller fills in its certificate itself."""
    hook = {"clientConfig": {"service": {**client["service"], "path": "/convert"}}, "conversionReviewVersions": ["v1"]}
    for name in crds:
        cluster.api.patch(f"{CRDS}/{name}", {"spec": {"conversion": {"strategy": "Webhook", "webhook": hook}}})


def _certify(place: Place, name: str) -> str:
    """Make the controller's serving certificate, of an authority of its own; returns the authority for its clients."""
    authority = Authority(place.directory / "authority")
    pair = authority.serving("tls", name)
    shutil.copy(pair.certificate, place.certificates / "tls.crt")
    shutil.copy(pair.key, place.certificates / "tls.key")
    return base64.b64encode(authority.certificate.read_bytes()).decode()


def _mount(cluster: Cluster, namespace: str, webhooks: Webhooks, place: Place) -> None:
    """Write the files of a Secret, once its controller has filled it, as a kubelet mounts them."""
    filled = cluster.api.wait_for(
        f"/api/v1/namespaces/{namespace}/secrets/{webhooks.secret}",
        lambda secret: secret is not None and "tls.crt" in (secret.get("data") or {}),
        PATIENCE_S,
    )
    for name in ("tls.crt", "tls.key"):
        (place.certificates / name).write_bytes(base64.b64decode(filled["data"][name]))
    if webhooks.mounted is None:
        return
    # It only looks whether this exists. The certificate is public; the key stays in the cluster's own directory.
    webhooks.mounted.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(place.certificates / "tls.crt", webhooks.mounted)


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
