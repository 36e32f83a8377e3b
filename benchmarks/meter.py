"""Processor time and memory of a process, from /proc. Both hold on a noisy machine, where elapsed time does not."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
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


def family_ms(pid: int, proc: Path = PROC) -> float:
    """The processor time so far of a process and of all that descend from it and still run."""
    parents = {}
    for stat in proc.glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    family = {pid}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(cpu_ms(pid, proc) for pid in family)


def memory_mib(pid: int, proc: Path = PROC) -> tuple[float, float]:
    """Resident memory now, and at its highest."""
    lines = (line.split() for line in (proc / str(pid) / "status").read_text().splitlines())
    amounts = {words[0].rstrip(":"): int(words[1]) / 1024 for words in lines if words and words[0].startswith("Vm")}
    return amounts["VmRSS"], amounts["VmHWM"]


def used(after: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    """The amount that each process used in between, by name. A new process had used nothing before."""
    return {name: after[name] - before.get(name, 0.0) for name in after}
