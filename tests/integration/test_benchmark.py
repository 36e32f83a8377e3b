"""Benchmarks on a small cluster: they measure, and their checks of Muster pass."""

from __future__ import annotations

import pytest

from benchmarks import jobs, throughput
from benchmarks.job_stage import Arm, Shape
from benchmarks.stage import Mode
from devcluster.progress import silent

pytestmark = pytest.mark.xdist_group("benchmark")


def test_gangs_of_a_small_run_are_whole_each_in_one_clique_and_what_they_cost_is_counted() -> None:
    run = throughput.measure(32, 6, 8, 120.0, Mode.NOMINATE, 1, silent)

    assert throughput.problems([run]) == []
    assert (run.pods, run.partial, run.cliques_at_most) == (48, 0, 1)
    assert run.curve[-1] == (run.seconds, 48)
    assert run.writes["binding"] == 1.0
    assert {"etcd", "kube-apiserver", "kube-scheduler", "extender"} <= run.cpu_ms.keys()
    assert run.cpu_ms["kube-apiserver"] > 0


@pytest.mark.parametrize("arm", [Arm.ADAPTIVE, Arm.NATIVE])
def test_jobs_of_a_small_run_start_and_who_writes_for_it_is_counted(arm: Arm) -> None:
    run = jobs.measure(32, Shape(8, 8), 2, 120.0, arm, 1, silent)

    assert jobs.problems([run]) == []
    assert (run.pods, run.nodes_per_gang, run.partial) == (16, 8, 0)
    assert run.writes["kube-scheduler"]["pods/binding"] == 1.0
    assert "extender" not in run.writes
    assert run.cpu_ms["kube-apiserver"] > 0


def test_jobs_that_muster_admits_are_whole_each_in_one_clique_and_cost_no_write_to_a_pod_but_its_binding() -> None:
    run = jobs.measure(32, Shape(8, 8), 2, 120.0, Arm.MUSTER, 1, silent)

    assert jobs.problems([run]) == []
    assert (run.pods, run.nodes_per_gang, run.cliques_at_most, run.partial) == (16, 8, 1, 0)
    assert run.writes["extender"]["pods/binding"] == 1.0
    assert jobs.pod_writes(run) == 0
