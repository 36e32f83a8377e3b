"""The goals of Muster, and the measured figures.

Ratios and processor time carry over to other machines; seconds do so only roughly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks import (
    contention,
    core,
    dashboard,
    devices,
    gang,
    jobs,
    latency,
    levels,
    memory,
    queues,
    racks,
    throughput,
    waiting,
)
from benchmarks.benchmark import Table, middle
from benchmarks.job_stage import Arm
from benchmarks.kinds import runs_of
from benchmarks.record import Content
from benchmarks.stage import Mode


@dataclass(frozen=True)
class Goal:
    """A goal. ``of`` takes the runs of that results file; None if they lack what the goal needs."""

    benchmark: str
    text: str
    bar: float
    of: Callable[[Sequence[Any]], float | None]
    unit: str = ""
    at_least: bool = False

    def met(self, measured: float) -> bool:
        return measured >= self.bar if self.at_least else measured <= self.bar


def judged(contents: Mapping[str, Content]) -> Table:
    """The table of every goal, its measured figure, and whether it was met."""
    rows = []
    for goal in GOALS:
        content = contents.get(goal.benchmark)
        measured = None if content is None else goal.of(runs_of(content))
        sign = "at least " if goal.at_least else "at most " if goal.bar else ""
        figure_text, verdict = "-", "not measured"
        if measured is not None:
            figure_text, verdict = f"{measured:.3g}{goal.unit}", "yes" if goal.met(measured) else "**no**"
        rows.append((goal.text, f"{sign}{goal.bar:g}{goal.unit}", figure_text, verdict))
    return Table("Goals", ("goal", "bar", "measured", "met"), rows)


def _of_mode(mode: Mode, figure: Callable[[Any], float | None]) -> Callable[[Sequence[Any]], float | None]:
    """The median of a figure over the runs of one mode."""

    def of(runs: Sequence[Any]) -> float | None:
        figures = [value for run in runs if run.mode is mode and (value := figure(run)) is not None]
        return middle(figures) if figures else None

    return of


def _speed(nodes: int, mode: Mode, reference: Mode, bar: float) -> Goal:
    text = f"throughput, {nodes:,} nodes, {mode}: times {reference}"
    return Goal(f"throughput-{nodes}", text, bar, lambda runs: throughput.ratio(runs, mode, reference), at_least=True)


def _worst(runs: Sequence[throughput.Run], figure: Callable[[throughput.Run], float]) -> float | None:
    return max((figure(run) for run in runs if not run.mode.alone), default=None)


def _promises(nodes: int) -> list[Goal]:
    name, place = f"throughput-{nodes}", f"throughput, {nodes:,} nodes, every mode of Muster"
    return [
        Goal(name, f"{place}: gangs bound in part at the end", 0, lambda runs: _worst(runs, lambda run: run.partial)),
        Goal(name, f"{place}: cliques of a gang", 1, lambda runs: _worst(runs, lambda run: run.cliques_at_most)),
        Goal(name, f"{place}: pods woken by a flush", 0, lambda runs: _worst(runs, lambda run: run.flushed)),
    ]


def _job_speed(nodes: int, shape: str, reference: Arm, bar: float) -> Goal:
    text = f"Jobs of {shape}, {nodes:,} nodes, muster: times {reference}"
    return Goal(f"jobs-{nodes}", text, bar, lambda runs: jobs.ratio(runs, shape, Arm.MUSTER, reference), at_least=True)


def _job_promises(nodes: int) -> list[Goal]:
    def worst(what: str, bar: float, figure: Callable[[jobs.Run], float]) -> Goal:
        def of(runs: Sequence[jobs.Run]) -> float | None:
            return max((figure(run) for run in runs if run.arm is Arm.MUSTER), default=None)

        return Goal(f"jobs-{nodes}", f"Jobs, {nodes:,} nodes, muster: {what}", bar, of)

    return [
        worst("Jobs bound in part at the end", 0, lambda run: run.partial),
        worst("cliques of a Job more than needed", 0, lambda run: run.cliques_at_most - run.cliques_needed),
        worst("writes to a pod besides its Binding", 0, jobs.pod_writes),
    ]


def _release(runs: Sequence[jobs.Run]) -> float | None:
    return jobs.ratio(runs, "512x1", Arm.MUSTER, Arm.ADAPTIVE, jobs.bindings_per_s)


def _bound_after(mode: Mode) -> Callable[[Sequence[gang.Run]], float | None]:
    return _of_mode(mode, lambda run: middle(run.seconds))


def _large_gang(mode: Mode, bar: float) -> Goal:
    return Goal("gang", f"a gang of 512, {mode}: last creation to last bind", bar, _bound_after(mode), " s")


def _times_native(runs: Sequence[gang.Run]) -> float | None:
    native, ours = _bound_after(Mode.NATIVE)(runs), _bound_after(Mode.AUTO)(runs)
    return ours / native if native and ours is not None else None


def _contention(what: str, bar: float, figure: Callable[[contention.Run], float | None], unit: str = " s") -> Goal:
    return Goal("contention", f"contention, nominate: {what}", bar, _of_mode(Mode.NOMINATE, figure), unit)


def _both(figures: Mapping[str, float]) -> float:
    return figures.get("kube-scheduler", 0.0) + figures.get("extender", 0.0)


def _inside(*whats: str) -> Callable[[Sequence[latency.Report]], float | None]:
    def of(reports: Sequence[latency.Report]) -> float | None:
        figures = [run.inside_p99_ms for report in reports for run in report.runs if run.what in whats]
        return max((figure_value for figure_value in figures if figure_value is not None), default=None)

    return of


def _core(what: str, bar: float, figure: Callable[[core.Run], Sequence[float]]) -> Goal:
    def of(runs: Sequence[core.Run]) -> float | None:
        return next((middle(figure(run)) for run in runs if run.nodes == 5000), None)

    return Goal("core", f"decision at 5,000 nodes: {what}", bar, of, " ms")


def _asking(question: core.Question) -> Goal:
    bar = 1 if question.size == core.SMALL else 10
    return _core(f"gang of {question.words}", bar, lambda run: run.asking_ms[question.words])


def _devices(what: str, bar: float, figure: Callable[[devices.Run], float], unit: str) -> Goal:
    def of(runs: Sequence[devices.Run]) -> float | None:
        return middle([figure(run) for run in runs])

    return Goal("devices", f"5,000 nodes with 8 devices, 20 requirements: {what}", bar, of, unit)


def _names(what: str, figures: Callable[[dict[str, float]], float]) -> Goal:
    def of(runs: Sequence[core.Run]) -> float | None:
        return next((figures(run.names.ratios()) for run in runs if run.nodes == 5000 and run.names), None)

    return Goal("core", f"5,000 nodes with twelve names of resources: {what}, times that with four", 1.15, of)


def _starts(what: str, bar: float, figure: Callable[[core.Starts], Sequence[float]]) -> Goal:
    def of(runs: Sequence[core.Run]) -> float | None:
        return next((middle(figure(run.starts)) for run in runs if run.nodes == 5000 and run.starts), None)

    return Goal("core", f"expected starts of {core.WAITING:,} gangs at 5,000 nodes: {what}", bar, of, " ms")


def _memory(what: str, bar: float, figure: Callable[[memory.Run], Sequence[float]], unit: str) -> Goal:
    return Goal(
        "memory", f"5,000 nodes, 20,000 pods: {what}", bar, lambda runs: max(figure(runs[0]), default=None), unit
    )


def _dashboard(what: str, bar: float, of: Callable[[Sequence[Any]], float | None], unit: str = "") -> Goal:
    return Goal("dashboard", f"dashboard, 5,000 nodes, 2,000 gangs, 20 viewers: {what}", bar, of, unit)


def _quiet(run: waiting.Run) -> float:
    return _both(run.quiet.cpu_share) * 100


def _tried_again(run: waiting.Run) -> float:
    return run.churn.cpu_share.get("extender", 0.0) * 100


GOALS: Sequence[Goal] = (
    *(
        _job_speed(nodes, shape, Arm.ADAPTIVE, bar)
        for nodes in (1000, 5000)
        for shape, bar in (("8x1", 1.1), ("8x8", 0.95), ("64x8", 0.95))
    ),
    *(_job_speed(5000, str(shape), Arm.ALL, 4) for shape in jobs.SHAPES),
    _job_speed(500, "512x1", Arm.NATIVE, 1),
    Goal("jobs-500", "one Job of 512, muster: Bindings a second, times alone-adaptive", 1, _release, at_least=True),
    *(goal for nodes in (1000, 5000, 500) for goal in _job_promises(nodes)),
    _speed(5000, Mode.NOMINATE, Mode.ALL, 3.3),
    _speed(5000, Mode.NOMINATE, Mode.ADAPTIVE, 0.75),
    _speed(5000, Mode.PIN_DOMAIN, Mode.ALL, 4.0),
    _speed(5000, Mode.PIN_DOMAIN, Mode.ADAPTIVE, 0.85),
    _speed(5000, Mode.PIN_NODE, Mode.ALL, 4.0),
    _speed(5000, Mode.PIN_NODE, Mode.ADAPTIVE, 0.85),
    _speed(1000, Mode.NOMINATE, Mode.ADAPTIVE, 0.65),
    _speed(1000, Mode.PIN_DOMAIN, Mode.ADAPTIVE, 0.85),
    _speed(1000, Mode.PIN_NODE, Mode.ADAPTIVE, 0.85),
    Goal("levels-1000", "throughput, 1,000 nodes, three levels: times first fit", 0.95, levels.ratio, at_least=True),
    Goal(
        "racks-20",
        "gangs of 16 nodes on racks of 18, GPUs and channels by claims: times alone-adaptive",
        0.8,
        racks.ratio,
        at_least=True,
    ),
    Goal(
        "throughput-1000",
        "throughput, 1,000 nodes, nominate: processor time of the extender per pod",
        1.5,
        _of_mode(Mode.NOMINATE, lambda run: run.cpu_ms["extender"]),
        " ms",
    ),
    *_promises(1000),
    *_promises(5000),
    _large_gang(Mode.AUTO, 2.2),
    _large_gang(Mode.NOMINATE, 2.2),
    _large_gang(Mode.PIN_DOMAIN, 1.6),
    _large_gang(Mode.PIN_NODE, 1.6),
    Goal("gang", "a gang of 512, auto: last creation to last bind, times native", 1, _times_native),
    _contention("as many gangs as fit are whole after", 2, lambda run: run.seconds),
    _contention("longest time a gang is partial", 1, lambda run: run.longest_partial_s),
    _contention("processor time of kube-scheduler and extender in the next 60 s", 0.5, lambda run: _both(run.cpu_s)),
    Goal(
        "waiting",
        "1,000 waiting gangs, quiet, nominate: kube-scheduler and extender, share of a core",
        2,
        _of_mode(Mode.NOMINATE, _quiet),
        " %",
    ),
    Goal(
        "waiting",
        "1,000 gangs that arrive at once, nominate: each has its reason after",
        10,
        _of_mode(Mode.NOMINATE, lambda run: run.explained_s),
        " s",
    ),
    Goal(
        "waiting-ungated",
        "100 waiting ungated gangs beside 10 other pods a second: extender, share of a core",
        10,
        _of_mode(Mode.UNGATED, _tried_again),
        " %",
    ),
    Goal("latency", "filter at 5,000 nodes, planned pod: p99 inside the extender", 2, _inside(latency.PLANNED), " ms"),
    Goal(
        "latency",
        "filter at 5,000 nodes, other pods: p99 inside the extender",
        10,
        _inside(latency.WAITING, latency.SINGLE),
        " ms",
    ),
    Goal("latency", "prioritize at 5,000 nodes: p99 inside the extender", 10, _inside(latency.PRIORITIZE), " ms"),
    _core("gang of 8", 1, lambda run: run.small_ms),
    _core("gang of 512", 10, lambda run: run.large_ms),
    *(_asking(question) for of_kind in core.QUESTIONS.values() for question in of_kind),
    _core("pass over 1,000 waiting gangs", 300, lambda run: run.pass_ms),
    _names("processor time of a decision", lambda ratios: max(ratios[what] for what in ratios if what != "memory")),
    _names("memory", lambda ratios: ratios["memory"]),
    _starts("processor time", 200, lambda starts: starts.all_ms),
    _starts("longest slice", 5, lambda starts: starts.longest_ms),
    Goal("queues", "1,000 ClusterQueues: a pass in which nothing can start, processor time", 20, queues.passing, " ms"),
    Goal("queues", "1,000 ClusterQueues: an admission, more than without queues and others", 2, queues.more, " ms"),
    _devices("first pass, processor time", 2, lambda run: run.first_s, " s"),
    _devices("one changed slice, processor time", 1, lambda run: run.changed_ms, " ms"),
    _dashboard("a page is painted after", 2, dashboard.first_s, " s"),
    _dashboard("a change is on the page after, p99", 1, dashboard.update_s, " s"),
    _dashboard("filter p99 inside the extender", 2, dashboard.filter_ms, " ms"),
    _dashboard("binds held until their deadline", 0, dashboard.deadlines),
    _dashboard("processor time of the extender, times that without a dashboard", 1.05, dashboard.times_alone),
    _memory("resident memory", 300, lambda run: run.resident_mib, " MiB"),
    _memory("ready after its start", 2.5, lambda run: run.ready_s, " s"),
)
