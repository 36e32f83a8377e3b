"""The cluster of `make devcluster ARGS=--muster`, and a shell on it as the page of the first gang tells to open one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from tests.documents.pages import ROOT

_LOOK_EVERY_S = 0.1
_PATIENCE_S = 60.0

Gangs = dict[str, dict[str, Any]]


class Playground:
    """Runs while the block lasts. ``environment`` is what it says to export."""

    def __init__(self, directory: Path = ROOT) -> None:
        self.directory = directory
        self.environment = dict(os.environ)
        self._cluster: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        argv = [sys.executable, "-m", "devcluster", "--muster"]
        self._cluster = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self._cluster.stdout is not None
        for line in self._cluster.stdout:
            name, _, value = line.strip().removeprefix("export ").partition("=")
            self.environment[name] = value.replace("$PATH", os.environ["PATH"])
            if name == "PATH":
                return self
        raise AssertionError(f"the cluster did not start: exit code {self._cluster.wait()}")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._cluster is not None
        self._cluster.send_signal(signal.SIGTERM)
        self._cluster.communicate()

    def run(self, command: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Type a command; what it says on both outputs is in ``stdout``."""
        return subprocess.run(
            ["bash", "-c", command], cwd=self.directory, env=self.environment, input=stdin, text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def until_gangs(self, holds: Callable[[Gangs], bool]) -> None:
        """Wait until Muster's gangs, by name, are as expected."""

        def look() -> Gangs:
            answer = httpx.get(f"{self.environment['MUSTER_URL']}/gangs", trust_env=False)
            return {one["name"]: one for one in answer.raise_for_status().json()}

        self._until(look, holds)

    def until_said(self, command: str, text: str) -> None:
        """Wait until a command says this."""
        self._until(lambda: self.run(command).stdout, lambda said: text in said)

    def _until(self, look: Callable[[], Any], holds: Callable[[Any], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not holds(seen := look()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not as expected within {_PATIENCE_S:.0f} s; last seen: {seen}")
            time.sleep(_LOOK_EVERY_S)
