"""Output on a terminal: plain text and tables, in which text from a pod's author has no effect."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import typer
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

_WIDE = 160
"""The columns of running text if no terminal can tell its width."""
_GAP = "   "
_READABLE = 40
"""A text with at least this many columns shares the lines of its row; else it has lines of its own below the row."""


class Terminal(Console):
    """A console that wraps between words only. A name that is longer than the line is neither broken nor cut.

    ``untruncated``: tables show all columns, in lines as long as they get.
    """

    untruncated = False

    def print(self, *objects: Any, **how: Any) -> None:
        texts = [
            _Words(Text(obj) if isinstance(obj, str) else obj) if isinstance(obj, str | Text) else obj
            for obj in objects
        ]
        super().print(*texts, **{"crop": False, **how})


def console(*, stderr: bool = False, wide: bool = False) -> Terminal:
    """Return a console for that stream. In a file, a pipe, and where ``wide`` is asked for, tables are untruncated."""
    out = Terminal(stderr=stderr, markup=False, highlight=False)
    if not out.is_terminal:
        out = Terminal(stderr=stderr, markup=False, highlight=False, width=_WIDE)
    out.untruncated = wide or not out.is_terminal
    return out


def plain(text: object, style: str = "") -> Text:
    """Text without markup; control characters are shown, not obeyed."""
    string = str(text)
    shown = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in string)
    return Text(shown, style)


def grid(
    heads: Iterable[str], rows: Iterable[Sequence[str | Text]], *, drop: Sequence[str] = (), below: str = ""
) -> Grid:
    """Return a table that fits its terminal without breaking or cutting a cell.

    Columns whose heading begins with # are numbers, to the right. Where the terminal is too narrow, the column
    ``below`` gets lines of its own below each row. Then the columns of ``drop`` are left out, the first one first.
    Then the first column gets a line of its own above the others. What is too wide even so is printed as it is.
    """
    return Grid(
        list(heads), [[cell if isinstance(cell, Text) else plain(cell) for cell in row] for row in rows], drop, below
    )


class Grid:
    """A table, to be printed on a Terminal (``grid``). At least two columns are neither in ``drop`` nor ``below``."""

    def __init__(self, heads: list[str], rows: list[list[Text]], drop: Sequence[str], below: str) -> None:
        self._heads = [head.lstrip("#") for head in heads]
        self._right = [head[:1] == "#" for head in heads]
        self._rows = rows
        self._drop = drop
        self._below = below
        self._widths = [
            max([cell_len(head), *(cell_len(row[at].plain) for row in rows)]) for at, head in enumerate(self._heads)
        ]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lay the table out for the width of the console."""
        columns, dropped = list(range(len(self._heads))), list[str]()
        text = self._heads.index(self._below) if self._below else None
        width = None if getattr(console, "untruncated", False) else options.max_width
        room, stacked = None, False
        if width is not None and self._width(columns) > width:
            if text is not None:
                columns.remove(text)
                room = self._room_beside(text, columns, width)
            for head in self._drop:
                if self._width(columns) <= width or room:
                    break
                columns.remove(self._heads.index(head))
                dropped.append(head)
            stacked = self._width(columns) > width >= self._width(columns[1:]) + len(_GAP)
        beside = [*columns, text] if room and text is not None else columns
        yield from self._lines([Text(head, "bold") for head in self._heads], beside, room, stacked=stacked)
        longest = self._width(beside if room is None else columns) + (len(_GAP) + room if room else 0)
        yield Text("─" * (longest if width is None else min(longest, width)), no_wrap=True, overflow="ignore")
        for row in self._rows:
            yield from self._lines(row, beside, room, stacked=stacked)
            if text is not None and text not in beside:
                yield from _wrapped(row[text], _GAP, (width or _WIDE) - len(_GAP))
        if dropped:
            yield from _wrapped(
                Text(f"(not shown: {', '.join(dropped)}; -o wide shows all)", "dim"), "", width or _WIDE
            )

    def _width(self, columns: Sequence[int]) -> int:
        return sum(self._widths[at] for at in columns) + len(_GAP) * (len(columns) - 1)

    def _room_beside(self, text: int, columns: Sequence[int], width: int) -> int | None:
        """Return how many columns the text gets beside the others; None if those are too few to read it there."""
        room = width - self._width(columns) - len(_GAP)
        words = [cell_len(word) for row in self._rows for word in row[text].plain.split()]
        return room if room >= max([_READABLE, *words]) else None

    def _lines(self, row: Sequence[Text], columns: Sequence[int], room: int | None, *, stacked: bool) -> Iterator[Text]:
        """Yield the lines of one row.

        ``room``: the columns of the last cell, which may then have several lines.
        ``stacked``: the first cell has a line of its own.
        """
        if stacked:
            if row[columns[0]].plain:
                yield _line([row[columns[0]].copy()])
            yield from (Text(_GAP).append_text(line) for line in self._lines(row, columns[1:], room, stacked=False))
            return
        last = columns[-1]
        cells = [self._cell(row[at], at, last=at == last) for at in columns]
        if room is None:
            yield _line(cells)
            return
        texts = list(_wrapped(row[last], "", room)) or [Text()]
        yield _line([*cells[:-1], texts[0]])
        indent = " " * (self._width(columns[:-1]) + len(_GAP))
        for more in texts[1:]:
            yield _line([Text(indent).append_text(more)])

    def _cell(self, cell: Text, at: int, *, last: bool) -> Text:
        pad = " " * (self._widths[at] - cell_len(cell.plain))
        if self._right[at]:
            return Text(pad).append_text(cell)
        return cell.copy() if last else cell.copy().append(pad, "")


def _line(cells: Sequence[Text]) -> Text:
    line = Text(_GAP).join(cells)
    line.no_wrap, line.overflow = True, "ignore"
    line.rstrip()
    return line


class _Words:
    """A text that is wrapped between its words to the width of the console."""

    def __init__(self, text: Text) -> None:
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self._text.split(allow_blank=True):
            indent = " " * (len(line.plain) - len(line.plain.lstrip(" ")))
            yield from _wrapped(line, indent, options.max_width - len(indent)) if line.plain.strip() else [Text()]


def _wrapped(text: Text, indent: str, width: int) -> Iterator[Text]:
    """Return the text in lines of that width, broken between words only, each after the ``indent``."""
    begin = end = 0
    for word in re.finditer(r"\S+", text.plain):
        if end > begin and cell_len(text.plain[begin : word.end()]) > width:
            yield _line([Text(indent).append_text(text[begin:end])])
            end = begin = word.start()
        elif end == begin:
            begin = word.start()
        end = word.end()
    if end > begin:
        yield _line([Text(indent).append_text(text[begin:end])])


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
