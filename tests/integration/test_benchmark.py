"""The throughput benchmark on a small cluster: it measures, and what it checks of Muster holds."""

from __future__ import annotations

import pytest

from benchmarks import throughput
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
