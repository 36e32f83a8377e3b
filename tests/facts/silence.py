"""Nodes whose kubelet falls silent, and pairs of nodes that lose one of the two, each under a Job of two pods."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from devcluster import Cluster
from devcluster.api import Object
from devcluster.components import KWOK_CONFIG
from tests.facts.flags import restarted, without
from tests.facts.place import Place

SILENT = "fact-silent"
NODES = "/api/v1/nodes"
UNREACHABLE = "node.kubernetes.io/unreachable"


@contextmanager
def kubelets_that_fall_silent(cluster: Cluster) -> Iterator[None]:
    """Let kwok leave objects with the label SILENT alone; the control plane misses a kubelet after 12 s, not 50 s."""
    documents = list(yaml.safe_load_all(KWOK_CONFIG.read_text()))
    for stage in documents[1:]:
        known = {"key": f'.metadata.labels["{SILENT}"]', "operator": "DoesNotExist"}
        stage["spec"]["selector"]["matchExpressions"].append(known)
        if stage["metadata"]["name"] == "node-heartbeat":
            stage["spec"]["delay"] = {"durationMilliseconds": 2000, "jitterDurationMilliseconds": 3000}
    config = cluster.directory / "kwok-silent.yaml"
    config.write_text(yaml.safe_dump_all(documents))
    # Ten nodes a second instead of one in ten seconds: the fact is the taint's effect, not how many nodes wait for it.
    flags = ["--node-monitor-grace-period=12s", "--node-eviction-rate=10", "--secondary-node-eviction-rate=10"]
    with (
        restarted(cluster, "kwok", lambda argv: [*without(argv, "--config"), f"--config={config}"]),
        restarted(
            cluster,
            "kube-controller-manager",
            lambda argv: [*without(argv, "--node-monitor-grace-period"), *flags],
        ),
    ):
        yield


def tolerations(seconds: int | None) -> list[Object]:
    """Tolerations of the two taints of a lost node: for ``seconds``, or without a limit."""
    limit = {} if seconds is None else {"tolerationSeconds": seconds}
    keys = (UNREACHABLE, "node.kubernetes.io/not-ready")
    return [{"key": key, "operator": "Exists", "effect": "NoExecute"} | limit for key in keys]


def only(*nodes: str) -> Object:
    """Required node affinity with one term for each of the nodes."""
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]} for node in nodes]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


class Pair:
    """A Job of two pods that fill a node each, on two nodes of its own; `lost` is the one that is lost later."""

    def __init__(self, place: Place, name: str, seconds: int | None = 2, pinned: int = 0, **spec: Any) -> None:
        """`pinned`: how many terms of node affinity the template has, if any, with the lost node first of them."""
        self.place, self.name = place, name
        self.lost, self.well = self.add_nodes(2)
        pod: Object = {
            "nodeSelector": {"pair": name},
            "tolerations": tolerations(seconds),
            "terminationGracePeriodSeconds": 30,
            "containers": [{"name": "main", "image": "train", "resources": {"limits": {"nvidia.com/gpu": "8"}}}],
        }
        if pinned:
            pod["affinity"] = only(*[self.lost, self.well][:pinned])
        place.create_job(name, **{"slots": 1 if pinned else 2, "template": {"spec": pod}} | spec)

    def add_nodes(self, count: int) -> list[str]:
        added = self.place.add_nodes(count)
        for node in added:
            self.place.api.patch(f"{NODES}/{node}", {"metadata": {"labels": {"pair": self.name}}})
        return added

    @property
    def pods(self) -> list[Object]:
        return self.place.pods_of(self.name)

    @property
    def status(self) -> Object:
        status: Object = self.place.api.get(f"{self.place.jobs}/{self.name}")["status"]
        return status

    def on_lost(self) -> list[Object]:
        return [pod for pod in self.pods if pod["spec"].get("nodeName") == self.lost]

    def lose_where_it_runs(self) -> None:
        """Let the node that has the pod be the one to be lost, for a single pod that may run on either."""
        if not self.on_lost():
            self.lost, self.well = self.well, self.lost

    def silence(self) -> None:
        """Silence the kubelet of the node and of its pods from now on."""
        mark = {"metadata": {"labels": {SILENT: "true"}}}
        for pod in self.on_lost():
            self.place.api.patch(f"{self.place.pods}/{pod['metadata']['name']}", mark)
        self.place.api.patch(f"{NODES}/{self.lost}", mark)


def tainted(node: Object) -> bool:
    """Marked by the node lifecycle controller so that taint eviction acts."""
    return any(t["key"] == UNREACHABLE and t["effect"] == "NoExecute" for t in node["spec"].get("taints", []))
