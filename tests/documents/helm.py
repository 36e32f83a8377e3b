"""docs/helm.md: its commands, and the files that its reader writes, in their order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.documents.elsewhere import to_type
from tests.documents.pages import ROOT, Block, Command, blocks, commands

PAGE = ROOT / "docs" / "helm.md"
_START = "make devcluster ARGS="


def options() -> list[str]:
    """Return the options with which the page starts its cluster."""
    (start,) = (command.text for command in commands(PAGE) if command.text.startswith(_START))
    return start.removeprefix(_START).split()


def steps() -> Iterator[Block | Command]:
    """Yield the page's commands and files on its cluster, except the takeover from kustomize."""
    unsorted: list[Block | Command] = [block for block in blocks(PAGE) if block.language == "yaml"]
    unsorted += [command for command in to_type(PAGE) if command.text != takeover()]
    yield from sorted(unsorted, key=lambda step: step.line)


def takeover() -> str:
    """Return the command that takes over an installation by kustomize: it is another beginning."""
    (text,) = (command.text for command in commands(PAGE) if "--take-ownership" in command.text)
    return text


def write(directory: Path, block: Block) -> None:
    """Write down a block that begins with the name of its file."""
    name, _, text = block.text.partition("\n")
    (directory / name.removeprefix("# ")).write_text(text)
