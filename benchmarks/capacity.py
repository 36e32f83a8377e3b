"""The capacity of one replica: figures of several benchmarks, from which operators size a cluster, in one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.benchmark import Table, middle
from benchmarks.kinds import runs_of
from benchmarks.record import Content
from benchmarks.stage import Mode

_NODES = 5000


@dataclass(frozen=True)
class _Figure:
    """A line of the table. ``of`` takes the runs of that results file; None if they lack what the figure needs."""

    what: str
    benchmark: str
    of: Callable[[Sequence[Any]], str | None]
    grows_with: str


def capacity(contents: Mapping[str, Content]) -> Table:
    """The figures; a dash where something was not measured."""
    rows = []
    for figure in _FIGURES:
        content = contents.get(figure.benchmark)
        value = None if content is None else figure.of(runs_of(content))
        rows.append((figure.what, value or "-", figure.grows_with))
    return Table("Capacity", ("of one replica", "measured", "grows with"), rows)


def _of_mode(mode: Mode, amount: Callable[[Any], float], unit: str) -> Callable[[Sequence[Any]], str | None]:
    def of(runs: Sequence[Any]) -> str | None:
        amounts = [amount(run) for run in runs if run.mode is mode]
        return f"{middle(amounts):.3g}{unit}" if amounts else None

    return of


def _look(runs: Sequence[Any]) -> str | None:
    return next((f"{middle(run.pass_ms):.3g} ms" for run in runs if run.nodes == _NODES), None)


def _started(mode: Mode, writes: str) -> _Figure:
    what = f"pods started a second at 5,000 nodes, `steering: {mode}`"
    of = _of_mode(mode, lambda run: run.pods_per_s, "")
    return _Figure(what, f"throughput-{_NODES}", of, f"speed of the API server: {writes} writes for a pod")


_FIGURES = (
    _Figure(
        "memory, with 5,000 nodes and 20,000 pods", "memory", lambda runs: f"{max(runs[0].highest_mib):.0f} MiB", "pods"
    ),
    _Figure("from its start until ready, the same", "memory", lambda runs: f"{max(runs[0].ready_s):.1f} s", "pods"),
    _started(Mode.NOMINATE, "three"),
    _started(Mode.PIN_DOMAIN, "two"),
    _started(Mode.PIN_NODE, "two"),
    _Figure(
        "a gang of 512, from its last pod to its last bind",
        "gang",
        _of_mode(Mode.AUTO, lambda run: middle(run.seconds), " s"),
        "its members",
    ),
    _Figure("a look at 1,000 waiting gangs at 5,000 nodes", "core", _look, "gangs that wait and differ, nodes"),
)
