"""Numbers, amounts and lists in sentences that people read, of which nobody knows how long they are."""

from __future__ import annotations

from collections.abc import Iterable

from policies.model import Requests

_NAMED = 5


def listed(words: Iterable[str]) -> str:
    """``"a, b, c, d, e and 37 more"``; empty for none."""
    known = list(words)
    return ", ".join(known[:_NAMED]) + (f" and {len(known) - _NAMED} more" if len(known) > _NAMED else "")


def many(count: int, thing: str) -> str:
    """``"1 node"``, ``"2 nodes"``."""
    return f"{count} {thing}{'s' * (count != 1)}"


def amounts(requests: Requests) -> str:
    """All that one pod asks for, by the names that kubectl shows: ``"1.5 cpu, 8 nvidia.com/gpu"``."""
    return listed(_amount(name, much) for name, much in requests if name != "pods") or "a pod"


def devices(requests: Requests) -> str:
    """What is scarce of that: ``"8 GPUs"``; all of it where there is no device among it."""
    scarce = [(name, much) for name, much in requests if "/" in name]
    named = listed(many(much, "GPU") if name.endswith("/gpu") else f"{much} {name}" for name, much in scarce)
    return named or amounts(requests)


def _amount(name: str, much: int) -> str:
    if name == "cpu":
        return f"{much / 1000:g} cpu"
    if name in ("memory", "ephemeral-storage"):
        return f"{much / 2**30:.4g} GiB {name}"
    return f"{much} {name}"
