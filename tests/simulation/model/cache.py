"""kube-scheduler's cache of the nodes: bound pods, pods that it has assumed, and room nominated to others."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from policies.model import Node, Pod, Requests, Selection
from policies.placement.matching import admits
from tests.simulation.model.plugins import PORTS, PreFilter

FIT, SHAPE, FACTS = "NodeResourcesFit", "NodeAffinity", "VolumeBinding"
"""The plugins that refuse a node: for lack of room, for selectors or taints, for facts of kube-scheduler alone."""
VOLUMES, DEVICES = "VolumeBinding by claims", "DynamicResources"
"""The same for lack of volumes, or of devices."""


Bars = Callable[[Pod, str], bool]
"""Whether kube-scheduler refuses the pod a node, for reasons hidden from all others, as with volumes."""


def no_bars(_pod: Pod, _node: str) -> bool:
    return False


class Cache:
    """Pods are on a node from the moment they are assumed. Amounts are kept up to date pod by pod."""

    def __init__(self, bars: Bars = no_bars) -> None:
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, dict[str, Pod]] = {}
        """Node -> the pods on it by UID."""
        self.assumed: dict[str, str] = {}
        """UID -> node of the pods that wait for their Binding."""
        self._where: dict[str, str] = {}
        self._room: dict[str, dict[str, int]] = {}
        self._used: dict[str, dict[str, int]] = {}
        self._nominated: dict[str, dict[str, Pod]] = {}
        self._nominations: dict[str, str] = {}
        self._bars = bars
        self._related = False
        """Whether any pod so far demands something of others."""
        self._counted: tuple[Pod, PreFilter] | None = None
        """The counts for the last pod, as long as nothing changes."""
        self._admitted: dict[Selection, dict[str, bool]] = {}

    def set_node(self, node: Node) -> None:
        self.nodes[node.name] = node
        self._room[node.name] = dict(node.allocatable)
        self._counted = None
        self._forget_admissions(node.name)

    def drop_node(self, name: str) -> None:
        self.nodes.pop(name, None)
        self._counted = None
        self._forget_admissions(name)

    def put(self, pod: Pod, node: str) -> None:
        """Record that the pod is on that node, whatever was recorded before."""
        self.take(pod.uid)
        self._where[pod.uid] = node
        self._counted = None
        self._related |= bool(pod.constraints)
        self.pods.setdefault(node, {})[pod.uid] = pod
        self._count(node, pod.requests, 1)

    def take(self, uid: str) -> bool:
        """The pod is nowhere. False if it was nowhere before."""
        self.assumed.pop(uid, None)
        node = self._where.pop(uid, None)
        if node is None:
            return False
        self._counted = None
        pod = self.pods[node].pop(uid)
        self._count(node, pod.requests, -1)
        return True

    def assume(self, pod: Pod, node: str) -> None:
        self.put(pod, node)
        self.assumed[pod.uid] = node
        self.nominate(pod, None)

    def nominate(self, pod: Pod, node: str | None) -> None:
        """Keep room for the pod on that node against pods of no higher priority, or no longer."""
        before = self._nominations.pop(pod.uid, None)
        if before is not None:
            del self._nominated[before][pod.uid]
        if node is not None:
            self._related |= bool(pod.constraints)
            self._nominations[pod.uid] = node
            self._nominated.setdefault(node, {})[pod.uid] = pod

    def refusal(self, pod: Pod, node: str, without: Iterable[Pod] = ()) -> str | None:
        """The plugin that refuses the node, if the pods of ``without`` are gone; None when the pod can go there."""
        if not self._admits(node, pod.selection):
            return SHAPE
        gone = list(without)
        related = self._relation(pod, node, gone) if self._related or pod.constraints else None
        if related == PORTS:
            return PORTS
        if not self.has_room(pod, node, gone):
            return FIT
        return FACTS if self._bars(pod, node) else related

    def _relation(self, pod: Pod, node: str, gone: list[Pod]) -> str | None:
        nominated = [other for other in self._nominated.get(node, {}).values() if self._gives_way(pod, other)]
        if gone:
            uids = {pod.uid for pod in gone}
            left = {
                name: there if uids.isdisjoint(there) else {uid: there[uid] for uid in there if uid not in uids}
                for name, there in self.pods.items()
            }
            return PreFilter(pod, self.nodes, left).refusal(node, nominated)
        if self._counted is None or self._counted[0] is not pod:
            self._counted = pod, PreFilter(pod, self.nodes, self.pods)
        return self._counted[1].refusal(node, nominated)

    def has_room(self, pod: Pod, node: str, without: Iterable[Pod] = ()) -> bool:
        room, used = self._room[node], self._used.get(node, {})
        beside = [other for other in self._nominated.get(node, {}).values() if self._gives_way(pod, other)]
        gone = list(without)
        for name, amount in pod.requests:
            taken = used.get(name, 0)
            for other in beside:
                taken += dict(other.requests).get(name, 0)
            for other in gone:
                taken -= dict(other.requests).get(name, 0)
            if taken + amount > room.get(name, 0):
                return False
        return True

    def load(self, node: str) -> float:
        """Share of the node's cpu that is asked for: kube-scheduler prefers the least loaded node."""
        room = self._room[node].get("cpu", 0)
        return self._used.get(node, {}).get("cpu", 0) / room if room else 1.0

    def _gives_way(self, pod: Pod, other: Pod) -> bool:
        return other.uid != pod.uid and other.priority >= pod.priority and other.uid not in self._where

    def _admits(self, node: str, selection: Selection) -> bool:
        known = self._admitted.setdefault(selection, {})
        if node not in known:
            known[node] = admits(self.nodes[node], selection)
        return known[node]

    def _forget_admissions(self, node: str) -> None:
        for known in self._admitted.values():
            known.pop(node, None)

    def _count(self, node: str, requests: Requests, sign: int) -> None:
        used = self._used.setdefault(node, {})
        for name, amount in requests:
            used[name] = used.get(name, 0) + sign * amount
