"""The slots of an admitted job: which pods fill them, after a restart too, and how long the core waits for a pod."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.effects import Report
from extender.core.limits import Limits
from policies.model import Pod, PodSet
from tests.builders import cluster, gang
from tests.core.jobs import Controlled, job, template, wakes_later
from tests.core.script import Script


def test_nobody_is_awaited_any_more_when_all_pods_are_there() -> None:
    script = Script(*cluster("a: 2x8"), limits=Limits(creation_s=5))
    train = Controlled(script, job(2))
    train.create()
    assert wakes_later(script, 6)


def test_a_node_that_has_no_pod_of_it_is_not_waited_for() -> None:
    script = Script(*cluster("a: 3x8"))
    train = Controlled(script, job(2))
    train.run()
    lost = train.starts[0].plan[""][0]
    train.show(suspended=True)
    script.see(replace(script.core.state.claims.nodes[lost], ready=False))
    assert wakes_later(script, 65), "it is suspended"
    train.delete()
    assert wakes_later(script, 65), "its pods are gone"


def test_after_a_restart_pods_without_an_index_fill_the_slots_of_their_nodes() -> None:
    script = Script(*cluster("a: 3x8"))
    train = Controlled(script, job(3, indexed=False))
    first, other, last = train.create()
    nodes = train.starts[0].plan[""]
    there = [replace(pod, node=node, phase="Running") for pod, node in ((first, nodes[2]), (other, nodes[0]))]
    later = Script(*cluster("a: 3x8"), synced=False, now=script.now)
    again = Controlled(later, train.seen)
    later.see(*there, last)
    later.feed_synced()
    again.settle()
    assert not again.stops
    assert later.planned(last) == nodes[1]


def test_after_a_restart_no_pod_that_waits_takes_the_slot_of_one_that_runs() -> None:
    seen = job(4, indexed=False)
    (podset,) = seen.podsets.podsets
    elastic = replace(seen, podsets=replace(seen.podsets, podsets=(replace(podset, minimum=2),)))
    train = Controlled(Script(*cluster("a: 2x8")), elastic)
    train.run()
    nodes = train.starts[0].plan[""]
    # The replacement of a failed pod is seen behind the waiting pods.
    first, *others, replacement = train.pods.values()
    there = [replace(pod, node=node, phase="Running") for pod, node in ((first, nodes[0]), (replacement, nodes[1]))]
    later = Script(*cluster("a: 2x8"), synced=False)
    again = Controlled(later, train.seen)
    later.see(*[replace(pod, index=None, node=pod.node) for pod in (there[0], *others, there[1])])
    later.feed_synced()
    again.settle()
    assert not again.stops
    assert [later.planned(pod) for pod in others] == ["", ""]


def test_why_it_waits_is_told_again_after_a_restart() -> None:
    script = Script(*cluster("a: 2x8"), synced=False)
    Controlled(script, replace(job(2), held=True))
    script.feed_synced()
    script.advance(5)
    assert [effect.code for effect in script.effects if isinstance(effect, Report)] == ["Held"]


def test_after_a_restart_no_replacement_takes_the_room_of_another_job_beside_its_predecessor() -> None:
    before = Script(*cluster("a: 1x8"))
    old = Controlled(before, job(1, name="old", gpus=4))
    [only] = old.run()
    new = Controlled(before, job(1, name="new", gpus=4))
    before.change(only, deleting=True)
    del old.pods[only.uid]
    [again] = old.create()
    script = Script(*cluster("a: 1x8"), synced=False, now=before.now)
    Controlled(script, old.seen)
    other = Controlled(script, new.seen)
    script.see(*before.pods.values())
    script.feed_synced()
    other.settle()
    assert not other.stops
    [pod] = other.create()
    assert (script.planned(pod), script.planned(again)) == ("a-0", "")
    script.gone(script.pods[only.uid])
    assert script.planned(again) == "a-0"


def test_after_a_restart_a_replacement_has_the_room_that_is_left_beside_its_predecessor() -> None:
    before = Script(*cluster("a: 1x8"))
    train = Controlled(before, job(1, gpus=4))
    [only] = train.run()
    before.change(only, deleting=True)
    del train.pods[only.uid]
    [again] = train.create()
    assert before.planned(again) == "a-0"
    before.see(*gang("late", 1, gpus=4))
    script = Script(*cluster("a: 1x8"), synced=False, now=before.now)
    Controlled(script, train.seen)
    script.see(*before.pods.values())
    script.feed_synced()
    assert script.planned(again) == "a-0"


def test_a_pod_that_is_lost_before_the_start_is_awaited_anew() -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(2))
    first, other = train.create()
    script.bind_all([first], expires_s=600)
    script.change(other, deleting=True)
    script.gone(script.pods[other.uid])
    del train.pods[other.uid]
    again = train.create()
    assert not train.stops, "its slot keeps its node"
    script.run(again)
    assert len(script.bound([first, *again])) == 2


def test_pods_that_have_finished_in_an_earlier_start_are_not_waited_for() -> None:
    script = Script(*cluster("a: 4x8"))
    seen = job(4)
    (podset,) = seen.podsets.podsets
    left = replace(podset, minimum=2, left_out=frozenset({0, 2}))
    train = Controlled(script, replace(seen, podsets=replace(seen.podsets, podsets=(left,))))
    [start] = train.starts
    assert [bool(node) for node in start.plan[""]] == [False, True, False, True]
    assert start.minimum == 2
    pods = train.create()
    assert [pod.index for pod in pods] == [1, 3]
    assert [script.planned(pod) for pod in pods] == [start.plan[""][1], start.plan[""][3]]
    script.run(pods)
    train.wait(script.core.state.limits.creation_s + 60)
    assert (script.reason("job"), train.stops) == ("Running", [])


def partly_done() -> tuple[Script, Controlled]:
    """A JobSet of a driver and two workers; the driver and one worker have succeeded when it is suspended."""
    script = Script(*cluster("a: 4x8"))
    driver = PodSet(template(series="driver"), 1, 1)
    train = Controlled(script, replace(job(2, driver), resumes=True))
    worker, last, first = train.run()
    for pod in (worker, first):
        script.change(pod, phase="Succeeded")
    script.change(last, deleting=True)
    script.gone(script.pods[last.uid])
    del train.pods[last.uid]
    train.show(suspended=True, stopped=True)
    return script, train


def test_what_has_succeeded_of_a_jobset_is_not_planned_again() -> None:
    script, train = partly_done()
    start = train.starts[-1]
    assert len(train.starts) == 2
    assert [node != "" for node in start.plan[""]] == [False, True]
    assert (start.plan["driver"], start.minimum) == (("",), 1)
    assert start.job.podsets == train.seen.podsets, "its writer compares them with those of the object"
    script.run([pod for pod in train.create() if (pod.series, pod.index) == ("", 1)])
    script.advance(120)
    train.settle()
    assert not train.stops, "no other pod is awaited"
    assert script.reason("job") == "Running"


def test_what_has_succeeded_of_a_jobset_does_not_count_for_its_next_start() -> None:
    script = Script(*cluster("a: 4x8"))
    train = Controlled(script, replace(job(4), resumes=True))
    pods = train.run()
    for pod in pods[:2]:
        script.change(script.pods[pod.uid], phase="Succeeded")
    for pod in pods[2:]:
        script.change(script.pods[pod.uid], deleting=True)
        script.gone(script.pods[pod.uid])
        del train.pods[pod.uid]
    train.show(suspended=True, stopped=True)
    third, last = (pod for pod in train.create() if pod.index in (2, 3))
    script.bind(third)
    assert not script.bindings
    script.bind(last)
    script.post_all()
    assert len(script.bound([third, last])) == 2


def test_a_jobset_that_goes_on_in_part_is_taken_over_after_a_restart() -> None:
    script, train = partly_done()
    later = Script(*cluster("a: 4x8"), *script.pods.values(), synced=False, now=script.now)
    again = Controlled(later, train.seen)
    later.feed_synced()
    again.wait(3)
    assert not again.stops
    assert len(later.core.state.claims) == 1


def test_a_jobset_all_of_whose_pods_have_succeeded_is_planned_whole() -> None:
    script = Script(*cluster("a: 4x8"))
    train = Controlled(script, replace(job(2), resumes=True))
    for pod in train.run():
        script.change(pod, phase="Succeeded")
    train.show(suspended=True, stopped=True)
    assert [len(set(start.plan[""])) for start in train.starts] == [2, 2]


def test_why_a_job_is_started_over_is_told_when_its_pods_waited_for_others_to_go() -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(2))
    pods = train.run()
    script.change(script.pods[pods[1].uid], deleting=True)
    script.see(replace(pods[1], uid="another", name="another"))
    train.settle()
    script.drop(script.pods[pods[1].uid].node or "")
    train.settle()
    assert " is gone" in train.stops[0]


def taken_over(train: Controlled, pods: list[Pod], nodes: str = "a: 3x8") -> tuple[Script, Controlled]:
    """The next leader has read the cluster: the job as it is, and these pods of it."""
    script = Script(*cluster(nodes), synced=False, now=train.script.now)
    again = Controlled(script, train.seen)
    script.see(*pods)
    script.feed_synced()
    again.settle()
    return script, again


@pytest.mark.parametrize("gone", [True, False])
def test_pods_without_an_index_stand_where_an_earlier_leader_has_bound_them(gone: bool) -> None:
    """``gone``: one of them is, and its replacement is yet to come."""
    train = Controlled(Script(*cluster("a: 3x8")), job(3, indexed=False))
    first, second, third = train.create()
    script, again = taken_over(train, [replace(first, node="a-0"), second, *([] if gone else [third])])
    where = "a-2" if script.planned(second) == "a-1" else "a-1"
    script.change(second, node=where)
    again.settle()
    assert not again.stops
    if gone:
        script.see(third := replace(third, uid="again"))
    assert {where, script.planned(third)} == {"a-1", "a-2"}
    script.run([third])
    assert len(script.bound([first, second, third])) == 3
    assert script.reason("job") == "Running"


def test_a_pod_without_an_index_that_was_bound_elsewhere_changes_places_with_one_that_is_not_bound() -> None:
    train = Controlled(Script(*cluster("a: 2x4")), job(3, indexed=False, gpus=2))
    first, *others = train.create()
    script, again = taken_over(train, [replace(first, node="a-0"), *others], "a: 2x4")
    near, far = sorted(others, key=script.planned)
    assert [script.planned(near), script.planned(far)] == ["a-0", "a-1"]
    held = script.bind(near)
    script.change(far, node="a-0")
    again.settle()
    assert script.answers[held] == "another pod was bound to a-0"
    script.run([near])
    assert script.bound([first, near, far]) == ["a-0", "a-1", "a-0"]
    assert script.reason("job") == "Running"
    assert not again.stops


def test_a_pod_without_an_index_that_was_bound_beside_the_plan_leaves_the_others_where_they_are() -> None:
    train = Controlled(Script(*cluster("a: 3x8")), job(2, indexed=False))
    first, second = train.create()
    script, again = taken_over(train, [first, second])
    home = script.planned(first)
    script.change(second, node="a-2")
    again.settle()
    assert script.planned(first) == home
    script.run([first])
    assert script.reason("job") == "Running"
    assert not again.stops


@pytest.mark.parametrize("indexed", [True, False])
def test_a_pod_that_is_bound_when_it_is_first_seen_has_the_room_of_its_slot_and_no_more(indexed: bool) -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(2, indexed=indexed))
    first, second = train.starts[0].plan[""]
    made = template(uid="one", index=0 if indexed else None)
    script.see(replace(made, node=first), replace(made, uid="other", index=1 if indexed else None))
    train.settle()
    assert not train.stops
    assert script.planned(script.pods["other"]) == second
