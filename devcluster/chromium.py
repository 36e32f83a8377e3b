"""A Chromium for the tests of the dashboard: an installed one, else Debian's packages, unpacked into the user's cache.

`python -m devcluster.chromium` gets it ready. Nothing is installed, so that no rights are needed.
"""

import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from devcluster.builds import cache_folder, is_program, locked
from devcluster.debian import get_ready, unpack
from devcluster.progress import Progress, silent

NAMED_BY = "MUSTER_CHROMIUM"
"""The environment variable that names a program to use."""
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking")
_INSTALLED = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_PACKAGES = ("chromium", "fonts-dejavu-core")
_ADVICE = (
    "The tests of the dashboard need Chromium, and there is none. Install it (on Debian and Ubuntu: apt install "
    f"chromium), or name the program in {NAMED_BY}."
)
_FONTS = """<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig>
<dir>{root}/usr/share/fonts</dir><dir>/usr/share/fonts</dir><cachedir>{root}/fontcache</cachedir>
<include ignore_missing="yes">/etc/fonts/conf.d</include></fontconfig>
"""
_LAUNCHER = """#!/bin/sh
export LD_LIBRARY_PATH={libraries} FONTCONFIG_FILE={root}/fonts.conf
exec {root}/usr/lib/chromium/chromium "$@"
"""


def chromium(progress: Progress = silent) -> Path:
    """Return the program. Downloads 120 MB the first time, if none is installed."""
    if named := os.environ.get(NAMED_BY):
        return Path(named)
    if installed := next(filter(None, map(shutil.which, _INSTALLED)), None):
        return Path(installed)
    cache = cache_folder() / "chromium"
    program = cache / "root" / "chromium"
    if not is_program(program):
        with locked(cache, progress):
            if not is_program(program):
                _unpack(cache, program, progress)
    return program


def _unpack(cache: Path, program: Path, progress: Progress) -> None:
    """Download the packages and what they need beyond what is installed, and unpack them beside each other."""
    with TemporaryDirectory(dir=cache, prefix=".unpacking-") as scratch:
        root = unpack(_PACKAGES, Path(scratch), progress, what="Chromium, 120 MB,", advice=_ADVICE)
        final = program.parent
        folders = sorted({str(final / path.parent.relative_to(root)) for path in root.glob("usr/lib/*/**/*.so*")})
        (root / "fonts.conf").write_text(_FONTS.format(root=final))
        launcher = root / program.name
        launcher.write_text(_LAUNCHER.format(root=final, libraries=":".join(folders)))
        launcher.chmod(0o755)
        os.replace(root, final)


if __name__ == "__main__":
    get_ready(chromium)
