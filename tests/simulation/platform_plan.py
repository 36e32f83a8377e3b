"""Seeds whose clusters are made of real nodes, and whose pods request the resources of such nodes.

Device plugins and kubelets restart in them, and statuses flap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from devcluster.platforms import daemon_pods
from extender.platforms import nodes as platforms
from extender.simulation.chance import Chance
from policies.model import CLIQUE, Node, Pod, Requests, Selection, Toleration
from policies.model.levels import LevelKey, detected
from policies.model.queues import ClusterQueue, Cohort, QueueObject, ResourceGroup
from tests.builders import GPU
from tests.simulation.batch_plan import BatchPlan
from tests.simulation.elastic_plan import ElasticPlan
from tests.simulation.model.agents import Platform
from tests.simulation.model.amounts import requests_of
from tests.simulation.model.job_specs import JobSpec
from tests.simulation.model.owner import OwnerObject
from tests.simulation.model.wire import node_of
from tests.simulation.queue_plan import QueuePlan
from tests.simulation.trouble import Trouble

_KINDS = (
    "gke-a3", "gke-a3-mega", "gke-a4", "eks-p5", "eks-p4d", "eks-p6e", "aks-h100", "aks-gb200", "oke-h100",
    "coreweave-gb200", "dgx-b200", "gb200",
)  # fmt: skip
_PLAIN_CPU = 64_000
"""The cpu of a node that is drawn without regard to its platform."""
_GI = 1 << 30
_OWN = ("cpu", "memory", "ephemeral-storage", "pods", GPU)
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


@dataclass(frozen=True, slots=True)
class PlatformPlan:
    """``registered``: when the device plugins of which nodes register. ``uncordoned``: the same of nodes that are
    cordoned at first. ``faults``: what, and when."""

    platform: Platform
    levels: tuple[LevelKey, ...]
    registered: tuple[tuple[float, str], ...]
    uncordoned: tuple[tuple[float, str], ...]
    faults: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Drawn:
    """A seed as it is drawn without regard to its platform."""

    nodes: tuple[Node, ...]
    jobs: tuple[tuple[float, JobSpec], ...]
    batch: BatchPlan
    owners: tuple[tuple[float, OwnerObject], ...]
    elastic: ElasticPlan | None
    queues: QueuePlan


def has_platforms(seed: int) -> bool:
    """Half of all seeds, in blocks of 100,000, but none remembered for a planted bug: those stay the same."""
    return seed // 100_000 % 2 == 1


def on_platforms(drawn: Drawn, chance: Chance, *, calm: bool) -> tuple[Drawn, PlatformPlan]:
    """The same seed on real nodes."""
    dice = chance.stream("platforms")
    kinds = dice.sample(_KINDS, dice.choice((1, 1, 2)))
    tainted = dice.random() < 0.7
    nodes, conditions = list[Node](), dict[str, list[dict[str, Any]]]()
    models = {kind: platforms.nodes(kind, len(drawn.nodes) + 1) for kind in kinds}
    # A domain of a level lies in one of each wider level, so all nodes of a clique have the same labels of topology.
    cliques = dict.fromkeys(node.labels.get(CLIQUE, node.name) for node in drawn.nodes)
    like = {clique: models[dice.choice(kinds)][number] for number, clique in enumerate(cliques)}
    for node in drawn.nodes:
        written = like[node.labels.get(CLIQUE, node.name)]
        nodes.append(_dressed(node, node_of(written), tainted=tainted))
        conditions[node.name] = [
            condition for condition in written["status"]["conditions"] if condition["type"] != "Ready"
        ]
    lists = {node.name: _devices(node) for node in nodes}
    late = _late(nodes, drawn.batch, dice)
    cordoned = [node.name for node in nodes if dice.random() < 0.08]
    model = node_of(models[kinds[0]][-1])
    ask = _Asking(model, chance.stream("what pods ask of real nodes"))
    plan = PlatformPlan(
        Platform(conditions, lists, _daemons(models[kinds[0]][0])),
        detected(key for node in nodes for key in node.labels if key != ZONE),
        tuple((60 * dice.random(), name) for name in late),
        tuple((60 * dice.random(), name) for name in cordoned if dice.random() < 0.7),
        tuple(_faults(dice)) if not calm else (),
    )
    nodes = [replace(late.get(node.name, node), unschedulable=node.name in cordoned) for node in nodes]
    return _asking(replace(drawn, nodes=tuple(nodes)), ask, model), plan


def _dressed(node: Node, model: Node, *, tainted: bool) -> Node:
    """The node with all that the model has: its number of GPUs stays as it was drawn, and so do its own labels."""
    own, amounts = dict(node.allocatable), dict(model.allocatable)
    if own["cpu"] != _PLAIN_CPU:
        amounts["cpu"] = own["cpu"]
    labels = {**model.labels, **node.labels, HOST: node.name}
    if CLIQUE in node.labels:
        labels[CLIQUE] = f"7c2f4d10-5b8e-4c2a-9a51-3f0e2d1c4b5a.{node.labels[CLIQUE]}"
    taints = (*(model.taints if tainted else ()), *node.taints)
    return replace(node, allocatable=tuple(sorted((amounts | {GPU: own[GPU]}).items())), labels=labels, taints=taints)


def _devices(node: Node) -> Requests:
    """Return what the device plugins of the node list."""
    return tuple((name, much) for name, much in node.allocatable if "/" in name)


def _late(nodes: Sequence[Node], batch: BatchPlan, dice: Random) -> dict[str, Node]:
    """Nodes that list none of their devices at first, or nothing of them."""
    busy = {name for job in batch.started for names in (job.elsewhere or {}).values() for name in names}
    late = {}
    for node in nodes:
        if dice.random() < 0.25 and node.name not in busy:
            listed, known = dict(node.allocatable), dice.random() < 0.5
            for name, _ in _devices(node):
                listed[name] = 0
                if not known:
                    del listed[name]
            late[node.name] = replace(node, allocatable=tuple(sorted(listed.items())))
    return late


def _daemons(node: Mapping[str, Any]) -> dict[str, Requests]:
    """Return the requests of the DaemonSets' pods on a node of that kind, by DaemonSet."""
    pods = daemon_pods(node)
    return {pod["metadata"]["ownerReferences"][0]["name"]: requests_of(pod) for pod in pods}


def _faults(dice: Random) -> list[tuple[str, float]]:
    return [(dice.choice(list(PLATFORM_FAULTS)), 90 * dice.random()) for _ in range(dice.choice((1, 3, 6)))]


class _Asking:
    """Draws requests for nodes like the model: the same for all pods that were of one shape."""

    def __init__(self, model: Node, dice: Random) -> None:
        self._amounts = dict(model.allocatable)
        self._taints = model.taints
        self._dice = dice
        self.names = tuple(name for name, much in model.allocatable if name not in _OWN and much)

    def requests(self, amounts: Requests) -> Requests:
        """Add a share of the node for each GPU: of its cpu and memory, huge pages, and devices beside the GPUs."""
        dice, filled = self._dice, dict(amounts)
        gpus, there = filled.get(GPU, 0), max(1, self._amounts.get(GPU, 0))
        if not 0 < gpus <= there:
            return amounts
        if dice.random() < 0.5:
            filled["cpu"] = max(1, (self._amounts["cpu"] - dice.choice((0, 1000, 1000, 4000))) * gpus // there)
        if dice.random() < 0.4:
            filled["memory"] = (self._amounts["memory"] - dice.choice((0, _GI, 64 * _GI))) * gpus // there
        if self.names and dice.random() < 0.6:
            for name in self.names if dice.random() < 0.7 else dice.sample(self.names, 1):
                filled[name] = self._share(name, gpus, there)
        return tuple(sorted(filled.items()))

    def selection(self, chosen: Selection) -> Selection:
        """The selection with tolerations: most pods tolerate the node's taints, as a user or a plug-in writes it."""
        if self._dice.random() < 0.1:
            return chosen
        more = tuple(
            Toleration(taint.key, "Exists", "", self._dice.choice(("", taint.effect)))
            if self._dice.random() < 0.6
            else Toleration(taint.key, "Equal", taint.value, taint.effect)
            for taint in self._taints
        )
        return replace(chosen, tolerations=(*chosen.tolerations, *more))

    def _share(self, name: str, gpus: int, there: int) -> int:
        much = self._amounts[name]
        if name.startswith("hugepages-"):
            return max(1 << 21, (much // there * gpus >> 22) << 21)
        # Devices of a thousand stand for one that all share.
        return 1 if much >= 60 or self._dice.random() < 0.5 else max(1, much * gpus // there)


def _asking(drawn: Drawn, ask: _Asking, model: Node) -> Drawn:
    jobs = tuple((at, _gang(job, ask)) for at, job in drawn.jobs)
    batch = tuple(
        (at, replace(job, podsets=tuple(replace(each, template=_pod(each.template, ask)) for each in job.podsets)))
        for at, job in drawn.batch.jobs
    )
    owners = tuple(
        (at, replace(owner, template=_pod(owner.template, ask), leader=owner.leader and _pod(owner.leader, ask)))
        for at, owner in drawn.owners
    )
    elastic = drawn.elastic
    if elastic is not None:
        made = replace(elastic.pool, node=_dressed(elastic.pool.node, model, tainted=False))
        coming = tuple(_dressed(node, model, tainted=False) for node in elastic.coming)
        needy = tuple(
            (at, replace(job, podsets=tuple(replace(each, template=_pod(each.template, ask)) for each in job.podsets)))
            for at, job in elastic.jobs
        )
        elastic = replace(elastic, pool=made, coming=coming, jobs=needy)
    queues = _covering(drawn.queues, ask.names)
    return replace(
        drawn, jobs=jobs, batch=replace(drawn.batch, jobs=batch), owners=owners, elastic=elastic, queues=queues
    )


def _gang(job: JobSpec, ask: _Asking) -> JobSpec:
    roles = (
        replace(role, requests=ask.requests(role.requests), selection=ask.selection(role.selection))
        for role in job.roles
    )
    return replace(job, roles=tuple(roles))


def _pod(pod: Pod, ask: _Asking) -> Pod:
    return replace(pod, requests=ask.requests(pod.requests), selection=ask.selection(pod.selection))


def _covering(plan: QueuePlan, names: Sequence[str]) -> QueuePlan:
    """The same queues: they cover these names, too, without a quota."""

    def wide(group: ResourceGroup) -> ResourceGroup:
        return replace(group, covered=(*group.covered, *names))

    def covering(thing: QueueObject) -> QueueObject:
        if isinstance(thing, ClusterQueue | Cohort):
            return replace(thing, groups=tuple(map(wide, thing.groups)))
        return thing

    changes = tuple((at, covering(thing), gone) for at, thing, gone in plan.changes)
    return replace(plan, things=tuple(map(covering, plan.things)), changes=changes)


def restart_plugin(trouble: Trouble) -> None:
    """The devices of a node are 0 for a while, and pods that have them run on."""
    _without_plugin(trouble, forgotten=False)


def restart_kubelet(trouble: Trouble) -> None:
    """The node lists nothing of its devices until their plugins have registered again."""
    _without_plugin(trouble, forgotten=True)


def _without_plugin(trouble: Trouble, *, forgotten: bool) -> None:
    node, plugins = trouble.some_node(), trouble.world.plugins
    if node is not None:
        plugins.stop(node.name, forgotten=forgotten)
        trouble.later(lambda: plugins.start(node.name), 20.0)


def flap(trouble: Trouble) -> None:
    """A node is not Ready for some seconds, and again, and its pods run on."""
    node, dice, at_s = trouble.some_node(), trouble.random, 0.0
    if node is None:
        return
    name = node.name
    for ready in (False, True) * dice.choice((1, 2, 3)):
        trouble.world.clock.after(at_s, lambda ready=ready: _set_ready(trouble, name, ready=ready))  # type: ignore[misc]
        at_s += dice.choice((0.1, 2.0, 8.0)) * dice.random()


def _set_ready(trouble: Trouble, name: str, *, ready: bool) -> None:
    api = trouble.world.api
    if name in api.nodes and (ready or not trouble.healed):
        api.set_node(replace(api.nodes[name], ready=ready))


def send_heartbeats(trouble: Trouble) -> None:
    """All kubelets write the statuses of their nodes, in which nothing has changed but the time."""
    for node in list(trouble.world.api.nodes.values()):
        trouble.world.api.set_node(node)


PLATFORM_FAULTS: dict[str, Callable[[Trouble], None]] = {
    "a device plugin restarts": restart_plugin,
    "a kubelet restarts": restart_kubelet,
    "a node's Ready flaps": flap,
    "kubelets send heartbeats": send_heartbeats,
}
