"""Links lead somewhere, commands can be typed, and untyped commands are in the table with their reason."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import typer

from extender.cli.main import Deferred, main
from tests.documents.elsewhere import ELSEWHERE, WHOLE, exception
from tests.documents.pages import COMMANDS, PAGES, ROOT, blocks, commands, every_command
from tests.documents.picture import PICTURE, draw, first_sentence

OTHERS = [
    f"{folder}/README.md" for folder in ("benchmarks/results", "tests/conformance", "tests/facts", "tests/scenarios")
]
LINKED = (*PAGES, *(ROOT / page for page in ("ARCHITECTURE.md", "CHANGELOG.md", "tests/simulation/README.md", *OTHERS)))
_FOLDERS = ("benchmarks", "charts", "dashboard", "devcluster", "docs", "extender", "manifests", "policies", "tests")
_PROGRAM = re.compile(r" *(?:kubectl|muster|helm|make|docker|kind|pipx?|curl|git|export|\.venv/bin/\S+|\.ci/\S+) ")
_INLINE = re.compile(r"(?<!`)`((?:kubectl )?muster [a-z][^`]*)`")


def ids(one: object) -> str:
    return str(one.relative_to(ROOT)) if isinstance(one, Path) else str(one)


@pytest.mark.parametrize("page", LINKED, ids=ids)
def test_links_lead_somewhere(page: Path) -> None:
    wrong = []
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        name, _, anchor = target.partition("#")
        if name.startswith(("http://", "https://")):
            continue
        file = (page.parent / name) if name else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            wrong.append(target)
    assert wrong == []


@pytest.mark.parametrize("page", LINKED, ids=ids)
def test_files_of_the_project_that_are_named_exist(page: Path) -> None:
    named = re.findall(rf"`((?:{'|'.join(_FOLDERS)})/[\w/*.-]+)`", page.read_text())
    assert [name for name in named if not any(ROOT.glob(name))] == []


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_every_page_can_be_reached_from_the_readme(page: Path) -> None:
    linked = {ROOT / "README.md"}
    for _ in range(3):
        for file in sorted(linked):
            targets = re.findall(r"\]\(([^)\s#]+\.md)", file.read_text())
            linked |= {(file.parent / target).resolve() for target in targets if not target.startswith("http")}
    assert page in linked


def test_the_readme_is_under_three_screens() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 110


def test_the_map_of_the_code_is_two_pages() -> None:
    lines = (ROOT / "ARCHITECTURE.md").read_text().splitlines()
    assert len(lines) <= 110
    assert max(map(len, lines)) <= 150


def test_the_map_of_the_code_names_files_that_exist() -> None:
    named = re.findall(r"`([\w/]+\.py)`", (ROOT / "ARCHITECTURE.md").read_text())
    assert len(named) > 30
    assert [name for name in named if not ((ROOT / name).exists() or (ROOT / "extender/core" / name).exists())] == []


def test_the_picture_of_the_code_is_that_of_its_imports() -> None:
    assert PICTURE.read_text() == draw(), "the packages, their imports or their first sentences changed: make picture"


def packages() -> list[Path]:
    folders = ("benchmarks", "charts", "dashboard", "devcluster", "extender", "policies", "tests")
    return [path.parent for folder in folders for path in (ROOT / folder).rglob("__init__.py")]


def test_every_package_says_what_it_is_for() -> None:
    sentences = {ids(path): first_sentence(ids(path).replace("/", ".")) for path in packages()}
    assert len(sentences) > 50
    assert [package for package, text in sentences.items() if not 3 < len(text.split()) <= 28] == []


def test_the_files_that_a_package_names_exist() -> None:
    pattern = re.compile(r"`([a-z_]+\.py)`")
    named = [path / name for path in packages() for name in pattern.findall((path / "__init__.py").read_text())]
    assert len(named) > 20
    assert [ids(file) for file in named if not file.exists()] == []


@pytest.mark.parametrize("command", every_command(), ids=ids)
def test_a_command_can_be_typed(command: object) -> None:
    text = str(getattr(command, "text", ""))
    read = subprocess.run(["bash", "-n", "-c", text], capture_output=True, text=True, check=False)
    assert (read.returncode, read.stderr) == (0, "")
    words = text.split()
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for word in words:
        if word.startswith(("manifests/", "charts/", "docs/", "tests/", "benchmarks/")):
            assert (ROOT / word).exists() or (ROOT / word).parent.exists()
    for piece in re.split(r"&&|\|\||;", text):
        assert unknown_options(piece) == []


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_what_is_named_in_a_sentence_can_be_typed_too(page: Path) -> None:
    named = _INLINE.findall(page.read_text())
    assert [wrong for text in named for wrong in unknown_options(text)] == []


def test_every_exception_is_for_a_command_of_its_page() -> None:
    listed = {(page, words) for page, exceptions in ELSEWHERE.items() for words in exceptions}
    assert listed == {
        (ids(command.page), words) for command in every_command() if (words := exception(command)) is not None
    }


def test_no_exception_is_for_a_page_that_is_typed_whole() -> None:
    assert WHOLE.keys() & ELSEWHERE.keys() == set()
    for page, test in WHOLE.items():
        assert any(commands(ROOT / page)), page
        assert (ROOT / test).exists(), test


@pytest.mark.parametrize("indent", ["", "   ", "      "])
def test_a_command_is_read_however_far_its_fence_is_indented(indent: str, tmp_path: Path) -> None:
    lines = ["1. First:", "", f"{indent}```sh", f"{indent}kubectl get \\", f"{indent}  pods", f"{indent}```", "", "end"]
    page = tmp_path / "page.md"
    page.write_text("\n".join(lines))
    assert [(block.language, block.line, block.text) for block in blocks(page)] == [("sh", 4, "kubectl get \\\n  pods")]
    assert [command.text for command in commands(page)] == ["kubectl get pods"]


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_every_fence_is_read(page: Path) -> None:
    fences = [line for line in page.read_text().splitlines() if line.lstrip(" >*-\t").startswith(("```", "~~~"))]
    assert len(fences) == 2 * len([block for block in blocks(page) if block.language != "indented"])


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_no_command_hides_in_a_block_of_another_language(page: Path) -> None:
    read = {command.line for command in commands(page)}
    for block in blocks(page):
        if block.language not in COMMANDS:
            lines = enumerate(block.text.splitlines(), block.line)
            hidden = [line for number, line in lines if _PROGRAM.match(line) and number not in read]
            assert hidden == [], f"{ids(page)}:{block.line}: is a block of commands `sh`?"


@cache
def options(*path: str) -> set[str] | None:
    """The options of a subcommand of muster; None when there is no such subcommand."""
    tree: Any = typer.main.get_command(main)
    for word in path:
        subcommand = getattr(tree, "commands", {}).get(word)
        if subcommand is None:
            return None
        tree = subcommand.load() if isinstance(subcommand, Deferred) else subcommand
    return {option for parameter in tree.params for option in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}


def unknown_options(text: str) -> list[str]:
    """The parts of the command that `muster` would not understand: its subcommand, or options."""
    words = re.sub(r'"[^"]*"|\'[^\']*\'', "TEXT", text).removeprefix(".venv/bin/").removeprefix("kubectl ").split()
    if not words or words[0] != "muster" or len(words) == 1:
        return []
    path = tuple(takewhile(lambda word: re.fullmatch(r"[a-z]+", word) is not None, words[1:]))[
        : 1 + (words[1] == "bench")
    ]
    known = options(*path)
    if known is None:
        return [text]
    return [word for word in words if word.startswith("-") and word.partition("=")[0] not in known]


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
