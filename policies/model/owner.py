"""An object whose pods are gangs without naming one: a StatefulSet, a Deployment and the like."""

from __future__ import annotations

from dataclasses import dataclass

from policies.model.controller import Controller
from policies.model.group import GroupKey
from policies.model.workload import PodSet


@dataclass(frozen=True, slots=True)
class GangOwner:
    """``key``: by which pods name it (``GroupRef.owner``). ``controller``: the object itself.

    ``minimum``: how many pods have to start together; None where each pod says the size of its gang. ``podset``: what
    will come of each of its gangs, where its controller makes some pods only when others run; the series is that of
    the gang's pods. ``problem``: what in it cannot be read. ``restarts``: when a pod of a gang goes, its controller
    makes all of that gang anew.
    """

    key: GroupKey
    controller: Controller
    minimum: int | None = None
    podset: PodSet | None = None
    problem: str = ""
    restarts: bool = False

    @property
    def uid(self) -> str:
        return self.controller.uid
