"""The final judgement, when nothing moves any more: a workload waits only for a reason, and runs if it could.

This holds of jobs, too, and ended jobs keep no marks of Muster. A workload that waits in a queue and has quota may
lack nodes alone. No workload waits while the eviction of one gang or job of a lower priority would make room.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, product

from extender.core.explain.reasons import reason_of
from extender.core.explain.telling import story_of
from extender.core.gate.steering import SteeringMode
from extender.core.workload.status import Status
from policies.model import GANG_GATE, HOSTNAME, GroupKey, Node, Pod
from policies.model.mentions import full, mentions_of
from policies.model.queues import ClusterQueue, ResourceFlavor, Stop
from tests.builders import GPU
from tests.simulation import relations
from tests.simulation.broken import BrokenPromiseError
from tests.simulation.fairness import OURS
from tests.simulation.model.batch import BatchJob
from tests.simulation.model.changes import Kind
from tests.simulation.model.kubescheduler import KubeScheduler
from tests.simulation.model.plugins import NEAR
from tests.simulation.model.world import World
from tests.simulation.plan import Plan
from tests.simulation.queue_plan import FLAVOR, MADE
from tests.simulation.quota import Book, is_strict, is_unplanned, left_for, used_by
from tests.simulation.referee import Referee
from tests.simulation.reservations import beside_reserved
from tests.simulation.restart import complaints
from tests.simulation.seating import agree, seats, takes
from tests.simulation.sight import (
    Room,
    Sight,
    beside,
    by_gang,
    fits,
    kept_nodes,
    left_over,
    lets_in,
    look,
    nominated,
    on_nodes,
    take,
    tolerating,
)
from tests.simulation.storage_sight import offer, with_storage
from tests.simulation.wakes import not_woken


def rooms_without(world: World, referee: Referee, key: GroupKey, plan: Plan) -> Iterator[tuple[GroupKey, Room]]:
    """The free room without each of the workloads that may certainly be evicted for it.

    Judged in the seeds whose workloads write checkpoints, where only priorities decide: no queues, no budgets, and
    no relations between pods. A workload that was evicted before may be protected. So may all be, for a while, after
    an unsuccessful eviction.
    """
    api = world.api
    if not plan.saves or plan.queues.things or plan.budgets or plan.barred or key in referee.gave_way:
        return
    gangs, job = by_gang(api.pods.values()), api.jobs.get(key)
    mine = [*gangs.get(key, ()), *(podset.template for podset in (job.podsets if job is not None else ()))]
    if relations.related(mine, on_nodes(api.pods.values())):
        return
    priority = _priority(world, key, gangs)
    for other, pods in gangs.items():
        if other not in referee.gave_way and _runs(world, other, pods) and _priority(world, other, gangs) < priority:
            yield other, left_over(api.nodes, [pod for pod in api.pods.values() if pod not in pods])


def _priority(world: World, key: GroupKey, gangs: dict[GroupKey, list[Pod]]) -> int:
    job = world.api.jobs.get(key)
    priorities = [] if job is None else [podset.template.priority for podset in job.podsets]
    return max([*priorities, *(pod.priority for pod in gangs.get(key, ()))])


def _runs(world: World, key: GroupKey, pods: list[Pod]) -> bool:
    """Whether the workload runs as a whole, by Bindings of Muster, and nothing of it is on its way."""
    job, sight = world.api.jobs.get(key), look(pods, world.api.groups, world.api.podsets, ended=world.api.done(key))
    if job is not None and (job.suspended or job.plan is None or job.ended or job.done):
        return False
    bound = all(pod.live and pod.node in world.api.nodes and pod.stamp is not None for pod in pods)
    return bound and sight.enough(sight.bound) and not any(pod.group and pod.group.owner for pod in pods)


def rooms_with_quota(
    world: World, room: Room, key: GroupKey, name: str, pods: Sequence[Pod], needed: int, bound: Sequence[Pod] = ()
) -> Iterator[Room]:
    """``room`` of the nodes of each flavor for which the queue has quota for these pods; all room without a queue.

    ``needed``: how few of the pods may start, if they have equal requests: else their rank counts.
    ``bound``: the bound pods of a half-released gang, which is completed with their flavors. A running job keeps
      those of its start.
    """
    api = world.api
    book = Book(api.queues.values(), api.nodes.values())
    if not name or not book.there:
        yield room
        return
    for flavor in _flavors_with_quota(world, book, key, name, pods, needed, bound):
        yield {node: left for node, left in room.items() if api.nodes[node].labels.get(FLAVOR) == flavor}


def could_await_nodes(world: World, key: GroupKey, name: str, pods: Sequence[Pod]) -> bool:
    """Whether all pods of a job have quota of the flavor whose nodes are made, and could start on such nodes."""
    book = Book(world.api.queues.values(), world.api.nodes.values())
    if world.autoscaler is None or not (name and book.there):
        return False
    made = world.autoscaler.pool.node
    together = any(pod.topology.required for pod in pods)
    tolerant = of_job(world, name, pods)
    wanted = [pod for pod in tolerant if together or dict(pod.requests).get(GPU)]
    suit = all(lets_in(made, pod.selection) for pod in wanted) and _could_start_with(world, made, tolerant)
    return suit and MADE in _flavors_with_quota(world, book, key, name, pods, len(pods))


def _could_start_with(world: World, made: Node, pods: Sequence[Pod]) -> bool:
    """Whether these pods could start if one node is made for each.

    They have to find room and the pods that they want to be near, and no pod may block them. Pods with GPUs go to
    such nodes alone, and each such node has a pod of every DaemonSet first.
    """
    there = on_nodes(world.api.pods.values())
    if not any(dict(pod.requests).get(GPU) for pod in pods):
        return False  # there is quota of no GPUs alone
    if any(pod.constraints.spread for pod in pods):
        # the nodes that a spread counts depend on how it gets nodes: without a plan, or by a ProvisioningRequest
        return False
    names = [f"to come {at}" for at in range(len(pods))]
    nodes = world.api.nodes | {name: replace(made, name=name, labels={**made.labels, HOSTNAME: name}) for name in names}
    on_made = [_on_made(pod) if dict(pod.requests).get(GPU) else pod for pod in pods]
    sides = (there, [*there, *kept_nodes(world.api.pods.values(), pods[0].priority)])
    room = left_over(nodes, world.api.pods.values())
    for name, requests in product(names, world.daemons.values()):
        take(room[name], requests)
    return all(seats(nodes, room, on_made, (), len(pods), side) >= len(pods) for side in sides)


def _on_made(pod: Pod) -> Pod:
    return replace(pod, selection=replace(pod.selection, node_selector=((FLAVOR, MADE),)))


def of_job(world: World, name: str, pods: Sequence[Pod]) -> list[Pod]:
    """The pods of a job in that queue; pods with GPUs get the tolerations of the flavor whose nodes are made."""
    flavors = (
        thing
        for thing in world.api.queues.values()
        if isinstance(thing, ResourceFlavor) and thing.name == MADE and name
    )
    more = tuple(toleration for flavor in flavors for toleration in flavor.tolerations)
    return [
        replace(pod, selection=tolerating(pod.selection, more)) if dict(pod.requests).get(GPU) else pod for pod in pods
    ]


def _flavors_with_quota(
    world: World, book: Book, key: GroupKey, name: str, pods: Sequence[Pod], needed: int, bound: Sequence[Pod] = ()
) -> Iterator[str]:
    api = world.api
    queue = book.queue_of(name)
    named = [flavor for group in (queue.groups if queue is not None else ()) for flavor, _ in group.flavors]
    if queue is None or queue.stop is not Stop.NONE or not book.flavors.issuperset(named):
        return
    if is_strict(queue) and _others_wait(world, book, key, queue):
        return
    jobs = {key: job.shown() for key, job in api.jobs.items()}
    there = [(pod, pod.node) for pod in api.pods.values() if pod.node]
    used = used_by(
        there, api.nodes, jobs, book, {}, {}, [job_key for job_key, job in jobs.items() if is_unplanned(job)]
    )
    # A slot of a job that runs keeps its node, and its quota, while it has no pod.
    if any(job.plan is not None and not job.ended for job in api.jobs.values()):
        return
    gpus = [dict(pod.requests).get(GPU, 0) for pod in pods]
    wanted = sum(gpus[:needed] if len(set(gpus)) == 1 else gpus)
    held = {api.nodes[pod.node].labels.get(FLAVOR) for pod in bound if pod.node in api.nodes}
    if (job := jobs.get(key)) is not None:
        held = {flavor for chosen in (job.flavors or {}).values() for flavor in chosen.values() if not job.suspended}
    for flavor in (flavor for flavor in named if not held or flavor in held):
        if left_for(book, queue, flavor, used, wanted):
            yield flavor


def _others_wait(world: World, book: Book, key: GroupKey, queue: ClusterQueue) -> bool:
    pods = (pod for pod in world.api.pods.values() if pod.live and not pod.node and book.queue_of(pod.queue) is queue)
    jobs = (job for job in world.api.jobs.values() if job.suspended and not job.ended)
    jobs = (job for job in jobs if book.queue_of(job.queue) is queue)
    return any(pod.group_key != key for pod in pods) or any(job.key != key for job in jobs)


_PASSING = ("New", "Placed", "Holding", "Releasing", "Forgotten", "Stopping", "Starting", "Creating")


def judge_jobs(world: World, referee: Referee, room: Room, plan: Plan) -> Iterator[str]:
    """Yield the faults of all jobs. ``room``: what bound pods leave."""
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
    if _is_beside(world, job):
        # It waits beside the gang that has its name, and says so.
        beside_it = GroupKey(key.namespace, f"{key.name} (Job {key.name})")
        yield from _reason(world, referee, beside_it, "")
        return
    yield from _reason(world, referee, key, "Held" if job.held else "")
    if could_start(world, referee, beside_reserved(room, world.api, key), job):
        yield f"{key} waits, and there is room for {job.least} of its pods"
    for victim, without in rooms_without(world, referee, key, plan) if referee.may_evict(job) else ():
        if could_start(world, referee, without, job):
            yield f"{key} waits, and {victim} could give way to it"
    every = [pod for podset in job.shown().podsets.podsets for pod in podset.pods()]
    together = len({pod.wave for pod in every}) == 1
    if together and not job.held and could_await_nodes(world, key, job.queue, every):
        yield f"{key} waits, and has quota of nodes that would be made for its {len(every)} pods"


def _is_beside(world: World, job: BatchJob) -> bool:
    """Whether the job is suspended, and its name is that of a gang of other pods."""
    named = (pod for pod in world.api.pods.values() if pod.group_key == job.key)
    return job.suspended and any(pod.live and pod.owner != job.uid for pod in named)


def could_start(world: World, referee: Referee, room: Room, job: BatchJob) -> bool:
    """Whether there are quota and nodes for as many of its pods as have to start."""
    known = referee.as_known(job.shown().podsets).podsets
    pods = [pod for podset in known for pod in islice(podset.pods(), podset.minimum)]
    pods = of_job(world, job.queue, pods)
    there = on_nodes(world.api.pods.values())
    sides = (there, [*there, *kept_nodes(world.api.pods.values(), pods[0].priority)])
    for room_with_quota in rooms_with_quota(world, room, job.key, job.queue, pods, len(pods)) if not job.held else ():
        free = beside(room_with_quota, nominated(world.api.pods.values()), pods[0].priority)
        if all(seats(world.api.nodes, free, pods, (), there=side) >= len(pods) for side in sides):
            return True
    return False


def _running(world: World, job: BatchJob) -> Iterator[str]:
    pods = [pod for pod in world.controller.pods(job) if pod.live or pod.phase == "Succeeded"]
    podsets = job.shown().podsets.podsets
    left_out = {podset.name: podset.left_out for podset in podsets}
    bound = [pod for pod in pods if pod.node and pod.index not in left_out[pod.series]]
    if job.plan is None:
        if not job.ran:
            yield f"{job.key} is not suspended, has no plan, and does not run"
    else:
        # A larger job later breaks no start: the pods beyond the plan are placed one by one, where there is room. The
        # controller makes no pods of the second wave until all pods run that the job wants now.
        first = {podset.name: podset.minimum for podset in job.podsets if podset.wave == 0}
        runs = sum(pod.series in first for pod in bound) >= sum(first.values())
        made = [podset for podset in job.podsets if runs or podset.name in first]
        least = sum(min(podset.minimum, sum(map(bool, job.plan.get(podset.name, ())))) for podset in made)
        # A pod that a user has moved to another gang waits there, and its controller makes no replacement.
        moved = sum(not pod.node and pod.group_key != job.key for pod in pods)
        # Pods that have ended well may have gone with their nodes.
        wanted = {podset.slot(at) for podset in podsets for at in range(podset.count) if at not in podset.left_out}
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
    reason, reported = reason_of(workload.reason_state.cause), referee.said.get(key, "New")
    if reason.code in _PASSING or not reason.message or (code and reason.code != code):
        yield f"{key} waits for no reason: {reason}"
    if reported in _PASSING or (code and reported != code):
        yield f"{key} waits, and the last that was reported is {reported}"


_KEPT = re.compile(r"room is kept for \d+ pods? in no gang \(([^)]*)\)")
_ON_ITS_WAY = ("New", "Placed", "Holding", "Releasing", "Forgotten")


def judge_rest(world: World, referee: Referee, plan: Plan) -> None:
    """Raise BrokenPromiseError for the first fault, once all is settled."""
    for complaint in _complaints(world, referee, plan):
        raise BrokenPromiseError(f"at rest: {complaint}")


def _complaints(world: World, referee: Referee, plan: Plan) -> Iterator[str]:
    assert world.extender is not None
    assert world.scheduler is not None
    state = world.extender.core.state
    if not plan.barred:
        yield from referee.sends.judge_rest(world.api.pods)
    # A gang that kube-scheduler refuses everywhere is planned again and again, and never settles.
    restless = dict.fromkeys(name for name, _ in plan.barred)
    for key in referee.wholeness.partial if plan.limits.evict_partial else ():
        yield f"{key} is bound in part\n{story_of(state.workloads[key])}"
    for request in world.scheduler.binds:
        if request.pod.group is None or request.pod.group.name not in restless:
            yield f"the bind of {request.pod.name} is still held"
    truth = {uid: (pod.node, pod.phase) for uid, pod in world.api.pods.items()}
    known = {uid: (pod.node, pod.phase) for uid, pod in state.pods.items()}
    if truth != known:
        yield f"the extender knows {known}, but the pods are {truth}"
    room = left_over(world.api.nodes, world.api.pods.values())
    offer(world.api.changes[Kind.STORAGE], room)
    yield from _device_complaints(referee, room)
    yield from _single_complaints(world)
    yield from referee.reservations.at_rest(world.api)
    # With a crowd, it is a matter of the order in which they came which gangs are looked at.
    # And a new core has yet to learn of nodes that kube-scheduler refuses for nominations of its own.
    if not restless and not nominated(world.api.pods.values()) and _crowd(world) <= plan.limits.waiting:
        yield from _restart_complaints(world, plan)
    for key, pods in by_gang(world.api.pods.values()).items():
        yield from _gang_complaints(world, referee, room, key, pods, plan)
    if _crowd(world) <= plan.limits.waiting:
        yield from _uptake_complaints(world, room, plan)
    yield from judge_jobs(world, referee, room, plan)
    yield from _status_complaints(world)
    if not restless:
        yield from not_woken(world.extender.core, world.clock.now)


def _device_complaints(referee: Referee, room: Room) -> Iterator[str]:
    """From here on ``room`` has the devices that no claim has."""
    if referee.devices is not None:
        yield from referee.devices.at_rest()
        referee.devices.cap(room)


def _status_complaints(world: World) -> Iterator[str]:
    """Check that the PodGroup of a running gang says so, whatever happened to the first report."""
    assert world.extender is not None
    for key, workload in world.extender.core.state.workloads.items():
        group = world.api.groups.get(key)
        if group is not None and group.starting and workload.status.value is Status.RUNNING:
            yield f"{key} runs, and its PodGroup does not say so"


def _uptake_complaints(world: World, room: Room, plan: Plan) -> Iterator[str]:
    """Check that a PodGroup is taken up where all of its pods find room."""
    for key, group in world.api.groups.items():
        job = world.api.group_jobs.get(key)
        if job is None or not group.pending or group.deleting or any(key.name == name for name, _ in plan.barred):
            continue
        pods = [pod for podset in job.podsets.podsets for pod in podset.pods()]
        if len(pods) < group.min_member:
            continue  # it lacks members, whatever room there is
        if any(pod.group_key == key and pod.live and pod.queue != group.queue for pod in world.api.pods.values()):
            continue  # a pod that was moved into the gang contradicts it
        rooms = rooms_with_quota(world, room, key, group.queue, pods, len(pods))
        if any(_placeable(world, room_there, pods, (), plan) >= len(pods) for room_there in rooms):
            yield f"{key} is not taken up, and there is room for its pods"


def _single_complaints(world: World) -> Iterator[str]:
    assert world.scheduler is not None
    for pod in world.api.pods.values():
        idle = pod.scheduler == OURS and pod.live and not pod.node and not pod.gates
        if pod.group_key is not None or not idle or overlooked(pod, world.scheduler):
            continue
        room = beside_reserved(left_over(world.api.nodes, world.api.pods.values()), world.api, None)
        nodes = open_to(pod, world.api.nodes, world.api.pods.values())
        if nodes := [node for node in nodes if fits(room[node], pod.requests)]:
            yield f"pod {pod.name} waits, and has room on {nodes[0]}"


def open_to(pod: Pod, nodes: Mapping[str, Node], pods: Collection[Pod]) -> list[str]:
    """The nodes on which a single pod has room. kube-scheduler keeps some for others that it has nominated."""
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
    """Check that the state is a function of the objects: a core that begins with them has nothing to do either."""
    assert world.extender is not None
    if any(_awaits_nodes(world, job) for job in world.api.jobs.values()):
        return
    core, served = world.extender.core, plan.asks if plan.elastic is not None else None
    fresh = replace(plan, limits=replace(plan.limits, trials=False)).core(sliced=False)
    # The additions to pods of a shape are in no object, and are learnt again after a restart.
    vars(fresh.state.additions).update(vars(core.state.additions))
    # Nor how often gangs and pods were evicted, which a restart begins to count again: they may be evicted sooner.
    evicted = core.state.preemptions.evictions.of
    fresh.state.preemptions.evictions.of |= {victim: times for victim, times in evicted.items() if not victim[1]}
    yield from complaints(world.api, core, fresh, world.clock.now, served=served)


def _awaits_nodes(world: World, job: BatchJob) -> bool:
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
    if (
        not whole
        and not restless
        and (reason_of(gang.reason_state.cause).code in _ON_ITS_WAY or not reason_of(gang.reason_state.cause).message)
    ):
        yield f"{key} waits for no reason: {reason_of(gang.reason_state.cause)}\n{story_of(gang)}"
    if not whole and not restless and referee.said.get(key, "New") in _ON_ITS_WAY:
        yield f"{key} waits, and the last that was reported is {referee.said.get(key)}\n{story_of(gang)}"
    yield from _names_complaints(world, key, reason_of(gang.reason_state.cause).message)
    if restless and plan.steering in (SteeringMode.PIN_DOMAIN, SteeringMode.PIN_NODE):
        # A pin is permanent: if kube-scheduler refuses its nodes for reasons of its own, only new pods help.
        return
    if reason_of(gang.reason_state.cause).code == "TooManyGangs" and _crowd(world) > plan.limits.waiting:
        return
    if any(use.claim for pod in waiting for use in pod.device_claims):
        return  # pods that share a claim go to one node, and ``seats`` knows of no such level
    yield from _start_complaints(world, referee, room, key, sight, waiting, plan)


def _names_complaints(world: World, key: GroupKey, message: str) -> Iterator[str]:
    """Check that a reason names existing workloads, and keeps room only for pods without a node."""
    pods = {str(pod): pod for pod in world.api.pods.values()}
    there = {str(pod.group_key) for pod in pods.values()} | {str(job) for job in world.api.jobs} | pods.keys()
    there |= set(map(str, world.api.budgets.values()))
    for mention in mentions_of(message):
        if mention.name.removeprefix("pod ") not in there:
            yield f"{key} waits, and its reason names {mention.name}, which is gone: {full(message)}"
    for kept in _KEPT.findall(full(message)):
        for name in kept.split(", "):
            if name in pods and pods[name].node:
                yield f"{key} waits, and its reason says that room is kept for {name}, which is bound: {full(message)}"


def _start_complaints(
    world: World, referee: Referee, room: Room, key: GroupKey, sight: Sight, waiting: Sequence[Pod], plan: Plan
) -> Iterator[str]:
    """Check that the gang could not start, not even if others were evicted."""
    assert world.extender is not None
    room = beside_reserved(room, world.api, key)
    story, started = story_of(world.extender.core.state.workloads[key]), bool(sight.bound or sight.finished)
    if _could_start(world, room, key, sight, waiting, plan, whole=started and sight.enough(sight.bound)):
        yield f"{key} waits, and there is room for its members\n{story}"
    for victim, left in () if started else rooms_without(world, referee, key, plan):
        if _could_start(world, left, key, sight, waiting, plan, whole=False):
            yield f"{key} waits, and {victim} could give way to it\n{story}"


def _could_start(
    world: World, room: Room, key: GroupKey, sight: Sight, waiting: Sequence[Pod], plan: Plan, *, whole: bool
) -> bool:
    """Whether there are quota and nodes for the waiting members, or for as many as have to start."""
    judged = _undisturbed(world, key, sight)
    members = [pod for pod in (judged.waiting if whole else judged.least) if pod in waiting or pod in judged.coming]
    members = with_storage(members, world.api.changes[Kind.STORAGE])
    needed = _wanted(judged, whole=whole)
    if not members or needed is None:
        return False
    job = world.api.jobs.get(key)
    if job is not None and _is_beside(world, job):
        job = None
    if job is None and len({pod.queue for pod in world.api.pods.values() if pod.group_key == key and pod.live}) > 1:
        return False  # its members contradict each other
    queue, bound = members[0].queue if job is None else job.queue, () if whole else sight.bound
    rooms = rooms_with_quota(world, room, key, queue, members, needed, bound)
    return any(_placeable(world, room_there, members, sight.bound, plan) >= needed for room_there in rooms)


def _undisturbed(world: World, key: GroupKey, sight: Sight) -> Sight:
    """The gang of a started job without the contradicting pods that others have brought into it."""
    job = world.api.jobs.get(key)
    if job is None or job.plan is None or agree(_unbound(sight)):
        return sight
    return replace(sight, live=tuple(pod for pod in sight.live if pod.owner == job.uid))


def _unbound(sight: Sight) -> list[Pod]:
    """The pods that must agree: a bound one may be of an older revision."""
    return [pod for pod in sight.live if not pod.node]


def _wanted(sight: Sight, *, whole: bool) -> int | None:
    """How many members have to find room at once; None if the gang lacks something else.

    The gates of other controllers block only members that have yet to start.
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
    """How many members find room at once. Nodes that are barred to one member are left out for all."""
    free = beside(room, nominated(world.api.pods.values()), pods[0].priority)
    open_room = {node: left for node, left in free.items() if not any(plan.bars(pod, node) for pod in pods)}
    there = on_nodes(world.api.pods.values())
    sides = (there, [*there, *kept_nodes(world.api.pods.values(), pods[0].priority)])
    return min(seats(world.api.nodes, open_room, pods, bound, there=side) for side in sides)
