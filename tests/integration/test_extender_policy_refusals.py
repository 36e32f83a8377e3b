"""On a real API server: writes to pods that a holder of the extender's token may not do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devcluster import Cluster
from devcluster.api import Object
from extender.core.gate.stamps import RELEASE, RELEASE_COMPLETE
from extender.kube.client import EVICTED_BY
from policies.model import GANG_GATE
from tests.integration.extender import STRATEGIC, Extender
from tests.integration.policed import BY_OWNER, NAMES, REQUIRED, STAMPS, TEAM, Pods, eviction, path, policed


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with policed() as running:
        yield running


@pytest.fixture
def pods(cluster: Cluster, request: pytest.FixtureRequest) -> Pods:
    return Pods(cluster, request.node.name.removeprefix("test_"))


EVERY_PODS = [
    {"key": f"node.kubernetes.io/{why}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for why in ("not-ready", "unreachable")
]


FORBIDDEN_CHANGES: dict[str, Object] = {
    "image": {"spec": {"containers": [{"name": "main", "image": "miner"}]}},
    "tolerations": {"spec": {"tolerations": [*EVERY_PODS, {"operator": "Exists"}]}},
    "deadline": {"spec": {"activeDeadlineSeconds": 1}},
    "finalizers": {"metadata": {"finalizers": ["example.com/held"]}},
    "owner": {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "node-0", "uid": "1"}]}},
    "labels": {"metadata": {"labels": {"app": "other"}}},
    "annotation": {"metadata": {"annotations": {"example.com/a": "b"}}},
    "annotation of users": {"metadata": {"annotations": {"muster.dev/pod-group": "other"}}},
    "annotation taken off": {"metadata": {"annotations": {"muster.dev/pod-group": None}}},
    "stamp of a release": {"metadata": {"annotations": {RELEASE: "forged"}}},
    "annotation of a release": {"metadata": {"annotations": {RELEASE_COMPLETE: "true"}}},
    "another's gate": {"spec": {"schedulingGates": [{"name": "example.com/quota", "$patch": "delete"}]}},
    "node selector": {"spec": {"nodeSelector": {"a": "b"}}},
    "labels of nodes": {
        "spec": {
            "affinity": {
                "nodeAffinity": {
                    REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}
                }
            }
        }
    },
}


@pytest.mark.parametrize("what", FORBIDDEN_CHANGES)
def test_nothing_else_of_a_pod_can_be_changed(extender: Extender, pods: Pods, what: str) -> None:
    pod = pods.create(gates=(GANG_GATE, "example.com/quota"), annotations=NAMES)
    extender.refused("PATCH", path(pod), FORBIDDEN_CHANGES[what])
    assert pods.now(pod)["metadata"]["resourceVersion"] == pod["metadata"]["resourceVersion"]


@pytest.mark.parametrize("what", ["image", "finalizers", "owner", "labels", "annotation", "tolerations"])
def test_nor_of_a_running_one_of_a_stranger(extender: Extender, pods: Pods, what: str) -> None:
    pod = pods.create(node="node-0", spec={"schedulerName": "default-scheduler"})
    extender.refused("PATCH", path(pod), FORBIDDEN_CHANGES[what])


@pytest.mark.parametrize("annotations", [{RELEASE_COMPLETE: None}, {RELEASE_COMPLETE: "false"}, {RELEASE: None}])
def test_what_a_release_has_said_stands(extender: Extender, pods: Pods, annotations: Object) -> None:
    pod = pods.create(node="node-0", annotations={**NAMES, **STAMPS, RELEASE_COMPLETE: "true"})
    extender.refused("PATCH", path(pod), {"metadata": {"annotations": annotations}})


FORBIDDEN_STATUS: dict[str, Object] = {
    "phase": {"status": {"phase": "Failed"}},
    "reason": {"status": {"reason": "Evicted"}},
    "address": {"status": {"podIP": "10.9.9.9"}},
    "condition": {"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Forged"}]}},
    "condition of a drain": {"status": {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}},
    "condition taken off": {"status": {"conditions": [{"type": "PodScheduled", "$patch": "delete"}]}},
    "label": {"metadata": {"labels": {"app": "other"}}},
    "label that leaves a status out": {"metadata": {"labels": {"muster.dev/led": "true"}}},
    "annotation": {"metadata": {"annotations": {"muster.dev/pod-group": "other"}}},
    "finalizers": {"metadata": {"finalizers": ["example.com/held"]}},
    "container": {
        "status": {
            "containerStatuses": [
                {"name": "main", "image": "x", "imageID": "", "ready": True, "restartCount": 9, "started": True}
            ]
        }
    },
}


@pytest.mark.parametrize("what", FORBIDDEN_STATUS)
def test_nothing_else_of_a_status_can_be_changed(extender: Extender, pods: Pods, what: str) -> None:
    pod = pods.create(node="node-0", annotations=NAMES)
    extender.refused("PATCH", f"{path(pod)}/status", FORBIDDEN_STATUS[what])
    # A change that is allowed does not carry another one with it.
    status = FORBIDDEN_STATUS[what].get("status", {})
    conditions = [*status.get("conditions", ()), {"type": "muster.dev/Woken", "status": "True"}]
    both = {**FORBIDDEN_STATUS[what], "status": {**status, "conditions": conditions}}
    extender.refused("PATCH", f"{path(pod)}/status", both)


@pytest.mark.parametrize(
    "meta",
    [
        {"annotations": {"example.com/a": "b"}},
        {"annotations": {**STAMPS, "muster.dev/pod-group": "other"}},
        {"labels": {"app": "other"}},
    ],
)
def test_a_binding_carries_nothing_else(extender: Extender, pods: Pods, meta: Object) -> None:
    pod = pods.create(annotations=NAMES)
    target = {"apiVersion": "v1", "kind": "Node", "name": "node-0"}
    named = {"name": pod["metadata"]["name"], **meta}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": named, "target": target}
    extender.refused("POST", f"{path(pod)}/binding", body, "application/json")
    assert "nodeName" not in pods.now(pod)["spec"]


@pytest.mark.parametrize(
    "annotations",
    [{}, {RELEASE: "b"}, NAMES, BY_OWNER, {RELEASE: "b", "muster.dev/gang": "false"}],
    ids=[
        "of no gang",
        "of no gang, stamped",
        "of a gang, not released",
        "of a gang by its owner, not released",
        "of no gang by its owner, stamped",
    ],
)
def test_nobody_else_is_evicted(extender: Extender, pods: Pods, annotations: dict[str, str]) -> None:
    pods.create(node="node-0", annotations={**NAMES, **STAMPS})  # beside one that could be
    pod = pods.create(node="node-0", annotations=annotations)
    for labels in ({}, {EVICTED_BY: "somebody"}, {EVICTED_BY: "extender"}):
        extender.refused("POST", f"{path(pod)}/eviction", eviction(pod, labels), "application/json")
    assert "deletionTimestamp" not in pods.now(pod)["metadata"]


def test_a_member_is_not_evicted_past_the_policy(extender: Extender, pods: Pods) -> None:
    """Without its label the policy that sees the pod does not check an eviction."""
    pod = pods.create(node="node-0", annotations={**NAMES, **STAMPS})
    extender.refused("POST", f"{path(pod)}/eviction", eviction(pod, {}), "application/json")


def test_no_event_is_written_in_anothers_name(extender: Extender) -> None:
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "forged", "namespace": TEAM},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "kubelet",
        "reportingInstance": "node-0",
        "action": "Killing",
        "type": "Normal",
        "reason": "Killing",
        "regarding": {"kind": "Pod", "namespace": TEAM, "name": "some"},
    }
    extender.refused("POST", f"/apis/events.k8s.io/v1/namespaces/{TEAM}/events", event, "application/json")


def test_the_policies_judge_nobody_else(cluster: Cluster, pods: Pods) -> None:
    """The administrator stands for all other users here."""
    pod = pods.create(node="node-0", annotations=NAMES)
    cluster.api.patch(path(pod), FORBIDDEN_CHANGES["image"], STRATEGIC)
    cluster.api.patch(f"{path(pod)}/status", FORBIDDEN_STATUS["phase"])
    cluster.api.create(f"{path(pod)}/eviction", eviction(pod, {}))
