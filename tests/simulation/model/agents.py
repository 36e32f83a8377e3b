"""The device plugins of nodes, and the DaemonSets whose pods run on each node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count
from random import Random
from typing import Any

from extender.simulation.clock import Clock
from policies.model import Controller, Node, Pod, Requests, Selection, Toleration
from tests.simulation.model.apiserver import ApiServer
from tests.simulation.model.changes import Change, Kind
from tests.simulation.sight import fits, left_over

_AGAIN_S = 5.0
"""After that a pod of a DaemonSet that found no room is tried again."""
_CRITICAL = 2_000_001_000
"""The priority of system-node-critical."""


@dataclass(frozen=True, slots=True)
class Platform:
    """The facts of nodes that are not in ``Node``, by name of the node.

    ``conditions``: those beside Ready.
    ``lists``: the amounts of the names that a node lists only while its device plugins run.
    ``daemons``: the requests of each DaemonSet's pod, by name of the DaemonSet.
    """

    conditions: Mapping[str, list[dict[str, Any]]]
    lists: Mapping[str, Requests]
    daemons: Mapping[str, Requests]


class DevicePlugins:
    """``lists``: by node, the amounts of the names that a node lists only while its plugins run."""

    def __init__(self, api: ApiServer, lists: Mapping[str, Requests]) -> None:
        self.lists = lists
        self._api = api

    def stop(self, node: str, *, forgotten: bool) -> None:
        """The kubelet lists nothing of them, or, after a restart of its own, does not even know their names."""
        if (there := self._api.nodes.get(node)) is not None:
            listed = dict(there.allocatable)
            for name, _ in self.lists.get(node, ()):
                listed[name] = 0
                if forgotten:
                    del listed[name]
            self._set(there, listed)

    def start(self, node: str) -> None:
        """Let the plugins register with all their devices."""
        if (there := self._api.nodes.get(node)) is not None:
            self._set(there, dict(there.allocatable) | dict(self.lists.get(node, ())))

    def _set(self, node: Node, listed: Mapping[str, int]) -> None:
        allocatable = tuple(sorted(listed.items()))
        if allocatable != node.allocatable:
            self._api.set_node(replace(node, allocatable=allocatable))


class DaemonSets:
    """The DaemonSets, by name, with the requests of their pods. Each node with room gets a pod of each."""

    def __init__(self, api: ApiServer, clock: Clock, dice: Random, amounts: Mapping[str, Requests]) -> None:
        self._api = api
        self._clock = clock
        self._dice = dice
        self._asked = amounts
        self._began = clock.now
        self._numbers = count(1)
        self._there: dict[tuple[str, str], str] = {}
        """UID of the pod of a DaemonSet on a node."""
        self._of: dict[str, tuple[str, str]] = {}
        api.listeners[Kind.NODES].append(self._node_changed)
        api.listeners[Kind.PODS].append(self._pod_changed)

    def _node_changed(self, change: Change) -> None:
        if isinstance(change.value, Node) and not change.gone:
            began = self._clock.now > self._began
            for name in self._asked:
                if (name, change.value.name) not in self._there:
                    self._later(name, change.value.name, self._dice.random() if began else 0.0)

    def _pod_changed(self, change: Change) -> None:
        pod, place = change.value, self._of.get(change.uid)
        if place is None or not isinstance(pod, Pod):
            return
        if change.gone:
            del self._of[change.uid], self._there[place]
            self._later(*place, self._dice.random())
        elif pod.terminal and not pod.deleting:
            self._clock.after(self._dice.random(), lambda: self._api.delete_pod(change.uid))

    def _later(self, name: str, node: str, seconds: float) -> None:
        self._clock.after(seconds, lambda: self._create(name, node))

    def _create(self, name: str, node: str) -> None:
        """kube-scheduler binds it where its affinity says, however the node is tainted."""
        if node not in self._api.nodes or (name, node) in self._there:
            return
        if not fits(left_over(self._api.nodes, self._api.pods.values())[node], self._asked[name]):
            return self._later(name, node, _AGAIN_S)
        uid = f"{name}-{node}.{next(self._numbers)}"
        self._there[name, node], self._of[uid] = uid, (name, node)
        self._api.create_pod(
            Pod(
                uid,
                "kube-system",
                uid,
                self._asked[name],
                scheduler="default-scheduler",
                created=self._clock.now,
                priority=_CRITICAL,
                node=node,
                owner=name,
                controller=Controller("apps/v1", "DaemonSet", name, name),
                selection=Selection(tolerations=(Toleration("", "Exists", "", ""),)),
                stays=True,
            )
        )
