"""The benchmark of suspended Jobs: its requests, and the figures from its rounds."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import to_builtins
from typer.testing import CliRunner

from benchmarks import jobs
from benchmarks.cli import main
from benchmarks.goals import judged
from benchmarks.job_stage import Arm, JobStage, Shape, job_of
from benchmarks.jobs import Run
from benchmarks.record import Content
from tests.test_benchmarks import ABOUT
from tests.test_benchmarks_report import column

QUIET = {"kube-scheduler": {"events": 1.0}, "extender": {"pods/binding": 1.0, "jobs": 0.125}}


def run(arm: Arm, number: int = 1, pods_per_s: float = 100.0, shape: str = "8x1", **figures: Any) -> Run:
    known: dict[str, Any] = {
        "jobs": 3,
        "pods": 24,
        "seconds": 0.24,
        "binding_s": 0.23,
        "nodes_per_gang": 1.0,
        "cliques_per_gang": 1.0,
        "cliques_at_most": 1,
        "cliques_needed": 1,
        "partial": 0,
        "longest_partial_s": 0.01,
        "flushed": 0,
        "writes": QUIET,
        "cpu_ms": {"etcd": 1.0},
    }
    return Run(arm=arm, shape=shape, round=number, pods_per_s=pods_per_s, **{**known, **figures})


@pytest.mark.parametrize(
    ("text", "nodes", "cliques"), [("8x1", 1, 1), ("8x8", 8, 1), ("64x8", 64, 4), ("512x1", 64, 4), ("5x5", 5, 1)]
)
def test_a_shape_knows_the_fewest_nodes_and_cliques_that_hold_it(text: str, nodes: int, cliques: int) -> None:
    shape = Shape.parse(text)
    assert (str(shape), shape.nodes, shape.cliques) == (text, nodes, cliques)


@pytest.mark.parametrize("text", ["8", "0x1", "8x0", "8x9", "8x1x1", "ax1"])
def test_what_is_no_shape_is_refused(text: str) -> None:
    assert "--shape" in CliRunner().invoke(main, ["jobs", "--shape", text]).output
    with pytest.raises(ValueError, match=text):
        Shape.parse(text)


def test_a_job_says_that_it_is_a_gang_where_muster_is_to_admit_it_and_its_pods_say_nothing() -> None:
    managed, alone = (Shape(64, 8).job("job-0", arm) for arm in (Arm.MUSTER, Arm.ADAPTIVE))
    assert managed["metadata"]["labels"] == {"muster.dev/gang": "true"}
    assert alone["metadata"]["labels"] == {}
    assert managed["spec"] == alone["spec"]
    assert (alone["spec"]["suspend"], alone["spec"]["completionMode"], alone["spec"]["parallelism"]) == (
        True, "Indexed", 64,
    )  # fmt: skip
    assert alone["spec"]["template"].keys() == {"spec"}
    assert job_of({"metadata": {"labels": {"batch.kubernetes.io/job-name": "job-0"}}}) == "job-0"


def test_as_many_jobs_as_fill_three_quarters_of_the_nodes_and_no_more_than_1500_pods() -> None:
    assert [jobs.count_of(shape, 1000) for shape in jobs.SHAPES] == [187, 93, 11]
    assert [jobs.count_of(shape, 5000) for shape in jobs.SHAPES] == [187, 187, 23]
    assert jobs.count_of(Shape(64, 8), 10) == 1


def test_the_arms_of_a_shape_follow_each_other_and_each_goes_first_in_every_other_round() -> None:
    shapes = [Shape(8, 1), Shape(8, 8)]
    made = jobs.benchmark("jobs-100", 100, shapes, None, [Arm.ADAPTIVE, Arm.MUSTER], 2, 60.0)
    assert list(made.steps) == [
        "8x1, alone-adaptive, round 1",
        "8x1, muster, round 1",
        "8x8, alone-adaptive, round 1",
        "8x8, muster, round 1",
        "8x1, muster, round 2",
        "8x1, alone-adaptive, round 2",
        "8x8, muster, round 2",
        "8x8, alone-adaptive, round 2",
    ]
    assert made.settings["jobs"] == [75, 9]


def test_every_arm_writes_down_the_same_and_only_native_gangs_have_the_gates() -> None:
    flags = {arm: JobStage(arm, 1, lambda _: None)._cluster._flags for arm in Arm}
    audited = {flag for own in flags.values() for flag in own["kube-apiserver"] if flag.startswith("--audit")}
    assert len(audited) == 1
    assert [arm for arm, own in flags.items() if "WorkloadWithJob" in str(own)] == [Arm.NATIVE]
    throttled = JobStage(Arm.NATIVE, 1, lambda _: None, throttled=True)._cluster._flags["kube-controller-manager"]
    assert "--kube-api-qps=20" in throttled
    assert "WorkloadWithJob" in str(throttled)


def test_speeds_are_compared_with_jobs_of_the_same_shape_in_the_same_round() -> None:
    runs = [
        run(Arm.ADAPTIVE, 1, 100.0),
        run(Arm.MUSTER, 1, 120.0),
        run(Arm.MUSTER, 2, 300.0),
        run(Arm.ADAPTIVE, 2, 200.0),
        run(Arm.ADAPTIVE, 1, 50.0, "64x8"),
        run(Arm.MUSTER, 1, 25.0, "64x8"),
    ]
    assert jobs.ratio(runs, "8x1", Arm.MUSTER, Arm.ADAPTIVE) == 1.35
    assert jobs.ratio(runs, "64x8", Arm.MUSTER, Arm.ADAPTIVE) == 0.5
    assert jobs.ratio(runs, "8x1", Arm.MUSTER, Arm.ALL) is None
    speed, _, _ = jobs.tables(runs)
    assert column(speed, speed.columns[0]) == [
        "3 of 8x1, alone-adaptive", "3 of 8x1, muster", "3 of 64x8, alone-adaptive", "3 of 64x8, muster",
    ]  # fmt: skip
    assert column(speed, "x adaptive") == ["1.00", "1.35", "1.00", "0.50"]
    assert column(speed, "x all") == ["-"] * 4


def test_writes_are_told_by_writer_and_bindings_jobs_and_events_are_no_further_writes_to_pods() -> None:
    noisy = {"kube-scheduler": {"events": 1.0, "pods/status": 0.5}, "extender": {"pods/binding": 1.0, "pods": 0.25}}
    runs = [run(Arm.MUSTER), run(Arm.MUSTER, shape="64x8", writes=noisy)]
    assert [jobs.pod_writes(measured) for measured in runs] == [0.0, 0.75]
    _, writes, _ = jobs.tables(runs)
    assert column(writes, "extender: pods/binding") == ["1.00", "1.00"]
    assert column(writes, "kube-scheduler: pods/status") == ["0.00", "0.50"]
    assert column(writes, "sum") == ["2.12", "2.75"]


def test_gangs_in_part_are_a_problem_of_whoever_promises_gangs_and_cliques_are_one_of_muster() -> None:
    broken: dict[str, Any] = {"partial": 2, "cliques_at_most": 3, "flushed": 1}
    assert jobs.problems([run(Arm.ADAPTIVE, **broken), run(Arm.MUSTER)]) == []
    assert jobs.problems([run(Arm.NATIVE, **broken)]) == ["3 of 8x1, native: 2 Jobs are bound in part"]
    assert jobs.problems([run(Arm.MUSTER, **broken)]) == [
        "3 of 8x1, muster: 2 Jobs are bound in part",
        "3 of 8x1, muster: a Job lies in 3 cliques instead of 1",
        "3 of 8x1, muster: 1 pods waited for kube-scheduler's flush",
    ]


def test_what_muster_is_held_to_with_jobs() -> None:
    large: dict[str, Any] = {"pods": 512, "cliques_needed": 4, "cliques_at_most": 5}
    runs = [
        run(Arm.ADAPTIVE, 1, 50.0, "512x1", binding_s=5.11, **large),
        run(Arm.NATIVE, 1, 80.0, "512x1", binding_s=5.11, **large),
        run(Arm.MUSTER, 1, 100.0, "512x1", binding_s=2.555, **large),
    ]
    results = to_builtins({str(number): result for number, result in enumerate(runs)})
    table = judged({"jobs-500": Content("jobs-500", {}, ABOUT, "2026-11-22", results)})
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["Jobs of 512x1, 500 nodes, muster: times native"] == ("at least 1", "1.25", "yes")
    assert rows["one Job of 512, muster: Bindings a second, times alone-adaptive"] == ("at least 1", "2", "yes")
    assert rows["Jobs, 500 nodes, muster: cliques of a Job more than needed"] == ("0", "1", "**no**")
    assert rows["Jobs, 500 nodes, muster: writes to a pod besides its Binding"] == ("0", "0", "yes")
    assert rows["Jobs of 8x1, 1,000 nodes, muster: times alone-adaptive"] == ("at least 1.1", "-", "not measured")
