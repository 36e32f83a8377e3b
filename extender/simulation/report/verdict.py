"""The result of a comparison in sentences: what Muster gains, and where its waiting times are longer and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from extender.simulation.report.outcome import Figures, Outcome, Waits
from extender.simulation.report.tables import counted, hours, size_words, waited

MUSTER, ORDERED, BOUND = "muster", "fifo", "ideal"
_FACTOR, _LEAST_S = 1.1, 60.0
"""A percentile is called longer from these on: less is chance."""


def verdict(outcomes: Sequence[Outcome], price: float) -> str:
    """One or two sentences: who starts all jobs, what is held without work, and how long jobs wait."""
    ours = _ours(outcomes).figures
    others = [one.figures for one in outcomes if one.figures is not ours and one.figures.scheduler != BOUND]
    parts = [f"With {ours.scheduler} {_started(ours)}{_held(ours, price)}."]
    if others:
        one = others[0]
        parts.append(f"With {one.scheduler} {_started(one)}{_held(one, price)}.")
    waits = [f"{waited(one.overall)} with {one.scheduler}" for one in (ours, *others[:1])]
    parts.append(f"The median and the 95th percentile of the waiting time are {', and '.join(waits)}.")
    return " ".join(parts)


def longer_waits(outcomes: Sequence[Outcome]) -> list[str]:
    """A sentence or two for each scheduler that lets jobs of some size wait less than Muster does, with the reason."""
    ours = _ours(outcomes)
    found = []
    for other in outcomes:
        if other is ours or other.figures.scheduler == BOUND:
            continue
        pairs = zip(ours.figures.waits, other.figures.waits, strict=True)
        worse = [(mine, theirs) for mine, theirs in pairs if _longer(mine, theirs)]
        if worse:
            where = "; ".join(f"{_size(mine)}: {waited(mine)} against {waited(theirs)}" for mine, theirs in worse)
            why = " ".join(_why(ours, other, [mine for mine, _ in worse]))
            found.append(f"Longer than with {other.figures.scheduler}: {where}. {why}")
    return found


def _ours(outcomes: Sequence[Outcome]) -> Outcome:
    """The one that is compared with the others."""
    return next((one for one in outcomes if one.figures.scheduler == MUSTER), outcomes[0])


def _started(one: Figures) -> str:
    if not one.never_started:
        return "the only job starts" if one.jobs == 1 else f"all {one.jobs:,} jobs start"
    return f"{one.never_started:,} of {counted(one.jobs, 'job')} never {'start' if one.never_started > 1 else 'starts'}"


def _held(one: Figures, price: float) -> str:
    if one.held < 0.01:
        return " and no GPU is held without work"
    return f" and {hours(one.held)} GPU-hours ({one.held * price:,.0f} USD) are held without work"


def _size(one: Waits) -> str:
    return f"{size_words(one.most_gpus)} {'GPU' if one.most_gpus == 1 else 'GPUs'}"


def _longer(mine: Waits, theirs: Waits) -> bool:
    return any(
        theirs_s is not None and (mine_s is None or (mine_s > _FACTOR * theirs_s and mine_s - theirs_s > _LEAST_S))
        for mine_s, theirs_s in ((mine.median_s, theirs.median_s), (mine.p95_s, theirs.p95_s))
    )


def _why(ours: Outcome, other: Outcome, worse: Sequence[Waits]) -> Iterator[str]:
    """The reasons that the figures of both support."""
    mine, theirs = ours.figures, other.figures
    if ours.fairness is not None:
        yield f"With {mine.scheduler} a job waits for the quota of its queue, too."
    if theirs.never_started > mine.never_started:
        jobs = counted(theirs.never_started, "job")
        yield f"{theirs.scheduler} never starts {jobs}, and others use the GPUs that {mine.scheduler} gives to these."
    if theirs.scheduler == ORDERED:
        yield f"{ORDERED} lets no job pass an older one: large gangs get room sooner, and the jobs behind them wait."
    elif theirs.held > mine.held and any(one.most_gpus in ours.gangs for one in worse):
        yield (
            "A gang waits as a whole until there is room for all of its pods, and smaller jobs start in the meantime. "
            f"{theirs.scheduler} gives GPUs to its pods one by one, which keeps that room for it: "
            f"{hours(theirs.held)} GPU-hours were held without work for that."
        )
    pairs = zip(mine.waits, theirs.waits, strict=True)
    sooner = ", ".join(f"jobs of {_size(one)}" for one, its in pairs if _longer(its, one))
    if sooner and any(one.most_gpus not in ours.gangs for one in worse):
        yield f"In turn {sooner} wait less, and use GPUs that single pods use with {theirs.scheduler}."
