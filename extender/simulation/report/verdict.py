"""The result of a comparison in sentences: the answer to the question, Muster's gains, and which jobs wait longer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from extender.simulation.report.outcome import Figures, Outcome, Waits
from extender.simulation.report.tables import counted, duration, hours, size_words, waited

MUSTER, ORDERED, BOUND = "muster", "fifo", "ideal"
CHANGED = f"{MUSTER}, "
"""The prefix of the name of Muster with changed settings, which are the subject of the question."""
_FACTOR, _LEAST_S = 1.1, 60.0
"""From which factor and difference on a percentile counts as longer; smaller ones are chance."""
_QUANTILES = (("median", "median_s"), ("95th percentile", "p95_s"))


def verdict(outcomes: Sequence[Outcome], price: float) -> str:
    """Sentences on a changed setting, on who starts all jobs, on GPUs held without work, and on waiting times."""
    muster = _ours(outcomes)
    ours = muster.figures
    changed = [
        outcome for outcome in outcomes if outcome is not muster and outcome.figures.scheduler.startswith(CHANGED)
    ]
    parts = [_change(outcome, muster, price) for outcome in changed]
    parts.append(f"With {ours.scheduler} {_started(muster)}{_held(ours, price)}.")
    others = [
        outcome for outcome in outcomes if outcome not in (muster, *changed) and outcome.figures.scheduler != BOUND
    ]
    parts += [
        f"With {outcome.figures.scheduler} {_started(outcome)}{_held(outcome.figures, price)}."
        for outcome in others[:1]
    ]
    waits = [f"{waited(outcome.figures.overall)} with {outcome.figures.scheduler}" for outcome in (muster, *others[:1])]
    parts.append(f"The median and the 95th percentile of the waiting time are {', and '.join(waits)}.")
    return " ".join(parts)


def longer_waits(outcomes: Sequence[Outcome]) -> list[str]:
    """A sentence or two for each scheduler with which jobs of some size wait less than with Muster, and why."""
    ours = _ours(outcomes)
    sentences = []
    for other in outcomes:
        if other is ours or other.figures.scheduler == BOUND:
            continue
        pairs = zip(ours.figures.waits, other.figures.waits, strict=True)
        worse = [(mine, theirs) for mine, theirs in pairs if _longer(mine, theirs)]
        if worse:
            where = "; ".join(_against(mine, theirs) for mine, theirs in worse)
            why = " ".join(_why(ours, other, [mine for mine, _ in worse]))
            sentences.append(f"Longer than with {other.figures.scheduler}: {where}. {why}".strip())
    return sentences


def _ours(outcomes: Sequence[Outcome]) -> Outcome:
    """The outcome that the others are compared with."""
    by_name = {outcome.figures.scheduler: outcome for outcome in reversed(outcomes)}
    changed = [outcome for name, outcome in by_name.items() if name.startswith(CHANGED)]
    return by_name.get(MUSTER) or next(iter(changed), outcomes[0])


def _change(changed: Outcome, muster: Outcome, price: float) -> str:
    """The effect of changed settings, compared with Muster without the change."""
    after, before = changed.figures, muster.figures
    setting = after.scheduler.removeprefix(CHANGED)
    unchanged = replace(muster, figures=replace(before, scheduler=after.scheduler), steps=changed.steps)
    if unchanged == changed:
        return f"With {setting} nothing changes: all figures are those of {before.scheduler}."
    parts = [f"With {setting} {_started(changed)}{_held(after, price)}."]
    pairs = list(zip(after.waits, before.waits, strict=True))
    for word, pairs_of_word in (
        ("longer", [(new, old) for new, old in pairs if _longer(new, old)]),
        ("less long", [(new, old) for new, old in pairs if _longer(old, new)]),
    ):
        if pairs_of_word:
            where = "; ".join(_against(new, old, longer=word == "longer") for new, old in pairs_of_word)
            parts.append(f"Jobs wait {word} than with {before.scheduler}: {where}.")
    if changed.preempted.evictions != muster.preempted.evictions or after.lost != before.lost:
        parts.append(
            f"{counted(changed.preempted.evictions, 'eviction')} cost {hours(after.lost)} GPU-hours of work; with "
            f"{before.scheduler}: {counted(muster.preempted.evictions, 'eviction')}, {hours(before.lost)} GPU-hours."
        )
    if changed.preempted.several:
        new, old = changed.preempted.priorities[0], muster.preempted.priorities[0]
        waits = [f"{duration(times.waited[0])} / {duration(times.waited[1])}" for times in (new, old)]
        parts.append(f"Jobs of priority {new.priority} wait {waits[0]} (median / 95th percentile) against {waits[1]}.")
    return " ".join(parts)


def _started(outcome: Outcome) -> str:
    figures = outcome.figures
    jobs, never = figures.jobs, figures.never_started
    if not never:
        return "the only job starts" if jobs == 1 else "both jobs start" if jobs == 2 else f"all {jobs:,} jobs start"
    why = next(iter(outcome.reasons.values()), "").rstrip(".")
    because = f" ({'the first of them waits: ' if never > 1 else 'it waits: '}{why})" if why else ""
    if never == jobs:
        return ("the only job never starts" if jobs == 1 else f"none of the {jobs:,} jobs starts") + because
    return f"{never:,} of {jobs:,} jobs never {'start' if never > 1 else 'starts'}{because}"


def _held(figures: Figures, price: float) -> str:
    if figures.held < 0.01:
        return " and no GPU is held without work"
    return f" and {hours(figures.held)} GPU-hours ({figures.held * price:,.0f} USD) are held without work"


def _size(waits: Waits) -> str:
    return f"{size_words(waits.most_gpus)} {'GPU' if waits.most_gpus == 1 else 'GPUs'}"


def _against(mine: Waits, theirs: Waits, *, longer: bool = True) -> str:
    """Both times for each percentile that is notably longer in ``mine``; with ``longer`` False: shorter."""
    named = _longer_quantiles(mine, theirs) if longer else _longer_quantiles(theirs, mine)
    shown = [
        f"{name} {duration(getattr(mine, field))} against {duration(getattr(theirs, field))}"
        for name, field in _QUANTILES
        if name in named
    ]
    return f"{_size(mine)}: {', '.join(shown)}"


def _longer(mine: Waits, theirs: Waits) -> bool:
    return bool(_longer_quantiles(mine, theirs))


def _longer_quantiles(mine: Waits, theirs: Waits) -> list[str]:
    return [name for name, field in _QUANTILES if _above(getattr(mine, field), getattr(theirs, field))]


def _above(mine_s: float | None, theirs_s: float | None) -> bool:
    return theirs_s is not None and (mine_s is None or (mine_s > _FACTOR * theirs_s and mine_s - theirs_s > _LEAST_S))


def _why(ours: Outcome, other: Outcome, worse: Sequence[Waits]) -> Iterator[str]:
    """Yield the reasons that the figures of both support."""
    mine, theirs = ours.figures, other.figures
    if ours.fairness is not None and not theirs.scheduler.startswith(CHANGED):
        yield f"With {mine.scheduler} a job waits for the quota of its queue, too."
    if theirs.never_started > mine.never_started:
        jobs = counted(theirs.never_started, "job")
        yield f"{theirs.scheduler} never starts {jobs}, and others use the GPUs that {mine.scheduler} gives to these."
    if theirs.scheduler == ORDERED:
        yield f"{ORDERED} lets no job pass an older one: large gangs get room sooner, and the jobs behind them wait."
    elif theirs.held > mine.held and any(waits.most_gpus in ours.gangs for waits in worse):
        yield (
            "A gang waits as a whole until there is room for all of its pods, and smaller jobs start in the meantime. "
            f"{theirs.scheduler} gives GPUs to its pods one by one, which keeps that room for it: "
            f"{hours(theirs.held)} GPU-hours were held without work for that."
        )
    pairs = zip(mine.waits, theirs.waits, strict=True)
    sooner = [(waits, quantiles) for waits, its in pairs if (quantiles := _longer_quantiles(its, waits))]
    if sooner and any(waits.most_gpus not in ours.gangs for waits in worse):
        sizes = ", ".join(f"jobs of {_size(waits)} ({' and '.join(quantiles)})" for waits, quantiles in sooner)
        yield f"In turn {sizes} wait less, and use GPUs that single pods use with {theirs.scheduler}."
