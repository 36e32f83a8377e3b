"""Devices as drivers publish them, and selectors that vendors ship in their charts or print in their documents."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

from policies.devices.selectors import version
from policies.model.devices import Facts, Flag, Path, Quantity, Value
from policies.model.quantities import exact

FAILS = "fails"
"""CEL fails on the device, which ends kube-scheduler's attempt."""


class Published(NamedTuple):
    """A device: its driver, its attributes and capacities by name, those of the driver without a domain."""

    driver: str
    attributes: dict[str, Any]
    capacity: dict[str, str] = {}  # noqa: RUF012 - never changed

    def facts(self) -> Facts:
        by_path: dict[Path, Value] = {("driver",): self.driver}
        for kind, values in (("attributes", self.attributes), ("capacity", self.capacity)):
            for name, value in values.items():
                domain, _, short = name.rpartition("/")
                by_path[kind, domain or self.driver] = Flag.YES
                by_path[kind, domain or self.driver, short] = _value(kind, value)
        return by_path


class V(str):
    """A semantic version."""

    __slots__ = ()


def _value(kind: str, value: Any) -> Value:
    if kind == "capacity":
        return Quantity(Fraction(exact(value)))
    if isinstance(value, bool):
        return Flag(value)
    if isinstance(value, V):
        parsed = version(value)
        assert parsed is not None
        return parsed
    assert isinstance(value, (int, str))
    return value


NVIDIA, IMEX, INTEL, GAUDI = "gpu.nvidia.com", "compute-domain.nvidia.com", "gpu.intel.com", "gaudi.intel.com"
QAT, AMD, TPU, NET = "qat.intel.com", "gpu.amd.com", "tpu.google.com", "dra.net"
PCI = {
    "resource.kubernetes.io/pciBusID": "0000:1b:00.0",
    "resource.kubernetes.io/pcieRoot": "pci0000:16",
}
DEVICES = {
    "h100": Published(
        NVIDIA,
        {
            "type": "gpu",
            "uuid": "GPU-9f1c2a5e-1d3b-6c7a-8e9f-0a1b2c3d4e5f",
            "productName": "NVIDIA H100 80GB HBM3",
            "brand": "Nvidia",
            "architecture": "Hopper",
            "addressingMode": "HMM",
            "cudaComputeCapability": V("9.0.0"),
            "driverVersion": V("580.95.5"),
            "cudaDriverVersion": V("13.0.0"),
            **PCI,
        },
        {"memory": "81559Mi"},
    ),
    "a100": Published(
        NVIDIA,
        {
            "type": "gpu",
            "uuid": "GPU-0a0a0a0a",
            "productName": "NVIDIA A100-SXM4-40GB",
            "architecture": "Ampere",
            "cudaComputeCapability": V("8.0.0"),
            "driverVersion": V("550.127.5"),
            **PCI,
        },
        {"memory": "40Gi"},
    ),
    "mig": Published(
        NVIDIA,
        {
            "type": "mig",
            "uuid": "MIG-1",
            "parentUUID": "GPU-0a0a0a0a",
            "profile": "1g.5gb",
            "productName": "NVIDIA A100-SXM4-40GB",
            "architecture": "Ampere",
            "resource.kubernetes.io/pcieRoot": "pci0000:16",
        },
        {"memory": "4864Mi", "multiprocessors": "14", "memorySlice0": "1"},
    ),
    "vfio": Published(NVIDIA, {"type": "vfio", "vendorID": "0x10de", "productName": "NVIDIA H100 80GB HBM3", **PCI}),
    "channel": Published(IMEX, {"type": "channel", "id": 0}),
    "daemon": Published(IMEX, {"type": "daemon", "id": 0}),
    "max1550": Published(
        INTEL,
        {
            "model": "Max 1550",
            "family": "Max",
            "driver": "xe",
            "pciId": "0x0bd5",
            "pciAddress": "0000:18:00.0",
            "sriov": True,
            "health": "healthy",
        },
        {"memory": "128Gi", "millicores": "1k"},
    ),
    "igpu": Published(
        INTEL, {"model": "Unknown", "driver": "i915", "pciId": "0xa7a0", "sriov": False}, {"memory": "0"}
    ),
    "gaudi2": Published(GAUDI, {"model": "Gaudi2", "healthy": True, "serial": "AN01", **PCI}),
    "qat": Published(QAT, {"services": "sym;asym"}),
    "mi300x": Published(
        AMD,
        {
            "type": "amdgpu",
            "productName": "AMD_Instinct_MI300X_OAM",
            "family": "AI",
            "partitionProfile": "spx_nps1",
            "driverVersion": V("6.12.12"),
            "numaNode": 0,
            **PCI,
        },
        {"memory": "196592Mi", "computeUnits": "304", "simdUnits": "1216"},
    ),
    "mi300x-part": Published(
        AMD,
        {"type": "amdgpu-partition", "partitionProfile": "cpx_nps4", "driverVersion": V("6.12.12"), **PCI},
        {"memory": "24574Mi"},
    ),
    "v6e": Published(TPU, {"tpuGen": "v6e", "accelerator": "tpu-v6e-slice", "index": 3}),
    "nic": Published(
        NET,
        {
            "ifName": "eth1",
            "rdma": True,
            "rdmaDevice": "mlx5_0",
            "ipv4": "10.0.0.7/24",
            "dra.net/type": "device",
            "numaNode": 0,
            **PCI,
        },
    ),
    "veth": Published(NET, {"ifName": "dummy0", "dra.net/type": "dummy", "ipv4": "169.254.169.13/32"}),
}


class Shipped(NamedTuple):
    """A selector, and CEL's answers for the named devices; all other devices of the class fail."""

    expression: str
    answers: dict[str, bool | str]


_GPU = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com']"
_OF = "device.attributes['gpu.nvidia.com']"
_MEMORY = "device.capacity['gpu.nvidia.com'].memory"
SELECTORS = [
    # NVIDIA: the classes of the chart.
    Shipped(f"{_GPU}.type == 'gpu'", {"h100": True, "a100": True, "mig": False, "channel": False, "mi300x": False}),
    Shipped(f"{_GPU}.type == 'mig'", {"h100": False, "mig": True, "channel": False}),
    Shipped(f"{_GPU}.type == 'vfio'", {"h100": False, "vfio": True}),
    Shipped(
        "device.driver == 'compute-domain.nvidia.com' && "
        "device.attributes['compute-domain.nvidia.com'].type == 'channel' && "
        "device.attributes['compute-domain.nvidia.com'].id == 0",
        {"channel": True, "daemon": False, "h100": False},
    ),
    Shipped(
        "device.driver == 'compute-domain.nvidia.com' && "
        "device.attributes['compute-domain.nvidia.com'].type == 'daemon'",
        {"channel": False, "daemon": True, "h100": False},
    ),
    # NVIDIA: its documents and quick-starts.
    Shipped(f"{_OF}.productName.lowerAscii().matches('^.*a100.*$')", {"a100": True, "h100": False, "channel": FAILS}),
    Shipped(f"{_OF}.profile == '1g.5gb'", {"mig": True, "h100": FAILS}),
    Shipped(f"{_OF}.profile == '4g.40gb' || {_OF}.profile == '3g.40gb'", {"mig": False, "h100": FAILS}),
    Shipped(f"{_OF}.index < 4", {"h100": FAILS, "mig": FAILS}),
    Shipped(f"{_OF}.uuid == 'GPU-0a0a0a0a'", {"a100": True, "h100": False}),
    Shipped(f"{_OF}.architecture == 'Hopper'", {"h100": True, "a100": False}),
    Shipped(f"{_OF}.productName in ['NVIDIA H100 80GB HBM3', 'NVIDIA H200']", {"h100": True, "a100": False}),
    Shipped(f"{_MEMORY}.isGreaterThan(quantity('40Gi'))", {"h100": True, "a100": False, "channel": FAILS}),
    Shipped(f'{_MEMORY}.compareTo(quantity("40Gi")) >= 0', {"h100": True, "a100": True, "mig": False, "vfio": FAILS}),
    Shipped(f"{_MEMORY} == quantity('40960Mi')", {"a100": True, "h100": False}),
    Shipped(
        f"{_OF}.cudaComputeCapability.isGreaterThan(semver('8.9.0')) && {_MEMORY}.isLessThan(quantity('100G'))",
        {"h100": True, "a100": False, "mig": FAILS},
    ),
    Shipped(f"{_OF}.driverVersion.compareTo(semver('560.0.0')) > 0", {"h100": True, "a100": False}),
    Shipped(f"has({_OF}.profile) && {_OF}.profile.startsWith('1g')", {"mig": True, "h100": False, "channel": False}),
    Shipped(
        'cel.bind(gpu, device.attributes["gpu.nvidia.com"], gpu.type == "gpu" && gpu.productName.contains("H100"))',
        {"h100": True, "a100": False, "channel": FAILS},
    ),
    Shipped('device.attributes["resource.kubernetes.io"].pcieRoot == "pci0000:16"', {"h100": True, "channel": FAILS}),
    Shipped(
        '"resource.kubernetes.io" in device.attributes && "pciBusID" in device.attributes["resource.kubernetes.io"] && '
        'device.attributes["resource.kubernetes.io"]["pciBusID"] == "0000:1b:00.0"',
        {"h100": True, "mig": False, "channel": False},
    ),
    # Intel.
    Shipped('device.driver == "gpu.intel.com"', {"max1550": True, "h100": False}),
    Shipped(
        "device.driver == 'gpu.intel.com' && device.attributes['gpu.intel.com'].sriov", {"max1550": True, "igpu": False}
    ),
    Shipped("device.attributes[\"gpu.intel.com\"].driver == 'vfio-pci'", {"max1550": False}),
    Shipped('device.attributes["gpu.intel.com"].model == "Max 1550"', {"max1550": True, "igpu": False, "h100": FAILS}),
    Shipped('device.attributes["gpu.intel.com"].sriov == false', {"max1550": False, "igpu": True}),
    Shipped('device.attributes["gpu.intel.com"].pciAddress in ["0000:18:00.0"]', {"max1550": True, "igpu": FAILS}),
    Shipped(
        'device.capacity["gpu.intel.com"].memory.compareTo(quantity("16Gi")) >= 0', {"max1550": True, "igpu": False}
    ),
    Shipped('device.capacity["gpu.intel.com"].millicores.asInteger() >= 500', {"max1550": True, "igpu": FAILS}),
    Shipped("device.attributes[\"gaudi.intel.com\"].model == 'Gaudi2'", {"gaudi2": True, "h100": FAILS}),
    Shipped('device.driver == "gaudi.intel.com" && device.attributes["gaudi.intel.com"].healthy', {"gaudi2": True}),
    Shipped(
        'device.driver == "qat.intel.com" &&\n  device.attributes["qat.intel.com"].services.matches("sym;asym")',
        {"qat": True, "gaudi2": False},
    ),
    # AMD.
    Shipped("device.driver == 'gpu.amd.com'", {"mi300x": True, "h100": False}),
    Shipped(
        "device.driver == 'gpu.amd.com' && device.attributes['gpu.amd.com'].type == 'amdgpu-partition'",
        {"mi300x": False, "mi300x-part": True},
    ),
    Shipped('device.attributes["gpu.amd.com"].partitionProfile == "cpx_nps4"', {"mi300x": False, "mi300x-part": True}),
    Shipped(
        'device.capacity["gpu.amd.com"].memory.isGreaterThan(quantity("60Gi"))', {"mi300x": True, "mi300x-part": False}
    ),
    Shipped(
        'device.attributes["gpu.amd.com"].numaNode == 0 || device.attributes["gpu.amd.com"].numaNode == 1',
        {"mi300x": True, "mi300x-part": FAILS},
    ),
    Shipped('device.attributes["gpu.amd.com"].?numaNode.orValue(-1) == 0', {"mi300x": True, "mi300x-part": False}),
    # Google.
    Shipped('device.attributes["tpu.google.com"].tpuGen == "v6e"', {"v6e": True, "h100": FAILS}),
    Shipped('device.attributes["tpu.google.com"].accelerator == "tpu-v6e-slice"', {"v6e": True}),
    Shipped('device.driver == "dra.net" && device.attributes["dra.net"].type != "dummy"', {"nic": True, "veth": False}),
    Shipped(
        'has(device.attributes["dra.net"].rdma) && device.attributes["dra.net"].rdma == true && '
        'device.attributes["dra.net"].ipv4.startsWith("10.0.0.")',
        {"nic": True, "veth": False, "h100": False},
    ),
    Shipped('device.attributes["dra.net"]["rdmaDevice"] == "mlx5_0"', {"nic": True, "veth": FAILS}),
]
