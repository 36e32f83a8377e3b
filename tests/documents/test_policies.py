"""docs/policies.md: the policies work, are as short as they look, and the table has all that ship."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from extender.config import catalogue
from policies.model import GroupKey
from tests.documents.pages import ROOT, blocks

PAGE = ROOT / "docs" / "policies.md"
EMPTIEST, ITS_TEST, SMALLEST, PATIENCE = (block.text for block in blocks(PAGE) if block.language == "python")
(PROJECT,) = (block.text for block in blocks(PAGE) if block.language == "toml")


JOBS = """
cluster: 4 nodes x 8 GPUs
start_s: 0
jobs:
  - {name: running, pods: 4, gpus: 8, duration_s: 3600}
  - {name: large, submit_s: 10, pods: 4, gpus: 8, duration_s: 3600}
  - {name: small, submit_s: 20, pods: 1, gpus: 8, duration_s: 600}
"""


def test_the_topology_policy_passes_its_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "emptiest.py").write_text(EMPTIEST)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "emptiest", raising=False)
    names: dict[str, object] = {}
    exec(compile(ITS_TEST, PAGE.name, "exec"), names)  # noqa: S102
    tests = [run for name, run in names.items() if name.startswith("test_") and callable(run)]
    assert len(tests) == 1
    tests[0]()
    lines = len(EMPTIEST.split("class ")[1].splitlines()) + EMPTIEST.count("\nimport ") + EMPTIEST.count("\nfrom ")
    assert lines <= 20


def test_the_queue_policy_lets_nobody_wait_for_ever() -> None:
    names: dict[str, type] = {}
    exec(compile(PATIENCE, PAGE.name, "exec"), names)  # noqa: S102
    order = names["Patience"]().order

    def gang(created: float, priority: int) -> SimpleNamespace:
        return SimpleNamespace(key=GroupKey("team", "train"), created=created, priority=priority)

    assert order(gang(0, 1000)) < order(gang(0, 0))
    assert order(gang(0, 0)) < order(gang(3601, 1000))


def test_the_printed_project_can_be_installed_and_its_policies_decide(tmp_path: Path) -> None:
    project, installed = tmp_path / "our-policies", tmp_path / "installed"
    project.mkdir()
    for name, text in (("emptiest", EMPTIEST), ("smallest", SMALLEST), ("patience", PATIENCE)):
        (project / f"{name}.py").write_text(text)
    (project / "pyproject.toml").write_text(PROJECT)
    (uv,) = (ROOT / ".uv" / "bin").glob("uv-*")
    install = ["pip", "install", "--offline", "--no-build-isolation", "--no-deps", "--python", sys.executable]
    subprocess.run([uv, *install, "--target", installed, project], check=True, capture_output=True)
    (tmp_path / "jobs.yaml").write_text(JOBS)
    muster = Path(sys.executable).with_name("muster")
    policies = ["--policy", "queue_policy=smallest", "--policy", "topology_policy=emptiest"]
    ended = subprocess.run(
        [muster, "simulate", "--scenario", tmp_path / "jobs.yaml", "--scheduler", "muster", *policies],
        env={**os.environ, "PYTHONPATH": str(installed), "COLUMNS": "400"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert "With queue_policy=smallest, topology_policy=emptiest all 3 jobs start" in ended.stdout
    assert "Jobs wait less long than with muster: 5-8 GPUs" in ended.stdout


@pytest.mark.parametrize("method", ["order", "domains", "score"])
def test_the_table_has_the_policies_that_ship(method: str) -> None:
    (row,) = (line for line in PAGE.read_text().splitlines() if line.startswith("|") and f"`{method}(" in line)
    named = re.findall(r"`([a-z-]+)`", row.split("|")[5])
    with pytest.raises(ValueError, match="is not a known policy") as known:
        catalogue.policy("no such policy", method)
    assert f"known here: {', '.join(named)}" in str(known.value)
