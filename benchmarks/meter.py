"""Processor time and memory of a process, from /proc. Both hold on a noisy machine, where elapsed time does not."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

PROC = Path("/proc")
_TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")


def cpu_ms(pid: int, proc: Path = PROC) -> float:
    """User and system time of all its threads so far, in steps of 10 ms; 0 when there is no such process."""
    try:
        stat = (proc / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    # The second field is the program's name in parentheses, which may hold spaces and parentheses of its own.
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK_MS


def memory_mib(pid: int, proc: Path = PROC) -> tuple[float, float]:
    """Resident memory now, and at its highest."""
    lines = (line.split() for line in (proc / str(pid) / "status").read_text().splitlines())
    amounts = {words[0].rstrip(":"): int(words[1]) / 1024 for words in lines if words and words[0].startswith("Vm")}
    return amounts["VmRSS"], amounts["VmHWM"]


def used(after: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    """The amount that each process used in between, by name. A new process had used nothing before."""
    return {name: after[name] - before.get(name, 0.0) for name in after}
