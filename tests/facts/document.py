"""Makes docs/kubernetes-facts.md of the facts, of their last runs, and of the recommendations."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from devcluster import binaries
from tests.facts.fact import FOLDER, Fact, Section, sections
from tests.facts.results import Run, load

PAGE = FOLDER.parent.parent / "docs" / "kubernetes-facts.md"
NOT_MEASURED = "(not measured)"
RECOMMENDATIONS = FOLDER / "recommendations"

_HEAD = """# What Kubernetes does

Each row is a test in `tests/facts/` on a real control plane. This page is made from the tests: change them, not the
page. The quick facts run with every `make test`. The slow ones take minutes, or a program of another project: they and
the measurements run with `make facts`, which writes down when it did and makes this page again. After a raise of the
version of Kubernetes run it again. CPU is what a process used, user and system, divided by the
number of objects.
"""
_FIGURE = re.compile(r"\{([\w.-]+):(\w+)\}")


def document() -> str:
    """The page as it has to be."""
    return "\n".join(_lines(sections())) + "\n"


def _lines(known: list[Section]) -> Iterator[str]:
    yield _HEAD
    runs = {section.module: load(section.module) for section in known}
    for section in known:
        yield f"## {section.title}\n"
        yield "| fact | result | consequence | Kubernetes | last run |"
        yield "|---|---|---|---|---|"
        yield from (_row(one, runs[section.module].get(one.id)) for one in section.facts)
        yield ""
    figures = {
        f"{known_as}:{name}": value
        for one in runs.values()
        for known_as, run in one.items()
        for name, value in run.figures.items()
    }
    yield "## Recommendations\n"
    for path in sorted(RECOMMENDATIONS.glob("*.md")):
        yield _FIGURE.sub(lambda found: str(figures.get(f"{found[1]}:{found[2]}", NOT_MEASURED)), path.read_text())
    yield "## Slow runs and measurements\n"
    yield "| fact | date | machine | Kubernetes | commit |"
    yield "|---|---|---|---|---|"
    for section in known:
        for one in section.facts:
            if run := runs[section.module].get(one.id):
                yield f"| `{one.id}` | {run.date} | {run.machine} | {run.kubernetes} | {run.commit} |"


def _row(one: Fact, run: Run | None) -> str:
    result = one.result.format_map(defaultdict(lambda: NOT_MEASURED, run.figures if run else {}))
    version = run.kubernetes if run and one.slow else binaries.kubernetes_version()
    if one.slow:
        last = run.date if run else "never"
    else:
        last = "every `make test`" + (f", figures {run.date}" if run else "")
    cells = (f"**{one.id}** {one.sentence}", result, one.consequence, version, last)
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"
