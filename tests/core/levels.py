"""Gangs, cliques and blocks as the tests of levels write them, and where the members are."""

from __future__ import annotations

from dataclasses import replace

from policies.model import CLIQUE, Node, Pod, Topology
from tests.builders import cluster
from tests.core.script import Script

BLOCK = "cloud.google.com/gce-topology-block"
IN_CLIQUE = Topology(required="clique")


def blocks(*texts: str) -> list[Node]:
    """``blocks("x a: 2x8", "y b: 2x8")``: cliques as ``cluster`` makes them, each in the block named before it."""
    nodes = []
    for text in texts:
        block, _, clique = text.partition(" ")
        nodes += [replace(node, labels={**node.labels, BLOCK: block}) for node in cluster(clique)]
    return nodes


def asking(pods: list[Pod], topology: Topology) -> list[Pod]:
    return [replace(pod, topology=topology) for pod in pods]


def homes(script: Script, pods: list[Pod], label: str = CLIQUE) -> str:
    """``"a a b"``: the clique of each member's planned or own node, in order; ``-`` where it has none."""
    nodes = script.core.state.claims.nodes
    names = [script.planned(pod) or next(iter(script.bound([pod])), "") for pod in pods]
    return " ".join(nodes[name].labels.get(label, "-") if name else "none" for name in names)
