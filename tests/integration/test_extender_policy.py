"""On a real API server: what the admission policies let the extender's account write, and what they refuse it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster import Cluster
from devcluster.api import Object
from devcluster.muster import install
from extender.core.binds.stamps import RELEASE, RELEASE_COMPLETE
from extender.core.effects import Confirm, Evict, Hint, Nominate, PostBinding, Report, Ungate, Wake
from extender.kube.client import EVICTED_BY
from extender.kube.dialects import NAMES as NAMING_KEYS
from policies.model import GANG_GATE, GroupKey
from tests.integration.extender import STRATEGIC, Extender
from tests.test_extender_policy import STAMPS as BY_BINDINGS

TEAM = "team"
PODS = f"/api/v1/namespaces/{TEAM}/pods"
GROUPS = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{TEAM}/podgroups"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BY_OWNER = {"muster.dev/gang": "true"}
NAMES = {"muster.dev/pod-group": "train", "muster.dev/min-member": "2"}
STAMPS = dict.fromkeys(BY_BINDINGS, "1")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        install(running)
        running.add_nodes(2)
        running.api.create("/api/v1/namespaces", {"metadata": {"name": TEAM}})
        running.api.wait_for(f"/api/v1/namespaces/{TEAM}/serviceaccounts/default", bool)
        yield running


class Pods:
    """Pods of one test, by names of their own."""

    def __init__(self, cluster: Cluster, test: str) -> None:
        self._api = cluster.api
        self._prefix = re.sub(r"[^a-z0-9]+", "-", test.lower()).strip("-")[-50:].strip("-")
        self._count = 0

    def create(self, *, node: str = "", gates: tuple[str, ...] = (), spec: Object | None = None, **meta: Any) -> Object:
        self._count += 1
        containers = [{"name": "main", "image": "train"}]
        gating = {"schedulingGates": [{"name": gate} for gate in gates]} if gates else {}
        named = {"name": f"{self._prefix}-{self._count}", **meta}
        wanted = {"schedulerName": "muster", "containers": containers, **gating, **(spec or {})}
        pod = self._api.create(PODS, {"metadata": named, "spec": wanted})
        if not node:
            return pod
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": named["name"]}, "target": target}
        self._api.create(f"{PODS}/{named['name']}/binding", binding)
        return self.now(pod)

    def now(self, pod: Object) -> Object:
        return self._api.get(path(pod))

    def exists(self, pod: Object) -> bool:
        return any(one["metadata"]["uid"] == pod["metadata"]["uid"] for one in self._api.list(PODS))


@pytest.fixture
def pods(cluster: Cluster, request: pytest.FixtureRequest) -> Pods:
    return Pods(cluster, request.node.name.removeprefix("test_"))


def path(pod: Object) -> str:
    return f"{PODS}/{pod['metadata']['name']}"


def of(pod: Object) -> tuple[str, str, str]:
    return pod["metadata"]["uid"], TEAM, pod["metadata"]["name"]


def eviction(pod: Object, labels: dict[str, str]) -> Object:
    named = {"name": pod["metadata"]["name"], "labels": labels}
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": named}


# What Muster does, by its own code.


def test_its_gate_comes_off_and_those_of_others_stay(extender: Extender, pods: Pods) -> None:
    pod = pods.create(gates=(GANG_GATE, "example.com/quota"), annotations=NAMES)
    extender.write(Ungate(*of(pod)))
    assert pods.now(pod)["spec"]["schedulingGates"] == [{"name": "example.com/quota"}]


@pytest.mark.parametrize(
    "affinity",
    [
        {},
        {"podAffinity": {REQUIRED: [{"topologyKey": "zone", "labelSelector": {}}]}},
        {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}
                ]
            }
        },
    ],
)
def test_the_nodes_that_it_planned_are_pinned(extender: Extender, pods: Pods, affinity: Object) -> None:
    pod = pods.create(gates=(GANG_GATE,), spec={"affinity": affinity} if affinity else None, annotations=NAMES)
    extender.write(Ungate(*of(pod), pin=("node-0", "node-1")))
    spec = pods.now(pod)["spec"]
    assert "schedulingGates" not in spec
    terms = spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert [term["matchFields"][0]["values"] for term in terms] == [["node-0"], ["node-1"]]


def test_a_pod_is_nominated_woken_and_let_go(extender: Extender, pods: Pods) -> None:
    pod = pods.create(annotations=NAMES)
    extender.write(Nominate(*of(pod), node="node-0"))
    assert pods.now(pod)["status"]["nominatedNodeName"] == "node-0"
    for _ in range(2):
        extender.write(Wake(*of(pod)))
    assert "muster.dev/Woken" in {one["type"] for one in pods.now(pod)["status"]["conditions"]}
    extender.write(Nominate(*of(pod), node=None))
    assert "nominatedNodeName" not in pods.now(pod)["status"]


@pytest.mark.parametrize("labels", [{}, {"app": "train"}])
def test_a_pod_that_plugins_have_refused_gets_a_label_and_loses_it(
    extender: Extender, pods: Pods, labels: dict[str, str]
) -> None:
    pod = pods.create(annotations=NAMES, labels=labels)
    for node, more in ("node-0", {"muster.dev/woken": "true"}), (None, {}):
        extender.write(Nominate(*of(pod), node=node, parked=True))
        assert pods.now(pod)["metadata"].get("labels", {}) == {**labels, **more}


def test_a_binding_carries_the_stamps_of_a_release(cluster: Cluster, extender: Extender, pods: Pods) -> None:
    """On a node with a zone the API server adds labels to the Binding."""
    zone = {"topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "b"}
    cluster.api.patch("/api/v1/nodes/node-1", {"metadata": {"labels": zone}})
    for node in ("node-0", "node-1"):
        pod = pods.create(annotations=NAMES)
        effect = PostBinding(*of(pod), node=node, calls=(), deadline=float("inf"), annotations=STAMPS)
        extender.write(effect)
        bound = pods.now(pod)
        assert bound["spec"]["nodeName"] == node
        assert STAMPS.items() <= bound["metadata"]["annotations"].items()


def test_it_is_written_on_a_bound_member_that_its_release_is_whole(extender: Extender, pods: Pods) -> None:
    pod = pods.create(node="node-0", annotations={**NAMES, RELEASE: "b"})
    extender.write(Confirm(*of(pod)))
    assert pods.now(pod)["metadata"]["annotations"][RELEASE_COMPLETE] == "true"
    extender.write(Confirm(*of(pod)))


@pytest.mark.parametrize("key", NAMING_KEYS)
@pytest.mark.parametrize("where", ["annotations", "labels"])
def test_a_member_of_a_gang_is_evicted(extender: Extender, pods: Pods, key: str, where: str) -> None:
    meta: dict[str, Any] = {"annotations": {RELEASE: "b"}}
    meta[where] = {**meta.get(where, {}), key: "train"}
    pod = pods.create(node="node-0", spec={"terminationGracePeriodSeconds": 0}, **meta)
    extender.write(Evict(*of(pod), reason="broken"))
    now = pods.now(pod) if pods.exists(pod) else None
    assert now is None or "deletionTimestamp" in now["metadata"]


@pytest.mark.parametrize("where", ["annotations", "labels"])
def test_a_member_of_a_gang_by_its_owner_is_evicted(extender: Extender, pods: Pods, where: str) -> None:
    meta: dict[str, Any] = {"annotations": {RELEASE: "b"}}
    meta[where] = {**meta.get(where, {}), **BY_OWNER}
    pod = pods.create(node="node-0", spec={"terminationGracePeriodSeconds": 0}, **meta)
    extender.write(Evict(*of(pod), reason="broken"))
    now = pods.now(pod) if pods.exists(pod) else None
    assert now is None or "deletionTimestamp" in now["metadata"]


def test_a_reason_is_told(cluster: Cluster, extender: Extender, pods: Pods) -> None:
    kind = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup"}
    group = cluster.api.create(GROUPS, {**kind, "metadata": {"name": "told"}, "spec": {"minMember": 2}})
    pod = pods.create(labels={"scheduling.x-k8s.io/pod-group": "told"})
    member = (pod["metadata"]["uid"], pod["metadata"]["name"])
    report = Report(GroupKey(TEAM, "told"), group["metadata"]["uid"], member, "NoRoom", "it waits", warning=True)
    extender.write(report)
    assert cluster.api.get(f"{GROUPS}/told")["status"]["phase"] == "Pending"
    events = cluster.api.list(f"/apis/events.k8s.io/v1/namespaces/{TEAM}/events")
    assert {one["regarding"]["kind"] for one in events if one["reason"] == "NoRoom"} == {"Pod", "PodGroup"}


def test_a_hint_is_given(cluster: Cluster, extender: Extender, pods: Pods) -> None:
    pod = pods.create(annotations={"muster.dev/podgroup": "train"})
    extender.write(Hint(*of(pod), message="nothing reads it", owner=None))
    events = cluster.api.list(f"/apis/events.k8s.io/v1/namespaces/{TEAM}/events")
    assert [one["regarding"]["name"] for one in events if one["note"] == "nothing reads it"] == [
        pod["metadata"]["name"]
    ]


# What nobody who holds its token may do.

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
    """Without its label an eviction is not looked at by the policy that sees the pod."""
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
    """The administrator, here in place of everybody."""
    pod = pods.create(node="node-0", annotations=NAMES)
    cluster.api.patch(path(pod), FORBIDDEN_CHANGES["image"], STRATEGIC)
    cluster.api.patch(f"{path(pod)}/status", FORBIDDEN_STATUS["phase"])
    cluster.api.create(f"{path(pod)}/eviction", eviction(pod, {}))


def test_the_api_server_finds_no_fault_with_the_expressions(cluster: Cluster) -> None:
    shipped = [one["metadata"]["name"] for one in documents() if one["kind"] == "ValidatingAdmissionPolicy"]
    assert len(shipped) == 9
    for name in shipped:
        checked = cluster.api.wait_for(f"{POLICIES}/{name}", lambda policy: "typeChecking" in policy.get("status", {}))
        assert "expressionWarnings" not in checked["status"]["typeChecking"], checked["status"]


def documents() -> list[Object]:
    files = (Path(__file__).parents[2] / "manifests" / "base").glob("extender-policy*.yaml")
    return [one for file in files for one in yaml.safe_load_all(file.read_text())]
