"""What `muster` and `kubectl-muster` run. The rest is imported inside a try: Ctrl-C ends that without a traceback."""

from __future__ import annotations

import sys


def main(name: str = "muster") -> None:
    """Run the command of the arguments. After Ctrl-C end with exit code 130."""
    try:
        from extender.cli.main import main as command

        command(prog_name=name)
    except KeyboardInterrupt:
        sys.exit(130)


def plugin() -> None:
    """The same as ``kubectl muster``: kubectl runs any kubectl-muster on the PATH."""
    main("kubectl muster")
