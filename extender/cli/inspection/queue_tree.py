"""How `muster queues` draws queues: a tree of cohorts, a bar for each quota, and those who wait."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console

from extender.cli.inspection.tables import span
from extender.cli.terminal import grid, plain
from policies.words import amount

_AMOUNTS = ("nominal", "used", "borrowed", "lent", "most")
_BAR = 12
_WAITING = 10
"""So many who wait are shown of each queue."""

Shown = dict[str, Any]


def within(queues: Sequence[Shown], name: str | None) -> list[Shown]:
    """That queue or cohort, and what is in it; all without a name."""
    if name is None:
        return list(queues)
    found = [one for one in queues if one["kind"] != "LocalQueue" and one["name"] == name]
    inside = [one for top in found for one in _inside(queues, top)]
    return [*found, *inside]


def show_queues(queues: Sequence[Shown], out: Console) -> None:
    """The tree, then who waits, then what is wrong."""
    if not queues:
        out.print("no queues found")
        return
    names = {(one["kind"], one["name"]) for one in queues}
    tops = [one for one in queues if one["kind"] != "LocalQueue" and ("Cohort", one["parent"]) not in names]
    rows = [row for top in tops for row in _rows(queues, top, 0)]
    heads = (
        "QUEUE",
        "FLAVOR",
        "RESOURCE",
        "USE",
        "#NOMINAL",
        "#USED",
        "#BORROWED",
        "#LENT",
        "#MOST",
        "#RESERVING",
        "#PENDING",
    )
    out.print(grid(heads, rows))
    waiting = [
        (one["name"], f"{at}", f"{who['namespace']}/{who['name']}", who["state"], span(who["for_s"]), who["message"])
        for one in queues
        for at, who in enumerate(one["waiting"][:_WAITING], start=1)
    ]
    if waiting:
        out.print()
        out.print(plain("Who waits, in the order of each queue", "bold"))
        out.print(grid(("QUEUE", "#PLACE", "GANG", "STATE", "#FOR", "WHY"), waiting))
    said = [
        (_called(one), kind, text)
        for one in queues
        for kind, texts in (("problem", one["problems"]), ("warning", one["warnings"]))
        for text in texts
    ]
    if said:
        out.print()
        out.print(plain("What is wrong", "bold"))
        out.print(grid(("QUEUE", "WHAT", "WHY"), said))


def _rows(queues: Sequence[Shown], one: Shown, depth: int) -> Iterator[tuple[str, ...]]:
    called = "  " * depth + _called(one)
    counts = f"{one['reserving']}", f"{one['pending']}"
    if not one["quotas"]:
        yield called, "", "", "", "", "", "", "", "", *counts
    for at, quota in enumerate(one["quotas"]):
        local = one["kind"] == "LocalQueue"  # it has no quota of its own
        amounts = ("" if local and key != "used" else _short(quota, key) for key in _AMOUNTS)
        first = (called, *counts) if not at else ("", "", "")
        bar = "" if local else _bar(quota["used"], quota["nominal"])
        yield first[0], quota["flavor"], quota["resource"], bar, *amounts, first[1], first[2]
    for below in _children(queues, one):
        yield from _rows(queues, below, depth + 1)


def _children(queues: Sequence[Shown], top: Shown) -> list[Shown]:
    kinds = {"Cohort": ("Cohort", "ClusterQueue"), "ClusterQueue": ("LocalQueue",)}.get(top["kind"], ())
    return [one for one in queues if one["kind"] in kinds and one["parent"] == top["name"]]


def _inside(queues: Sequence[Shown], top: Shown) -> Iterator[Shown]:
    for one in _children(queues, top):
        yield one
        yield from _inside(queues, one)


def _called(one: Shown) -> str:
    name = str(one["name"])
    if one["kind"] == "Cohort":
        return f"cohort {name}"
    return f"{one['namespace']}/{name}" if one["kind"] == "LocalQueue" else name


def _short(quota: Shown, key: str) -> str:
    """Without the name of the resource, which stands beside it; nothing where there is no limit."""
    if quota[key] is None:
        return ""
    resource = quota["resource"]
    return amount(resource, quota[key]).removesuffix(f" {resource}")


def _bar(used: int, nominal: int) -> str:
    """What is used of the queue's own quota; a + stands for what is beyond."""
    filled = min(_BAR, round(_BAR * used / nominal)) if nominal else _BAR * (used > 0)
    return "[" + "#" * filled + "." * (_BAR - filled) + "]" + "+" * (used > nominal)
