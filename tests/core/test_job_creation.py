"""Pods of jobs are created slowly, all by one controller: every job still starts, and none waits without end."""

from __future__ import annotations

import pytest

from extender.core.answers import JobWritten, Outcome
from extender.core.effects import CleanJob, Nominate, StartJob, SuspendJob, Ungate, Wake
from extender.core.events import Tick
from extender.core.limits import Limits
from policies.model import Job
from tests.builders import cluster, gang, single
from tests.core.jobs import Controlled, job
from tests.core.script import Script

RATE = 5
"""Pods a second."""


class Controller:
    """Makes a pod after the other, of all started jobs in turn; kube-scheduler asks for each at once."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.jobs: list[Controlled] = []
        self.pods = 0
        self._read = 0

    def add(self, *jobs: Job) -> None:
        self.jobs += [Controlled(self._script, seen) for seen in jobs]

    def make(self, pods: int) -> None:
        """Create ``pods`` pods of started jobs. The time that passes is the same if there are fewer to create."""
        for _ in range(pods):
            lacking = [
                controlled
                for controlled in self.jobs
                if not controlled.seen.suspended and len(controlled.pods) < size(controlled)
            ]
            if lacking:
                train = min(lacking, key=lambda controlled: len(controlled.pods))
                self._script.bind_all(train.create(only=1), expires_s=600)
                self.pods += 1
            self._script.advance(1 / RATE - 0.1 * bool(lacking))
            self._script.post_all()
            self._obey()

    def _obey(self) -> None:
        acts = [
            effect
            for effect in self._script.effects[self._read :]
            if isinstance(effect, StartJob | SuspendJob | CleanJob)
        ]
        self._read = len(self._script.effects)
        for train in self.jobs:
            if any(act.job.uid == train.seen.uid for act in acts):
                train.settle()


def size(train: Controlled) -> int:
    return sum(podset.count for podset in train.seen.podsets.podsets)


def test_many_large_jobs_at_a_low_rate_all_start_and_nothing_spins() -> None:
    script = Script(*cluster("a: 80x8"), checked=1000)
    controller = Controller(script)
    controller.add(*(job(96, name=f"big-{at}", gpus=1) for at in range(4)), job(200, name="large", gpus=1))
    controller.make(150)
    controller.add(*(job(8, name=f"small-{at}", gpus=1) for at in range(3)))
    controller.make(480)
    for train in controller.jobs:
        assert script.reason(train.seen.key.name) == "Running", script.message(train.seen.key.name)
        assert (len(train.starts), train.stops) == (1, [])
    assert controller.pods == 4 * 96 + 200 + 3 * 8
    assert not [
        effect for effect in script.effects if isinstance(effect, SuspendJob | CleanJob | Nominate | Ungate | Wake)
    ]
    assert len([effect for effect in script.effects if isinstance(effect, StartJob)]) == len(controller.jobs)
    assert len(script.reports) <= 5 * len(controller.jobs)


def test_small_jobs_that_keep_coming_hold_a_large_one_up_only_so_long() -> None:
    script = Script(*cluster("a: 200x8"), checked=1000)
    controller = Controller(script)
    controller.add(job(40, name="first", gpus=1), job(650, name="large", gpus=1))
    large = controller.jobs[-1]
    for number in range(80):
        controller.add(job(8, name=f"small-{number}", gpus=1))
        controller.make(8)
        if large.starts:
            break
    assert large.starts, script.message("large")
    assert controller.pods < 40 + 8 * number, "pods of others were awaited all the time until it was its turn"


def test_a_job_whose_pods_never_come_holds_others_up_no_longer_than_a_few_seconds() -> None:
    """A ResourceQuota of its namespace refuses them, say."""
    script = Script(*cluster("a: 300x8"), checked=1000)
    stuck = Controlled(script, job(700, name="stuck", gpus=1))
    others: list[Controlled] = []
    shown_at: dict[str, float] = {}
    waited: list[float] = []
    for number in range(40):
        others.append(Controlled(script, job(4, name=f"small-{number}", gpus=1)))
        shown_at[others[-1].seen.uid] = script.now
        for _ in range(5):
            stuck.wait(1)
            for controlled in others:
                controlled.settle()
            for controlled in [controlled for controlled in others if controlled.starts]:
                waited.append(script.now - shown_at[controlled.seen.uid])
                controlled.run()
                others.remove(controlled)
    assert len(stuck.starts) > 2
    assert len(waited) > 38
    assert max(waited) < 25


def test_that_pods_come_rarely_says_nothing_about_how_fast_they_are_made() -> None:
    """Pods of another job never come, so that some are awaited all the time."""
    script = Script(*cluster("a: 300x8"), checked=1000)
    Controlled(script, job(20, name="stuck", gpus=1))
    for number in range(3):
        small = Controlled(script, job(4, name=f"small-{number}", gpus=1))
        small.run()
        small.wait(5)
    assert Controlled(script, job(200, name="large", gpus=1)).starts


def test_jobs_that_wait_for_the_pods_of_others_are_looked_at_together_and_not_worked_out_anew() -> None:
    script = Script(*cluster("a: 200x8"), checked=1000)
    large = Controlled(script, job(600, name="large", gpus=1))
    waiting = [Controlled(script, job(8, name=f"small-{at}", gpus=1)) for at in range(20)]
    workloads = [script.core.state.workloads[train.seen.key] for train in waiting]
    demands = [workload.current_demand for workload in workloads]
    began, _ = script.core.passes
    for _ in range(2):
        script.advance(5)
        large.create(only=1)
    assert all(workload.current_demand is demand for workload, demand in zip(workloads, demands, strict=True))
    assert script.core.passes[0] - began <= 13
    large.create(only=588)
    for train in waiting:
        train.wait(1)
        assert len(train.starts) == 1, script.message(train.seen.key.name)


def test_jobs_that_were_not_to_pass_a_large_one_by_start_when_it_is_gone() -> None:
    script = Script(*cluster("a: 200x8"), checked=1000)
    first, large = (Controlled(script, job(size, name=name, gpus=1)) for name, size in (("first", 500), ("large", 650)))
    for _ in range(6):
        large.wait(5.2)
        first.create(only=1)
    small = Controlled(script, job(8, name="small", gpus=1))
    assert not small.starts
    large.gone()
    small.wait(45)
    assert len(small.starts) == 1


def test_a_job_whose_binds_end_before_its_pods_exist_is_tried_ever_less_often_and_says_what_to_do() -> None:
    script = Script(*cluster("a: 4x8"))
    train = Controlled(script, job(4))
    pauses: list[float] = []
    for tries in range(1, 9):
        assert len(train.starts) == tries
        script.bind_all(train.create(only=2), expires_s=10)
        train.wait(10)
        assert len(train.stops) == tries, "kube-scheduler gives the binds up"
        stopped = script.now
        train.delete()
        train.show(stopped=True)
        while len(train.starts) == tries:
            train.wait(1)
        pauses.append(script.now - stopped)
    assert train.stops[0].startswith("2 of 4 pods did not exist when kube-scheduler gave up the binds of the others")
    assert "httpTimeout" in train.stops[0]
    assert pauses == sorted(pauses)
    assert pauses[-1] > 250


def test_a_pod_that_goes_before_the_watch_shows_the_start_of_its_job_leaves_its_room_to_its_slot() -> None:
    script = Script(*cluster("a: 1x8"))
    train = Controlled(script, job(1), obeys=False)
    script.feed(JobWritten(train.seen.key, train.seen.uid, Outcome.DONE))
    (pod,) = train.create()
    script.gone(script.pods[pod.uid])
    (other,) = gang("other", 1)
    script.see(other)
    assert not script.planned(other)


def _written_and_not_shown(script: Script) -> Controlled:
    """A job whose start is written; its pods are there, and the watch of jobs is late."""
    train = Controlled(script, job(2), obeys=False)
    script.feed(JobWritten(train.seen.key, train.seen.uid, Outcome.DONE))
    train.create()
    return train


def test_the_time_to_take_a_job_up_is_not_over_before_its_start_is_shown_and_it_can_be_suspended() -> None:
    script = Script(*cluster("a: 2x8"))
    train, others = _written_and_not_shown(script), gang("other", 2)
    script.see(*others)
    train.wait(30)
    assert not any(map(script.planned, others)), "its pods have room while it is not suspended"
    train.show(suspended=False, stopped=False, marked=True, plan=train.starts[0].plan)
    train.wait(5)
    assert train.stops == ["kube-scheduler did not take up the placement in time"]
    assert all(map(script.planned, others))


def test_binds_that_end_before_the_start_of_the_job_is_shown_come_again() -> None:
    script = Script(*cluster("a: 2x8"))
    train, others = _written_and_not_shown(script), gang("other", 2)
    script.see(*others)
    first, second = train.pods.values()
    call = script.bind(first, expires_s=10)
    train.wait(9)
    assert "only 1 of 2 members reached bind" in script.answers[call]
    call = script.bind(first)
    script.bind(second, expires_s=1)
    assert "too late to bind it in time" in script.answers[call]
    assert not any(map(script.planned, others)), "its pods have room while it is not suspended"
    script.run([first, second])
    assert len(script.bound([first, second])) == 2
    assert not train.stops


@pytest.mark.parametrize("refused", [False, True])
def test_a_job_that_others_start_before_its_plan_is_taken_off_keeps_the_room_of_the_plan(*, refused: bool) -> None:
    """The write that takes it off is refused then. ``refused``: that is known before the start is shown."""
    script = Script(*cluster("a: 1x8"))
    train = Controlled(script, job(1))
    train.obeys = False
    train.show(suspended=True, stopped=True)
    assert train.cleaned == 1
    if refused:
        script.feed(JobWritten(train.seen.key, train.seen.uid, Outcome.REFUSED))
    train.show(suspended=False, stopped=False)
    assert not script.filter(single("other", gpus=8))
    train.wait(3)
    assert not train.stops


def test_a_job_that_an_earlier_life_has_started_by_another_plan_runs_by_that_one() -> None:
    """The earlier life's write arrived while this life read the cluster and wrote its own, which is refused then."""
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(1), obeys=False)
    ours = train.starts[0].plan[""][0]
    (theirs,) = {"a-0", "a-1"} - {ours}
    train.show(suspended=False, stopped=False, marked=True, plan={"": (theirs,)})
    script.feed(JobWritten(train.seen.key, train.seen.uid, Outcome.REFUSED))
    train.settle()
    assert script.filter(single("other", gpus=8)) == (ours,)
    train.wait(3)
    assert not train.stops


def test_others_do_not_wait_for_pods_that_have_come_while_the_watch_does_not_show_the_start_of_their_job() -> None:
    script = Script(*cluster("a: 900x8"), checked=100)
    large = Controlled(script, job(400), obeys=False)
    other = Controlled(script, job(300, name="other"))
    script.feed(JobWritten(large.seen.key, large.seen.uid, Outcome.DONE))
    assert script.reason("other") == "Creating"
    large.create()
    other.wait(3)
    assert len(other.starts) == 1


def test_pods_that_have_not_come_while_this_process_stood_still_get_their_time_once_more() -> None:
    script = Script(*cluster("a: 2x8"), limits=Limits(creation_s=10.0))
    train = Controlled(script, job(2))
    script.now += 100
    script.feed(Tick())
    train.wait(5)
    assert not train.stops
    train.wait(5)
    assert len(train.stops) == 1
