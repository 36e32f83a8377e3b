"""`make facts`: run every fact, write the runs down and make the documents. --document makes them alone."""

from __future__ import annotations

import sys

import pytest

from tests.facts.document import write
from tests.facts.fact import FOLDER
from tests.facts.recorder import Recorder


def main(arguments: list[str]) -> int:
    """With the arguments of pytest, as in `-k admission`; returns its exit code."""
    code = 0
    if arguments != ["--document"]:
        recorder = Recorder()
        # Facts measure processor time: one at a time. -v shows the running test and its progress.
        chosen = arguments if any("test_" in argument for argument in arguments) else [*arguments, str(FOLDER)]
        code = int(pytest.main(["-v", "-p", "no:xdist", "--durations=10", *chosen], plugins=[recorder]))
        recorder.store()
    write()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
