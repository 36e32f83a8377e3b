"""Read PodDisruptionBudgets (policy/v1)."""

from __future__ import annotations

from msgspec import Struct

from extender.kube.reading.constraints import selector_of
from extender.kube.reading.identity import identity
from extender.kube.reading.objects import LabelSelector, Meta
from policies.model import DisruptionBudget


class BudgetMeta(Meta):
    generation: int | None = None


class BudgetSpec(Struct):
    selector: LabelSelector | None = None


class BudgetStatus(Struct, rename="camel"):
    disruptions_allowed: int | None = None
    observed_generation: int | None = None


class BudgetObject(Struct):
    """PodDisruptionBudget."""

    metadata: BudgetMeta | None = None
    spec: BudgetSpec | None = None
    status: BudgetStatus | None = None


def budget_from(obj: BudgetObject) -> DisruptionBudget:
    """Convert a budget. Like the API server, trust no status that is older than the spec. Raises UnreadableError."""
    meta, spec, status = obj.metadata or BudgetMeta(), obj.spec or BudgetSpec(), obj.status or BudgetStatus()
    _, namespace, name = identity(meta, "PodDisruptionBudget")
    current = (status.observed_generation or 0) >= (meta.generation or 0)
    return DisruptionBudget(
        namespace, name, selector_of(spec.selector), max(0, status.disruptions_allowed or 0) if current else 0
    )
