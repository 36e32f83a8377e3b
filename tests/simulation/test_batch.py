"""Suspended jobs in the model behave as batch/v1 Jobs and their controller do (tests/facts/all.md)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.effects import CleanJob, StartJob, SuspendJob
from extender.core.engine import Engine
from policies.model import Constraints, Dialect, GroupRef, Pod, PodSet, Spread, Topology
from tests.builders import cluster, key, requests
from tests.simulation.batch_plan import has_jobs, has_work_queues
from tests.simulation.drawing import draw
from tests.simulation.model.apiserver import CONFLICT, NOT_FOUND, OK, REFUSED
from tests.simulation.model.batch import BatchJob, Write, resume, suspend
from tests.simulation.model.world import World


def made(count: int, *, gpus: int = 8, name: str = "job-train", **facts: object) -> BatchJob:
    uid = f"uid-{name}"
    template = Pod("", "default", name, requests(gpus), owner=uid, group=GroupRef(name, Dialect.ANNOTATION, count))
    return replace(BatchJob(key(name), uid, (PodSet(template, count, count),)), **facts)  # type: ignore[arg-type]


def world(*nodes: str, muster: bool = True, **facts: object) -> World:
    return World(7, cluster(*nodes), Engine if muster else None, **facts)  # type: ignore[arg-type]


def now(of: World, job: BatchJob) -> BatchJob:
    return of.api.jobs[job.key]


def let(of: World, seconds: float) -> None:
    of.clock.run(of.clock.now + seconds)


def write(of: World, effect: Write) -> int:
    return of.api.write_job(effect, of.api.look_at_job(effect))


def start(of: World, job: BatchJob, *nodes: str) -> int:
    return write(of, StartJob(job.shown(), {"": nodes}, job.least))


def test_it_is_started_with_a_plan_and_its_pods_are_bound_where_it_says() -> None:
    of, job = world("a: 2x8", "b: 4x8"), made(4)
    of.api.set_job(job)
    let(of, 20)
    seen = now(of, job)
    assert not seen.suspended
    assert seen.plan == {"": ("b-0", "b-1", "b-2", "b-3")}
    pods = of.controller.pods(job)
    assert [pod.node for pod in pods] == ["b-0", "b-1", "b-2", "b-3"]
    assert all(pod.phase == "Running" and pod.group == GroupRef("job-train", Dialect.ANNOTATION, 4) for pod in pods)
    of.controller.finish(seen)
    let(of, 20)
    assert now(of, job).ended == "Complete"


def test_a_job_that_nobody_starts_has_no_pods() -> None:
    of, job = world("a: 2x8", muster=False), made(2)
    of.api.set_job(job)
    let(of, 20)
    assert not of.api.pods
    assert now(of, job).stopped


def test_pods_are_made_at_a_rate_that_all_jobs_share() -> None:
    of = world("a: 1x8", muster=False)
    for name in ("one", "two"):
        of.api.set_job(made(20, gpus=0, name=name))
        start(of, made(20, gpus=0, name=name), *["a-0"] * 20)
    let(of, 1)
    assert 15 <= len(of.api.pods) <= 20
    let(of, 2)
    assert len(of.api.pods) == 40


def test_its_pods_are_led_by_affinity_or_pinned_by_index() -> None:
    of = world("a: 2x8", muster=False)
    for job in (made(2), made(2, name="pinned", pins=True)):
        of.api.set_job(job)
        start(of, job, "a-0", "a-1")
    let(of, 2)
    terms = {
        (pod.name[: pod.name.index(".")]): [term[0].values for term in pod.selection.affinity or ()]
        for pod in of.api.pods.values()
    }
    assert terms["uid-job-train-0"] == terms["uid-job-train-1"] == [("a-0",), ("a-1",)]
    assert (terms["uid-pinned-0"], terms["uid-pinned-1"]) == ([("a-0",)], [("a-1",)])


@pytest.mark.parametrize("key", ["kubernetes.io/hostname", "zone"])
def test_pods_that_are_spread_over_domains_of_several_nodes_are_led_by_no_affinity(key: str) -> None:
    of, constraints = world("a: 2x8", muster=False), Constraints(spread=(Spread(key, 1, ()),))
    job = made(2)
    podset = replace(job.podsets[0], template=replace(job.podsets[0].template, constraints=constraints))
    job = replace(job, podsets=(podset,))
    of.api.set_job(job)
    start(of, job, "a-0", "a-1")
    let(of, 2)
    led = [not pod.gates and pod.selection.affinity is not None for pod in of.api.pods.values()]
    assert led == [key != "zone"] * 2


def test_suspended_it_deletes_its_pods_and_may_be_written_again_when_they_are_told_to_go() -> None:
    of, job = world("a: 2x8"), made(2)
    of.api.set_job(job)
    let(of, 20)
    assert write(of, CleanJob(job.shown())) == REFUSED, "it runs"
    of.kill_extender()
    assert write(of, SuspendJob(job.shown(), "")) == OK
    assert now(of, job).plan is None
    assert write(of, CleanJob(job.shown())) == REFUSED, "its pods are there"
    let(of, 0.5)
    assert now(of, job).stopped
    assert [pod.deleting for pod in of.controller.pods(job)] == [True, True]
    assert write(of, CleanJob(job.shown())) == OK
    assert not now(of, job).marked
    let(of, 5)
    assert not of.api.pods


def test_pods_on_a_silent_node_end_when_its_object_goes() -> None:
    of, job = world("a: 2x8"), made(2)
    of.api.set_job(job)
    let(of, 20)
    of.kill_extender()
    of.kubelets.set_down("a-0", down=True)
    of.api.set_job(suspend(now(of, job), polices=True))
    let(of, 100)
    assert [pod.node for pod in of.api.pods.values()] == ["a-0"]
    of.api.remove_node("a-0")
    let(of, 10)
    assert not of.api.pods


def test_a_pod_that_has_the_name_of_an_earlier_one_comes_when_that_has_gone() -> None:
    of, job = world("a: 2x8", muster=False), made(1, same_names=True)
    of.api.set_job(job)
    start(of, job, "a-0")
    let(of, 5)
    (first,) = of.api.pods.values()
    of.api.change_pod(first.uid, node="a-0", phase="Running")
    of.kubelets.set_down("a-0", down=True)
    of.api.set_job(suspend(now(of, job), polices=True))
    let(of, 5)
    write(of, CleanJob(now(of, job).shown()))
    start(of, now(of, job), "a-1")
    let(of, 20)
    assert [pod.uid for pod in of.api.pods.values()] == [first.uid]
    of.api.remove_node("a-0")
    let(of, 20)
    (again,) = of.api.pods.values()
    assert (again.name, again.uid == first.uid) == (first.name, False)


def test_with_more_completions_than_pods_one_comes_after_the_other() -> None:
    job = made(2, by_pod=True, run_s=1.0)
    of, job = world("a: 2x8"), replace(job, podsets=(replace(job.podsets[0], indexed=False, completions=5),))
    of.api.set_job(job)
    let(of, 20)
    pods = of.controller.pods(job)
    assert sum(pod.live for pod in pods) <= 2
    let(of, 60)
    assert (now(of, job).ended, now(of, job).succeeded) == ("Complete", 5)


def test_a_failed_pod_is_replaced_until_the_limit_is_reached() -> None:
    of, job = world("a: 2x8"), made(2, backoff_limit=1)
    of.api.set_job(job)
    let(of, 20)
    for ended in ("", "Failed"):
        pod = next(pod for pod in of.controller.pods(job) if pod.phase == "Running")
        of.api.change_pod(pod.uid, phase="Failed")
        let(of, 20)
        assert now(of, job).ended == ended
    assert not [pod for pod in of.api.pods.values() if pod.live]


def test_a_write_on_an_old_look_is_refused() -> None:
    of, job = world("a: 2x8", muster=False), made(2)
    of.api.set_job(job)
    effect = StartJob(job.shown(), {"": ("a-0", "a-1")}, 2)
    seen = of.api.look_at_job(effect)
    of.api.set_job(replace(now(of, job), backoff_limit=3))
    assert of.api.write_job(effect, seen) == CONFLICT
    of.api.set_job(replace(now(of, job), podsets=made(1).podsets))
    assert write(of, effect) == REFUSED, "it asks for other pods"
    of.api.remove_job(job.key)
    assert write(of, effect) == NOT_FOUND


def test_nobody_else_starts_it_where_the_policies_are() -> None:
    job = made(2)
    assert resume(job, polices=True).suspended
    assert not resume(job, polices=False).suspended
    assert suspend(replace(job, suspended=False, plan={}), polices=True).plan is None


def test_later_waves_are_made_when_the_first_runs() -> None:
    job = made(2)
    later = replace(job.podsets[0].template, series="launcher")
    waves = replace(job, podsets=(*job.podsets, PodSet(later, 1, 1, wave=1)))
    of = world("a: 3x8")
    of.api.set_job(waves)
    let(of, 1)
    assert len(of.api.pods) == 2
    let(of, 20)
    assert {pod.series for pod in of.api.pods.values() if pod.node} == {"", "launcher"}


def test_a_work_queue_that_is_stopped_is_started_again_for_the_pods_that_are_left() -> None:
    """Without indexes its status tells how many pods are left, and that surplus nodes of its plan get no pod."""
    job = made(3, by_pod=True)
    job = replace(job, podsets=(replace(job.podsets[0], indexed=False),))
    of = world("a: 3x8")
    of.api.set_job(job)
    let(of, 5)
    of.controller.finish(now(of, job))
    let(of, 1)
    shown = now(of, job).shown()
    assert (shown.podsets.podsets[0].count, shown.closed, shown.done) == (3, 2, frozenset())
    of.api.set_job(suspend(now(of, job), polices=True))
    let(of, 8)
    shown, plan = now(of, job).shown(), now(of, job).plan
    assert (shown.podsets.podsets[0].count, shown.closed, len((plan or {})[""])) == (1, 0, 1)
    assert sum(pod.phase == "Running" for pod in of.controller.pods(job)) == 1
    of.controller.finish(now(of, job))
    let(of, 5)
    assert now(of, job).ended == "Complete"


@pytest.mark.parametrize("suspended", [False, True])
def test_a_job_that_says_no_completions_makes_no_more_pods_once_one_has_succeeded(*, suspended: bool) -> None:
    """The job is complete when none of its pods runs any more, for example when it is suspended."""
    job = made(4, closes=True)
    job = replace(job, podsets=(replace(job.podsets[0], indexed=False),))
    of = world("a: 4x8")
    of.api.set_job(job)
    let(of, 5)
    of.controller.finish(now(of, job))
    running = [pod for pod in of.controller.pods(job) if pod.phase == "Running"]
    of.api.change_pod(running[0].uid, phase="Failed")
    let(of, 5)
    assert len(running) == 2
    assert [pod.uid for pod in of.controller.pods(job) if pod.live] == [running[1].uid]
    assert (now(of, job).shown().closed, now(of, job).ended) == (4, "")
    if suspended:
        of.api.set_job(suspend(now(of, job), polices=True))
        let(of, 2)
    else:
        let(of, 10)
    assert now(of, job).ended == "Complete"


def _is_work_queue(job: BatchJob) -> bool:
    return job.by_pod and not job.podsets[0].indexed and not job.completions


def test_one_in_eleven_seeds_with_suspended_jobs_has_work_queues() -> None:
    plans = [draw(seed) for seed in range(1, 441)]
    queues = [plan for plan in plans if any(_is_work_queue(job) for _, job in plan.batch.jobs)]
    queues += [plan for plan in plans if any(job.closes for _, job in plan.batch.jobs)]
    assert len({plan.seed for plan in queues}) == 9
    assert all(has_work_queues(plan.seed) and has_jobs(plan.seed) for plan in queues)


def test_nothing_is_made_while_a_quota_keeps_it_from_it() -> None:
    of, job = world("a: 2x8", muster=False), made(2)
    of.controller.blocked[job.key] = None
    of.api.set_job(job)
    start(of, job, "a-0", "a-1")
    let(of, 30)
    assert not of.api.pods
    of.controller.blocked.clear()
    let(of, 10)
    assert len(of.api.pods) == 2


def test_required_levels_are_in_the_template() -> None:
    job = made(2)
    podset = replace(job.podsets[0], template=replace(job.podsets[0].template, topology=Topology("clique")))
    of = world("a: 1x8", "b: 2x8")
    of.api.set_job(replace(job, podsets=(podset,)))
    let(of, 20)
    assert sorted(pod.node or "" for pod in of.api.pods.values()) == ["b-0", "b-1"]
