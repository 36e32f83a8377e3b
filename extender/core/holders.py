"""Who has the room of a domain: the names that stand in the reason of a gang that misses it."""

from __future__ import annotations

from extender.core.state import State
from policies.snapshot import Domain

_NAMED = 5


class Holders:
    """Many gangs miss the same domain in one pass: what was found is kept until some room changes hands."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._known: dict[tuple[str, int], str] = {}
        self._as_of = -1

    def told(self, domain: Domain) -> str:
        """``"; held there by train-7, train-9"``, or nothing when nobody has room there."""
        ledger = self._state.ledger
        if self._as_of != ledger.changes:
            self._as_of = ledger.changes
            self._known.clear()
        place = (domain.name, int(domain.rows[0]) if len(domain.rows) else -1)
        if place not in self._known:
            self._known[place] = self._names(domain)
        return self._known[place]

    def _names(self, domain: Domain) -> str:
        ledger, names = self._state.ledger, self._state.ledger.snapshot().names
        gangs: dict[str, None] = {}
        singles = 0
        for row in domain.rows.tolist():
            for uid in ledger.charges_on(names[row]):
                pod = self._state.pods.get(uid.removeprefix("kept:"))
                if pod is not None and pod.group_key is not None:
                    gangs[pod.group_key.name] = None
                else:
                    singles += 1
        found = sorted(gangs)
        said = found[:_NAMED]
        if len(found) > _NAMED:
            said.append(f"{len(found) - _NAMED} more gangs")
        if singles:
            said.append(f"{singles} pod{'s' * (singles > 1)} in no gang")
        return f"; held there by {', '.join(said)}" if said else ""
