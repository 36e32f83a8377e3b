"""Which room the referee lets be kept for the slots of a job, and which not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.answers import Outcome
from extender.core.effects import Milestone, Reached, StartJob
from extender.core.engine import Engine
from extender.core.events import (
    BindArrived,
    Event,
    JobGone,
    JobSeen,
    NodeSeen,
    PodGone,
    PodSeen,
    Synced,
    Tick,
)
from policies.model import Constraints, Stamp, Term, Topology
from tests.builders import GPU, cluster, gang, key, single
from tests.simulation.broken import BrokenPromiseError
from tests.simulation.company import Company
from tests.simulation.drawing import draw
from tests.simulation.job_orders import judge_job
from tests.simulation.job_rest import judge_jobs
from tests.simulation.judged_life import Life, batch
from tests.simulation.lives import posting
from tests.simulation.model.batch import BatchJob, written
from tests.simulation.model.world import World
from tests.simulation.referee import Referee
from tests.simulation.shown import GANG_UID
from tests.simulation.sight import left_over
from tests.simulation.terms import Terms


@pytest.mark.parametrize(("name", "wrong"), [("job-train", False), ("job-other", True)])
def test_a_start_in_doubt_is_in_the_way_of_other_jobs_and_not_of_the_next_start(name: str, *, wrong: bool) -> None:
    asked = Constraints(anti_affinity=(Term("kubernetes.io/hostname", (), ("default",)),))
    job = batch(1)
    podset = replace(job.podsets[0], template=replace(job.podsets[0].template, constraints=asked))
    life = Life(replace(job, podsets=(podset,)), "a-0")
    life.end(Outcome.UNKNOWN)
    other = replace(life.job, key=key(name)).shown()
    said = Company(life.shown, life.claims).started(StartJob(other, {"": ("a-0",)}, 1))
    assert ("lets in no order" in (said or "")) is wrong


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_start_whose_plan_was_taken_back_is_in_the_way_of_no_other_job(*, forgotten: bool) -> None:
    asked = Constraints(anti_affinity=(Term("kubernetes.io/hostname", (), ("default",)),))
    job = batch(1)
    podset = replace(job.podsets[0], template=replace(job.podsets[0].template, constraints=asked))
    life = Life(replace(job, podsets=(podset,)), "a-0")
    if forgotten:
        life.claims.apply(Reached(life.job.key, Milestone.FORGOTTEN, 1, 0.0), Tick())
    other = StartJob(replace(life.job, key=key("job-other")).shown(), {"": ("a-0",)}, 1)
    company = Company(life.shown, life.claims)
    assert (company.started(other) is None) is forgotten
    life.show()
    assert (company.started(other) is None) is forgotten, "it is yet to be suspended"
    life.show(suspended=True)
    life.show(suspended=False)
    assert company.started(other), "others have started it again by that plan"


@pytest.mark.parametrize("shown", [False, True])
def test_no_room_is_kept_for_a_slot_that_is_done_by_the_status_of_its_job(*, shown: bool) -> None:
    """``shown``: the watch still shows the pod as running."""
    life = Life(batch(2), "a-0", "a-1")
    done = life.pod(0, node="a-0", phase="Running")
    if not shown:
        life.tell(PodGone(done.uid))
    life.show(done=frozenset({life.job.podsets[0].slot(0)}))
    life.restart()
    assert (life.gpus("a-0"), life.gpus("a-1")) == (0 if shown else 8, 0)


def test_a_job_that_may_be_stopped_keeps_no_node_from_single_pods() -> None:
    life = Life(batch(2), "a-0", "a-1")
    life.show()
    assert life.admissions.slots.nodes({}) == {"a-0", "a-1"}
    life.show(podsets=batch(1).podsets)
    assert not life.admissions.slots.nodes({})


@pytest.mark.parametrize("free", [False, True])
def test_a_job_may_be_started_over_whose_next_pod_comes_when_a_pod_of_no_gang_has_the_room(*, free: bool) -> None:
    """kube-scheduler gave it away when it knew that the last one had ended, and the watch did not show that."""
    life = Life(batch(1, gpus=4 if free else 8), "a-0")
    life.show(suspended=False)
    life.pod(0, node="a-0", phase="Running")
    alone = single("alone", gpus=4)
    life.tell(PodSeen(alone))
    life.claims.apply(posting(alone, "a-0"), Tick())
    assert (life.suspend() is not None) is free


def test_a_job_that_is_over_may_keep_the_node_of_a_pod_whose_end_the_watch_has_yet_to_show() -> None:
    life = Life(batch(2, indexed=False), "a-0", "a-1")
    life.show()
    life.pod(0, node="a-0", phase="Succeeded")
    waiting = life.pod(1)
    life.tell(JobSeen(replace(life.job.shown(), finished=True)))
    assert life.admissions.slots.ending
    life.tell(PodGone(waiting.uid))
    assert not life.admissions.slots.ending


def test_no_room_is_kept_for_a_pod_of_a_job_that_wants_fewer() -> None:
    life = Life(batch(2), "a-0", "a-1")
    life.show()
    pods = [life.pod(0), life.pod(1)]
    for pod, node in zip(pods, ("a-0", "a-1"), strict=True):
        life.claims._promise(pod.uid, node)
    life.claims.apply(posting(pods[0], "a-0"), BindArrived(1, "pod-0", "default", "pod-0", "a-0", 900.0))
    life.show(podsets=batch(1).podsets)
    life.tell(PodGone("pod-1"))
    assert life.claims.left(["a-1"], surely=True)["a-1"][GPU] == 8


@pytest.mark.parametrize(("indexed", "kept"), [(True, "a-0"), (False, "a-1")])
def test_no_room_is_kept_for_pods_that_a_job_made_smaller_before_a_restart_will_not_make(
    indexed: bool, kept: str
) -> None:
    life = Life(replace(batch(1), key=key("another")), "a-3")
    started = written(batch(2), StartJob(batch(2).shown(), {"": ("a-0", "a-1")}, 2))
    assert isinstance(started, BatchJob)
    job = replace(started, podsets=batch(1, indexed=indexed).podsets)
    pod = replace(job.pod(job.podsets[0], 1, "pod-1", 0.0), node="a-1")
    life.tell(JobSeen(job.shown()))
    life.tell(PodSeen(pod))
    life.tell(Synced(100.0))
    life.tell(PodGone(pod.uid))
    room = life.claims.left(["a-0", "a-1"], surely=True)
    assert [node for node in room if not room[node][GPU]] == [kept]


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("restarted", [True, False])
def test_the_room_of_slots_is_kept_whatever_an_earlier_start_has_left_on_a_silent_node(
    *, restarted: bool, indexed: bool
) -> None:
    """``restarted``: this life of the extender finds the job started."""
    life, job = Life(replace(batch(1), key=key("another")), "a-2"), batch(2, indexed=indexed)
    start = StartJob(job.shown(), {"": ("a-0", "a-1")}, 2)
    started, silent = written(job, start), cluster("a: 4x8")[-1]
    assert isinstance(started, BatchJob)
    before = started.pod(job.podsets[0], 0, "before", 0.0)
    life.tell(NodeSeen(replace(silent, ready=False)))
    life.tell(PodSeen(replace(before, node=silent.name, deleting=True)))
    if not restarted:
        life.tell(JobSeen(job.shown()))
        assert not judge_job(start, life.admissions, [], life.now)
    life.job = started
    life.show()
    for _ in range(2):
        assert [life.gpus("a-0"), life.gpus("a-1")] == [0, 0]
        life.pod(1, node="a-1")


def test_no_room_is_kept_for_the_slot_of_a_pod_that_the_job_has_elsewhere() -> None:
    life = Life(batch(2), "a-0", "a-1")
    life.show()
    for deleting in (False, True):
        life.pod(0, node="a-3", deleting=deleting)
        assert [life.gpus("a-0"), life.gpus("a-1")] in ([8, 0], [0, 8])


def test_no_room_is_kept_for_a_gang_of_which_only_a_pod_that_is_gone_is_being_bound() -> None:
    life, pods = Life(batch(1), "a-3"), gang("two", 2, min_member=1)
    for pod, node in zip(pods, ("a-0", "a-1"), strict=True):
        life.tell(PodSeen(pod))
        life.claims._promise(pod.uid, node)
    life.claims.apply(posting(pods[0], "a-0"), BindArrived(1, pods[0].uid, "default", pods[0].name, "a-0", 900.0))
    for pod in pods:
        life.tell(PodGone(pod.uid))
    assert not life.claims.kept


@pytest.mark.parametrize("deleting", [True, False])
def test_a_pod_of_an_earlier_start_whose_binding_is_yet_to_be_answered_is_in_no_clique_of_its_gang(
    *, deleting: bool
) -> None:
    referee, level = Referee(Terms(calm=False)), Topology("clique")
    before, after = (replace(pod, topology=level) for pod in gang("train", 2))
    seen: list[Event] = [NodeSeen(node) for node in cluster("a: 1x8", "b: 1x8")]
    for event in (*seen, PodSeen(before), PodSeen(after)):
        referee._shown.watch(event)
    referee._claims.posting[before.uid] = posting(before, "a-0")
    referee.wholeness.asked_for[before.uid] = before.group_key
    referee._shown.watch(PodSeen(replace(before, node="a-0", deleting=deleting)))
    later = replace(posting(after, "b-0"), annotations={GANG_UID: "later"})
    if deleting:
        return referee.postings.judge_topology(later)
    with pytest.raises(BrokenPromiseError):
        referee.postings.judge_topology(later)
    return None


@pytest.mark.parametrize("moved", [True, False])
def test_a_pod_that_was_bound_for_another_gang_may_be_in_another_clique(*, moved: bool) -> None:
    """Its annotations were edited, and its owner stands on the Bindings of the gang that it was brought into."""
    referee, level = Referee(Terms(calm=False)), Topology("clique")
    before, after = (replace(pod, topology=level) for pod in gang("train", 2))
    stamp = Stamp("g", "r", complete=True, quorum=1, size=1, at=0.0)
    seen: list[Event] = [NodeSeen(node) for node in cluster("a: 1x8", "b: 1x8")]
    for event in (*seen, PodSeen(replace(before, node="a-0", stamp=stamp)), PodSeen(after)):
        referee._shown.watch(event)
    referee.wholeness.asked_for[before.uid] = key("other") if moved else before.group_key
    if moved:
        return referee.postings.judge_topology(posting(after, "b-0"))
    with pytest.raises(BrokenPromiseError):
        referee.postings.judge_topology(posting(after, "b-0"))
    return None


def test_a_job_whose_name_the_pods_of_others_have_waits_for_them_whatever_room_there_is() -> None:
    job, other = batch(2), gang("job-train", 1, min_member=2)
    world, plan, referee = World(7, cluster("a: 3x8"), Engine), draw(1), Referee(Terms(calm=False))
    world.api.create_pod(other[0])
    world.clock.run(world.clock.now + 5)
    world.api.set_job(job)
    world.clock.run(world.clock.now + 20)
    assert world.api.jobs[job.key].suspended
    room = left_over(world.api.nodes, world.api.pods.values())
    said = [one for one in judge_jobs(world, referee, room, plan) if "last that was reported" not in one]
    assert not said


def test_a_start_that_is_taken_back_before_the_watch_has_shown_it_keeps_no_room() -> None:
    life = Life(batch(1), "a-0")
    life.show(suspended=True, plan=None, led=None)
    assert life.gpus("a-0") == 0, "an older version of the job"
    life.show(led={"": ("a-0",)})
    assert life.gpus("a-0") == 8


@pytest.mark.parametrize("ends", ["gone", "finished", "made anew", "not ours"])
@pytest.mark.parametrize("forgotten", [False, True])
def test_pods_whose_job_is_gone_keep_their_nodes_until_these_are_forgotten(ends: str, *, forgotten: bool) -> None:
    life = Life(batch(2), "a-0", "a-0")
    life.show()
    pod, shown = life.pod(1), life.job.shown()
    later = replace(batch(2), uid="later").shown()
    said = {"finished": replace(shown, finished=True), "not ours": replace(shown, managed=False), "made anew": later}
    life.tell(JobSeen(said[ends]) if ends in said else JobGone(shown.key, shown.uid))
    if forgotten:
        life.claims.apply(Reached(life.job.key, Milestone.FORGOTTEN, 1, 0.0), Tick())
    assert (life.gpus("a-0") < 8) is not forgotten
    life.tell(PodGone(pod.uid))
    assert life.gpus("a-0") == 8


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_gang_whose_job_is_gone_is_late_only_when_its_nodes_are_forgotten(*, forgotten: bool) -> None:
    """The watch may be late to show that its pods are gone, and kube-scheduler asks about them no more."""
    referee, job = Referee(Terms(calm=False)), batch(1)
    seen: list[Event] = [NodeSeen(node) for node in cluster("a: 1x8")]
    for event in (*seen, JobSeen(job.shown())):
        referee._shown.watch(event)
        referee._admissions.hear(event, 0.0)
    start = StartJob(job.shown(), {"": ("a-0",)}, 1)
    assert not judge_job(start, referee._admissions, [], 0.0)
    started = written(job, start)
    assert isinstance(started, BatchJob)
    pod = started.pod(job.podsets[0], 0, "pod-0", 0.0)
    for event in (JobSeen(started.shown()), PodSeen(pod), JobGone(job.key, job.uid)):
        referee._shown.watch(event)
        referee._admissions.hear(event, 1.0)
    if forgotten:
        referee._claims.apply(Reached(job.key, Milestone.FORGOTTEN, 1, 0.0), Tick())
    late = [at for at in (3.0, 10.0) if referee._fairness.look(at)]
    assert late == ([10.0] if forgotten else [])
