"""Nodes and pods of the policies' nouns, written as the objects that a real control plane takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from devcluster import binaries, nodes
from extender.kube.reading.numbering import COMPLETION_INDEX, JOBSET_JOB
from extender.kube.reading.topology import PREFERRED, REQUIRED, SLICE_SIZE, SLICE_TOPOLOGY
from policies.model import HostPort, Node, Pod, Requirement, Selector, Spread, Term, Topology
from tests.scenarios.stage import Object

HOST = "kubernetes.io/hostname"
MUST = "requiredDuringSchedulingIgnoredDuringExecution"
STAYS = "example.com/stays"
"""The finalizer of a pod that is being deleted, and stays there for a while."""


def node_object(one: Node, name: str) -> Object:
    """The node under another name, which is its hostname, too."""
    amounts = dict(one.allocatable)
    resources = {key: f"{amount}m" if key == "cpu" else str(amount) for key, amount in amounts.items()}
    labels = {key: value for key, value in one.labels.items() if key != HOST}
    written = nodes.node(name, resources, labels, binaries.kubernetes_version())
    return {**written, "spec": {"taints": [taint._asdict() for taint in one.taints]}}


@dataclass(frozen=True)
class Pods:
    """Writes pods as objects. ``namespaces``: the names on the cluster for the namespaces of the nouns."""

    namespaces: Mapping[str, str]

    def pod(self, pod: Pod, name: str, **spec: Any) -> Object:
        """The pod as its author would write it, without a gang. Further keywords go into its spec."""
        amounts = {key: f"{much}m" if key == "cpu" else str(much) for key, much in pod.requests if key != "pods"}
        ports = [_port(port) for port in pod.constraints.ports]
        container = {
            "name": "main",
            "image": "train",
            "resources": {"requests": amounts, "limits": amounts},
            "ports": ports,
        }
        body = {
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            "nodeSelector": dict(pod.selection.node_selector),
            "tolerations": [toleration._asdict() for toleration in pod.selection.tolerations],
            "affinity": self._affinity(pod),
            "topologySpreadConstraints": [_spread(constraint) for constraint in pod.constraints.spread],
        }
        meta = {"name": name, "namespace": self.namespaces[pod.namespace], "labels": dict(pod.labels)}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": body | spec}

    def member(self, pod: Pod, name: str, gang: str, size: int, series: int, gates: Sequence[str]) -> Object:
        """The same as a member of a gang of that size. ``series``: the number of its role."""
        written = self.pod(pod, name, schedulerName="muster", schedulingGates=[{"name": gate} for gate in gates])
        named = {"muster.dev/pod-group": gang, "muster.dev/min-member": str(size)}
        numbered = {COMPLETION_INDEX: str(pod.index), JOBSET_JOB: str(series)}
        written["metadata"]["annotations"] = named | numbered | _wish(pod.topology)
        return written

    def _affinity(self, pod: Pod) -> Object:
        constraints, terms = pod.constraints, pod.selection.affinity
        near, apart = (
            [self._term(affinity) for affinity in affinities]
            for affinities in (constraints.affinity, constraints.anti_affinity)
        )
        wanted = {"nodeSelectorTerms": [{"matchExpressions": _expressions(term)} for term in terms or ()]}
        relations = {"podAffinity": {MUST: near}, "podAntiAffinity": {MUST: apart}}
        return relations if terms is None else relations | {"nodeAffinity": {MUST: wanted}}

    def _term(self, term: Term) -> Object:
        body: Object = {"topologyKey": term.key, **_selected("labelSelector", term.selector)}
        body["namespaces"] = [self.namespaces[name] for name in term.namespaces]
        return body | _selected("namespaceSelector", term.elsewhere)


def _spread(one: Spread) -> Object:
    constraint: Object = {"topologyKey": one.key, "maxSkew": one.max_skew, "whenUnsatisfiable": "DoNotSchedule"}
    constraint |= {"minDomains": one.min_domains} | _selected("labelSelector", one.selector)
    policies = {True: "Honor", False: "Ignore"}
    return constraint | {
        "nodeAffinityPolicy": policies[one.honors_affinity],
        "nodeTaintsPolicy": policies[one.honors_taints],
    }


def _port(port: HostPort) -> Object:
    return {"containerPort": port.port, "hostPort": port.port, "protocol": port.protocol, "hostIP": port.address}


def _selected(key: str, selector: Selector) -> Object:
    """None selects nothing, as a selector does that is absent."""
    return {} if selector is None else {key: {"matchExpressions": _expressions(selector)}}


def _expressions(requirements: Sequence[Requirement]) -> list[Object]:
    return [
        {"key": requirement.key, "operator": requirement.operator, "values": list(requirement.values)}
        for requirement in requirements
    ]


def _wish(topology: Topology) -> dict[str, str]:
    layers = [(topology.slice_size, topology.slice_level), *topology.around]
    fields = {
        REQUIRED: topology.required,
        PREFERRED: topology.preferred,
        SLICE_SIZE: ",".join(str(size) for size, _ in layers if size),
        SLICE_TOPOLOGY: ",".join(level for _, level in layers if level),
    }
    return {key: value for key, value in fields.items() if value}
