"""A gang of pods that waits for nodes is let go without a plan: kube-scheduler then tries each of its pods, is given no
node by us, and marks it as unschedulable, which is what those who make nodes look at.

A gate cannot be put back, and what is written on a pod cannot be taken off. So nothing is written: that they are to
have nodes of a flavor the pods have to say themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from extender.core.effects import Ungate
from extender.core.flavoring import Flavoring, PartKey, part_of
from extender.core.state import State
from extender.core.workload import Workload
from policies.model import GANG_GATE, Node, Pod, Selection
from policies.model.queues import ResourceFlavor
from policies.placement.matching import admits
from policies.words import listed


def let_go(state: State, workload: Workload, pods: Sequence[Pod]) -> None:
    """Take our gate off those of these pods that have it."""
    for pod in pods:
        if GANG_GATE in pod.gates:
            state.out.append(Ungate(pod.uid, pod.namespace, pod.name, workload.key))


def misled(pods: Sequence[Pod], made: Mapping[PartKey, Flavoring], flavors: Mapping[str, ResourceFlavor]) -> str:
    """Why whoever sees these pods would make other nodes than those of their flavors; empty if not."""
    for pod in pods:
        for name in dict.fromkeys(made[part_of(pod, of_job=False)].flavors.values()):
            if not _asks_for(pod.selection, flavor := flavors[name]):
                asked = [f"the nodeSelector {key}={value}" for key, value in sorted(flavor.node_labels.items())]
                asked += ["tolerations of its taints"] if flavor.taints else []
                return f"no autoscaler is asked for nodes of {name}: for that its pods need {listed(asked)}"
    return ""


def _asks_for(selection: Selection, flavor: ResourceFlavor) -> bool:
    """Whether such a pod goes to nodes of the flavor and to no others."""
    named = flavor.node_labels.items() <= dict(selection.node_selector).items()
    own = Selection(tolerations=selection.tolerations)
    return named and admits(Node(flavor.name, (), flavor.node_labels, flavor.taints), own)
