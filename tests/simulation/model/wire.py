"""Nodes and pods as objects on the wire, in seeds that have them: the extender reads them with Muster's own readers.

The rest of the model and the referee compute the same facts by arithmetic of their own (``amounts``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from random import Random
from typing import Any

import msgspec

from extender.kube.resources import NODES, PODS
from policies.model import Node, Pod, Requirement, Selection, Taint
from tests.simulation.model.amounts import amounts, as_printed, as_typed
from tests.simulation.model.pods import as_read

_INSTANT = "2026-11-20T08:00:00Z"
_READ = (
    "requests", "selection", "labels", "scheduler", "priority", "gates",
    "node", "nominated_node", "phase", "deleting", "refusal", "claims",
)  # fmt: skip
"""The fields of a pod that the extender reads from the object. It is shown the others as the model has them."""


class Stage(IntEnum):
    """The part of a pod's status that its kubelet has written."""

    NOTHING = 0
    SEEN = 1
    RUNS = 2
    HAS_ADDRESS = 3
    READY = 4
    UNREADY = 5


@dataclass(slots=True)
class Wire:
    """The objects.

    ``conditions``: the conditions of nodes beside Ready, by name of the node.
    ``stages``: by UID of the pod.
    """

    conditions: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    stages: dict[str, Stage] = field(default_factory=dict)
    _specs: dict[str, tuple[tuple[object, ...], dict[str, Any]]] = field(default_factory=dict)

    def node(self, node: Node) -> bytes:
        """The object of a node."""
        listed = {name: as_printed(name, much) for name, much in node.allocatable}
        ready = _condition("Ready", "KubeletReady" if node.ready else "KubeletNotReady", holds=node.ready)
        spec: dict[str, Any] = {"taints": [_filled(taint._asdict()) for taint in node.taints]}
        if node.unschedulable:
            spec["unschedulable"] = True
        return msgspec.json.encode(
            {
                "metadata": {"name": node.name, "labels": dict(node.labels)},
                "spec": spec,
                "status": {
                    "capacity": listed,
                    "allocatable": listed,
                    "conditions": [*self.conditions.get(node.name, ()), ready],
                },
            }
        )

    def pod(self, pod: Pod, version: int) -> bytes:
        """The object of a pod. The requests of its containers are written once."""
        facts = (pod.requests, pod.selection, pod.gates, pod.priority, pod.scheduler)
        known = self._specs.get(pod.uid)
        if known is None or known[0] != facts:
            known = self._specs[pod.uid] = facts, _spec(pod)
        metadata: dict[str, Any] = {
            "name": pod.name,
            "namespace": pod.namespace,
            "uid": pod.uid,
            "resourceVersion": str(version),
            "labels": dict(pod.labels),
        }
        if pod.deleting:
            metadata["deletionTimestamp"] = _INSTANT
        spec = {**known[1], "nodeName": pod.node} if pod.node else known[1]
        return msgspec.json.encode({"metadata": metadata, "spec": spec, "status": self._status(pod)})

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        self.stages.pop(uid, None)
        self._specs.pop(uid, None)

    def _status(self, pod: Pod) -> dict[str, Any]:
        stage = self.stages.get(pod.uid, Stage.NOTHING)
        status: dict[str, Any] = {"phase": pod.phase, "conditions": []}
        if pod.nominated_node:
            status["nominatedNodeName"] = pod.nominated_node
        if pod.node:
            status["conditions"].append(_condition("PodScheduled", holds=True))
        elif pod.gates:
            status["conditions"].append(_condition("PodScheduled", "SchedulingGated", holds=False))
        if pod.refusal is not None and not pod.node:
            refused = _condition("PodScheduled", "Unschedulable", holds=False) | {"message": pod.refusal}
            status["conditions"] = [refused]
        if stage is not Stage.NOTHING or pod.terminal:
            ready = stage is Stage.READY and pod.phase == "Running"
            reason = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(pod.phase, "ContainersNotReady")
            status["conditions"] += [
                _condition("Initialized", holds=True),
                _condition("Ready", "" if ready else reason, holds=ready),
                _condition("ContainersReady", "" if ready else reason, holds=ready),
            ]
            status["startTime"] = _INSTANT
            status["containerStatuses"] = [
                {"name": "main", "ready": ready, "restartCount": 0, "state": _state(pod.phase)}
            ]
        if stage >= Stage.HAS_ADDRESS:
            status |= {"hostIP": "10.0.0.1", "podIP": "10.1.0.1", "podIPs": [{"ip": "10.1.0.1"}]}
        return status


def read_node(written: bytes) -> Node:
    """The node as Muster reads it."""
    node = NODES.read(msgspec.Raw(written))[1]
    assert node is not None
    return node


def read_pod(written: bytes, pod: Pod) -> Pod:
    """The pod as Muster reads it, as far as it is written."""
    read = PODS.read(msgspec.Raw(written))[1]
    assert read is not None
    return replace(as_read(pod), **{name: getattr(read, name) for name in _READ})


def node_of(written: Mapping[str, Any]) -> Node:
    """The node that a fixture describes, by arithmetic of the model's own."""
    spec = written.get("spec", {})
    taints = tuple(Taint(taint["key"], taint.get("value", ""), taint["effect"]) for taint in spec.get("taints", ()))
    return Node(
        written["metadata"]["name"],
        tuple(sorted(amounts(written["status"]["allocatable"]).items())),
        dict(written["metadata"]["labels"]),
        taints,
        unschedulable=bool(spec.get("unschedulable")),
    )


def _condition(kind: str, reason: str = "", *, holds: bool) -> dict[str, Any]:
    condition = {"type": kind, "status": "True" if holds else "False", "lastTransitionTime": _INSTANT}
    return condition | ({"reason": reason} if reason else {})


def _state(phase: str) -> dict[str, Any]:
    match phase:
        case "Running":
            return {"running": {"startedAt": _INSTANT}}
        case "Succeeded" | "Failed":
            return {"terminated": {"exitCode": 0 if phase == "Succeeded" else 143, "finishedAt": _INSTANT}}
        case _:
            return {"waiting": {"reason": "ContainerCreating"}}


def _filled(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value}


def _spec(pod: Pod) -> dict[str, Any]:
    """Write a pod's spec, with its amounts in one of the places where people put them.

    They stand in one container or two, a sidecar, a large init container, the overhead, or on the pod as a whole.
    """
    dice = Random(f"{pod.owner}{pod.series}{pod.requests}")
    amounts = {name: much for name, much in pod.requests if name != "pods"}
    cpu, rest = amounts.pop("cpu", 0), amounts
    portion = cpu // 3
    main, spec = dict(rest), dict[str, Any]()
    match dice.choice(("one", "two", "sidecar", "init", "overhead", "pod")):
        case "two":
            main["cpu"] = cpu - portion
            spec["containers"] = [_container("other", {"cpu": portion}, dice)]
        case "sidecar":
            main["cpu"] = cpu - portion
            spec["initContainers"] = [_container("beside", {"cpu": portion}, dice) | {"restartPolicy": "Always"}]
        case "init":
            main["cpu"] = portion
            spec["initContainers"] = [_container("first", {"cpu": cpu}, dice)]
        case "overhead":
            main["cpu"] = cpu - portion
            spec["overhead"] = {"cpu": as_typed("cpu", portion, dice)}
        case "pod":
            main["cpu"] = portion
            spec["resources"] = {"requests": {"cpu": as_typed("cpu", cpu, dice)}}
        case _:
            main["cpu"] = cpu
    if dice.random() < 0.3:
        main.setdefault("nvidia.com/gpu", 0)
    spec["containers"] = [_container("main", main, dice), *spec.get("containers", ())]
    return spec | {
        "schedulerName": pod.scheduler,
        "priority": pod.priority,
        "schedulingGates": [{"name": gate} for gate in pod.gates],
        "volumes": [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in pod.claims],
        **_chosen(pod.selection),
    }


def _container(name: str, amounts: Mapping[str, int], dice: Random) -> dict[str, Any]:
    """Write a container. Devices and huge pages have limits, which stand for the requests."""
    requests, limits = dict[str, str | int](), dict[str, str | int]()
    for resource, much in amounts.items():
        limited = "/" in resource or resource.startswith("hugepages-")
        (limits if limited else requests)[resource] = as_typed(resource, much, dice)
    return {"name": name, "image": "work", "resources": {"requests": requests, "limits": limits}}


def _chosen(selection: Selection) -> dict[str, Any]:
    chosen: dict[str, Any] = {
        "nodeSelector": dict(selection.node_selector),
        "tolerations": [_filled(toleration._asdict()) for toleration in selection.tolerations],
    }
    if selection.affinity is not None:
        terms = [_term(term) for term in selection.affinity]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        chosen["affinity"] = {"nodeAffinity": required}
    return chosen


def _term(term: tuple[Requirement, ...]) -> dict[str, Any]:
    written: dict[str, Any] = {}
    for expression in term:
        key = "matchFields" if expression.is_field else "matchExpressions"
        written_expression = {"key": expression.key, "operator": expression.operator, "values": list(expression.values)}
        written.setdefault(key, []).append(written_expression)
    return written
