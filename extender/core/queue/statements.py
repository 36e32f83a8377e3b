"""Statements on the ledger as it is for one workload or one single pod: what is kept for it is its own to use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from extender.core.ledger.claims import Claim, Claims, SlotOf
from extender.core.ledger.preemptions import Preemptions
from extender.core.ledger.singles import WaitingSingles
from extender.core.workload.workload import Workload
from policies.model import Pod
from policies.placement.tenants import Apart, BesideNominated
from policies.quota.tree import QuotaTree
from policies.statement import Statement


@dataclass(eq=False)
class Statements:
    """Opens statements. The end of a block drops what was tried in it, and until then no other code sees it."""

    _pods: Mapping[str, Pod]
    _claims: Claims
    _preemptions: Preemptions
    _singles: WaitingSingles

    @contextmanager
    def of(self, workload: Workload, tree: QuotaTree | None = None) -> Iterator[Statement]:
        """Open one for a workload: on what is free and not kept for single pods, and the room that is kept for it.

        Pods that kube-scheduler has nominated, or evicts others for, count as tenants of their node. ``tree``: as in
        ``Claims.statement``.
        """
        with self._claims.statement(tree) as statement:
            slots = [SlotOf(workload.key, slot) for slot in workload.reserved]
            self._claims.leave_out(statement, [*slots, *self._preemptions.rooms(workload.key)])
            self._try_singles(statement, self._singles.ahead_of(workload).values())
            if expected := self.expected_before(workload):
                view = statement.snapshot
                statement.show(view.among(BesideNominated(view.others.tenants, expected)))
            yield statement

    @contextmanager
    def of_next_single(self) -> Iterator[Statement]:
        """Open one for the single pod whose turn it is: on what is free beside the room of those before it."""
        with self._claims.statement() as statement:
            self._try_singles(statement, self._singles.before().values())
            yield statement

    def expected_before(self, workload: Workload) -> list[tuple[Pod, str]]:
        """List single pods of no lower priority, and where they are to go."""
        nominated = self._singles.nominated_before(workload)
        preempting = self._preemptions.preempting(workload.pods_priority, self._pods)
        return nominated + [one for one in preempting if one not in nominated]

    def _try_singles(self, statement: Statement, ahead: Iterable[Claim]) -> None:
        """Take the room that is kept for the single pods ``ahead``. Leave out single pods whose turn has yet to come:
        they keep no pod away from the nodes where room is kept for them."""
        for claim in ahead:
            statement.claim(claim.node, claim.requests)
        if behind := self._singles.behind():
            view = statement.snapshot
            statement.show(view.among(Apart(view.others.tenants, behind)))
