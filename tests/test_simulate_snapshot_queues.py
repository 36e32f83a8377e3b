"""Snapshots with queue objects, and `muster simulate --snapshot FILE --what-if OBJECTS`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from typer.testing import CliRunner

from extender.cli.simulate import main
from extender.kube.podgroups.volcano import VolcanoGroup
from extender.kube.reading.objects import AnyObject, NodeObject, PodObject
from extender.kube.snapshots.pseudonyms import anonymise
from extender.kube.snapshots.queues import reduced_queue, reduced_volcano_queue
from extender.kube.snapshots.snapshot import ClusterFile, encode, reduced
from tests.snapshots import answers, node, pod, simulate

Tree = dict[str, Any]
GPU = "nvidia.com/gpu"


def cluster_queue(name: str, gpus: int, **spec: Any) -> Tree:
    quota = {"name": GPU, "nominalQuota": gpus} | {key: spec.pop(key) for key in ("lendingLimit",) if key in spec}
    groups = [{"coveredResources": [GPU], "flavors": [{"name": "secret-flavor", "resources": [quota]}]}]
    return queue_object("ClusterQueue", name, cohortName="all", namespaceSelector={}, resourceGroups=groups, **spec)


def queue_object(kind: str, name: str, namespace: str = "", **spec: Any) -> Tree:
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": meta, "spec": spec}


def queued(gang: str, index: int, size: int, queue: str, node: str | None = None) -> Tree:
    pod_tree = pod(gang, index, size, node=node)
    pod_tree["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = queue
    return pod_tree


OBJECTS = [
    queue_object("ResourceFlavor", "secret-flavor", nodeLabels={"nvidia.com/gpu.clique": "rack-a"}),
    cluster_queue("research", 16, lendingLimit=0),
    cluster_queue("production", 16, lendingLimit=0),
    queue_object("LocalQueue", "apollo", "team-vision", clusterQueue="research"),
    queue_object("LocalQueue", "gemini", "team-vision", clusterQueue="production"),
]


def shared() -> ClusterFile:
    """Research uses its 16 GPUs; another gang of it waits although 16 more are free."""
    pods = [queued("runs", index, 2, "apollo", f"gpu-{index}") for index in range(2)]
    pods += [queued("waits", index, 2, "apollo") for index in range(2)]
    return reduced(
        msgspec.convert([node(f"gpu-{number}", "rack-a") for number in range(4)], list[NodeObject]),
        msgspec.convert(pods, list[PodObject]),
        [],
        queues=[reduced_queue(manifest["kind"], "v1beta2", json.dumps(manifest).encode()) for manifest in OBJECTS],
        namespaces=[msgspec.convert({"metadata": {"name": "team-vision"}}, AnyObject)],
    )


def by_past_usage(used: str) -> ClusterFile:
    """Two LocalQueues of a ClusterQueue with quota for one more gang; the first one has used ``used``, the other 50."""

    def local(name: str, much: str) -> Tree:
        past = {"consumedResources": {GPU: much, "hush.example/x": "5"}, "lastUpdate": "2026-07-01T11:00:00Z"}
        sharing = {"weightedShare": 7, "admissionFairSharingStatus": past}
        local_queue = queue_object("LocalQueue", name, "team-vision", clusterQueue="research")
        return local_queue | {"status": {"fairSharing": sharing, "conditions": [{"message": "secret-note"}]}}

    scope = {"admissionMode": "UsageBasedAdmissionFairSharing"}
    objects = [OBJECTS[0], cluster_queue("research", 16, admissionScope=scope)]
    objects += [local("apollo", used), local("gemini", "50")]
    pods = [queued(name, at, 2, queue) for name, queue in (("a", "apollo"), ("b", "gemini")) for at in range(2)]
    return reduced(
        msgspec.convert([node(f"gpu-{number}", "rack-a") for number in range(4)], list[NodeObject]),
        msgspec.convert(pods, list[PodObject]),
        [],
        queues=[reduced_queue(manifest["kind"], "v1beta2", json.dumps(manifest).encode()) for manifest in objects],
        namespaces=[msgspec.convert({"metadata": {"name": "team-vision"}}, AnyObject)],
        taken="2026-07-01T12:00:00Z",
    )


@pytest.mark.parametrize(("used", "starts"), [("0", "a"), ("100", "b")])
def test_who_has_used_less_in_the_past_is_next(tmp_path: Path, used: str, starts: str) -> None:
    settings = tmp_path / "muster.yaml"
    settings.write_text("admission_fair_sharing: {usage_half_life_time_s: 604800}\n")
    for file in (by_past_usage(used), anonymise(by_past_usage(used))):
        assert b"secret-note" not in encode(file)
        assert b"hush" not in encode(anonymise(file))
        _, (verdict,) = simulate(tmp_path, file, "--config", str(settings))
        placed = {answer["gang"]: bool(answer["nodes"]) for answer in verdict["answers"]}
        assert [placed[name] for name in sorted(placed)] == [starts == "a", starts == "b"]


def of_volcano() -> ClusterFile:
    """A gang uses all that its Queue may use; another one waits although room is free. A third belongs to default."""

    def gang(name: str, queue: str, *nodes: str) -> tuple[list[Tree], Tree]:
        pods = [queued(name, index, 2, "", *nodes[index : index + 1]) for index in range(2)]
        for pod_tree in pods:
            pod_tree["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": name}
        meta = {"name": name, "namespace": "team-vision", "uid": f"uid-of-{name}"}
        return pods, {"metadata": meta, "spec": {"minMember": 2, "queue": queue}}

    gangs = gang("runs", "research", "gpu-0", "gpu-1"), gang("waits", "research"), gang("free", "")
    queues: list[Tree] = [
        {"metadata": {"name": "research"}, "spec": {"capability": {GPU: "16"}, "parent": "lab"}},
        {"metadata": {"name": "lab", "labels": {"note": "hush"}}, "spec": {"parent": "root"}},
        {"metadata": {"name": "default"}, "spec": {"weight": 1}, "status": {"state": "Open", "pending": 5}},
    ]
    return reduced(
        msgspec.convert([node(f"gpu-{number}", "rack-a") for number in range(6)], list[NodeObject]),
        msgspec.convert([pod for pods, _ in gangs for pod in pods], list[PodObject]),
        msgspec.convert([group for _, group in gangs], list[VolcanoGroup]),
        queues=[reduced_volcano_queue(json.dumps(queue).encode()) for queue in queues],
    )


def test_the_queues_of_volcano(tmp_path: Path) -> None:
    for file in (of_volcano(), anonymise(of_volcano())):
        assert b"hush" not in encode(file)
        _, (verdict,) = simulate(tmp_path, file)
        waits, free = sorted(verdict["answers"], key=lambda answer: len(answer["nodes"]))
        assert (waits["code"], len(free["nodes"])) == ("NoQuota", 2)
        assert "0 of 16 nvidia.com/gpu are left" in waits["reason"]
    text = encode(anonymise(of_volcano())).decode()
    assert not any(word in text for word in ('"research"', '"lab"'))
    more = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "research"}}
    output, (_, then) = simulate(tmp_path, of_volcano(), "--what-if", written(tmp_path, more))
    assert "What if: Queue research: changed." in output
    assert len(answers(then)["waits"]["nodes"]) == 2


def test_what_is_wrong_with_the_objects_of_what_if_is_told(tmp_path: Path) -> None:
    more = cluster_queue("research", 32, lendingLimit=33, queueingStrategies="StrictFIFO")
    path = written(tmp_path, more, cluster_queue("lab", 1, stopPolicy="Halt"))
    page = tmp_path / "page.html"
    output, _ = simulate(tmp_path, shared(), "--what-if", path, "--html", str(page))
    for warning in (
        "warning: ClusterQueue research: the lendingLimit for nvidia.com/gpu of flavor secret-flavor is more than its",
        "warning: ClusterQueue research: nothing is called spec.queueingStrategies",
        "ClusterQueue lab cannot be used: spec.stopPolicy is ",
    ):
        assert warning in " ".join(output.split())
        assert warning in page.read_text()


def written(tmp_path: Path, *objects: Tree) -> str:
    path = tmp_path / "what-if.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    return str(path)


def test_what_runs_uses_the_quota_of_its_queue(tmp_path: Path) -> None:
    for file in (shared(), anonymise(shared())):
        _, (verdict,) = simulate(tmp_path, file)
        (waits,) = verdict["answers"]
        assert waits["code"] == "NoQuota"
        assert "0 of 16 nvidia.com/gpu are left" in waits["reason"]


def test_nothing_else_of_the_objects_is_written_and_no_name_without_names() -> None:
    noisy = cluster_queue("research", 16) | {"status": {"conditions": [{"message": "hush"}]}}
    noisy["metadata"]["annotations"] = {"note": "hush"}
    assert "hush" not in json.dumps(reduced_queue("ClusterQueue", "v1beta2", json.dumps(noisy).encode()))
    text = encode(anonymise(shared())).decode()
    for word in ("secret-flavor", "research", "production", "apollo", "gemini", "vision", "rack-a", '"all"'):
        assert word not in text, word


def test_more_quota_lets_the_gang_start(tmp_path: Path) -> None:
    more = written(tmp_path, cluster_queue("research", 32, lendingLimit=0))
    output, (before, then) = simulate(tmp_path, shared(), "--what-if", more)
    assert answers(before)["waits"]["nodes"] == {}
    assert sorted(answers(then)["waits"]["nodes"].values()) == ["gpu-2", "gpu-3"]
    assert f"With {more} 1 gang starts that would wait as it is (" in output
    assert "What if: ClusterQueue research: changed." in output
    assert "Would start then" in output


def test_nothing_changes_where_nothing_does(tmp_path: Path) -> None:
    same = written(tmp_path, cluster_queue("research", 16, lendingLimit=0))
    output, _ = simulate(tmp_path, shared(), "--what-if", same)
    assert f"With {same} nothing changes." in output
    assert "Would start then" not in output
    assert output.count("Would wait") == 1


def test_a_queue_that_lends_lets_the_gang_start(tmp_path: Path) -> None:
    lends = written(tmp_path, cluster_queue("production", 16))
    _, (_, then) = simulate(tmp_path, shared(), "--what-if", lends)
    assert answers(then)["waits"]["nodes"]


def test_too_little_more_is_told_beside_the_answer_as_it_is(tmp_path: Path) -> None:
    more = written(tmp_path, cluster_queue("research", 24, lendingLimit=0))
    output, (_, then) = simulate(tmp_path, shared(), "--what-if", more)
    assert "8 of 24 nvidia.com/gpu are left" in answers(then)["waits"]["reason"]
    assert "Would start then: none" in output
    assert "no other gang starts; 1 gang waits for another reason, or with another message (" in output


def test_a_queue_of_another_name_is_said_to_be_new(tmp_path: Path) -> None:
    misspelt = written(tmp_path, cluster_queue("reserch", 64, lendingLimit=0))
    output, (before, then) = simulate(tmp_path, shared(), "--what-if", misspelt)
    assert "ClusterQueue reserch: new" in output
    assert then["answers"] == before["answers"]


@pytest.mark.parametrize(
    ("objects", "told"),
    [
        ("a: [", "this is not YAML"),
        ("kind: Pod\napiVersion: v1", "a 'Pod' of 'v1' is not read here"),
        ("apiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue", "has no name"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(tmp_path: Path, objects: str, told: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(objects)
    (tmp_path / "cluster.json").write_bytes(encode(shared()))
    ended = CliRunner().invoke(main, ["--snapshot", str(tmp_path / "cluster.json"), "--what-if", str(path)])
    assert ended.exit_code == 2
    assert told in " ".join(ended.output.split())
    assert "Traceback" not in ended.output


def test_a_queue_that_points_nowhere_is_why_its_gang_waits(tmp_path: Path) -> None:
    astray = written(tmp_path, queue_object("LocalQueue", "apollo", "team-vision", clusterQueue="nowhere"))
    _, (_, then) = simulate(tmp_path, shared(), "--what-if", astray)
    assert answers(then)["waits"]["code"] == "QueueMissing"
    assert "points to ClusterQueue nowhere, which does not exist" in answers(then)["waits"]["reason"]


def test_other_queues_go_with_a_snapshot_alone(tmp_path: Path) -> None:
    ended = CliRunner().invoke(main, ["--scenario", "x.yaml", "--what-if", "y.yaml"])
    assert ended.exit_code == 2
    assert "--what-if goes with --snapshot" in ended.output
