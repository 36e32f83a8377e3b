"""docs/first-gang.md is typed on a fresh cluster: `python -m tests.documents.first_gang` writes down the output."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.documents.elsewhere import to_type
from tests.documents.pages import ROOT, commands
from tests.documents.playground import Playground, playground

PAGE = ROOT / "docs" / "first-gang.md"
_BLOCK = re.compile(r"(?<=```console\n).*?(?=```)", re.DOTALL)
_STORY = re.compile(r"\nHistory\n.*", re.DOTALL)

# The state that a person would see before typing the next command.
SETTLED: dict[str, Callable[[Playground], None]] = {
    "kubectl apply -f manifests/examples/job-annotations.yaml": lambda here: here.until_gangs(
        lambda gangs: [gang["state"] for gang in gangs.values()] == ["Running"]
    ),
    "kubectl apply -f manifests/examples/job-podgroup.yaml": lambda here: here.until_said(
        "kubectl get podgroups", "NoRoom"
    ),
    "kubectl delete job train-annotations": lambda here: here.until_gangs(
        lambda gangs: [(name, gang["state"]) for name, gang in gangs.items()] == [("train-podgroup", "Running")]
    ),
}


def typed(here: Playground, page: Path = PAGE, settled: Mapping[str, Callable[[Playground], None]] = SETTLED) -> str:
    """The page with the present output of its commands. Raises AssertionError when one of them fails."""
    outputs = {}
    for command in to_type(page):
        done = here.run(command.text)
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        outputs[command.line] = "\n".join(line.rstrip() for line in done.stdout.splitlines())
        if (settle := settled.get(command.text)) is not None:
            settle(here)
    answers = iter([outputs.get(command.line, "") for command in commands(page)])

    def answered(block: re.Match[str]) -> str:
        lines = [line for line in block[0].splitlines() if line.startswith("$ ")]
        return "".join(f"{line}\n{answer}\n" if (answer := next(answers)) else f"{line}\n" for line in lines)

    return _BLOCK.sub(answered, page.read_text())


def lasting(page: str) -> list[str]:
    """The text that is the same whenever it is typed: no times, random names or widths, no history but its heading."""

    def same(block: re.Match[str]) -> str:
        text = _STORY.sub("\nHistory\n", block[0])
        text = re.sub(r"\b\d+(s|m|h)( ?\d+(s|m))?\b", "TIME", text)
        text = re.sub(r"-\d+-[a-z0-9]{5}\b", "-NUMBER-RANDOM", text)
        return re.sub(r"─+", "─", text)

    return [" ".join(line.split()) for line in _BLOCK.sub(same, page).splitlines()]


if __name__ == "__main__":
    with playground() as one:
        PAGE.write_text(typed(one))
