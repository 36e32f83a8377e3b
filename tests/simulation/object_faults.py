"""Faults of nodes, pods, jobs and PodGroups, by users, by other schedulers, or because hardware breaks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from policies.model import GANG_GATE, Pod
from tests.builders import node, single
from tests.simulation.device_plan import registered
from tests.simulation.model.changes import Kind
from tests.simulation.sight import fits, left_over
from tests.simulation.trouble import Trouble


def cordon(trouble: Trouble) -> None:
    _change_node(trouble, unschedulable=True)


def _change_node(trouble: Trouble, **facts: object) -> None:
    node, api = trouble.some_node(), trouble.world.api
    if node is None:
        return
    api.set_node(replace(node, **facts))  # type: ignore[arg-type]

    def mend() -> None:
        if (now := api.nodes.get(node.name)) is not None:
            # Its other facts may have changed meanwhile, as the label that a ComputeDomain puts on it.
            api.set_node(replace(now, **{name: getattr(node, name) for name in facts}))

    if trouble.random.random() < 0.7:
        trouble.later(mend, 30.0)


def lose_gpu(trouble: Trouble) -> None:
    node = trouble.some_node()
    if node is not None and (healthy := dict(node.allocatable)).get("nvidia.com/gpu", 0) > 0:
        allocatable = tuple(sorted((healthy | {"nvidia.com/gpu": healthy["nvidia.com/gpu"] - 1}).items()))
        trouble.world.api.set_node(replace(node, allocatable=allocatable))


def register_devices(trouble: Trouble) -> None:
    """A device plugin starts: the node lists names of resources that it did not have, also with an amount of 0."""
    node = trouble.some_node()
    if node is not None:
        trouble.world.api.set_node(replace(node, allocatable=registered(node.allocatable, trouble.random)))


def fail_the_core(trouble: Trouble) -> None:
    """Write an object that the core fails on, as a user does: in this version, or in all until it is fixed."""
    api, dice = trouble.world.api, trouble.random
    kinds = [kind for kind in (Kind.PODS, Kind.NODES, Kind.JOBS) if api.changes[kind]]
    changes = list(api.changes[dice.choice(kinds)].values()) if kinds else []
    in_use = [change for change in changes if not isinstance(change.value, Pod) or change.value.node]
    if (change := trouble.some(in_use if dice.random() < 0.5 else changes)) is None:
        return
    api.failing[change.uid] = dice.choice(("", f"{api.version + 1}"))
    trouble.edit(change.uid)
    if dice.random() < 0.5:
        trouble.later(lambda: trouble.mend(change.uid), 30.0)


def remove_node(trouble: Trouble) -> None:
    node, api = trouble.some_node(), trouble.world.api
    if node is None:
        return
    api.remove_node(node.name)
    trouble.referee.orphans |= {pod.uid: None for pod in api.pods.values() if pod.node == node.name}

    def rejoin() -> None:
        if node.name not in api.nodes:
            api.set_node(node)

    if trouble.random.random() < 0.7:
        trouble.later(rejoin, 30.0)


def node_down(trouble: Trouble) -> None:
    """Silence the kubelet of a node: after a while its pods are to be deleted, and end when it is back."""
    node, world = trouble.some_node(), trouble.world
    if node is None:
        return
    back = trouble.silence(node)

    def drain() -> None:
        for pod in list(world.api.pods.values()):
            if pod.node == node.name and not world.api.nodes.get(node.name, node).ready:
                world.api.delete_pod(pod.uid)

    trouble.later(drain, 10.0)
    trouble.later(back, 40.0)


def add_node(trouble: Trouble) -> None:
    trouble.world.api.set_node(node(f"m{trouble.number()}", trouble.random.choice((4, 8))))


def delete_pod(trouble: Trouble) -> None:
    pod = trouble.some_pod()
    if pod is not None:
        trouble.world.api.delete_pod(pod.uid)


def make_twin(trouble: Trouble) -> None:
    """A job controller with an old cache makes a second pod of a completion index, and finds out some time later.

    Every second time another member is missing meanwhile.
    """
    pod = trouble.some_pod(lambda pod: pod.live and not pod.node and pod.index is not None and _names_gang(pod))
    if pod is None:
        return
    name = f"{pod.name}-twin{trouble.number()}"
    gates = (GANG_GATE,) if trouble.random.random() < 0.7 else ()
    facts = {"gates": gates, "nominated_node": None, "refusal": None, "created": trouble.world.clock.now}
    unpinned = replace(pod.selection, affinity=None)
    others = [fellow for fellow in _fellows(trouble, pod) if not fellow.node and fellow.index != pod.index]
    trouble.world.api.create_pod(replace(pod, uid=name, name=name, selection=unpinned, **facts))  # type: ignore[arg-type]
    if others and trouble.random.random() < 0.5:
        trouble.world.api.delete_pod(trouble.random.choice(others).uid)

    def found_out() -> None:
        trouble.world.api.delete_pod(name)

    trouble.later(found_out, 30.0)


def _names_gang(pod: Pod) -> bool:
    """Itself: that of its owner no annotation changes, and its owner makes no two of one name."""
    return pod.group is not None and not pod.group.owner


def break_release(trouble: Trouble) -> None:
    """A member is deleted while others of its gang are bound already; every second time its node is lost as well."""
    pod = trouble.some_pod(
        lambda pod: pod.live and not pod.node and any(fellow.node and fellow.stamp for fellow in _fellows(trouble, pod))
    )
    if pod is None:
        return
    trouble.world.api.delete_pod(pod.uid)
    lost = trouble.world.api.nodes.get(pod.nominated_node or "")
    if lost is not None and trouble.random.random() < 0.5:
        trouble.world.api.set_node(replace(lost, unschedulable=True))


def _fellows(trouble: Trouble, pod: Pod) -> list[Pod]:
    return [
        other
        for other in trouble.world.api.pods.values()
        if other.live and pod.group_key == other.group_key is not None
    ]


def fail_pod(trouble: Trouble) -> None:
    pod = trouble.some_pod(lambda pod: pod.live and bool(pod.node))
    if pod is not None:
        trouble.world.api.change_pod(pod.uid, phase="Failed")


def fail_node(trouble: Trouble) -> None:
    """The runtime of a node restarts: all its pods fail at once, those with the most GPUs first."""
    busy = dict.fromkeys(pod.node for pod in trouble.world.api.pods.values() if pod.live and pod.node)
    node = trouble.some(list(busy))
    pods = [pod for pod in trouble.world.api.pods.values() if pod.live and pod.node == node is not None]
    for pod in sorted(pods, key=lambda pod: dict(pod.requests).get("nvidia.com/gpu", 0), reverse=True):
        trouble.world.api.change_pod(pod.uid, phase="Failed")


def touch_pods(trouble: Trouble) -> None:
    for uid in list(trouble.world.api.pods):
        trouble.world.api.touch_pod(uid)


def delete_job(trouble: Trouble) -> None:
    """Delete a job. Every second time a job of the same name is submitted at once."""
    job = trouble.some_job()
    if job is not None:
        trouble.world.jobs.delete(job)
        if trouble.random.random() < 0.5:
            trouble.world.jobs.submit(job.spec)


def remake_group(trouble: Trouble) -> None:
    """Delete the PodGroup and create it again under its name: the new one is another gang."""
    api = trouble.world.api
    group = trouble.some(list(api.groups.values()))
    if group is not None:
        api.remove_group(group.key)
        uid = f"{group.uid}+{trouble.number()}"
        anew = replace(group, uid=uid, created=trouble.world.clock.now, deleting=False)
        trouble.later(lambda: api.set_group(anew) if group.key not in api.groups else None, 3.0)


def edit_group(trouble: Trouble) -> None:
    """A minimum of a role is only made lower: whether a release is whole is judged by the least since it began."""
    group = trouble.some(list(trouble.world.api.groups.values()))
    if group is not None:
        least = max(1, group.min_member + trouble.random.choice((-1, 1)))
        if group.minima and trouble.random.random() < 0.5:
            (role, count), *others = group.minima
            group = replace(group, minima=((role, count - 1), *others) if count > 1 else tuple(others))
        least = max(least, sum(count for _, count in group.minima))
        trouble.world.api.set_group(replace(group, min_member=least))


def mark_group_deleting(trouble: Trouble) -> None:
    """A finalizer holds it for a while."""
    api = trouble.world.api
    group = trouble.some(list(api.groups.values()))
    if group is None:
        return
    api.set_group(replace(group, deleting=True))

    def gone() -> None:
        if group.key in api.groups and api.groups[group.key].uid == group.uid:
            api.remove_group(group.key)

    trouble.later(gone)


def edit_annotations(trouble: Trouble) -> None:
    """A member names another size, or another gang."""
    pod = trouble.some_pod(lambda pod: pod.live and _names_gang(pod) and not pod.node)
    other = trouble.some_pod(_names_gang)
    if pod is None or pod.group is None or other is None or other.group is None:
        return
    # Its series stays, because the series is read from the pod's role.
    other_gang = other.group._replace(role=pod.group.role)
    edited = pod.group._replace(min_member=2) if trouble.random.random() < 0.5 else other_gang
    trouble.world.api.change_pod(pod.uid, group=edited)


def foreign_pod(trouble: Trouble) -> None:
    """Bind a pod of another scheduler wherever there is room now."""
    bind_foreign(trouble, gpus=trouble.random.choice((1, 4)))


def bind_foreign(trouble: Trouble, *, gpus: int = 0, **facts: Any) -> None:
    """Bind a pod of another scheduler. ``facts``: further fields of the pod."""
    api = trouble.world.api
    name, scheduler = f"foreign{trouble.number()}", "default-scheduler"
    pod = single(name, gpus=gpus, scheduler=scheduler, **facts)
    room = left_over(api.nodes, api.pods.values())
    where = trouble.some([name for name in room if fits(room[name], pod.requests)])
    if where is not None:
        api.create_pod(replace(pod, node=where))
        trouble.later(lambda: _discard(trouble, pod), 60.0)


def _discard(trouble: Trouble, pod: Pod) -> None:
    trouble.world.api.remove_pod(pod.uid)
