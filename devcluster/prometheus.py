"""A Prometheus for tests: an installed one, else that of Debian's package, unpacked into the user's cache.

`python -m devcluster.prometheus` gets it ready.
"""

import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from devcluster.builds import cache_folder, is_program, locked
from devcluster.debian import get_ready, unpack
from devcluster.progress import Progress, silent

_ADVICE = (
    "The tests of utilisation need Prometheus and promtool, and they are not there. Install them (on Debian and "
    "Ubuntu: apt install prometheus)."
)


def prometheus(progress: Progress = silent) -> tuple[Path, Path]:
    """Return the programs prometheus and promtool. Downloads 20 MB the first time, if they are not installed."""
    server, tool = shutil.which("prometheus"), shutil.which("promtool")
    if server and tool:
        return Path(server), Path(tool)
    cache = cache_folder() / "prometheus"
    programs = cache / "root" / "usr" / "bin"
    if not is_program(programs / "promtool"):
        with locked(cache, progress):
            if not is_program(programs / "promtool"):
                with TemporaryDirectory(dir=cache, prefix=".unpacking-") as scratch:
                    # Both programs are written in Go, and need nothing but the C library.
                    root = unpack(
                        ["prometheus"], Path(scratch), progress, what="Prometheus, 20 MB,", advice=_ADVICE, alone=True
                    )
                    os.replace(root, cache / "root")
    return programs / "prometheus", programs / "promtool"


if __name__ == "__main__":
    get_ready(lambda progress: prometheus(progress)[0])
