"""The quorum of a job of several podsets: enough pods in all, and of each podset as many as have to start together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.answers import Outcome
from extender.core.events import JobSeen
from extender.core.gate.advisory import Mode
from policies.model import Controller, Dialect, GroupRef, Job, Pod, PodSet, PodSets
from tests.builders import cluster, key
from tests.core.jobs import Controlled, template
from tests.core.script import Script

NODES = "a: 6x8"


def role(name: str, count: int, least: int = 0, *, indexed: bool = True, wave: int = 0) -> PodSet:
    """A podset of ``count`` pods. ``least``: how many have to start together; all unless given."""
    return PodSet(template(series=name), count, least or count, indexed, wave)


def elastic(*more: PodSet) -> Job:
    """Four workers, of which one is enough, and other podsets."""
    podsets = sorted((*more, role("1-worker", 4, 1)), key=lambda podset: podset.name)
    return Job(PodSets(key("job"), tuple(podsets)), Controller("kubeflow.org/v1", "PyTorchJob", "job", "uid-job"))


MASTER, LAUNCHER = role("0-master", 1), role("3-launcher", 1)


def created(script: Script, seen: Job) -> tuple[Controlled, list[Pod], list[Pod]]:
    """The job, its workers, and its other pods."""
    train = Controlled(script, seen)
    pods = train.create()
    workers = [pod for pod in pods if pod.series == "1-worker"]
    return train, workers, [pod for pod in pods if pod not in workers]


def without_bindings_of(script: Script, refused: list[Pod], asking: list[Pod]) -> None:
    """All of these ask for their Binding, and the API server refuses those."""
    script.bind_all(asking)
    while script.bindings:
        pod = script.pods[next(iter(script.bindings))]
        script.post(pod, Outcome.REFUSED if pod in refused else Outcome.DONE)


def restarted(script: Script, train: Controlled) -> tuple[Script, Controlled]:
    later = Script(*cluster(NODES), *script.pods.values(), synced=False, now=script.now)
    again = Controlled(later, train.seen)
    later.feed_synced()
    again.settle()
    return later, again


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("name", ["0-master", "3-launcher"])
def test_nobody_is_bound_before_each_podset_has_its_minimum_at_bind(name: str, indexed: bool) -> None:
    script = Script(*cluster(NODES))
    _, workers, (only,) = created(script, elastic(role(name, 1, indexed=indexed)))
    script.bind_all(workers)
    assert not script.bindings
    assert script.message("job") == f"0 of 1 members of podset {name[2:]} reached bind"
    script.run([only])
    assert len(script.bound([*workers, only])) == 5
    assert script.reason("job") == "Running"


@pytest.mark.parametrize(("name", "named"), [("000000000", "Job 0"), ("000000120", "Job 120"), ("2-ps", "ps")])
def test_a_podset_is_named_without_what_it_is_sorted_by(name: str, named: str) -> None:
    script = Script(*cluster(NODES))
    _, workers, _ = created(script, elastic(role(name, 2)))
    script.bind_all(workers)
    assert script.message("job") == f"0 of 2 members of podset {named} reached bind"


def test_while_there_are_too_few_in_all_no_podset_is_named() -> None:
    script = Script(*cluster(NODES))
    _, workers, _ = created(script, elastic(MASTER))
    script.bind(workers[0])
    assert script.message("job") == "1 of 2 members reached bind"


def test_why_a_start_without_one_podset_is_given_up_names_it() -> None:
    script = Script(*cluster(NODES))
    _, workers, (master,) = created(script, elastic(MASTER))
    call = script.bind_all(workers, expires_s=10)[0]
    script.advance(11)
    text = f"only 0 of 1 members of podset master reached bind before the deadline; missing: {master.name}"
    assert text in script.answers[call]


@pytest.mark.parametrize("podset", [MASTER, LAUNCHER])
def test_a_release_that_lacks_one_podset_has_broken_off_and_is_completed(podset: PodSet) -> None:
    """The last Binding is that of the highest rank, which a launcher has."""
    script = Script(*cluster(NODES))
    train, workers, (only,) = created(script, elastic(podset))
    without_bindings_of(script, [only], [*workers, only])
    name = podset.name[2:]
    broken = f"its start broke off with 0 of 1 members of podset {name} bound; replacements are placed first"
    assert script.message("job") == broken
    later, again = restarted(script, train)
    assert later.message("job") == broken, "after a restart as well"
    for one_life, its_job in ((script, train), (later, again)):
        one_life.run([only])
        assert one_life.reason("job") == "Running"
        assert one_life.gang("job").release.complete
        assert not its_job.stops


def test_a_release_that_lacks_one_podset_does_not_become_whole_by_being_suspended() -> None:
    says = GroupRef("job", Dialect.ANNOTATION, 2)
    podsets = [
        replace(podset, template=replace(podset.template, group=says)) for podset in (MASTER, role("1-worker", 4, 1))
    ]
    script = Script(*cluster(NODES))
    job = replace(elastic(), podsets=PodSets(key("job"), tuple(podsets)))
    train, workers, (master,) = created(script, job)
    without_bindings_of(script, [master], [*workers, master])
    script.feed(JobSeen(replace(train.seen, suspended=True, stopped=False)))
    assert not script.gang("job").release.complete


def test_after_a_restart_a_job_that_has_started_goes_on_without_its_master() -> None:
    script = Script(*cluster(NODES))
    train, workers, (master,) = created(script, elastic(MASTER))
    script.run([*workers, master])
    script.change(script.pods[master.uid], deleting=True)
    script.gone(script.pods[master.uid])
    del train.pods[master.uid]
    later, again = restarted(script, train)
    assert later.gang("job").release.complete
    again.wait(70)
    assert not again.stops


@pytest.mark.parametrize("indexed", [True, False])
def test_after_a_restart_a_start_with_too_many_of_one_podset_lost_is_no_broken_one(indexed: bool) -> None:
    """No stamp says that the release was complete: the slots that were bound in it are counted, by podset."""
    script = Script(*cluster(NODES))
    train, workers, (only,) = created(script, elastic(role("0-master", 1, indexed=indexed)))
    script.run([*workers, only])
    for pod in (only, *workers):
        stamp = script.pods[pod.uid].stamp
        assert stamp is not None
        script.pods[pod.uid] = replace(script.pods[pod.uid], stamp=replace(stamp, complete=False))
    script.pods[only.uid] = replace(script.pods[only.uid], phase="Failed")
    later, _ = restarted(script, train)
    assert later.gang("job").release.complete


def test_a_plan_that_names_no_node_for_one_podset_is_not_taken_over() -> None:
    train = Controlled(Script(*cluster(NODES)), elastic(MASTER))
    plan = {**train.starts[0].plan, "0-master": ("",)}
    script = Script(*cluster(NODES), synced=False)
    again = Controlled(script, replace(train.seen, plan=plan))
    script.feed_synced()
    again.settle()
    assert again.stops == ["the plan that is written on its job is not one for its podsets"]


def test_a_pod_that_has_succeeded_counts_for_its_podset() -> None:
    script = Script(*cluster(NODES))
    train, workers, (master,) = created(script, elastic(MASTER))
    script.bind_all([*workers, master])
    script.post(master)
    script.change(script.pods[master.uid], phase="Succeeded")
    script.post_all()
    assert script.reason("job") == "Running"
    assert restarted(script, train)[0].reason("job") == "Running"


def test_a_pod_whose_binding_may_be_written_counts_for_its_podset() -> None:
    script = Script(*cluster(NODES))
    _, workers, (master,) = created(script, elastic(MASTER))
    script.bind_all([master, *workers[:2]], expires_s=600)
    script.post(master, Outcome.UNKNOWN)
    script.bind(workers[2], expires_s=600)
    assert workers[2].uid in script.bindings, "the release goes on"


def test_podsets_of_later_waves_follow_one_by_one() -> None:
    script = Script(*cluster(NODES))
    _, workers, later = created(script, elastic(MASTER, role("2-ps", 1, wave=1)))
    master, server = later
    script.bind_all([*workers, server])
    script.bind(master)
    script.post_all()
    assert len(script.bound([*workers, master, server])) == 6
    assert script.reason("job") == "Running"


def test_a_podset_whose_pods_have_ended_before_those_of_a_later_wave_come_keeps_nobody_back() -> None:
    """Pods without an index that have ended count for no further start: those of the next wave are one."""
    script = Script(*cluster(NODES))
    first = role("0-data", 1, indexed=False), role("1-cache", 1, indexed=False)
    train = Controlled(
        script, replace(elastic(*first), podsets=PodSets(key("job"), (*first, role("2-worker", 4, 1, wave=1))))
    )
    pods = train.create(only=2)
    script.run(pods)
    for pod in pods:
        script.change(script.pods[pod.uid], phase="Succeeded")
    others = [pod for pod in train.create() if pod.series == "2-worker"]
    script.run(others)
    assert len(script.bound(others)) == 4
    assert not train.stops


def test_what_is_left_of_a_job_starts_by_its_first_wave_that_is_left() -> None:
    """All that the first wave has to do is done."""
    podsets = PodSets(key("job"), (MASTER, role("1-worker", 4, 3, wave=1)))
    left = podsets.without({MASTER.slot(0)})
    assert (podsets.first_wave, left.first_wave) == (1, 3)


def test_a_gang_that_is_only_advised_would_be_held_for_each_podset() -> None:
    script = Script(*cluster(NODES), mode=Mode.ADVISE)
    _, workers, (master,) = created(script, elastic(MASTER))
    for pod in [*workers, master]:
        script.bind(pod, "a-0")
    assert script.core.state.counts.advised["would_hold"] == 4
