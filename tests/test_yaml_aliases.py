"""A file whose aliases repeat billions of values is refused before it is expanded, wherever Muster reads YAML.

A parser that expands such a file first never finishes, and needs more memory than there is.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from extender.cli.main import main
from extender.config.reading import MOST_REPEATED, NOT_YAML, parse_documents, parse_yaml
from extender.probe import main as probe

BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 30))
MERGED = "a0: &a0 {b: x}\n" + "".join(f"a{n}: &a{n}\n  <<: [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 30))
ROUND = "a: &a [*a]\n"


@pytest.mark.parametrize("read", [parse_yaml, lambda text: list(parse_documents(f"a: 1\n---\n{text}"))])
@pytest.mark.parametrize("bomb", [BOMB, MERGED, ROUND], ids=["lists", "merged", "round"])
def test_it_is_refused_before_anything_is_made_of_it(bomb: str, read: Callable[[str], object]) -> None:
    with pytest.raises(NOT_YAML, match=r"aliases repeat|contains itself"):
        read(bomb)


def test_a_few_aliases_are_what_they_are_for() -> None:
    text = "base: &base {labels: [a, b]}\nall: [" + "*base, " * (MOST_REPEATED // 6) + "*base]\n"
    assert len(parse_yaml(text)["all"]) == MOST_REPEATED // 6 + 1


@pytest.mark.parametrize("bomb", [BOMB, MERGED, f"listen_host: &b [{'x, ' * 9}x]\n{BOMB}"])
@pytest.mark.parametrize(
    "command",
    [
        "simulate --queues {} --scenario docs/examples/two-jobs.yaml",
        "simulate --scenario {}",
        "simulate --config {} --scenario docs/examples/two-jobs.yaml",
        "serve --config {}",
        "snapshot --kubeconfig {} --output -",
        "snapshot --config {} --output -",
        "doctor --kubeconfig {}",
        "doctor --kube-scheduler-config {} --kubeconfig {}",
        "probe",
    ],
)
def test_every_command_says_so(command: str, bomb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "bomb.yaml"
    file.write_text(bomb)
    with pytest.raises(SystemExit) as ended:
        sys.exit(probe(["--config", str(file)]) if command == "probe" else main(command.format(file, file).split()))
    assert ended.value.code
    output = "".join(capsys.readouterr())
    assert "its aliases repeat more than 10,000 values" in " ".join(output.split()), output


def test_yaml_is_read_in_one_place() -> None:
    readers = [path for path in Path("extender").rglob("*.py") if re.search(r"yaml\.\w*load", path.read_text())]
    assert readers == [Path("extender/config/reading.py")]
