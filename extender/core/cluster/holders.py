"""Who has the room of a domain, and until when: what stands in the reason of a gang that misses it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf

from extender.core.claim import Owner
from extender.core.state import State
from policies.model import GroupKey, Pod, Requests
from policies.model.mentions import Mention, mentioned
from policies.placement.shortfall import NearestDomain
from policies.steps import Steps
from policies.words import many

_NAMED = 5


@dataclass(slots=True)
class _Holder:
    """A gang's part of the domain. ``ends``: when the last of its pods there ends, in seconds since the epoch; minus
    infinity when all of them are being deleted."""

    amount: int = 0
    ends: float = -inf


@dataclass(frozen=True, slots=True)
class _Present:
    """Who is in a domain: gangs that have most of it and their ends, how many more there are, and pods in no gang."""

    most: tuple[tuple[GroupKey, float], ...]
    more: int
    singles: int


class Holders:
    """Many gangs miss the same domain in one pass: what was found is kept until some room changes hands."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._known: dict[tuple[object, ...], _Present] = {}
        self._as_of = -1

    def told(self, nearest: NearestDomain, names: Sequence[str]) -> Steps[str]:
        """``"; held there by train-7 (ends unknown), team-b/train-9 (ends by 2026-11-21 14:05 UTC)"``.

        Nothing when nobody has room there. Gangs of other namespaces are named with these. Who has most goes first.
        ``names``: of the nodes, by the rows of the miss.
        """
        changes, domain = self._state.claims.changes, nearest.domain
        if self._as_of != changes:
            self._as_of = changes
            self._known.clear()
        place = (domain.name, int(domain.rows[0]) if len(domain.rows) else -1, nearest.kinds)
        if (there := self._known.get(place)) is None:
            there = yield from self._present(nearest, names)
            if self._as_of == self._state.claims.changes:
                self._known[place] = there
        most = [
            Mention(key.namespace, f"{key} ({_end(ends)})", f"{key.name} ({_end(ends)})") for key, ends in there.most
        ]
        said = [mentioned(most)] if most else []
        if there.more:
            said.append(many(there.more, "more gang"))
        if there.singles:
            said.append(f"{many(there.singles, 'pod')} in no gang")
        return f"; held there by {', '.join(said)}" if said else ""

    def _present(self, nearest: NearestDomain, names: Sequence[str]) -> Steps[_Present]:
        gangs: dict[GroupKey, _Holder] = {}
        singles = 0
        amounts: dict[Requests, int] = {}
        rows = nearest.domain.rows.tolist()
        for number, row in enumerate(rows, 1):
            charges = self._charges(names[row], nearest.kinds, amounts)
            for key, pod, amount in charges:
                if key is None:
                    singles += 1
                    continue
                holder = gangs.setdefault(key, _Holder())
                holder.amount += amount
                holder.ends = max(holder.ends, _ends(pod))
            if number < len(rows):
                yield 1 + len(charges) // 4
        found = sorted(gangs, key=lambda key: (-gangs[key].amount, key))
        most = tuple((key, gangs[key].ends) for key in found[:_NAMED])
        return _Present(most, len(found) - len(most), singles)

    def _charges(
        self, node: str, kinds: tuple[str, ...], amounts: dict[Requests, int]
    ) -> list[tuple[GroupKey | None, Pod | None, int]]:
        """Of whoever has some of what counts there: the gang if any, the pod unless it is lost, and how much."""
        found = []
        for owner, claim in self._state.claims.on(node):
            if (amount := amounts.get(claim.requests)) is None:
                amount = amounts[claim.requests] = sum(much for name, much in claim.requests if name in kinds)
            if amount:
                found.append((claim.workload, self._pod(owner), amount))
        return found

    def _pod(self, owner: Owner) -> Pod | None:
        return self._state.pods.get(owner) if isinstance(owner, str) else None


def _ends(pod: Pod | None) -> float:
    if pod is not None and pod.deleting:
        return -inf
    return inf if pod is None or pod.ends is None else pod.ends


def _end(ends: float) -> str:
    """In absolute words, so that the text does not change while time passes."""
    if ends == -inf:
        return "being deleted"
    try:
        return f"ends by {datetime.fromtimestamp(ends, UTC):%Y-%m-%d %H:%M} UTC"
    except (OverflowError, ValueError, OSError):
        return "ends unknown"
