"""Snapshots without names are decided as those with them."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from extender.kube.convert import pod_from
from extender.kube.reading.objects import ClaimObject, NodeObject, PodObject, VolumeObject
from extender.kube.reading.topology import LWS_EXCLUSIVE
from extender.kube.snapshots.pseudonyms import anonymise
from extender.kube.snapshots.snapshot import decode, encode, reduced
from extender.kube.snapshots.storage import StorageObjects
from policies.model.storage import NO_PROVISIONER
from tests.snapshots import Tree, answers, crowded, node, pod, simulate, taken

LATE = "WaitForFirstConsumer"


def test_a_snapshot_without_names_is_decided_alike(tmp_path: Path) -> None:
    _, (named,) = simulate(tmp_path, crowded())
    file = crowded()
    file = anonymise(file)
    text = encode(file).decode()
    for word in ("gpu-a", "rack", "team", "vision", "corp", "fits", "lonely", "made-", "0000-"):
        assert word not in text, word
    _, (nameless,) = simulate(tmp_path, file)

    def decisions(verdict: Tree) -> list[tuple[str, int, str]]:
        return sorted((answer["code"], len(answer["nodes"]), answer["reason"]) for answer in verdict["answers"])

    assert decisions(nameless) == decisions(named)
    started = next(answer for answer in nameless["answers"] if answer["nodes"])
    assert sorted(started["nodes"].values()) == ["node-1", "node-2"], "in the order of the names they had"


def test_selectors_affinity_and_claims_still_match_without_names(tmp_path: Path) -> None:
    nodes = [node(f"gpu-{number}", "rack", zone=f"z{number}") for number in range(3)]
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z2"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    pods = [pod("chosen", 0, 1, affinity=affinity), pod("picked", 0, 1, nodeSelector={"zone": "z1"})]
    file = taken(nodes, pods)
    file = anonymise(file)
    _, (verdict,) = simulate(tmp_path, file)
    assert sorted(node for answer in verdict["answers"] for node in answer["nodes"].values()) == ["node-2", "node-3"]


def test_volumes_are_reached_from_the_same_nodes_without_names(tmp_path: Path) -> None:
    nodes = [node(f"gpu-{number}", "rack") for number in range(3)]
    mounts = [{"name": "v", "persistentVolumeClaim": {"claimName": "scratch"}}]
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["gpu-2"]}]}
    local = {"path": "/hush", "fsType": "hush"}
    claim = {"metadata": {"name": "scratch", "namespace": "team-vision", "uid": "c"}, "spec": {"volumeName": "pv-1"}}
    spec = {
        "claimRef": {"namespace": "team-vision", "name": "scratch"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        "local": local,
    }
    volume = {"metadata": {"name": "pv-1", "uid": "v"}, "spec": spec, "status": {"phase": "Bound"}}
    file = reduced(
        nodes=msgspec.convert(nodes, list[NodeObject]),
        pods=msgspec.convert([pod("train", 0, 1, gpus=1, volumes=mounts)], list[PodObject]),
        groups=[],
        claims=msgspec.convert([claim], list[ClaimObject]),
        volumes=msgspec.convert([volume], list[VolumeObject]),
    )
    _, (named,) = simulate(tmp_path, file)
    assert answers(named)["train"]["nodes"] == {"train-0": "gpu-2"}
    file = anonymise(file)
    for word in ("gpu-", "scratch", "pv-1", "vision", "hush"):
        assert word not in encode(file).decode(), word
    _, (nameless,) = simulate(tmp_path, file)
    assert [list(answer["nodes"].values()) for answer in nameless["answers"]] == [["node-3"]]


def test_claims_that_wait_for_a_node_are_planned_as_on_the_cluster(tmp_path: Path) -> None:
    """A gang goes where a volume of its class is free, another one where its driver has capacity left."""
    nodes = [node(f"gpu-{number}", "rack") for number in range(3)]

    def waiting(name: str, storage_class: str) -> tuple[Tree, Tree]:
        mounts = [{"name": "v", "persistentVolumeClaim": {"claimName": f"data-{name}"}}]
        meta = {"name": f"data-{name}", "namespace": "team-vision", "uid": name}
        demand = {"resources": {"requests": {"storage": "10Gi"}}, "accessModes": ["ReadWriteOnce"]}
        spec = {"storageClassName": storage_class, **demand, "selector": {"matchLabels": {"tier": "fast"}}}
        if storage_class != "corp-local":
            del spec["selector"]
        return pod(name, 0, 1, gpus=1, volumes=mounts), {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}}

    def free(number: int, tier: str) -> Tree:
        term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [f"gpu-{number}"]}]}
        return {
            "metadata": {"name": f"pv-{number}", "uid": f"v{number}", "labels": {"tier": tier}},
            "spec": {
                "storageClassName": "corp-local",
                "capacity": {"storage": "20Gi"},
                "accessModes": ["ReadWriteOnce"],
                "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
            },
            "status": {"phase": "Available"},
        }

    classes = [
        {"metadata": {"name": "corp-local"}, "provisioner": NO_PROVISIONER, "volumeBindingMode": LATE},
        {"metadata": {"name": "corp-lvm"}, "provisioner": "lvm.corp.example", "volumeBindingMode": LATE},
    ]
    room = {
        "metadata": {"name": "room-0", "namespace": "corp-storage"},
        "nodeTopology": {"matchLabels": {"kubernetes.io/hostname": "gpu-0"}},
        "storageClassName": "corp-lvm",
        "capacity": "40Gi",
    }
    storage = {
        "classes": classes,
        "csiDrivers": [{"metadata": {"name": "lvm.corp.example"}, "spec": {"storageCapacity": True}}],
        "capacities": [room],
    }
    pods, claims = zip(waiting("local", "corp-local"), waiting("made", "corp-lvm"), strict=True)
    file = reduced(
        nodes=msgspec.convert(nodes, list[NodeObject]),
        pods=msgspec.convert(pods, list[PodObject]),
        groups=[],
        claims=msgspec.convert(claims, list[ClaimObject]),
        volumes=msgspec.convert([free(1, "slow"), free(2, "fast")], list[VolumeObject]),
        storage=msgspec.convert(storage, StorageObjects),
    )
    _, (named,) = simulate(tmp_path, file)
    assert answers(named)["local"]["nodes"] == {"local-0": "gpu-2"}
    assert answers(named)["made"]["nodes"] == {"made-0": "gpu-0"}
    file = anonymise(file)
    for word in ("gpu-", "data-", "pv-", "team-", "corp", "lvm", "fast", "room-"):
        assert word not in encode(file).decode(), word
    _, (nameless,) = simulate(tmp_path, file)
    assert sorted(node for answer in nameless["answers"] for node in answer["nodes"].values()) == ["node-1", "node-3"]


def test_what_pods_demand_of_each_other_still_holds_without_names(tmp_path: Path) -> None:
    nodes = [node(f"gpu-{number}", "rack", **{"corp.example/row": f"row{number // 2}"}) for number in range(4)]
    near = {"topologyKey": "corp.example/row", "labelSelector": {"matchLabels": {"corp.example/app": "vision"}}}
    near["namespaces"] = ["team-vision"]
    wished = {"matchExpressions": [{"key": "corp.example/row", "operator": "In", "values": ["row0"]}]}
    affinity = {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [near],
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": near}],
        },
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": wished}],
        },
    }
    pods = [pod("data", 0, 1, gpus=1, node="gpu-2"), pod("train", 0, 1, gpus=8, affinity=affinity)]
    pods[0]["metadata"]["labels"]["corp.example/app"] = "vision"
    pods[1]["spec"]["containers"][0]["ports"] = [{"containerPort": 1, "hostPort": 80, "hostIP": "10.1.2.3"}]
    file = taken(nodes, pods)
    _, (named,) = simulate(tmp_path, file)
    assert answers(named)["train"]["nodes"] == {"train-0": "gpu-3"}
    file = anonymise(file)
    for word in ("corp", "vision", "row", "10.1.2.3", "hush"):
        assert word not in encode(file).decode(), word
    _, (nameless,) = simulate(tmp_path, file)
    assert [list(answer["nodes"].values()) for answer in nameless["answers"]] == [["node-4"]]


def test_the_levels_of_slices_in_layers_get_the_pseudonyms_of_the_labels() -> None:
    labels = {"corp.example/row": "r", "corp.example/hall": "h"}
    layers = {"muster.dev/slice-size": "2,4", "muster.dev/slice-topology": "corp.example/row,corp.example/hall"}
    sliced = pod("train", 0, 4)
    sliced["metadata"]["annotations"] |= layers
    file = anonymise(taken([node("gpu-1", "rack", **labels)], [sliced]))
    assert file.pods[0].metadata is not None
    levels = (file.pods[0].metadata.annotations or {})["muster.dev/slice-topology"].split(",")
    assert file.nodes[0].metadata is not None
    assert set(levels) <= set(file.nodes[0].metadata.labels or {})
    assert len(set(levels)) == 2


def test_the_levels_of_slices_in_layers_in_kueues_words_have_the_pseudonyms_of_the_labels() -> None:
    labels = {"corp.example/row": "r", "corp.example/hall": "h", "corp.example/pool": "p"}
    key, exclusive = "kueue.x-k8s.io/podset-slice-required-topology-constraints", LWS_EXCLUSIVE
    layers = [{"topology": "corp.example/hall", "size": 4}, {"topology": "corp.example/row", "size": 2}]
    sliced = pod("train", 0, 4)
    sliced["metadata"]["annotations"] |= {key: json.dumps(layers), exclusive: "corp.example/pool"}
    file = anonymise(taken([node("gpu-1", "rack", **labels)], [sliced]))
    assert b"corp.example" not in encode(file)
    assert file.pods[0].metadata is not None
    assert file.nodes[0].metadata is not None
    written = file.pods[0].metadata.annotations or {}
    levels = [layer["topology"] for layer in json.loads(written[key])]
    assert [layer["size"] for layer in json.loads(written[key])] == [4, 2]
    assert {*levels, written[exclusive]} <= set(file.nodes[0].metadata.labels or {})
    assert len({*levels, written[exclusive]}) == 3


def test_an_application_of_yunikorn_is_in_it_under_other_names(tmp_path: Path) -> None:
    groups = json.dumps([{"name": name, "minMember": 1, "minResource": {"secret": 1}} for name in ("driver", "worker")])
    pods = [pod("mpi", index, 2) for index in range(2)]
    for pod_tree, role in zip(pods, ("driver", "worker"), strict=True):
        task_group = {"yunikorn.apache.org/task-group-name": role, "yunikorn.apache.org/task-groups": groups}
        pod_tree["metadata"] |= {"annotations": task_group, "labels": {"applicationId": "mpi"}}
    file = taken([node("a", "r"), node("b", "r")], pods)
    hidden = anonymise(file)
    assert not any(word in encode(hidden) for word in (b"driver", b"mpi", b"secret"))
    for shown in (file, hidden):
        _, (verdict,) = simulate(tmp_path, shown)
        assert len(verdict["answers"][0]["nodes"]) == 2


def test_the_index_of_a_pod_of_a_kind_of_the_settings_is_in_it_under_another_label() -> None:
    pod_tree = pod("train", 0, 2)
    pod_tree["metadata"]["annotations"] |= {
        "muster.dev/podset": "solver",
        "muster.dev/index-label": "corp.example/rank",
    }
    pod_tree["metadata"]["labels"] = {"corp.example/rank": "5", "corp.example/other": "secret"}
    file = taken([node("a", "r")], [pod_tree])
    hidden = anonymise(file)
    assert not any(word in encode(hidden) for word in (b"solver", b"corp.example", b"secret"))
    for shown in (file, hidden):
        (kept,) = decode(encode(shown)).pods
        assert kept.index == 5
        assert kept.series.startswith("1-")


def test_the_group_of_a_job_is_in_it_under_the_pseudonym_of_the_job() -> None:
    maker = {"apiVersion": "batch/v1", "kind": "Job", "name": "hush", "uid": "j", "controller": True}
    groups = "hush-5b9f-hush-pgt-0-x7k2", "hush-group"
    pods = [pod(f"train-{at}", 0, 1, schedulingGroup={"podGroupName": name}) for at, name in enumerate(groups)]
    for pod_tree in pods:
        pod_tree["metadata"]["ownerReferences"] = [maker]
    file = anonymise(taken([node("gpu-0", "rack")], pods))
    assert "hush" not in encode(file).decode()
    members = [pod_from(msgspec.convert(tree, PodObject)) for tree in msgspec.to_builtins(file)["pods"]]
    assert [(bool(member.job_group), bool(member.native_group)) for member in members] == [(True, False), (False, True)]
