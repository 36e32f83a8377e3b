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
    said, (verdict,) = simulate(tmp_path, crowded())
    found = answers(verdict)
    assert found["fits"]["nodes"] == {"fits-0": "gpu-a0", "fits-1": "gpu-a1"}
    assert found["fits"]["domains"] == ["rack-a"]
    assert found["large"]["code"] == "NoRoom"
    assert "1 of 3 members fit at once" in found["large"]["reason"]
    assert found["lonely"]["code"] == "MembersMissing"
    assert "1 gang runs, 3 gangs wait" in said


def test_pods_of_other_schedulers_that_wait_are_told_with_how_they_are_taken(tmp_path: Path) -> None:
    told = "2 pods wait for another schedulerName: koord-scheduler (2); --scheduler-name NAME asks what Muster would do"
    pods = [pod("theirs", 0, 2), pod("theirs", 1, 2), pod("ours", 0, 1)]
    for one in pods[:2]:
        one["spec"]["schedulerName"] = "koord-scheduler"
    file = taken([node("gpu-0", "rack"), node("gpu-1", "rack")], pods)
    said, (verdict,) = simulate(tmp_path, file)
    assert told in said
    assert set(answers(verdict)) == {"ours"}
    said, _ = simulate(tmp_path, file, "--scheduler-name", "koord")
    assert "3 pods wait for another schedulerName: koord-scheduler (2), muster (1); " in said
    said, (verdict,) = simulate(tmp_path, file, "--scheduler-name", "koord-scheduler", "--scheduler-name", "muster")
    assert "another schedulerName" not in said
    assert set(answers(verdict)) == {"ours", "theirs"}


def test_the_same_is_on_a_page(tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    simulate(tmp_path, crowded(), "--html", str(out))
    page = out.read_text()
    for told in ("1 gang runs, 3 gangs wait", "team-vision/large", "1 of 3 members fit at once"):
        assert told in page


def outranked(priority: int = 100) -> ClusterFile:
    """A cluster on which a gang that Muster has started an hour ago has all room, and one of that priority waits.

    Another gang of the same hour has a node of its own.
    """
    low, other = pod("low", 0, 1, node="gpu-0"), pod("other", 0, 1, node="gpu-1", priority=1000)
    for one in (low, other):
        stamp = {"gang-uid": "g", "release": f"r-{one['metadata']['name']}", "release-complete": "true"}
        stamp |= {"release-quorum": "1", "released-at": "2026-08-01T10:00:00Z"}
        one["metadata"]["annotations"] |= {f"muster.dev/{key}": value for key, value in stamp.items()}
    file = taken([node("gpu-0", "rack"), node("gpu-1", "rack")], [low, other, pod("high", 0, 1, priority=priority)])
    file.taken = "2026-08-01T11:00:00+00:00"
    return file


@pytest.mark.parametrize("hidden", [False, True])
def test_it_says_who_would_give_way_to_those_that_wait(tmp_path: Path, *, hidden: bool) -> None:
    file = anonymise(outranked()) if hidden else outranked()
    said, (verdict,) = simulate(tmp_path, file)
    (one,) = verdict["answers"]
    assert one["code"] == "NoRoom"
    assert len(one["victims"]) == 1
    assert hidden or one["victims"] == ["team-vision/low"]
    # Since its start, an hour before the snapshot.
    assert one["preemption"].endswith("would be evicted for it; 8.0 device-hours would be lost")
    assert "What would be evicted" in said


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
        (one,) = verdict["answers"]
        assert len(one["victims"]) == victims
        assert victims or "does not let all of its pods go" in one["preemption"]


def test_it_says_why_nobody_would_give_way(tmp_path: Path) -> None:
    _, (verdict,) = simulate(tmp_path, outranked(priority=0))
    (one,) = verdict["answers"]
    assert one["victims"] == []
    assert one["preemption"].startswith("nothing would be evicted for it: 0 of 1 members fit at once")
    assert "2 candidates may not: priority is not lower" in one["preemption"]


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
    for one in pods:
        one["metadata"]["annotations"]["muster.dev/required-topology"] = "corp.example/row"
    file = taken(nodes, pods)
    said, (before, after) = simulate(tmp_path, file, "--policy", "topology_levels=[corp.example/row]")
    assert answers(before)["wide"]["nodes"] == {}
    assert sorted(answers(after)["wide"]["nodes"].values()) == ["gpu-0", "gpu-1"]
    assert "With topology_levels=[corp.example/row] 1 gang starts that would wait as it is (team-vision/wide)." in said
    assert "Changed by muster, topology_levels=[corp.example/row]" in said
    assert "waits: UnknownTopology" in said


def test_pods_of_another_scheduler_can_be_tried_with_muster(tmp_path: Path) -> None:
    file = taken([node("gpu-0", "rack")], [pod("train", 0, 1, schedulerName="default-scheduler")])
    _, (verdict,) = simulate(tmp_path, file)
    assert verdict["answers"] == []
    _, (verdict,) = simulate(tmp_path, file, "--scheduler-name", "default-scheduler")
    assert answers(verdict)["train"]["nodes"] == {"train-0": "gpu-0"}


def test_gangs_with_a_pod_group_object_take_their_size_from_it(tmp_path: Path) -> None:
    group = {"metadata": {"name": "mpi", "namespace": "team-vision", "uid": "u"}, "spec": {"minMember": 2}}
    pods = [pod("mpi", index, 2) for index in range(2)]
    for one in pods:
        one["metadata"]["annotations"] = {}
        one["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "mpi"}
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
            {"subGroups": [{"name": one, "minMember": 1} for one in ("driver", "worker")]},
            {"annotations": {"pod-group-name": "mpi"}, "labels": {"kai.scheduler/subgroup-name": "{role}"}},
        ),
    ],
)
def test_podgroups_of_other_projects_are_in_it(tmp_path: Path, kind: Any, spec: Tree, said: Tree) -> None:
    theirs = {"metadata": {"name": "mpi", "namespace": "team-vision", "uid": "u"}, "spec": spec}
    pods = [pod("mpi", index, 2) for index in range(2)]
    for one, role in zip(pods, ("worker", "driver"), strict=True):
        one["metadata"] |= {where: {k: v.format(role=role) for k, v in keys.items()} for where, keys in said.items()}
    nodes = [msgspec.convert(node(name, "r"), NodeObject) for name in "ab"]
    file = reduced(nodes, [msgspec.convert(one, PodObject) for one in pods], [msgspec.convert(theirs, kind)])
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
    said, (verdict,) = simulate(tmp_path, taken([broken, node("good", "rack")], [pod("train", 0, 1)]))
    assert "left out: the allocatable" in said
    assert answers(verdict)["train"]["nodes"] == {"train-0": "good"}
