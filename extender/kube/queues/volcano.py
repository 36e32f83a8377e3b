"""Queues of ``scheduling.volcano.sh`` as the decision by quota knows them, with what is wrong in each."""

from __future__ import annotations

from collections.abc import Mapping

from extender.kube.queues.read import (
    MOST,
    NOT_IMPLEMENTED,
    Amount,
    GuaranteeSpec,
    Notes,
    Read,
    VolcanoQueueObject,
    VolcanoQueueSpec,
    VolcanoQueueStatus,
    amount_of,
    weight_of,
)
from extender.kube.reading.identity import name_of
from extender.kube.reading.plain import plain
from policies.model.queues import VolcanoQueue

_CLOSED = ("Closed", "Closing")
_MOST_PRIORITY = (1 << 31) - 1
"""The limit of an int32."""


def volcano_queue_from(obj: VolcanoQueueObject) -> Read[VolcanoQueue]:
    """Read a Volcano Queue. Raises UnreadableError without a name."""
    notes, spec, status = Notes(), obj.spec or VolcanoQueueSpec(), obj.status or VolcanoQueueStatus()
    guarantee = spec.guarantee or GuaranteeSpec()
    queue = VolcanoQueue(
        name_of(obj.metadata, "Queue"),
        weight_of(spec.weight, "spec.weight", notes),
        capability=_amounts(spec.capability, "spec.capability", notes),
        deserved=_amounts(spec.deserved, "spec.deserved", notes),
        guarantee=_amounts(guarantee.resource, "spec.guarantee.resource", notes),
        parent=plain(spec.parent or ""),
        reclaimable=spec.reclaimable is not False,
        closed=(status.state or spec.state) in _CLOSED,
        priority=_priority(spec.priority or 0, notes),
    )
    for name, most in queue.capability.items():
        if queue.guarantee.get(name, 0) > most:
            notes.problems.append(f"it is guaranteed more {name} than its capability")
        if queue.deserved.get(name, 0) > most:
            notes.warnings.append(f"it deserves more {name} than its capability, which is what counts")
    if spec.affinity:
        notes.warnings.append(NOT_IMPLEMENTED.format("spec.affinity"))
    if spec.dequeue_strategy not in (None, "", "traverse"):
        notes.warnings.append(NOT_IMPLEMENTED.format(f"spec.dequeueStrategy {plain(spec.dequeue_strategy)}"))
    return notes.read(queue)


def _priority(declared: int, notes: Notes) -> int:
    if not -_MOST_PRIORITY <= declared <= _MOST_PRIORITY:
        notes.problems.append(f"spec.priority is {declared}; it must be within {_MOST_PRIORITY}")
        return 0
    return declared


def _amounts(declared: Mapping[str, Amount] | None, field: str, notes: Notes) -> dict[str, int]:
    items = [*(declared or {}).items()]
    notes.most(field, items)
    return {
        (name := plain(key)): amount_of(amount, name, f"{field} of {name}", notes) or 0 for key, amount in items[:MOST]
    }
