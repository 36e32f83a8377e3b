"""Makes the pages of the facts.

docs has the facts that users need: what Kubernetes does, and what controllers of jobs do. This folder has all of them,
and what follows for Muster.
"""

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
ALL = FOLDER / "all.md"
CONSEQUENCES = FOLDER / "README.md"
NOT_MEASURED = "(not measured)"
RECOMMENDATIONS = FOLDER / "recommendations"

_KUBERNETES_HEAD = """# What Kubernetes does

What happens to Jobs when a node is lost, a Job is suspended or a manifest is applied again. Each item is a test on a
real control plane ({version}). [Other facts](../tests/facts/all.md), and
[what follows for Muster](../tests/facts/README.md), are for its developers.
"""
_CONTROLLERS_HEAD = """# What the controllers of jobs do

What happens to a job without Muster when it is suspended, scaled or loses a pod. Each item is a test with the
real controller. [kinds.md](kinds.md) says what Muster makes of it.
"""
_ALL_HEAD = """# All facts

Each item is a test on a real control plane ({version}). CPU is that of a process, user and system, for each object.
"""
_CONSEQUENCES_HEAD = """# What follows for Muster

Made of the tests in this folder, as are [all facts](all.md): change them, not the
pages. After a raise of the version of Kubernetes run `make facts` again. The figures of the slow facts, with machine
and commit, are in `results/`.
"""
_CONTROLLER = "test_controller_"
_FIGURE = re.compile(r"\{([\w.-]+):(\w+)\}")


def documents() -> dict[Path, str]:
    """Return each page as it has to be."""
    useful = [reduced for section in sections() if (reduced := section.for_users()).facts]
    kubernetes = [section for section in useful if not section.module.startswith(_CONTROLLER)]
    controllers = [section for section in useful if section.module.startswith(_CONTROLLER)]
    return {
        PAGE: _page(_facts(_KUBERNETES_HEAD, kubernetes, ids=False)),
        CONTROLLERS: _page(_facts(_CONTROLLERS_HEAD, controllers, ids=False)),
        ALL: _page(_facts(_ALL_HEAD, sections(), ids=True)),
        CONSEQUENCES: _page(_consequences(sections())),
    }


def write() -> None:
    """Write the pages."""
    for page, text in documents().items():
        page.write_text(text)


def _page(lines: Iterator[str]) -> str:
    return "\n".join(lines) + "\n"


def _facts(head: str, chosen: list[Section], *, ids: bool) -> Iterator[str]:
    yield head.format(version=binaries.kubernetes_version())
    for section in chosen:
        runs = load(section.module)
        yield f"## {section.title}\n"
        yield from (_line(fact, runs.get(fact.id), f"**{fact.id}** " if ids else "") for fact in section.facts)
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
        yield _FIGURE.sub(lambda match: str(figures.get(f"{match[1]}:{match[2]}", NOT_MEASURED)), path.read_text())
    yield "## Fact by fact\n"
    yield "| fact | consequence | last run |"
    yield "|---|---|---|"
    for section in known:
        runs = load(section.module)
        yield from (
            f"| {fact.id} | {_cell(fact.consequence)} | {_last(fact, runs.get(fact.id))} |" for fact in section.facts
        )


def _line(one: Fact, run: Run | None, name: str) -> str:
    result = one.result.format_map(defaultdict(lambda: NOT_MEASURED, run.figures if run else {}))
    return f"- {name}*{one.sentence}* {result}"


def _last(one: Fact, run: Run | None) -> str:
    if one.slow:
        return f"{run.date}, {run.kubernetes}" if run else "never"
    return "`make test`" + (f", figures {run.date}" if run else "")


def _cell(text: str) -> str:
    return text.replace("|", "&#124;")
