"""The cost of the dashboard for the extender of a large cluster, and the time until viewers see a change.

Gangs start and end at an even rate, and filter is called. Spells without a dashboard, with one that has no viewer, and
with all viewers take turns.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

import httpx
from msgspec import Struct

from benchmarks.benchmark import Benchmark, Kind, Table, middle
from benchmarks.meter import cpu_ms, family_ms, used
from benchmarks.scrape import Page, quantile
from benchmarks.sightings import BOUND, PODS, Watching, annotated
from benchmarks.stage import CLIQUE, GPUS_PER_NODE, NODES_PER_CLIQUE, UNTHROTTLED, Mode, clique_of, gang, pod
from benchmarks.viewers import First, Seen, first_contents, look
from devcluster import Cluster
from devcluster.api import Api, Object
from devcluster.dashboard import RunningDashboard, make_viewer
from devcluster.muster import RunningMuster, install_gate, start_muster, with_components
from devcluster.progress import Progress
from extender.cli.load import Verb, calls, figures, fire
from policies.model import GANG_GATE

NAMESPACE = "beat"
BEATS = f"/api/v1/namespaces/{NAMESPACE}/pods"
RUNNING_SIZE, WAITING_SIZE, BEAT_SIZE = 4, 2, 8
"""Members of a gang that runs all the time, of one that waits, and of one that starts and ends."""
BEAT_S, LASTS_S = 1.0, 10.0
RATE, CANDIDATES = 50.0, 16
"""Calls of filter in a second, and the nodes in each."""
YOUNG_S = 3.0
"""Changes so late in a spell are not judged."""
LIST, MAP = f"?phase=running&text={NAMESPACE}", "map"
VIEWED = (LIST, MAP, "workloads/default/waits-{}", "overview", "")
"""The pages that viewers are at, in turn. The list shows the gangs that start, and the map the single pods."""
OPENED = ("", LIST, "workloads/default/waits-0", "overview", MAP, "queues", "day", "reasons")
VERBS, DEADLINES = "muster_verb_duration_seconds_bucket", "muster_gang_deadlines_total"
CONNECTED_S = 60.0
NICENESS = -10
"""The extender's. In a cluster neither the API server nor browsers share its cores."""


class Arm(StrEnum):
    UNSEEN = "no viewer"
    SEEN = "viewers"
    ALONE = "no dashboard"


class Spell(Struct):
    """The figures of one spell.

    ``filter_ms``: median and p99 as the caller sees them, and p99 inside the extender.
    ``deadlines``: gangs whose held binds reached their deadline.
    ``cpu_s``: processor time of each process.
    ``update_s``: by page, from a change until a viewer reads of it, for each change and viewer.
    """

    arm: Arm
    seconds: float
    filter_ms: tuple[float, float, float]
    started: int
    deadlines: int
    cpu_s: dict[str, float]
    update_s: dict[str, list[float]]


class Run(Struct):
    """``first``: the first content of each page while no other page is open.

    ``ahead``: whether the extender went before all other processes of the machine.
    """

    nodes: int
    gangs: int
    viewers: int
    browsers: int
    first: list[First]
    spells: list[Spell]
    ahead: bool = False


def measure(
    nodes: int, gangs: int, viewers: int, browsers: int, rounds: int, spell_s: float, progress: Progress
) -> Run:
    with Cluster(progress) as cluster:
        stage = _Stage(cluster, nodes, gangs, progress)
        progress("opening each page")
        first = asyncio.run(first_contents(stage.url, stage.token, OPENED))
        run = Run(nodes, gangs, viewers, browsers, first, [], _go_ahead(stage.muster.extender.pid))
        pages = [page.format(number) for number, page in zip(range(viewers), itertools.cycle(VIEWED), strict=False)]
        with _Changes(stage.api, stage.node_names) as changes:
            for number, arm in itertools.product(range(rounds), Arm):
                progress(f"{arm}, round {number + 1} of {rounds}")
                run.spells.append(_spell(stage, changes, arm, pages if arm is Arm.SEEN else (), browsers, spell_s))
    return run


def _go_ahead(pid: int) -> bool:
    """Let the process go before all others. Returns whether that is allowed."""
    try:
        os.setpriority(os.PRIO_PROCESS, pid, NICENESS)
    except PermissionError:
        return False
    return True


def _spell(stage: _Stage, changes: _Changes, arm: Arm, pages: Sequence[str], browsers: int, spell_s: float) -> Spell:
    stage.serve(wanted=arm is not Arm.ALONE)
    with (
        _Child(_viewers, stage.url, stage.token, pages, browsers if pages else 0) as viewers,
        _Child(_caller, stage.muster.url, spell_s) as caller,
    ):
        viewers.receive()
        caller.receive()
        children = {"viewers": viewers.pid, "caller": caller.pid}
        page, cpu, began = stage.page(), stage.cpu_ms(children), time.time()
        caller.send("begin")
        latencies = caller.receive()
        spent, ended, after = used(stage.cpu_ms(children), cpu), time.time(), stage.page()
        viewers.send("end")
        seen: list[Seen] = viewers.receive()
    times = {mark: at for mark, at in changes.times().items() if began < at < ended - YOUNG_S}
    inside_s = quantile(0.99, *(one.by("le", VERBS, verb="filter") for one in (after, page)))
    return Spell(
        arm=arm,
        seconds=round(ended - began, 2),
        filter_ms=(latencies["p50_ms"], latencies["p99_ms"], round(1000 * inside_s, 2)),
        started=sum(mark.startswith("beat") for mark in times),
        deadlines=int(after.total(DEADLINES, deadline="hold") - page.total(DEADLINES, deadline="hold")),
        cpu_s={name: round(ms / 1000, 2) for name, ms in spent.items()},
        update_s={
            shown: [
                round(one, 3) for viewer in seen if viewer.page == shown for one in _delays(viewer, kind, times, ended)
            ]
            for shown, kind in ((LIST, "beat"), (MAP, "tick"))
        },
    )


def _delays(viewer: Seen, kind: str, times: Mapping[str, float], ended: float) -> Iterator[float]:
    """Yield the delay of each change of that kind. The delay of a change that was not seen counts until the end."""
    for mark, at in times.items():
        if mark.startswith(kind):
            yield max(0.0, viewer.marks.get(mark, ended) - at)


def _viewers(pipe: Connection, url: str, token: str, pages: Sequence[str], browsers: int) -> None:
    async def until() -> None:
        pipe.send("open")
        await asyncio.to_thread(pipe.recv)

    pipe.send(asyncio.run(look(url, token, pages, browsers, until)))


def _caller(pipe: Connection, url: str, spell_s: float) -> None:
    questions = calls(Verb.FILTER, int(RATE * spell_s), CANDIDATES)
    pipe.send("ready")
    pipe.recv()
    pipe.send(figures(asyncio.run(fire(url, questions, rate=RATE, concurrency=8))))


class _Child:
    """A process that carries out a function of a pipe and of the arguments, so that no loop shares its interpreter."""

    def __init__(self, function: Callable[..., None], *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=function, args=(other, *arguments), daemon=True)
        self._process.start()
        other.close()
        self.pid = self._process.pid or 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._process.terminate()
        self._process.join()

    def send(self, message: str) -> None:
        self._pipe.send(message)

    def receive(self) -> Any:
        """Return the next message. Raises OSError when the process has ended without one."""
        try:
            return self._pipe.recv()
        except EOFError:
            raise OSError("a process of the benchmark has ended: its output says why") from None


class _Stage:
    """A control plane with Muster, its dashboard, gangs that run, and gangs that have no room.

    The running gangs have half of each node, and the waiting ones ask for whole nodes.
    """

    def __init__(self, cluster: Cluster, nodes: int, gangs: int, progress: Progress) -> None:
        self._cluster, self._gangs, self.api = cluster, gangs, cluster.api
        progress(f"adding {nodes} nodes")
        self.node_names = cluster.add_nodes(
            nodes, gpus=GPUS_PER_NODE, labels=lambda number: {CLIQUE: clique_of(number)}
        )
        progress(f"creating the pods of {gangs} gangs")
        cluster.kubectl("create", "namespace", NAMESPACE)
        # Pods that are on nodes are not to start there, which costs more than all that is measured.
        cluster.process("kwok").signal(signal.SIGSTOP)
        self.api.create_all((PODS, pod) for pod in _population(self.node_names, gangs))
        progress("starting Muster and its dashboard")
        manifests = with_components(cluster.directory / "manifests", "dashboard")
        self.muster: RunningMuster = start_muster(cluster, {}, UNTHROTTLED, manifests=manifests)
        install_gate(cluster)
        self.dashboard = RunningDashboard(cluster)
        self.url = self.dashboard.url
        space, _, name = make_viewer(cluster).partition("/")
        account = f"/api/v1/namespaces/{space}/serviceaccounts/{name}/token"
        self.token: str = self.api.create(account, {"spec": {"expirationSeconds": 7200}})["status"]["token"]
        self.muster.restart_extender(self.dashboard.settings)
        self.serve(wanted=True)

    def serve(self, *, wanted: bool) -> None:
        """Let the dashboard run, and wait until it knows the cluster; or end it."""
        if not wanted:
            self.dashboard.process.kill()
            return
        if not self.dashboard.process.running:
            self.dashboard.start()
        headers, deadline = {"Authorization": f"Bearer {self.token}"}, time.monotonic() + CONNECTED_S
        with httpx.Client(headers=headers, trust_env=False, timeout=30) as client:
            while len(client.get(f"{self.url}/api/v1/gangs").raise_for_status().json()) < self._gangs:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the dashboard did not know the cluster after {CONNECTED_S:g} s")
                time.sleep(0.5)

    def page(self) -> Page:
        """The extender's /metrics."""
        return Page(httpx.get(f"{self.muster.url}/metrics", trust_env=False, timeout=30).raise_for_status().text)

    def cpu_ms(self, children: Mapping[str, int]) -> dict[str, float]:
        """The processor time so far of every process, and of each child with all that it has started."""
        times = {_NAMES.get(one.name, one.name): cpu_ms(one.pid) for one in self._cluster.processes}
        return times | {name: family_ms(pid) for name, pid in children.items()} | {"changes": cpu_ms(os.getpid())}


_NAMES = {"kube-scheduler-muster": "kube-scheduler", "muster": "extender", "muster-dashboard": "dashboard"}


def _population(nodes: Sequence[str], gangs: int) -> Iterator[Object]:
    running = min(gangs, len(nodes) // RUNNING_SIZE)
    for number in range(running):
        for place, member in enumerate(gang(f"runs-{number}", RUNNING_SIZE, Mode.UNGATED, gpus=GPUS_PER_NODE // 2)):
            member["spec"]["nodeName"] = nodes[number * RUNNING_SIZE + place]
            yield member
    for number in range(gangs - running):
        for member in gang(f"waits-{number}", WAITING_SIZE, Mode.UNGATED, gpus=GPUS_PER_NODE, cpu=str(1 + number % 8)):
            member["spec"]["schedulingGates"] = [{"name": GANG_GATE}]
            yield member


class _Changes(Watching):
    """Starts a gang, and creates a single pod on a node, at an even rate. Both are deleted some time later."""

    def __init__(self, api: Api, nodes: Sequence[str]) -> None:
        super().__init__(api, BEATS, BOUND)
        self._nodes = nodes
        self._bound: dict[str, list[float]] = {}
        self._ended = threading.Event()
        self._beating = threading.Thread(target=self._beat, name="benchmark-changes", daemon=True)

    def __enter__(self) -> Self:
        super().__enter__()
        self._beating.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._beating.join()
        super().__exit__(kind, error, trace)

    def times(self) -> dict[str, float]:
        """When the last member of each gang and each single pod was seen on its node, in seconds since 1970."""
        with self._news:
            return {mark: bound[-1] for mark, bound in self._bound.items() if len(bound) == _size(mark)}

    def _see(self, one: Object) -> None:
        with self._news:
            self._bound.setdefault(annotated(one) or one["metadata"]["name"], []).append(time.time())

    def _beat(self) -> None:
        began = time.monotonic()
        for number in itertools.count():
            # The map names the largest workloads of a clique: each pod goes to another one.
            node = self._nodes[-1 - number * NODES_PER_CLIQUE % len(self._nodes)]
            single = pod(f"tick-{number}", Mode.NOMINATE, gpus=1, nodeName=node)
            for made in (*gang(f"beat-{number}", BEAT_SIZE, Mode.NOMINATE), single):
                made["metadata"]["labels"] = {"beat": str(number)}
                self._api.create(BEATS, made)
            if (old := number - round(LASTS_S / BEAT_S)) >= 0:
                self._api.delete(BEATS, labelSelector=f"beat={old}", gracePeriodSeconds=0)
            if self._ended.wait(max(0.0, began + (number + 1) * BEAT_S - time.monotonic())):
                return


def _size(mark: str) -> int:
    return BEAT_SIZE if mark.startswith("beat") else 1


def tables(runs: Sequence[Run]) -> list[Table]:
    run = runs[0]
    looks = f"{run.browsers} of {run.viewers} viewers are pages in Chromium, the others plain clients"
    first = [(f"/{one.page}", f"{one.kib:.0f}", f"{one.answered_s:.2f}", f"{one.painted_s:.2f}") for one in run.first]
    updates = [(page, delays) for page in (LIST, MAP) if (delays := _delays_of(runs, page))]
    ahead = ", which goes before all other processes" if run.ahead else ""
    beside = "spell", "filter p50, ms", "p99", "p99 inside", "deadlines missed", "extender, % of a core", "dashboard, %"
    return [
        Table("First content", ("page", "KiB", "answered, s", "painted, s"), first),
        Table(f"The extender beside the dashboard{ahead}", beside, [_beside(arm, run) for arm in Arm]),
        Table(
            f"From a change to the page: {looks}",
            ("page", "sightings", "median, s", "p99", "most"),
            [
                (f"/{page}", str(len(delays)), *(f"{at:.2f}" for at in (middle(delays), rank(delays), delays[-1])))
                for page, delays in updates
            ],
        ),
        Table("Processor time, % of a core", ("spell", "by process"), [_by_process(arm, run) for arm in Arm]),
    ]


def _beside(arm: Arm, run: Run) -> tuple[str, ...]:
    spells = [spell for spell in run.spells if spell.arm is arm]
    latencies = [f"{middle([spell.filter_ms[at] for spell in spells]):.2f}" for at in range(3)]
    missed = str(sum(spell.deadlines for spell in spells))
    return arm, *latencies, missed, *(f"{share(spells, name):.1f}" for name in ("extender", "dashboard"))


def _by_process(arm: Arm, run: Run) -> tuple[str, ...]:
    spells = [spell for spell in run.spells if spell.arm is arm]
    names = dict.fromkeys(name for spell in spells for name in spell.cpu_s)
    return arm, ", ".join(f"{name} {share(spells, name):.0f}" for name in names)


def first_s(runs: Sequence[Run]) -> float | None:
    """The longest time until a page is painted."""
    return max((one.painted_s for run in runs for one in run.first), default=None)


def update_s(runs: Sequence[Run]) -> float | None:
    """The 99th percentile of the times from a change to its page, for the slowest page."""
    pages = [_delays_of(runs, page) for page in (LIST, MAP)]
    return max((rank(delays) for delays in pages if delays), default=None)


def filter_ms(runs: Sequence[Run]) -> float | None:
    """The 99th percentile of filter inside the extender, beside all viewers: the median over the spells."""
    spells = [spell for run in runs for spell in run.spells if spell.arm is Arm.SEEN]
    return middle([spell.filter_ms[2] for spell in spells]) if spells else None


def deadlines(runs: Sequence[Run]) -> float | None:
    """How many gangs' held binds reached their deadline, in all spells."""
    return sum(spell.deadlines for run in runs for spell in run.spells)


def times_alone(runs: Sequence[Run]) -> float | None:
    """The processor time of the extender beside all viewers, by its time without a dashboard."""
    spells = [spell for run in runs for spell in run.spells]
    alone = share([spell for spell in spells if spell.arm is Arm.ALONE], "extender")
    return share([spell for spell in spells if spell.arm is Arm.SEEN], "extender") / alone if alone else None


def _delays_of(runs: Sequence[Run], page: str) -> list[float]:
    return sorted(delay for run in runs for spell in run.spells for delay in spell.update_s[page])


def share(spells: Sequence[Spell], name: str) -> float:
    """The share of a core that the process used, in percent: the median over the spells."""
    return middle([100 * spell.cpu_s.get(name, 0.0) / spell.seconds for spell in spells])


def rank(delays: Sequence[float]) -> float:
    """The 99th percentile of sorted values."""
    return delays[math.ceil(0.99 * len(delays)) - 1]


KIND = Kind(Run, tables)


def benchmark(nodes: int, gangs: int, viewers: int, browsers: int, repeat: int, spell_s: float) -> Benchmark[Run]:
    settings = {
        "nodes": nodes, "gangs": gangs, "viewers": viewers, "browsers": browsers, "repeat": repeat, "spell_s": spell_s,
    }  # fmt: skip
    step = partial(measure, nodes, gangs, viewers, browsers, repeat, spell_s)
    return Benchmark("dashboard", KIND, settings, {"one run": step})
