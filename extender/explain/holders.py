"""Whose end would free how much: the gangs, and the pods in no gang, that have room in a domain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from extender.core.state import State
from extender.explain.inquiry import Inquiry
from policies.snapshot import Counts, Rows

_LONGEST_LIST = 6


@dataclass(frozen=True, slots=True)
class Holder:
    """``nodes``: how many nodes of the domain it is on. ``extra``: what it would give back, (resources, rows)."""

    name: str
    nodes: int
    extra: Counts


def holders(state: State, question: Inquiry, rows: Rows) -> list[Holder]:
    """Everybody but the gang itself who has room on these nodes, in the order of their names."""
    view = question.snapshot
    given: dict[str, Counts] = {}
    where: dict[str, dict[int, None]] = {}
    for at, row in enumerate(rows.tolist()):
        for uid in state.ledger.charges_on(view.names[row]):
            name = _owner(state, uid)
            if name is None or name == str(question.gang.key):
                continue
            extra = given.setdefault(name, np.zeros((len(view.resources), len(rows)), dtype=np.int64))
            for resource, amount in state.ledger.charges[uid].requests:
                extra[view.resources[resource], at] += amount
            where.setdefault(name, {})[at] = None
    return [Holder(name, len(where[name]), given[name]) for name in sorted(given)]


def fewest_ends(question: Inquiry, rows: Rows, there: list[Holder], want: int) -> list[str]:
    """A short list of holders whose ends together free enough: one if one is enough, else the greediest choice."""
    base = question.fitting(rows)
    gains = {one.name: question.fitting(rows, one.extra) - base for one in there}
    enough = [one for one in there if base + gains[one.name] >= want]
    if enough:
        return [min(enough, key=lambda one: (gains[one.name], one.name)).name]
    chosen: list[str] = []
    total: Counts = np.zeros((len(question.snapshot.resources), len(rows)), dtype=np.int64)
    for one in sorted(there, key=lambda one: (-gains[one.name], one.name))[:_LONGEST_LIST]:
        total = total + one.extra
        chosen.append(one.name)
        if question.fitting(rows, total) >= want:
            return chosen
    return []


def _owner(state: State, uid: str) -> str | None:
    pod = state.pods.get(uid.removeprefix("kept:"))
    if pod is None:
        return None
    return f"pod {pod}" if pod.group_key is None else str(pod.group_key)
