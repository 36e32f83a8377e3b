"""Snapshots: the content of the file, and the answers of `muster simulate --snapshot` about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from extender.kube.podgroups.coscheduling import KoordinatorGroup
from extender.kube.podgroups.kai import KaiGroup
from extender.kube.podgroups.volcano import VolcanoGroup
from extender.kube.reading.budgets import BudgetObject
from extender.kube.reading.objects import NodeObject, PodObject
from extender.kube.snapshots.pseudonyms import anonymise
from extender.kube.snapshots.snapshot import ClusterFile, SnapshotError, decode, encode, reduced
from tests.snapshots import Tree, answers, crowded, node, pod, simulate, taken


def test_it_says_what_starts_where_and_what_waits_and_why(tmp_path: Path) -> None:
    output, (verdict,) = simulate(tmp_path, crowded())
    by_gang = answers(verdict)
    assert by_gang["fits"]["nodes"] == {"fits-0": "gpu-a0", "fits-1": "gpu-a1"}
    assert by_gang["fits"]["domains"] == ["rack-a"]
    assert by_gang["large"]["code"] == "NoRoom"
    assert "1 of 3 members fit at once" in by_gang["large"]["reason"]
    assert by_gang["lonely"]["code"] == "MembersMissing"
    assert "1 gang runs, 3 gangs wait" in output


def test_pods_of_other_schedulers_that_wait_are_told_with_how_they_are_taken(tmp_path: Path) -> None:
    notice = (
        "2 pods wait for another schedulerName: koord-scheduler (2); --scheduler-name NAME asks what Muster would do"
    )
    pods = [pod("theirs", 0, 2), pod("theirs", 1, 2), pod("ours", 0, 1)]
    for pod_tree in pods[:2]:
        pod_tree["spec"]["schedulerName"] = "koord-scheduler"
    file = taken([node("gpu-0", "rack"), node("gpu-1", "rack")], pods)
    output, (verdict,) = simulate(tmp_path, file)
    assert notice in output
    assert set(answers(verdict)) == {"ours"}
    output, _ = simulate(tmp_path, file, "--scheduler-name", "koord")
    assert "3 pods wait for another schedulerName: koord-scheduler (2), muster (1); " in output
    output, (verdict,) = simulate(tmp_path, file, "--scheduler-name", "koord-scheduler", "--scheduler-name", "muster")
    assert "another schedulerName" not in output
    assert set(answers(verdict)) == {"ours", "theirs"}


def test_the_same_is_on_a_page(tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    simulate(tmp_path, crowded(), "--html", str(out))
    page = out.read_text()
    for text in ("1 gang runs, 3 gangs wait", "team-vision/large", "1 of 3 members fit at once"):
        assert text in page


def outranked(priority: int = 100) -> ClusterFile:
    """A cluster on which a gang that Muster has started an hour ago has all room, and one of that priority waits.

    Another gang of the same hour has a node of its own.
    """
    low, other = pod("low", 0, 1, node="gpu-0"), pod("other", 0, 1, node="gpu-1", priority=1000)
    for pod_tree in (low, other):
        stamp = {"gang-uid": "g", "release": f"r-{pod_tree['metadata']['name']}", "release-complete": "true"}
        stamp |= {"release-quorum": "1", "released-at": "2026-08-01T10:00:00Z"}
        pod_tree["metadata"]["annotations"] |= {f"muster.dev/{key}": value for key, value in stamp.items()}
    file = taken([node("gpu-0", "rack"), node("gpu-1", "rack")], [low, other, pod("high", 0, 1, priority=priority)])
    file.taken = "2026-08-01T11:00:00+00:00"
    return file


@pytest.mark.parametrize("hidden", [False, True])
def test_it_says_who_would_give_way_to_those_that_wait(tmp_path: Path, *, hidden: bool) -> None:
    file = anonymise(outranked()) if hidden else outranked()
    output, (verdict,) = simulate(tmp_path, file)
    (answer,) = verdict["answers"]
    assert answer["code"] == "NoRoom"
    assert len(answer["victims"]) == 1
    assert hidden or answer["victims"] == ["team-vision/low"]
    # Since its start, an hour before the snapshot.
    assert answer["preemption"].endswith("would be evicted for it; 8.0 device-hours would be lost")
    assert "What would be evicted" in output


@pytest.mark.parametrize("hidden", [False, True])
def test_a_budget_protects_those_that_it_counts(tmp_path: Path, *, hidden: bool) -> None:
    alone = pod("alone", 0, 1, node="gpu-0")
    alone["metadata"] |= {"labels": {"corp.example/app": "web", "owner": "hush"}, "annotations": {}}
    spec = {"selector": {"matchLabels": {"corp.example/app": "web"}}}
    for allowed, victims in ((0, 0), (1, 1)):
        status = {"disruptionsAllowed": allowed, "observedGeneration": 1, "currentHealthy": 7}
        meta: Tree = {"name": "web", "namespace": "team-vision", "uid": "0000-web", "generation": 1}
        meta["annotations"] = {"corp.example/note": "hush"}
        budget = msgspec.convert({"metadata": meta, "spec": spec, "status": status}, BudgetObject)
        file = taken([node("gpu-0", "rack")], [alone, pod("high", 0, 1, priority=100)], budgets=[budget])
        text = encode(file := anonymise(file) if hidden else file).decode()
        assert "hush" not in text
        assert not (hidden and ("web" in text or "corp" in text))
        _, (verdict,) = simulate(tmp_path, file)
        (answer,) = verdict["answers"]
        assert len(answer["victims"]) == victims
        assert victims or "does not let all of its pods go" in answer["preemption"]


def test_it_says_why_nobody_would_give_way(tmp_path: Path) -> None:
    _, (verdict,) = simulate(tmp_path, outranked(priority=0))
    (answer,) = verdict["answers"]
    assert answer["victims"] == []
    assert answer["preemption"].startswith("nothing would be evicted for it: 0 of 1 members fit at once")
    assert "2 candidates may not: priority is not lower" in answer["preemption"]


def test_the_age_of_those_who_run_is_that_of_the_snapshot(tmp_path: Path) -> None:
    settings = tmp_path / "muster.yaml"
    for least, victims in ((3000, 1), (4000, 0)):
        settings.write_text(f"preemption_min_runtime_s: {least}\n")
        _, (verdict,) = simulate(tmp_path, outranked(), "--config", str(settings))
        assert len(verdict["answers"][0]["victims"]) == victims


def test_only_what_decides_is_written() -> None:
    text = encode(crowded()).decode()
    assert "hush" not in text
    for word in ("env", "image", "command", "secret", "last-applied"):
        assert f'"{word}' not in text


def test_another_setting_shows_what_it_changes(tmp_path: Path) -> None:
    nodes = [node(f"gpu-{number}", f"clique-{number}", **{"corp.example/row": "one"}) for number in range(2)]
    pods = [pod("wide", index, 2) for index in range(2)]
    for pod_tree in pods:
        pod_tree["metadata"]["annotations"]["muster.dev/required-topology"] = "corp.example/row"
    file = taken(nodes, pods)
    output, (before, after) = simulate(tmp_path, file, "--policy", "topology_levels=[corp.example/row]")
    assert answers(before)["wide"]["nodes"] == {}
    assert sorted(answers(after)["wide"]["nodes"].values()) == ["gpu-0", "gpu-1"]
    assert (
        "With topology_levels=[corp.example/row] 1 gang starts that would wait as it is (team-vision/wide)." in output
    )
    assert "Changed by muster, topology_levels=[corp.example/row]" in output
    assert "waits: UnknownTopology" in output


def test_pods_of_another_scheduler_can_be_tried_with_muster(tmp_path: Path) -> None:
    file = taken([node("gpu-0", "rack")], [pod("train", 0, 1, schedulerName="default-scheduler")])
    _, (verdict,) = simulate(tmp_path, file)
    assert verdict["answers"] == []
    _, (verdict,) = simulate(tmp_path, file, "--scheduler-name", "default-scheduler")
    assert answers(verdict)["train"]["nodes"] == {"train-0": "gpu-0"}


def test_gangs_with_a_pod_group_object_take_their_size_from_it(tmp_path: Path) -> None:
    group = {"metadata": {"name": "mpi", "namespace": "team-vision", "uid": "u"}, "spec": {"minMember": 2}}
    pods = [pod("mpi", index, 2) for index in range(2)]
    for pod_tree in pods:
        pod_tree["metadata"]["annotations"] = {}
        pod_tree["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "mpi"}
    named = taken([node("a", "r"), node("b", "r")], pods, [group])
    for file in (named, anonymise(named)):
        _, (verdict,) = simulate(tmp_path, file)
        assert len(verdict["answers"][0]["nodes"]) == 2


@pytest.mark.parametrize(
    ("kind", "spec", "said"),
    [
        (
            VolcanoGroup,
            {"minTaskMember": {"driver": 1, "worker": 1}, "networkTopology": {"mode": "hard", "highestTierAllowed": 1}},
            {"annotations": {"scheduling.k8s.io/group-name": "mpi", "volcano.sh/task-spec": "{role}"}},
        ),
        (
            KoordinatorGroup,
            {"minMember": 2},
            {"labels": {"pod-group.scheduling.sigs.k8s.io": "mpi"}},
        ),
        (
            KaiGroup,
            {"subGroups": [{"name": role, "minMember": 1} for role in ("driver", "worker")]},
            {"annotations": {"pod-group-name": "mpi"}, "labels": {"kai.scheduler/subgroup-name": "{role}"}},
        ),
    ],
)
def test_podgroups_of_other_projects_are_in_it(tmp_path: Path, kind: Any, spec: Tree, said: Tree) -> None:
    theirs = {"metadata": {"name": "mpi", "namespace": "team-vision", "uid": "u"}, "spec": spec}
    pods = [pod("mpi", index, 2) for index in range(2)]
    for pod_tree, role in zip(pods, ("worker", "driver"), strict=True):
        pod_tree["metadata"] |= {
            where: {k: v.format(role=role) for k, v in keys.items()} for where, keys in said.items()
        }
    nodes = [msgspec.convert(node(name, "r"), NodeObject) for name in "ab"]
    file = reduced(nodes, [msgspec.convert(tree, PodObject) for tree in pods], [msgspec.convert(theirs, kind)])
    hidden = anonymise(file)
    assert not any(word in encode(hidden) for word in (b"driver", b"mpi"))
    for shown in (file, hidden):
        assert [group.min_member for group in decode(encode(shown)).groups] == [2]
        _, (verdict,) = simulate(tmp_path, shown)
        assert len(verdict["answers"][0]["nodes"]) == 2


TOO_DEEP = b'{"kind": "ClusterSnapshot", "nodes": [], "pods": [], "x": ' + b"[" * 5000 + b"]" * 5000 + b"}"


@pytest.mark.parametrize("content", [b"", b"{}", b'{"kind": "List"}', b"\xff\xfe", TOO_DEEP])
def test_what_is_no_snapshot_is_refused(content: bytes) -> None:
    with pytest.raises(SnapshotError, match="this is not a snapshot"):
        decode(content)


def test_a_snapshot_of_another_version_is_refused() -> None:
    content = encode(crowded()).replace(b"muster.dev/v1", b"muster.dev/v7")
    with pytest.raises(SnapshotError, match=r"a snapshot of 'muster\.dev/v7', and not of"):
        decode(content)


def test_a_snapshot_that_was_cut_off_or_edited_into_nonsense_is_refused() -> None:
    content = encode(crowded())
    with pytest.raises(SnapshotError, match="truncated"):
        decode(content[:-100])
    with pytest.raises(SnapshotError, match="two pods have the UID 0000-large-0"):
        decode(content.replace(b"0000-large-1", b"0000-large-0"))
    with pytest.raises(SnapshotError, match="two nodes are called gpu-a0"):
        decode(content.replace(b"gpu-a1", b"gpu-a0"))


def test_an_object_that_cannot_be_read_is_left_out_and_named(tmp_path: Path) -> None:
    broken = node("odd", "rack")
    broken["status"]["allocatable"]["cpu"] = "lots"
    output, (verdict,) = simulate(tmp_path, taken([broken, node("good", "rack")], [pod("train", 0, 1)]))
    assert "left out: the allocatable" in output
    assert answers(verdict)["train"]["nodes"] == {"train-0": "good"}
