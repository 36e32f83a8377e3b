"""The rules for every scheduler in a simulation, whatever the jobs: no GPU is used twice, every hour is counted."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import msgspec
import pytest

from benchmarks import replay
from benchmarks.record import Content, read_runs
from extender.cli.case import core
from extender.config.settings import load
from extender.core.engine import Engine
from extender.simulation.contest import Baseline, Case, run
from extender.simulation.replay.arrivals import Arrival, at_load, offered_load
from extender.simulation.replay.course import Course, Terms
from extender.simulation.replay.muster import Muster
from extender.simulation.replay.shape import gpus_of, nodes_of, pools_from
from extender.simulation.report.outcome import binned
from policies.model import Node
from tests.core.invariants import validate
from tests.test_benchmarks import ABOUT

SCHEDULERS = ["muster", *Baseline]


def busy(seed: int, jobs: int = 150) -> tuple[list[Arrival], list[Node]]:
    """Jobs of one GPU to three nodes, elastic and urgent ones among them, more than the cluster can take at once."""
    random = Random(seed)  # noqa: S311
    nodes = nodes_of(pools_from("6 nodes x 8 GPUs in cliques of 2, 3 nodes x 4 GPUs"))
    arrivals = []
    for number in range(jobs):
        pods, gpus = random.choice([(1, 1), (1, 2), (1, 8), (2, 8), (3, 8), (3, 4), (4, 2)])
        arrivals.append(
            Arrival(
                f"job-{number}",
                submit_s=random.uniform(0, 10_000),
                pods=pods,
                gpus=gpus,
                run_s=random.uniform(10, 2_000),
                priority=random.choice([0, 0, 0, 10]),
                min_member=random.choice([0, 0, pods, 1]),
            )
        )
    return at_load(sorted(arrivals, key=lambda arrival: arrival.submit_s), gpus_of(nodes), 1.3), nodes


def case(seed: int, **settings: object) -> Case:
    arrivals, nodes = busy(seed)
    return Case(arrivals, nodes, Terms(), seed, {"muster": partial(core, load(None, **settings))})


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("seed", range(3))
def test_no_gpu_is_used_twice_and_every_gpu_hour_is_accounted_for(scheduler: str, seed: int) -> None:
    here = case(seed)
    (outcome,) = run(here, [scheduler], lambda *_: None)
    figures = outcome.figures
    assert all(0 <= sum(step[1:]) <= figures.gpus and min(step[1:]) >= 0 for step in outcome.steps)
    assert outcome.steps[-1][1:] == (0, 0, 0, 0), "in the end everything is free"
    hours = figures.productive + figures.starting + figures.held + figures.lost + figures.free
    assert hours == pytest.approx(figures.gpus * figures.observed_s / 3600)
    assert figures.held_in_vain + figures.rendezvous == pytest.approx(figures.held)
    assert figures.completed + figures.never_started == figures.jobs
    if scheduler == "muster":
        assert (figures.completed, figures.held) == (figures.jobs, 0)
    curve = binned(outcome.steps, figures.observed_s, 7)
    productive = sum(point[0] for point in curve) / 7 * figures.observed_s / 3600
    assert productive == pytest.approx(figures.productive)


@pytest.mark.parametrize("steering", ["nominate", "pin-domain", "pin-node"])
def test_gangs_run_alike_however_they_are_steered(steering: str) -> None:
    (led_by_filter,) = run(case(1), ["muster"], lambda *_: None)
    (steered,) = run(case(1, steering=steering), ["muster"], lambda *_: None)
    assert steered.figures == led_by_filter.figures


def test_the_core_is_in_order_while_and_after_it_replays() -> None:
    arrivals, nodes = busy(5)
    scheduler: Engine = core(load(None))
    course = Course(arrivals, Terms(), lambda over: validate(scheduler.state) if over % 10 == 0 else None)
    course.play(Muster(course, nodes, scheduler))
    validate(scheduler.state)
    assert not scheduler.state.pods
    assert not len(scheduler.state.claims)
    assert all(len(life.nodes) >= life.arrival.needed for life in course.lives)


def test_the_offered_load_is_what_was_asked_for() -> None:
    arrivals, nodes = busy(2)
    assert offered_load(at_load(arrivals, gpus_of(nodes), 0.8), gpus_of(nodes)) == pytest.approx(0.8)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_what_runs_after_the_last_arrival_changes_no_utilisation(scheduler: str) -> None:
    def utilisation(last_runs_s: float) -> float | None:
        arrivals = [Arrival("first", 0, 1, 8, 900), Arrival("last", 1_000, 1, 1, last_runs_s)]
        nodes = nodes_of(pools_from("1 nodes x 8 GPUs"))
        played = Case(arrivals, nodes, Terms(), 0, {"muster": partial(core, load(None))})
        (outcome,) = run(played, [scheduler], lambda *_: None)
        return outcome.figures.utilisation

    assert utilisation(10) == utilisation(1_000_000) == pytest.approx(0.9)


def test_a_replay_is_kept_and_told_for_each_load_and_a_gang_that_holds_is_a_problem(tmp_path: Path) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("cluster,submission_time,duration,num_gpu\na,0,100,16\na,5,100,8\na,9,100,1\na,300,50,4\n")
    measured = replay.benchmark("replay-a", trace, "a", "3 nodes x 8 GPUs in cliques of 3", [0.5, 2.0], seed=1)
    runs = {name: msgspec.to_builtins(measure(lambda _: None)) for name, measure in measured.steps.items()}
    kept = msgspec.json.decode(msgspec.json.encode(Content("replay-a", {}, ABOUT, "2026-08-20", runs)), type=Content)
    again = read_runs(kept, replay.Run)
    titles = [table.title for table in replay.tables(again)]
    assert "50 % offered load. Waiting until the gang is whole: median / 95th percentile" in titles
    assert "200 % offered load. What the GPUs did" in titles
    assert replay.problems(again) == []
    muster = next(replayed for replayed in again if replayed.figures.scheduler == "muster")
    muster.figures = replace(muster.figures, held=5.0, completed=3)
    assert replay.problems(again) == [
        "at 50 % load gangs held 5.0 GPU-hours without work",
        "at 50 % load only 3 jobs were completed",
    ]
