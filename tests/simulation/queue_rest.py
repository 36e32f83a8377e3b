"""At rest: where a workload that waits in a queue has quota, so that only nodes could be lacking."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from policies.model import HOSTNAME, GroupKey, Node, Pod
from policies.model.queues import ClusterQueue, ResourceFlavor, Stop
from tests.builders import GPU
from tests.simulation.model.world import World
from tests.simulation.queue_plan import FLAVOR, MADE
from tests.simulation.quota import Book, is_strict, is_unplanned, left_for, used_by
from tests.simulation.seating import seats
from tests.simulation.sight import Room, kept_nodes, left_over, lets_in, on_nodes, take, tolerating


def rooms_with_quota(
    world: World, room: Room, key: GroupKey, name: str, pods: Sequence[Pod], needed: int, bound: Sequence[Pod] = ()
) -> Iterator[Room]:
    """``room`` of the nodes of each flavor that the queue of that name has quota of for these pods; all of it for a
    workload that names none. ``needed``: so few of them may start, if they ask for the same: else their rank counts.
    ``bound``: those of a gang that is half released, which is completed with their flavors, as a job that runs keeps
    those of its start."""
    api = world.api
    book = Book(api.queues.values(), api.nodes.values())
    if not name or not book.there:
        yield room
        return
    for flavor in _flavors_with_quota(world, book, key, name, pods, needed, bound):
        yield {node: left for node, left in room.items() if api.nodes[node].labels.get(FLAVOR) == flavor}


def could_be_let_go(world: World, key: GroupKey, name: str, pods: Sequence[Pod]) -> bool:
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
    """Whether these find room and whom they want to be near, and nobody is in their way, if one node is made for each;
    those with GPUs go to such nodes alone, and each such node has a pod of every DaemonSet first."""
    there = on_nodes(world.api.pods.values())
    if not any(dict(pod.requests).get(GPU) for pod in pods):
        return False  # there is quota of no GPUs alone
    if any(pod.constraints.spread for pod in pods):
        return False  # which nodes a spread counts depends on whether it is let go, or asks by a ProvisioningRequest
    names = [f"to come {at}" for at in range(len(pods))]
    nodes = world.api.nodes | {name: replace(made, name=name, labels={**made.labels, HOSTNAME: name}) for name in names}
    asked = [_on_made(pod) if dict(pod.requests).get(GPU) else pod for pod in pods]
    sides = (there, [*there, *kept_nodes(world.api.pods.values(), pods[0].priority)])
    room = left_over(nodes, world.api.pods.values())
    for name, requests in product(names, world.daemons.values()):
        take(room[name], requests)
    return all(seats(nodes, room, asked, (), len(pods), side) >= len(pods) for side in sides)


def _on_made(pod: Pod) -> Pod:
    return replace(pod, selection=replace(pod.selection, node_selector=((FLAVOR, MADE),)))


def of_job(world: World, name: str, pods: Sequence[Pod]) -> list[Pod]:
    """Pods of a job that names that queue; those with GPUs tolerate what the flavor whose nodes are made says."""
    flavors = (
        one for one in world.api.queues.values() if isinstance(one, ResourceFlavor) and one.name == MADE and name
    )
    more = tuple(one for flavor in flavors for one in flavor.tolerations)
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
    jobs = {one: job.shown() for one, job in api.jobs.items()}
    there = [(pod, pod.node) for pod in api.pods.values() if pod.node]
    used = used_by(there, api.nodes, jobs, book, {}, {}, [one for one, job in jobs.items() if is_unplanned(job)])
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
