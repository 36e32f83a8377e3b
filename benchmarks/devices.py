"""Measure the cost of devices for the core: first all are evaluated for each requirement, then one slice changes.

No control plane, no kube-scheduler. Times are of the processor, so that other work on the machine does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from time import process_time

from msgspec import Struct

from benchmarks.benchmark import Benchmark, Kind, Table, middle
from devcluster.progress import Progress
from extender.core.events import ClaimTemplateSeen, DeviceClassSeen, SliceSeen
from extender.core.ledger.claims import Claims
from extender.core.ledger.devices import Devices
from extender.core.limits import Limits
from extender.runtime.garbage import freeze_present
from policies.model import Node, Pod
from policies.model.devices import (
    ClaimRequest,
    ClaimSpec,
    ClaimTemplate,
    ClaimUse,
    Device,
    DeviceRequest,
    Facts,
    Flag,
    PoolKey,
    Quantity,
    Reach,
    Slice,
    Value,
    Version,
)
from policies.model.quantities import exact

DRIVER = "gpu.nvidia.com"
CLASS = DeviceClassSeen(DRIVER, "", (f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'gpu'",))
_HERE, _MEMORY = f"device.attributes['{DRIVER}']", f"device.capacity['{DRIVER}'].memory"
SELECTORS = (
    "",
    f"{_HERE}.productName.lowerAscii().matches('^.*h100.*$')",
    f"{_HERE}.productName in ['NVIDIA H100 80GB HBM3', 'NVIDIA H200']",
    f"{_HERE}.architecture == 'Hopper'",
    f"{_HERE}.cudaComputeCapability.isGreaterThan(semver('8.9.0'))",
    f"{_HERE}.driverVersion.compareTo(semver('570.0.0')) >= 0 && {_MEMORY}.isLessThan(quantity('100G'))",
    f"has({_HERE}.profile) && {_HERE}.profile == '1g.5gb'",
    f"cel.bind(gpu, {_HERE}, gpu.brand == 'Nvidia' || gpu.productName.contains('H100'))",
    f"{_HERE}.uuid == 'GPU-7-7'",
    "device.attributes['resource.kubernetes.io'].pcieRoot == 'pci3'",
    *(f"{_MEMORY}.compareTo(quantity('{amount}Gi')) >= 0" for amount in range(8, 88, 8)),
)
"""Selectors of twenty requirements: most ask for what many devices have, one for a single device of the cluster."""
_CHANGES = 200


class Run(Struct, frozen=True):
    """``first_s``: the first pass, in ``steps``; ``longest_ms``: the longest of them. ``changed_ms``: one slice."""

    nodes: int
    devices: int
    requirements: int
    first_s: float
    steps: int
    longest_ms: float
    changed_ms: float
    lines: int


def benchmark(nodes: int, devices: int, repeat: int) -> Benchmark[Run]:
    steps = {f"round {number}": partial(measure, nodes, devices) for number in range(1, repeat + 1)}
    return Benchmark("devices", KIND, {"nodes": nodes, "devices": devices, "repeat": repeat}, steps)


def tables(runs: Sequence[Run]) -> list[Table]:
    columns = (
        *("nodes", "devices each", "requirements", "amounts", "first pass, s", "in steps", "longest step, ms"),
        "one changed slice, ms",
    )
    row = (
        *(str(number) for number in (runs[0].nodes, runs[0].devices, runs[0].requirements, runs[0].lines)),
        f"{middle([run.first_s for run in runs]):.2f}",
        str(runs[0].steps),
        f"{middle([run.longest_ms for run in runs]):.1f}",
        f"{middle([run.changed_ms for run in runs]):.2f}",
    )
    return [Table("Devices in the core", columns, [row])]


KIND = Kind(Run, tables)


def measure(nodes: int, devices: int, progress: Progress) -> Run:
    """Have twenty pods with a claim each ask for devices of the nodes, then change one slice after the other."""
    progress("nodes and slices")
    claims = Claims()
    ledger = Devices(claims, Limits())
    ledger.note(CLASS)
    slices = [_slice(f"n{number}", devices, number) for number in range(nodes)]
    for published in slices:
        claims.set_node(Node(published.name, (("pods", 110),)))
        ledger.note(SliceSeen(published))
    for number, selector in enumerate(SELECTORS):
        request = DeviceRequest(DRIVER, (selector,) if selector else ())
        spec = ClaimSpec((ClaimRequest("gpu", (request,)),))
        ledger.note(ClaimTemplateSeen(ClaimTemplate("default", f"t{number}", spec)))
        ledger.record(Pod(f"p{number}", "default", f"p{number}", device_claims=(ClaimUse("gpu", "", f"t{number}"),)))
    freeze_present()  # as after the lists of a real cluster
    progress("the first pass")
    spent, longest, steps = 0.0, 0.0, ledger.settle()
    taken = 0
    while True:
        began = process_time()
        ended = next(steps, None) is None
        step = process_time() - began
        spent, longest, taken = spent + step, max(longest, step), taken + 1
        if ended:
            break
    progress("slices that change")
    changed = []
    for number in range(_CHANGES):
        before = slices[number % nodes]
        after = replace(before, devices=before.devices[: devices - 1 + number // nodes % 2])
        began = process_time()
        ledger.note(SliceSeen(after))
        changed.append((process_time() - began) * 1000)
    lines = len(ledger.lines)
    return Run(nodes, devices, len(SELECTORS), spent, taken, longest * 1000, middle(changed), lines)


def _slice(node: str, devices: int, number: int) -> Slice:
    slice_devices = tuple(Device(f"gpu-{at}", _facts(number, at)) for at in range(devices))
    return Slice(node, PoolKey(DRIVER, node), 1, 1, Reach(node), slice_devices)


def _facts(node: int, at: int) -> Facts:
    attributes: dict[str, Value] = {
        "type": "gpu",
        "uuid": f"GPU-{node}-{at}",
        "productName": "NVIDIA H100 80GB HBM3",
        "brand": "Nvidia",
        "architecture": "Hopper",
        "addressingMode": "HMM",
        "cudaComputeCapability": Version(9, 0, 0),
        "driverVersion": Version(580, 95, 5),
        "cudaDriverVersion": Version(13, 0, 0),
    }
    common = "resource.kubernetes.io"
    return {
        ("driver",): DRIVER,
        ("attributes", DRIVER): Flag.YES,
        ("attributes", common): Flag.YES,
        ("capacity", DRIVER): Flag.YES,
        **{("attributes", DRIVER, name): value for name, value in attributes.items()},
        ("attributes", common, "pciBusID"): f"0000:{at:02x}:00.0",
        ("attributes", common, "pcieRoot"): f"pci{at}",
        ("capacity", DRIVER, "memory"): Quantity(exact("81559Mi")),
    }
