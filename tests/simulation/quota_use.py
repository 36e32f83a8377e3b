"""What quota the workloads of a ClusterQueue use, as the referee counts it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping

from extender.core.effects import StartJob
from policies.model import GroupKey, Job, Node, Pod
from policies.model.queues import VOLCANO, ClusterQueue
from tests.builders import GPU
from tests.simulation.queue_plan import FLAVOR
from tests.simulation.quota_book import ALL_NODES, Book, Used


def used_by(
    pods: Iterable[tuple[Pod, str]],
    nodes: Mapping[str, Node],
    jobs: Mapping[GroupKey, Job],
    book: Book,
    starts: Mapping[GroupKey, StartJob],
    ended: Mapping[GroupKey, Collection[Hashable]],
    unplanned: Iterable[GroupKey],
) -> Used:
    """Of pods with their nodes, and of slots of jobs that were started, whose pods have yet to be bound. ``ended``:
    those slots of the jobs whose pods have succeeded, by series and index. ``unplanned``: jobs that others started."""
    used: Used = Counter()
    there: dict[GroupKey, set[object]] = {}
    for pod, node in pods:
        if pod.group_key is None:
            continue
        there.setdefault(pod.group_key, set()).add(pod.identity)
        if pod.terminal:
            continue
        job = jobs.get(pod.group_key)
        _use(used, book, pod.queue if job is None else job.queue, node, pod.requests, nodes)
    for key, start in starts.items():
        job = jobs.get(key, start.job)
        for podset in job.podsets.podsets if podsets_are_indexed(job) else ():
            for at, node in enumerate(start.plan.get(podset.name, ())[: podset.count]):
                slot = podset.slot(at)
                over = slot in job.done or (podset.name, at) in ended.get(key, ())
                if node and slot not in there.get(key, ()) and not over:
                    _use(used, book, start.job.queue, node, podset.template.requests, nodes)
    for key in unplanned:
        _use_unseen(used, book, jobs[key], there.get(key, ()))
    return used


def is_unplanned(job: Job) -> bool:
    """It runs, and no plan of ours is on it."""
    return job.plan is None and not (job.suspended or job.finished)


def _use_unseen(used: Used, book: Book, job: Job, there: Collection[object]) -> None:
    """Nobody knows where its pods are that name no gang: they count in the first flavor of its queue, or in that which
    the job says."""
    queue = book.queue_of(job.queue)
    if queue is None or not podsets_are_indexed(job):
        return
    for podset in job.podsets.podsets:
        said = (job.flavors or {}).get(podset.name, {}).get(GPU) or next(iter(flavors_of(queue)), None)
        slots = [podset.slot(at) for at in range(podset.count) if at not in podset.left_out]
        count = sum(slot not in there and slot not in job.done for slot in slots)
        if said is not None:
            used[queue.name, said] += count * dict(podset.template.requests).get(GPU, 0)


def use_awaited(used: Used, book: Book, job: Job, there: Collection[object]) -> None:
    """One that is let go has quota of its flavors for all of its pods. ``there``: those that use it by themselves."""
    if (queue := book.queue_of(job.queue)) is None:
        return
    bound = Counter(slot[0] for slot in there if isinstance(slot, tuple))
    for podset in job.podsets.podsets:
        said = (job.flavors or {}).get(podset.name, {}).get(GPU)
        if said is not None:
            count = max(0, podset.size - bound[podset.prefix])
            used[queue.name, said] += count * dict(podset.template.requests).get(GPU, 0)


def podsets_are_indexed(job: Job) -> bool:
    """Else nobody but Muster knows which pod is in which slot."""
    return all(one.indexed for one in job.podsets.podsets)


def _use(
    used: Used, book: Book, name: str, node: str, requests: Iterable[tuple[str, int]], nodes: Mapping[str, Node]
) -> None:
    queue, known = book.queue_of(name), nodes.get(node)
    if queue is None or known is None:
        return
    # A node that comes later says nothing, and counts for Volcano's Queues all the same.
    flavor = ALL_NODES if queue.name.startswith(VOLCANO) else known.labels.get(FLAVOR)
    if flavor is not None:
        used[queue.name, flavor] += dict(requests).get(GPU, 0)


def flavors_of(queue: ClusterQueue) -> list[str]:
    return [name for group in queue.groups for name, _ in group.flavors]
