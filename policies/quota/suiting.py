"""Whether pods go to the nodes of a flavor: by its labels and taints."""

from __future__ import annotations

from policies.model.node import Node, Selection
from policies.model.queues import ResourceFlavor
from policies.placement.matching import admits


def suits(flavor: ResourceFlavor, selection: Selection) -> bool:
    """Whether such a pod goes to nodes of the flavor. Of its selector and required affinity only what is said of labels
    that the flavor has counts: the others are for the nodes to have. A term without such lets it in."""
    if not flavor.node_labels and not flavor.taints and selection.affinity != ():
        return True
    labels = flavor.node_labels
    selector = tuple((key, value) for key, value in selection.node_selector if key in labels)
    affinity = selection.affinity
    if affinity is not None:
        terms = tuple(tuple(one for one in term if not one.is_field and one.key in labels) for term in affinity)
        affinity = terms if all(terms) else None
    asked = Selection(selector, affinity, (*selection.tolerations, *flavor.tolerations))
    return admits(Node(flavor.name, (), labels, flavor.taints), asked)


def unsuited(flavor: ResourceFlavor, selection: Selection) -> str:
    """Why such a pod does not go to nodes of the flavor; empty if it does."""
    if suits(flavor, selection):
        return ""
    tolerant = Selection(tolerations=(*selection.tolerations, *flavor.tolerations))
    for taint in flavor.taints:
        if not admits(Node(flavor.name, (), {}, (taint,)), tolerant):
            value = f"={taint.value}" if taint.value else ""
            return f"they do not tolerate its taint {taint.key}{value}:{taint.effect}"
    for key, wanted in selection.node_selector:
        if (has := flavor.node_labels.get(key, wanted)) != wanted:
            return f"they select {key}={wanted}, and its label is {has}"
    return "their required node affinity rules out its labels"
