"""Debian's packages, downloaded and unpacked beside each other. Nothing is installed, so that no rights are needed."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from devcluster.errors import ClusterError
from devcluster.progress import Progress, Terminal


def get_ready(program: Callable[[Progress], Path]) -> None:
    """Get a program ready, and print where it is. Ends the process with the error if that fails."""
    progress = Terminal()
    try:
        path = program(progress)
    except ClusterError as error:
        sys.exit(str(error))
    finally:
        progress.done()
    print(path)  # noqa: T201


def unpack(
    packages: Sequence[str], scratch: Path, progress: Progress, *, what: str, advice: str, alone: bool = False
) -> Path:
    """Return the folder below ``scratch`` with the files of the packages, and of what else has to be installed.

    ``what``: the program and the size of the download, in words. ``advice``: what to do if that fails.
    ``alone``: the packages only. Raises ClusterError.
    """
    lists, archives, root = scratch / "lists", scratch / "cache", scratch / "root"
    (lists / "partial").mkdir(parents=True)
    (archives / "archives" / "partial").mkdir(parents=True)
    own = [f"Dir::State::lists={lists}", f"Dir::Cache={archives}", "Debug::NoLocking=1", "APT::Sandbox::User=root"]
    apt = ["apt-get", "-qq", *(word for option in own for word in ("-o", option))]
    progress("reading the lists of Debian's packages")
    _run([*apt, "update"], advice)
    progress(f"downloading {what} from Debian's packages")
    wanted = ["--yes", "--download-only", "--reinstall", "--no-install-recommends", "install"]
    _run([*apt, *(["download"] if alone else wanted), *packages], advice, archives / "archives")
    progress(f"unpacking {what}")
    for package in sorted((archives / "archives").glob("*.deb")):
        _run(["dpkg-deb", "--extract", str(package), str(root)], advice)
    return root


def _run(argv: Sequence[str], advice: str, folder: Path | None = None) -> None:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=folder)
    except OSError as error:
        raise ClusterError(f"{advice}\n{argv[0]}: {error}") from None
    if done.returncode != 0:
        raise ClusterError(f"{advice}\n{' '.join(argv)}:\n{done.stderr.strip()}")
