"""The cluster of `make devcluster ARGS=--muster`, and a shell on it as the page of the first gang tells to open one."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from devcluster.supervisor import PR_SET_PDEATHSIG
from tests.documents.pages import ROOT

_LOOK_EVERY_S = 0.1
_PATIENCE_S = 120.0

_libc = ctypes.CDLL(None)

Gangs = dict[str, dict[str, Any]]


@contextmanager
def playground(directory: Path = ROOT, *options: str) -> Iterator[Playground]:
    """The cluster while the block lasts, and no longer than this process; commands are typed in the directory.
    ``options``: those of `make devcluster`."""
    argv = [sys.executable, "-m", "devcluster", *(options or ("--muster",))]
    process = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True, preexec_fn=_end_with_parent)
    try:
        yield Playground(directory, _exported(process))
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()


def _end_with_parent() -> None:
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def _exported(process: subprocess.Popen[str]) -> dict[str, str]:
    assert process.stdout is not None
    environment = dict(os.environ)
    for line in process.stdout:
        name, _, value = line.strip().removeprefix("export ").partition("=")
        environment[name] = value.replace("$PATH", os.environ["PATH"])
        if name == "PATH":
            return environment
    raise AssertionError(f"the cluster did not start: exit code {process.wait()}")


class Playground:
    """A shell on a running cluster."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self.directory = directory
        self.environment = environment

    def run(self, command: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Type a command; both its outputs are in ``stdout``."""
        return subprocess.run(
            ["bash", "-c", command], cwd=self.directory, env=self.environment, input=stdin, text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def until_gangs(self, holds: Callable[[Gangs], bool]) -> None:
        """Wait until Muster's gangs, by name, are as expected."""

        def look() -> Gangs:
            answer = httpx.get(f"{self.environment['MUSTER_URL']}/gangs", trust_env=False)
            return {gang["name"]: gang for gang in answer.raise_for_status().json()}

        self._until(look, holds)

    def until_said(self, command: str, text: str) -> None:
        """Wait until a command says this."""
        self._until(lambda: self.run(command).stdout, lambda output: text in output)

    def _until(self, look: Callable[[], Any], holds: Callable[[Any], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not holds(seen := look()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not as expected within {_PATIENCE_S:.0f} s; last seen: {seen}")
            time.sleep(_LOOK_EVERY_S)
