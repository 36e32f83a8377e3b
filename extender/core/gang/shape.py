"""What gangs ask of the planner, and what makes them alike to it: those of one shape fit or do not fit together."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from extender.core.reasons import Reason
from policies.model import Pod, SlotKey
from policies.placement.request import Cap, MemberShape

Role = MemberShape


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """Equal ones are one object: ``Demands`` sees to that.

    ``needed``: how many members have to be placed at once. ``roles``: how many there are of each. ``caps``: what
    kube-scheduler has refused. ``kept``: slots whose room is kept for replacements. ``tied``: what else matters
    where the topology has rules: the members' indexes, and where the others are; where other pods matter, the members'
    labels. ``related``: whether other pods matter. ``priority``: the workload's own, which decides who
    gives way to it, and its pods', which decides which pods of no gang have their room before it.
    """

    needed: int
    roles: tuple[tuple[Role, int], ...]
    caps: tuple[Cap, ...]
    kept: tuple[SlotKey, ...]
    tied: tuple[object, ...]
    related: bool = False
    priority: tuple[int, int] = 0, 0
    __weakref__: object = field(init=False, repr=False)


@dataclass(frozen=True, slots=True)
class Demand:
    """What a workload asks of the planner: nodes for ``pods``, without a ``shape`` nothing. Right as of ``version``.

    ``pods``: those that stand for the slots without a node, in rank order, with what the PodGroup asks for. ``trouble``
    is what keeps it from being planned at all.
    """

    version: int
    trouble: Reason | None = None
    pods: tuple[Pod, ...] = ()
    shape: Shape | None = None

    def among(self, slots: Collection[SlotKey]) -> Demand:
        """The same for the pods that stand for these alone."""
        return replace(self, pods=tuple(pod for pod in self.pods if pod.identity in slots))
