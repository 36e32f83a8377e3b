"""The results file of one benchmark: written after every run, so that an interrupted one continues where it was."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from benchmarks.about import UNKNOWN, About
from extender.cli.output import Output

RunT = TypeVar("RunT", bound=Struct)


class Content(Struct):
    """The content of the file. ``runs``: the name of each step that was carried out -> its figures."""

    benchmark: str
    settings: dict[str, Any]
    about: About
    measured: str
    runs: dict[str, dict[str, Any]] = {}


class RecordError(ValueError):
    """A results file cannot be used; the text says which and why."""


class Record(Generic[RunT]):
    """The runs of one benchmark so far, and their file, if there is one."""

    def __init__(self, content: Content, kind: type[RunT], path: Path | None = None) -> None:
        self.content = content
        self._kind = kind
        self._path = path

    @classmethod
    def start(
        cls,
        benchmark: str,
        settings: Mapping[str, Any],
        about: About,
        kind: type[RunT],
        path: Path | None,
        *,
        go_on: bool,
    ) -> Record[RunT]:
        """A new record; with ``go_on`` the one in the file, if the same was measured there with the same settings."""
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        new = Content(benchmark, msgspec.to_builtins(dict(settings)), about, today)
        if go_on and about.muster != UNKNOWN and path is not None and path.is_file():
            old = read(path)
            if (old.benchmark, old.settings, old.about) == (new.benchmark, new.settings, new.about):
                new = old
        return cls(new, kind, path)

    @property
    def runs(self) -> list[RunT]:
        return read_runs(self.content, self._kind)

    def has(self, step: str) -> bool:
        return step in self.content.runs

    def add(self, step: str, run: RunT) -> None:
        self.content.runs[step] = msgspec.to_builtins(run)
        if self._path is not None:
            write(self._path, self.content)


def read(path: Path) -> Content:
    """The content of a results file. Raises RecordError."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Content)
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise RecordError(f"{path} is not a results file: {error}") from None


def read_runs(content: Content, kind: type[RunT]) -> list[RunT]:
    """The runs of a results file as the structs of its benchmark. Raises RecordError."""
    try:
        return msgspec.convert(list(content.runs.values()), list[kind])  # type: ignore[valid-type]
    except msgspec.ValidationError as error:
        raise RecordError(f"the runs of {content.benchmark} cannot be read: {error}") from None


def write(path: Path, content: Content) -> None:
    """Whole or not at all, whenever it is broken off. Raises OutputError."""
    Output(path).write(msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")
