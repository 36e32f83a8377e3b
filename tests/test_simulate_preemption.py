"""Preemption in `muster simulate`: the victims, the losses and gains, and shares in hours of demand."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from extender.cli.case import core
from extender.config.settings import load
from extender.simulation.contest import Case, run
from extender.simulation.replay.arrivals import URGENT, Arrival, with_urgent
from extender.simulation.replay.course import Life, Run, Terms
from extender.simulation.replay.queueing import Queueing, virtual_clusters
from extender.simulation.replay.shape import nodes_of, pools_from
from extender.simulation.report.fairness import fairness
from tests.test_simulate import figures, simulate
from tests.test_simulate_course import busy

TRACE = "vc,submission_time,duration,num_gpu,prio\n"
LENT = TRACE + "".join(f"a,{at},3600,8,0\n" for at in range(4)) + "b,600,3600,16,0\n"
"""All of the cluster is lent to one queue when the other one wants its half."""
URGENT_ONE = TRACE + "a,0,3600,16,0\na,1,3600,16,0\na,600,600,16,7\n"
ON = "muster, preemption=on"


def both(tmp_path: Path, trace: str, *options: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The figures without preemption, and with it."""
    (tmp_path / "trace.csv").write_text(trace)
    given = ("--trace", tmp_path / "trace.csv", "--cluster", "4 nodes x 8 GPUs", "--queue-column", "vc")
    by_scheduler = figures(tmp_path, *given, "--scheduler", "muster", "--policy", "preemption=on", *options)
    return by_scheduler["muster"], by_scheduler[ON]


def test_lent_quota_is_taken_back_and_the_work_of_the_borrowers_is_done_again(tmp_path: Path) -> None:
    without, preempts = both(tmp_path, LENT)
    assert (without["preempted"]["evictions"], without["lost"]) == (0, 0)
    preempted = preempts["preempted"]
    assert (preempted["evictions"], preempted["jobs"], preempted["most"]) == (2, 2, 1)
    assert preempts["lost"] == pytest.approx((8 * (568 + 30) + 8 * (567 + 30)) / 3600, abs=0.01), "grace is lost, too"
    assert preempts["productive"] == pytest.approx(without["productive"]) == pytest.approx(48)
    assert preempts["starting"] - without["starting"] == pytest.approx(2 * 8 * 30 / 3600), "they start once more"
    (_, late), (_, waited) = (
        [queue["max_s"] for queue in result["fairness"]["queues"]] for result in (preempts, without)
    )
    assert (late, waited) == (pytest.approx(30, abs=1), pytest.approx(3031, abs=1))
    assert preempts["completed"] == 5
    ends = [row["took"][2] for row in preempted["priorities"]]
    assert ends == [pytest.approx(3630 + 3630 - 2, abs=1), pytest.approx(30 + 3630, abs=2)], "of all, and of the gang"


def test_only_the_work_since_the_last_checkpoint_is_lost(tmp_path: Path) -> None:
    _, preempts = both(tmp_path, LENT, "--checkpoint-every", "200")
    assert preempts["lost"] == pytest.approx((8 * (168 + 30) + 8 * (167 + 30)) / 3600, abs=0.01)
    assert preempts["productive"] == pytest.approx(48)
    assert preempts["preempted"]["priorities"][0]["took"][2] == pytest.approx(3630 + 3230 - 2, abs=1)


def test_an_urgent_job_evicts_the_youngest_of_its_queue(tmp_path: Path) -> None:
    without, preempts = both(tmp_path, URGENT_ONE, "--priority-column", "prio")
    urgent = [(row["priority"], row["gangs"], row["jobs"]) for row in preempts["preempted"]["priorities"]]
    assert urgent == [(7, False, 1), (7, True, 1), (0, False, 2), (0, True, 2)]
    waited = [result["preempted"]["priorities"][0]["waited"][2] for result in (without, preempts)]
    assert waited == [pytest.approx(3030, abs=1), pytest.approx(30, abs=1)]
    assert preempts["lost"] == pytest.approx(16 * (569 + 30) / 3600, abs=0.01)
    assert preempts["makespan_s"] == pytest.approx(630 + 630 + 3630, abs=1), "the victim is next when that has ended"


@pytest.mark.parametrize(
    ("trace", "options"),
    [
        (LENT, ("--reclaim-within-cohort", "Never")),
        (LENT, ("--reclaim-within-cohort", "LowerPriority")),
        (URGENT_ONE, ("--within-cluster-queue", "Never", "--priority-column", "prio")),
        (URGENT_ONE, ()),
    ],
)
def test_nobody_is_evicted_whom_the_rules_of_the_virtual_clusters_spare(
    tmp_path: Path, trace: str, options: tuple[str, ...]
) -> None:
    without, preempts = both(tmp_path, trace, *options)
    assert preempts["preempted"]["evictions"] == 0
    assert preempts["overall"] == without["overall"]


def test_the_tables_say_what_preemption_cost_and_gave(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(LENT)
    given = ("--trace", tmp_path / "trace.csv", "--cluster", "4 nodes x 8 GPUs", "--queue-column", "vc")
    options = ("--scheduler", "muster", "--policy", "preemption=on", "--html", tmp_path / "page.html")
    code, output = simulate(*given, *options, "--checkpoint-every", "200")
    assert code == 0
    page = (tmp_path / "page.html").read_text()
    for text in (" ".join(output.split()), page):
        assert "Evictions of whole jobs" in text
        assert "Waiting by priority" in text
        assert "Busy hours (demand beyond the entitlement)" in text
    assert "work is saved every 3.3 min" in page
    assert "lost to preemption" in page
    _, output = simulate(*given, "--scheduler", "muster")
    assert "Evictions" not in output
    assert "by priority" not in output


@pytest.mark.parametrize("checkpoint_s", [None, 100.0])
@pytest.mark.parametrize("seed", range(3))
def test_with_evictions_too_every_gpu_hour_is_told_and_every_job_does_its_work_once(
    seed: int, checkpoint_s: float | None
) -> None:
    arrivals, nodes = busy(seed)
    makers = {"muster": partial(core, load(None, preemption="on"))}
    case = Case(arrivals, nodes, Terms(checkpoint_s=checkpoint_s), seed, makers)
    (outcome,) = run(case, ["muster"], lambda *_: None)
    totals = outcome.figures
    assert outcome.preempted.evictions > 3
    assert totals.lost > 0
    assert totals.completed == totals.jobs
    assert all(0 <= sum(step[1:]) <= totals.gpus and min(step[1:]) >= 0 for step in outcome.steps)
    assert totals.productive + totals.starting + totals.held + totals.lost + totals.free == pytest.approx(
        totals.gpus * totals.observed_s / 3600
    )
    whole = [arrival for arrival in arrivals if arrival.needed == arrival.pods]
    (rigid,) = run(Case(whole, nodes, case.terms, seed, makers), ["muster"], lambda *_: None)
    assert rigid.preempted.evictions > 0
    assert rigid.figures.productive == pytest.approx(sum(arrival.all_gpus * arrival.run_s for arrival in whole) / 3600)


def test_hours_of_demand_are_judged_as_one_counts_by_hand() -> None:
    """32 GPUs, half for each. The first queue has all for two and a half hours, though the other one has jobs."""
    jobs = [Arrival("early", 0.0, 4, 8, 9000.0, queue="a"), Arrival("next", 0.0, 1, 8, 9000.0, queue="a")]
    jobs += [Arrival(f"late-{at}", 0.0, 2, 8, 9000.0, queue="b") for at in range(2)]
    halves = [Arrival(name, 0.0, 2, 8, 100.0, queue=name) for name in "ab"]
    queueing = Queueing(virtual_clusters(halves, 32, None))
    queueing.check(jobs, nodes_of(pools_from("4 nodes x 8 GPUs")))
    lives = [Life(arrival, number) for number, arrival in enumerate(jobs)]
    lives[0].runs, lives[0].ended_s = [Run(0.0, 9000.0, 32)], 9000.0
    lives[2].runs = lives[3].runs = [Run(9000.0, None, 16)]
    a, b = fairness(lives, 14_400.0, queueing).queues
    assert (a.windows.count, a.windows.over, a.windows.short, a.windows.within) == (2, 2, 0, 0), "then it has no demand"
    assert (b.windows.count, b.windows.short, b.windows.within) == (2, 0, 2), "a job of 16 GPUs is what it is short of"
    assert b.windows.worst == 1.0
    bulky = [*lives[:2], Life(Arrival("bulky", 0.0, 3, 8, 9000.0, queue="b"), 10)]
    a, _ = fairness(bulky, 14_400.0, queueing).queues
    assert (a.windows.count, a.windows.over, a.windows.lent) == (2, 0, 2), "24 GPUs are more than half"
    many = [Life(Arrival(f"m-{at}", 0.0, 1, 4, 9000.0, queue="b"), 10 + at) for at in range(8)]
    _, b = fairness([*lives[:2], *many], 14_400.0, queueing).queues
    assert (b.windows.count, b.windows.short, b.windows.worst) == (4, 4, 1.0)


def test_a_part_of_the_jobs_is_urgent_by_the_seed() -> None:
    jobs = [Arrival(f"job-{at}", 0.0, 1, 1, 1.0) for at in range(1000)]
    drawn = with_urgent(jobs, 0.1, Random(3))  # noqa: S311
    assert 70 < sum(arrival.priority == URGENT for arrival in drawn) < 130
    assert drawn == with_urgent(jobs, 0.1, Random(3))  # noqa: S311


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--reclaim-within-cohort", "Any"), "--reclaim-within-cohort goes with --queue-column"),
        (("--within-cluster-queue", "Never"), "--within-cluster-queue goes with --queue-column"),
        (("--urgent", "0.1", "--priority-column", "prio"), "--urgent goes with jobs that have no --priority-column"),
    ],
)
def test_options_of_preemption_that_mean_nothing_are_refused(
    tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    (tmp_path / "trace.csv").write_text(LENT)
    code, output = simulate("--trace", tmp_path / "trace.csv", "--cluster", "1 node x 8 GPUs", *options)
    assert code == 2
    assert said in " ".join(output.split())
