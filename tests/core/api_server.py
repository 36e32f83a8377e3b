"""An API server whose watch lags: its objects, the changes that Muster has not seen yet, and the writes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

from extender.core.effects import Nominate, PostBinding, Ungate
from extender.core.events import Event, GroupSeen, NodeGone, NodeSeen, PodGone, PodSeen
from policies.model import GANG_GATE, Node, Pod, PodGroup, Requirement, Selection
from tests.core.script import stamp_of


@dataclass
class ApiServer:
    """``pods``, ``nodes`` and ``groups`` are the truth."""

    pods: dict[str, Pod] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    groups: list[PodGroup] = field(default_factory=list)
    watch: deque[Event] = field(default_factory=deque)

    def change(self, pod: Pod) -> None:
        """The API object is created or changed; Muster hears of it later."""
        self.pods[pod.uid] = pod
        self.watch.append(PodSeen(pod))

    def remove(self, uid: str) -> None:
        del self.pods[uid]
        self.watch.append(PodGone(uid))

    def add_group(self, group: PodGroup) -> None:
        self.groups.append(group)
        self.watch.append(GroupSeen(group))

    def set_node(self, node: Node) -> None:
        self.nodes[node.name] = node
        self.watch.append(NodeSeen(node))

    def remove_node(self, name: str) -> None:
        """The pods on it are collected with it."""
        del self.nodes[name]
        self.watch.append(NodeGone(name))
        for uid in [pod.uid for pod in self.pods.values() if pod.node == name]:
            self.remove(uid)

    def bind(self, post: PostBinding) -> bool:
        pod = self.pods.get(post.uid)
        if pod is None or pod.gates or (pod.node and pod.node != post.node):
            return False
        if not pod.node:
            self.change(replace(pod.bound(post.node, stamp_of(post)), nominated_node=None))
        return True

    def nominate(self, wish: Nominate) -> None:
        pod = self.pods.get(wish.uid)
        if pod is not None and pod.live and not pod.node and pod.nominated_node != wish.node:
            self.change(replace(pod, nominated_node=wish.node))

    def ungate(self, ungate: Ungate) -> None:
        pod = self.pods.get(ungate.uid)
        if pod is None or GANG_GATE not in pod.gates:
            return
        if ungate.pin:
            pin = Requirement("metadata.name", "In", ungate.pin, is_field=True)
            pod = replace(pod, selection=Selection(affinity=((pin,),)))
        self.change(replace(pod, gates=pod.foreign_gates))
