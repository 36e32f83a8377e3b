"""An autoscaler: it makes nodes of one pool for pods that are marked as unschedulable, and takes empty ones away.

It works in rounds, as Cluster Autoscaler and Karpenter do. It counts pending pods, existing nodes, nodes on their
way, and the demands of pods on each other. It knows nothing of gangs, quotas and cliques.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from random import Random

from extender.simulation.clock import Clock
from policies.model import HOSTNAME, Node, Pod, Requests
from policies.placement.matching import admits
from tests.simulation.model.apiserver import ApiServer
from tests.simulation.model.plugins import PreFilter
from tests.simulation.sight import fits, left_over, on_nodes, take

_LOOK_S = 2.0
_GIVEN_UP_S = 30.0
"""How long it waits for nodes that do not come, before it orders others."""


class Whim(Enum):
    """The outcome of an order: all nodes come, some of them, all too late, or none."""

    WHOLE = "whole"
    PART = "part"
    LATE = "late"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool of nodes.

    ``node``: the template of its nodes.
    ``whims``: the possible outcomes of an order, chosen by chance.
    ``delay_s``: the time within which a node comes; a late one comes after ``late_s``.
    ``idle_s``: the time after which an empty node that is not needed is removed.
    ``most``: the most nodes of the pool at a time.
    ``prefix``: the prefix of their names.
    """

    node: Node
    whims: tuple[Whim, ...]
    delay_s: float
    late_s: float
    idle_s: float
    most: int
    prefix: str = "m"


class _Snapshot:
    """The nodes that the autoscaler counts on, the room on them, and the pods that are there or will be."""

    def __init__(
        self, nodes: Mapping[str, Node], coming: Iterable[Node], pods: Iterable[Pod], daemons: Sequence[Requests]
    ) -> None:
        """Draw the picture. ``daemons``: the requests of DaemonSets on each node that has yet to come."""
        pods, self._daemons = list(pods), daemons
        self._nodes = dict(nodes)
        self._room = left_over(nodes, pods)
        self._there: dict[str, dict[str, Pod]] = {}
        self._averse = False
        for pod, name in on_nodes(pods):
            self._put(pod, name)
        for node in coming:
            self.add(node)

    def add(self, node: Node) -> None:
        self._nodes[node.name], self._room[node.name] = node, dict(node.allocatable)
        for requests in self._daemons:
            take(self._room[node.name], requests)

    def drop(self, name: str) -> None:
        del self._nodes[name], self._room[name]

    def place(self, pod: Pod, among: Iterable[str] | None = None) -> str | None:
        """On the first of these nodes, or of all, that kube-scheduler would let it in on."""
        counted = PreFilter(pod, self._nodes, self._there) if pod.constraints or self._averse else None
        for name in list(self._nodes if among is None else among):
            if not (admits(self._nodes[name], pod.selection) and fits(self._room[name], pod.requests)):
                continue
            if counted is None or counted.refusal(name) is None:
                take(self._room[name], pod.requests)
                self._put(pod, name)
                return name
        return None

    def place_all(self, pods: Iterable[Pod]) -> tuple[set[str], list[Pod]]:
        """Place these pods; returns the nodes that they use, and the pods that find none.

        A pod is tried again once others are placed, which its spread or affinity may count. Else it would get a new
        node each time, and leave it empty.
        """
        used, left, tried = set[str](), list(pods), 0
        while len(left) != tried:
            tried = len(left)
            places = [(pod, self.place(pod)) for pod in left]
            used |= {name for _, name in places if name is not None}
            left = [pod for pod, name in places if name is None]
        return used, left

    def _put(self, pod: Pod, name: str) -> None:
        self._there.setdefault(name, {})[pod.uid] = pod
        self._averse |= bool(pod.constraints.anti_affinity)


class Autoscaler:
    """The autoscaler of a pool.

    ``stays``: whether a node is marked to stay; at first no node is.
    ``daemons``: the requests of each DaemonSet's pod. As real autoscalers do, it leaves this room on a new node.
      Otherwise it would make one node after another for a pod that fits on none of them beside the daemons.
    """

    def __init__(
        self, api: ApiServer, clock: Clock, random: Random, pool: Pool, daemons: Collection[Requests] = ()
    ) -> None:
        self.stays: Callable[[str], bool] = lambda _: False
        self.healed = False
        """From now on every node comes, in time."""
        self.removed: list[Callable[[str], None]] = []
        """Functions to call with a node before it is taken away."""
        self._api = api
        self._clock = clock
        self._random = random
        self.pool = pool
        self._daemons = tuple(daemons)
        self.booked: dict[Hashable, list[Pod]] = {}
        """Pods that do not exist yet and that nodes were requested for: the nodes that they need are not removed."""
        self._made = 0
        self._coming: dict[str, Node] = {}
        """The nodes that it counts on, whether they come or not."""
        self._idle: dict[str, float] = {}
        clock.after(_LOOK_S, self._look)

    def heal(self) -> None:
        self.healed = True
        for name in list(self._coming):
            self._arrive(name)

    def _look(self) -> None:
        self._clock.after(_LOOK_S, self._look)
        snapshot = self._snapshot()
        needed, short = snapshot.place_all(self._pending())
        booked, _ = snapshot.place_all(pod for pods in self.booked.values() for pod in pods)
        self._order(short, snapshot)
        self._take_away(needed | booked)

    def provide(self, name: Hashable, pods: list[Pod]) -> bool:
        """Order the nodes that these pods lack together, and book them. Returns whether all of them may be had."""
        whim = Whim.WHOLE if self.healed else self._random.choice(self.pool.whims)
        snapshot = self._snapshot()
        _, short = snapshot.place_all(pods)
        made, left = self._made_for(short, snapshot)
        if left or whim is Whim.NEVER:
            return False
        self.booked[name] = pods
        self._coming |= made
        for made_node in made:
            self._deliver(made_node, whim)
        return True

    def _pending(self) -> list[Pod]:
        """Pods that kube-scheduler has marked as unschedulable, the largest first."""
        pods = [pod for pod in self._api.pods.values() if pod.live and not (pod.node or pod.gates) and pod.refusal]
        return sorted(pods, key=lambda pod: (-max((n for name, n in pod.requests if "/" in name), default=0), pod.uid))

    def _snapshot(self) -> _Snapshot:
        return _Snapshot(self._api.nodes, self._coming.values(), self._api.pods.values(), self._daemons)

    def _order(self, pods: list[Pod], snapshot: _Snapshot) -> None:
        made, _ = self._made_for(pods, snapshot)
        if not made:
            return
        self._coming |= made
        whim = Whim.WHOLE if self.healed else self._random.choice(self.pool.whims)
        for name in made:
            self._deliver(name, whim)

    def _made_for(self, pods: list[Pod], snapshot: _Snapshot) -> tuple[dict[str, Node], list[Pod]]:
        """The fewest nodes that these pods need, if its nodes suit them; and the pods that its nodes do not suit."""
        made: dict[str, Node] = {}
        left: list[Pod] = []
        for pod in pods:
            if snapshot.place(pod, made) is not None:
                continue
            node = self._new()
            snapshot.add(node)
            if self._may_have(len(made)) and snapshot.place(pod, (node.name,)) is not None:
                self._made += 1
                made[node.name] = node
            else:
                snapshot.drop(node.name)
                left.append(pod)
        return made, left

    def _may_have(self, more: int) -> bool:
        ours = sum(map(self._is_ours, self._api.nodes | self._coming))
        return self.healed or ours + more < self.pool.most

    def _is_ours(self, name: str) -> bool:
        return name.startswith(self.pool.prefix)

    def _deliver(self, name: str, whim: Whim) -> None:
        delay_s = self.pool.delay_s * self._random.random()
        comes = whim is Whim.WHOLE or (whim is Whim.PART and self._random.random() < 0.6)
        if comes or whim is Whim.LATE:
            after_s = delay_s if comes else self.pool.late_s + delay_s
            self._clock.after(after_s, lambda: self._arrive(name))
        else:
            self._clock.after(_GIVEN_UP_S, lambda: self._coming.pop(name, None))

    def _arrive(self, name: str) -> None:
        if (node := self._coming.pop(name, None)) is not None:
            self._api.set_node(node)

    def _take_away(self, needed: set[str]) -> None:
        """Remove nodes that have been empty for a while and that no pod waits for, unless they are marked to stay."""
        now, busy = self._clock.now, {pod.node for pod in self._api.pods.values()} | needed
        idle = [name for name in self._api.nodes if self._is_ours(name) and name not in busy]
        self._idle = {name: self._idle.get(name, now) for name in idle}
        for name in [name for name, since in self._idle.items() if now - since >= self.pool.idle_s]:
            if not self.stays(name):
                for listener in self.removed:
                    listener(name)
                self._api.remove_node(name)

    def _new(self) -> Node:
        name = f"{self.pool.prefix}{self._made:02}"
        return replace(self.pool.node, name=name, labels={**self.pool.node.labels, HOSTNAME: name})
