"""The display while the demo runs, and the table at its end. A progress bar is drawn only on a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from devcluster.demo.ledger import PodTimes
from devcluster.demo.outcome import Run
from devcluster.demo.scenario import JOBS
from devcluster.demo.sightings import Clock, Sightings


@contextmanager
def live(console: Console, clock: Clock, sightings: Sightings, window_s: float) -> Iterator[Callable[[], None]]:
    """Return a function that shows the news since its last call, with the demo's time before each line."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[time]}"))
    last_seen: dict[str, PodTimes] = {}
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=window_s, time=stamp(0.0))

        def look() -> None:
            pods = sightings.times()
            for at_s, line in sorted(line for pod in pods for line in news(last_seen.get(pod.name), pod)):
                console.print(f"  {stamp(at_s)}  {line}", highlight=False)
            last_seen.update((pod.name, pod) for pod in pods)
            now_s = clock.now_s()
            progress.update(bar, completed=min(now_s, window_s), description=standing(sightings), time=stamp(now_s))

        yield look


def news(before: PodTimes | None, now: PodTimes) -> Iterator[tuple[float, str]]:
    """Yield what has happened to a pod between two looks: when, and in words."""
    if now.bound_s is not None and (before is None or before.bound_s is None):
        yield now.bound_s, f"{now.name} gets {now.gpus} GPUs on {now.node}"
    if now.succeeded and (before is None or not before.succeeded) and now.ended_s is not None:
        yield now.ended_s, f"{now.name} has finished its work"


def standing(sightings: Sightings) -> str:
    """How both jobs stand, in a few words."""
    words = []
    for job in JOBS:
        pods = [pod for pod in sightings.times() if pod.job == job]
        done, bound = sum(pod.succeeded for pod in pods), sum(pod.bound_s is not None for pod in pods)
        state = "complete" if pods and done == len(pods) else f"{bound - done} of {len(pods)} pods have GPUs"
        if not pods:
            state = "no pods yet"
        words.append(f"{job}: {state}")
    return "   ".join(words)


def stamp(at_s: float) -> str:
    return f"{int(at_s) // 3600}:{int(at_s) // 60 % 60:02d}:{int(at_s) % 60:02d}"


def table(runs: tuple[Run, Run], price: float) -> Table:
    """Both runs side by side."""
    result = Table(title="What the GPUs did", title_justify="left")
    result.add_column("")
    for run in runs:
        result.add_column(run.title, justify="right")
    rows: list[tuple[str, Callable[[Run], str]]] = [
        ("Jobs completed", lambda run: f"{run.totals.jobs_completed} of {run.totals.jobs}"),
        ("Observed for", lambda run: stamp(run.totals.observed_s)),
        ("Makespan", lambda run: "never" if run.totals.makespan_s is None else stamp(run.totals.makespan_s)),
        ("Productive GPU-hours", lambda run: f"{run.totals.productive:.2f}"),
        ("GPU-hours held without work", lambda run: f"{run.totals.held:.2f}"),
        ("Initialisation GPU-hours", lambda run: f"{run.totals.starting:.2f}"),
        ("Free GPU-hours", lambda run: f"{run.totals.free:.2f}"),
        (f"Wasted at {price:.2f} USD per GPU-hour held", lambda run: f"{run.totals.held * price:.2f} USD"),
    ]
    for label, figure in rows:
        result.add_row(label, *(figure(run) for run in runs))
    return result
