"""How long the verbs take at a chosen rate, as the caller sees it and inside the extender; binds are of real gangs.

There is no kube-scheduler here: the load generator stands in for it, with the pods that it would have sent. Muster
plans real gangs on a real API server; what is called for their members is what kube-scheduler would call.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from benchmarks.benchmark import Benchmark, Kind, Table
from benchmarks.scrape import quantile
from benchmarks.sightings import GANG, PODS
from benchmarks.stage import GPUS_PER_NODE, Mode, Stage, gang, gangs, pod
from devcluster.api import Object
from devcluster.progress import Progress
from extender.cli.bench.measures import Sample
from extender.cli.load import Call, Load, Verb, bind_call, figures, fire, node_call

SIZE = 8
SETTLE_S = 120.0
HISTOGRAM = "muster_verb_duration_seconds"
PLANNED = "filter: planned member, its node"
WAITING = "filter: waiting member, every node"
SINGLE = "filter: pod of no gang, every node"
PRIORITIZE = "prioritize: every node"
BIND = "bind"
BIND_LAST = "bind: last member of its gang"
NAMES = {
    PLANNED: "filter.planned", WAITING: "filter.waiting", SINGLE: "filter.single", PRIORITIZE: "prioritize",
    BIND: "bind", BIND_LAST: "bind.last",
}  # fmt: skip
"""The names that thresholds and files have for the calls."""
SETTINGS = {"plan_timeout_s": 3600}
"""The plans must last while filter is measured, because no pod takes them up."""


class Run(Struct, frozen=True):
    """The figures of one kind of call.

    ``client``: counts and latencies as the caller saw them.
    ``inside_p99_ms``: from the extender's own histogram, which ends before the answer is sent; None where the
      histogram does not tell these calls apart.
    """

    what: str
    client: dict[str, float]
    inside_p99_ms: float | None


class Report(Struct, frozen=True):
    """All kinds of calls on one stage. ``latency_ms`` and ``errors`` are what two runs are compared by."""

    runs: list[Run]
    latency_ms: dict[str, dict[str, Any]] = {}
    errors: dict[str, int] = {}


def metrics(verbs: Sequence[Verb]) -> list[str]:
    """The names of the metrics of these verbs."""
    return [name for name in NAMES.values() if name.partition(".")[0] in verbs]


def measure(
    verbs: Sequence[Verb], rate: float, concurrency: int, count: int, nodes: int, results: dict[str, Load],
    progress: Progress,
) -> Report:  # fmt: skip
    """Every kind of call in turn.

    ``results``: takes them by name. Raises TimeoutError when the gangs are not planned in time.
    """
    number_of_gangs = max(1, min(count, nodes * GPUS_PER_NODE // 2) // SIZE)
    with Stage(Mode.UNGATED, nodes, progress, SETTINGS) as stage:
        progress(f"planning {number_of_gangs} gangs")
        stage.create(gangs(number_of_gangs, SIZE, stage.mode))
        members = stage.api.wait_for(PODS, lambda pods: all(map(_nominated, pods)), SETTLE_S)
        # More GPUs than any node has: it waits for as long as it exists.
        stage.create(gang("waiting", SIZE, stage.mode, gpus=GPUS_PER_NODE + 1))
        waiting = stage.api.get(f"{PODS}/waiting-0")
        wanted = {
            what: itertools.islice(itertools.cycle(calls), count)
            for what, calls in _questions(members, waiting, stage.node_names).items()
        }
        wanted[BIND] = itertools.islice([_bind_call(member) for member in sorted(members, key=_by_gang)], None)
        runs: list[Run] = []
        for what, calls in wanted.items():
            verb = Verb(what.partition(":")[0])
            if verb in verbs:
                progress(what)
                runs.append(_timed(stage, what, verb, list(calls), rate, concurrency, results))
                if verb is Verb.BIND:
                    runs.append(_last(results))
        latencies = {name: Sample.of(load.latencies_ms, sum(load.failed.values())) for name, load in results.items()}
        errors = {run.what: int(bad) for run in runs if (bad := run.client["refused"] + run.client["failed"])}
        return Report(runs, {name: sample.figures() for name, sample in latencies.items()}, errors)


def _by_gang(pod: Object) -> tuple[str, str]:
    return pod["metadata"]["annotations"][GANG], pod["metadata"]["name"]


def _nominated(pod: Object) -> bool:
    return bool(pod["status"].get("nominatedNodeName"))


def _questions(members: list[Object], waiting: Object, nodes: list[str]) -> dict[str, list[Call]]:
    """The calls that kube-scheduler makes about pods of each kind."""
    single = pod("single", Mode.UNGATED) | {"status": {}}
    single["metadata"] |= {"namespace": "default", "uid": "uid-single"}
    return {
        PLANNED: [
            node_call(Verb.FILTER, _as_sent(member), [member["status"]["nominatedNodeName"]]) for member in members
        ],
        WAITING: [node_call(Verb.FILTER, _as_sent(waiting), nodes)],
        SINGLE: [node_call(Verb.FILTER, single, nodes)],
        PRIORITIZE: [node_call(Verb.PRIORITIZE, single, nodes)],
    }


def _as_sent(pod: Object) -> Object:
    """kube-scheduler keeps no managedFields of pods, and sends none."""
    return {**pod, "metadata": {key: value for key, value in pod["metadata"].items() if key != "managedFields"}}


def _bind_call(pod: Object) -> Call:
    return bind_call(pod["metadata"]["uid"], pod["metadata"]["name"], pod["status"]["nominatedNodeName"])


def _timed(
    stage: Stage, what: str, verb: Verb, calls: list[Call], rate: float, concurrency: int, results: dict[str, Load]
) -> Run:
    before = stage.muster_page()
    load = results[NAMES[what]] = asyncio.run(fire(stage.muster_url, calls, rate, concurrency))
    after = stage.muster_page()
    buckets = [page.by("le", f"{HISTOGRAM}_bucket", verb=verb.value) for page in (after, before)]
    return Run(what, figures(load), _in_ms(quantile(0.99, *buckets)))


def _last(results: dict[str, Load]) -> Run:
    """Return the binds that wait for no other member: the last call of every gang."""
    last = {number: ms for number, ms in results[NAMES[BIND]].answers.items() if number % SIZE == SIZE - 1}
    load = results[NAMES[BIND_LAST]] = Load(answers=last)
    return Run(BIND_LAST, figures(load), None)


def _in_ms(seconds: float) -> float | None:
    return None if math.isnan(seconds) else round(seconds * 1000, 2)


FIGURES = ("answered", "refused", "failed", "per_s", "p50_ms", "p95_ms", "p99_ms", "max_ms")


def tables(reports: Sequence[Report]) -> list[Table]:
    rows = []
    for run in (run for report in reports for run in report.runs):
        figures = [*(run.client.get(name) for name in FIGURES), run.inside_p99_ms]
        rows.append((run.what, *("-" if figure is None else f"{figure:g}" for figure in figures)))
    columns = (
        "call",
        "answered",
        "refused",
        "failed",
        "calls/s",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "max ms",
        "inside p99 ms",
    )
    return [Table("Latency as the caller sees it", columns, rows)]


def problems(reports: Sequence[Report]) -> list[str]:
    return [
        f"{run.what}: {run.client[kind]:g} calls {kind}"
        for report in reports
        for run in report.runs
        for kind in ("refused", "failed")
        if run.client[kind]
    ]


KIND = Kind(Report, tables, problems)


def benchmark(
    verbs: Sequence[Verb], rate: float, concurrency: int, count: int, nodes: int, results: dict[str, Load] | None = None
) -> Benchmark[Report]:
    """The benchmark. ``results``: gets the measurements of each kind of call, by its name."""
    settings = {"verbs": verbs, "rate": rate, "concurrency": concurrency, "calls": count, "nodes": nodes}
    loads = {} if results is None else results
    step = partial(measure, verbs, rate, concurrency, count, nodes, loads)
    return Benchmark("latency", KIND, settings, {"one run": step})
