"""docs/helm.md: its commands, and the files that its reader writes, in their order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.documents.pages import ROOT, Block, Command, blocks, commands

PAGE = ROOT / "docs" / "helm.md"
_START = "make devcluster ARGS="


def options() -> list[str]:
    """Return the options with which the page starts its cluster."""
    (start,) = (command.text for command in commands(PAGE) if command.text.startswith(_START))
    return start.removeprefix(_START).split()


def steps() -> Iterator[Block | Command]:
    """Yield what the page has to type on its cluster, and to write down: all but the start of the cluster."""
    found: list[Block | Command] = [block for block in blocks(PAGE) if block.language == "yaml"]
    found += [command for command in commands(PAGE) if not command.text.startswith(_START)]
    yield from sorted(found, key=lambda step: step.line)


def write(directory: Path, block: Block) -> None:
    """Write down a block that begins with the name of its file."""
    name, _, text = block.text.partition("\n")
    (directory / name.removeprefix("# ")).write_text(text)
