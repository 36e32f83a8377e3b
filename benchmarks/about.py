"""The measured version, and the machine: every results file states both, because a figure needs them."""

from __future__ import annotations

import os
import platform
import subprocess
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from devcluster.binaries import kubernetes_version

UNKNOWN = "unknown"
SOURCE = Path(__file__).parent.parent
MEASURED = ("extender", "policies", "manifests", "devcluster", "benchmarks/*.py", "pyproject.toml", "uv.lock")
"""The files that a result depends on. A change of any other file leaves the commit's figures as they are."""


class About(Struct, frozen=True):
    """The machine and the versions.

    ``muster`` is the commit; where measured files differ from it, "-dirty-" and a digest of the difference follow. In
    a copy without history it is "unknown".
    """

    cpu: str
    cores: int
    memory_gib: int
    kubernetes: str
    python: str
    muster: str

    def __str__(self) -> str:
        return (
            f"{self.cpu}, {self.cores} cores, {self.memory_gib} GiB; Kubernetes {self.kubernetes}, "
            f"Python {self.python}, Muster {self.muster}"
        )


def about() -> About:
    """This machine, and the versions in this checkout."""
    return About(
        cpu=cpu_model(Path("/proc/cpuinfo").read_text()),
        cores=os.cpu_count() or 1,
        memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        kubernetes=kubernetes_version(),
        python=platform.python_version(),
        muster=_commit(),
    )


def cpu_model(cpuinfo: str) -> str:
    """The processor's name as Linux has it, or its architecture where Linux gives no name."""
    names = (line.partition(":")[2].strip() for line in cpuinfo.splitlines() if line.startswith("model name"))
    return next(names, platform.machine())


def _commit() -> str:
    try:
        changes = _git("diff", "HEAD", "--", *MEASURED)
        commit = _git("rev-parse", "--short=10", "HEAD").decode().strip()
    except (OSError, subprocess.CalledProcessError):
        return UNKNOWN
    return f"{commit}-dirty-{sha256(changes).hexdigest()[:6]}" if changes else commit


def _git(*args: str) -> bytes:
    return subprocess.run(["git", "-C", str(SOURCE), *args], capture_output=True, check=True).stdout
