"""The driver's process: it gives each ComputeDomain its claim template and daemons, and prepares channels on nodes.

The real kubelet plugin prepares a node when a pod with a channel has been bound: it labels the node for the domain,
so that a daemon starts there. It takes the label off when the last such pod has ended. A node that is labelled for
another domain is left as it is, and the log says so: there the real plugin fails to prepare the claim.
"""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

import yaml

from devcluster.api import Api, ApiError, Object
from devcluster.certificates import KeyPair
from devcluster.nvidia.objects import (
    CLIQUE,
    DOMAIN,
    LABEL,
    NAMESPACE,
    daemon_name,
    daemon_template,
    daemonset,
    workload_template,
)

DOMAINS = "/apis/resource.nvidia.com/v1beta1/computedomains"
CLAIMS = "/apis/resource.k8s.io/v1/resourceclaims"
PODS, NODES = "/api/v1/pods", "/api/v1/nodes"
DAEMONSETS = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets"
Seen = Mapping[str, Object]
"""The objects of a collection, by UID."""


def templates_in(namespace: str) -> str:
    """Return the path of the namespace's ResourceClaimTemplates."""
    return f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaimtemplates"


class Controller:
    """Carries out the demands of the objects that it has seen. ``step`` may be called any number of times."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._served: dict[str, Object] = {}
        """The domains that have their template, by UID."""
        self._labelled = {
            node["metadata"]["name"]: uid
            for node in api.list(NODES)
            if (uid := node["metadata"].get("labels", {}).get(LABEL)) is not None
        }
        """The domain that each node is labelled for."""
        self._shown: dict[str, list[Object]] = {}

    def step(self, domains: Seen, pods: Seen, claims: Seen) -> None:
        """Serve domains that are new, prepare and unprepare nodes, and write the statuses that have changed."""
        for uid in domains.keys() - self._served.keys():
            self._serve(domains[uid])
        self._label(_prepared(pods, claims))
        for uid, domain in domains.items():
            self._report(uid, domain)
        for uid in self._served.keys() - domains.keys():
            self._end(self._served.pop(uid))

    def _serve(self, domain: Object) -> None:
        namespace = domain["metadata"]["namespace"]
        for path, made in (
            (templates_in(namespace), workload_template(domain)),
            (templates_in(NAMESPACE), daemon_template(domain)),
            (DAEMONSETS, daemonset(domain)),
        ):
            try:
                self._api.create(path, made)
            except ApiError as refusal:
                if refusal.code != 409:  # made before a restart
                    raise
        self._served[domain["metadata"]["uid"]] = domain

    def _end(self, domain: Object) -> None:
        name = domain["spec"]["channel"]["resourceClaimTemplate"]["name"]
        for namespace, template in ((domain["metadata"]["namespace"], name), (NAMESPACE, daemon_name(domain))):
            path = f"{templates_in(namespace)}/{template}"
            self._patch(path, {"metadata": {"finalizers": None}})
            _unless_gone(self._api.delete, path)
        _unless_gone(self._api.delete, f"{DAEMONSETS}/{daemon_name(domain)}")

    def _patch(self, path: str, body: Object) -> None:
        _unless_gone(self._api.patch, path, body)

    def _label(self, prepared: Mapping[str, str]) -> None:
        for node in [node for node in self._labelled if node not in prepared]:
            self._patch(f"{NODES}/{node}", {"metadata": {"labels": {LABEL: None}}})
            del self._labelled[node]
        for node, uid in prepared.items():
            if (other := self._labelled.get(node)) is None:
                self._patch(f"{NODES}/{node}", {"metadata": {"labels": {LABEL: uid}}})
                self._labelled[node] = uid
            elif other != uid:
                print(f"{node} cannot be prepared for domain {uid}: it is labelled for {other}", flush=True)  # noqa: T201

    def _report(self, uid: str, domain: Object) -> None:
        names = sorted(node for node, other in self._labelled.items() if other == uid)
        nodes: list[Object] = [
            {"name": name, "ipAddress": "127.0.0.1", "cliqueID": self._clique_of(name), "index": index}
            for index, name in enumerate(names)
        ]
        if self._shown.get(uid, []) == nodes:
            return
        ready = len(nodes) >= max(1, domain["spec"]["numNodes"])
        meta = domain["metadata"]
        path = f"/apis/resource.nvidia.com/v1beta1/namespaces/{meta['namespace']}/computedomains/{meta['name']}/status"
        self._patch(path, {"status": {"status": "Ready" if ready else "NotReady", "nodes": nodes}})
        self._shown[uid] = nodes

    def _clique_of(self, node: str) -> str:
        labels = self._api.get(f"{NODES}/{node}")["metadata"].get("labels", {})
        return str(labels.get(CLIQUE, ""))


def _unless_gone(write: Callable[..., object], *args: object) -> None:
    """Write to an object, or do nothing if it is gone: the state that says so comes later."""
    try:
        write(*args)
    except ApiError as refusal:
        if refusal.code != 404:
            raise


def _prepared(pods: Seen, claims: Seen) -> dict[str, str]:
    """Return the domain for which each node is prepared: a pod with a channel of it is bound there, and has not ended.

    Of two domains on one node it is that of the older pod.
    """
    prepared: dict[str, str] = {}
    by_name = {(claim["metadata"]["namespace"], claim["metadata"]["name"]): claim for claim in claims.values()}
    for pod in sorted(pods.values(), key=lambda pod: str(pod["metadata"]["creationTimestamp"])):
        node, status = pod["spec"].get("nodeName"), pod["status"]
        if not node or status.get("phase") in ("Succeeded", "Failed"):
            continue
        named = [claim.get("resourceClaimName") for claim in pod["spec"].get("resourceClaims", [])]
        named += [claim.get("resourceClaimName") for claim in status.get("resourceClaimStatuses", [])]
        for name in filter(None, named):
            claim = by_name.get((pod["metadata"]["namespace"], name))
            if claim is not None and (uid := _channel_of(claim)):
                prepared.setdefault(node, uid)
    return prepared


def _channel_of(claim: Object) -> str:
    """Return the domain whose channel is allocated to the claim, if any."""
    devices = claim.get("status", {}).get("allocation", {}).get("devices", {})
    for config in devices.get("config", []):
        opaque = config.get("opaque", {})
        if opaque.get("driver") == DOMAIN and opaque["parameters"]["kind"] == "ComputeDomainChannelConfig":
            return str(opaque["parameters"]["domainID"])
    return ""


def _api_of(kubeconfig: Path) -> Api:
    read = yaml.safe_load(kubeconfig.read_text())
    cluster, user = read["clusters"][0]["cluster"], read["users"][0]["user"]
    pair = KeyPair(Path(user["client-certificate"]), Path(user["client-key"]))
    return Api(cluster["server"], Path(cluster["certificate-authority"]), pair)


def main(kubeconfig: Path) -> NoReturn:
    """Follow domains, pods and claims, and take a step after each change. Never returns."""
    changes: queue.SimpleQueue[tuple[str, Seen]] = queue.SimpleQueue()

    def follow(path: str) -> None:
        for seen in _api_of(kubeconfig).states(path):
            changes.put((path, dict(seen)))

    for path in (DOMAINS, PODS, CLAIMS):
        threading.Thread(target=follow, args=[path], daemon=True).start()
    controller = Controller(_api_of(kubeconfig))
    world: dict[str, Seen] = {}
    while True:
        path, seen = changes.get()
        world[path] = seen
        while not changes.empty():
            path, seen = changes.get()
            world[path] = seen
        if len(world) == 3:
            controller.step(world[DOMAINS], world[PODS], world[CLAIMS])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
