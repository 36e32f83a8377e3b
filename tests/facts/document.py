"""Makes three pages of the facts: what Kubernetes does, what controllers of jobs do, and what follows for Muster."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from devcluster import binaries
from tests.facts.fact import FOLDER, Fact, Section, sections
from tests.facts.results import Run, load

_DOCS = FOLDER.parent.parent / "docs"
PAGE = _DOCS / "kubernetes-facts.md"
CONTROLLERS = _DOCS / "controller-facts.md"
CONSEQUENCES = FOLDER / "README.md"
NOT_MEASURED = "(not measured)"
RECOMMENDATIONS = FOLDER / "recommendations"

_HEAD = """# {title}

Each row is a test on a real control plane. Muster's design rests on them, and yours may, too. The quick ones run with
every `make test`, on {version}. {other} When the others last ran, and what follows for Muster, is on
[a page for its developers](../tests/facts/README.md). CPU is that of a process, user and system, for each object.
"""
_CONSEQUENCES_HEAD = """# What follows for Muster

Made of the tests in this folder, as is [what Kubernetes does](../../docs/kubernetes-facts.md): change them, not the
pages. After a raise of the version of Kubernetes run `make facts` again. The figures of the slow facts, with machine
and commit, are in `results/`.
"""
_CONTROLLER = "test_controller_"
_FIGURE = re.compile(r"\{([\w.-]+):(\w+)\}")


def documents() -> dict[Path, str]:
    """Return each page as it has to be."""
    ours = [section for section in sections() if not section.module.startswith(_CONTROLLER)]
    theirs = [section for section in sections() if section.module.startswith(_CONTROLLER)]
    other = "[What the controllers of jobs do](controller-facts.md) is a page of its own."
    return {
        PAGE: _page(_facts("What Kubernetes does", other, ours)),
        CONTROLLERS: _page(_facts("What the controllers of jobs do", "", theirs)),
        CONSEQUENCES: _page(_consequences(sections())),
    }


def write() -> None:
    """Write the pages."""
    for page, text in documents().items():
        page.write_text(text)


def _page(lines: Iterator[str]) -> str:
    return "\n".join(lines) + "\n"


def _facts(title: str, other: str, chosen: list[Section]) -> Iterator[str]:
    yield _HEAD.format(title=title, version=binaries.kubernetes_version(), other=other)
    for section in chosen:
        runs = load(section.module)
        yield f"## {section.title}\n"
        yield "| fact | result |"
        yield "|---|---|"
        yield from (_row(one, runs.get(one.id)) for one in section.facts)
        yield ""


def _consequences(known: list[Section]) -> Iterator[str]:
    yield _CONSEQUENCES_HEAD
    figures = {
        f"{known_as}:{name}": value
        for section in known
        for known_as, run in load(section.module).items()
        for name, value in run.figures.items()
    }
    for path in sorted(RECOMMENDATIONS.glob("*.md")):
        yield _FIGURE.sub(lambda found: str(figures.get(f"{found[1]}:{found[2]}", NOT_MEASURED)), path.read_text())
    yield "## Fact by fact\n"
    yield "| fact | consequence | last run |"
    yield "|---|---|---|"
    for section in known:
        runs = load(section.module)
        yield from (
            f"| {one.id} | {_cell(one.consequence)} | {_last(one, runs.get(one.id))} |" for one in section.facts
        )


def _row(one: Fact, run: Run | None) -> str:
    result = one.result.format_map(defaultdict(lambda: NOT_MEASURED, run.figures if run else {}))
    return f"| **{one.id}** {_cell(one.sentence)} | {_cell(result)} |"


def _last(one: Fact, run: Run | None) -> str:
    if one.slow:
        return f"{run.date}, {run.kubernetes}" if run else "never"
    return "`make test`" + (f", figures {run.date}" if run else "")


def _cell(text: str) -> str:
    return text.replace("|", "&#124;")
