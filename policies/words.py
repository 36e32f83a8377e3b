"""Numbers, amounts and lists of any length, as text for people."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from itertools import count as numbers
from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from policies.model.node import Requests

LINE = "devices/"
"""Prefix of the names of device amounts that nodes offer and pods ask for. No resource has such a name."""
WHOLE = 1 << 20
"""The amount that a node offers to a request for all of its devices; more than any number of devices."""
VOLUME, STORAGE = "volumes/", "storage/"
"""Prefixes of names of volume amounts that claims wait for, by number, and of storage to provision, in bytes."""
COUNTED = (LINE, VOLUME, STORAGE)
"""Prefixes of the names of all amounts that are no resources."""
_DIGITS = re.compile(r"([0-9]+)")
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def listed(words: Iterable[str], most: int = 5) -> str:
    """The words as a list: ``"a, b, c, d, e and 37 more"``; empty for none."""
    known = list(words)
    return ", ".join(known[:most]) + (f" and {len(known) - most} more" if len(known) > most else "")


def natural(text: str) -> tuple[int | str, ...]:
    """A key that orders names as people do: ``"b-2"`` comes before ``"b-10"``."""
    return tuple(int(piece) if at % 2 else piece for at, piece in enumerate(_DIGITS.split(text)))


def twice(words: Iterable[str]) -> str | None:
    """The first word that occurs more than once; None without one."""
    return next((word for word, times in Counter(words).items() if times > 1), None)


def distinct(text: str, others: Collection[str]) -> str:
    """The text, with a number if it occurs among the others."""
    numbered = (text if number == 1 else f"{text} ({number})" for number in numbers(1))
    return next(name for name in numbered if name not in others)


def many(count: int, thing: str) -> str:
    """A count with its noun: ``"1 node"``, ``"2 nodes"``."""
    return f"{count} {thing}{'s' * (count != 1)}"


def counted(count: int, thing: str, singular: str, several: str) -> str:
    """A count with noun and verb: ``"1 node has"``, ``"2 nodes have"``."""
    return f"{many(count, thing)} {singular if count == 1 else several}"


def amount(name: str, much: int, *, up: bool = False) -> str:
    """The amount in a familiar unit: ``"1.5 cpu"``, ``"512 MiB memory"``, ``"8 nvidia.com/gpu"``.

    It is rounded down, or ``up``. So a node's amount never looks as large as a larger request.
    """
    if name == "cpu":
        return f"{_short(much / 1000, 3)} cpu"
    if name in ("memory", "ephemeral-storage") or name.startswith("hugepages-"):
        return f"{size(much, up=up)} {name}"
    if name.startswith(LINE):
        return _devices_of(name.removeprefix(LINE), much)
    if name.startswith(VOLUME):
        return f"{many(much, 'volume')} of {name.removeprefix(VOLUME)}"
    if name.startswith(STORAGE):
        return f"{size(much, up=up)} of {name.removeprefix(STORAGE)}"
    return "1 pod" if (name, much) == ("pods", 1) else f"{much} {name}"


def without_name(name: str, much: int) -> str:
    """The amount without its name, which stands beside it: ``"1.5"``, ``"512 MiB"``, ``"8"``."""
    return amount(name, much).removesuffix(f" {name}")


def without_devices(requests: Requests) -> Requests:
    """The requests that the pod itself states: without amounts of devices that its claims ask for."""
    for name, _ in requests:
        if name.startswith(LINE):
            return tuple(request for request in requests if not request[0].startswith(LINE))
    return requests


def stated(requests: Requests) -> Requests:
    """The requests that the pod itself states: without amounts of devices and volumes that its claims ask for."""
    return tuple(request for request in requests if not request[0].startswith(COUNTED))


def count_devices(requests: Requests) -> int:
    """Count GPUs and other devices: extended resources, or devices of claims if those are more.

    A device of a claim may be in several amounts, so the largest amount is their number. Amounts for all devices of a
    node do not count, since their number is unknown.
    """
    return _or_claimed(sum(much for name, much in requests if "/" in name and not name.startswith(LINE)), requests)


def count_gpus(requests: Requests) -> int:
    """Count GPUs of any vendor, by resources whose name ends in ``/gpu``, or devices of claims if those are more."""
    return _or_claimed(sum(much for name, much in requests if name.endswith("/gpu")), requests)


def _or_claimed(by_name: int, requests: Requests) -> int:
    return max([by_name, *(much for name, much in requests if name.startswith(LINE) and much < WHOLE)])


def _devices_of(what: str, much: int) -> str:
    """An amount of devices in words.

    Examples: ``"2 devices of gpu.nvidia.com"``, ``"all devices of gpu.nvidia.com"``, ``"the
    devices of claim shared"``."""
    if what.startswith("claim "):
        return f"the devices of {what}"
    count, of, rest = what.partition(" of ")
    if of and count == "all":
        return f"all devices of {rest}"
    if of and count.isdecimal():
        much, what = int(count), rest
    return f"{many(much, 'device')} of {what}"


def plain_name(name: str) -> str:
    """The name of a resource, or of another amount, without its prefix."""
    return name.partition("/")[2] if name.startswith(COUNTED) else name


def amounts(requests: Requests) -> str:
    """A pod's requests by the names that kubectl shows: ``"1.5 cpu, 8 nvidia.com/gpu"``."""
    return listed(amount(name, much, up=True) for name, much in requests if name != "pods") or "a pod"


def devices(requests: Requests) -> str:
    """The devices among the requests: ``"8 GPUs"``; all requests if there is no device."""
    scarce = [(name, much) for name, much in requests if "/" in name]
    named = listed(many(much, "GPU") if name.endswith("/gpu") else amount(name, much) for name, much in scarce)
    return named or amounts(requests)


def lasting(seconds: float) -> str:
    """The two largest units of a duration, the smaller rounded down: ``"45 s"``, ``"1 h 30 min"``, ``"2 d 4 h"``."""
    left, parts = max(0, ceil(seconds)), list[str]()
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count} {unit}" if count else "")
    return " ".join(filter(None, parts[:2])) or "0 s"


def size(much: int, *, up: bool = True) -> str:
    """A number of bytes in words: ``"10 GiB"``. Rounded ``up``, or down."""
    exponent = min((max(much, 1).bit_length() - 1) // 10, len(_UNITS) - 1)
    hundredths = (100 * much + (1024**exponent - 1) * up) // 1024**exponent
    return f"{_short(hundredths / 100, 2)} {_UNITS[exponent] if much != 1 else 'byte'}"


def _short(number: float, places: int) -> str:
    """The number without an exponent and without trailing zeros."""
    return f"{number:.{places}f}".rstrip("0").rstrip(".")
