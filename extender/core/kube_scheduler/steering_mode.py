"""By what kube-scheduler is led to a planned node: the setting ``steering``, and what it means for a pod."""

from __future__ import annotations

from enum import StrEnum

from extender.core.state import State
from extender.core.workload import Workload
from policies.model import GANG_GATE, UNCONSTRAINED, Pod
from policies.placement.rules import Unclear, rules_of, seen_by

_LARGEST_PIN = 64
"""Nodes that a pin may name: each costs 100 bytes of the pod, for as long as it lives."""

_MOST_SCANNED = 500
"""Nodes up to which it costs kube-scheduler less to look at all of them, as it is configured to, than the API server
and Muster a nomination. The figures are in docs/steering.md."""


class SteeringMode(StrEnum):
    """What makes kube-scheduler take the planned nodes.

    A nomination is a second write for each pod, and can be taken back. A pin is part of the write that ungates, and is
    for ever: if its nodes refuse the pod, only deleting the pod helps. Pods that were never gated are always nominated,
    as are pods with node affinity terms of their own. ``auto``: in a small cluster nothing is written but what ungates,
    because kube-scheduler looks at every node there, and the filter leaves the planned one; else a nomination.
    """

    AUTO = "auto"
    NOMINATE = "nominate"
    PIN_DOMAIN = "pin-domain"
    PIN_NODE = "pin-node"


_UNPINNED = (SteeringMode.AUTO, SteeringMode.NOMINATE)


class Ways:
    """How each pod is led in this mode."""

    def __init__(self, state: State, mode: SteeringMode) -> None:
        self._state = state
        self._mode = mode

    def need_no_nomination(self, workload: Workload, pod: Pod, node: str) -> bool:
        """Whether it is enough to ungate the pod. Plugins that look at other pods have to see those nominated."""
        if self._mode is not SteeringMode.AUTO:
            return bool(self.pin(workload, pod, node))
        small = len(self._state.claims.nodes) <= _MOST_SCANNED
        return small and GANG_GATE in pod.gates and pod.constraints is UNCONSTRAINED

    def pin(self, workload: Workload, pod: Pod, node: str) -> tuple[str, ...]:
        """The nodes to pin it to when it is ungated; none if it is led otherwise."""
        # Terms that are there already can be narrowed only one by one: leave them to their owner.
        if self._mode in _UNPINNED or GANG_GATE not in pod.gates or pod.selection.affinity is not None:
            return ()
        if any(spread.needs_choice for spread in pod.constraints.spread):
            return ()
        match self._mode:
            case SteeringMode.PIN_NODE:
                return (node,)
            case SteeringMode.PIN_DOMAIN:
                return self._domain(workload.asking(pod), node)
        return ()

    def _domain(self, pod: Pod, node: str) -> tuple[str, ...]:
        """The nodes of the domain that it has to stay in, or of the largest one inside that is small enough for a pin.

        What asks for no level gets the domain of the nearest. None where there is no such domain.
        """
        view = seen_by([pod], self._state.claims.snapshot())
        row, rules = view.rows.get(node), rules_of([pod], view)
        if row is None or isinstance(rules, Unclear):
            return ()
        for level in reversed(view.levels[: rules.widest + 1]):
            code = int(level.codes[row])
            rows = level.domain(code).rows if code >= 0 else ()
            if 0 < len(rows) <= _LARGEST_PIN:
                return tuple(sorted(view.names[one] for one in rows))
        return ()
