"""Programs that are built from a Go module of this folder, and the cache that keeps them.

The cache is keyed by what decides the result, so another version of a go.mod never meets an old program.
"""

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from devcluster import toolchain
from devcluster.errors import ClusterError
from devcluster.progress import Progress

RECIPE = "1"  # to be changed with the flags below: programs built another way get another key


@dataclass(frozen=True)
class Module:
    """A folder with a go.mod, and the packages in it that are built: name of the program -> package."""

    folder: Path
    packages: Mapping[str, str]
    linker_flags: str = "-s -w"

    def programs(self, names: Sequence[str], progress: Progress) -> dict[str, Path]:
        """The programs of these names. Builds the missing ones, which takes minutes the first time."""
        cache = cache_folder() / self._key()
        if not all(is_program(cache / name) for name in names):
            with locked(cache, progress):
                # Looked at again under the lock: another process may have built them meanwhile.
                self._build([name for name in names if not is_program(cache / name)], cache, progress)
        return {name: cache / name for name in names}

    def _key(self) -> str:
        digest = hashlib.sha256(f"{RECIPE} {platform.system()} {platform.machine()}".encode())
        for path in (self.folder / "go.mod", self.folder / "go.sum", *sorted(self.folder.glob("*.go"))):
            digest.update(path.read_bytes())
        return digest.hexdigest()[:16]

    def _build(self, names: Sequence[str], cache: Path, progress: Progress) -> None:
        if not names:
            return
        go = toolchain.go(cache.parent, self.folder, progress)
        for abandoned in cache.glob(".building-*"):  # under the lock: left by a build that was killed
            shutil.rmtree(abandoned, ignore_errors=True)
        with TemporaryDirectory(dir=cache, prefix=".building-") as scratch:
            for number, name in enumerate(names, start=1):
                built = Path(scratch) / name
                self._go_build(go, name, built, progress, f"building {name} ({number} of {len(names)})")
                os.replace(built, cache / name)

    def _go_build(self, go: Path, name: str, output: Path, progress: Progress, step: str) -> None:
        flags = ["-trimpath", "-ldflags", self.linker_flags]
        argv = [str(go), "build", *flags, "-o", str(output), self.packages[name]]
        began = time.monotonic()
        quiet, pipe = subprocess.DEVNULL, subprocess.PIPE
        env = toolchain.environment()
        with subprocess.Popen(argv, cwd=self.folder, env=env, stdout=quiet, stderr=pipe, text=True) as build:
            try:
                while True:
                    progress(f"{step}, {time.monotonic() - began:.0f} s")
                    try:
                        _, complaints = build.communicate(timeout=1)
                        break
                    except subprocess.TimeoutExpired:
                        continue
            except BaseException:
                build.kill()
                raise
        if build.returncode != 0:
            tail = "\n".join(complaints.splitlines()[-20:])
            raise ClusterError(
                f"{step} failed:\n{tail}\n"
                "The build needs the Go module proxy (see `go env GOPROXY`) and about 6 GB of disk. "
                "Programs of the control plane that exist can be named by their folder in MUSTER_DEVCLUSTER_BIN."
            )

    def source(self, module: str, progress: Progress) -> Path:
        """The folder with the source of a module that go.mod pins, downloaded if it is not there."""
        go = toolchain.go(cache_folder(), self.folder, progress)
        env = toolchain.environment()
        for argv in ([str(go), "mod", "download", module], [str(go), "list", "-m", "-f", "{{.Dir}}", module]):
            done = subprocess.run(argv, cwd=self.folder, env=env, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise ClusterError(f"{' '.join(argv)} failed:\n{done.stderr.strip()}")
        return Path(done.stdout.strip())


def is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def cache_folder() -> Path:
    """Return the folder of the user in which everything is kept that takes long to make."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "muster" / "devcluster"


@contextmanager
def locked(cache: Path, progress: Progress) -> Iterator[None]:
    """Let one build into a folder of the cache at a time.

    The kernel drops the lock with the process, so a killed build blocks no other.
    """
    cache.mkdir(parents=True, exist_ok=True)
    with (cache.parent / f"{cache.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("waiting for the build of another process")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
