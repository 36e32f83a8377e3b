"""On a real API server: the writes of Muster's own code to pods pass the admission policies of its account."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster import Cluster
from devcluster.api import Object
from extender.core.effects import Confirm, Evict, Hint, Nominate, PostBinding, Report, Ungate, Wake
from extender.core.gate.stamps import RELEASE, RELEASE_COMPLETE
from extender.kube.dialects import NAMES as NAMING_KEYS
from policies.model import GANG_GATE, GroupKey
from tests.integration.extender import Extender
from tests.integration.policed import BY_OWNER, GROUPS, NAMES, REQUIRED, STAMPS, TEAM, Pods, of, policed

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with policed() as running:
        yield running


@pytest.fixture
def pods(cluster: Cluster, request: pytest.FixtureRequest) -> Pods:
    return Pods(cluster, request.node.name.removeprefix("test_"))


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


def test_a_pod_is_nominated_woken_and_ungated(extender: Extender, pods: Pods) -> None:
    pod = pods.create(annotations=NAMES)
    extender.write(Nominate(*of(pod), node="node-0"))
    assert pods.now(pod)["status"]["nominatedNodeName"] == "node-0"
    for _ in range(2):
        extender.write(Wake(*of(pod)))
    assert "muster.dev/Woken" in {condition["type"] for condition in pods.now(pod)["status"]["conditions"]}
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
    assert {event["regarding"]["kind"] for event in events if event["reason"] == "NoRoom"} == {"Pod", "PodGroup"}


def test_a_hint_is_given(cluster: Cluster, extender: Extender, pods: Pods) -> None:
    pod = pods.create(annotations={"muster.dev/podgroup": "train"})
    extender.write(Hint(*of(pod), message="nothing reads it", owner=None))
    events = cluster.api.list(f"/apis/events.k8s.io/v1/namespaces/{TEAM}/events")
    assert [event["regarding"]["name"] for event in events if event["note"] == "nothing reads it"] == [
        pod["metadata"]["name"]
    ]


def test_the_api_server_finds_no_fault_with_the_expressions(cluster: Cluster) -> None:
    shipped = [
        document["metadata"]["name"] for document in documents() if document["kind"] == "ValidatingAdmissionPolicy"
    ]
    assert len(shipped) == 10
    for name in shipped:
        checked = cluster.api.wait_for(f"{POLICIES}/{name}", lambda policy: "typeChecking" in policy.get("status", {}))
        assert "expressionWarnings" not in checked["status"]["typeChecking"], checked["status"]


def documents() -> list[Object]:
    files = (Path(__file__).parents[2] / "manifests" / "base").glob("extender-policy*.yaml")
    return [document for file in files for document in yaml.safe_load_all(file.read_text())]
