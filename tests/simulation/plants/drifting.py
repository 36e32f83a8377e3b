"""Bugs after which the core goes on with a wrong ledger: no effect is wrong at once."""

from __future__ import annotations

from itertools import count

import pytest

from extender.core.ledger.claims import Claim, Claims, ClaimState, Owner
from extender.core.ledger.pending import Pending, WakeOn
from extender.core.ledger.quotas import QuotaUses, Use
from policies.model import GroupKey


def room_of_a_pod_that_was_deleted_stays_taken(patch: pytest.MonkeyPatch) -> None:
    """The bug concerns single pods."""
    release = Claims.release

    def released(self: Claims, owner: Owner) -> Claim | None:
        claim = self.get(owner)
        keeps = claim is not None and claim.state is ClaimState.TERMINATING and claim.workload is None
        return claim if keeps else release(self, owner)

    patch.setattr(Claims, "release", released)


def quota_of_every_fifth_pod_is_counted_twice(patch: pytest.MonkeyPatch) -> None:
    """In the sum of the queue alone."""
    put, puts = QuotaUses.put, count(1)

    def counted(self: QuotaUses, key: GroupKey, owner: Owner, use: Use) -> None:
        put(self, key, owner, use)
        tree = self._queues.snapshot.tree
        if use.queue in tree.queues and next(puts) % 5 == 0:
            tree.use(use.queue, use.usage)

    patch.setattr(QuotaUses, "put", counted)


def every_seventh_workload_is_parked_for_no_cause(patch: pytest.MonkeyPatch) -> None:
    """Every seventh workload waits on. Only causes of its own wake it."""
    park, parks = Pending._park, count(1)

    def parked(self: Pending, key: GroupKey, *wake_on: WakeOn) -> None:
        park(self, key, *wake_on)
        if next(parks) % 7 == 0:
            self._unpark(key)

    patch.setattr(Pending, "_park", parked)
