"""The results file of every module with facts: when a slow fact or a measurement ran last, and its figures."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.about import cpu_model
from devcluster import binaries
from tests.facts.fact import FOLDER

Figures = dict[str, Any]


class Run(msgspec.Struct, frozen=True):
    """The last time that a fact was found to hold, by `make facts`."""

    date: str
    machine: str
    kubernetes: str
    commit: str
    figures: Figures = {}


def load(module: str) -> dict[str, Run]:
    """The recorded runs of a module's facts, by the facts' ids."""
    path = _path(module)
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Run]) if path.exists() else {}


def store(module: str, runs: dict[str, Run]) -> None:
    """Write the runs down beside those of the module's other facts."""
    kept = dict(sorted((load(module) | runs).items()))
    _path(module).parent.mkdir(exist_ok=True)
    _path(module).write_text(json.dumps(msgspec.to_builtins(kept), indent=2) + "\n")


def run_now(figures: Figures) -> Run:
    """A run today, on this machine, with the code as it is."""
    model = cpu_model(Path("/proc/cpuinfo").read_text())
    commit = subprocess.run(
        ["git", "rev-parse", "--short=10", "HEAD"], cwd=FOLDER, capture_output=True, text=True, check=False
    )
    return Run(
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        machine=f"{model}, {os.cpu_count()} cores",
        kubernetes=binaries.kubernetes_version(),
        commit=commit.stdout.strip() or "unknown",
        figures=figures,
    )


def _path(module: str) -> Path:
    return FOLDER / "results" / f"{module.removeprefix('test_')}.json"
