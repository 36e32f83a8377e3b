"""The examples of the decisions for conformance, on docs/queues.md and in their package, come out as they say."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tests import conformance
from tests.documents.pages import ROOT, blocks

PAGE = ROOT / "docs" / "queues.md"


def test_the_example_of_the_page_prints_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    every = list(blocks(PAGE))
    [at] = (at for at, block in enumerate(every) if block.language == "python")
    example, printed = every[at].text, every[at + 1].text
    exec(compile(example, PAGE.name, "exec"), {})  # noqa: S102
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == printed.splitlines()


def test_the_example_of_the_package_runs() -> None:
    example = (conformance.__doc__ or "").partition("A case::\n")[2].partition("\nMore cases")[0]
    names: dict[str, object] = {}
    exec(compile(dedent(example), "tests.conformance", "exec"), names)  # noqa: S102
    assert "decision" in names
