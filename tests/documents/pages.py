"""The pages, and every command that they tell to type: of fenced ``sh`` blocks, of indented ones, and after ``$``.

A fence may be indented, as in an item of a list: the block is read without its indentation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGES = (
    ROOT / "README.md",
    ROOT / "SECURITY.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "charts/muster/README.md",
    *sorted((ROOT / "docs").glob("*.md")),
)

_INDENTED = "indented"
COMMANDS = ("sh", "console", _INDENTED)
"""Languages of blocks in which each line is a command, or behind a prompt."""
_FENCE = re.compile(r"^( *)```(\w*)")
_INDENT = "    "
_PROMPT = "$ "
_COMMENT = re.compile(r"(^|\s+)# .*$")


@dataclass(frozen=True)
class Block:
    """A piece of code, without its last newline; ``line`` is that of its first line."""

    page: Path
    line: int
    language: str
    text: str


@dataclass(frozen=True)
class Command:
    """A command, continuation lines joined and the comment behind it left out."""

    page: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}: {self.text}"


def blocks(page: Path) -> Iterator[Block]:
    """Fenced and indented blocks, in the order of the page."""
    language: str | None = None
    start, indent, held, before = 0, "", list[str](), ""
    for number, line in enumerate([*page.read_text().splitlines(), "end"], 1):
        fence = _FENCE.match(line)
        if language == _INDENTED and line and not line.startswith(indent):
            yield Block(page, start, language, "\n".join(held))
            language = None
        if language is None and fence:
            indent, language = fence.groups()
            start, held = number + 1, []
        elif language is None and line.startswith(_INDENT) and not before:
            indent, language, start, held = _INDENT, _INDENTED, number, [line.removeprefix(_INDENT)]
        elif language is not None and fence:
            yield Block(page, start, language, "\n".join(held))
            language = None
        elif language is not None:
            held.append(line.removeprefix(indent))
        before = line


def commands(page: Path) -> Iterator[Command]:
    """All that is to be typed, in the order of the page. In a block with prompts the other lines are output."""
    for block in blocks(page):
        lines = block.text.splitlines()
        prompted = any(line.startswith(_PROMPT) for line in lines)
        if not prompted and block.language not in COMMANDS:
            continue
        held = ""
        for number, line in enumerate(lines, block.line):
            if prompted and not held and not line.startswith(_PROMPT):
                continue
            held += _COMMENT.sub("", line.removeprefix(_PROMPT) if prompted else line).strip()
            if held.endswith("\\"):
                held = held.removesuffix("\\")
            elif held:
                yield Command(page, number, held)
                held = ""


def every_command() -> list[Command]:
    return [command for page in PAGES for command in commands(page)]
