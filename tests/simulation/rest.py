"""When nothing moves any more: whoever waits must wait for a reason, and whoever could run must run."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from extender.core.explain.telling import told
from extender.core.gate.steering import SteeringMode
from extender.core.workload.workload import Phase
from policies.model import GANG_GATE, GroupKey, Node, Pod
from policies.model.mentions import full, mentions_of
from tests.simulation.broken import BrokenPromiseError
from tests.simulation.fairness import OURS
from tests.simulation.job_rest import judge_jobs
from tests.simulation.model.batch import BatchJob
from tests.simulation.model.kubescheduler import KubeScheduler
from tests.simulation.model.plugins import NEAR
from tests.simulation.model.world import World
from tests.simulation.plan import Plan
from tests.simulation.queue_rest import rooms_with_quota
from tests.simulation.referee import Referee
from tests.simulation.restart import complaints
from tests.simulation.seating import agree, seats, takes
from tests.simulation.sight import Room, Sight, beside, by_gang, kept_nodes, left_over, look, nominated, on_nodes
from tests.simulation.victim_rest import rooms_without

_KEPT = re.compile(r"room is kept for \d+ pods? in no gang \(([^)]*)\)")
_ON_ITS_WAY = ("New", "Placed", "Holding", "Releasing", "Forgotten")


def judge_rest(world: World, referee: Referee, plan: Plan) -> None:
    """Raises BrokenPromiseError for the first thing that is not as it must be at rest."""
    for complaint in _complaints(world, referee, plan):
        raise BrokenPromiseError(f"at rest: {complaint}")


def _complaints(world: World, referee: Referee, plan: Plan) -> Iterator[str]:
    assert world.extender is not None
    assert world.scheduler is not None
    state = world.extender.core.state
    if not plan.barred:
        yield from referee.sends.judge_rest(world.api.pods)
    # What kube-scheduler refuses everywhere is planned again and again, and is never at rest.
    restless = dict.fromkeys(name for name, _ in plan.barred)
    for key in referee.wholeness.partial if plan.limits.evict_partial else ():
        yield f"{key} is bound in part\n{told(state.workloads[key])}"
    for request in world.scheduler.binds:
        if request.pod.group is None or request.pod.group.name not in restless:
            yield f"the bind of {request.pod.name} is still held"
    truth = {uid: (pod.node, pod.phase) for uid, pod in world.api.pods.items()}
    known = {uid: (pod.node, pod.phase) for uid, pod in state.pods.items()}
    if truth != known:
        yield f"the extender knows {known}, but the pods are {truth}"
    room = left_over(world.api.nodes, world.api.pods.values())
    yield from _single_complaints(world)
    # With a crowd, it is a matter of the order in which they came which gangs are looked at.
    # And a new core has yet to learn of nodes that kube-scheduler refuses for nominations of its own.
    if not restless and not nominated(world.api.pods.values()) and _crowd(world) <= plan.limits.waiting:
        yield from _restart_complaints(world, plan)
    for key, pods in by_gang(world.api.pods.values()).items():
        yield from _gang_complaints(world, referee, room, key, pods, plan)
    if _crowd(world) <= plan.limits.waiting:
        yield from _uptake_complaints(world, room, plan)
    yield from judge_jobs(world, referee, room, plan)
    yield from _phase_complaints(world)


def _phase_complaints(world: World) -> Iterator[str]:
    """The PodGroup of a gang that runs says so, whatever became of the first report of that."""
    assert world.extender is not None
    for key, workload in world.extender.core.state.workloads.items():
        group = world.api.groups.get(key)
        if group is not None and group.starting and workload.phase is Phase.RUNNING:
            yield f"{key} runs, and its PodGroup does not say so"


def _uptake_complaints(world: World, room: Room, plan: Plan) -> Iterator[str]:
    """Where all of its pods find room, a PodGroup is taken up."""
    for key, group in world.api.groups.items():
        job = world.api.group_jobs.get(key)
        if job is None or not group.pending or group.deleting or any(key.name == name for name, _ in plan.barred):
            continue
        pods = [pod for podset in job.podsets.podsets for pod in podset.pods()]
        if len(pods) < group.min_member:
            continue  # it lacks members, whatever room there is
        rooms = rooms_with_quota(world, room, key, group.queue, pods, len(pods))
        if any(_placeable(world, one, pods, (), plan) >= len(pods) for one in rooms):
            yield f"{key} is not taken up, and there is room for its pods"


def _single_complaints(world: World) -> Iterator[str]:
    assert world.scheduler is not None
    for pod in world.api.pods.values():
        idle = pod.scheduler == OURS and pod.live and not pod.node and not pod.gates
        if pod.group_key is not None or not idle or overlooked(pod, world.scheduler):
            continue
        if nodes := open_to(pod, world.api.nodes, world.api.pods.values()):
            yield f"pod {pod.name} waits, and has room on {nodes[0]}"


def open_to(pod: Pod, nodes: Mapping[str, Node], pods: Collection[Pod]) -> list[str]:
    """Where a pod of no gang has room: kube-scheduler keeps some for others that it has nominated."""
    others = [other for other in nominated(pods) if other.uid != pod.uid]
    room = beside(left_over(nodes, pods), others, pod.priority)
    bound = on_nodes(pods)
    sides = (bound, [*bound, *((other, other.nominated_node) for other in others if other.nominated_node)])
    return [node for node in room if all(takes(nodes, room, pod, node, there) for there in sides)]


def overlooked(pod: Pod, scheduler: KubeScheduler) -> bool:
    """Whether kube-scheduler does not try the pod on a new node: InterPodAffinity alone has refused all others to it.

    That plugin wakes it when a pod that keeps it away goes, and for a new node only if it has terms of its own.
    """
    asks = pod.constraints.affinity or pod.constraints.anti_affinity
    return not asks and scheduler.refused_by(pod.uid) == (NEAR,)


def _restart_complaints(world: World, plan: Plan) -> Iterator[str]:
    """What the core knows is a function of the objects: one that begins with them now has nothing to do either."""
    assert world.extender is not None
    if any(_let_go(world, job) for job in world.api.jobs.values()):
        return
    core, served = world.extender.core, plan.asks if plan.elastic is not None else None
    fresh = replace(plan, limits=replace(plan.limits, trials=False)).core(sliced=False)
    # What pods of a shape ask for beyond their template is in no object, and is learnt again after a restart.
    fresh.state.additions = core.state.additions
    yield from complaints(world.api, core, fresh, world.clock.now, served=served)


def _let_go(world: World, job: BatchJob) -> bool:
    """Whether it runs without some slots of the plan on it: their nodes did not do, and a restart tries them again."""
    assert world.extender is not None
    workload = world.extender.core.state.workloads.get(job.key)
    if workload is None or job.plan is None or job.suspended:
        return False
    planned = job.shown().podsets.by_slot(job.plan)
    return any(planned.get(slot) for slot in workload.members.slots.lacking)


def _gang_complaints(
    world: World, referee: Referee, room: Room, key: GroupKey, pods: Sequence[Pod], plan: Plan
) -> Iterator[str]:
    assert world.extender is not None
    sight = look(pods, world.api.groups, world.api.podsets, world.api.gang_owners, ended=world.api.done(key))
    waiting = [pod for pod in sight.waiting if set(pod.gates) <= {GANG_GATE}]
    restless = any(key.name == name for name, _ in plan.barred)
    for pod in waiting:
        if pod.nominated_node and not restless:
            yield f"{pod.name} waits, and is nominated for {pod.nominated_node}, where room is kept from others"
    if not waiting or any(pod.scheduler != OURS for pod in sight.live):
        return
    gang = world.extender.core.state.workloads.get(key)
    if gang is None:
        yield f"nobody knows the gang {key}"
        return
    whole = bool(sight.bound or sight.finished) and sight.enough(sight.bound)
    if not whole and not restless and (gang.telling.reason.code in _ON_ITS_WAY or not gang.telling.reason.message):
        yield f"{key} waits for no reason: {gang.telling.reason}\n{told(gang)}"
    if not whole and not restless and referee.said.get(key, "New") in _ON_ITS_WAY:
        yield f"{key} waits, and the last that was reported is {referee.said.get(key)}\n{told(gang)}"
    yield from _names_complaints(world, key, gang.telling.reason.message)
    if restless and plan.steering in (SteeringMode.PIN_DOMAIN, SteeringMode.PIN_NODE):
        # A pin is for ever: if kube-scheduler refuses its nodes for reasons of its own, only new pods help.
        return
    if gang.telling.reason.code == "TooManyGangs" and _crowd(world) > plan.limits.waiting:
        return
    yield from _start_complaints(world, referee, room, key, sight, waiting, plan)


def _names_complaints(world: World, key: GroupKey, message: str) -> Iterator[str]:
    """A reason names those that are there, and keeps room for pods that have no node."""
    pods = {str(pod): pod for pod in world.api.pods.values()}
    there = {str(pod.group_key) for pod in pods.values()} | {str(job) for job in world.api.jobs} | pods.keys()
    there |= set(map(str, world.api.budgets.values()))
    for one in mentions_of(message):
        if one.name.removeprefix("pod ") not in there:
            yield f"{key} waits, and its reason names {one.name}, which is gone: {full(message)}"
    for kept in _KEPT.findall(full(message)):
        for name in kept.split(", "):
            if name in pods and pods[name].node:
                yield f"{key} waits, and its reason says that room is kept for {name}, which is bound: {full(message)}"


def _start_complaints(
    world: World, referee: Referee, room: Room, key: GroupKey, sight: Sight, waiting: Sequence[Pod], plan: Plan
) -> Iterator[str]:
    """Whether it could start, or could if others gave way."""
    assert world.extender is not None
    said, started = told(world.extender.core.state.workloads[key]), bool(sight.bound or sight.finished)
    if _could_start(world, room, key, sight, waiting, plan, whole=started and sight.enough(sight.bound)):
        yield f"{key} waits, and there is room for its members\n{said}"
    for victim, left in () if started else rooms_without(world, referee, key, plan):
        if _could_start(world, left, key, sight, waiting, plan, whole=False):
            yield f"{key} waits, and {victim} could give way to it\n{said}"


def _could_start(
    world: World, room: Room, key: GroupKey, sight: Sight, waiting: Sequence[Pod], plan: Plan, *, whole: bool
) -> bool:
    """Whether there are quota and nodes for those who wait, or for as many as have to start."""
    judged = _undisturbed(world, key, sight)
    some = [pod for pod in (judged.waiting if whole else judged.least) if pod in waiting or pod in judged.coming]
    needed = _wanted(judged, whole=whole)
    if not some or needed is None:
        return False
    job = world.api.jobs.get(key)
    if job is None and len({pod.queue for pod in world.api.pods.values() if pod.group_key == key and pod.live}) > 1:
        return False  # its members contradict each other
    queue, bound = some[0].queue if job is None else job.queue, () if whole else sight.bound
    rooms = rooms_with_quota(world, room, key, queue, some, needed, bound)
    return any(_placeable(world, one, some, sight.bound, plan) >= needed for one in rooms)


def _undisturbed(world: World, key: GroupKey, sight: Sight) -> Sight:
    """Where others have brought pods into the gang of a started job that contradict its own: its own alone."""
    job = world.api.jobs.get(key)
    if job is None or job.plan is None or agree(_unbound(sight)):
        return sight
    return replace(sight, live=tuple(pod for pod in sight.live if pod.owner == job.uid))


def _unbound(sight: Sight) -> list[Pod]:
    """Those that must agree: a bound one may be of an older revision."""
    return [pod for pod in sight.live if not pod.node]


def _wanted(sight: Sight, *, whole: bool) -> int | None:
    """How many members have to find room at once; None if it lacks something else.

    The gates of somebody else keep back only those that have yet to start.
    """
    if sight.needed is None or not sight.complete or not agree(_unbound(sight)):
        return None
    if whole:
        return 1
    gated = any(set(pod.gates) - {GANG_GATE} for pod in sight.live)
    return None if gated else max(1, sight.lacking)


def _crowd(world: World) -> int:
    """How many gangs wait. All are of one namespace."""
    gangs = by_gang(world.api.pods.values()).values()
    pending = sum(group.pending for group in world.api.groups.values())
    return pending + sum(bool(look(pods, world.api.groups).waiting) for pods in gangs)


def _placeable(world: World, room: Room, pods: Sequence[Pod], bound: Sequence[Pod], plan: Plan) -> int:
    """How many members find room at once. What is barred to one member is left out for all."""
    free = beside(room, nominated(world.api.pods.values()), pods[0].priority)
    open_room = {node: left for node, left in free.items() if not any(plan.bars(pod, node) for pod in pods)}
    there = on_nodes(world.api.pods.values())
    sides = (there, [*there, *kept_nodes(world.api.pods.values(), pods[0].priority)])
    return min(seats(world.api.nodes, open_room, pods, bound, there=side) for side in sides)
