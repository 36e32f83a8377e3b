"""Topologies that flavors name: their levels are Muster's, too, unless a setting says which there are."""

from __future__ import annotations

from collections.abc import Iterator

from extender.core.quota.queues import Queues
from extender.core.state import State
from policies.model.levels import HOST, PRESETS, contradiction
from policies.model.queues import ClusterQueue, TopologyObject

Keys = tuple[str, ...]


def declared(queues: Queues) -> tuple[Keys, ...]:
    """The labels of their levels, nearest first. In a level of single machines nothing is together."""
    names = {flavor.topology: None for _, flavor in sorted(queues.picture.flavors.items()) if flavor.topology}
    return tuple(keys for name in names if (keys := _keys(queues, name)))


def odd_levels(state: State, queue: ClusterQueue) -> Iterator[str]:
    """What is wrong with the levels of the Topologies that its flavors name, beside the levels of Muster."""
    queues, configured = state.quotas.queues, state.claims.configured
    flavors = [queues.picture.flavors.get(name) for group in queue.groups for name, _ in group.flavors]
    for name in dict.fromkeys(flavor.topology for flavor in flavors if flavor is not None and flavor.topology):
        keys = _keys(queues, name)
        unknown = [key for key in keys if configured and key not in configured]
        if unknown:
            text = "no workload can ask for it, and none is kept together by it"
            yield f"Topology {name}: {', '.join(unknown)}: not in the setting topology_levels, so {text}"
        presets = [[level.key for level in levels] for levels in PRESETS.values()]
        others = [configured] if configured else [*presets, *declared(queues)]
        if (pair := contradiction(keys, others)) is not None:
            where = "the setting topology_levels" if configured else "another Topology, or what Muster knows of it,"
            yield f"Topology {name}: {pair[1]} is farther than {pair[0]}, and {where} has it the other way round"


def _keys(queues: Queues, name: str) -> Keys:
    seen = queues.seen.get((TopologyObject.__name__, "", name))
    levels = seen.object.levels if seen is not None and isinstance(seen.object, TopologyObject) else ()
    return tuple(key for key in reversed(levels) if key != HOST)
