"""The fault campaign: a few hundred seeds, each a cluster, its jobs and what goes wrong. `make soak` plays more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policies.model import Taint
from tests.builders import node, requests
from tests.simulation.campaign import Run, play
from tests.simulation.drawing import draw
from tests.simulation.model.changes import Kind
from tests.simulation.model.job_specs import JobSpec, Role

SEEDS, CHUNK = 320, 16
REAL = 100_001
"""From here on the seeds have real nodes."""


CLAIMS, VOLUMES = 1_000_001, 2_000_001
"""From here on pods have claims of devices, or of volumes."""
BACKFILL = 3_000_001
"""From here on room is reserved for waiting workloads."""


@pytest.mark.parametrize(
    "first", [*range(1, SEEDS + 1, CHUNK), *range(REAL, REAL + 2 * CHUNK, CHUNK), CLAIMS, VOLUMES, BACKFILL]
)
def test_every_promise_is_kept_whatever_goes_wrong(first: int) -> None:
    """A seed that breaks one raises its story, and the command that plays it again."""
    for seed in range(first, first + CHUNK):
        tally = play(seed, every=8)
        assert tally.events, f"nothing happened in seed {seed}"


def test_a_run_comes_to_rest_although_kube_scheduler_says_something_else_of_each_sample_of_the_nodes() -> None:
    """kube-scheduler writes another refusal for each sample, and tries the pod again: Muster cannot end that."""
    nodes = [node(f"n{number:03}") for number in range(150)]
    nodes[:75:8] = [replace(node, taints=(Taint("dedicated", "others", "NoSchedule"),)) for node in nodes[:75:8]]
    plan = draw(32)
    jobs = ((0.0, JobSpec("lacking", (Role(1, requests(8)),), min_member=2)),)
    profile = replace(plan.profile, score_all=False, cycle_s=1.0)
    run = Run(replace(plan, nodes=tuple(nodes), jobs=jobs, profile=profile), every=0)
    run.play()
    assert run.world.scheduler is not None
    cycles, before = run.world.scheduler.cycles, run._activity()
    run._run(run.world.clock.now + 100)
    assert run.world.scheduler.cycles > cycles, "it is tried still"
    assert run._activity() == before
    run.world.api.touch_pod(next(iter(run.world.api.pods)), nominated_node="n000", refusal="something else")
    assert run._activity() != before


def test_a_run_rests_only_once_all_that_the_core_takes_in_late_has_had_its_time() -> None:
    """A node that has failed the core twice has been changed: no client writes anything when it is shown in full."""
    run = Run(replace(draw(32), faults=()), every=0)
    run.play()
    api, clock = run.world.api, run.world.clock
    uid = next(iter(api.changes[Kind.NODES]))
    for _ in range(2):
        api.failing[uid] = ""
        run.trouble.edit(uid)
        run._run(clock.now + 10)
        run.trouble.mend(uid)
        run._run(clock.now + 10)
    assert run._awaits_trial()
    before = run._activity()
    run._run(clock.now + 100)
    assert not run._awaits_trial()
    assert run._activity() != before


def test_room_is_judged_by_what_is_asked_for() -> None:
    """A node has lost a GPU that is in use, and others are evicted for a gang with a pod there that requests none."""
    play(21014, every=8)
