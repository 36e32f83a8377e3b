"""Gangs whose members mount volumes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from policies.model import GANG_GATE
from tests.integration.stage import RealStage
from tests.integration.starts import per_node, started, started_at_once
from tests.scenarios.pods import bound, gang, pod
from tests.scenarios.stage import Object

pytestmark = pytest.mark.xdist_group("relations")
VOLUMES, CSI_NODES = "/api/v1/persistentvolumes", "/apis/storage.k8s.io/v1/csinodes"
STORAGE = "/apis/storage.k8s.io/v1/storageclasses"
DRIVER = "volumes.example.com"
ZONE, SELECTED = "topology.kubernetes.io/zone", "volume.kubernetes.io/selected-node"
GATES = pytest.mark.parametrize("gates", [(GANG_GATE,), ()], ids=["gated", "ungated"])


class Storage:
    """Volumes and claims for the pods of a stage; the volumes are gone afterwards."""

    def __init__(self, stage: RealStage) -> None:
        self._stage = stage
        self._made: list[str] = []
        self._class = ""

    def limit(self, nodes: list[str], count: int) -> None:
        """Let each of these nodes take at most ``count`` volumes of the driver."""
        for node in nodes:
            drivers = [{"name": DRIVER, "nodeID": node, "topologyKeys": [], "allocatable": {"count": count}}]
            self._stage.api.create(CSI_NODES, {"metadata": {"name": node}, "spec": {"drivers": drivers}})
            self._made.append(f"{CSI_NODES}/{node}")

    def wait_for_consumers(self, provisioner: str = "kubernetes.io/no-provisioner", **more: Any) -> None:
        """Let claims be bound when a pod comes, in a class of local volumes without a provisioner."""
        self._class = self._stage.namespace
        how = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
        self._stage.api.create(STORAGE, {"metadata": {"name": self._class}} | how | more)
        self._made.append(f"{STORAGE}/{self._class}")

    def mount(self, one: Object, **source: Object) -> None:
        """Mount a volume of its own into the pod, by a claim that is bound to it."""
        claim = f"data-{one['metadata']['name']}"
        path = self.claim(one, self.offer(claim, **source))
        self._stage.api.wait_for(path, lambda obj: obj and obj.get("status", {}).get("phase") == "Bound")

    def claim(self, one: Object, volume: str) -> str:
        """A claim of the pod that names this volume; returns its path."""
        claim = f"data-{one['metadata']['name']}"
        claims = f"/api/v1/namespaces/{self._stage.namespace}/persistentvolumeclaims"
        self._stage.api.create(claims, {"metadata": {"name": claim}, "spec": self._asked() | {"volumeName": volume}})
        one["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
        return f"{claims}/{claim}"

    def free(self, node: str, number: int = 0) -> str:
        """A local volume of that node for any claim."""
        name = f"{node}-{number}"
        spec = self._common() | {"capacity": {"storage": "1Gi"}} | on(node)
        self._stage.api.create(VOLUMES, {"metadata": {"name": name}, "spec": spec})
        self._made.append(f"{VOLUMES}/{name}")
        return name

    def provision(self, count: int) -> None:
        """Provision volumes as a provisioner does.

        Wait until kube-scheduler has chosen nodes for ``count`` claims, and make a volume in the zone of each.
        """
        path = f"/api/v1/namespaces/{self._stage.namespace}/persistentvolumeclaims"

        def waiting(claims: list[Object]) -> list[Object]:
            unbound = (claim for claim in claims if not claim["spec"].get("volumeName"))
            return [claim for claim in unbound if SELECTED in claim["metadata"].get("annotations", {})]

        for volume_claim in waiting(self._stage.api.wait_for(path, lambda claims: len(waiting(claims)) == count)):
            node = self._stage.api.get(f"/api/v1/nodes/{volume_claim['metadata']['annotations'][SELECTED]}")
            term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [node["metadata"]["labels"][ZONE]]}]}
            where = {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}
            disk = {"csi": {"driver": DRIVER, "volumeHandle": volume_claim["metadata"]["name"]}}
            self.offer(volume_claim["metadata"]["name"], **disk, **where)

    def offer(self, claim: str, **source: Object) -> str:
        """A volume for this claim alone, whether or not that is there."""
        name = f"{self._stage.namespace}-{claim}"
        whose = {"claimRef": {"namespace": self._stage.namespace, "name": claim}, "capacity": {"storage": "1Gi"}}
        source = source or {"csi": {"driver": DRIVER, "volumeHandle": name}}
        self._stage.api.create(VOLUMES, {"metadata": {"name": name}, "spec": self._common() | whose | source})
        self._made.append(f"{VOLUMES}/{name}")
        return name

    def replicate(self, name: str, pods: list[Object], *, in_order: bool = False) -> None:
        """A StatefulSet that makes these pods, all at once, with a claim ``data-...`` for each. ``in_order``: one after
        the other, as the gang of their owner."""
        meta, spec = {"annotations": pods[0]["metadata"]["annotations"], "labels": {"app": name}}, pods[0]["spec"]
        asks = {"labels": {"muster.dev/gang": "true"}} if in_order else {}
        if in_order:
            meta = {"labels": {"app": name, "muster.dev/gang": "true"}}
        home = {"schedulerName": "muster", "nodeSelector": {"stage": self._stage.namespace}}
        wanted = {
            "serviceName": name,
            "replicas": len(pods),
            "podManagementPolicy": "OrderedReady" if in_order else "Parallel",
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": meta, "spec": home | spec},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": self._asked()}],
        }
        sets = f"/apis/apps/v1/namespaces/{self._stage.namespace}/statefulsets"
        self._stage.api.create(sets, {"metadata": {"name": name} | asks, "spec": wanted})
        self._made.append(f"{sets}/{name}")

    def _common(self) -> Object:
        return {"accessModes": ["ReadWriteOnce"], "storageClassName": self._class}

    def _asked(self) -> Object:
        return self._common() | {"resources": {"requests": {"storage": "1Gi"}}}

    def clear(self) -> None:
        for path in self._made:
            self._stage.api.delete(path)


@pytest.fixture
def storage(stage: RealStage) -> Iterator[Storage]:
    made = Storage(stage)
    yield made
    made.clear()


def on(node: str) -> Object:
    """A local volume of that node."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    return {"local": {"path": "/data"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}


def with_volumes(storage: Storage, pods: list[Object]) -> list[Object]:
    for obj in pods:
        storage.mount(obj)
    return pods


def test_a_node_that_takes_two_volumes_is_planned_with_two_members(stage: RealStage, storage: Storage) -> None:
    """Muster does not know of such limits: it learns them from refusals of kube-scheduler."""
    storage.limit(stage.add_nodes(2), 2)
    stage.create_all(with_volumes(storage, gang("train", 4, gpus=1)))
    assert per_node(started(stage, "train", 4)) == [2, 2]


def test_a_gang_that_kube_schedulers_plugins_refuse_everywhere_lets_others_start(
    stage: RealStage, storage: Storage
) -> None:
    storage.limit(stage.add_nodes(2), 0)
    stage.create_all(with_volumes(storage, gang("stubborn", 2)))
    assert "exceed max volume count" in stage.until_noted("stubborn", "Refused")
    stage.create(*gang("others", 2))
    assert per_node(started(stage, "others", 2)) == [1, 1]


def test_members_start_where_their_local_volumes_are(stage: RealStage, storage: Storage) -> None:
    nodes = stage.add_nodes(8)
    pods = gang("train", 4, gpus=2)
    for obj in pods:
        storage.mount(obj, **on(nodes[5]))
    stage.create_all(pods)
    assert per_node(started(stage, "train", 4)) == [4]
    assert {member.node for member in bound(stage.pods(), "train")} == {nodes[5]}


@GATES
def test_members_start_where_the_volume_of_each_is(stage: RealStage, storage: Storage, gates: Sequence[str]) -> None:
    nodes = stage.add_nodes(8)
    storage.wait_for_consumers()  # a claim that names its volume is bound at once all the same
    homes = dict(zip([f"train-{index}" for index in range(4)], [nodes[at] for at in (5, 2, 7, 5)], strict=True))
    pods = gang("train", 4, gpus=1, gates=gates)
    for obj in pods:
        storage.mount(obj, **on(homes[obj["metadata"]["name"]]))
    stage.create_all(pods)
    assert {member.name: member.node for member in started_at_once(stage, "train", 4)} == homes


def test_a_statefulset_starts_where_the_volumes_of_its_claims_are(stage: RealStage, storage: Storage) -> None:
    """The claims of a StatefulSet cannot name volumes, but volumes can name its claims."""
    nodes = stage.add_nodes(4)
    storage.wait_for_consumers()
    homes = {"train-0": nodes[3], "train-1": nodes[1]}
    for name, node in homes.items():
        storage.offer(f"data-{name}", **on(node))
    storage.replicate("train", gang("train", 2, gpus=1))
    assert {member.name: member.node for member in started_at_once(stage, "train", 2)} == homes


def test_a_claim_that_names_a_volume_is_waited_for_until_it_has_it(stage: RealStage, storage: Storage) -> None:
    stage.add_nodes(1)
    (member,) = pods = gang("train", 1)
    storage.claim(member, f"{stage.namespace}-data-train-0")
    stage.create_all(pods)
    report = stage.until_told("train", lambda seen: seen.state not in ("New", "MembersMissing"))
    assert (report.state, "data-train-0" in report.message) == ("VolumeNotBound", True)
    storage.offer("data-train-0")
    started_at_once(stage, "train", 1)


@GATES
def test_volumes_on_full_nodes_are_told_and_hold_up_nobody(
    stage: RealStage, storage: Storage, gates: Sequence[str]
) -> None:
    nodes = stage.add_nodes(4)
    stage.create(pod("other", gpus=8, nodeName=nodes[1]))
    pods = gang("stuck", 2, gpus=1, gates=gates)
    for obj, node in zip(pods, nodes, strict=False):
        storage.mount(obj, **on(node))
    stage.create_all(pods)
    report = stage.until_told("stuck", lambda seen: seen.state not in ("New", "MembersMissing"))
    assert report.state == "NoRoom"
    assert "3 nodes do not reach its volumes" in report.message
    for number in range(3):
        stage.create_all(gang(f"next-{number}", 4, gpus=1, gates=gates))
        started_at_once(stage, f"next-{number}", 4)
    assert not bound(stage.pods(), "stuck")


def test_one_that_no_node_takes_whole_says_why_and_holds_up_nobody(stage: RealStage, storage: Storage) -> None:
    storage.limit(stage.add_nodes(2), 1)
    stage.create_all(with_volumes(storage, gang("stuck", 3, gpus=1)))
    report = stage.until_told("stuck", lambda seen: seen.state == "Refused")
    assert "exceed max volume count" in report.message
    for number in range(3):
        stage.create_all(gang(f"next-{number}", 2, gpus=2))
        started(stage, f"next-{number}", 2)
    assert not bound(stage.pods(), "stuck")


def test_a_statefulset_starts_on_free_local_volumes_and_the_next_waits_for_them(
    stage: RealStage, storage: Storage
) -> None:
    nodes = stage.add_nodes(4)
    storage.wait_for_consumers()
    for at, node in enumerate((nodes[3], nodes[3], nodes[1])):
        storage.free(node, at)
    storage.replicate("train", gang("train", 3, gpus=1))
    pods = started_at_once(stage, "train", 3)
    assert Counter(member.node for member in pods) == {nodes[3]: 2, nodes[1]: 1}
    storage.replicate("next", gang("next", 1, gpus=1))
    report = stage.until_told("next", lambda seen: seen.state not in ("New", "MembersMissing"))
    assert (report.state, "data-next-0" in report.message) == ("NoRoom", True)
    assert f"StorageClass {stage.namespace}" in report.message
    storage.free(nodes[0], 3)
    assert [member.node for member in started_at_once(stage, "next", 1)] == [nodes[0]]


def test_a_statefulset_that_makes_its_pods_in_order_starts_when_there_are_volumes_for_all(
    stage: RealStage, storage: Storage
) -> None:
    nodes = stage.add_nodes(4)
    storage.wait_for_consumers()
    storage.free(nodes[2])
    storage.replicate("train", gang("train", 2, gpus=1), in_order=True)
    gang_of_set = "statefulset-train"
    report = stage.until_told(gang_of_set, lambda seen: seen.state not in ("New", "MembersMissing"))
    assert (report.state, "StorageClass" in report.message) == ("NoRoom", True)
    storage.free(nodes[1])
    pods = started_at_once(stage, gang_of_set, 2)
    assert sorted(member.node or "" for member in pods) == sorted((nodes[1], nodes[2]))


def test_a_statefulset_starts_in_the_zone_of_its_volumes_and_comes_back_to_them(
    stage: RealStage, storage: Storage
) -> None:
    """A provisioner makes a volume where kube-scheduler says; pods that are made again find it there."""
    zones = {zone: stage.add_nodes(2, labels={ZONE: zone}) for zone in ("a", "b")}
    term = {"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]}
    storage.wait_for_consumers(DRIVER, allowedTopologies=[term])
    storage.replicate("train", gang("train", 2, gpus=8))
    storage.provision(2)
    homes = {member.name: member.node for member in started_at_once(stage, "train", 2)}
    assert sorted(node or "" for node in homes.values()) == sorted(zones["b"])
    stage.delete("train-0", "train-1")
    again = stage.until(lambda pods: len([member for member in bound(pods, "train") if member.live]) == 2)
    assert {member.node for member in bound(again, "train") if member.live} == set(zones["b"])
