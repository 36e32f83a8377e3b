"""The programs a cluster is made of: where each is found, and how the missing ones are built.

The first of these that has a program supplies it: the folder in MUSTER_DEVCLUSTER_BIN, the folder in
KUBEBUILDER_ASSETS, the cache of what this module built before, a build now. The cache is keyed by what decides the
result, so another version of go.mod never meets an old program.
"""

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from devcluster import toolchain
from devcluster.errors import ClusterError
from devcluster.progress import Progress, silent

# In this order: the quick ones first, so that a broken build environment is noticed early.
PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kwok": "sigs.k8s.io/kwok/cmd/kwok",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
}
FOLDERS_FROM = ("MUSTER_DEVCLUSTER_BIN", "KUBEBUILDER_ASSETS")
RECIPE = "1"  # to be changed with the flags below: programs built another way get another key


def locate(progress: Progress = silent) -> dict[str, Path]:
    """Every program by name. Builds the missing ones, which takes minutes the first time."""
    found = {name: path for name in PACKAGES if (path := _named_by_user(name)) is not None}
    missing = [name for name in PACKAGES if name not in found]
    cache = _cache() / _key()
    if not all(_is_program(cache / name) for name in missing):
        with _locked(cache, progress):
            # Looked at again under the lock: another process may have built them meanwhile.
            _build([name for name in missing if not _is_program(cache / name)], cache, progress)
    return found | {name: cache / name for name in missing}


def kubernetes_version() -> str:
    """The release that go.mod pins, as in "v1.36.3"."""
    pinned = re.search(r"k8s\.io/kubernetes (v\S+)", (toolchain.MODULE / "go.mod").read_text())
    if pinned is None:
        raise ClusterError("devcluster/go.mod does not name k8s.io/kubernetes")
    return pinned[1]


def _named_by_user(name: str) -> Path | None:
    for variable in FOLDERS_FROM:
        folder = os.environ.get(variable)
        if folder and _is_program(path := Path(folder).absolute() / name):
            return path
    return None


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "muster" / "devcluster"


def _key() -> str:
    digest = hashlib.sha256(f"{RECIPE} {platform.system()} {platform.machine()}".encode())
    for name in ("go.mod", "go.sum"):
        digest.update((toolchain.MODULE / name).read_bytes())
    return digest.hexdigest()[:16]


@contextmanager
def _locked(cache: Path, progress: Progress) -> Iterator[None]:
    """One build at a time. The kernel drops the lock with the process, so a killed build blocks nobody."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache.parent / f"{cache.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("waiting for the build of another process")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(names: list[str], cache: Path, progress: Progress) -> None:
    if not names:
        return
    go = toolchain.go(cache.parent, progress)
    for abandoned in cache.glob(".building-*"):  # under the lock: left by a build that was killed
        shutil.rmtree(abandoned, ignore_errors=True)
    with TemporaryDirectory(dir=cache, prefix=".building-") as scratch:
        for number, name in enumerate(names, start=1):
            built = Path(scratch) / name
            _go_build(go, name, built, progress, f"building {name} ({number} of {len(names)})")
            os.replace(built, cache / name)


def _go_build(go: Path, name: str, output: Path, progress: Progress, step: str) -> None:
    argv = [str(go), "build", "-trimpath", "-ldflags", _linker_flags(), "-o", str(output), PACKAGES[name]]
    began = time.monotonic()
    quiet, pipe = subprocess.DEVNULL, subprocess.PIPE
    env = toolchain.environment()
    with subprocess.Popen(argv, cwd=toolchain.MODULE, env=env, stdout=quiet, stderr=pipe, text=True) as build:
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
            "Programs that exist already can be named by their folder in MUSTER_DEVCLUSTER_BIN."
        )


def _linker_flags() -> str:
    """No symbols, and the version that the programs report: without it Kubernetes calls itself v0.0.0."""
    version = kubernetes_version()
    major, minor, _ = version.removeprefix("v").split(".", 2)
    settings = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    named = [f"-X k8s.io/component-base/version.{name}={value}" for name, value in settings.items()]
    return " ".join(["-s", "-w", *named])
