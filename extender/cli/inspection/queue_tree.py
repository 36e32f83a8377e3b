"""The drawing of `muster queues`: a tree of cohorts, a bar for each quota, and the waiting workloads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from rich.console import Console

from extender.api.models import QueueView, QuotaView
from extender.cli.inspection.names import kind_of
from extender.cli.inspection.tables import span
from extender.cli.terminal import grid, plain
from policies.words import amount, listed

_BAR = 12
LEGEND = (
    "LENT: used by others, and not to be had back now. MOST: all that the queue may use, borrowed quota included. "
    "RESERVING: workloads with quota."
)
_WAITING = 10
"""How many waiting workloads are shown for each queue."""


class QueueNameError(ValueError):
    """No queue has that name, or several have it; the message says which there are."""


def name_of(queue: QueueView) -> str:
    """Return the name by which `muster queues` takes it, whatever else is called the same."""
    where = f"{queue.namespace}/" if queue.namespace else ""
    return f"{queue.kind.lower()}/{where}{queue.name}"


def chosen_queues(queues: Sequence[QueueView], typed: str | None, namespace: str | None, home: str) -> list[QueueView]:
    """Return the ClusterQueue or cohort and its members, or the LocalQueue and its ClusterQueue; all without a name.

    ``home``: decides if several namespaces have a LocalQueue of that name. Raises QueueNameError.
    """
    if typed is None:
        return [one for one in queues if namespace is None or one.namespace in ("", namespace)]
    hits = [one for one in queues if _is_called(one, typed, namespace)]
    tops = [one for one in hits if one.kind != "LocalQueue"]
    if tops:
        found = {name_of(one): one for top in tops for one in (top, *_inside(queues, top))}
        return list(found.values())
    if len(hits) > 1:
        hits = [one for one in hits if one.namespace == home] or hits
    if len(hits) > 1:
        raise QueueNameError(f"several LocalQueues are called {typed}; say which: {listed(map(_called, hits), 10)}")
    if not hits:
        raise QueueNameError(_unknown(queues, typed, namespace))
    above = [one for one in queues if one.kind == "ClusterQueue" and one.name == hits[0].parent]
    return [*above, *hits]


def _is_called(queue: QueueView, typed: str, namespace: str | None) -> bool:
    """Return whether ``typed`` is its name, with or without its kind or its namespace before it."""
    local, name = queue.kind == "LocalQueue", queue.name
    if namespace is not None and (not local or queue.namespace != namespace):
        return False
    kinds = {"LocalQueue": ("localqueue", "lq"), "ClusterQueue": ("clusterqueue", "cq"), "Cohort": ("cohort",)}
    own = (*kinds.get(queue.kind, ()), "queue")
    first, slash, rest = typed.partition("/")
    if slash and kind_of(first) in own:
        return rest in (name, f"{queue.namespace}/{name}")
    return typed == name or (local and typed == f"{queue.namespace}/{name}")


def _unknown(queues: Sequence[QueueView], typed: str, namespace: str | None) -> str:
    where = "" if namespace is None else f" in namespace {namespace}"
    first = f"there is no ClusterQueue, cohort or LocalQueue {typed}{where}"
    by_name = {one.name: one for one in queues} | {_called(one): one for one in queues}
    close = dict.fromkeys(name_of(by_name[name]) for name in get_close_matches(typed, by_name, 3, 0.7))
    if close:
        return f"{first}; did you mean {listed(close, 3)}?"
    return f"{first}; there are {listed(map(name_of, queues), 10) or 'no queues at all'}"


def show_queues(queues: Sequence[QueueView], out: Console) -> None:
    """Print the tree, then the waiting workloads, then the problems."""
    if not queues:
        out.print("no queues found")
        return
    names = {(one.kind, one.name) for one in queues}
    tops = [one for one in queues if one.kind != "LocalQueue" and ("Cohort", one.parent) not in names]
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
    out.print(grid(heads, rows, drop=("USE", "LENT", "MOST", "RESERVING", "BORROWED")))
    out.print()
    out.print(plain(LEGEND, "dim"))
    waiting = [
        (one.name, f"{at}", f"{who.namespace}/{who.name}", who.state, span(who.for_s), who.message)
        for one in queues
        for at, who in enumerate(one.waiting[:_WAITING], start=1)
    ]
    if waiting:
        out.print()
        out.print(plain("Who waits, in the order of each queue", "bold"))
        out.print(grid(("QUEUE", "#PLACE", "GANG", "STATE", "#FOR", "WHY"), waiting, drop=("FOR",), below="WHY"))
    said = [
        (_called(one), kind, text)
        for one in queues
        for kind, texts in (("problem", one.problems), ("warning", one.warnings))
        for text in texts
    ]
    if said:
        out.print()
        out.print(plain("What is wrong", "bold"))
        out.print(grid(("QUEUE", "WHAT", "WHY"), said, below="WHY"))


def _rows(queues: Sequence[QueueView], one: QueueView, depth: int) -> Iterator[tuple[str, ...]]:
    called = "  " * depth + _called(one)
    counts = f"{one.reserving}", f"{one.pending}"
    if not one.quotas:
        yield called, "", "", "", "", "", "", "", "", *counts
    for at, quota in enumerate(one.quotas):
        local = one.kind == "LocalQueue"  # it has no quota of its own
        own = (None, quota.used, None, None, None) if local else _amounts(quota)
        amounts = ("" if quantity is None else _short(quota.resource, quantity) for quantity in own)
        first = (called, *counts) if not at else ("", "", "")
        bar = "" if local else _bar(quota.used, quota.nominal)
        yield first[0], quota.flavor, quota.resource, bar, *amounts, first[1], first[2]
    for below in _children(queues, one):
        yield from _rows(queues, below, depth + 1)


def _children(queues: Sequence[QueueView], top: QueueView) -> list[QueueView]:
    kinds = {"Cohort": ("Cohort", "ClusterQueue"), "ClusterQueue": ("LocalQueue",)}.get(top.kind, ())
    return [one for one in queues if one.kind in kinds and one.parent == top.name]


def _inside(queues: Sequence[QueueView], top: QueueView) -> Iterator[QueueView]:
    for one in _children(queues, top):
        yield one
        yield from _inside(queues, one)


def _called(one: QueueView) -> str:
    if one.kind == "Cohort":
        return f"cohort {one.name}"
    return f"{one.namespace}/{one.name}" if one.kind == "LocalQueue" else one.name


def _amounts(quota: QuotaView) -> tuple[int | None, ...]:
    return quota.nominal, quota.used, quota.borrowed, quota.lent, quota.most


def _short(resource: str, quantity: int) -> str:
    """The amount without the name of the resource, which is shown beside it."""
    return amount(resource, quantity).removesuffix(f" {resource}")


def _bar(used: int, nominal: int) -> str:
    """Draw the used part of the queue's own quota; a + means use beyond it."""
    filled = min(_BAR, round(_BAR * used / nominal)) if nominal else _BAR * (used > 0)
    return "[" + "#" * filled + "." * (_BAR - filled) + "]" + "+" * (used > nominal)
