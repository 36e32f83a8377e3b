"""Earlier releases of Muster: a commit that is not there is said in one sentence, which names the way to get it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from devcluster import ClusterError, releases

NAMED = ("-c", "user.name=test", "-c", "user.email=test@example.com")


def git(folder: Path, *args: str) -> str:
    return subprocess.run(["git", *NAMED, *args], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    folder = tmp_path / "origin"
    folder.mkdir()
    git(folder, "init", "--quiet")
    for name in ("first", "second"):
        git(folder, "commit", "--quiet", "--allow-empty", "--message", name)
    return folder


def test_a_shallow_clone_without_the_commit_says_how_to_get_it(
    origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = git(origin, "rev-parse", "HEAD~1")
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{origin}", "shallow")
    monkeypatch.setattr(releases, "ROOT", tmp_path / "shallow")
    with pytest.raises(
        ClusterError, match=f"^this shallow clone lacks the commit {first}: run `git fetch --unshallow`$"
    ):
        releases.release_of(first)


def test_a_commit_that_does_not_exist_is_named(origin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "ROOT", origin)
    with pytest.raises(ClusterError, match="has no commit 0123456: upgrades are tested in a git clone"):
        releases.release_of("0123456")
