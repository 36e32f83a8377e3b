"""A pod that is seen again: whatever has changed of what is decoded is read, and what has not is not converted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, get_args, get_type_hints

import msgspec
import pytest

from extender.kube import recent
from extender.kube.convert import pod_from
from extender.kube.objects import PodObject
from extender.kube.recent import pod_again, read_pod
from policies.model import Pod

Path = tuple[str | int, ...]
_TERM = {"key": "zone", "operator": "In", "values": ["a", "b"]}
_PORTS: list[dict[str, Any]] = [{"containerPort": 80, "protocol": "TCP", "hostIP": "10.0.0.1"}, {"hostPort": 81}]
_CONTAINER = {
    "restartPolicy": "Never",
    "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}},
    "ports": _PORTS,
}
_SELECTOR = {"matchLabels": {"app": "train"}, "matchExpressions": [_TERM]}
_LABEL = "muster.dev/min-member"
_NEAR = {
    "topologyKey": "rack",
    "labelSelector": _SELECTOR,
    "namespaces": ["team"],
    "namespaceSelector": _SELECTOR,
    "matchLabelKeys": [_LABEL],
    "mismatchLabelKeys": ["team"],
}
_SPREAD = {
    "topologyKey": "rack",
    "whenUnsatisfiable": "DoNotSchedule",
    "maxSkew": 1,
    "minDomains": 2,
    "labelSelector": _SELECTOR,
    "matchLabelKeys": [_LABEL],
    "nodeAffinityPolicy": "Ignore",
    "nodeTaintsPolicy": "Honor",
}
WHOLE: dict[str, Any] = {
    "metadata": {
        "name": "p-1",
        "namespace": "team",
        "uid": "u",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "labels": {_LABEL: "2", "team": "a"},
        "annotations": {"muster.dev/pod-group": "train"},
        "ownerReferences": [
            {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "j", "controller": True},
        ],
    },
    "spec": {
        "schedulerName": "muster",
        "nodeName": "n1",
        "priority": 3,
        "preemptionPolicy": "Never",
        "activeDeadlineSeconds": 60,
        "schedulingGates": [{"name": "muster.dev/gang"}],
        "schedulingGroup": {"podGroupName": "them"},
        "resourceClaims": [{}],
        "containers": [_CONTAINER],
        "initContainers": [{**_CONTAINER, "resources": {"requests": {"disk": "3"}, "limits": {"gpu": "1"}}}],
        "overhead": {"cpu": "250m"},
        "resources": {"requests": {"hugepages-1Gi": "1Gi"}, "limits": {"hugepages-2Mi": "2Mi"}},
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "claim"}},
            {"name": "scratch", "ephemeral": {}},
        ],
        "nodeSelector": {"rack": "r1"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [_TERM], "matchFields": [{**_TERM, "key": "name"}]}]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 1,
                        "preference": {"matchExpressions": [_TERM], "matchFields": [{**_TERM, "key": "name"}]},
                    }
                ],
            },
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [_NEAR],
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 2, "podAffinityTerm": _NEAR}],
            },
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [_NEAR],
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "podAffinityTerm": _NEAR}],
            },
        },
        "hostNetwork": True,
        "topologySpreadConstraints": [_SPREAD],
        "tolerations": [{"key": "gpu", "operator": "Exists", "value": "v", "effect": "NoSchedule"}],
    },
    "status": {
        "phase": "Running",
        "nominatedNodeName": "n2",
        "startTime": "2026-01-01T00:00:00Z",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "full"}],
    },
}
VERSION: Path = ("metadata", "resourceVersion")
SAME_POD: set[Path] = {
    VERSION,
    # The name of a volume counts where a claim is named after it.
    ("spec", "volumes", 0, "name"),
    # It counts if it is "Always".
    ("spec", "containers", 0, "restartPolicy"),
    ("spec", "initContainers", 0, "restartPolicy"),
    # They count where it is.
    ("spec", "initContainers", 0, "ports"),
    *(("spec", "initContainers", 0, "ports", at, field) for at, port in enumerate(_PORTS) for field in port),
    *(("spec", "initContainers", 0, "ports", at) for at in range(len(_PORTS))),
}
"""Another text there makes no other Pod of this one."""


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    recent._seen.clear()
    yield
    recent._seen.clear()


def leaves(value: object, path: Path = ()) -> Iterator[Path]:
    """Where something can be changed: every value, and every mapping or list as a whole."""
    if path:
        yield path
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield from leaves(member, (*path, key))


def changed(path: Path) -> list[dict[str, Any]]:
    """The whole pod without what is there, and with another value."""
    without, other = deepcopy(WHOLE), deepcopy(WHOLE)
    *way, last = path
    for pod in (without, other):
        at: Any = pod
        for key in way:
            at = at[key]
        if pod is without:
            del at[last]
        else:
            at[last] = _other(at[last])
    return [without, other]


def _other(value: object) -> object:
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case str() if value.endswith("Z"):
            return value.replace("2026", "2027")
        case str() if value[0].isdigit():
            return f"1{value}"
    return f"{value}x" if isinstance(value, str) else value


def raw(pod: dict[str, Any]) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(pod).encode())


def afresh(pod: dict[str, Any]) -> Pod:
    return pod_from(msgspec.convert(pod, PodObject))


def structs(kind: Any) -> Iterator[type[msgspec.Struct]]:
    """The structs that a type is made of."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
    for part in get_args(kind):
        yield from structs(part)


def unsaid(kind: type[msgspec.Struct], documents: list[Any], path: str = "") -> Iterator[str]:
    """The fields of the struct that none of the documents has."""
    hints = get_type_hints(kind)
    for name, key in zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True):
        said = [one[key] for one in documents if key in one]
        if not said:
            yield f"{path}.{key}"
        inner = [one for value in said for one in (value if isinstance(value, list) else [value])]
        for part in structs(hints[name]):
            yield from unsaid(part, inner, f"{path}.{key}")


def test_the_whole_pod_has_every_field_that_is_decoded() -> None:
    assert list(unsaid(PodObject, [WHOLE])) == []


@pytest.mark.parametrize("path", list(leaves(WHOLE)), ids=lambda path: ".".join(map(str, path)))
def test_a_change_of_any_field_is_seen(path: Path) -> None:
    shown = path in SAME_POD
    for pod in changed(path):
        try:
            wanted = afresh(pod)
        except (msgspec.ValidationError, ValueError):
            with pytest.raises((msgspec.ValidationError, ValueError)):
                read_pod(raw(pod))
            shown = True
            continue
        for before, after in ((WHOLE, pod), (pod, WHOLE)):
            recent._seen.clear()
            read_pod(raw(before))
            assert pod_again(msgspec.convert(after, PodObject)) == afresh(after)
            assert read_pod(raw(after))[1] == afresh(after)
        shown = shown or wanted != afresh(WHOLE)
    assert shown, "another Pod is made of one of them, or the comparisons above show nothing"


def test_what_is_the_same_but_for_its_version_is_not_converted_again() -> None:
    _, first = read_pod(raw(WHOLE))
    again = deepcopy(WHOLE)
    again["metadata"] |= {"resourceVersion": "8", "managedFields": [{"manager": "kubelet"}]}
    again["status"]["containerStatuses"] = [{"ready": True}]
    meta, second = read_pod(raw(again))
    assert second is first
    assert meta.resource_version == "8", "the version itself is not lost"


def test_what_a_caller_sends_is_not_remembered() -> None:
    read_pod(raw(WHOLE))
    forged = deepcopy(WHOLE)
    forged["spec"]["priority"] = 9
    assert pod_again(msgspec.convert(forged, PodObject)).priority == 9
    assert read_pod(raw(WHOLE))[1].priority == 3
    stranger = deepcopy(WHOLE)
    stranger["metadata"]["uid"] = "v"
    pod_again(msgspec.convert(stranger, PodObject))
    assert list(recent._seen) == ["u"]


def test_few_pods_are_remembered_and_no_large_one() -> None:
    for number in range(recent._MOST + 5):
        pod = deepcopy(WHOLE)
        pod["metadata"]["uid"] = f"u{number}"
        read_pod(raw(pod))
    assert len(recent._seen) == recent._MOST
    assert "u4" not in recent._seen
    large = deepcopy(WHOLE)
    large["metadata"] |= {"uid": "large", "annotations": {"note": "x" * recent._LARGEST}}
    assert read_pod(raw(large))[1] == afresh(large)
    assert "large" not in recent._seen
