"""`muster convert`: read each file, rewrite its text, and show it or write it back."""

from __future__ import annotations

import sys
from errno import EBADF
from pathlib import Path
from typing import Annotated

import typer

from extender.cli.convert.rewrite import ConversionError, Rewritten, rewrite
from extender.cli.output import STANDARD_OUTPUT, Output, OutputError
from extender.cli.terminal import stop, stop_on
from policies.words import many

_BYTE_ORDER_MARK = "\ufeff"


def convert(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE", help="YAML or JSON; none, or -: standard input.")
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Write each file back, instead of to standard output.")
    ] = False,
) -> None:
    """Rewrite files with objects of Kueue's v1beta1 to v1beta2.

    Kueue 0.20 serves v1beta2 alone. Fields that have another name or place there are rewritten; comments, order, other
    documents and other kinds stay as they are. What has no equivalent is named with its file, document and field, and
    then nothing is written, of no file.
    Exit code 0: done, 2: nothing was written.
    """
    paths = files or [STANDARD_OUTPUT]
    if write and STANDARD_OUTPUT in paths:
        stop("--write needs files: what comes from standard input goes to standard output")
    read = _read_all(paths)
    with stop_on(OutputError):
        outputs = [Output(path) for path in paths] if write else []
        for path, (_, rewritten) in zip(paths, read, strict=True):
            for note in rewritten.notes:
                typer.echo(f"{_named(path)}: {note}", err=True)
            typer.echo(f"{_named(path)}: {many(rewritten.count, 'object')} converted", err=True)
        if not write:
            Output(STANDARD_OUTPUT).write(_joined([rewritten.text for _, rewritten in read]).encode())
        for output, (text, rewritten) in zip(outputs, read, strict=write):
            if rewritten.text != text:
                output.write(rewritten.text.encode())


def _read_all(paths: list[Path]) -> list[tuple[str, Rewritten]]:
    """Return the text of each file, and the rewritten one. Stops with all that is wrong."""
    read, wrong = [], []
    for path in paths:
        try:
            text = (_standard_input() if path == STANDARD_OUTPUT else path.read_bytes()).decode()
            read.append((text, rewrite(text)))
        except IsADirectoryError:
            wrong.append(f"{_named(path)} is a directory; name the files in it")
        except OSError as error:
            wrong.append(f"{_named(path)}: {error.strerror}")
        except UnicodeDecodeError:
            wrong.append(f"{_named(path)}: this is no UTF-8 text; save it as UTF-8")
        except ConversionError as error:
            wrong += [f"{_named(path)}, {reason}" for reason in error.reasons]
    if wrong:
        stop("\n".join([*wrong, "nothing was written"]))
    return read


def _standard_input() -> bytes:
    """Raises OSError where it is closed: muster ... <&-."""
    if sys.stdin is None:
        raise OSError(EBADF, "it is closed")
    return sys.stdin.buffer.read()


def _named(path: Path) -> str:
    return "standard input" if path == STANDARD_OUTPUT else str(path)


def _joined(texts: list[str]) -> str:
    """Return several files as one stream of documents."""
    joined = ""
    for text in texts:
        if joined:
            text = text.removeprefix(_BYTE_ORDER_MARK)
            if not joined.endswith("\n"):
                joined += "\n"
            if not text.lstrip().startswith("---"):
                joined += "---\n"
        joined += text
    return joined
