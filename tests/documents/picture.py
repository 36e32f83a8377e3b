"""Draw docs/architecture.svg, Muster's packages as a ladder, from the imports: `make picture`.

A part imports only parts on rungs below its own, so each stands as low as its imports allow. The text beside it is the
first sentence of its docstring.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from html import escape
from textwrap import wrap

import grimp

from tests.documents.pages import ROOT

PICTURE = ROOT / "docs" / "architecture.svg"

Rung = list[str]
"""Modules that do not import each other, by name."""

_WIDTH, _MARGIN, _NAME, _TEXT = 960, 14, 28, 190
_LINE, _PAD, _GAP, _COLUMNS = 19, 7, 6, 112
_STYLE = """
  text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; fill: #57606a }
  .name { font: 600 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #1f2328 }
  .title { font-size: 15px } .page { fill: #ffffff } .rung { fill: #f6f8fa; stroke: #d0d7de }
  @media (prefers-color-scheme: dark) {
    text { fill: #9da7b3 } .name { fill: #e6edf3 } .page { fill: #0d1117 } .rung { fill: #161b22; stroke: #3d444d }
  }
"""


def first_sentence(module: str) -> str:
    """Read the first sentence of a module's docstring."""
    path = ROOT.joinpath(*module.split("."))
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = " ".join((ast.get_docstring(ast.parse(source.read_text())) or "").replace("`", "").split())
    return re.split(r"(?<=\.) ", text, maxsplit=1)[0]


def rungs(graph: grimp.ImportGraph, package: str) -> list[Rung]:
    """Sort the parts of a package into rungs, the lowest first. Raises graphlib.CycleError if parts form a circle."""
    parts = graph.find_children(package)
    for module in parts:
        graph.squash_module(module)
    order = TopologicalSorter(
        {module: graph.find_modules_directly_imported_by(module) & (parts - {module}) for module in parts}
    )
    order.prepare()
    ladder: list[Rung] = []
    while order.is_active():
        ready = order.get_ready()
        ladder.append(sorted(ready))
        order.done(*ready)
    return ladder


def ladders() -> Iterator[tuple[str, list[Rung]]]:
    """List the drawn ladders: `dashboard`, `extender` and its core, what they rest on, and what does not ship."""
    graph = grimp.build_graph("dashboard", "extender", "policies", cache_dir=None)
    core = rungs(graph, "extender.core")
    yield "dashboard", rungs(graph, "dashboard")
    yield "extender", rungs(graph, "extender")
    yield "extender.core", core
    yield "policies", [sorted(f"policies.{path.parent.name}" for path in ROOT.glob("policies/*/__init__.py"))]
    yield "", [["benchmarks", "charts", "devcluster", "tests"]]


def draw() -> str:
    """Draw all ladders, the highest rung of each on top, as one SVG that is readable on light and dark pages."""
    lines: list[str] = []
    y = _MARGIN
    for package, ladder in ladders():
        if package:
            lines += _row(y, package.replace(".", "/") + "/", first_sentence(package), " title")
            y += _LINE + _GAP
        for rung in reversed(ladder):
            rows = list(_rows(rung))
            size = f'width="{_WIDTH - 2 * _MARGIN}" height="{len(rows) * _LINE + _PAD}"'
            lines.append(f'<rect class="rung" x="{_MARGIN}" y="{y}" {size} rx="4"/>')
            for name, text in rows:
                lines += _row(y + _PAD // 2, name, text)
                y += _LINE
            y += _PAD + _GAP
        y += _GAP
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y}" role="img">'
    page = f'<rect class="page" width="{_WIDTH}" height="{y}"/>'
    return "\n".join([head, f"<style>{_STYLE}</style>", page, *lines, "</svg>\n"])


def _rows(rung: Rung) -> Iterator[tuple[str, str]]:
    """Each part of a rung with its sentence, which may take several rows."""
    for module in rung:
        is_package = ROOT.joinpath(*module.split(".")).is_dir()
        name = module.rpartition(".")[2] + ("/" if is_package else ".py")
        for line in wrap(first_sentence(module), _COLUMNS):
            yield name, line
            name = ""


def _row(y: int, name: str, text: str, style: str = "") -> Iterator[str]:
    base = y + _LINE - 5
    if name:
        yield f'<text class="name{style}" x="{_NAME}" y="{base}">{escape(name)}</text>'
    yield f'<text x="{_TEXT}" y="{base}">{escape(text)}</text>'


if __name__ == "__main__":
    PICTURE.write_text(draw())
