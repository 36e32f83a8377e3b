"""The drawing of `muster queues`: a tree of cohorts, a bar for each quota, and the waiting workloads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from rich.console import Console

from extender.api.models import QueueView, QuotaView
from extender.cli.inspection.names import kind_of
from extender.cli.inspection.tables import span
from extender.cli.terminal import grid, plain
from policies.words import listed, without_name

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
        return [queue for queue in queues if namespace is None or queue.namespace in ("", namespace)]
    hits = [queue for queue in queues if _is_called(queue, typed, namespace)]
    tops = [queue for queue in hits if queue.kind != "LocalQueue"]
    if tops:
        by_name = {name_of(queue): queue for top in tops for queue in (top, *_inside(queues, top))}
        return list(by_name.values())
    if len(hits) > 1:
        hits = [queue for queue in hits if queue.namespace == home] or hits
    if len(hits) > 1:
        raise QueueNameError(f"several LocalQueues are called {typed}; say which: {listed(map(_called, hits), 10)}")
    if not hits:
        raise QueueNameError(_unknown(queues, typed, namespace))
    above = [queue for queue in queues if queue.kind == "ClusterQueue" and queue.name == hits[0].parent]
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
    by_name = {queue.name: queue for queue in queues} | {_called(queue): queue for queue in queues}
    close = dict.fromkeys(name_of(by_name[name]) for name in get_close_matches(typed, by_name, 3, 0.7))
    if close:
        return f"{first}; did you mean {listed(close, 3)}?"
    return f"{first}; there are {listed(map(name_of, queues), 10) or 'no queues at all'}"


def show_queues(queues: Sequence[QueueView], out: Console) -> None:
    """Print the tree, then the waiting workloads, then the problems."""
    if not queues:
        out.print("no queues found")
        return
    names = {(queue.kind, queue.name) for queue in queues}
    tops = [queue for queue in queues if queue.kind != "LocalQueue" and ("Cohort", queue.parent) not in names]
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
        (queue.name, f"{at}", f"{who.namespace}/{who.name}", who.state, span(who.for_s), who.message)
        for queue in queues
        for at, who in enumerate(queue.waiting[:_WAITING], start=1)
    ]
    if waiting:
        out.print()
        out.print(plain("Who waits, in the order of each queue", "bold"))
        out.print(grid(("QUEUE", "#PLACE", "GANG", "STATE", "#FOR", "WHY"), waiting, drop=("FOR",), below="WHY"))
    reasons = [
        (_called(queue), kind, text)
        for queue in queues
        for kind, texts in (("problem", queue.problems), ("warning", queue.warnings))
        for text in texts
    ]
    if reasons:
        out.print()
        out.print(plain("What is wrong", "bold"))
        out.print(grid(("QUEUE", "WHAT", "WHY"), reasons, below="WHY"))


def _rows(queues: Sequence[QueueView], queue: QueueView, depth: int) -> Iterator[tuple[str, ...]]:
    called = "  " * depth + _called(queue)
    counts = f"{queue.reserving}", f"{queue.pending}"
    if not queue.quotas:
        yield called, "", "", "", "", "", "", "", "", *counts
    for at, quota in enumerate(queue.quotas):
        local = queue.kind == "LocalQueue"  # it has no quota of its own
        own = (None, quota.used, None, None, None) if local else _amounts(quota)
        amounts = ("" if quantity is None else without_name(quota.resource, quantity) for quantity in own)
        first = (called, *counts) if not at else ("", "", "")
        bar = "" if local else _bar(quota.used, quota.nominal)
        yield first[0], quota.flavor, quota.resource, bar, *amounts, first[1], first[2]
    for below in _children(queues, queue):
        yield from _rows(queues, below, depth + 1)


def _children(queues: Sequence[QueueView], top: QueueView) -> list[QueueView]:
    kinds = {"Cohort": ("Cohort", "ClusterQueue"), "ClusterQueue": ("LocalQueue",)}.get(top.kind, ())
    return [queue for queue in queues if queue.kind in kinds and queue.parent == top.name]


def _inside(queues: Sequence[QueueView], top: QueueView) -> Iterator[QueueView]:
    for queue in _children(queues, top):
        yield queue
        yield from _inside(queues, queue)


def _called(queue: QueueView) -> str:
    if queue.kind == "Cohort":
        return f"cohort {queue.name}"
    return f"{queue.namespace}/{queue.name}" if queue.kind == "LocalQueue" else queue.name


def _amounts(quota: QuotaView) -> tuple[int | None, ...]:
    return quota.nominal, quota.used, quota.borrowed, quota.lent, quota.most


def _bar(used: int, nominal: int) -> str:
    """Draw the used part of the queue's own quota; a + means use beyond it."""
    filled = min(_BAR, round(_BAR * used / nominal)) if nominal else _BAR * (used > 0)
    return "[" + "#" * filled + "." * (_BAR - filled) + "]" + "+" * (used > nominal)
