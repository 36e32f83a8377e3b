"""Several jobs that name one gang: the first one has the name, and the others wait beside it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.answers import Outcome
from extender.core.effects import Report
from policies.model import Controller, Dialect, GroupRef, Job, PodSets
from tests.builders import cluster, gang, key, single
from tests.core.jobs import Controlled, job
from tests.core.script import Script

TAKEN_A, TAKEN_B = "shared (Job a)", "shared (Job b)"


def named(name: str, created: float, count: int = 2) -> Job:
    """A job whose template names the gang ``shared``."""
    made = job(count, name=name)
    [podset] = made.podsets.podsets
    group = GroupRef("shared", Dialect.ANNOTATION)
    shape = replace(podset.template, group=group, created=created)
    return replace(made, podsets=PodSets(key("shared"), (replace(podset, template=shape),)))


def test_the_second_one_waits_beside_the_first_one_and_says_so() -> None:
    script = Script(*cluster("a: 4x8"))
    first = Controlled(script, named("a", created=1))
    second = Controlled(script, named("b", created=2))
    first.run()
    script.advance(5)
    assert (len(first.starts), len(second.starts), second.stops) == (1, 0, [])
    assert script.reason("shared") == "Running"
    assert script.reason(TAKEN_B) == "NameTaken"
    assert script.message(TAKEN_B).startswith("Job a has the gang name shared")
    reports = [effect for effect in script.effects if isinstance(effect, Report) and effect.code == "NameTaken"]
    assert [report.owner for report in reports] == [Controller("batch/v1", "Job", "b", "uid-b")]


def test_the_older_one_has_the_name_whoever_is_shown_first() -> None:
    script = Script(*cluster("a: 1x8"))
    younger = Controlled(script, named("b", created=2))
    older = Controlled(script, named("a", created=1))
    assert script.reason("shared") == "NoRoom"
    assert script.reason(TAKEN_B) == "NameTaken"
    script.see(*cluster("b: 4x8"))
    older.settle()
    assert (len(older.starts), len(younger.starts)) == (1, 0)


def test_of_those_that_were_created_together_the_uid_decides() -> None:
    script = Script(*cluster("a: 1x8"))
    Controlled(script, named("b", created=1))
    Controlled(script, named("a", created=1))
    assert script.gang("shared").job.seen.uid == "uid-a"  # type: ignore[union-attr]


def test_one_that_runs_keeps_the_name_from_an_older_one() -> None:
    script = Script(*cluster("a: 4x8"))
    younger = Controlled(script, named("b", created=2))
    pods = younger.run()
    older = Controlled(script, named("a", created=1))
    assert (len(older.starts), younger.stops) == (0, [])
    assert len(script.bound(pods)) == 2
    assert script.reason(TAKEN_A) == "NameTaken"


def test_after_a_restart_the_one_that_runs_has_it() -> None:
    script = Script(*cluster("a: 4x8"))
    younger = Controlled(script, named("b", created=2))
    younger.run()
    again = Script(*cluster("a: 4x8"), *script.pods.values(), synced=False)
    older = Controlled(again, named("a", created=1))
    same = Controlled(again, younger.seen)
    again.feed_synced()
    older.settle()
    same.settle()
    assert (older.starts, same.stops) == ([], [])
    assert (again.reason("shared"), again.reason(TAKEN_A)) == ("Running", "NameTaken")


def test_it_takes_the_name_over_when_the_first_one_has_ended() -> None:
    script = Script(*cluster("a: 4x8"))
    first = Controlled(script, named("a", created=1))
    second = Controlled(script, named("b", created=2))
    for pod in first.run():
        script.change(pod, phase="Succeeded")
    first.show(finished=True)
    second.settle()
    assert first.cleaned == 1
    assert len(second.starts) == 1
    pods = second.create()
    assert not script.bound(pods)
    script.bind(pods[0])
    assert not script.bindings, "it needs its own quorum"
    script.bind(pods[1])
    script.post_all()
    assert len(script.bound(pods)) == 2
    assert key(TAKEN_B) not in script.core.state.workloads
    assert key(TAKEN_A) not in script.core.state.workloads


def test_it_takes_the_name_over_when_the_first_one_is_gone() -> None:
    script = Script(*cluster("a: 4x8"))
    first = Controlled(script, named("a", created=1))
    second = Controlled(script, named("b", created=2))
    first.run()
    first.gone()
    second.settle()
    assert not second.starts, "the pods of the first one are there"
    first.delete()
    second.wait(1)
    assert len(second.starts) == 1


def test_one_that_is_made_anew_is_no_second_one() -> None:
    script = Script(*cluster("a: 4x8"))
    Controlled(script, named("a", created=1))
    other = replace(named("a", created=2), owner=Controller("batch/v1", "Job", "a", "uid-new"))
    Controlled(script, other)
    assert list(script.core.state.workloads) == [key("shared")]
    assert script.gang("shared").job.seen.uid == "uid-new"  # type: ignore[union-attr]


def test_one_that_others_start_meanwhile_is_suspended_again() -> None:
    script = Script(*cluster("a: 4x8"))
    first = Controlled(script, named("a", created=1))
    second = Controlled(script, named("b", created=2))
    first.run()
    second.show(suspended=False)
    assert (second.stops, first.stops) == (["it was started without a plan of Muster's"], [])


def test_one_whose_own_name_is_taken_is_not_told_to_change_its_template() -> None:
    """The name is taken by pods of a deleted job of the same name."""
    script = Script(*cluster("a: 4x8"))
    script.see(gang("job-train", 1, owner=""))
    made = job(2, name="train")
    Controlled(script, replace(made, podsets=replace(made.podsets, key=key("job-train"))))
    message = script.message("job-train (Job train)")
    assert message == "1 pod has the gang name job-train, which is that of this job: it is planned when it is gone"


def test_pods_that_have_the_name_go_on_and_the_job_waits_for_them() -> None:
    script = Script(*cluster("a: 4x8"))
    pods = gang("shared", 2, owner="")
    script.see(pods)
    train = Controlled(script, named("a", created=1))
    script.run(pods)
    assert len(script.bound(pods)) == 2
    assert not train.starts
    assert script.reason(TAKEN_A) == "NameTaken"
    assert script.message(TAKEN_A).startswith("2 pods have the gang name shared")
    script.gone(*pods)
    train.settle()
    assert len(train.starts) == 1


def test_a_pod_that_has_the_name_on_a_silent_node_has_it_until_it_is_told_to_go() -> None:
    """The node may come back, and the pod runs on."""
    script = Script(*cluster("a: 3x8"))
    pods = gang("shared", 1, owner="")
    script.see(pods)
    script.run(pods)
    train = Controlled(script, named("a", created=1))
    (node,) = script.bound(pods)
    script.see(replace(script.core.state.claims.nodes[node], ready=False))
    train.wait(script.core.state.limits.node_loss_s + 1)
    assert not train.starts
    assert script.reason(TAKEN_A) == "NameTaken"
    script.change(pods[0], deleting=True)
    train.settle()
    assert len(train.starts) == 1


def test_pods_that_come_while_it_waits_are_not_taken_for_its_own() -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, named("a", created=1, count=3))
    assert script.reason("shared") == "NoRoom"
    pods = gang("shared", 2, owner="")
    script.see(pods)
    assert script.reason(TAKEN_A) == "NameTaken"
    script.run(pods)
    assert len(script.bound(pods)) == 2
    script.gone(*pods)
    script.see(*cluster("b: 1x8"))
    train.settle()
    assert len(train.starts) == 1
    assert script.filter(single("other", gpus=8)) == ()


@pytest.mark.parametrize("stopped", [True, False])
@pytest.mark.parametrize("restart", [False, True])
def test_pods_that_come_to_a_job_that_has_ended_while_it_was_suspended_start_without_it(
    *, stopped: bool, restart: bool
) -> None:
    script = Script(*cluster("a: 4x8"), synced=not restart)
    Controlled(script, replace(named("a", created=1), stopped=stopped, finished=True, running=True))
    pods = gang("shared", 2, owner="")
    script.see(pods)
    if restart:
        script.feed_synced()
    script.run(pods)
    assert len(script.bound(pods)) == 2
    script.advance(5)
    reports = [effect for effect in script.effects if isinstance(effect, Report)]
    assert [(report.code, report.owner) for report in reports] == [("Running", None)]


def test_pods_that_come_before_what_is_on_a_job_that_has_ended_is_off_start_afterwards() -> None:
    script = Script(*cluster("a: 4x8"))
    train = Controlled(script, named("a", created=1))
    train.run()
    train.obeys = False
    train.show(suspended=True, finished=True)
    train.delete()
    pods = gang("shared", 2, owner="")
    script.see(pods)
    assert train.cleaned == 1
    train.show(marked=False, plan=None)
    script.run(pods)
    assert len(script.bound(pods)) == 2


def test_a_broken_start_of_pods_that_have_the_name_of_a_job_that_has_ended_is_evicted() -> None:
    script = Script(*cluster("a: 4x8"))
    pods = gang("shared", 2, owner="")
    script.see(pods)
    Controlled(script, replace(named("a", created=1), suspended=False, stopped=False, finished=True, running=True))
    script.bind_all(pods)
    script.post(pods[0])
    script.post(pods[1], Outcome.REFUSED)
    script.gone(pods[1])
    script.advance(script.core.state.limits.partial_s + 1)
    assert script.evicted == [pods[0].name]
