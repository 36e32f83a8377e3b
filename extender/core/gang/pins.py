"""Members that are pinned to nodes that are gone: no pod can be unpinned, so only deleting it helps."""

from __future__ import annotations

from extender.core.state import State
from extender.core.workload import Workload
from policies.model import Pod
from policies.placement.matching import nodes_named
from policies.words import listed


def pinned_to_lost(workload: Workload, state: State) -> list[Pod]:
    """Those of its pods that wait and may run on nodes alone that are not there. Slots without a pod do not count."""
    nodes = state.claims.nodes
    return [
        pod
        for pod in workload.members.unplaced()
        if (named := nodes_named(pod.selection)) and pod.uid in state.pods and not any(one in nodes for one in named)
    ]


def told_of_pins(workload: Workload, state: State) -> str:
    """Empty if there are none."""
    if not (lost := pinned_to_lost(workload, state)):
        return ""
    nodes = list(dict.fromkeys(node for pod in lost for node in nodes_named(pod.selection)))
    pods = f"pods {listed([pod.name for pod in lost])} are" if len(lost) > 1 else f"pod {lost[0].name} is"
    gone = f"nodes {listed(nodes)}, which are" if len(nodes) > 1 else f"node {nodes[0]}, which is"
    return f"{pods} pinned to {gone} gone: only deleting {'them' if len(lost) > 1 else 'it'} helps"
