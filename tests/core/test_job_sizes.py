"""Jobs of more pods than there is room for, and jobs that are made larger or smaller while they run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.effects import StartJob
from extender.core.events import JobSeen, PodSeen
from policies.model import Job, PodSet, PodSets, Requirement, Selection
from tests.builders import cluster, single
from tests.core.jobs import Controlled, job, template
from tests.core.script import Script
from tests.core.sliced import ONE, step


def test_an_elastic_job_starts_with_what_fits_and_grows_pod_by_pod() -> None:
    script = Script(*cluster("a: 3x8"))
    whole = job(5)
    least = replace(whole.podsets, podsets=(replace(whole.podsets.podsets[0], minimum=2),))
    train = Controlled(script, replace(whole, podsets=least))
    assert train.starts[0].plan[""] == ("a-0", "a-1", "a-2", "", "")
    assert train.starts[0].minimum == 2
    pods = train.create()
    script.run(pods[:3])
    assert script.message("job").startswith("3 members are bound; 2 more members wait")
    script.see(*cluster("b: 3x8"))
    script.run(pods[3:])
    assert len(script.bound(pods)) == 5
    assert not train.stops


def led(workers: int, least: int) -> Job:
    """Workers, of which so few are enough, and a launcher, which comes last."""
    whole = job(workers, PodSet(template(series="launcher"), 1, 1))
    first, launcher = whole.podsets.podsets
    return replace(whole, podsets=replace(whole.podsets, podsets=(replace(first, minimum=least), launcher)))


def test_no_podset_is_left_short_of_its_own_minimum() -> None:
    script = Script(*cluster("a: 3x8"))
    train = Controlled(script, led(4, least=2))
    [start] = train.starts
    assert start.plan["launcher"] != ("",)
    assert sum(node != "" for node in start.plan[""]) == 2
    script.run([pod for pod in train.create() if script.planned(pod)])
    assert script.reason("job") == "Running"


def test_where_the_minimum_of_one_podset_does_not_fit_it_waits() -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, led(4, least=2))
    assert not train.starts
    assert script.message("job").startswith("2 of 3 members fit at once")
    script.see(*cluster("b: 1x8"))
    train.settle()
    assert len(train.starts) == 1


def test_a_job_that_is_made_larger_while_it_runs_gets_nodes_for_the_new_pods() -> None:
    script = Script(*cluster("a: 4x8"))
    train = Controlled(script, job(2))
    train.run()
    train.show(podsets=job(4).podsets)
    more = train.create()
    assert len(more) == 2
    script.run(more)
    assert len(script.bound(more)) == 2
    assert not train.stops


def test_who_makes_a_job_larger_whose_template_names_its_nodes_is_told_what_to_do() -> None:
    """Pods without an index: the nodes of the others are full, and no other node is good for the next one."""
    script = Script(*cluster("a: 3x8"))
    train = Controlled(script, job(2, indexed=False))
    train.run()
    assert "template" not in script.message("job")
    train.show(podsets=job(3, indexed=False).podsets)
    names = tuple((Requirement("metadata.name", "In", (node,), is_field=True),) for node in ("a-0", "a-1"))
    train.create(selection=Selection(affinity=names))
    assert script.message("job") == (
        "2 members are bound; 1 more member waits: 0 of 1 members fit at once: "
        "0 of 3 nodes have room for 8 nvidia.com/gpu; "
        "1 node does not match its required node affinity (metadata.name=a-0 or metadata.name=a-1); "
        "its pod template names the nodes of the plan: suspend the job to have it planned again"
    )


def test_who_makes_a_job_larger_whose_template_has_other_affinity_is_told_of_no_plan() -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(2, indexed=False))
    train.run()
    train.show(podsets=job(3, indexed=False).podsets)
    train.create(selection=Selection(affinity=((Requirement("zone", "In", ("a",)),),)))
    assert "1 more member waits" in script.message("job")
    assert "template" not in script.message("job")


def test_a_job_that_is_made_smaller_while_it_runs_gives_room_back() -> None:
    script = Script(*cluster("a: 4x8"))
    train = Controlled(script, job(4))
    pods = train.run()
    train.show(podsets=job(2).podsets)
    script.gone(*(script.pods[pod.uid] for pod in pods[2:]))
    train.settle()
    assert len(script.core.state.claims) == 2
    assert not train.stops


def test_a_job_that_was_made_larger_goes_on_after_a_restart() -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(2))
    pods = train.run()
    bound = [script.core.state.pods[pod.uid] for pod in pods]
    later = Script(*cluster("a: 2x8"), *bound, synced=False, now=script.now)
    again = Controlled(later, replace(train.seen, podsets=job(4).podsets))
    later.feed_synced()
    again.wait(3)
    assert not again.stops


def test_a_running_job_goes_on_when_a_pod_beyond_its_plan_loses_its_node() -> None:
    script = Script(*cluster("a: 3x8"))
    train = Controlled(script, job(2))
    train.run()
    train.show(podsets=job(3).podsets)
    (more,) = train.create()
    assert script.planned(more) == "a-2"
    script.see(single("foreign", gpus=8, node="a-2", scheduler="other"))
    train.wait(3)
    assert not train.stops
    assert not script.planned(more)
    script.see(*cluster("b: 1x8"))
    train.wait(3)
    assert script.planned(more) == "b-0"


def test_a_job_that_is_made_smaller_and_larger_again_goes_on_when_its_old_room_was_given_away() -> None:
    script = Script(*cluster("a: 4x8"))
    train = Controlled(script, job(4))
    pods = train.run()
    train.show(podsets=job(2).podsets)
    for pod in pods[2:]:
        script.gone(script.pods[pod.uid])
        del train.pods[pod.uid]
    script.see(single("foreign", gpus=8, node="a-2", scheduler="other"))
    train.show(podsets=job(4).podsets)
    train.wait(3)
    assert not train.stops
    more = train.create()
    assert [node for pod in more if (node := script.planned(pod))] == ["a-3"]
    script.see(*cluster("b: 1x8"))
    train.wait(3)
    assert sorted(script.planned(pod) for pod in more) == ["a-3", "b-0"]
    assert not train.stops


@pytest.mark.parametrize("shown_first", [True, False])
def test_a_job_without_indexes_that_is_made_smaller_keeps_no_room_for_pods_that_will_not_come(
    shown_first: bool,
) -> None:
    """The controller deletes any of its pods. The rest keeps its room for its replacements."""
    script = Script(*cluster("a: 4x8"))
    train = Controlled(script, job(4, indexed=False))
    pods = train.run()
    where = {pod.uid: script.core.state.pods[pod.uid].node for pod in pods}
    less = job(2, indexed=False).podsets
    if shown_first:
        train.show(podsets=less)
    for pod in pods[:2]:
        script.gone(script.pods[pod.uid])
        del train.pods[pod.uid]
    train.show(podsets=less)
    train.wait(3)
    assert len(script.core.state.claims) == 2
    lost = pods[2]
    script.gone(script.pods[lost.uid])
    del train.pods[lost.uid]
    train.wait(1)
    script.see(single("other", gpus=8))
    [more] = train.create(only=1)
    assert script.planned(more) == where[lost.uid]
    assert not train.stops


def test_after_a_restart_the_pods_that_a_smaller_job_has_kept_have_their_nodes_for_what_replaces_them() -> None:
    script = Script(*cluster("a: 4x8"))
    train = Controlled(script, job(4, indexed=False))
    pods = [script.core.state.pods[pod.uid] for pod in train.run()]
    kept = [replace(pod, index=None) for pod in pods[2:]]
    foreign = single("foreign", gpus=8, node=pods[0].node, scheduler="other")
    later = Script(*cluster("a: 4x8"), *kept, foreign, synced=False, now=script.now)
    again = Controlled(later, replace(train.seen, podsets=job(2, indexed=False).podsets))
    later.feed_synced()
    again.wait(3)
    later.gone(later.pods[kept[0].uid])
    again.wait(3)
    assert not again.stops
    assert len(later.core.state.claims) == 3


@pytest.mark.parametrize(("least", "starts"), [(160, False), (50, True)])
@pytest.mark.parametrize("roles", [1, 2])
def test_a_waiting_job_whose_room_is_taken_while_its_slots_are_promised_theirs_gives_all_back_or_starts(
    least: int, starts: bool, roles: int
) -> None:
    """A launcher is promised its node last: without it nothing starts."""
    script = Script(*cluster("a: 21x8"), limits=ONE, checked=50)
    waiting = job(160, *[PodSet(template(gpus=1, series="launcher"), 1, 1)][: roles - 1], gpus=1)
    first, *others = waiting.podsets.podsets
    podsets = replace(waiting.podsets, podsets=(replace(first, minimum=least), *others))
    script.feed(JobSeen(replace(waiting, podsets=podsets)))
    claims, planned = script.core.state.claims, script.gang("job").members.slots.planned
    while not planned:
        step(script)
    for name in [name for name in claims.nodes if name not in claims.promised_nodes]:
        script.feed(PodSeen(single(f"busy-{name}", gpus=8, node=name)))
    script.advance(5)
    started = [effect for effect in script.effects if isinstance(effect, StartJob)]
    assert (len(started), bool(planned)) == ((1, True) if starts else (0, False))
    assert all("" not in start.plan.get("launcher", ()) for start in started)


def test_room_of_pods_yet_to_come_that_is_taken_while_another_is_bound_is_not_promised_twice() -> None:
    script = Script(*cluster("a: 3x8"))
    whole = job(3)
    least = replace(whole.podsets, podsets=(replace(whole.podsets.podsets[0], minimum=1),))
    train = Controlled(script, replace(whole, podsets=least))
    (first,) = train.create(only=1)
    script.run([first])
    (second,) = train.create(only=1)
    script.bind(second)
    taken = train.starts[0].plan[""][2]
    script.see(single("foreign", gpus=8, node=taken, scheduler="other"))
    script.post_all()
    assert not any(claim.promised for _, claim in script.core.state.claims.on(taken))


def test_a_job_whose_plan_was_removed_is_planned_anew_when_none_of_its_pods_runs() -> None:
    """The job's pods are made for the nodes of that plan, and name a gang of the size that the job had then."""
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(2))
    pods = train.run()
    later = Script(*cluster("a: 2x8"), *(script.pods[pod.uid] for pod in pods), synced=False, now=script.now)
    smaller = replace(train.seen.podsets.podsets[0], count=1, minimum=1)
    shown = replace(train.seen, podsets=PodSets(train.seen.key, (smaller,)), plan=None, running=True)
    again = Controlled(later, shown)
    later.feed_synced()
    again.settle()
    assert not again.stops, "what runs is left alone"
    for pod in pods:
        later.change(later.pods[pod.uid], phase="Failed")
    assert not again.stops, "nobody waits"
    [waiting] = again.create()
    assert again.stops == ["the plan that it was started with was removed"]
    later.gone(waiting)
    again.pods.clear()
    again.show(stopped=True)
    again.wait(3)
    assert len(again.starts) == 1


def test_a_job_that_is_made_smaller_and_larger_again_while_it_starts_is_started_whole() -> None:
    """The job's pods are made for four. The last one is planned beside the plan, and the others wait for it."""
    script = Script(*cluster("a: 4x8"))
    train = Controlled(script, job(4))
    pods = train.create(only=3)
    script.bind_all(pods[:2])
    train.show(podsets=job(3).podsets)
    train.show(podsets=job(4).podsets)
    script.bind(pods[2])
    assert not script.bindings
    [last] = train.create()
    assert script.planned(last)
    script.bind(last)
    assert len(script.bindings) == 3
    script.post_all()
    assert script.reason("job") == "Running"
    assert not train.stops
