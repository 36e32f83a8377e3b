"""What is shown on a terminal: plain text and tables, in which nothing that a pod's author wrote has any effect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

_WIDE = 160
"""Columns where there is no terminal whose width could be asked."""


def console(*, stderr: bool = False) -> Console:
    """Not cut to 80 columns when it is a file or a pipe."""
    out = Console(stderr=stderr, markup=False, highlight=False)
    return out if out.is_terminal else Console(stderr=stderr, markup=False, highlight=False, width=_WIDE)


def plain(text: object, style: str = "") -> Text:
    """Text without markup; control characters are shown, not obeyed."""
    said = str(text)
    return Text("".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in said), style)


def grid(heads: Iterable[str], rows: Iterable[Sequence[str | Text]]) -> Table:
    """A table. Columns whose heading begins with # are numbers, to the right."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for head in heads:
        table.add_column(plain(head.lstrip("#")), justify="right" if head[:1] == "#" else "left", overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else plain(cell) for cell in row))
    return table


def stop(message: str) -> NoReturn:
    """End with a sentence and exit code 2."""
    typer.secho(message, err=True, fg="red")
    raise typer.Exit(2)


@contextmanager
def stop_on(*errors: type[Exception]) -> Iterator[None]:
    """Stop with the message of such an error. After Ctrl-C end with exit code 130."""
    try:
        yield
    except errors as error:
        stop(str(error))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
