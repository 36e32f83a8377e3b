"""A Dockerfile as stages of instructions, and what .dockerignore sends of the checkout.

As much of the format as the Dockerfile here uses; anything else is an error, so that nothing is passed over in silence.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import NamedTuple

KNOWN = ("FROM", "RUN", "COPY", "ENV", "WORKDIR", "USER", "EXPOSE", "ENTRYPOINT")


class UnknownInstructionError(ValueError):
    """The Dockerfile uses an instruction that is not carried out here."""


class Instruction(NamedTuple):
    name: str
    text: str


@dataclass(frozen=True)
class Stage:
    """From one FROM to the next; ``name`` is empty for the last one."""

    base: str
    name: str
    instructions: list[Instruction] = field(default_factory=list)


def stages(text: str) -> list[Stage]:
    """Return the stages in order. Raises UnknownInstructionError."""
    read: list[Stage] = []
    for instruction in _instructions(text):
        if instruction.name != "FROM":
            read[-1].instructions.append(instruction)
            continue
        base, *name = instruction.text.split()
        if name and (len(name) != 2 or name[0] != "AS"):
            raise UnknownInstructionError(f"FROM {instruction.text}: not FROM IMAGE [AS NAME]")
        read.append(Stage(base, name[1] if name else ""))
    return read


def _instructions(text: str) -> Iterator[Instruction]:
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    for whole in re.split(r"(?<!\\)\n", "\n".join(lines)):
        name, _, rest = whole.replace("\\\n", " ").partition(" ")
        if name not in KNOWN:
            raise UnknownInstructionError(f"{name}: only {', '.join(KNOWN)} are carried out here")
        yield Instruction(name, " ".join(rest.split()) if name != "RUN" else rest.strip())


def variables(text: str, known: dict[str, str]) -> dict[str, str]:
    """The variables of an ENV, which may use those before it."""
    pairs = (assignment.partition("=") for assignment in shlex.split(text))
    return {name: Template(value).substitute(known) for name, _, value in pairs}


class Copy(NamedTuple):
    """``stage``: the name of the one that it copies from; empty for the checkout."""

    stage: str
    sources: tuple[str, ...]
    target: str


def copy(text: str) -> Copy:
    """Read a COPY. Raises UnknownInstructionError."""
    words = shlex.split(text)
    stage = words.pop(0).removeprefix("--from=") if words[0].startswith("--from=") else ""
    if len(words) < 2 or any(word.startswith("--") for word in words):
        raise UnknownInstructionError(f"COPY {text}: not COPY [--from=STAGE] SOURCE... TARGET")
    return Copy(stage, tuple(words[:-1]), words[-1])


class Context:
    """The files of the checkout that a builder is sent."""

    def __init__(self, root: Path) -> None:
        self.root = root
        lines = [line.strip() for line in (root / ".dockerignore").read_text().splitlines()]
        patterns = [line for line in lines if line and not line.startswith("#")]
        self._rules = [(_pattern(line.removeprefix("!")), not line.startswith("!")) for line in patterns]

    def files(self, source: str) -> list[Path]:
        """Return the files at or under a path that no rule ignores, sorted. Raises FileNotFoundError for none."""
        top = self.root / source
        paths = sorted(path for path in top.rglob("*") if path.is_file()) if top.is_dir() else [top]
        sent = [path for path in paths if path.is_file() and not self._ignored(path.relative_to(self.root))]
        if not sent:
            raise FileNotFoundError(f"COPY {source}: .dockerignore sends nothing of it, or it is not there")
        return sent

    def _ignored(self, path: Path) -> bool:
        """The last rule counts that fits the path or a folder above it."""
        names = [str(parent) for parent in [path, *path.parents][:-1]]
        fitting = [ignores for pattern, ignores in self._rules if any(pattern.fullmatch(name) for name in names)]
        return bool(fitting) and fitting[-1]


def _pattern(line: str) -> re.Pattern[str]:
    parts = re.split(r"(\*\*/|\*)", line.strip("/"))
    return re.compile("".join({"**/": "(?:.*/)?", "*": "[^/]*"}.get(piece, re.escape(piece)) for piece in parts))


def suite_of(base: str) -> str:
    """The suite of Debian of an image such as debian:trixie-slim. Raises UnknownInstructionError."""
    named = re.fullmatch(r"debian:([a-z]+)-slim(@sha256:[0-9a-f]{64})?", base)
    if named is None:
        raise UnknownInstructionError(f"FROM {base}: only debian:SUITE-slim can be made here")
    return named[1]
