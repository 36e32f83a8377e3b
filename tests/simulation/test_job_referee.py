"""What the referee makes of admitted jobs: which pod fills which slot, who is late, and what is at rest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.answers import Outcome
from extender.core.effects import StartJob
from extender.core.engine import Engine
from extender.core.events import (
    Event,
    JobSeen,
    NodeSeen,
    PodGone,
    PodSeen,
    Synced,
)
from policies.model import PodSet, PodSets, Stamp
from tests.builders import cluster, gang, key
from tests.simulation.drawing import draw
from tests.simulation.job_orders import judge_job
from tests.simulation.job_rest import judge_jobs
from tests.simulation.judged_life import Life, batch
from tests.simulation.model.batch import BatchJob, written
from tests.simulation.model.world import World
from tests.simulation.referee import Referee
from tests.simulation.sight import look
from tests.simulation.terms import Terms


def test_a_slot_wants_no_other_pod_when_its_pod_has_succeeded_and_its_object_is_gone() -> None:
    life = Life(batch(2), "a-0", "a-1")
    life.show()
    for phase, left in (("Running", 0), ("Succeeded", 8)):
        life.pod(0, node="a-0", phase=phase)
        assert life.gpus("a-0") == left
    life.tell(PodGone("pod-0"))
    assert life.gpus("a-0") == 8
    assert life.gpus("a-1") == 0


def test_a_slot_that_is_done_by_the_status_of_its_job_counts_for_those_that_are_made_again() -> None:
    life = Life(batch(2), "a-0", "a-1")
    again = life.pod(1)
    life.show(done=frozenset({life.job.podsets[0].slot(0)}))
    sight = life.shown.sight(life.job.key)
    assert sight is not None
    assert sight.enough([again])
    assert not sight.enough([])


def test_a_pod_whose_index_has_no_node_in_the_plan_fills_no_slot_on_the_node_that_it_gets() -> None:
    elastic = batch(2, gpus=1)
    life = Life(replace(elastic, podsets=(replace(elastic.podsets[0], minimum=1),)), "a-0", "")
    life.show()
    life.pod(1, node="a-0")
    assert life.gpus("a-0") == 6


def test_a_job_is_about_to_end_while_pods_of_it_have_ended_well_and_the_others_wait() -> None:
    life = Life(batch(2, indexed=False), "a-0", "a-1")
    life.show()
    for phase, ending in (("Running", False), ("Succeeded", True)):
        life.pod(0, node="a-0", phase=phase)
        life.pod(1)
        assert life.admissions.slots.ending is ending
    life.pod(1, node="a-1")
    assert not life.admissions.slots.ending


def test_pods_are_due_from_the_moment_at_which_the_watch_shows_the_start() -> None:
    """Whenever the answer to the write comes."""
    life = Life(batch(2), "a-0", "a-1")
    life.show()
    life.now += 20
    life.end(Outcome.DONE)
    life.now += 15
    assert not life.suspend()


def test_an_earlier_plan_with_fewer_nodes_than_the_job_wants_by_now_may_be_given_up() -> None:
    started = written(batch(2), StartJob(batch(2).shown(), {"": ("a-0", "a-1")}, 2))
    assert isinstance(started, BatchJob)
    for job, cause in ((started, False), (replace(started, podsets=batch(3).podsets), True)):
        life = Life(replace(batch(1), key=key("another")), "a-3")
        life.job = job
        life.show()
        assert (life.suspend() is None) is cause


@pytest.mark.parametrize(("bound", "quorum"), [(True, 1), (False, 2)])
def test_a_pod_that_runs_tells_with_how_many_its_job_was_started_before_it_was_made_larger(
    *, bound: bool, quorum: int
) -> None:
    started = written(batch(1), StartJob(batch(1).shown(), {"": ("a-0",)}, 1))
    assert isinstance(started, BatchJob)
    life = Life(replace(batch(1), key=key("another")), "a-3")
    life.job = started
    stamp = Stamp("uid", "pod-0", complete=True, quorum=1, size=1)
    life.pod(0, **({"node": "a-0", "stamp": stamp} if bound else {}))
    life.show(podsets=batch(2).podsets)
    life.tell(Synced(100.0))
    assert life.admissions.slots.of[started.key].quorum == quorum


@pytest.mark.parametrize("stands_still", [True, False])
def test_a_job_that_waits_is_not_late_while_the_extender_stands_still(*, stands_still: bool) -> None:
    referee, job = Referee(Terms(calm=False)), batch(2)
    seen: list[Event] = [NodeSeen(node) for node in cluster("a: 2x8")]
    for event in (*seen, JobSeen(job.shown())):
        referee._shown.watch(event)
        referee._admissions.hear(event, 0.0)
    if stands_still:
        referee.extender_suspended(40.0)
    late = [at for at in (3.0, 10.0, 38.0, 42.0, 48.0) if referee._fairness.look(at)]
    assert late == ([48.0] if stands_still else [10.0, 38.0, 42.0, 48.0])


@pytest.mark.parametrize(
    ("ready", "deleting", "waits"), [(True, True, True), (False, False, True), (False, True, False)]
)
def test_a_job_waits_for_a_pod_of_others_on_a_silent_node_until_that_is_told_to_go(
    *, ready: bool, deleting: bool, waits: bool
) -> None:
    referee, job = Referee(Terms(calm=False)), batch(2)
    *others, last = cluster("a: 3x8")
    moved = replace(gang("job-train", 1, owner="other")[0], node=last.name, deleting=deleting)
    seen: list[Event] = [NodeSeen(node) for node in (*others, replace(last, ready=ready))]
    for event in (*seen, PodSeen(moved), JobSeen(job.shown())):
        referee._shown.watch(event)
        referee._admissions.hear(event, 0.0)
    late = [at for at in (3.0, 10.0) if referee._fairness.look(at)]
    assert late == ([] if waits else [10.0])
    start = StartJob(job.shown(), {"": tuple(node.name for node in others)}, job.least)
    assert bool(judge_job(start, referee._admissions, [], 10.0)) is waits


def test_a_job_that_is_made_larger_is_at_rest_with_the_pods_that_it_was_started_with() -> None:
    job = batch(2)
    world, plan = World(7, cluster("a: 2x8"), Engine), draw(1)
    world.api.set_job(job)
    world.clock.run(world.clock.now + 20)
    for bigger in (world.api.jobs[job.key], replace(world.api.jobs[job.key], podsets=batch(3).podsets)):
        world.api.set_job(bigger)
        world.clock.run(world.clock.now + 20)
        assert not list(judge_jobs(world, Referee(Terms(calm=False)), {}, plan))
    world.api.delete_pod(next(iter(world.api.pods)))
    assert list(judge_jobs(world, Referee(Terms(calm=False)), {}, plan)), "one of them is going"


def test_a_job_whose_first_wave_is_made_larger_is_at_rest_without_the_second_one() -> None:
    job = batch(2)
    (first,) = job.podsets
    second = replace(first, template=replace(first.template, series="later"), count=1, minimum=1, wave=1)
    world, plan = World(7, cluster("a: 3x8"), Engine), draw(1)
    world.api.set_job(replace(job, podsets=(first, second)))
    world.clock.run(world.clock.now + 0.3)
    started = world.api.jobs[job.key]
    world.api.set_job(replace(started, podsets=(replace(first, count=3, minimum=3), second)))
    world.clock.run(world.clock.now + 20)
    assert [pod.node for pod in world.api.pods.values()] == ["a-0", "a-1", None]
    assert not list(judge_jobs(world, Referee(Terms(calm=False)), {}, plan))


@pytest.mark.parametrize(
    ("series", "enough"), [("aaa", False), ("ab", True), ("abb", True), ("a", False), ("ac", True)]
)
def test_the_quorum_of_a_job_is_counted_by_podset(series: str, enough: bool) -> None:
    """One of a and one of b start together, and c comes when they run: by then what was there of b may have ended."""
    made = {one: replace(batch(2).podsets[0].template, series=one) for one in "abc"}
    sets = (PodSet(made["a"], 3, 1), PodSet(made["b"], 2, 1), PodSet(made["c"], 1, 1, wave=1))
    pods = [replace(made[one], uid=str(at), node="a-0", index=at) for at, one in enumerate(series)]
    sight = look(pods, {}, {key("job-train"): PodSets(key("job-train"), sets)})
    assert (sight.enough(pods), sight.partial) == (enough, not enough)
    edited = (replace(sets[0], minimum=2), *sets[1:])
    sight = look(pods, {}, {key("job-train"): PodSets(key("job-train"), edited)})
    assert sight.enough(pods) is (len(pods) > 1), "its pods ask for two, of whichever podset"
