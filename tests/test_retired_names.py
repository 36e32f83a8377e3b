"""Names that were retired stay away: a reader needs the body of a function to understand them."""

from __future__ import annotations

import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
RETIRED = dict(
    line.split() for line in (HERE / "retired_names.txt").read_text().splitlines() if not line.startswith("#")
)
FILES = sorted(file for package in ("extender", "policies") for file in (HERE.parent / package).rglob("*.py"))


def names(file: Path) -> Iterator[tuple[str, int]]:
    """Yield the names in the code of a file with their lines; texts and comments may have any word."""
    for token in tokenize.generate_tokens(io.StringIO(file.read_text()).readline):
        if token.type == tokenize.NAME:
            yield token.string, token.start[0]


@pytest.mark.parametrize("package", ["extender", "policies"])
def test_no_name_is_a_retired_one(package: str) -> None:
    faults = [
        f"{file}:{line}: {name}: say {RETIRED[name]}"
        for file in FILES
        if package in file.relative_to(HERE.parent).parts[:1]
        for name, line in names(file)
        if name in RETIRED
    ]
    assert not faults, "\n".join(faults)


def test_the_names_that_stand_for_them_are_no_retired_ones() -> None:
    assert not RETIRED.keys() & set(RETIRED.values())
    assert list(RETIRED) == sorted(RETIRED)
