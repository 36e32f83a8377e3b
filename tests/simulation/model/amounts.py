"""Quantities as Kubernetes writes them, read and written by arithmetic of the model's own: none of it is Muster's.

Amounts are whole numbers: cpu in thousandths of a core, all else in its base unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, Decimal
from random import Random
from typing import Any

from policies.model import Requests

_THOUSANDS = "kMGTPE"
_FACTORS = (
    {"": Decimal(1), "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3")}
    | {unit: Decimal(1000) ** power for power, unit in enumerate(_THOUSANDS, 1)}
    | {f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", 1)}
)


def amount(name: str, text: str | int) -> int:
    """The amount that is written there, rounded up as kube-scheduler does."""
    written = str(text)
    number = written.rstrip("numkKMGTPEi")
    value = Decimal(number) * _FACTORS[written[len(number) :]]
    return int((value * 1000 if name == "cpu" else value).to_integral_value(ROUND_CEILING))


def amounts(written: Mapping[str, str | int]) -> dict[str, int]:
    """All amounts of a node, a container or an overhead."""
    return {name: amount(name, text) for name, text in written.items()}


def as_printed(name: str, much: int) -> str:
    """The amount as a kubelet prints it: the largest unit of its kind that leaves a whole number."""
    if name == "cpu":
        return f"{much}m" if much % 1000 else _in_units(much // 1000, 1000, "")
    if name == "memory" or name.startswith("hugepages-"):
        return _in_units(much, 1024, "i")
    return _in_units(much, 1000, "")


def as_typed(name: str, much: int, dice: Random) -> str | int:
    """The same amount as one of the ways in which people write it."""
    ways: list[str | int] = [as_printed(name, much)]
    if name == "cpu":
        ways += [f"{much}m", f"{Decimal(much) / 1000:f}"]
    elif name == "memory" or name.startswith("hugepages-"):
        ways += [f"{much}", f"{much}e0", f"{Decimal(much) / 1024**3:f}Gi"]
    else:
        ways += [much, f"{much}"]
    return dice.choice(ways)


def requests_of(pod: Mapping[str, Any]) -> Requests:
    """Return the requests of a pod, with its overhead.

    They are the sum of its containers and sidecars, or more where an init container needs more. Amounts of the pod as
    a whole replace that sum.
    """
    spec = pod["spec"]
    beside: dict[str, int] = {}
    largest: dict[str, int] = {}
    for container in spec.get("initContainers", ()):
        own_amounts = _asked(container)
        if container.get("restartPolicy") == "Always":
            beside = _sum((beside, own_amounts))
            largest = _most(largest, beside)
        else:
            largest = _most(largest, _sum((beside, own_amounts)))
    total = _most(_sum((beside, *map(_asked, spec.get("containers", ())))), largest)
    total |= amounts(spec.get("resources", {}).get("requests", {}))
    total = _sum((total, amounts(spec.get("overhead", {})))) | {"pods": 1}
    return tuple(sorted((name, much) for name, much in total.items() if much))


def _asked(container: Mapping[str, Any]) -> dict[str, int]:
    resources = container.get("resources", {})
    return amounts({**resources.get("limits", {}), **resources.get("requests", {})})


def _sum(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for summand in parts:
        for name, much in summand.items():
            total[name] = total.get(name, 0) + much
    return total


def _most(first: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: max(first.get(name, 0), other.get(name, 0)) for name in {**first, **other}}


def _in_units(much: int, step: int, end: str) -> str:
    units = ["", *(f"{'K' if end and unit == 'k' else unit}{end}" for unit in _THOUSANDS)]
    power = 0
    while much and much % step == 0 and power + 1 < len(units):
        much, power = much // step, power + 1
    return f"{much}{units[power]}"
