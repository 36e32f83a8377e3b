"""PodDisruptionBudgets: how many of the pods that they select may be evicted."""

from __future__ import annotations

from dataclasses import dataclass

from policies.model.constraints import Selector


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """``allowed``: how many more of its pods may be evicted now. ``selector``: its pods, in its namespace."""

    namespace: str
    name: str
    selector: Selector
    allowed: int = 0

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
