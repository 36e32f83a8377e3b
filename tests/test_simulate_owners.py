"""Snapshots of gangs that name themselves by their owner: their size and waves are those of the owner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from extender.kube.reading.objects import NodeObject, PodObject
from extender.kube.snapshots.pseudonyms import anonymise
from extender.kube.snapshots.reduction import GangOwnerObject
from extender.kube.snapshots.snapshot import ClusterFile, SnapshotError, decode, encode, reduced
from tests.snapshots import Tree, node, pod, simulate

LEADER, WORKERS = {"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": "8"}


def owned(number: int, kind: str, name: str, **labels: str) -> Tree:
    """A pod with a whole node's GPUs, that this object has made."""
    made = pod("web", number, 1)
    maker = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": f"0000-{name}", "controller": True}
    made["metadata"] |= {"ownerReferences": [maker], "annotations": {}, "labels": {"muster.dev/gang": "true", **labels}}
    return made


def owner(kind: str, **spec: Any) -> Tree:
    about = {"name": "secret-web", "namespace": "team-vision", "uid": "0000-web", "labels": {"owner": "hush"}}
    return {"kind": kind, "metadata": about, "spec": spec}


def template(requests: Tree, **spec: Any) -> Tree:
    container: Tree = {"name": "main", "image": "hush", "env": [{"name": "T", "value": "hush"}]}
    container["resources"] = {"requests": requests}
    return {
        "metadata": {"labels": {"app": "hush"}},
        "spec": {"schedulerName": "muster", "containers": [container], **spec},
    }


def taken(owners: list[Tree], pods: list[Tree], nodes: int) -> ClusterFile:
    for pod_tree in pods:
        pod_tree["spec"]["tolerations"] = [{"operator": "Exists"}]
    return reduced(
        nodes=msgspec.convert([node(f"gpu-{number}", "rack") for number in range(nodes)], list[NodeObject]),
        pods=msgspec.convert(pods, list[PodObject]),
        groups=[],
        owners=msgspec.convert(owners, list[GangOwnerObject]),
    )


def asked(tmp_path: Path, file: ClusterFile) -> tuple[int, int, str]:
    """How many of how many members start, with names and without, or the reason why none does."""
    outcomes = []
    for shown in (file, anonymise(file)):
        assert b"hush" not in encode(shown)
        _, (verdict,) = simulate(tmp_path, shown)
        (answer,) = verdict["answers"]
        outcomes.append((len(answer["nodes"]), answer["members"], answer["code"]))
    assert b"secret-web" not in encode(anonymise(file))
    assert outcomes[0] == outcomes[1]
    return outcomes[0]


BY_DEPLOYMENT = [owned(n, "ReplicaSet", "secret-web-5d9f", **{"pod-template-hash": "5d9f"}) for n in range(2)]
BY_DEPLOYMENT.append(owned(2, "ReplicaSet", "secret-web-7c2", **{"pod-template-hash": "7c2"}))


@pytest.mark.parametrize(
    ("kind", "pods"),
    [
        ("StatefulSet", [owned(n, "StatefulSet", "secret-web") for n in range(3)]),
        ("ReplicaSet", [owned(n, "ReplicaSet", "secret-web", **{"pod-template-hash": "5d9f"}) for n in range(3)]),
        ("Deployment", BY_DEPLOYMENT),
    ],
)
def test_as_many_start_together_as_the_owner_wants(tmp_path: Path, kind: str, pods: list[Tree]) -> None:
    wanted = owner(kind, replicas=3, podManagementPolicy="Parallel", template=template(WORKERS))
    assert asked(tmp_path, taken([wanted], pods, nodes=3)) == (3, 3, "Running")
    assert asked(tmp_path, taken([wanted], pods, nodes=2)) == (0, 3, "NoRoom")
    assert asked(tmp_path, taken([wanted], pods[:2], nodes=3)) == (0, 2, "MembersMissing")


def test_the_first_pod_of_a_set_in_order_starts_if_all_have_room(tmp_path: Path) -> None:
    wanted = owner("StatefulSet", replicas=3, template=template(WORKERS, tolerations=[{"operator": "Exists"}]))
    first = owned(0, "StatefulSet", "secret-web", **{"apps.kubernetes.io/pod-index": "0"})
    assert asked(tmp_path, taken([wanted], [first], nodes=3)) == (1, 3, "Running")
    assert asked(tmp_path, taken([wanted], [first], nodes=2)) == (0, 3, "NoRoom")


def test_the_leader_of_a_group_starts_if_its_workers_have_room(tmp_path: Path) -> None:
    made_of = {
        "size": 3,
        "leaderTemplate": template(LEADER, tolerations=[{"operator": "Exists"}]),
        "workerTemplate": template(WORKERS, tolerations=[{"operator": "Exists"}]),
    }
    wanted = owner("LeaderWorkerSet", replicas=2, startupPolicy="LeaderReady", leaderWorkerTemplate=made_of)
    names = {"name": "secret-web", "group-index": "0", "worker-index": "0"}
    labels = {f"leaderworkerset.sigs.k8s.io/{key}": value for key, value in names.items()}
    leader = owned(0, "StatefulSet", "secret-web", **labels)
    leader["metadata"]["annotations"] = {"leaderworkerset.sigs.k8s.io/size": "3"}
    leader["spec"]["containers"][0]["resources"] = {"requests": LEADER, "limits": LEADER}
    assert asked(tmp_path, taken([wanted], [leader], nodes=3)) == (1, 3, "Running")
    assert asked(tmp_path, taken([wanted], [leader], nodes=2)) == (0, 3, "NoRoom")


def test_what_the_templates_of_an_owner_select_by_is_in_it() -> None:
    near = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"team": "a"}}}
    spec = template(WORKERS, affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}})
    single = pod("single", 0, 1)
    single["metadata"]["labels"] = {"team": "a", "other": "hush"}
    (kept_pod,) = taken([owner("StatefulSet", template=spec)], [single], nodes=1).pods
    assert kept_pod.metadata is not None
    assert kept_pod.metadata.labels == {"team": "a"}


def test_a_set_of_another_scheduler_can_be_tried_with_muster(tmp_path: Path) -> None:
    other = template(WORKERS, schedulerName="default-scheduler", tolerations=[{"operator": "Exists"}])
    first = owned(0, "StatefulSet", "secret-web", **{"apps.kubernetes.io/pod-index": "0"})
    first["spec"]["schedulerName"] = "default-scheduler"
    file = taken([owner("StatefulSet", replicas=2, template=other)], [first], nodes=2)
    _, (verdict,) = simulate(tmp_path, file, "--scheduler-name", "default-scheduler")
    (answer,) = verdict["answers"]
    assert (len(answer["nodes"]), answer["members"]) == (1, 2)


def test_an_owner_of_an_unknown_kind_or_without_a_name_is_left_out(tmp_path: Path) -> None:
    nameless = owner("StatefulSet", replicas=1)
    del nameless["metadata"]["name"]
    output, _ = simulate(tmp_path, taken([owner("DaemonSet"), nameless], [], nodes=1))
    assert "left out: no pods of a 'DaemonSet' are a gang" in output
    assert "left out: the StatefulSet lacks its name, namespace or UID" in output


def test_an_owner_that_is_no_object_makes_no_snapshot() -> None:
    content = encode(taken([owner("StatefulSet", replicas=3)], [], nodes=1))
    with pytest.raises(SnapshotError, match=r"Expected `int \| null`"):
        decode(content.replace(b'"replicas": 3', b'"replicas": "three"'))
