"""The gangs, and the pods in no gang, that have room in a domain, and how much their end would free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from extender.core.claim import Claim, Owner
from extender.core.state import State
from extender.observe.explain.inquiry import Inquiry
from policies.placement.snapshot import Counts, Rows
from policies.steps import BUDGET, finish, metered

_LONGEST_LIST = 8


@dataclass(frozen=True, slots=True)
class Holder:
    """``at``: the nodes that it is on. ``extra``: what it would give back there, (resources, nodes)."""

    name: str
    at: Rows
    extra: Counts


def holders(state: State, question: Inquiry, rows: Rows) -> list[Holder]:
    """The holders of room on these nodes but the gang itself, in the order of their names."""
    view = question.snapshot
    given: dict[str, dict[int, list[int]]] = {}
    for row in rows.tolist():
        for owner, claim in state.claims.on(view.names[row]):
            name = _name(state, owner, claim)
            if name is None or name == str(question.gang.key):
                continue
            amounts = given.setdefault(name, {}).setdefault(row, [0] * len(view.resources))
            for resource, amount in claim.requests:
                # What no node offers has no line: anybody can ask for it.
                if (line := view.resources.get(resource)) is not None:
                    amounts[line] += amount
    return [
        Holder(name, np.array(list(there), dtype=np.intp), np.array(list(there.values()), dtype=np.int64).T)
        for name, there in sorted(given.items())
    ]


def fewest_ends(question: Inquiry, rows: Rows, there: list[Holder]) -> list[str]:
    """A short list of holders whose ends together free enough: one if one is enough, else a greedy choice of which
    nobody can be left out, as far as that is found within the budget."""
    gains = {one.name: question.fitting(one.at, one.extra) - question.fitting(one.at) for one in there}
    greedy = sorted(there, key=lambda one: (-gains[one.name], one.name))
    trial = _Trial(question, rows)
    # Where the gang has to be planned to know, not all of them are tried.
    if not question.sums and not trial.enough(greedy[:_LONGEST_LIST]):
        return []
    singles = there if question.sums else greedy[:_LONGEST_LIST]
    for one in sorted(singles, key=lambda one: (gains[one.name], one.name)):
        if trial.enough([one]):
            return [one.name]
    for count in range(2, min(len(greedy), _LONGEST_LIST) + 1):
        if trial.enough(chosen := greedy[:count]):
            for one in reversed(greedy[:count]):
                if trial.enough(rest := [other for other in chosen if other is not one]):
                    chosen = rest
            return [one.name for one in chosen]
    return []


class _Trial:
    """Whether the end of some holders frees enough, as far as that is found out within the budget."""

    def __init__(self, question: Inquiry, rows: Rows) -> None:
        self._question = question
        self._rows = rows
        self._spent = 0

    def enough(self, chosen: Sequence[Holder]) -> bool:
        if self._spent > BUDGET:
            return False
        total = np.zeros_like(self._question.snapshot.free)
        for one in chosen:
            total[:, one.at] += one.extra
        found, cost = finish(metered(self._question.holds(self._rows, total[:, self._rows])))
        self._spent += cost
        return found


def _name(state: State, owner: Owner, claim: Claim) -> str | None:
    if claim.workload is not None:
        return str(claim.workload)
    pod = state.pods.get(owner) if isinstance(owner, str) else None
    return None if pod is None else f"pod {pod}"
