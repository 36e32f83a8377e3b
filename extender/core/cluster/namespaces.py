"""The labels of namespaces: ClusterQueues choose by them whom they serve, and pod affinity terms whom they mean."""

from __future__ import annotations

from extender.core.events import NamespaceGone, NamespaceSeen
from extender.core.state import State


def noted(state: State, event: NamespaceSeen | NamespaceGone, now: float) -> None:
    """A namespace was made, changed or deleted."""
    state.quotas.queues.note(event, now)
    labels = event.labels if isinstance(event, NamespaceSeen) else ()
    changed = [one.describe(event.name, labels) for one in (state.claims.tenants, state.singles.coming)]
    if any(changed) and state.changes.wary:
        # Whoever waits may be drawn to other pods by now, or kept away by them, or no longer.
        state.changes.nodes = True
