"""What there is to know of one project's words."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from extender.kube.reading.objects import Meta
from policies.model import Dialect, Minima


def nothing(_: Meta, __: str) -> None:
    """Nothing that is said keeps Muster from reading it."""


class Words(NamedTuple):
    """The keys of one project, each an annotation or a label of a pod.

    ``names``: any of them names the gang. ``sizes``: any of them says its minMember; none where an object says it.
    ``role``: says which role of the gang the pod has.
    ``naming``: how names are found where that is not by ``names`` alone. ``minima``: the minimum of each role of the
    gang, or why it cannot be read, where pods say it.
    ``refused(meta, name)``: what is said beside that and is not implemented, as a sentence; None if there is nothing.
    """

    dialect: Dialect
    names: tuple[str, ...]
    sizes: tuple[str, ...] = ()
    role: str = ""
    refused: Callable[[Meta, str], str | None] = nothing
    more: tuple[str, ...] = ()
    """Other keys that are read."""
    naming: Callable[[Meta], list[tuple[str, str]]] | None = None
    minima: Callable[[Meta], Minima | str] | None = None

    def named(self, meta: Meta) -> list[tuple[str, str]]:
        """Each name that the pod says, after its key. An empty one names nothing, as in the projects themselves."""
        if self.naming is not None:
            return self.naming(meta)
        return [(key, name) for key in self.names for name in meta.said(key) if name]

    @property
    def read(self) -> tuple[str, ...]:
        """Every key that is read."""
        return (*self.names, *self.sizes, *([self.role] if self.role else []), *self.more)
