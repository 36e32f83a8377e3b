"""How soon the other replica takes over when the leader is killed: two full replicas on a large cluster in use."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial

import httpx
from msgspec import Struct

from benchmarks.benchmark import Benchmark, Kind, Table, middle
from benchmarks.faults.scene import GANGS, Scene
from benchmarks.stage import CLIQUE, GPUS_PER_NODE, Mode, clique_of, gang
from devcluster import Cluster
from devcluster.api import Object
from devcluster.muster import RunningMuster, start_muster
from devcluster.progress import Progress
from extender.api.models import PREFIX
from policies.model import GANG_GATE

PODS = "/api/v1/namespaces/default/pods"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/muster"
HOSTS = ("pod-a", "pod-b")
SIZE = 8
STRUCK = 128
"""Members of the gang that is on its way when the leader is killed."""
WAITING = 100
"""Gangs that have no room, and as many that lack a member."""
PATIENCE_S = 600.0


class Run(Struct):
    """Seconds from the election of the other kube-scheduler until its extender acts, and until the gang is whole."""

    nodes: int
    pods: int
    states: dict[str, int]
    acting_s: list[float]
    whole_s: list[float]


def measure(nodes: int, pods: int, repeat: int, progress: Progress) -> Run:
    with Cluster(progress) as cluster:
        progress(f"adding {nodes} nodes")
        names = cluster.add_nodes(nodes, gpus=GPUS_PER_NODE, labels=lambda number: {CLIQUE: clique_of(number)})
        progress(f"creating {pods} bound pods of gangs, and gangs that wait")
        cluster.api.create_all((PODS, pod) for pod in _population(names, pods))
        progress("starting two replicas")
        replicas = {host: start_muster(cluster, hostname=host) for host in HOSTS}
        run = Run(nodes, pods, {}, [], [])
        for number in range(repeat):
            progress(f"takeover {number + 1} of {repeat}")
            _take_over(cluster, replicas, run)
        return run


def _population(nodes: Sequence[str], pods: int) -> Iterator[Object]:
    """Gangs that run, gangs that do not fit, and gangs that lack a member."""
    for number in range(pods // SIZE):
        for place, pod in enumerate(gang(f"run-{number}", SIZE, Mode.UNGATED)):
            pod["spec"]["nodeName"] = nodes[(number * SIZE + place) % len(nodes)]
            yield pod
    for number in range(WAITING):
        yield from _gated(gang(f"large-{number}", 2, Mode.UNGATED, gpus=GPUS_PER_NODE + 1))
        yield from _gated(gang(f"short-{number}", 3, Mode.UNGATED)[:2])


def _take_over(cluster: Cluster, replicas: dict[str, RunningMuster], run: Run) -> None:
    old = _leader(cluster, replicas)
    host = next(host for host in HOSTS if host != old)
    scene = Scene(cluster, replicas[old])
    scene.wait(lambda: httpx.get(f"{replicas[old].url}/readyz").text, lambda text: text == "ok\n", PATIENCE_S)
    with scene:
        with scene.until_first_binding():
            scene.create(_gated(_unplaced(scene.members("train", STRUCK))))
        replicas[old].extender.kill()
        replicas[old].scheduler.kill()
        elected = _elected_at(cluster, host)
        new = replicas[host]
        scene.wait(lambda: httpx.get(f"{new.url}/readyz").text, lambda text: text == "ok\n")
        run.acting_s.append(round(time.time() - elected, 2))
        scene.wait_bound("train", STRUCK)
        run.whole_s.append(round(time.time() - elected, 2))
        scene.muster = new
        run.states = dict(Counter(gang.state for gang in GANGS.validate_json(scene.page(f"{PREFIX}/gangs").content)))
        replicas[old].restart_extender()
        replicas[old].restart_scheduler()


def _gated(pods: list[Object]) -> list[Object]:
    """Gate the pods as the admission policy does. Otherwise kube-scheduler tries all waiting pods before the pods
    that the takeover has caught."""
    for pod in pods:
        pod["spec"]["schedulingGates"] = [{"name": GANG_GATE}]
    return pods


def _unplaced(pods: list[Object]) -> list[Object]:
    """On any node."""
    for pod in pods:
        del pod["spec"]["nodeSelector"]
    return pods


def _leader(cluster: Cluster, replicas: dict[str, RunningMuster]) -> str:
    lease = cluster.api.wait_for(LEASE, lambda lease: _host(lease) in replicas, PATIENCE_S)
    return _host(lease)


def _elected_at(cluster: Cluster, host: str) -> float:
    """The time at which the Lease went to that host, in seconds of the wall clock."""
    lease = cluster.api.wait_for(LEASE, lambda lease: _host(lease) == host)
    return datetime.fromisoformat(lease["spec"]["acquireTime"]).timestamp()


def _host(lease: Object | None) -> str:
    return str(((lease or {}).get("spec") or {}).get("holderIdentity") or "").rpartition("_")[0]


def tables(runs: Sequence[Run]) -> list[Table]:
    rows = [
        (
            f"{run.nodes:,} ({run.pods:,} pods)",
            ", ".join(f"{count} {state}" for state, count in sorted(run.states.items())),
            f"{middle(run.acting_s):.2f} s",
            f"{max(run.acting_s):.2f} s",
            f"{middle(run.whole_s):.2f} s",
            f"{max(run.whole_s):.2f} s",
        )
        for run in runs
    ]
    columns = ("nodes", "gangs after it", "acts after", "worst", f"broken gang of {STRUCK} whole after", "worst")
    return [Table("From the election of the other replica", columns, rows)]


KIND = Kind(Run, tables)


def benchmark(nodes: int, pods: int, repeat: int) -> Benchmark[Run]:
    settings = {"nodes": nodes, "pods": pods, "repeat": repeat}
    return Benchmark("takeover", KIND, settings, {"one run": partial(measure, nodes, pods, repeat)})
