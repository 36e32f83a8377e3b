"""The demo's figures: GPU-hours from hand-made sightings whose sums are known, and the demo's sentences about them."""

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import yaml

from devcluster.demo import ledger, outcome, picture
from devcluster.demo.ledger import PodTimes, Use, Work, spells
from devcluster.demo.outcome import Run
from devcluster.demo.scenario import JOBS, MANIFEST, Case, tried
from devcluster.demo.sightings import advanced

CASE = Case()
HOUR = 3600.0


def pods(name: str, bound: float, **times: Any) -> Iterator[PodTimes]:
    """Four workers on four nodes that all do the same at the same time."""
    for i in range(4):
        yield PodTimes(name, f"{name}-{i}", f"node-{i}", 8, bound, **times)


def whole_run() -> list[PodTimes]:
    """The sightings of one job after the other, each bound at once, 10 s of rendezvous, then 1,750 s of work."""
    first = pods("train-a", 0.0, running_s=0.0, ended_s=1760.0, succeeded=True)
    second = pods("train-b", 1760.0, running_s=1760.0, ended_s=3520.0, succeeded=True)
    return [*first, *second]


def deadlock() -> list[PodTimes]:
    """Each job has two of its four pods on a node, and they run, waiting for the other two."""
    return [
        pod if pod.name[-1] in "01" else replace(pod, node=None, bound_s=None, running_s=None)
        for name in JOBS
        for pod in pods(name, 0.0, running_s=1.0)
    ]


def run(title: str, seen: list[PodTimes], until_s: float = HOUR) -> Run:
    return Run(title, tuple(seen), ledger.totals(seen, JOBS, CASE.work, CASE.gpus, until_s))


def test_two_jobs_one_after_the_other_are_31_11_productive_gpu_hours() -> None:
    totals = ledger.totals(whole_run(), JOBS, CASE.work, 32, until_s=HOUR)
    assert (totals.jobs_completed, totals.jobs) == (2, 2)
    assert (totals.observed_s, totals.makespan_s) == (3520.0, 3520.0)
    assert totals.productive == pytest.approx(2 * 4 * 8 * 1750 / 3600)
    assert totals.starting == pytest.approx(2 * 4 * 8 * 10 / 3600)
    assert totals.held == 0.0
    assert totals.free == pytest.approx(0.0, abs=1e-9)
    assert f"{totals.productive:.2f}" == "31.11"


def test_a_deadlock_holds_every_gpu_and_produces_nothing() -> None:
    totals = ledger.totals(deadlock(), JOBS, CASE.work, 32, until_s=HOUR)
    assert (totals.jobs_completed, totals.makespan_s) == (0, None)
    assert (totals.productive, totals.starting, totals.held, totals.free) == (0.0, 0.0, 32.0, 0.0)


def test_waiting_for_the_last_worker_is_held_time_of_the_others() -> None:
    early = [replace(pod, bound_s=0.0, running_s=5.0, ended_s=None) for pod in pods("train-a", 0.0)]
    late = replace(early[3], bound_s=90.0, running_s=100.0)
    seen = [*early[:3], late]
    by_pod = {
        node: {s.use: (s.begin_s, s.end_s) for s in spells(seen, CASE.work, 200.0) if s.node == node}
        for node in ("node-0", "node-3")
    }
    assert by_pod["node-0"] == {Use.HELD: (0.0, 100.0), Use.STARTING: (100.0, 110.0), Use.WORKING: (110.0, 200.0)}
    assert by_pod["node-3"] == {Use.HELD: (90.0, 100.0), Use.STARTING: (100.0, 110.0), Use.WORKING: (110.0, 200.0)}


def test_a_slow_start_is_initialisation_and_never_extra_work() -> None:
    seen = list(pods("train-a", 0.0, running_s=1.0, ended_s=1800.0, succeeded=True))
    totals = ledger.totals(seen, JOBS, CASE.work, 32, until_s=HOUR)
    assert totals.productive == pytest.approx(4 * 8 * 1750 / 3600)
    assert totals.starting == pytest.approx(4 * 8 * 49 / 3600)
    assert totals.held == pytest.approx(4 * 8 * 1 / 3600)


def test_a_pod_that_was_deleted_holds_nothing_afterwards() -> None:
    seen = [PodTimes("train-a", "train-a-0", "node-0", 8, 0.0, 1.0, ended_s=450.0)]
    assert ledger.totals(seen, JOBS, CASE.work, 32, until_s=HOUR).held == pytest.approx(1.0)


def test_three_of_four_workers_are_not_a_completed_job() -> None:
    seen = list(pods("train-a", 0.0, running_s=0.0, ended_s=1760.0, succeeded=True))
    seen[3] = replace(seen[3], ended_s=None, succeeded=False)
    totals = ledger.totals(seen, JOBS, CASE.work, 32, until_s=HOUR)
    assert totals.jobs_completed == 0
    assert totals.makespan_s is None


@pytest.mark.parametrize("until_s", [0.0, 5.0, 1000.0, 3000.0, HOUR])
@pytest.mark.parametrize("seen", [whole_run(), deadlock(), []])
def test_every_gpu_second_is_counted_once(seen: list[PodTimes], until_s: float) -> None:
    totals = ledger.totals(seen, JOBS, CASE.work, 32, until_s)
    parts = (totals.productive, totals.starting, totals.held, totals.free)
    assert all(hours >= -1e-9 for hours in parts)
    assert sum(parts) == pytest.approx(32 * totals.observed_s / 3600)


def test_the_expected_outcome_needs_no_complaint() -> None:
    assert outcome.complaints(run("alone", deadlock()), run("muster", whole_run()), CASE) == []


def test_an_unexpected_outcome_is_said_in_plain_words() -> None:
    [first, *_] = outcome.complaints(run("alone", whole_run()), run("muster", whole_run()), CASE)
    assert first == "With kube-scheduler alone neither job should have run, but one did."
    [a, b] = outcome.complaints(run("alone", deadlock()), run("muster", deadlock()), CASE)
    assert a == "With Muster train-a should have completed, but did not (2 of its pods got a node)."
    assert b == "With Muster train-b should have completed, but did not (2 of its pods got a node)."


def test_two_jobs_at_once_are_not_one_after_the_other() -> None:
    overlapping = [replace(p, bound_s=1000.0) if p.job == "train-b" else p for p in whole_run()]
    [complaint] = outcome.complaints(run("alone", deadlock()), run("muster", overlapping), CASE)
    assert "both had GPUs at the same time" in complaint


def test_the_picture_is_well_formed_and_shows_every_spell() -> None:
    runs = (run("alone", deadlock()), run("muster", whole_run()))
    root = ET.fromstring(picture.draw(runs, CASE, 60))  # noqa: S314 - our own output
    tips = [title.text for title in root.iter("{http://www.w3.org/2000/svg}title")]
    assert len(tips) == sum(len(spells(r.pods, CASE.work, r.totals.observed_s)) for r in runs)
    assert "train-b: productive, 8 GPUs, 29:30 to 58:40, 3.89 GPU-hours" in tips


def test_times_are_those_of_the_first_sighting() -> None:
    def seen(node: str | None, phase: str) -> dict[str, Any]:
        return {"spec": {"nodeName": node} if node else {}, "status": {"phase": phase}}

    times = PodTimes("train-a", "train-a-0")
    for now_s, event in enumerate((seen(None, "Pending"), seen("n", "Pending"), seen("n", "Running"))):
        times = advanced(times, "MODIFIED", event, float(now_s))
        times = advanced(times, "MODIFIED", event, now_s + 0.5)
    times = advanced(times, "MODIFIED", seen("n", "Succeeded"), 9.0)
    times = advanced(times, "DELETED", seen("n", "Succeeded"), 12.0)
    assert times == PodTimes("train-a", "train-a-0", "n", 8, 1.0, 2.0, 9.0, succeeded=True)


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        ({}, {"conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}, False),
        ({}, {}, False),
        ({}, {"conditions": [{"type": "PodScheduled", "reason": "Unschedulable"}]}, True),
        ({}, {"conditions": [{"type": "PodScheduled", "reason": "SchedulerError"}]}, True),
        ({"nodeName": "node-0"}, {}, True),
    ],
)
def test_a_pod_was_tried_when_there_is_a_sign_of_it(
    spec: dict[str, Any], status: dict[str, Any], expected: bool
) -> None:
    assert tried({"spec": spec, "status": status}) is expected
    assert not tried(None)


def test_the_jobs_wait_suspended_need_the_whole_cluster_each_and_nothing_stands_on_their_pods() -> None:
    jobs = list(yaml.safe_load_all(MANIFEST.read_text()))
    assert tuple(document["metadata"]["name"] for document in jobs) == JOBS
    for job in jobs:
        spec, template = job["spec"], job["spec"]["template"]
        [container] = template["spec"]["containers"]
        assert (spec["suspend"], spec["completions"], spec["parallelism"]) == (True, Work().workers, Work().workers)
        assert spec["parallelism"] * container["resources"]["limits"]["nvidia.com/gpu"] == CASE.gpus
        assert template.keys() == {"spec"}
        assert "schedulerName" not in template["spec"]


def test_a_job_that_never_started_counts_among_those_that_did_not_complete() -> None:
    totals = ledger.totals([pod for pod in whole_run() if pod.job == "train-a"], JOBS, CASE.work, 32, until_s=HOUR)
    assert (totals.jobs_completed, totals.jobs, totals.makespan_s) == (1, 2, None)
