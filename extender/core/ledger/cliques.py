"""Cliques of nodes whose label has vanished: the last label counts as long as pods use GPUs on the node.

NVIDIA's driver removes the label when its plugin stops, and a roll-out may do that on all nodes at once. Running pods
still use the same NVLink. A label with another value counts at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from extender.core.ledger.claims import Claim, Claims, Owner
from policies.model import CLIQUE, Node, Pod


class Cliques:
    """The nodes that are counted in their last clique."""

    def __init__(self, claims: Claims, pods: Mapping[str, Pod]) -> None:
        self._claims = claims
        self._pods = pods
        self._shown: dict[str, Node] = {}
        """The nodes without their label, as the API server shows them."""
        self._left: dict[str, None] = {}
        """The nodes without their label that pods have left since."""

    def seen(self, node: Node) -> Node:
        """Handle a node that was added or changed. Returns it with the label that it has lost."""
        before = self._claims.nodes.get(node.name)
        clique = before.labels.get(CLIQUE) if before is not None and CLIQUE not in node.labels else None
        if not clique or not self._in_use(node.name):
            self._shown.pop(node.name, None)
            return node
        self._shown[node.name] = node
        return replace(node, labels={**node.labels, CLIQUE: clique})

    def gone(self, name: str) -> None:
        """Forget a node that was deleted."""
        self._shown.pop(name, None)

    def moved(self, _: Owner, room: Claim, made: bool) -> None:
        """Note a node that a claim has left, if its label has vanished."""
        if not made and room.node in self._shown:
            self._left[room.node] = None

    def take_left(self) -> list[Node]:
        """Return the nodes whose last clique does not count any more, as the API server shows them."""
        if not self._left:
            return []
        left, self._left = self._left, {}
        return [self._shown[name] for name in left if name in self._shown and not self._in_use(name)]

    def _in_use(self, node: str) -> bool:
        return any(self._uses_devices(owner, claim) for owner, claim in self._claims.on(node))

    def _uses_devices(self, owner: Owner, claim: Claim) -> bool:
        pod = self._pods.get(owner) if isinstance(owner, str) else None
        return bool(pod is not None and pod.device_claims) or any("/" in name and much for name, much in claim.requests)
