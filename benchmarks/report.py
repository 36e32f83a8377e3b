"""Puts the committed results into the documents: `python -m benchmarks.report`, with --check to compare only.

In the document, `<!-- figures: NAME -->` and `<!-- end -->` enclose what is made from benchmarks/results/NAME.json.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.benchmark import Table
from benchmarks.capacity import capacity
from benchmarks.goals import judged
from benchmarks.kinds import kind_of, runs_of
from benchmarks.official import RESULTS
from benchmarks.record import Content, RecordError, read
from benchmarks.summary import summary

DOCS = Path(__file__).parent.parent / "docs"
DOCUMENTS = (
    RESULTS / "README.md",
    *(DOCS / f"{page}.md" for page in ("benchmarks", "high-availability", "operations")),
)
_PLACE = re.compile(r"(<!-- figures: (\S+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def main(
    check: Annotated[bool, typer.Option(help="Change nothing; exit code 1 if the document is not up to date.")] = False,
) -> None:
    """Write the tables of the documents from the results files."""
    try:
        current = up_to_date()
        if not check:
            write()
    except RecordError as error:
        typer.secho(str(error), err=True, fg="red")
        raise typer.Exit(2) from None
    raise typer.Exit(1 if check and not current else 0)


def up_to_date() -> bool:
    """Whether the documents agree with the results files. Raises RecordError."""
    return all(filled(text := document.read_text(), RESULTS) == text for document in DOCUMENTS)


def write() -> None:
    """Fill the documents. Raises RecordError."""
    for document in DOCUMENTS:
        document.write_text(filled(document.read_text(), RESULTS))


def filled(document: str, results: Path) -> str:
    """The document with every place filled from the results. Raises RecordError."""
    contents = {path.stem: read(path) for path in sorted(results.glob("*.json"))}
    return _PLACE.sub(lambda place: f"{place[1]}{figures(place[2], contents, results)}{place[4]}", document)


def figures(name: str, contents: Mapping[str, Content], results: Path) -> str:
    """The text of one place in the document."""
    if name == "goals":
        return markdown(judged(contents))
    if name == "capacity":
        return markdown(capacity(contents))
    if name == "summary":
        return markdown(summary(contents))
    content = contents.get(name)
    if content is None:
        return "Not measured yet.\n"
    parts = [f"Measured on {content.measured}: {content.about}. Settings: {settings_text(content.settings)}.\n"]
    parts += [
        f"**{table.title}**\n\n{markdown(table)}" for table in kind_of(content.benchmark).tables(runs_of(content))
    ]
    if (results / f"{name}.svg").exists():
        parts.append(f"![{name}: the same over time]({name}.svg)\n")
    return "\n".join(parts)


def markdown(table: Table) -> str:
    aligned = ["---", *("---:" for _ in table.columns[1:])]
    return "".join(f"| {' | '.join(row)} |\n" for row in (table.columns, aligned, *table.rows))


def settings_text(settings: Mapping[str, Any]) -> str:
    """Return the settings of a benchmark as its table names them; what is switched off is left out."""
    return ", ".join(f"{name} {_value(value)}" for name, value in settings.items() if value is not False)


def _value(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value))
    return value if isinstance(value, str) else f"{value:g}"


if __name__ == "__main__":
    typer.run(main)
