"""A release: every place names one version, and the programs of a tag's workflow exist."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent
WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"
VERSION = "7.8.9"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the files that name the version, at 7.8.9 of today."""
    for name in ("pyproject.toml", "uv.lock", "CHANGELOG.md", "README.md"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("manifests", "docs", "charts"):
        if (ROOT / name).exists():
            shutil.copytree(ROOT / name, tmp_path / name)
    assert agree(tmp_path).returncode == 0, agree(tmp_path).stderr
    assert agree(tmp_path, "--set", VERSION).returncode == 0
    dated(tmp_path, "2026-11-29")
    return tmp_path


def agree(root: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / ".ci" / "agree"), *args]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


def dated(root: Path, day: str) -> None:
    changelog = root / "CHANGELOG.md"
    heading = f"## [{VERSION}] - {day}\n\n### Fixed\n\n- This.\n\n"
    former = re.sub(
        rf"## \[{re.escape(VERSION)}\].*?(?=^## )", "", changelog.read_text(), flags=re.DOTALL | re.MULTILINE
    )
    changelog.write_text(former.replace("## [", f"{heading}## [", 1))


def test_a_version_is_set_and_agreed_on_everywhere(checkout: Path) -> None:
    good = agree(checkout, f"v{VERSION}")
    assert (good.returncode, good.stderr) == (0, "")
    assert f"muster:{VERSION}" in (checkout / "manifests" / "base" / "deployment.yaml").read_text()
    assert agree(checkout, "--notes").stdout == "### Fixed\n\n- This.\n"
    # Nothing else changes: the other way round it is the checkout again.
    before = {file: (ROOT / file).read_bytes() for file in ("pyproject.toml", "uv.lock", "docs/install.md")}
    now = re.search(r'version = "(.*)"', (ROOT / "pyproject.toml").read_text())
    assert now is not None
    agree(checkout, "--set", now[1])
    assert {file: (checkout / file).read_bytes() for file in before} == before


@pytest.mark.parametrize(
    ("file", "named"),
    [
        ("uv.lock", f'"muster-scheduler"\nversion = "{VERSION}"'),
        ("manifests/base/deployment.yaml", f"muster-dev/muster:{VERSION}"),
        ("docs/install.md", f"newTag: {VERSION}"),
        ("docs/install.md", f"push registry.example.com/muster:{VERSION}"),
        ("CHANGELOG.md", f"## [{VERSION}]"),
    ],
)
def test_a_place_that_names_another_version_is_pointed_at(checkout: Path, file: str, named: str) -> None:
    text = (checkout / file).read_text()
    assert named in text
    (checkout / file).write_text(text.replace(named, named.replace(VERSION, "7.8.8"), 1))
    refused = agree(checkout, f"v{VERSION}")
    assert refused.returncode == 1
    [sentence] = refused.stderr.splitlines()
    assert sentence.startswith(file)


def test_only_the_tag_of_the_version_and_a_day_make_a_release(checkout: Path) -> None:
    assert f"its tag is v{VERSION}" in agree(checkout, "v7.8.8").stderr
    dated(checkout, "Unreleased")
    assert "a release has a date" in agree(checkout, f"v{VERSION}").stderr
    assert agree(checkout).returncode == 0  # between releases
    for wrong in (["--set", "seven"], ["--st"], ["a", "b"]):
        assert agree(checkout, *wrong).returncode == 1
    assert '.ci/agree "${1' in (ROOT / ".ci" / "release").read_text()


def workflow() -> dict[str, Any]:
    read: dict[Any, Any] = yaml.safe_load(WORKFLOW.read_text())
    return {"on" if key is True else key: value for key, value in read.items()}  # YAML 1.1 reads on as true


def steps() -> list[dict[str, Any]]:
    return [step for job in workflow()["jobs"].values() for step in job["steps"]]


def scripts() -> str:
    return "\n".join(step["run"] for step in steps() if "run" in step)


def test_the_workflow_is_one_that_github_reads() -> None:
    read = workflow()
    assert set(read) == {"name", "on", "permissions", "env", "jobs"}
    assert read["on"] == {"push": {"tags": ["v*"]}}
    for name, job in read["jobs"].items():
        assert set(job) <= {"needs", "runs-on", "timeout-minutes", "permissions", "steps"}, name
        assert job["runs-on"].startswith("ubuntu-")
        assert job.get("needs", name) in read["jobs"]
        assert set(job.get("permissions", {}).values()) <= {"read", "write"}
        ids = {step["id"]: step for step in job["steps"] if "id" in step}
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step), step
            assert set(step) <= {"name", "id", "if", "env", "run", "uses", "with"}, step
            for of, output in re.findall(r"steps\.(\w+)\.outputs\.(\w+)", yaml.safe_dump(step)):
                assert f'echo "{output}=' in ids[of]["run"]


def test_nothing_of_others_is_used_that_can_be_moved() -> None:
    for step in steps():
        if "uses" in step:
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step["uses"])
    # A text that another user may choose would be carried out where it is written into a script.
    assert "${{" not in scripts()


def test_what_the_workflow_runs_is_there() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for step in steps():
        if "run" in step:
            read = subprocess.run(["bash", "-n", "-c", step["run"]], capture_output=True, text=True, check=False)
            assert (read.returncode, read.stderr) == (0, "")
    targets = re.findall(r"\bmake (\w+)", scripts())
    assert set(targets) == {"image", "wheel"}
    assert all(re.search(rf"^{target}:.*## ", makefile, re.MULTILINE) for target in targets)
    programs = set(re.findall(r"(?m)(?:^|\s)(\.ci/\w+)", scripts()))
    assert programs == {".ci/release", ".ci/digests", ".ci/agree"}
    assert all(os.access(ROOT / program, os.X_OK) for program in programs)
    kustomizations = re.findall(r"kubectl kustomize (\S+)", scripts())
    assert kustomizations
    assert all((ROOT / folder / "kustomization.yaml").exists() for folder in kustomizations)
    image = workflow()["env"]["IMAGE"]
    assert f"image: {image}:" in (ROOT / "manifests" / "base" / "deployment.yaml").read_text()
    assert "This file has run nowhere yet" in WORKFLOW.read_text().partition("name:")[0]
