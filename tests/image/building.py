"""The image of this checkout."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from devcluster.progress import silent
from tests.image import dockerfile
from tests.image.roots import Builder, Image, check, prune

ROOT = Path(__file__).parents[2]


def built(progress: Callable[[str], None] = silent) -> Image:
    """Carry out the Dockerfile. Raises CannotError, BuildError or UnknownInstructionError."""
    check()
    stages = dockerfile.stages((ROOT / "Dockerfile").read_text())
    image = Builder(dockerfile.Context(ROOT), _uv_cache(), progress).build(stages)
    prune(image)
    return image


def _uv_cache() -> Path | None:
    """Return uv's cache on this machine: the hashes of the lock file verify its files."""
    uv = next((ROOT / ".uv" / "bin").glob("uv-*"), None)
    if uv is None:
        return None
    return Path(subprocess.run([uv, "cache", "dir"], capture_output=True, text=True, check=True).stdout.strip())
