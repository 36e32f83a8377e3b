"""Snapshots with jobs: their content in the file, which ones `muster simulate --snapshot` starts, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from extender.kube.kinds.job import JOB
from extender.kube.kinds.read import Reader
from extender.kube.reading.reserved import RESERVATIONS
from extender.kube.snapshots.pseudonyms import anonymise
from extender.kube.snapshots.snapshot import decode, encode
from extender.simulation.replay.control_plane import pods_to_create
from tests.snapshot_jobs import OPEN, begun, cluster, contended, job, pods_of
from tests.snapshots import answers, simulate
from tests.test_simulate_snapshot_queues import OBJECTS, cluster_queue, queue_object, written


def test_a_suspended_job_starts_and_the_next_waits_for_quota(tmp_path: Path) -> None:
    output, (verdict,) = simulate(tmp_path, contended())
    by_gang = answers(verdict)
    assert by_gang["job-first"]["nodes"] == {"first-0": "gpu-0", "first-1": "gpu-1"}
    assert by_gang["job-second"]["nodes"] == {}
    assert by_gang["job-second"]["code"] == "NoQuota"
    assert "0 of 16 nvidia.com/gpu are left" in by_gang["job-second"]["reason"]
    assert "0 gangs run, 2 gangs wait (2 suspended jobs among them)" in output


def test_more_quota_starts_it_too(tmp_path: Path) -> None:
    more = written(tmp_path, cluster_queue("research", 32, lendingLimit=0))
    output, (_, then) = simulate(tmp_path, contended(), "--what-if", more)
    assert sorted(answers(then)["job-second"]["nodes"].values()) == ["gpu-2", "gpu-3"]
    assert "What if: ClusterQueue research: changed." in output


def test_pods_tolerate_what_their_flavor_adds(tmp_path: Path) -> None:
    """Future pods of a running job tolerate it, too."""
    tolerant = [{"key": "corp.example/team", "operator": "Exists"}]
    objects = [OBJECTS[0] | {"spec": OBJECTS[0]["spec"] | {"tolerations": tolerant}}, *OBJECTS[1:]]
    runs = begun(job("runs", 2, tolerations=[]), ("gpu-2", "gpu-3"), {"nvidia.com/gpu": "secret-flavor"})
    waits = job("waits", 2, queue="gemini", tolerations=[])
    for there in (2, 1):
        pods = pods_of(runs, ("gpu-2", "gpu-3"))[:there]
        _, (verdict,) = simulate(tmp_path, cluster([runs, waits], pods, objects=objects))
        (answer,) = verdict["answers"]
        assert sorted(answer["nodes"].values()) == ["gpu-0", "gpu-1"], answer["reason"]


def test_more_jobs_start_than_pods_could_be_created_at_once(tmp_path: Path) -> None:
    """A real controller makes 20 pods a second; no job waits for that here."""
    jobs = [job(f"small-{number}", 1, containers=[{"name": "main"}], queue="") for number in range(700)]
    for small in jobs:
        small["metadata"]["labels"] = {"muster.dev/gang": "true"}
    _, (verdict,) = simulate(tmp_path, cluster(jobs, nodes=8))
    assert all(answer["nodes"] for answer in verdict["answers"])


def test_a_job_that_runs_uses_its_quota_and_its_nodes(tmp_path: Path) -> None:
    runs = begun(job("runs", 2), ("gpu-2", "gpu-3"), {"nvidia.com/gpu": "secret-flavor"})
    for there in (2, 1, 0):
        pods = pods_of(runs, ("gpu-2", "gpu-3"))[:there]
        output, (verdict,) = simulate(tmp_path, cluster([runs, job("waits", 2), job("other", 2, queue="gemini")], pods))
        by_gang = answers(verdict)
        assert by_gang.keys() == {"job-waits", "job-other"}, "those that do not run"
        assert by_gang["job-waits"]["code"] == "NoQuota"
        assert sorted(by_gang["job-other"]["nodes"].values()) == ["gpu-0", "gpu-1"]
        assert "would be suspended" not in output


def test_a_job_that_others_have_started_uses_quota_too(tmp_path: Path) -> None:
    theirs = job("theirs", 2)
    theirs["spec"]["suspend"], theirs["status"] = False, {"active": 2, "ready": 2}
    pods = pods_of(theirs, ("gpu-2", "gpu-3"))
    for pod_tree in pods:
        pod_tree["metadata"]["annotations"] = {}
    _, (verdict,) = simulate(tmp_path, cluster([theirs, job("waits", 2)], pods))
    assert answers(verdict)["job-waits"]["code"] == "NoQuota"


def test_a_job_that_nobody_has_planned_is_suspended_and_planned(tmp_path: Path) -> None:
    unplanned = job("unplanned", 2)
    unplanned["spec"]["suspend"] = False
    for pods in ([], pods_of(unplanned, (None, None))):
        _, (verdict,) = simulate(tmp_path, cluster([unplanned], pods))
        assert answers(verdict)["job-unplanned"]["nodes"] == {"unplanned-0": "gpu-0", "unplanned-1": "gpu-1"}


def test_a_job_whose_gang_another_one_is_waits(tmp_path: Path) -> None:
    jobs = [job(name, 1) for name in ("a", "b")]
    for job_tree in jobs:
        job_tree["spec"]["template"]["metadata"]["annotations"]["muster.dev/pod-group"] = "same"
    _, (verdict,) = simulate(tmp_path, cluster(jobs))
    assert sorted(answer["code"] for answer in verdict["answers"]) == ["NameTaken", "Running"]


def test_a_priority_class_counts_where_there_are_queues(tmp_path: Path) -> None:
    job_tree = job("one", 1, labels={"kueue.x-k8s.io/priority-class": "gone"})
    for objects, code in ((OBJECTS, "InvalidJob"), ((), "Running")):
        _, (verdict,) = simulate(tmp_path, cluster([job_tree], objects=objects))
        assert answers(verdict)["job-one"]["code"] == code


def test_only_pods_that_are_yet_to_come_are_made() -> None:
    def left(there: int, **change: Any) -> list[tuple[str, int | None, tuple[str, ...]]]:
        runs = begun(job("runs", 3), ("gpu-0", "gpu-1", "gpu-2"))
        runs["spec"] |= change
        facts = decode(encode(cluster([runs], pods_of(runs, ("gpu-0", "gpu-1", "gpu-2"))[:there])))
        return [(pod.name, pod.index, nodes) for pod, nodes in pods_to_create(facts.jobs[0], facts.pods, 1, {})]

    assert left(1) == [("runs-1", 1, ("gpu-1",)), ("runs-2", 2, ("gpu-2",))]
    assert left(2, completionMode="NonIndexed") == [("runs-2", None, ("gpu-0", "gpu-1", "gpu-2"))]
    assert left(3) == []


def test_who_runs_in_a_queue_that_is_drained_is_told_and_stays(tmp_path: Path) -> None:
    runs = begun(job("runs", 2), ("gpu-2", "gpu-3"), {"nvidia.com/gpu": "secret-flavor"})
    drained = [manifest for manifest in OBJECTS if manifest["metadata"]["name"] != "research"]
    drained.append(cluster_queue("research", 16, lendingLimit=0, stopPolicy="HoldAndDrain"))
    file = cluster([runs, job("next", 3, queue="gemini")], pods_of(runs, ("gpu-2", "gpu-3")), objects=drained)
    output, (verdict,) = simulate(tmp_path, file)
    assert verdict["suspended"].keys() == {"team-vision/job-runs"}
    assert "Run, and would be suspended" in output
    assert not answers(verdict)["job-next"]["nodes"]


def test_it_says_who_would_give_way_to_a_suspended_job(tmp_path: Path) -> None:
    rules = {"withinClusterQueue": "LowerPriority"}
    objects = [manifest for manifest in OBJECTS if manifest["metadata"]["name"] != "research"]
    objects.append(cluster_queue("research", 16, lendingLimit=0, preemption=rules))
    runs = begun(job("runs", 2), ("gpu-2", "gpu-3"), {"nvidia.com/gpu": "secret-flavor"})
    urgent = job("urgent", 2, labels={"kueue.x-k8s.io/priority-class": "high"})
    high = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "metadata": {"name": "high"}}
    low = {**high, "metadata": {"name": "high"}, "value": 0}
    pods = pods_of(runs, ("gpu-2", "gpu-3"))
    file = cluster([runs, urgent], pods, objects=[*objects, {**high, "value": 1000}])
    for shown in (file, anonymise(file)):
        _, (verdict,) = simulate(tmp_path, shown)
        (waits,) = verdict["answers"]
        assert len(waits["victims"]) == 1
        assert "would be evicted for it" in waits["preemption"]
    output, (_, then) = simulate(tmp_path, file, "--what-if", written(tmp_path, low))
    assert "WorkloadPriorityClass high: changed" in output
    assert answers(then)["job-urgent"]["victims"] == []


def test_pods_have_the_priority_that_their_class_gives_them(tmp_path: Path) -> None:
    urgent = {"metadata": {"name": "hush"}, "value": 1000}
    file = cluster([job("a", 2), job("b", 2, priorityClassName="hush")], priorities=[urgent])
    assert b"hush" not in encode(file)
    _, (verdict,) = simulate(tmp_path, file)
    assert not answers(verdict)["job-a"]["nodes"]
    assert answers(verdict)["job-b"]["nodes"]
    _, (verdict,) = simulate(tmp_path, cluster([job("a", 2), job("b", 2, priorityClassName="gone")]))
    assert answers(verdict)["job-b"]["code"] == "InvalidJob"
    assert "its PriorityClass gone does not exist" in answers(verdict)["job-b"]["reason"]


def test_nothing_else_of_a_job_is_written_and_no_name_without_names(tmp_path: Path) -> None:
    runs = begun(job("secret-run", 2), ("gpu-2", "gpu-3"), {"nvidia.com/gpu": "secret-flavor"})
    room = {"rooms": [[{"corp.example/npu": 1}, ["gpu-2"]]], "victims": [["team-vision", "job-x", "", []]], "until": 1}
    waits = job("secret-wait", 2, annotations=dict.fromkeys(RESERVATIONS, json.dumps(room)))
    broken = job("secret-broken", 2)
    broken["spec"]["template"] = {"spec": "secret"}
    file = cluster([runs, waits, broken], pods_of(runs, ("gpu-2", "gpu-3")))
    text = encode(file).decode()
    assert "hush" not in text
    for word in ('"image', '"command', '"env', "serviceAccount", "managedFields", "last-applied"):
        assert word not in text
    hidden = anonymise(file)
    for word in ("secret", "vision", "corp", "gpu-2", "rack", "0000-", "job-x", "apollo"):
        assert word not in encode(hidden).decode(), word
    outcomes = []
    for shown in (file, hidden):
        _, (verdict,) = simulate(tmp_path, shown)
        outcomes.append(sorted((answer["code"], answer["members"]) for answer in verdict["answers"]))
    assert outcomes[0] == outcomes[1] == [("InvalidJob", 0), ("NoQuota", 2)]


@pytest.mark.parametrize("hidden", [False, True])
def test_a_job_in_the_file_is_the_one_that_the_extender_reads(*, hidden: bool) -> None:
    flavors = {"nvidia.com/gpu": "secret-flavor"}
    held = job("held", 3, annotations={"muster.dev/min-member": "2"}, labels={"muster.dev/hold": "true"})
    named = job("named", 2)
    named["spec"]["template"]["metadata"]["annotations"]["muster.dev/pod-group"] = "alliance"
    partly = begun(job("partly", 3), ("gpu-0", "gpu-1", "gpu-2"), flavors)
    partly["status"] = {"ready": 2, "completedIndexes": "1"}
    jobs = [held, named, partly]
    file = cluster(jobs)
    read = decode(encode(anonymise(file) if hidden else file)).jobs
    for read_job, job_tree in zip(read, jobs, strict=True):
        live = Reader().read(JOB, job_tree)
        facts = ("suspended", "stopped", "finished", "running", "held", "marked", "problem", "closed")
        assert [getattr(read_job, fact) for fact in facts] == [getattr(live, fact) for fact in facts]
        sizes = [(podset.count, podset.minimum, podset.indexed, podset.left_out) for podset in read_job.podsets.podsets]
        assert sizes == [(each.count, each.minimum, each.indexed, each.left_out) for each in live.podsets.podsets]
        assert {slot[1] for slot in read_job.done} == {slot[1] for slot in live.done}
        assert hidden or (read_job.podsets.key, read_job.plan, read_job.flavors, read_job.queue) == (
            live.podsets.key,
            live.plan,
            live.flavors,
            live.queue,
        )
        assert read_job.podsets.podsets[0].template.requests == live.podsets.podsets[0].template.requests


def test_pods_of_a_later_wave_come_into_their_room(tmp_path: Path) -> None:
    waves = job("waves", 2)
    spec = waves["spec"]
    replicated = [{"name": name, "template": {"spec": spec | {"suspend": False}}} for name in ("driver", "worker")]
    waves["spec"] = {"suspend": True, "startupPolicy": {"startupPolicyOrder": "InOrder"}, "replicatedJobs": replicated}
    behind = job("behind", 1, queue="gemini")
    behind["metadata"]["creationTimestamp"] = "2026-08-01T11:00:00Z"
    _, (verdict,) = simulate(tmp_path, cluster([waves, behind], objects=[OBJECTS[0], *OPEN]))
    assert len(answers(verdict)["jobset-waves"]["nodes"]) == 4
    assert answers(verdict)["job-behind"]["code"] == "NoRoom"


def test_a_file_without_jobs_is_read_as_before(tmp_path: Path) -> None:
    tree = json.loads(encode(contended()))
    del tree["jobs"]
    (tmp_path / "old.json").write_text(json.dumps(tree))
    assert decode((tmp_path / "old.json").read_bytes()).jobs == []


def test_a_local_queue_in_what_if_takes_jobs_elsewhere(tmp_path: Path) -> None:
    moved = written(tmp_path, queue_object("LocalQueue", "apollo", "team-vision", clusterQueue="nowhere"))
    _, (_, then) = simulate(tmp_path, contended(), "--what-if", moved)
    assert {answer["code"] for answer in then["answers"]} == {"QueueMissing"}
