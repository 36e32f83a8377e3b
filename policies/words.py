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
"""How the names of amounts begin in which nodes offer devices and pods ask for them; no resource begins like that."""
WHOLE = 1 << 20
"""The amount that a node offers for a request that takes all of its devices; more than there are devices."""
VOLUME, STORAGE = "volumes/", "storage/"
"""The same of volumes that claims wait for, by number, and of what can be provisioned, in bytes."""
COUNTED = (LINE, VOLUME, STORAGE)
"""How the names of all amounts begin that are counted and no resources."""
_DIGITS = re.compile(r"([0-9]+)")
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def listed(words: Iterable[str], most: int = 5) -> str:
    """``"a, b, c, d, e and 37 more"``; empty for none."""
    known = list(words)
    return ", ".join(known[:most]) + (f" and {len(known) - most} more" if len(known) > most else "")


def natural(text: str) -> tuple[int | str, ...]:
    """The key by which people order names: ``"b-2"`` comes before ``"b-10"``."""
    return tuple(int(part) if at % 2 else part for at, part in enumerate(_DIGITS.split(text)))


def twice(words: Iterable[str]) -> str | None:
    """The first one that is there more than once."""
    return next((word for word, times in Counter(words).items() if times > 1), None)


def distinct(text: str, others: Collection[str]) -> str:
    """The text, with a number if others have the same."""
    numbered = (text if number == 1 else f"{text} ({number})" for number in numbers(1))
    return next(name for name in numbered if name not in others)


def many(count: int, thing: str) -> str:
    """``"1 node"``, ``"2 nodes"``."""
    return f"{count} {thing}{'s' * (count != 1)}"


def counted(count: int, thing: str, one: str, several: str) -> str:
    """``"1 node has"``, ``"2 nodes have"``."""
    return f"{many(count, thing)} {one if count == 1 else several}"


def amount(name: str, much: int, *, up: bool = False) -> str:
    """In the unit that people use: ``"1.5 cpu"``, ``"512 MiB memory"``, ``"8 nvidia.com/gpu"``.

    Rounded down, or ``up``: what a node has never looks as large as what a pod asks for if it is smaller.
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


def without_devices(requests: Requests) -> Requests:
    """The requests that the pod itself states: without amounts of the devices that its claims ask for."""
    for name, _ in requests:
        if name.startswith(LINE):
            return tuple(one for one in requests if not one[0].startswith(LINE))
    return requests


def stated(requests: Requests) -> Requests:
    """The requests that the pod itself states: without amounts of the devices and volumes that its claims ask for."""
    return tuple(one for one in requests if not one[0].startswith(COUNTED))


def count_devices(requests: Requests) -> int:
    """Count GPUs and other devices: extended resources, or devices of claims if those are more.

    A device of a claim may be in several amounts, so the largest amount is their number. Amounts that stand for all
    devices of a node, whatever their number, do not count.
    """
    return _or_claimed(sum(much for name, much in requests if "/" in name and not name.startswith(LINE)), requests)


def count_gpus(requests: Requests) -> int:
    """Count GPUs of any vendor, by resources whose name ends in ``/gpu``, or devices of claims if those are more."""
    return _or_claimed(sum(much for name, much in requests if name.endswith("/gpu")), requests)


def _or_claimed(by_name: int, requests: Requests) -> int:
    return max([by_name, *(much for name, much in requests if name.startswith(LINE) and much < WHOLE)])


def _devices_of(what: str, much: int) -> str:
    """``"2 devices of gpu.nvidia.com"``, ``"all devices of gpu.nvidia.com"``, ``"the devices of claim shared"``."""
    if what.startswith("claim "):
        return f"the devices of {what}"
    count, of, rest = what.partition(" of ")
    if of and count == "all":
        return f"all devices of {rest}"
    if of and count.isdecimal():
        much, what = int(count), rest
    return f"{many(much, 'device')} of {what}"


def plain_name(name: str) -> str:
    """The name of a resource, or of what is counted, without what the name begins with."""
    return name.partition("/")[2] if name.startswith(COUNTED) else name


def amounts(requests: Requests) -> str:
    """All that one pod asks for, by the names that kubectl shows: ``"1.5 cpu, 8 nvidia.com/gpu"``."""
    return listed(amount(name, much, up=True) for name, much in requests if name != "pods") or "a pod"


def devices(requests: Requests) -> str:
    """The devices among them: ``"8 GPUs"``; all of it where there is none."""
    scarce = [(name, much) for name, much in requests if "/" in name]
    named = listed(many(much, "GPU") if name.endswith("/gpu") else amount(name, much) for name, much in scarce)
    return named or amounts(requests)


def lasting(seconds: float) -> str:
    """``"45 s"``, ``"1 h 30 min"``, ``"2 d 4 h"``: the two largest units, the smaller one rounded down."""
    left, parts = max(0, ceil(seconds)), list[str]()
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count} {unit}" if count else "")
    return " ".join(filter(None, parts[:2])) or "0 s"


def size(much: int, *, up: bool = True) -> str:
    """Of so many bytes: ``"10 GiB"``. Rounded ``up``, or down."""
    exponent = min((max(much, 1).bit_length() - 1) // 10, len(_UNITS) - 1)
    hundredths = (100 * much + (1024**exponent - 1) * up) // 1024**exponent
    return f"{_short(hundredths / 100, 2)} {_UNITS[exponent] if much != 1 else 'byte'}"


def _short(number: float, places: int) -> str:
    """Never with an exponent, and without zeros at its end."""
    return f"{number:.{places}f}".rstrip("0").rstrip(".")
