"""What makes gangs alike to the planner: those of one shape fit or do not fit together."""

from __future__ import annotations

from dataclasses import dataclass, field

from policies.model import Requests, Selection, SlotKey, Topology


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """Equal ones are one object: ``Demands`` sees to that.

    ``needed``: how many members have to be placed at once. ``roles``: how many there are with the same requests,
    selection and topology. ``refused``: nodes that kube-scheduler would not have. ``kept``: slots whose room is kept
    for replacements. ``tied``: what else matters where the topology has rules: the members' indexes, and where the
    others are.
    """

    needed: int
    roles: tuple[tuple[tuple[Requests, Selection, Topology], int], ...]
    refused: tuple[str, ...]
    kept: tuple[SlotKey, ...]
    tied: tuple[object, ...]
    __weakref__: object = field(init=False, repr=False)
