"""Who asks, and what that person may see: the API server says both. Whatever it does not confirm is not shown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol


class UnknownPersonError(Exception):
    """The token is none that the API server knows."""


class UndecidedError(Exception):
    """The API server cannot be asked; the message says why."""


@dataclass(frozen=True, slots=True)
class Person:
    """``namespaces``: those whose pods the person may list. ``sees_all``: the pods of every namespace."""

    name: str
    namespaces: frozenset[str] = frozenset()
    sees_all: bool = False

    def sees(self, namespace: str) -> bool:
        """Whether the workloads of the namespace may be shown."""
        return self.sees_all or namespace in self.namespaces


class Access(Protocol):
    """Looks people up."""

    async def person(self, token: str, namespaces: Iterable[str]) -> Person:
        """Return who the token is of, and which of the namespaces that person sees.

        Raises UnknownPersonError and UndecidedError.
        """
