"""The benchmark of fragmentation on a trace small enough to be followed by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from benchmarks import fragmentation
from benchmarks.cli import main
from extender.simulation.replay.shape import InputError, gpus_of, nodes_of, pools_from

CLUSTER = "6 nodes x 4 GPUs in cliques of 3"
TRACE = "cluster,submission_time,duration,num_gpu\n" + "".join(
    f"here,{at},{lasting},{gpus}\n"
    # With one node of each clique drained, a clique holds one of the gangs of 8; none needs to wait for another.
    for at, lasting, gpus in [(0, 1000, 4), (10, 100, 8), (200, 1000, 8), (1300, 100, 16), (1500, 10, 64)]
)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.csv"
    path.write_text(TRACE)
    return path


def played(trace: Path, *schedulers: str, jobs: int | None = None) -> list[fragmentation.Run]:
    benchmark = fragmentation.benchmark("fragmentation-x", trace, "here", CLUSTER, 1, 0.01, jobs, 0)
    assert (benchmark.settings["usable_gpus"], benchmark.settings["gpus_per_pod"]) == (16, 4)
    return [benchmark.steps[scheduler](lambda _: None) for scheduler in schedulers]


def test_gangs_are_counted_with_the_cliques_that_they_need_and_have(trace: Path) -> None:
    for run in played(trace, "best-fit", "balanced", "least-domains"):
        assert (run.gangs, run.needed, run.spanned, run.scattered) == (3, 4, 4, 0), "only the largest needs two cliques"
        assert (run.pairs, run.pairs_at_best, run.pairs_inside) == (2 * 28 + 120, 4 * 28, 4 * 28)
        assert run.never_started == 0
    # the gang of 16 cannot be in a clique of 8 and never starts; the others are where they were
    (required,) = played(trace, "best-fit, clique required")
    assert (required.gangs, required.scattered, required.never_started) == (2, 0, 1)
    (spread,) = played(trace, "spread")
    assert (spread.spanned, spread.scattered, spread.excess_at_most) == (6, 2, 1)
    assert spread.pairs_inside == 2 * 12 + 2 * 28


def test_what_does_not_fit_beside_the_drained_nodes_is_left_out_and_said(trace: Path) -> None:
    benchmark = fragmentation.benchmark("fragmentation-x", trace, "here", CLUSTER, 1, 0.5, None, 0)
    assert (benchmark.settings["jobs"], benchmark.settings["left_out_as_too_large"]) == (4, 1)


def test_so_many_nodes_of_each_clique_are_drained() -> None:
    nodes = fragmentation.with_drained(nodes_of(pools_from("6 nodes x 4 GPUs in cliques of 3, 2 nodes x 8 GPUs")), 2)
    assert gpus_of(node for node in nodes if not node.unschedulable) == 2 * 4 + 2 * 8
    with pytest.raises(InputError, match="none is left"):
        fragmentation.with_drained(nodes_of(pools_from(CLUSTER)), 3)
    with pytest.raises(InputError, match="has no cliques"):
        fragmentation.with_drained(nodes_of(pools_from("6 nodes x 4 GPUs")), 1)


def test_a_policy_that_scatters_more_than_first_fit_is_a_problem(trace: Path) -> None:
    best, spread = played(trace, "best-fit", "spread")
    best, spread = replace(best, scheduler="first-fit"), replace(spread, scheduler="best-fit")
    assert fragmentation.problems([best, spread]) == ["best-fit: 0.67 cliques more than needed, and first-fit 0.00"]
    assert not fragmentation.problems([best, best])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--trace-cluster", "there"], "no job of cluster 'there' is in the trace; it has here"),
        (["--trace-cluster", "here", "--cluster", "many nodes"], "'many nodes' is not a pool of nodes"),
        (["--trace-cluster", "here", "--drained", "18"], "with 18 nodes of each clique drained none is left"),
    ],
)
def test_what_cannot_be_played_is_said_in_a_sentence(trace: Path, options: list[str], said: str) -> None:
    result = CliRunner().invoke(main, ["fragmentation", "--trace", str(trace), *options])
    assert result.exit_code == 2
    assert said in result.stderr


@pytest.mark.parametrize("command", ["fragmentation", "replay"])
def test_a_trace_of_another_layout_is_told_of_no_option_that_there_is_not(tmp_path: Path, command: str) -> None:
    other = tmp_path / "other.csv"
    other.write_text("time,duration,num_gpu\n0,1,8\n")
    result = CliRunner().invoke(main, [command, "--trace", str(other)])
    assert result.exit_code == 2
    message = "the trace has no column submission_time, cluster; its columns are time, duration, num_gpu"
    assert result.stderr.strip().endswith(message)
