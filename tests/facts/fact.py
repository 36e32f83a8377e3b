"""The facts, in words: the decorator that every fact carries, and the list of all facts."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent
SLOW_LIMIT_S = 3600


@dataclass(frozen=True)
class Fact:
    """A row of the pages. `{name}` in the result stands for a figure that the test has measured.

    ``for_users``: it matters to people who run jobs, with or without Muster, and stands in docs, too.
    """

    id: str
    sentence: str
    result: str
    consequence: str
    slow: bool
    for_users: bool
    module: str


@dataclass(frozen=True)
class Section:
    """The facts of one module, in their order; the title is the first line of its docstring."""

    module: str
    title: str
    facts: tuple[Fact, ...]

    def for_users(self) -> Section:
        """Return the section with those facts alone that users need."""
        return replace(self, facts=tuple(known for known in self.facts if known.for_users))


def fact(
    id: str,  # noqa: A002
    sentence: str,
    *,
    result: str,
    consequence: str,
    slow: bool = False,
    for_users: bool = False,
) -> Callable[[Any], Any]:
    """Make a test a fact. `slow`: it takes minutes, or another project's program, and runs with `make facts` alone."""

    def wrap(test: Any) -> Any:
        test.fact = Fact(id, sentence, result, consequence, slow, for_users, test.__module__.rpartition(".")[2])
        return pytest.mark.timeout(SLOW_LIMIT_S)(pytest.mark.slow_fact(test)) if slow else test

    return wrap


def sections() -> list[Section]:
    """All facts, by module in the order of the modules' names."""
    modules = (importlib.import_module(f"tests.facts.{path.stem}") for path in sorted(FOLDER.glob("test_*.py")))
    all_sections = [
        Section(module.__name__.rpartition(".")[2], _title(module.__doc__ or ""), tuple(_facts(vars(module).values())))
        for module in modules
    ]
    return [section for section in all_sections if section.facts]


def _facts(members: Iterable[object]) -> list[Fact]:
    return [known for member in members if isinstance(known := getattr(member, "fact", None), Fact)]


def _title(docstring: str) -> str:
    return docstring.strip().splitlines()[0].removesuffix(".")
