"""Gangs of 16 nodes on NVLink racks of 18: GPUs by claims (DRA), a ComputeDomain each, and kube-scheduler alone beside.

The stand-in for NVIDIA's driver publishes the devices, and its controller makes the templates. All pods have a claim of
four GPUs and one of a channel. Domains, templates, pods and claims exist before the clock starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from benchmarks import throughput
from benchmarks.benchmark import Benchmark, Kind, rounds
from benchmarks.stage import CLIQUE, Mode, Stage, gang
from devcluster import Cluster
from devcluster.api import Object
from devcluster.nvidia import NvidiaDriver
from devcluster.progress import Progress

NODES_PER_RACK, GPUS_PER_NODE = 18, 4
MODES = (Mode.ADAPTIVE, Mode.NOMINATE)
_DRA = "/apis/resource.k8s.io/v1/namespaces/default"
TEMPLATES, CLAIMS = f"{_DRA}/resourceclaimtemplates", f"{_DRA}/resourceclaims"
DOMAINS = "/apis/resource.nvidia.com/v1beta1/namespaces/default/computedomains"
_GPUS: Object = {
    "metadata": {"name": "gpus"},
    "spec": {
        "spec": {
            "devices": {
                "requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": GPUS_PER_NODE}}]
            }
        }
    },
}
_WAIT_S = 300.0


def rack_of(node: int | str) -> str:
    """The clique of a node, by its number or its name."""
    number = node if isinstance(node, int) else int(node.rpartition("-")[2])
    return f"rack.{number // NODES_PER_RACK}"


def domain(name: str) -> Object:
    """A ComputeDomain of any number of nodes."""
    spec = {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": f"{name}-channel"}}}
    return {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomain",
        "metadata": {"name": name},
        "spec": spec,
    }


def members(name: str, size: int, mode: Mode) -> list[Object]:
    """The pods of a gang: four GPUs and a channel each, by claims."""
    pods = gang(name, size, mode, gpus=0)
    for pod in pods:
        pod["spec"]["resourceClaims"] = [
            {"name": "gpus", "resourceClaimTemplateName": "gpus"},
            {"name": "channel", "resourceClaimTemplateName": f"{name}-channel"},
        ]
    return pods


def _create(stage: Stage, count: int, size: int) -> None:
    names = [f"gang-{number}" for number in range(count)]
    stage.api.create(TEMPLATES, _GPUS)
    stage.api.create_all((DOMAINS, domain(name)) for name in names)
    stage.api.wait_for(TEMPLATES, lambda made: len(made) == count + 1, _WAIT_S)
    stage.create(pod for name in names for pod in members(name, size, stage.mode))
    stage.api.wait_for(CLAIMS, lambda made: len(made) == 2 * count * size, _WAIT_S)


LOAD = throughput.Load(_create, rack_of, lambda size: -(-size // NODES_PER_RACK))


def _furnish(cluster: Cluster, nodes: list[str]) -> None:
    NvidiaDriver(cluster).publish(nodes, GPUS_PER_NODE)


def _measure(
    racks: int, gangs: int, size: int, patience_s: float, mode: Mode, number: int, progress: Progress
) -> throughput.Run:
    labels = lambda number: {CLIQUE: rack_of(number)}  # noqa: E731 - as Stage takes them
    stage = Stage(mode, racks * NODES_PER_RACK, progress, labels=labels, gpus=0, furnish=_furnish)
    return throughput.measure_on(stage, gangs, size, patience_s, number, progress, LOAD)


def ratio(runs: Sequence[throughput.Run]) -> float | None:
    """The median over the rounds of Muster's speed by that of kube-scheduler alone in the same round."""
    return throughput.ratio(runs, Mode.NOMINATE, Mode.ADAPTIVE)


KIND = Kind(throughput.Run, throughput.tables, throughput.problems, throughput.picture)


def benchmark(
    racks: int, gangs: int, size: int, modes: Sequence[Mode], repeat: int, patience_s: float
) -> Benchmark[throughput.Run]:
    """Gangs on racks, in each of the modes."""
    settings = {"racks": racks, "gangs": gangs, "size": size, "modes": modes, "repeat": repeat}
    steps = {
        step: partial(_measure, racks, gangs, size, patience_s, mode, number)
        for step, mode, number in rounds(modes, repeat)
    }
    return Benchmark(f"racks-{racks}", KIND, settings, steps)
