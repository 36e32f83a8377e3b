"""The courses as Jobs: the created objects, and the figures."""

from __future__ import annotations

from msgspec.structs import replace

from benchmarks.courses import Run, Seen, job, most, problems, tables, workloads_of
from benchmarks.queue_courses import COURSES

BASE, RACKS = COURSES
RUN = Run("course", 1, 10, 20, 60, 4.0, {"small": 1.0, "large": 3.0}, 0.5, {"extender": 2.0}, 120, 120)


def test_one_job_of_so_many_is_played_and_one_of_each_set_at_least() -> None:
    assert len(list(workloads_of(BASE, 1))) == BASE.workloads
    assert len(list(workloads_of(BASE, 10))) == BASE.workloads // 10
    assert len(list(workloads_of(RACKS, 1000))) == RACKS.queues * len(RACKS.sets)


def test_a_job_asks_for_its_units_and_its_topology() -> None:
    made = {workload.name: job(workload) for workload in workloads_of(RACKS, 100)}
    large = made["q7-8-0"]
    assert large["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "queue-7"}
    assert (large["spec"]["suspend"], large["spec"]["completions"]) == (True, 8)
    template = large["spec"]["template"]
    assert template["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2500m"}
    assert template["metadata"]["annotations"] == {
        "devcluster.muster.dev/run-for": "1000ms",
        "kueue.x-k8s.io/podset-slice-size": "4",
        "kueue.x-k8s.io/podset-slice-required-topology": "nvidia.com/gpu.clique",
    }
    keys = {key for manifest in made.values() for key in manifest["spec"]["template"]["metadata"]["annotations"]}
    assert {"kueue.x-k8s.io/podset-required-topology", "kueue.x-k8s.io/podset-preferred-topology"} <= keys


def test_what_a_cohort_has_at_most_is_counted_in_the_order_of_the_writes() -> None:
    workloads = {workload.name: workload for workload in workloads_of(BASE, 100)}
    first, second, elsewhere = "q0-2-0", "q1-2-0", "q6-2-0"  # 20 units each, the last one in another cohort
    bound = [Seen(first, 0.0, 1), Seen(second, 0.0, 4), Seen(elsewhere, 0.0, 2)]
    assert most(workloads, bound, [Seen(first, 9.0, 3)]) == 20
    assert most(workloads, bound, [Seen(first, 0.1, 5)]) == 40


def test_quota_that_was_exceeded_is_a_problem() -> None:
    assert not problems([RUN])
    (problem,) = problems([RUN, replace(RUN, most=121)])
    assert "121 of 120" in problem


def test_the_tables_show_medians_of_the_rounds() -> None:
    speed, spent = tables([RUN, replace(RUN, round=2, seconds=8.0, most=60), replace(RUN, round=3, seconds=5.0)])
    assert speed.rows == [("course: 10 Jobs, 20 pods", "5 s", "2.0", "4.0", "50%", "1 s", "3 s", "120 of 120")]
    assert spent.rows == [("course", "2.00")]
