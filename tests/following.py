"""Follows a remedy of ``muster explain``: reads the sentence, and changes the cluster of a script accordingly."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from extender.api.models import Explanation
from extender.core.events import NamespaceSeen, QueueSeen
from policies.model import Node, Pod, Toleration, Topology
from policies.model.queues import ClusterQueue, LocalQueue, Quota, ResourceFlavor, Stop, VolcanoQueue
from tests.builders import GPU, node
from tests.core.jobs import Controlled
from tests.core.script import Script
from tests.explaining import explain

Change = Callable[[Pod], Pod]


@dataclass
class Scene:
    """A cluster in which the workload ``name`` waits: a gang of ``pods``, or a ``job``."""

    script: Script
    name: str = "wait"
    pods: list[Pod] = field(default_factory=list)
    job: Controlled | None = None
    lives: int = 0

    @property
    def explained(self) -> Explanation:
        return explain(self.script.core.state, self.script.gang(self.name), self.script.now)

    @property
    def runs(self) -> bool:
        """Whether the workload starts as a whole, when kube-scheduler carries its plan out."""
        script = self.script
        self.settle(1.0)
        if self.job is not None:
            if not self.job.starts:
                return False
            self.pods = self.job.run()
        waiting = [pod for pod in self.pods if pod.uid in script.pods and script.pods[pod.uid].node is None]
        if not waiting or not all(script.planned(pod) for pod in waiting):
            return not waiting and script.reason(self.name) == "Running"
        script.run(waiting)
        return script.reason(self.name) == "Running"

    def settle(self, seconds: float) -> None:
        if self.job is not None:
            self.job.wait(seconds)
        else:
            self.script.advance(seconds)

    def recreate(self, change: Change) -> None:
        """The pods of the gang, or the template of the job, are corrected and made again."""
        self.lives += 1
        if self.job is not None:
            podsets = self.job.seen.podsets
            made = tuple(replace(podset, template=change(podset.template)) for podset in podsets.podsets)
            self.job.show(podsets=replace(podsets, podsets=made))
            return
        self.script.gone(*(self.script.pods[pod.uid] for pod in self.pods))
        self.pods = [replace(change(pod), uid=f"{pod.uid}-{self.lives}") for pod in self.pods]
        self.script.see(self.pods)

    def show(self, *things: Any) -> None:
        for thing in things:
            self.script.feed(QueueSeen(thing))
        self.settle(0.5)

    def end(self, name: str) -> None:
        """End a workload, or a single pod."""
        namespace, _, short = name.removeprefix("pod ").partition("/")
        pods = [
            pod
            for pod in self.script.pods.values()
            if pod.namespace == namespace
            and (pod.name == short if name.startswith("pod ") else pod.group is not None and pod.group.name == short)
        ]
        assert pods, f"nobody is called {name}"
        self.script.gone(*pods)

    def nodes(self) -> dict[str, Node]:
        return self.script.core.state.claims.nodes

    def queue(self, name: str) -> ClusterQueue:
        return self.script.core.state.quotas.queues.snapshot.queues[name]


def follow(scene: Scene, text: str) -> bool:
    """Follow the sentence. Returns whether it was understood."""
    text = re.sub(r"^with flavor \S+: ", "", text)
    for pattern, action in _ACTIONS:
        if match := re.fullmatch(pattern, text, re.DOTALL):
            action(scene, *match.groups())
            return True
    return False


def _wait(scene: Scene, names: str) -> None:
    for name in re.split(r", | and ", names):
        scene.end(name)


def _more_nodes(scene: Scene, count: str, gpus: str, where: str, labels: str | None) -> None:
    clique = where.removeprefix("clique ") if where.startswith("clique ") else ""
    node_labels = dict(pair.split("=") for pair in re.sub(r" in \((\w+).*\)", r"=\1", labels or "").split(",") if pair)
    scene.script.see(
        *(node(f"new-{at}", int(gpus), clique=clique, labels=dict(node_labels)) for at in range(int(count)))
    )


def _label(scene: Scene, names: str, pairs: str) -> None:
    labels = dict(pair.split("=") for pair in pairs.split(","))
    for name in re.split(r", | and ", names):
        known = scene.nodes()[name]
        scene.script.see(replace(known, labels={**known.labels, **labels}))


def _tolerate(scene: Scene, taints: str) -> None:
    more = []
    for text in taints.split(", "):
        name, _, effect = text.rpartition(":")
        taint, _, value = name.partition("=")
        more.append(Toleration(taint, "Equal", value, effect))
    scene.recreate(
        lambda pod: replace(pod, selection=replace(pod.selection, tolerations=(*pod.selection.tolerations, *more)))
    )


def _mend(scene: Scene, names: str) -> None:
    for name in re.findall(r"([\w-]+) \([^)]*\)", names) or re.split(r", | and ", names):
        known = scene.nodes()[name]
        lasting = tuple(taint for taint in known.taints if not taint.key.startswith("node.kubernetes.io/"))
        scene.script.see(replace(known, taints=lasting, unschedulable=False, ready=True))


def _together(scene: Scene, mended: str | None, names: str | None, pairs: str | None, taints: str | None) -> None:
    if mended:
        _mend(scene, mended)
    if names and pairs:
        _label(scene, names, pairs)
    if taints:
        _tolerate(scene, taints)


def _deselect(scene: Scene, name: str, _value: str) -> None:
    def change(pod: Pod) -> Pod:
        selector = tuple(entry for entry in pod.selection.node_selector if entry[0] != name)
        return replace(pod, selection=replace(pod.selection, node_selector=selector))

    scene.recreate(change)


def _constraints(**eased: Any) -> Callable[[Scene], None]:
    return lambda scene: scene.recreate(lambda pod: replace(pod, constraints=replace(pod.constraints, **eased)))


def _unpin(scene: Scene, *_: str) -> None:
    scene.recreate(lambda pod: replace(pod, selection=replace(pod.selection, affinity=None)))


def _preferred(scene: Scene) -> None:
    scene.recreate(lambda pod: replace(pod, topology=Topology(preferred="clique")))


def _narrower(scene: Scene, fits: str) -> None:
    """Fewer pods, as many as are said to fit."""
    fewer(scene, int(fits))


def fewer(scene: Scene, count: int) -> None:
    """Leave that number of its pods, all of which start together."""
    if scene.job is not None:
        (podset,) = scene.job.seen.podsets.podsets
        podsets = replace(scene.job.seen.podsets, podsets=(replace(podset, count=count, minimum=count),))
        return scene.job.show(podsets=podsets)
    gone, scene.pods = scene.pods[count:], scene.pods[:count]
    scene.script.gone(*(scene.script.pods[pod.uid] for pod in gone))
    return scene.recreate(
        lambda pod: replace(pod, group=None if pod.group is None else pod.group._replace(min_member=count))
    )


def _smaller(scene: Scene) -> None:
    most = max(dict(known_node.allocatable)[GPU] for known_node in scene.nodes().values())
    scene.recreate(lambda pod: replace(pod, requests=tuple(sorted({**dict(pod.requests), GPU: most}.items()))))


def _raise(scene: Scene, field: str, flavor: str, name: str, amount: str) -> None:
    queue = scene.queue(name)
    (group,) = queue.groups
    flavors = []
    for flavor_name, quotas in group.flavors:
        quota = quotas[GPU]
        more = int(amount)
        raised = replace(quota, nominal=more) if field == "nominalQuota" else replace(quota, borrowing=more)
        flavors.append((flavor_name, {**quotas, GPU: raised} if flavor_name == flavor else quotas))
    scene.show(replace(queue, groups=(replace(group, flavors=tuple(flavors)),)))


def _cover(scene: Scene, resource: str, name: str, amount: str) -> None:
    queue = scene.queue(name)
    (group,) = queue.groups
    much = int(float(amount) * 1000) if resource == "cpu" else int(amount)
    flavors = tuple((flavor, {**quotas, resource: Quota(much)}) for flavor, quotas in group.flavors)
    scene.show(replace(queue, groups=(replace(group, covered=(*group.covered, resource), flavors=flavors),)))


def _capabilities(scene: Scene, raised: str, gpus: str | None) -> None:
    for name, amount in re.findall(r"the capability of Queue (\S+) to (\d+) nvidia.com/gpu", raised):
        seen = scene.script.core.state.quotas.queues.seen["VolcanoQueue", "", name].object
        assert isinstance(seen, VolcanoQueue)
        scene.show(replace(seen, capability={**seen.capability, GPU: int(amount)}))
    if gpus:
        _add_gpus(scene, gpus)


def _add_gpus(scene: Scene, gpus: str) -> None:
    scene.script.see(*(node(f"added-{at}") for at in range(-(-int(gpus) // 8))))


def _local(scene: Scene, name: str, namespace: str) -> None:
    scene.show(LocalQueue(namespace, name, "team"))


def _cluster_queue(scene: Scene, name: str) -> None:
    scene.show(replace(scene.queue("team"), name=name))


def _queue_named(scene: Scene, name: str) -> None:
    if scene.job is not None:
        scene.job.show(queue=name)
    else:
        scene.recreate(lambda pod: replace(pod, queue=name))


def _flavor(scene: Scene, name: str) -> None:
    scene.show(ResourceFlavor(name))


def _go_on(scene: Scene, kind: str, name: str) -> None:
    queues = scene.script.core.state.quotas.queues
    thing = queues.local("default", name) if kind == "LocalQueue" else scene.queue(name)
    assert isinstance(thing, LocalQueue | ClusterQueue)
    scene.show(replace(thing, stop=Stop.NONE))


def _open(scene: Scene, name: str) -> None:
    seen = scene.script.core.state.quotas.queues.seen["VolcanoQueue", "", name].object
    assert isinstance(seen, VolcanoQueue)
    scene.show(replace(seen, closed=False))


def _volcano(scene: Scene, name: str) -> None:
    scene.show(VolcanoQueue(name))


def _namespace(scene: Scene, namespace: str) -> None:
    """With the label that the selectors of these scenes ask for."""
    scene.script.feed(NamespaceSeen(namespace, (("team", "mine"),)))
    scene.settle(0.5)


def _later(scene: Scene, seconds: str) -> None:
    scene.settle(float(seconds) + 1.0)


def _nothing(scene: Scene) -> None:
    scene.settle(0.5)


_ACTIONS: list[tuple[str, Callable[..., None]]] = [
    (r"wait for (.+) to finish: that frees enough .*", _wait),
    (r"(\d+) more nodes? with (\d+) GPUs? free in (the cluster|clique \w+)(?:, with labels (.*))?", _more_nodes),
    (r"room for (\d+) more members? \((\d+) GPUs? each\) in (the cluster|clique \w+)(?:, with labels (.*))?",
     _more_nodes),
    (r"label (.+) with (\S+): it would fit there now", _label),
    (r"add a toleration of (.+) to its pods(?: or to .*)?, or take the taint off: it would fit now, .*", _tolerate),
    (r"put \d+ nodes? with room back in service \(enough\): (.+)", _mend),
    (r"(?:put (\S.*?) back in service)?(?:,? ?(?:and )?label (.+?) with (\S+?))?"
     r"(?:,? ?(?:and )?add a toleration of (.+) to its pods)?: it would fit now", _together),
    (r"take (\S+)=(\S+) out of the node selector of its pods, or correct it.*: it would fit now, .*", _deselect),
    (r"make the node affinity .* preferred instead of required: it would fit now, .*", _unpin),
    (r"delete .* and create new pods.*", _unpin),
    (r"do without host ports: .*", _constraints(ports=())),
    (r"make the pod affinity preferred .*", _constraints(affinity=())),
    (r"make the pod anti-affinity preferred .*", _constraints(anti_affinity=())),
    (r"let the topology spread be ScheduleAnyway .*", _constraints(spread=())),
    (r"use preferred-topology instead of required-topology: .*", _preferred),
    (r"(?:require a wider level|add nodes) or use fewer pods: even empty, .* fits? (\d+) of [^;]*", _narrower),
    (r"(?:require a wider level|add nodes) or use fewer pods: even empty, .*; ([1-9]\d*) fits? now", _narrower),
    (r"use smaller pods or add larger nodes: .*", _smaller),
    (r"(?:it can never start in .*: )?raise (nominalQuota|borrowingLimit) of flavor (\S+) in ClusterQueue (\S+) to "
     r"(\d+) nvidia.com/gpu(?:, or .*|: nodes of that flavor have room)?", _raise),
    (r"add (\S+) to coveredResources of ClusterQueue (\S+), with a nominalQuota of at least (\S+) .*", _cover),
    (r"(?:it can never start in .*: )?raise (the capability of .*?)(?:, and add nodes with (\d+) nvidia.com/gpu)?"
     r"(?:, or .*)?", _capabilities),
    (r"(?:it can never start in .*: )?add nodes with (\d+) nvidia.com/gpu, or lower what other Queues .*", _add_gpus),
    (r"create LocalQueue (\S+) in namespace (\w+), or .*", _local),
    (r"create ClusterQueue (\S+), or .*", _cluster_queue),
    (r"name a LocalQueue of namespace \w+ \((\w+).*\) in the label .*", _queue_named),
    (r"create ResourceFlavor (\S+), or .*", _flavor),
    (r"set the stopPolicy of (LocalQueue|ClusterQueue) (\S+) to None, .*", _go_on),
    (r"open Queue (\S+): .*", _open),
    (r"create Queue (\S+) of Volcano, or .*", _volcano),
    (r"give namespace (\w+) labels that .*", _namespace),
    (r"nothing to do: it is planned again in (\d+) s", _later),
    (r"nothing to do: there is (?:room|quota) by now.*", _nothing),
]  # fmt: skip
"""Each sentence, and the function that follows it."""
