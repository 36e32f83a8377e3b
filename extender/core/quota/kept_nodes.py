"""Which nodes of elastic flavors are to stay because somebody is promised them: whoever makes nodes also takes empty
ones away, and knows of no plan of ours.
"""

from __future__ import annotations

from extender.core.claim import Owner
from extender.core.state import State


def kept_nodes(state: State) -> dict[str, None]:
    """Nodes on which somebody has room by such a flavor who is not there yet."""
    if not state.limits.elastic.flavors:
        return {}
    promised = state.claims.promised_nodes.items()
    return {node: None for node, owners in promised if any(_is_elastic(state, owner) for owner in owners)}


def _is_elastic(state: State, owner: Owner) -> bool:
    claim = state.claims.get(owner)
    if claim is None or claim.workload is None:
        return False
    use = state.quotas.uses.of(claim.workload).get(owner)
    return use is not None and not state.limits.elastic.flavors.isdisjoint(use.flavors.values())
