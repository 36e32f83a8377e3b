"""What can go wrong. Each fault does its harm now, and whatever has to be mended is mended some time later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import TypeVar

from extender.simulate.apiserver import Kind
from extender.simulate.jobs import Job
from extender.simulate.world import World
from policies.model import Node, Pod
from tests.builders import node, single
from tests.simulation.referee import Referee
from tests.simulation.sight import fits, left_over

ThingT = TypeVar("ThingT")


@dataclass(slots=True)
class Trouble:
    """The hands that do harm, and the dice that say to whom."""

    world: World
    random: Random
    referee: Referee
    made: int = 0
    healed: bool = False

    def strike(self, what: str) -> None:
        FAULTS[what](self)

    def heal(self) -> None:
        """From now on nothing goes wrong; what is broken stays broken where users would have to mend it."""
        world, self.healed = self.world, True
        world.network.weather = replace(world.network.weather, errors=0.0, losses=0.0, spikes=0.0)
        world.network.api_down = False
        self.start_extender()
        world.start_scheduler()
        for one in list(world.api.nodes.values()):
            world.kubelets.set_down(one.name, down=False)
            if not one.ready:
                world.api.set_node(replace(one, ready=True))
        for pod in list(world.api.pods.values()):
            world.api.change_pod(pod.uid, gates=tuple(gate for gate in pod.gates if gate.startswith("muster.dev/")))

    def later(self, action: Callable[[], None], longest_s: float = 8.0) -> None:
        self.world.clock.after(longest_s * self.random.random(), action)

    def number(self) -> int:
        self.made += 1
        return self.made

    def some(self, things: list[ThingT]) -> ThingT | None:
        return self.random.choice(things) if things else None

    def start_extender(self) -> None:
        self.world.start_extender(start_s=0.5)

    def some_pod(self, holds: Callable[[Pod], bool] = lambda pod: pod.live) -> Pod | None:
        return self.some([pod for pod in self.world.api.pods.values() if holds(pod)])

    def some_job(self) -> Job | None:
        return self.some([job for job in self.world.jobs.jobs.values() if not job.ended])

    def some_node(self) -> Node | None:
        return self.some(list(self.world.api.nodes.values()))


def _kill_extender(trouble: Trouble) -> None:
    trouble.world.kill_extender()
    trouble.referee.extender_killed()
    trouble.later(trouble.start_extender)


def _replace_extender(trouble: Trouble) -> None:
    """Another one takes over at once, while writes of the first are still under way."""
    trouble.world.kill_extender()
    trouble.referee.extender_killed()
    trouble.world.start_extender()


def _kill_scheduler(trouble: Trouble) -> None:
    trouble.world.kill_scheduler()
    trouble.later(trouble.world.start_scheduler)


def _kill_both(trouble: Trouble) -> None:
    """They live in one pod, and lose their Lease together."""
    _kill_scheduler(trouble)
    _kill_extender(trouble)


def _freeze_extender(trouble: Trouble) -> None:
    """Suspended and resumed: for the process, the clock jumps."""
    if trouble.world.extender is not None:
        trouble.world.extender.freeze(trouble.random.choice((0.5, 5.0, 40.0)))


def _freeze_scheduler(trouble: Trouble) -> None:
    if trouble.world.scheduler is not None:
        trouble.world.scheduler.freeze(trouble.random.choice((0.5, 5.0, 40.0)))


def _break_watches(trouble: Trouble) -> None:
    kind = trouble.random.choice((None, Kind.PODS, Kind.NODES, Kind.GROUPS))
    trouble.world.break_watches(5 * trouble.random.random(), relist=trouble.random.random() < 0.5, kind=kind)


def _break_scheduler_watches(trouble: Trouble) -> None:
    if trouble.world.scheduler is not None:
        seconds = 5 * trouble.random.random()
        trouble.world.scheduler.picture.interrupt(seconds, relist=trouble.random.random() < 0.5)


def _api_down(trouble: Trouble) -> None:
    network = trouble.world.network
    network.api_down = True

    def up() -> None:
        network.api_down = False

    trouble.later(up)


def _storm(trouble: Trouble) -> None:
    """Half of all answers are lost, and a third of all requests fail."""
    network = trouble.world.network
    before = network.weather
    network.weather = replace(before, errors=0.3, losses=0.5)

    def over() -> None:
        if not trouble.healed:
            network.weather = replace(network.weather, errors=before.errors, losses=before.losses)

    trouble.later(over)


def _cordon(trouble: Trouble) -> None:
    _change_node(trouble, unschedulable=True)


def _change_node(trouble: Trouble, **facts: object) -> None:
    one, api = trouble.some_node(), trouble.world.api
    if one is None:
        return
    api.set_node(replace(one, **facts))  # type: ignore[arg-type]

    def mend() -> None:
        if one.name in api.nodes:
            api.set_node(one)

    if trouble.random.random() < 0.7:
        trouble.later(mend, 30.0)


def _lose_gpu(trouble: Trouble) -> None:
    one = trouble.some_node()
    if one is not None:
        healthy = dict(one.allocatable)
        allocatable = tuple(sorted((healthy | {"nvidia.com/gpu": healthy["nvidia.com/gpu"] - 1}).items()))
        trouble.referee.disturbed[one.name] = None
        trouble.world.api.set_node(replace(one, allocatable=allocatable))


def _remove_node(trouble: Trouble) -> None:
    one, api = trouble.some_node(), trouble.world.api
    if one is None:
        return
    api.remove_node(one.name)

    def rejoin() -> None:
        if one.name not in api.nodes:
            api.set_node(one)

    if trouble.random.random() < 0.7:
        trouble.later(rejoin, 30.0)


def _node_down(trouble: Trouble) -> None:
    """Its kubelet is silent: after a while its pods are to be deleted, and nobody ends them until it is back."""
    one, world = trouble.some_node(), trouble.world
    if one is None:
        return
    world.kubelets.set_down(one.name, down=True)
    world.api.set_node(replace(one, ready=False))

    def drain() -> None:
        for pod in list(world.api.pods.values()):
            if pod.node == one.name and not world.api.nodes.get(one.name, one).ready:
                world.api.delete_pod(pod.uid)

    def back() -> None:
        world.kubelets.set_down(one.name, down=False)
        if one.name in world.api.nodes:
            world.api.set_node(one)

    trouble.later(drain, 10.0)
    trouble.later(back, 40.0)


def _add_node(trouble: Trouble) -> None:
    trouble.world.api.set_node(node(f"m{trouble.number()}", trouble.random.choice((4, 8))))


def _delete_pod(trouble: Trouble) -> None:
    pod = trouble.some_pod()
    if pod is not None:
        trouble.world.api.delete_pod(pod.uid)


def _fail_pod(trouble: Trouble) -> None:
    pod = trouble.some_pod(lambda pod: pod.live and bool(pod.node))
    if pod is not None:
        trouble.world.api.change_pod(pod.uid, phase="Failed")


def _touch_pods(trouble: Trouble) -> None:
    for uid in list(trouble.world.api.pods):
        trouble.world.api.touch_pod(uid)


def _delete_job(trouble: Trouble) -> None:
    """Every second time it is submitted anew under the same name, at once."""
    job = trouble.some_job()
    if job is not None:
        trouble.world.jobs.delete(job)
        if trouble.random.random() < 0.5:
            trouble.world.jobs.submit(job.spec)


def _remake_group(trouble: Trouble) -> None:
    """The PodGroup is deleted and created anew under its name, and is another gang from then on."""
    api = trouble.world.api
    group = trouble.some(list(api.groups.values()))
    if group is not None:
        api.remove_group(group.key)
        uid = f"{group.uid}+{trouble.number()}"
        anew = replace(group, uid=uid, created=trouble.world.clock.now, deleting=False)
        trouble.later(lambda: api.set_group(anew) if group.key not in api.groups else None, 3.0)


def _edit_group(trouble: Trouble) -> None:
    group = trouble.some(list(trouble.world.api.groups.values()))
    if group is not None:
        least = max(1, group.min_member + trouble.random.choice((-1, 1)))
        trouble.world.api.set_group(replace(group, min_member=least))


def _mark_group_deleting(trouble: Trouble) -> None:
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


def _edit_annotations(trouble: Trouble) -> None:
    """A member names another size, or another gang."""
    pod = trouble.some_pod(lambda pod: pod.live and pod.group is not None and not pod.node)
    other = trouble.some_pod(lambda pod: pod.group is not None)
    if pod is None or pod.group is None or other is None or other.group is None:
        return
    edited = replace(pod.group, min_member=2) if trouble.random.random() < 0.5 else other.group
    trouble.world.api.change_pod(pod.uid, group=edited)


def _foreign_pod(trouble: Trouble) -> None:
    """Another scheduler binds a pod of its own wherever there is room by now."""
    api = trouble.world.api
    pod = single(f"foreign{trouble.number()}", gpus=trouble.random.choice((1, 4)), scheduler="default-scheduler")
    room = left_over(api.nodes, api.pods.values())
    where = trouble.some([name for name in room if fits(room[name], pod.requests)])
    if where is not None:
        trouble.referee.disturbed[where] = None
        api.create_pod(replace(pod, node=where))
        trouble.later(lambda: _discard(trouble, pod), 60.0)


def _discard(trouble: Trouble, pod: Pod) -> None:
    trouble.world.api.remove_pod(pod.uid)


FAULTS: dict[str, Callable[[Trouble], None]] = {
    "the extender is killed": _kill_extender,
    "the extender is replaced at once": _replace_extender,
    "kube-scheduler is killed": _kill_scheduler,
    "both are killed": _kill_both,
    "the extender is suspended": _freeze_extender,
    "kube-scheduler is suspended": _freeze_scheduler,
    "a watch of the extender breaks": _break_watches,
    "the watches of kube-scheduler break": _break_scheduler_watches,
    "the API server is down": _api_down,
    "answers are lost": _storm,
    "a node is cordoned": _cordon,
    "a GPU is lost": _lose_gpu,
    "a node is removed": _remove_node,
    "a node is down": _node_down,
    "a node is added": _add_node,
    "a pod is deleted": _delete_pod,
    "a pod fails": _fail_pod,
    "all pods are touched": _touch_pods,
    "a job is deleted": _delete_job,
    "a PodGroup is made anew": _remake_group,
    "a PodGroup is edited": _edit_group,
    "a PodGroup is being deleted": _mark_group_deleting,
    "a pod's annotations are edited": _edit_annotations,
    "a foreign pod is bound": _foreign_pod,
}
