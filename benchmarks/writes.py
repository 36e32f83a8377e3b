"""The cost of each kind of write for the API server and its client: patch types, whole answers and metadata alone.

Nothing else happens meanwhile: there is no kube-scheduler and no Muster, and the simulated nodes stand still.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from msgspec import Struct

from benchmarks.benchmark import Benchmark, Kind, Table, middle
from benchmarks.meter import used
from benchmarks.sightings import PODS
from benchmarks.stage import NODES_PER_CLIQUE, Mode, Stage, gang
from devcluster.progress import Progress
from extender.kube.api.connection import METADATA_ONLY, Connection
from policies.model import GANG_GATE

AT_ONCE = 48
NODES = 64
Body = Callable[[str, str], Any]
"""A function that makes the body of the write for the pod of that UID and name."""


@dataclass(frozen=True)
class Write:
    """A way to write.

    ``patch``: strategic-merge, merge or json; empty for a POST. ``whole``: the answer is the object, not its metadata
    alone.
    """

    what: str
    patch: str
    path: str
    body: Body
    whole: bool = False

    async def send(self, connection: Connection, name: str, uid: str) -> None:
        kind = {"strategic-merge": "strategic-merge-patch+json", "merge": "merge-patch+json", "json": "json-patch+json"}
        await connection.call(
            "PATCH" if self.patch else "POST",
            f"{PODS}/{name}{self.path}",
            body=self.body(uid, name),
            content_type=f"application/{kind.get(self.patch, 'json')}",
            accept="application/json" if self.whole else METADATA_ONLY,
        )


def _nominate(node: str) -> Body:
    return lambda uid, _name: {"metadata": {"uid": uid}, "status": {"nominatedNodeName": node}}


def _nominate_by_json(node: str) -> Body:
    return lambda uid, _name: [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "add", "path": "/status/nominatedNodeName", "value": node},
    ]


def _ungate(*nodes: str, by_name: bool = True) -> Body:
    """The body that removes gates. ``by_name``: only that one gate, as strategic merge can; else all gates."""
    spec: dict[str, Any] = {"schedulingGates": [{"name": GANG_GATE, "$patch": "delete"}] if by_name else None}
    if nodes:
        terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]} for node in nodes]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        spec["affinity"] = {"nodeAffinity": required}
    return lambda uid, _name: {"metadata": {"uid": uid}, "spec": spec}


def _bind(node: str) -> Body:
    return lambda uid, name: {
        "metadata": {"name": name, "uid": uid, "annotations": {"muster.dev/gang-uid": uid, "muster.dev/release": uid}},
        "target": {"kind": "Node", "name": node},
    }


NOMINATION, UNGATE, BINDING = "nomination", "ungate", "Binding"
CLIQUE = [f"node-{number}" for number in range(NODES_PER_CLIQUE)]
SERIES: Sequence[Sequence[Write]] = (
    (
        Write(NOMINATION, "strategic-merge", "/status", _nominate("node-1"), whole=True),
        Write(NOMINATION, "strategic-merge", "/status", _nominate("node-2")),
        Write(NOMINATION, "merge", "/status", _nominate("node-3")),
        Write(NOMINATION, "json", "/status", _nominate_by_json("node-4")),
        Write(UNGATE, "strategic-merge", "", _ungate()),
        Write(BINDING, "", "/binding", _bind("node-5"), whole=True),
    ),
    (Write(UNGATE, "strategic-merge", "", _ungate(), whole=True),),
    (Write(UNGATE, "merge", "", _ungate(by_name=False)),),
    (Write("ungate and pin to a node", "strategic-merge", "", _ungate("node-1")),),
    (Write("ungate and pin to a clique", "strategic-merge", "", _ungate(*CLIQUE)),),
)
"""The writes of a series change the same pods, one way after the other."""


class Run(Struct, frozen=True):
    """The figures of one way in one round. Processor time per write, in ms: of the API server, of etcd, and of the
    client.

    ``per_s``: how many writes there were in a second, with 48 under way at once.
    """

    what: str
    patch: str
    whole: bool
    apiserver_ms: float
    etcd_ms: float
    client_ms: float
    per_s: float


class Report(Struct, frozen=True):
    """All ways in one round."""

    runs: list[Run]


def measure(count: int, progress: Progress) -> Report:
    """Each way for ``count`` pods that exist, are gated, and belong to no scheduler."""
    runs = []
    with Stage(Mode.ALL, NODES, progress) as stage:
        stage.pause("kwok")
        for number, series in enumerate(SERIES):
            progress(f"creating {count} pods")
            uids = _create(stage, f"series-{number}", count)
            for write in series:
                progress(write.what)
                runs.append(asyncio.run(_timed(stage, write, uids)))
    return Report(runs)


def _create(stage: Stage, name: str, count: int) -> dict[str, str]:
    """The pods of one series by name, with their UIDs."""
    pods = gang(name, count, stage.mode)
    for pod in pods:
        pod["spec"] |= {"schedulerName": "nobody", "schedulingGates": [{"name": GANG_GATE}]}
    stage.create(pods)
    made = {pod["metadata"]["name"]: str(pod["metadata"]["uid"]) for pod in stage.api.list(PODS)}
    return {pod["metadata"]["name"]: made[pod["metadata"]["name"]] for pod in pods}


async def _timed(stage: Stage, write: Write, uids: Mapping[str, str]) -> Run:
    connection = await Connection.open(stage.kubeconfig, connections=AT_ONCE)
    todo = iter(uids.items())

    async def work() -> None:
        for name, uid in todo:
            await write.send(connection, name, uid)

    try:
        before, began = stage.cpu_ms(), time.perf_counter()
        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
        seconds, spent = time.perf_counter() - began, used(stage.cpu_ms(), before)
    finally:
        await connection.close()
    each = {name: round(milliseconds / len(uids), 3) for name, milliseconds in spent.items()}
    costs = each["kube-apiserver"], each["etcd"], each["benchmark"]
    return Run(write.what, write.patch, write.whole, *costs, round(len(uids) / seconds, 1))


def tables(reports: Sequence[Report]) -> list[Table]:
    runs = [run for report in reports for run in report.runs]
    ways: dict[tuple[str, str, bool], list[Run]] = {}
    for what in dict.fromkeys(run.what for run in runs):
        for run in runs:
            if run.what == what:
                ways.setdefault((run.what, run.patch, run.whole), []).append(run)
    rows = [
        (
            what,
            patch or "-",
            "whole" if whole else "metadata",
            *(
                f"{middle([getattr(run, name) for run in own]):.2f}"
                for name in ("apiserver_ms", "etcd_ms", "client_ms")
            ),
            f"{middle([run.per_s for run in own]):.0f}",
        )
        for (what, patch, whole), own in ways.items()
    ]
    columns = ("write", "patch", "answer", "kube-apiserver ms", "etcd ms", "client ms", "writes/s")
    return [Table("Processor time per write", columns, rows)]


KIND = Kind(Report, tables)


def benchmark(count: int, repeat: int) -> Benchmark[Report]:
    steps = {f"round {number + 1}": partial(measure, count) for number in range(repeat)}
    return Benchmark("writes", KIND, {"pods": count, "repeat": repeat}, steps)
