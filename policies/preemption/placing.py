"""Any request: whether the whole plan fits without some candidates is asked of the placement itself."""

from __future__ import annotations

from collections.abc import Sequence

from policies.chosen import Policies
from policies.placement.place import Placed, Shortfall, placing
from policies.placement.snapshot import Snapshot
from policies.preemption.candidates import Candidate, Request
from policies.preemption.freed import Freed, without
from policies.steps import Steps


class Placing:
    """Numbers are those of the candidates, in their order. ``freed``: what each of them frees, of all lines."""

    def __init__(
        self, request: Request, snapshot: Snapshot, candidates: Sequence[Candidate], freed: Freed, policies: Policies
    ) -> None:
        self._request = request
        self._snapshot = snapshot
        self._candidates = candidates
        self._freed = freed
        self._policies = policies
        self._gone: dict[int, None] = {}

    def change(self, number: int, sign: int) -> None:
        """It goes, or with -1 it is put back."""
        if sign > 0:
            self._gone[number] = None
        else:
            del self._gone[number]

    def fits(self) -> Steps[bool]:
        """Whether all have a node now."""
        found = yield from self.plan(sorted(self._gone))
        return isinstance(found, Placed)

    def without(self, gone: Sequence[int]) -> Snapshot:
        """The cluster without these; their numbers ascend."""
        return without(self._snapshot, [self._candidates[number] for number in gone], self._freed.among(gone))

    def plan(self, gone: Sequence[int]) -> Steps[Placed | Shortfall]:
        """The plan without them, or what is lacking even so. Nobody needs no nodes."""
        asked = self._request
        if not asked.pods:
            return Placed({})
        view = self.without(gone)
        yield 20 + len(view.names) // 50
        return (yield from placing(asked.pods, asked.needed, view, asked.caps, asked.beside, self._policies))
