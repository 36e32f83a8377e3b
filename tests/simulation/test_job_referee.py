"""The referee's reading of admitted jobs: which pod fills which slot, which pod is late, and the final state.

The referee knows which room may be kept for the slots of a job, and the causes for its suspension.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.answers import BindingPosted, Outcome, PodTried, Verdict
from extender.core.effects import Milestone, Reached, StartJob, SuspendJob
from extender.core.engine import Engine
from extender.core.events import (
    BindArrived,
    Event,
    FilterCalled,
    JobGone,
    JobSeen,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
    Synced,
    Tick,
)
from policies.model import Constraints, PodSet, PodSets, Stamp, Term, Topology
from tests.builders import GPU, cluster, gang, key, single
from tests.simulation.admissions import Admissions
from tests.simulation.broken import BrokenPromiseError
from tests.simulation.company import Company
from tests.simulation.doubts import DOUBT_S
from tests.simulation.drawing import draw
from tests.simulation.job_orders import judge_job
from tests.simulation.judged_life import Life, batch
from tests.simulation.lives import nomination, posting
from tests.simulation.model.additions import TOLERATION, Added, as_created
from tests.simulation.model.batch import BatchJob, written
from tests.simulation.model.world import World
from tests.simulation.referee import Referee
from tests.simulation.rest import judge_jobs
from tests.simulation.shown import GANG_UID
from tests.simulation.sight import left_over, look
from tests.simulation.stamps import judge_stamp
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


def _unlike(count: int, added: Added) -> BatchJob:
    """A job to whose pods the API server makes that addition."""
    job = batch(count)
    return replace(job, podsets=(replace(job.podsets[0], shape=added.shape(job.uid)),))


@pytest.mark.parametrize("stopped", [False, True])
def test_what_is_added_to_a_pod_is_known_whether_its_job_is_being_stopped_or_not(*, stopped: bool) -> None:
    life = Life(_unlike(1, Added(tolerates=True)), "a-0")
    if stopped:
        life.suspend()
    pod = life.pod(0)
    (known,) = life.admissions.as_known(life.job.shown().podsets).podsets
    assert known.template.selection.tolerations == pod.selection.tolerations == (TOLERATION,)


@pytest.mark.parametrize("bound", [False, True])
def test_a_start_may_be_stopped_when_a_dry_run_shows_that_it_was_planned_for_other_pods(*, bound: bool) -> None:
    """``bound``: its own pods tell what they ask for."""
    life = Life(_unlike(1, Added(pool="a")), "a-0")
    (podset,) = life.job.podsets
    if bound:
        life.tell(PodSeen(replace(podset.template, uid="pod-0", node="a-0")))
        life.admissions.slots.of[life.job.key].trouble = ""
    tried = as_created(podset, podset.template)
    life.tell(PodTried(life.job.key, podset.shape, Verdict.PASSED, tried))
    assert bool(life.admissions.slots.of[life.job.key].trouble) is not bound


def test_what_is_added_to_pods_counts_once_whatever_number_of_them_comes() -> None:
    life = Life(_unlike(3, Added(cpu=8_000)), "a-0", "a-1", "a-2")
    life.show()
    before = life.claims.left(["a-2"])["a-2"]["cpu"]
    for index in range(2):
        life.pod(index)
        assert before - life.claims.left(["a-2"])["a-2"]["cpu"] == 8_000


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
    ("series", "enough"), [("aaa", False), ("ab", True), ("abb", True), ("aab", True), ("a", False), ("ac", True)]
)
def test_the_quorum_of_a_job_is_counted_by_podset(series: str, enough: bool) -> None:
    """A pod of a and one of b start together, and c comes when they run: the pods of b may have ended before."""
    made = {name: replace(batch(2).podsets[0].template, series=name) for name in "abc"}
    sets = (PodSet(made["a"], 3, 1), PodSet(made["b"], 2, 1), PodSet(made["c"], 1, 1, wave=1))
    pods = [replace(made[name], uid=str(at), node="a-0", index=at) for at, name in enumerate(series)]
    sight = look(pods, {}, {key("job-train"): PodSets(key("job-train"), sets)})
    assert (sight.enough(pods), sight.partial) == (enough, not enough)
    edited = (replace(sets[0], minimum=2), *sets[1:])
    sight = look(pods, {}, {key("job-train"): PodSets(key("job-train"), edited)})
    assert sight.enough(pods) is (len(pods) > 1), "its pods ask for two, of whichever podset"
    assert sight.surely_enough(pods) is (series == "aab"), "the job asks for two of a and one of b"


@pytest.mark.parametrize(("bound", "due"), [(1, False), (2, True)])
def test_the_stamp_of_a_whole_release_is_due_once_the_larger_job_is_whole_too(bound: int, *, due: bool) -> None:
    """The pods were made when two of them were to start together, and now three are."""
    life = Life(batch(2), "a-0", "a-1")
    life.show()
    pods = [life.pod(index) for index in range(3)]
    life.show(podsets=batch(3).podsets)
    for pod, name in zip(pods[:bound], ("a-0", "a-1"), strict=False):
        life.tell(PodSeen(replace(pod, node=name)))
    complaint = judge_stamp(posting(pods[bound], "a-2"), life.shown, life.claims)
    assert ("is not stamped so" in (complaint or "")) is due


def test_nobody_can_say_what_a_job_keeps_for_its_slots_while_a_pod_beyond_them_is_led_and_another_waits() -> None:
    life = Life(batch(2, indexed=False), "a-0", "a-1")
    life.show()
    pods = [life.pod(index) for index in range(3)]
    assert not life.admissions.slots.crowded({pods[0].uid: "a-0"} | {pods[1].uid: "a-1", pods[2].uid: "a-2"})
    assert life.admissions.slots.crowded({pods[0].uid: "a-0", pods[2].uid: "a-1"})
    life.tell(PodGone(pods[1].uid))
    assert not life.admissions.slots.crowded({pods[0].uid: "a-0", pods[2].uid: "a-1"})


def test_nobody_can_say_whether_a_pod_that_waits_has_the_slot_of_one_that_has_ended_well() -> None:
    life = Life(batch(2, indexed=False), "a-0", "a-1")
    life.show()
    running, ended = life.pod(0, node="a-0", phase="Running"), life.pod(1, node="a-1", phase="Running")
    waiting = life.pod(2)
    assert not life.admissions.slots.crowded({})
    life.tell(PodSeen(replace(ended, phase="Succeeded")))
    assert life.admissions.slots.crowded({})
    assert not life.admissions.slots.crowded({waiting.uid: "a-1"})
    life.tell(PodGone(running.uid))
    assert not life.admissions.slots.crowded({})


@pytest.mark.parametrize(("name", "wrong"), [("job-train", False), ("job-other", True)])
def test_a_start_in_doubt_is_in_the_way_of_other_jobs_and_not_of_the_next_start(name: str, *, wrong: bool) -> None:
    constraints = Constraints(anti_affinity=(Term("kubernetes.io/hostname", (), ("default",)),))
    job = batch(1)
    podset = replace(job.podsets[0], template=replace(job.podsets[0].template, constraints=constraints))
    life = Life(replace(job, podsets=(podset,)), "a-0")
    life.end(Outcome.UNKNOWN)
    other = replace(life.job, key=key(name)).shown()
    complaint = Company(life.shown, life.claims).started(StartJob(other, {"": ("a-0",)}, 1))
    assert ("lets in no order" in (complaint or "")) is wrong


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_start_whose_plan_was_taken_back_is_in_the_way_of_no_other_job(*, forgotten: bool) -> None:
    constraints = Constraints(anti_affinity=(Term("kubernetes.io/hostname", (), ("default",)),))
    job = batch(1)
    podset = replace(job.podsets[0], template=replace(job.podsets[0].template, constraints=constraints))
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
    """The annotations were edited, and the owner on its Bindings is that of the gang that it was brought into."""
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
    complaints = [
        complaint for complaint in judge_jobs(world, referee, room, plan) if "last that was reported" not in complaint
    ]
    assert not complaints


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
    shown_as = {
        "finished": replace(shown, finished=True),
        "not ours": replace(shown, managed=False),
        "made anew": later,
    }
    life.tell(JobSeen(shown_as[ends]) if ends in shown_as else JobGone(shown.key, shown.uid))
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


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("by_status", [False, True])
def test_a_job_may_not_be_suspended_for_the_node_of_a_slot_that_is_done_by_its_status(
    *, by_status: bool, restarts: bool
) -> None:
    life = Life(batch(2), "a-0", "a-1")
    life.pod(0, node="a-0", phase="Succeeded")
    life.pod(1, node="a-1", phase="Running")
    life.show(done=frozenset({life.job.podsets[0].slot(0)} if by_status else ()))
    if restarts:
        life.restart()
    life.tell(NodeGone("a-0"))
    life.tell(PodGone("pod-0"))
    assert ("without a cause" in (life.suspend() or "")) is by_status


def test_a_job_may_be_suspended_for_a_node_that_has_another_slot_beside_one_that_is_done() -> None:
    life = Life(batch(2, gpus=4), "a-0", "a-0")
    life.pod(0, node="a-0", phase="Succeeded")
    life.pod(1, node="a-0", phase="Running")
    life.show(done=frozenset({life.job.podsets[0].slot(0)}))
    life.tell(NodeGone("a-0"))
    assert not life.suspend()


@pytest.mark.parametrize(("bound", "promised", "wrong"), [(2, 4, True), (4, 4, False), (4, 6, False)])
def test_a_job_may_be_suspended_when_a_pod_that_an_earlier_life_has_bound_takes_promised_room(
    bound: int, promised: int, *, wrong: bool
) -> None:
    """Node a-0 has room for the job beside that pod, and none for the promise of a gang there, too."""
    life = Life(batch(1, gpus=2), "a-0")
    life.show()
    (waiting,), (earlier,) = gang("other", 1, gpus=promised), gang("earlier", 1, gpus=bound)
    life.tell(PodSeen(waiting))
    life.claims.apply(nomination(waiting, "a-0"), Tick())
    life.tell(PodSeen(replace(earlier, node="a-0")))
    assert ("without a cause" in (life.suspend() or "")) is wrong


@pytest.mark.parametrize("read_before", [False, True])
def test_a_job_that_an_earlier_life_has_started_late_may_be_suspended(*, read_before: bool) -> None:
    earlier = Life(batch(1), "a-0")
    life = Admissions(earlier.shown, calm=False, creation_s=30.0)
    if read_before:
        life.hear(JobSeen(batch(1).shown()), 101.0)
    started = earlier.job.shown()
    life.hear(JobSeen(started), 102.0)
    assert (judge_job(SuspendJob(started, ""), life, [], 103.0) is None) is read_before


def test_a_job_may_be_suspended_if_kube_scheduler_leaves_out_the_node_of_an_index() -> None:
    for candidates, cause in ((("a-0", "a-1"), False), (("a-0",), True)):
        life = Life(batch(2), "a-0", "a-1")
        life.show()
        life.tell(FilterCalled(1, life.pod(1), candidates))
        assert (life.suspend() is None) is cause


def test_a_job_may_be_suspended_if_kube_scheduler_leaves_out_a_node_where_a_slot_is_free() -> None:
    """Pods without an index may go to any unfilled slot."""
    for candidates, cause in ((("a-1",), False), (("a-0",), True)):
        life = Life(batch(2, indexed=False), "a-0", "a-1")
        life.show()
        life.pod(0, node="a-0")
        life.tell(FilterCalled(1, life.pod(1), candidates))
        assert (life.suspend() is None) is cause


def test_a_job_may_be_suspended_if_kube_scheduler_refuses_a_pod_that_it_knows_in_another_gang_by_then() -> None:
    life = Life(batch(2), "a-0", "a-1")
    life.show()
    moved = replace(life.pod(1), group=gang("other", 1)[0].group)
    life.tell(FilterCalled(1, moved, ("a-0",)))
    assert life.suspend() is None


@pytest.mark.parametrize("broke_off", [False, True])
def test_a_job_whose_start_broke_off_may_be_suspended_before_its_next_pod_is_late(*, broke_off: bool) -> None:
    life = Life(batch(2), "a-0", "a-1")
    life.show()
    life.pod(0, node="a-0")
    if broke_off:
        life.admissions.break_off(life.job.key)
    assert (life.suspend() is None) is broke_off


@pytest.mark.parametrize("outcome", [Outcome.UNKNOWN, Outcome.REFUSED])
def test_a_suspension_that_the_watch_does_not_show_may_be_asked_for_again(outcome: Outcome) -> None:
    life = Life(batch(2), "a-0", "a-1")
    life.show()
    started = life.job
    life.pod(0, refusal="0/2 nodes are available")
    assert not life.suspend()
    life.end(outcome)
    life.job = started
    life.show(active=1)
    assert not life.suspend()
    life.show(began=False, active=0)
    assert life.ask(SuspendJob(life.job.shown(), "")), "it is suspended by now"


@pytest.mark.parametrize(
    ("node", "again", "cause"), [("a-0", False, True), ("a-0", True, False), ("a-1", False, False)]
)
def test_a_job_that_others_start_again_may_be_suspended_if_its_room_was_promised_before(
    node: str, *, again: bool, cause: bool
) -> None:
    """The others start it by its plan, which is still on it.

    ``again``: it is shown to run when its room is promised.
    """
    life, (other,) = Life(batch(1), "a-0"), gang("other", 1)
    life.end(Outcome.DONE)
    life.show()
    life.tell(PodSeen(other))
    for suspended, promised in ((True, not again), (False, again)):
        life.show(suspended=suspended, began=True, active=1)
        if promised:
            life.claims._promise(other.uid, node)
    life.show()
    assert (life.suspend() is None) is cause


@pytest.mark.parametrize("unsure", [True, False])
def test_a_job_that_others_start_again_may_be_suspended_if_nobody_knows_what_was_promised_before(
    *, unsure: bool
) -> None:
    life = Life(batch(1), "a-0")
    life.end(Outcome.DONE)
    life.show()
    life.unsure = unsure
    for suspended in (True, False):
        life.show(suspended=suspended, began=True, active=1)
    assert (life.suspend() is None) is unsure


def test_a_job_may_be_suspended_if_a_pod_of_an_earlier_start_is_in_its_slot() -> None:
    """The watch may be late to show the pod: the pod goes only to the nodes of that start's plan."""
    for nodes, cause in ((("a-0", "a-1"), False), (("a-2", "a-3"), True)):
        life = Life(batch(2), *nodes)
        before = life.job
        life.show(led={"": ("a-0", "a-1")})
        life.pod(0)
        life.show(led=before.led)
        assert (life.suspend() is None) is cause


@pytest.mark.parametrize("shows_up", [True, False])
def test_a_job_may_be_suspended_if_a_binding_that_was_in_doubt_shows_up_in_its_room(*, shows_up: bool) -> None:
    """The Binding was of a job that can do without that pod, and that has given its node up at the end of the doubt."""
    whole = batch(2)
    life = Life(replace(whole, podsets=(replace(whole.podsets[0], minimum=1),)), "a-0", "a-1")
    life.show()
    life.pod(0, node="a-0")
    doubtful = life.pod(1)
    life.claims._promise(doubtful.uid, "a-1")
    life.claims.apply(posting(doubtful, "a-1"), BindArrived(1, doubtful.uid, "default", doubtful.name, "a-1", 900.0))
    life.tell(BindingPosted(doubtful.uid, Outcome.UNKNOWN))
    life.now += DOUBT_S
    life.tell(Tick())
    assert life.gpus("a-1") == 0
    life.claims.apply(Reached(life.job.key, Milestone.FORGOTTEN, 1, 0.0), Tick())
    assert life.gpus("a-1") == 8
    life.job = replace(batch(1), key=key("another"), uid="another")
    life.show()
    assert not life.ask(StartJob(life.job.shown(), {"": ("a-1",)}, 1))
    life.show()
    if shows_up:
        life.tell(PodSeen(replace(doubtful, node="a-1")))
    assert (life.suspend() is None) is shows_up


@pytest.mark.parametrize("ours", [True, False])
def test_no_room_is_kept_for_a_lost_pod_of_a_job_that_is_suspended(*, ours: bool) -> None:
    """``ours``: whether the core has requested the suspension; else the watch shows that others did it."""
    life = Life(batch(2), "a-0", "a-1")
    life.show()
    for pod, node in ((life.pod(0), "a-0"), (life.pod(1), "a-1")):
        life.claims._promise(pod.uid, node)
        life.claims.apply(posting(pod, node), BindArrived(1, pod.uid, "default", pod.uid, node, 900.0))
    life.pod(0, node="a-0")
    life.admissions.slots.of[life.job.key].note("something has happened")
    if ours:
        assert not life.suspend()
    else:
        life.show(suspended=True, plan=None)
    life.tell(BindingPosted("pod-1", Outcome.REFUSED))
    assert not life.claims.kept


@pytest.mark.parametrize(("node", "complaint"), [(None, False), ("a-0", True)])
def test_a_job_whose_plan_was_removed_is_suspended_when_none_of_its_pods_runs(
    node: str | None, complaint: bool
) -> None:
    life = Life(batch(1), "a-0")
    life.show(plan=None, began=True, ran=True)
    assert life.job.shown().marked
    life.admissions = Admissions(life.shown, calm=False, creation_s=30.0)
    life.tell(JobSeen(life.job.shown()))
    life.pod(0, node=node)
    assert bool(life.suspend()) is complaint


def test_a_start_holds_its_room_until_it_is_answered_though_others_have_started_and_suspended_the_job() -> None:
    life = Life(batch(1), "a-0")
    for suspended in (False, True):
        life.show(suspended=suspended, plan=None, led=None)
    assert life.gpus("a-0") == 0
    life.end(Outcome.REFUSED)
    assert life.gpus("a-0") == 8


@pytest.mark.parametrize("closed", [0, 2])
def test_a_job_that_makes_no_more_pods_is_not_suspended_for_a_node(closed: int) -> None:
    life = Life(batch(2, indexed=False), "a-0", "a-1")
    life.show()
    for index in range(2):
        life.pod(index, node=f"a-{index}")
    life.tell(JobSeen(replace(life.job.shown(), closed=closed)))
    life.tell(NodeGone("a-1"))
    assert "is complete then" in (life.suspend() or "") if closed else life.suspend() is None


@pytest.mark.parametrize("again_on", ["a-0", "a-1"])
@pytest.mark.parametrize("restarts", [False, True])
def test_what_had_succeeded_before_a_job_was_started_again_stands_for_none_of_its_pods(
    again_on: str, *, restarts: bool
) -> None:
    life = Life(batch(1, indexed=False), "a-1")
    life.show()
    life.pod(0, node="a-1", phase="Succeeded")
    life.show(suspended=True, plan=None, led=None)
    assert not life.ask(StartJob(life.job.shown(), {"": (again_on,)}, 1))
    life.show()
    if restarts:
        life.restart()
    life.now += 31
    assert life.suspend() is None, "its pod has not come"


@pytest.mark.parametrize("counted", [False, True])
def test_a_pod_that_succeeded_on_a_planned_node_before_a_restart_is_missed_unless_the_status_counts_it(
    *, counted: bool
) -> None:
    life = Life(batch(1, indexed=False), "a-0")
    life.show()
    life.pod(0, node="a-0", phase="Succeeded")
    life.show(done=frozenset({life.job.podsets[0].slot(0)} if counted else ()))
    life.restart()
    life.now += 31
    assert ("without a cause" in (life.suspend() or "")) is counted
