"""The faults: each strikes a gang that is starting, and states how the gangs must stand after the repair."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any

from benchmarks.faults.scene import GONE, WHOLE, Scene
from benchmarks.faults.theatre import Theatre
from devcluster.api import ApiError, Object
from devcluster.proxy import Write

SIZE = 32
MANY_S = 180.0
MIDDLE = SIZE // 2
GATED = [{"name": "muster.dev/gang"}]
GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{}/podgroups"

Ends = dict[str, str]
"""Gang -> how it must stand in the end."""


@dataclass(frozen=True)
class Fault:
    """``happen`` does it in a fresh scene, and returns how the gangs must stand after ``Theatre.mend``."""

    name: str
    text: str
    happen: Callable[[Theatre, Scene], Ends]

    def strike(self, theatre: Theatre) -> list[str]:
        """Strike a theatre that is whole, and repair everything; returns the promises that are broken in the end."""
        theatre.mend()
        with theatre.scene() as scene:
            ends = self.happen(theatre, scene)
            theatre.mend()
            return theatre.settle(scene, ends)


def _train(scene: Scene, **pod: Any) -> None:
    """A gang on its way, and two that have to wait with a reason throughout."""
    scene.add_nodes(SIZE // 8)
    scene.create(scene.members("large", SIZE // 8 + 1, gpus=8))
    scene.create(scene.members("short", 3, cpu="2")[:2])
    scene.create(scene.members("train", SIZE, **pod))


_WAITING = {"large": "NoRoom", "short": "MembersMissing"}
_ENDS = {**_WAITING, "train": WHOLE}


def _killed_at(kind: Write, number: int, after: bool, theatre: Theatre, scene: Scene) -> Ends:
    theatre.strike(scene, kind, number, theatre.muster.extender.kill, after=after)
    _train(scene, **({"schedulingGates": GATED} if kind is Write.UNGATE else {}))
    theatre.wait_struck()
    return _ENDS


def _killed_at_status(after: bool, theatre: Theatre, scene: Scene) -> Ends:
    theatre.strike(scene, Write.STATUS, 1, theatre.muster.extender.kill, after=after)
    scene.add_nodes(1)
    _create_group(scene, "train", 9)
    scene.create(_grouped(scene.members("train", 9), "train"))
    theatre.wait_struck()
    return {"train": "NoRoom"}


def _killed_at_eviction(after: bool, theatre: Theatre, scene: Scene) -> Ends:
    """Delete a member in the middle of its gang's release, without a replacement."""
    theatre.strike(scene, Write.BIND, MIDDLE // 2, partial(_lose_a_member, scene), after=True)
    _train(scene)
    theatre.wait_struck()
    theatre.strike(scene, Write.EVICT, 3, theatre.muster.extender.kill, after=after)
    theatre.wait_struck()
    return {**_WAITING, "train": GONE}


def _lose_a_member(scene: Scene) -> None:
    """Delete one that is not bound, and not the one that is bound last: that is the name of the release."""
    while True:
        pods = [pod for pod in scene.pods() if pod["metadata"]["name"].startswith("train-")]
        bound = next(pod for pod in pods if pod["spec"].get("nodeName"))
        release = bound["metadata"]["annotations"]["muster.dev/release"]
        lost = [pod for pod in pods if not pod["spec"].get("nodeName") and pod["metadata"]["uid"] != release][-1]
        seen = {"resourceVersion": lost["metadata"]["resourceVersion"]}
        path = f"{scene.pods_path}/{lost['metadata']['name']}"
        try:
            scene.api.delete(path, {"gracePeriodSeconds": 0, "preconditions": seen})
        except ApiError as error:
            # Bound meanwhile: such a gang was whole for a moment, and is not evicted.
            if error.code != HTTPStatus.CONFLICT:
                raise
        else:
            return


def _killed_scheduler(number: int, theatre: Theatre, scene: Scene) -> Ends:
    theatre.strike(scene, Write.BIND, number, theatre.muster.scheduler.kill, after=number > 1)
    _train(scene)
    theatre.wait_struck()
    return _ENDS


def _hung(kind: Write, theatre: Theatre, scene: Scene) -> Ends:
    theatre.strike(scene, kind, MIDDLE, partial(theatre.muster.extender.signal, signal.SIGSTOP), after=True)
    _train(scene)
    theatre.wait_struck()
    scene.create(scene.members("later", 1, gpus=0))
    time.sleep(theatre.scale.hang_s)
    return {**_ENDS, "later": WHOLE}


def _away(component: str, theatre: Theatre, scene: Scene) -> Ends:
    process = theatre.cluster.process(component)
    theatre.strike(scene, Write.BIND, MIDDLE, process.kill, after=True)
    _train(scene)
    theatre.wait_struck()
    time.sleep(theatre.scale.outage_s if component == "kube-apiserver" else min(theatre.scale.outage_s, 3.0))
    theatre.cluster.again(process)
    return _ENDS


def _slow(theatre: Theatre, scene: Scene) -> Ends:
    theatre.proxy.delay_s = theatre.scale.delay_s
    _train(scene)
    assert scene.settle(_ENDS) == [], "slow is no reason to wait for ever"  # noqa: S101 - before it is mended
    return _ENDS


def _flapping(theatre: Theatre, scene: Scene) -> Ends:
    """Every other time while the gang is planned and bound, one of its nodes says that it is not ready."""
    _train(scene, schedulingGates=GATED)
    for number in range(theatre.scale.flaps):
        node = scene.nodes[number % len(scene.nodes)]
        for ready in ("False", "True"):
            condition = {"type": "Ready", "status": ready, "reason": "Flapping", "message": ""}
            path = f"/api/v1/nodes/{node}/status"
            scene.api.patch(path, {"status": {"conditions": [condition]}}, "application/strategic-merge-patch+json")
            time.sleep(0.05)
    return _ENDS


def _group_deleted(theatre: Theatre, scene: Scene) -> Ends:
    """Delete the PodGroup while members are being nominated; create it again when the gang is settled without it."""
    theatre.strike(scene, Write.NOMINATE, MIDDLE, partial(_delete_group, scene, "train"))
    scene.add_nodes(SIZE // 8)
    _create_group(scene, "train", SIZE)
    # Gated, so that none reaches bind before all are nominated.
    scene.create(_grouped(scene.members("train", SIZE, schedulingGates=GATED), "train"))
    theatre.wait_struck()
    wrong = scene.settle({"train": "PodGroupMissing"})
    assert not wrong, wrong  # noqa: S101 - before the group is made anew
    _create_group(scene, "train", SIZE)
    return {"train": WHOLE}


def _many(theatre: Theatre, scene: Scene) -> Ends:
    """A tenth of them fit."""
    count, size = theatre.scale.gangs, 2
    scene.add_nodes(max(1, count * size // 8 // 10))
    names = [f"job-{number}" for number in range(count)]
    scene.create(pod for name in names for pod in scene.members(name, size, schedulingGates=GATED))
    fits = len(scene.nodes) * 8 // size
    scene.wait(lambda: sum(gang.bound == size for gang in scene.gangs().values()), lambda seen: seen == fits, MANY_S)
    states = {"Running", "NoRoom"}
    scene.wait(lambda: {gang.state for gang in scene.gangs().values()}, lambda seen: seen == states, MANY_S)
    running = {name for name, gang in scene.gangs().items() if gang.bound}
    return {name: WHOLE if name in running else "NoRoom" for name in names}


def _delete_group(scene: Scene, name: str) -> None:
    """Returns when the extender has seen it."""
    scene.api.delete(f"{GROUPS.format(scene.namespace)}/{name}")
    scene.wait(lambda: scene.gangs()[name].min_member, lambda seen: seen is None)


def _create_group(scene: Scene, name: str, size: int) -> None:
    meta = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": name}}
    scene.api.create(GROUPS.format(scene.namespace), {**meta, "spec": {"minMember": size}})


def _grouped(pods: list[Object], name: str) -> list[Object]:
    """The same members, of the coscheduling dialect."""
    for pod in pods:
        pod["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": name}
        pod["metadata"]["annotations"] = {}
    return pods


def _at(kind: Write, number: int, which: str) -> list[Fault]:
    return _both(which, partial(_killed_at, kind, number))


def _both(which: str, happen: Callable[[bool, Theatre, Scene], Ends]) -> list[Fault]:
    """The extender is killed at that write: before the API server has it, and after, with the answer lost."""
    return [
        Fault(
            f"extender killed {'after' if after else 'before'} {which}",
            f"kill -9 when {which} is {'carried out, and its answer lost' if after else 'sent, and lost'}",
            partial(happen, after),
        )
        for after in (False, True)
    ]


WRITES: tuple[Fault, ...] = (
    *_at(Write.NOMINATE, 1, "the first nomination"),
    *_at(Write.NOMINATE, MIDDLE, "a nomination"),
    *_at(Write.UNGATE, MIDDLE, "an ungating"),
    *_at(Write.BIND, 1, "the first Binding"),
    *_at(Write.BIND, MIDDLE, "a Binding"),
    *_at(Write.BIND, SIZE, "the last Binding"),
    *_at(Write.EVENT, 1, "an Event"),
    *_both("a status", partial(_killed_at_status)),
    *_both("an eviction", partial(_killed_at_eviction)),
)
"""A fault point for each write of the extender."""
PROCESSES: tuple[Fault, ...] = (
    Fault(
        "API server away",
        "kill -9 of kube-apiserver in a release, started again later",
        partial(_away, "kube-apiserver"),
    ),
    Fault("etcd restarted", "kill -9 of etcd in a release, started again", partial(_away, "etcd")),
    Fault("API server slow", "every answer to the extender is delayed", _slow),
    Fault(
        "kube-scheduler killed, all held",
        "kill -9 before the first Binding",
        partial(_killed_scheduler, 1),
    ),
    Fault(
        "kube-scheduler killed in a release",
        "kill -9 between two Bindings",
        partial(_killed_scheduler, MIDDLE),
    ),
    Fault(
        "extender hung while nominating",
        "SIGSTOP beyond httpTimeout, SIGCONT",
        partial(_hung, Write.NOMINATE),
    ),
    Fault("extender hung in a release", "SIGSTOP between Bindings, SIGCONT", partial(_hung, Write.BIND)),
    Fault("many gangs at once", "of 2 pods each, a tenth of which fit", _many),
    Fault("node flapping", "nodes of the gang turn NotReady and Ready while it is placed", _flapping),
    Fault("PodGroup deleted", "while its members are nominated, and made anew later", _group_deleted),
)
"""The faults that strike the processes around the extender, and the cluster."""
