"""The reason of a job that runs in part, or that no client lets Muster suspend."""

from __future__ import annotations

from dataclasses import replace

from extender.core.answers import JobWritten, Outcome
from extender.core.effects import Report, SuspendJob
from extender.core.events import JobGone, JobSeen
from policies.model import Controller, PodSets
from tests.builders import cluster
from tests.core.jobs import Controlled, job
from tests.core.script import Script


def test_a_pod_of_a_running_job_that_is_yet_to_be_created_again_is_told() -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(2))
    pods = train.run()
    assert script.message("job") == "2 members are bound"
    script.change(script.pods[pods[0].uid], phase="Failed")
    train.wait(5)
    assert (script.reason("job"), script.message("job")) == ("Running", "1 member is bound; 1 pod is yet to be created")
    assert not train.stops, "the others go on"


def test_a_job_that_nobody_lets_us_suspend_says_why_it_is_to_be_and_what_the_api_server_said() -> None:
    script = Script(*cluster("a: 3x8"))
    train = Controlled(script, job(2))
    pods = train.run()
    train.obeys = False
    script.drop(str(script.pods[pods[0].uid].node))
    train.settle()
    refused = JobWritten(train.seen.key, train.seen.uid, Outcome.REFUSED, "422 not in this house")
    script.feed(refused)
    train.wait(0.5)
    assert script.reason("job") == "Stopping"
    assert "is gone" in script.message("job")
    assert script.message("job").endswith("; that was refused: 422 not in this house")
    train.obeys = True
    train.wait(2)
    assert [type(effect) for effect in script.effects if isinstance(effect, SuspendJob)] == [SuspendJob] * 2
    train.delete()
    train.show(stopped=True)
    train.wait(2)
    assert len(train.starts) == 2


def test_nor_lets_us_take_off_what_is_ours() -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(2))
    train.run()
    train.obeys = False
    train.show(suspended=True, plan=None)
    train.delete()
    train.show(stopped=True)
    script.feed(JobWritten(train.seen.key, train.seen.uid, Outcome.REFUSED, "422 not in this house"))
    train.wait(0.5)
    assert script.message("job").endswith("is being taken off, which was refused: 422 not in this house")


def test_a_job_that_has_ended_while_it_was_suspended_has_ended() -> None:
    """The pods without an index were not all needed any more."""
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(2, indexed=False))
    train.run()
    train.obeys = False
    train.show(suspended=True, plan=None)
    train.wait(3)
    assert script.reason("job") == "Stopping"
    train.show(finished=True, marked=False)
    train.delete()
    train.wait(3)
    assert script.reason("job") == "Ended"


def test_a_job_that_runs_and_asks_for_no_pod_any_more_says_so() -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(2))
    train.run()
    train.show(podsets=PodSets(train.seen.key, ()), problem="it asks for no pod")
    train.delete()
    train.wait(3)
    assert (script.reason("job"), script.message("job")) == ("InvalidJob", "it asks for no pod")
    assert not train.stops


def test_what_a_start_waits_for_is_told() -> None:
    script = Script(*cluster("a: 3x8"))
    train = Controlled(script, job(3))
    train.wait(0.5)
    assert script.message("job") == "3 members have a node; its job is started with them, and makes its pods"
    for pod in train.create(only=2):
        script.bind(pod)
    assert (script.reason("job"), script.message("job")) == (
        "Holding",
        "2 of 3 members reached bind; 1 pod is yet to be created",
    )


def test_a_job_that_gets_the_name_of_another_is_told_why_it_waits_although_the_other_was() -> None:
    script = Script(*cluster("a: 1x8"))
    first, second = job(2), replace(job(2), owner=Controller("jobset.x-k8s.io/v1alpha2", "JobSet", "job", "uid-second"))
    for seen in (first, second):
        script.feed(JobSeen(seen))
        script.advance(20)
    assert reports(script) == [("NoRoom", "uid-job"), ("NameTaken", "uid-second")]
    script.feed(JobGone(first.key, first.uid))
    script.advance(20)
    assert reports(script)[2:] == [("NoRoom", "uid-second")]


def reports(script: Script) -> list[tuple[str, str]]:
    """The codes that were reported, and the owner on which each was."""
    return [
        (effect.code, effect.owner.uid)
        for effect in script.effects
        if isinstance(effect, Report) and effect.owner is not None
    ]
