"""kube-scheduler's picture of the cluster: its watches feed the cache and the queue, and wake the right pods."""

from __future__ import annotations

from collections.abc import Callable

from policies.model import Node, Pod
from tests.simulation.model.apiserver import ApiServer
from tests.simulation.model.backlog import Backlog, NodeCame, NodeWent, Place, PodCame, PodWent
from tests.simulation.model.cache import Cache
from tests.simulation.model.changes import Change, Kind
from tests.simulation.model.devices import as_scheduled, node_as_shown
from tests.simulation.model.dra import DynamicResources
from tests.simulation.model.informer import Informer
from tests.simulation.model.network import Network


class ObservedCluster:
    """``name``: whose pods are queued. ``changed`` is called after every event."""

    def __init__(
        self,
        api: ApiServer,
        network: Network,
        name: str,
        cache: Cache,
        backlog: Backlog,
        dra: DynamicResources,
        changed: Callable[[], None],
    ) -> None:
        self._name = name
        self._cache = cache
        self._backlog = backlog
        self._dra = dra
        self._changed = changed
        self._nodes = Informer(api, network, Kind.NODES, self._node_seen, self._node_gone)
        self._pods = Informer(api, network, Kind.PODS, self._pod_seen, self._pod_gone)

    def list(self) -> None:
        self._nodes.list()
        self._dra.list()
        self._pods.list()

    def stop(self) -> None:
        self._nodes.stop()
        self._pods.stop()
        self._dra.stop()

    def interrupt(self, seconds: float, *, relist: bool) -> None:
        """Break all watches for that long."""
        self._nodes.interrupt(seconds, relist=relist)
        self._pods.interrupt(seconds, relist=relist)
        self._dra.interrupt(seconds, relist=relist)

    def pod(self, uid: str) -> Pod | None:
        """The pod as it was last seen."""
        change = self._pods.known.get(uid)
        return None if change is None else _pod(change)

    def nominate_as_seen(self, pod: Pod) -> None:
        """Nominate the pod as the watch shows it now. To be called after a failed cycle."""
        seen = self.pod(pod.uid)
        if seen is not None and not seen.node:
            self._cache.nominate(seen, seen.nominated_node)

    def _node_seen(self, change: Change, before: Change | None) -> None:
        node, old = _node(change), _node(before) if before else None
        if node != old:
            self._cache.set_node(node)
            self._backlog.tell(NodeCame(node, old))
            self._changed()

    def _node_gone(self, last: Change) -> None:
        self._cache.drop_node(_node(last).name)
        self._backlog.tell(NodeWent(_node(last)))
        self._changed()

    def _pod_seen(self, change: Change, before: Change | None) -> None:
        pod = _pod(change)
        if pod.terminal:
            self._forget(pod)
        elif pod.node:
            self._backlog.remove(pod.uid)
            self._cache.nominate(pod, None)
            self._cache.put(pod, pod.node)
            self._backlog.tell(PodCame(pod, new=before is None or not _pod(before).node))
        elif pod.scheduler == self._name and pod.uid not in self._cache.assumed:
            self._waiting_pod_seen(pod, _pod(before) if before else None)
        self._changed()

    def _waiting_pod_seen(self, pod: Pod, old: Pod | None) -> None:
        if old is not None and old.nominated_node and old.nominated_node != pod.nominated_node:
            self._backlog.tell(PodWent(old, pod.priority))
        self._backlog.add(pod)
        # A gated pod's nomination counts from its next change on, and a flying pod's after its cycle.
        listed_gated = old is None and pod.gates
        if not listed_gated and self._backlog.pods[pod.uid].place is not Place.FLYING:
            self._cache.nominate(pod, pod.nominated_node)

    def _pod_gone(self, last: Change) -> None:
        pod = _pod(last)
        if pod.nominated_node and not pod.node:
            self._backlog.tell(PodWent(pod, pod.priority))
        self._forget(pod)
        self._changed()

    def _forget(self, pod: Pod) -> None:
        self._backlog.remove(pod.uid)
        self._cache.nominate(pod, None)
        if self._cache.take(pod.uid):
            self._backlog.tell(PodWent(pod))


def _pod(change: Change) -> Pod:
    assert isinstance(change.value, Pod)
    return as_scheduled(change.value)


def _node(change: Change) -> Node:
    assert isinstance(change.value, Node)
    return node_as_shown(change.value)
