"""What makes gangs alike to the planner: those of one shape fit or do not fit together."""

from __future__ import annotations

from dataclasses import dataclass, field

from policies.model import Requests, Selection, Topology


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """Equal ones are one object: ``Planner`` sees to that.

    ``needed``: how many members have to be placed at once. ``roles``: how many there are with the same requests,
    selection and topology. ``refused``: nodes that kube-scheduler would not have. ``kept``: lost members whose room the
    gang has. ``tied``: what else matters where the topology has rules: the members' indexes, and where the others are.
    """

    needed: int
    roles: tuple[tuple[tuple[Requests, Selection, Topology], int], ...]
    refused: tuple[str, ...]
    kept: tuple[str, ...]
    tied: tuple[object, ...]
    __weakref__: object = field(init=False, repr=False)
