"""A workload that is known before its pods: its slots are planned by their templates, and filled as pods come."""

from __future__ import annotations

from dataclasses import replace

from extender.core.events import PodSetsGone, PodSetsSeen
from policies.model import Pod, PodSet, PodSets, Topology
from tests.builders import cluster, gang, key, requests, single
from tests.core.script import Script


def job(count: int, **facts: object) -> tuple[PodSets, list[Pod]]:
    """What a Job says before its pods exist, and the pods that its controller makes later."""
    pods = [replace(pod, **facts) for pod in gang("job", count)]  # type: ignore[arg-type]
    template = replace(pods[0], uid="", name="job", index=None)
    return PodSets(key("job"), (PodSet(template, count, count),)), pods


def test_it_is_planned_whole_before_any_pod_exists() -> None:
    podsets, pods = job(4)
    script = Script(*cluster("a: 2x8", "b: 4x8"))
    script.feed(PodSetsSeen(podsets))
    script.advance(1)
    planned = dict(script.gang("job").members.slots.planned)
    assert sorted(planned.values()) == ["b-0", "b-1", "b-2", "b-3"], "in one clique"
    assert script.reason("job") == "Placed"
    assert set(script.filter(single("other", gpus=8))) == {"a-0", "a-1"}, "its room is taken"
    for pod in reversed(pods):
        script.see(pod)
        assert script.planned(pod) == planned[pod.identity], "each pod fills its own slot"
    script.run(pods)
    assert script.reason("job") == "Running"
    assert len(set(script.bound(pods))) == 4


def test_it_waits_with_the_numbers_when_there_is_no_room() -> None:
    podsets, _ = job(4, topology=Topology("clique"))
    script = Script(*cluster("a: 3x8", "b: 3x8"))
    script.feed(PodSetsSeen(podsets))
    script.advance(1)
    assert script.reason("job") == "NoRoom"
    assert script.message("job").startswith("3 of 4 members fit at once")
    script.see(*cluster("c: 4x8"))
    assert script.reason("job") == "Placed"


def test_a_node_that_goes_takes_the_whole_plan_with_it() -> None:
    podsets, _ = job(2)
    script = Script(*cluster("a: 2x8", "b: 2x8"))
    script.feed(PodSetsSeen(podsets))
    script.advance(1)
    clique = {node[0] for node in script.gang("job").members.slots.planned.values()}
    script.drop(f"{clique.pop()}-0")
    assert len({node[0] for node in script.gang("job").members.slots.planned.values()}) == 1
    assert script.reason("job") == "Placed"


def test_a_pod_that_asks_for_something_else_than_its_template_is_planned_by_itself() -> None:
    podsets, pods = job(2)
    script = Script(*cluster("a: 2x8"))
    script.feed(PodSetsSeen(podsets))
    script.advance(1)
    script.see(replace(pods[0], requests=requests(9)))
    assert not script.planned(pods[0])
    assert script.reason("job") == "NoRoom"


def test_it_gives_its_room_back_when_it_is_gone() -> None:
    podsets, _ = job(2)
    script = Script(*cluster("a: 2x8"))
    script.feed(PodSetsSeen(podsets))
    script.advance(1)
    script.feed(PodSetsGone(podsets.key))
    assert not len(script.core.state.claims)
    assert not script.core.state.workloads


def test_a_change_of_its_size_is_planned_anew() -> None:
    podsets, _ = job(2)
    script = Script(*cluster("a: 4x8"))
    script.feed(PodSetsSeen(podsets))
    script.advance(1)
    larger, _ = job(4)
    script.feed(PodSetsSeen(larger))
    script.advance(1)
    assert len(script.gang("job").members.slots.planned) == 4
