"""The model of the cluster behaves as the real parts do, where it matters to gangs (kube-scheduler 1.36)."""

from __future__ import annotations

from extender.core.engine import Engine
from extender.simulation.chance import Chance
from extender.simulation.clock import Clock
from policies.model import GANG_GATE, Pod
from tests.builders import cluster, node, requests, single
from tests.simulation.model.apiserver import OK
from tests.simulation.model.cycle import Profile
from tests.simulation.model.job_specs import JobSpec, Role
from tests.simulation.model.tasks import Lane, Process
from tests.simulation.model.world import World


def world(*nodes: str, muster: bool = True, **facts: object) -> World:
    return World(7, cluster(*nodes), Engine if muster else None, **facts)  # type: ignore[arg-type]


def job(name: str, size: int, gpus: int = 8, **facts: object) -> JobSpec:
    """A gang of whole-node pods that runs until it is stopped."""
    spec = JobSpec(name, (Role(size, requests(gpus)),), min_member=size, run_s=float("inf"))
    return JobSpec(**{**{field: getattr(spec, field) for field in spec.__slots__}, **facts})


def bound(of: World) -> dict[str, int]:
    """Gang -> how many of its members have a node."""
    counts: dict[str, int] = {}
    for pod in of.api.pods.values():
        if pod.node and pod.group is not None:
            counts[pod.group.name] = counts.get(pod.group.name, 0) + 1
    return counts


def waits(of: World, *pods: Pod) -> list[bool]:
    return [not of.api.pods[pod.uid].node for pod in pods]


def let(of: World, seconds: float) -> None:
    of.clock.run(of.clock.now + seconds)


def test_a_pod_whose_node_is_gone_for_a_moment_runs_there_when_that_is_back() -> None:
    there = world("a: 1x8", muster=False)
    pod = single("alone", node="a-0")
    there.api.create_pod(pod)
    let(there, 1.5)
    (node,) = there.api.nodes.values()
    there.api.remove_node(node.name)
    let(there, 1.0)
    there.api.set_node(node)
    let(there, 3.0)
    assert there.api.pods[pod.uid].phase == "Running"


def test_processes_sleep_on_the_clock_and_wait_for_their_turn() -> None:
    clock, ended = Clock(), []
    lane = Lane(clock, 2)

    def sleeper(name: str, seconds: float) -> Process[None]:
        yield seconds
        ended.append((name, clock.now))

    for name, seconds in (("a", 1.0), ("b", 5.0), ("c", 1.0)):
        lane.submit(sleeper(name, seconds))
    clock.run(3.0)
    assert ended == [("a", 1.0), ("c", 2.0)]
    lane.cancel()
    clock.run(10.0)
    assert ended == [("a", 1.0), ("c", 2.0)]


def test_one_more_draw_for_one_purpose_shifts_no_other() -> None:
    chance = Chance(3)
    first, other = chance.stream("one"), chance.stream("other")
    first.random()
    assert other.random() == Chance(3).stream("other").random() != Chance(4).stream("other").random()


def test_without_muster_two_jobs_hold_half_each_for_ever_and_with_it_one_runs() -> None:
    for muster, expected in ((False, [2, 2]), (True, [4])):
        it = world("a: 4x8", muster=muster)
        for name in ("left", "right"):
            it.jobs.submit(job(name, 4))
        let(it, 600)
        assert sorted(bound(it).values()) == expected


def test_members_that_wait_in_vain_give_up_and_are_submitted_again() -> None:
    it = world("a: 4x8", muster=False)
    for name, give_up_s in (("left", 300.0), ("right", 400.0)):
        it.jobs.submit(job(name, 4, give_up_s=give_up_s, run_s=60.0))
    let(it, 290)
    assert sorted(bound(it).values()) == [2, 2]
    let(it, 300)
    assert it.jobs.jobs == {}, "the first to give up leaves its nodes to the other, and comes back"


def test_a_gang_that_waits_is_left_alone_until_something_happens() -> None:
    it = world("a: 2x8")
    it.jobs.submit(job("big", 3))
    let(it, 60)
    assert it.scheduler is not None
    before = it.scheduler.cycles
    assert before <= 3 * 3
    let(it, 600)
    assert it.scheduler.cycles == before
    it.api.set_node(node("b", 8))
    let(it, 5)
    assert bound(it) == {"big": 3}


def test_gated_members_cost_kube_scheduler_one_cycle_each() -> None:
    it = world("a: 4x8")
    it.jobs.submit(job("gang", 4, gates=(GANG_GATE,)))
    let(it, 10)
    assert bound(it) == {"gang": 4}
    assert it.scheduler is not None
    assert it.scheduler.cycles == 4


def test_who_was_refused_for_lack_of_room_is_not_woken_by_a_write_to_itself() -> None:
    it = world("a: 1x8", muster=False)
    first, second = single("first", gpus=8), single("second", gpus=8)
    for pod in (first, second):
        it.api.create_pod(pod)
    let(it, 30)
    assert waits(it, first, second) == [False, True]
    assert it.scheduler is not None
    before = it.scheduler.cycles
    it.api.touch_pod(second.uid)
    it.api.nominate(second.uid, (second.namespace, second.name), "a-0")
    let(it, 30)
    assert it.scheduler.cycles == before
    it.api.remove_pod(first.uid)
    let(it, 30)
    assert waits(it, second) == [False]


def test_nominated_room_is_kept_from_pods_of_no_higher_priority() -> None:
    it = world("a: 1x8", muster=False)
    kept = single("kept", gpus=8, gates=("example.com/later",))
    it.api.create_pod(kept)
    let(it, 1)
    it.api.nominate(kept.uid, (kept.namespace, kept.name), "a-0")
    let(it, 1)
    equal, higher = single("equal", gpus=8), single("higher", gpus=8, priority=5)
    it.api.create_pod(equal)
    let(it, 5)
    assert waits(it, equal) == [True]
    it.api.create_pod(higher)
    let(it, 5)
    assert waits(it, higher) == [False]


def test_a_restarted_kube_scheduler_does_not_know_of_a_gated_pods_nomination() -> None:
    it = world("a: 1x8", muster=False)
    kept = single("kept", gpus=8, gates=("example.com/later",))
    it.api.create_pod(kept)
    it.api.nominate(kept.uid, (kept.namespace, kept.name), "a-0")
    it.kill_scheduler()
    it.start_scheduler()
    other = single("other", gpus=8)
    it.api.create_pod(other)
    let(it, 5)
    assert waits(it, other) == [False]


def test_a_pinned_pod_goes_nowhere_but_to_its_nodes() -> None:
    it = world("a: 3x8", muster=False)
    pinned = single("pinned", gpus=8, gates=(GANG_GATE,))
    it.api.create_pod(pinned)
    assert it.api.ungate(pinned.uid, (pinned.namespace, pinned.name), ("a-2",)) == OK
    let(it, 5)
    assert it.api.pods[pinned.uid].node == "a-2"


def test_a_pod_of_higher_priority_makes_others_go() -> None:
    it = world("a: 1x8", muster=False)
    low, high = single("low", gpus=8), single("high", gpus=8, priority=5)
    it.api.create_pod(low)
    let(it, 5)
    it.api.create_pod(high)
    let(it, 30)
    assert low.uid not in it.api.pods
    assert waits(it, high) == [False]


def test_a_preemptor_whose_victims_could_not_be_deleted_is_tried_again() -> None:
    it = world("a: 1x8", muster=False)
    low, high = single("low", gpus=8), single("high", gpus=8, priority=5)
    it.api.create_pod(low)
    let(it, 5)
    it.network.api_down = True
    it.api.create_pod(high)
    let(it, 3)
    assert waits(it, low, high) == [False, True]
    it.network.api_down = False
    let(it, 30)
    assert low.uid not in it.api.pods
    assert waits(it, high) == [False]


def test_a_bind_is_given_up_after_its_timeout_and_tried_again_after_a_backoff() -> None:
    it = world("a: 2x8", profile=Profile(bind_timeout_s=8.0))
    half = job("half", 2, run_s=60.0)
    it.jobs.submit(half)
    assert it.extender is not None
    it.extender.freeze(30)
    let(it, 29)
    assert bound(it) == {}
    let(it, 31)
    assert bound(it) == {"half": 2}
