"""Jobs when nothing moves any more: whatever can run runs, whatever waits has a reason, and nothing of ours is left."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from policies.model import GroupKey
from tests.simulation.model.batch import BatchJob
from tests.simulation.model.world import World
from tests.simulation.plan import Plan
from tests.simulation.queue_rest import could_be_let_go, of_job, rooms_with_quota
from tests.simulation.referee import Referee
from tests.simulation.seating import seats
from tests.simulation.sight import Room, beside, kept_nodes, nominated, on_nodes
from tests.simulation.victim_rest import rooms_without

_PASSING = ("New", "Placed", "Holding", "Releasing", "Forgotten", "Stopping", "Starting", "Creating")


def judge_jobs(world: World, referee: Referee, room: Room, plan: Plan) -> Iterator[str]:
    """What is not as it must be. ``room``: what bound pods leave."""
    for key, job in world.api.jobs.items():
        if not job.managed:
            continue
        refused = {node for name, node in plan.barred if name == key.name}
        elsewhere = {node: left for node, left in room.items() if node not in refused}
        if job.ended:
            yield from _ended(world, job)
        elif refused and not could_start(world, referee, elsewhere, job):
            continue  # it is tried again and again on nodes that kube-scheduler refuses to it
        elif job.suspended:
            yield from _suspended(world, referee, room, job, plan)
        else:
            yield from _running(world, job)


def _ended(world: World, job: BatchJob) -> Iterator[str]:
    if job.marked:
        yield f"{job.key} has ended, and something of ours is on it: {job.plan}, {job.led}"
    if left := [pod.uid for pod in world.controller.pods(job) if pod.live]:
        yield f"{job.key} has ended, and {left} are there"


def _suspended(world: World, referee: Referee, room: Room, job: BatchJob, plan: Plan) -> Iterator[str]:
    key = job.key
    if job.marked or not job.stopped:
        yield f"{key} is suspended, and something of ours is on it: {job.plan}, {job.led}"
    if left := [pod.uid for pod in world.controller.pods(job) if not pod.terminal]:
        yield f"{key} is suspended, and {left} are there"
    if any(pod.live and pod.owner != job.uid for pod in world.api.pods.values() if pod.group_key == key):
        # It waits beside the gang that has its name, and says so.
        beside_it = GroupKey(key.namespace, f"{key.name} (Job {key.name})")
        yield from _reason(world, referee, beside_it, "")
        return
    yield from _reason(world, referee, key, "Held" if job.held else "")
    if could_start(world, referee, room, job):
        yield f"{key} waits, and there is room for {job.least} of its pods"
    for victim, without in rooms_without(world, referee, key, plan) if referee.may_evict(job) else ():
        if could_start(world, referee, without, job):
            yield f"{key} waits, and {victim} could give way to it"
    every = [pod for one in job.shown().podsets.podsets for pod in one.pods()]
    together = len({pod.wave for pod in every}) == 1
    if together and not job.held and could_be_let_go(world, key, job.queue, every):
        yield f"{key} waits, and has quota of nodes that would be made for its {len(every)} pods"


def could_start(world: World, referee: Referee, room: Room, job: BatchJob) -> bool:
    """Whether there are quota and nodes for as many of its pods as have to start."""
    known = referee.as_known(job.shown().podsets).podsets
    pods = [pod for one in known for pod in islice(one.pods(), one.minimum)]
    pods = of_job(world, job.queue, pods)
    there = on_nodes(world.api.pods.values())
    sides = (there, [*there, *kept_nodes(world.api.pods.values(), pods[0].priority)])
    for some in rooms_with_quota(world, room, job.key, job.queue, pods, len(pods)) if not job.held else ():
        free = beside(some, nominated(world.api.pods.values()), pods[0].priority)
        if all(seats(world.api.nodes, free, pods, (), there=side) >= len(pods) for side in sides):
            return True
    return False


def _running(world: World, job: BatchJob) -> Iterator[str]:
    pods = [pod for pod in world.controller.pods(job) if pod.live or pod.phase == "Succeeded"]
    podsets = job.shown().podsets.podsets
    left_out = {one.name: one.left_out for one in podsets}
    bound = [pod for pod in pods if pod.node and pod.index not in left_out[pod.series]]
    if job.plan is None:
        if not job.ran:
            yield f"{job.key} is not suspended, has no plan, and does not run"
    else:
        # Asking for more later breaks no start: the pods beyond the plan are placed one by one, where there is room.
        # Until all that it asks for by now run, its controller makes none of the second wave.
        first = {one.name: one.minimum for one in job.podsets if one.wave == 0}
        runs = sum(pod.series in first for pod in bound) >= sum(first.values())
        made = [one for one in job.podsets if runs or one.name in first]
        least = sum(min(one.minimum, sum(map(bool, job.plan.get(one.name, ())))) for one in made)
        # One that somebody has moved to another gang waits there, and its controller makes none in its place.
        moved = sum(not pod.node and pod.group_key != job.key for pod in pods)
        # Pods that have ended well may have gone with their nodes.
        wanted = {one.slot(at) for one in podsets for at in range(one.count) if at not in one.left_out}
        done = len(wanted & job.shown().done - {pod.identity for pod in bound}) + job.shown().closed
        if len(bound) + done + moved < least:
            yield f"{job.key} is started, and {len(bound)} of {least} are bound: {[pod.uid for pod in pods]}"


def _reason(world: World, referee: Referee, key: GroupKey, code: str) -> Iterator[str]:
    """``code``: which it has to be, if that is known."""
    assert world.extender is not None
    workload = world.extender.core.state.workloads.get(key)
    if workload is None:
        yield f"nobody knows the job {key}"
        return
    reason, said = workload.telling.reason, referee.said.get(key, "New")
    if reason.code in _PASSING or not reason.message or (code and reason.code != code):
        yield f"{key} waits for no reason: {reason}"
    if said in _PASSING or (code and said != code):
        yield f"{key} waits, and the last that was reported is {said}"
