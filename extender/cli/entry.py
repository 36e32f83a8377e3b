"""The entry points of `muster` and `kubectl-muster`. All imports are inside a try, so Ctrl-C shows no traceback."""

from __future__ import annotations

import io
import os
import shlex
import sys
from contextlib import redirect_stdout


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


def complete() -> None:
    """Print the words that may come next, then a line that says that no file may.

    kubectl runs this as ``kubectl_complete-muster`` when a user types Tab after ``kubectl muster``."""
    words = ["kubectl-muster", *(sys.argv[1:] or [""])]
    os.environ |= {
        "_MUSTER_COMPLETE": "complete_bash",
        "COMP_WORDS": shlex.join(words[:-1]) + " " + words[-1],
        "COMP_CWORD": str(len(words) - 1),
    }
    offers = io.StringIO()
    try:
        with redirect_stdout(offers):
            main()
    finally:
        sys.stdout.write("\n".join([*filter(None, offers.getvalue().splitlines()), ":4\n"]))
