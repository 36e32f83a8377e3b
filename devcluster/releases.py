"""Releases of Muster that are run beside each other: the sources of a commit, installed by the lock file of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from devcluster.builds import cache_folder, locked
from devcluster.errors import ClusterError
from devcluster.progress import Progress, silent

ROOT = Path(__file__).parent.parent
_COMPLETE = "complete"
"""The file that is written when an installation has succeeded."""


@dataclass(frozen=True)
class Release:
    """A Muster that can be run: its sources, of which the manifests are used, and its program."""

    root: Path
    program: Path

    @property
    def manifests(self) -> Path:
        return self.root / "manifests"


def release_of(commit: str, progress: Progress = silent) -> Release:
    """Return the Muster of that commit of this checkout. Installs it, once, into the cache of the user.

    Raises ClusterError where the checkout has no such commit, or it cannot be installed.
    """
    digest = _digest_of(commit)
    folder = cache_folder() / f"muster-{digest[:12]}"
    release = Release(folder / "source", folder / "venv" / "bin" / "muster")
    if not _is_installed(folder):
        with locked(folder, progress):
            # Another process may have installed it before this one had the lock.
            if not _is_installed(folder):
                progress(f"installing Muster {digest[:10]} into {folder}")
                _install(digest, folder)
    return release


def _is_installed(folder: Path) -> bool:
    """Whether the installation was completed, and the Python that it was made with is still there."""
    return (folder / _COMPLETE).exists() and (folder / "venv" / "bin" / "python").exists()


def _digest_of(commit: str) -> str:
    done = _git("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
    if done.returncode == 0:
        return done.stdout.decode().strip()
    if _git("rev-parse", "--is-shallow-repository").stdout.strip() == b"true":
        raise ClusterError(f"this shallow clone lacks the commit {commit}: run `git fetch --unshallow`")
    why = done.stderr.decode().strip()
    raise ClusterError(
        f"{ROOT} has no commit {commit}: upgrades are tested in a git clone with its whole history"
        + (f"; git says: {why}" if why else "")
    )


def _install(digest: str, folder: Path) -> None:
    """Unpack the sources, and make the environment of their lock file."""
    (folder / _COMPLETE).unlink(missing_ok=True)
    for name in ("source", "venv"):
        shutil.rmtree(folder / name, ignore_errors=True)
    archive = _git("archive", "--format=tar", digest)
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as sources:
        sources.extractall(folder / "source")  # noqa: S202 - it is the archive of this clone's own commit
    uv = _uv()
    env = {**os.environ, "UV_PROJECT_ENVIRONMENT": str(folder / "venv")}
    # Compiled once, as by the Makefile: where PYTHONDONTWRITEBYTECODE is set each start would compile it again.
    env |= {"UV_PYTHON_DOWNLOADS": "never", "UV_COMPILE_BYTECODE": "1"}
    env.pop("VIRTUAL_ENV", None)
    argv = [uv, "sync", "--frozen", "--all-extras", "--no-dev", "--quiet", "--python", sys.executable]
    done = subprocess.run(argv, cwd=folder / "source", env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterError(f"installing Muster {digest[:10]} failed:\n{done.stderr.strip()}")
    (folder / _COMPLETE).touch()


def _uv() -> str:
    """Return the uv that the Makefile has brought, or else the one on the PATH."""
    ours = ROOT / ".uv" / "bin" / "uv"
    if program := str(ours) if ours.exists() else shutil.which("uv"):
        return program
    raise ClusterError("an earlier Muster is installed with uv, and there is none: `make test` brings it")


def _git(*args: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(["git", "-C", str(ROOT), *args], capture_output=True, check=False)
    except FileNotFoundError:
        raise ClusterError(
            "an earlier Muster is taken from the history of this clone, and git is not installed"
        ) from None
