"""kube-scheduler's preemption: the pods of lower priority that would have to be evicted, node by node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from policies.model import Pod
from tests.simulation.model.cache import FACTS, FIT, Cache
from tests.simulation.model.plugins import PLUGINS

Victims = dict[str, tuple[Pod, ...]]
"""Node -> the pods to be evicted there."""


def candidates(pod: Pod, cache: Cache, plugins: Mapping[str, str]) -> Victims:
    """The nodes where the pod would have room without pods of lower priority.

    ``plugins``: the plugin that refused each node; some of these nodes may have gone meanwhile.
    """
    by_node: Victims = {}
    for node, plugin in plugins.items():
        if node in cache.nodes and plugin in (FIT, *PLUGINS) and (victims := _victims(pod, node, cache)):
            by_node[node] = victims
    return by_node


def cheapest(victims: Mapping[str, tuple[Pod, ...]]) -> str:
    """The node whose victims matter least."""
    return min(victims, key=lambda node: (max(pod.priority for pod in victims[node]), len(victims[node]), node))


def _victims(pod: Pod, node: str, cache: Cache) -> tuple[Pod, ...]:
    lower = [other for other in cache.pods.get(node, {}).values() if other.priority < pod.priority]
    if not lower or not _takes(cache, pod, node, lower):
        return ()
    lower.sort(key=lambda other: (-other.priority, other.uid))
    victims = list(lower)
    for other in lower:
        spared = _without(victims, other)
        if _takes(cache, pod, node, spared):
            victims = spared
    return tuple(victims)


def _takes(cache: Cache, pod: Pod, node: str, gone: list[Pod]) -> bool:
    return cache.refusal(pod, node, without=gone) in (None, FACTS)


def _without(pods: Iterable[Pod], excluded: Pod) -> list[Pod]:
    return [pod for pod in pods if pod is not excluded]
