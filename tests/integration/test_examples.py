"""docs/examples.md, and the what-if of docs/simulate-cluster.md on the tutorial, typed as they are printed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.documents import examples
from tests.documents.pages import ROOT, commands
from tests.documents.playground import Playground, playground


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Playground]:
    """The cluster that the page starts, and a directory with the manifests in it."""
    here = tmp_path_factory.mktemp("checkout")
    shutil.copytree(ROOT / "manifests", here / "manifests")
    with playground(here, *examples.options()) as running:
        yield running


def test_the_examples_are_as_their_page_shows_them(shell: Playground) -> None:
    assert examples.lasting(examples.walked(shell)) == examples.lasting(examples.PAGE.read_text())


def test_the_what_if_starts_the_second_job_of_the_tutorial(shell: Playground) -> None:
    tutorial = [
        block.text for block in commands(ROOT / "docs" / "queues.md") if block.text.startswith(("kubectl", "muster"))
    ]
    for command in tutorial[: tutorial.index("muster queues")]:
        _type(shell, command)
    shell.until_gangs(
        lambda gangs: (
            {name: gang["state"] for name, gang in gangs.items()} == {"job-first": "Running", "job-second": "NoQuota"}
        )
    )
    assert "Who waits, in the order of each queue" in _type(shell, "muster queues")
    texts = [block.text for block in commands(ROOT / "docs" / "simulate-cluster.md")]
    asks = next(at for at, text in enumerate(texts) if "--what-if" in text)
    output = ""
    for command in texts[asks - 2 : asks + 1]:
        output = _type(shell, command)
    answer = "With more.yaml 1 gang starts that would wait as it is (default/job-second)."
    assert answer in " ".join(output.split())
    assert answer in (ROOT / "docs" / "simulate-cluster.md").read_text()
    _type(shell, "kubectl get clusterqueue heavy-ml-cluster-queue -o yaml > same.yaml")
    same = _type(shell, "muster simulate --snapshot cluster.json --what-if same.yaml")
    assert "With same.yaml nothing changes." in same


def _type(shell: Playground, command: str) -> str:
    done = shell.run(command)
    assert done.returncode == 0, f"{command}\n{done.stdout}"
    return done.stdout
