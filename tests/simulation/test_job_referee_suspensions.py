"""What the referee lets a job be suspended for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.answers import BindingPosted, Outcome
from extender.core.effects import Milestone, Reached, StartJob, SuspendJob
from extender.core.events import (
    BindArrived,
    FilterCalled,
    JobSeen,
    NodeGone,
    PodGone,
    PodSeen,
    Tick,
)
from tests.builders import gang, key
from tests.simulation.admissions import Admissions
from tests.simulation.doubts import DOUBT_S
from tests.simulation.job_orders import judge_job
from tests.simulation.judged_life import Life, batch
from tests.simulation.lives import nomination, posting


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("said", [False, True])
def test_a_job_may_not_be_suspended_for_the_node_of_a_slot_that_is_done_by_its_status(
    *, said: bool, restarts: bool
) -> None:
    life = Life(batch(2), "a-0", "a-1")
    life.pod(0, node="a-0", phase="Succeeded")
    life.pod(1, node="a-1", phase="Running")
    life.show(done=frozenset({life.job.podsets[0].slot(0)} if said else ()))
    if restarts:
        life.restart()
    life.tell(NodeGone("a-0"))
    life.tell(PodGone("pod-0"))
    assert ("without a cause" in (life.suspend() or "")) is said


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
    """Node a-0 has room for the job beside that pod, and not for what a gang was promised there, too."""
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
    """Pods without an index may go to any slot that nobody fills."""
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
    """By its plan, which is still on it. ``again``: it is shown to run already when its room is promised."""
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
    """The watch may be late to show it: it goes only where the plan of that start has led it."""
    for nodes, cause in ((("a-0", "a-1"), False), (("a-2", "a-3"), True)):
        life = Life(batch(2), *nodes)
        before = life.job
        life.show(led={"": ("a-0", "a-1")})
        life.pod(0)
        life.show(led=before.led)
        assert (life.suspend() is None) is cause


@pytest.mark.parametrize("shows_up", [True, False])
def test_a_job_may_be_suspended_if_a_binding_that_was_in_doubt_shows_up_in_its_room(*, shows_up: bool) -> None:
    """It was of a job that can do without that pod, and has given its node up when the doubt was over."""
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
    """``ours``: the core has asked for it; else the watch shows what others have done."""
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


def test_what_had_succeeded_before_a_job_was_started_again_stands_for_none_of_its_pods() -> None:
    life = Life(batch(1, indexed=False), "a-1")
    life.show()
    life.pod(0, node="a-1", phase="Succeeded")
    life.show(suspended=True, plan=None, led=None)
    assert not life.ask(StartJob(life.job.shown(), {"": ("a-0",)}, 1))
    life.show()
    life.now += 31
    assert life.suspend() is None, "its pod has not come"
