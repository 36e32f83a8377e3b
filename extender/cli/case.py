"""The input of `muster simulate`: turn files and options into a case that schedulers can play."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

from extender.config.reading import NOT_YAML, parse_yaml
from extender.config.settings import Settings, load
from extender.core.engine import Engine
from extender.core.events import QueueSeen
from extender.core.gate.advisory import Mode
from extender.simulation.contest import NO_QUEUES, Case, misfits, slots
from extender.simulation.replay.arrivals import Arrival, at_load, offered_load, window_s
from extender.simulation.replay.course import Terms
from extender.simulation.replay.queueing import NOBODY, Queueing, remarks, virtual_clusters
from extender.simulation.replay.scenario import Scenario
from extender.simulation.replay.shape import InputError, gpus_of, nodes_of, pools_from, words
from extender.simulation.replay.trace import ColumnsError, Layout, read_trace
from extender.simulation.report.tables import Input, counted
from policies.model import Node
from policies.model.queues import Preemption

_NEVER_S = math.inf
_FORECAST_S = 3600.0
"""The simulated time between two computations of expected starts, if any: one costs as much as many starts."""
_GZIP = b"\x1f\x8b"


@dataclass(slots=True)
class QueueInput:
    """The queue objects of files, or virtual queues.

    ``classes``: the values of the WorkloadPriorityClasses, by name.
    ``virtual``: each queue that a job names becomes a ClusterQueue.
    ``borrowing``: the GPUs that a virtual queue may borrow; None: all unused ones.
    ``rules``: the workloads that jobs of a virtual queue may evict.
    """

    seen: list[QueueSeen] = field(default_factory=list)
    classes: dict[str, int] = field(default_factory=dict)
    virtual: bool = False
    borrowing: int | None = None
    rules: Preemption = NOBODY


def core(settings: Settings) -> Engine:
    """An engine with these settings. It does not keep reasons up to date: a replay does not show them."""
    limits = settings.limits
    forecast_s = max(limits.forecast_s, _FORECAST_S)
    limits = replace(limits, refresh_s=_NEVER_S, report_s=_NEVER_S, forecast_s=forecast_s)
    # The pods of a replay say that they are Muster's, whatever its profiles are called.
    return Engine(("muster",), limits, settings.policies, settings.steering, settings.levels)


def settings_of(config: Path | None, changes: list[str], names: list[str] | None) -> dict[str, Settings]:
    """The settings by a name for people; with ``changes`` also the changed settings. Raises InputError, SettingsError.

    ``names``: the schedulerNames of Muster's pods, instead of those in the settings.
    """
    ours: dict[str, Any] = {"mode": Mode.ENFORCE, "scheduler_names": tuple(names) if names else None}
    settings = {"muster": load(config, **ours)}
    if changes:
        settings[f"muster, {', '.join(changes)}"] = load(config, **ours | dict(map(_change, changes)))
    return settings


def from_trace(path: Path, layout: Layout, cluster: str | None, jobs: int | None, gpus_per_pod: int) -> Scenario:
    """Read the jobs of a trace. Raises InputError."""
    # Not splitlines(): it also breaks lines where CSV does not.
    lines = text_of(path).split("\n")
    try:
        arrivals, left_out = read_trace(lines, layout, cluster=cluster, jobs=jobs, gpus_per_pod=gpus_per_pod)
    except ColumnsError as error:
        options = ", ".join(f"--{name}-column" for name in error.fields)
        raise InputError(f"{error}: say which it is with {options}") from None
    title = f"{counted(len(arrivals), 'job')} of {path.name}" + (f", {cluster}" if cluster else "")
    return Scenario(title, arrivals, [], Terms(), tuple(left_out))


def case_of(
    given: Scenario,
    queues: QueueInput,
    load_: float | None,
    seed: int,
    settings: dict[str, Settings],
    note: Callable[[str], None],
) -> tuple[Input, Case]:
    """Build the case. ``note`` is called with each remark on what is left out or does not count. Raises InputError."""
    if not given.pools:
        raise InputError('say which cluster: --cluster "64 nodes x 8 GPUs in cliques of 16"')
    for line in given.left_out:
        note(line)
    nodes, arrivals = nodes_of(given.pools), given.arrivals
    if left_out := misfits(arrivals, nodes):
        example = _too_large(left_out[0], nodes)
        if len(left_out) == len(arrivals):
            raise InputError(f"no job fits into the empty cluster: {example}")
        note(f"{counted(len(left_out), 'job')} left out, for which the empty cluster is too small: {example}")
        names = {arrival.name for arrival in left_out}
        arrivals = [arrival for arrival in arrivals if arrival.name not in names]
    gpus = gpus_of(nodes)
    arrivals = arrivals if load_ is None else at_load(arrivals, gpus, load_)
    virtual = virtual_clusters(arrivals, gpus, queues.borrowing, queues.rules) if queues.virtual else None
    queueing = Queueing(queues.seen if virtual is None else virtual)
    if not queueing.seen and any(arrival.queue for arrival in arrivals):
        note("the jobs name queues, and no --queues is given: they count for nothing")
    elif queueing.seen and not any(arrival.queue for arrival in arrivals):
        note("no job names a queue: the quota of --queues counts for nothing")
    arrivals = queueing.named(arrivals)
    queueing.check(arrivals, nodes)
    for line in chain.from_iterable(remarks(queueing.seen).values()):
        note(line)
    about = Input(
        jobs=given.title + (f", {len(left_out):,} left out" if left_out else ""),
        cluster=words(given.pools),
        load=offered_load(arrivals, gpus),
        window_s=window_s(arrivals),
        start_s=given.terms.start_s,
        give_up_s=given.terms.give_up_s,
        seed=seed,
        muster=version("muster-scheduler"),
        checkpoint_s=given.terms.checkpoint_s,
    )
    makers = {name: partial(core, setting) for name, setting in settings.items()}
    if queueing.seen:
        makers[NO_QUEUES] = makers["muster"]
    return about, Case(arrivals, nodes, given.terms, seed, makers, queueing)


def _too_large(job: Arrival, nodes: Sequence[Node]) -> str:
    """Return the job's needs and the empty cluster's amounts, for people."""
    needs = f"{job.name} needs {counted(job.needed, 'pod')} of {counted(job.gpus, 'GPU')} at once"
    largest = max(gpus_of([node]) for node in nodes)
    if job.gpus > largest:
        return f"{needs}; the largest node has {largest:,}"
    return f"{needs}; there is room for {slots(job.gpus, nodes):,} on {counted(len(nodes), 'node')}"


def queues_from(paths: Sequence[Path]) -> QueueInput:
    """Read the queue objects of these files. Raises InputError."""
    # What it takes to read them is imported where there are some.
    from extender.kube.queues.documents import queue_documents
    from extender.kube.reading.identity import UnreadableError

    queue_input = QueueInput()
    for path in paths:
        try:
            objects = list(queue_documents(text_of(path)))
        except UnreadableError as error:
            raise InputError(f"{path}: {error}") from None
        if not objects:
            raise InputError(f"{path}: there is no object in it")
        queue_input.seen += [queue_object for queue_object in objects if isinstance(queue_object, QueueSeen)]
        queue_input.classes |= {
            queue_object[0]: queue_object[1] for queue_object in objects if not isinstance(queue_object, QueueSeen)
        }
    return queue_input


def amended(given: Scenario, cluster: str, terms: dict[str, float | None]) -> Scenario:
    """Apply the cluster and the terms of the command line to a scenario; None changes nothing. Raises InputError."""
    changed_terms: dict[str, Any] = {name: value for name, value in terms.items() if value is not None}
    pools = pools_from(cluster) if cluster else given.pools
    return replace(given, pools=pools, terms=replace(given.terms, **changed_terms))


def text_of(path: Path) -> str:
    """Read a text file in UTF-8. Raises InputError, also if it is compressed."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    if content.startswith(_GZIP):
        raise InputError(f"{path} is compressed: unpack it first, with gunzip")
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        raise InputError(f"{path} is not text in UTF-8") from None


def _change(assignment: str) -> tuple[str, Any]:
    """Parse a change into a name and a value of the settings file. Raises InputError."""
    name, _, text = assignment.partition("=")
    try:
        value = parse_yaml(text)
    except NOT_YAML:
        value = None
    if not name.strip() or value is None:
        raise InputError(f"--policy {assignment}: say it like topology_policy=NAME")
    if name.strip() == "mode":
        raise InputError(
            f"--policy {assignment}: a simulated Muster enforces; one that advises leaves it all to kube-scheduler"
        )
    return name.strip(), value
