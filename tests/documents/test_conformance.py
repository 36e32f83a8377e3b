"""The examples of the decision as a function, on the page of its package and in its docstring, come out as they say."""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent
from typing import Any

import pytest

from tests import conformance
from tests.builders import busy, cluster, snapshot
from tests.documents.pages import ROOT, blocks

PAGE = ROOT / "tests" / "conformance" / "README.md"
QUOTA, PREEMPTION = (block.text for block in blocks(PAGE) if block.language == "python")
PRINTED, *ANSWERS = (block.text for block in blocks(PAGE) if block.language == "text")


def test_the_example_of_quota_prints_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(QUOTA, PAGE.name, "exec"), {})  # noqa: S102
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == PRINTED.splitlines()


def test_the_example_of_preemption_evicts_what_the_page_says() -> None:
    names: dict[str, Any] = {}
    exec(compile(PREEMPTION, PAGE.name, "exec"), names)  # noqa: S102
    full = snapshot(cluster("a: 2x8", "b: 2x8"), *busy("a-0 a-1 b-0 b-1", 8))
    old, saved, young, production = names["there"]
    lower, higher = replace(production, priority=100), replace(production, priority=1000)
    answers = [
        names["evicted"](full),
        names["evicted"](full, [old, saved, young, lower]),
        names["evicted"](full, [replace(old, protected="it is protected"), saved, young, higher]),
    ]
    assert answers[:2] == ANSWERS[:2]
    assert answers[2].startswith(ANSWERS[2])


def test_the_example_of_the_package_runs() -> None:
    example = (conformance.__doc__ or "").partition("A case::\n")[2].partition("\nMore cases")[0]
    names: dict[str, object] = {}
    exec(compile(dedent(example), "tests.conformance", "exec"), names)  # noqa: S102
    assert "decision" in names
