"""A pass of the core decides as the pure decision by quota does.

Both admit the same workloads, in the same order and with the same flavors, for the same victims.
"""

from __future__ import annotations

import pytest

from extender.core.preemption import preempt as preemption
from tests.core.parity import by_core, by_entry, in_passes
from tests.core.queue_worlds import case

SEEDS, PARTS = 300, 3
FOUND = (11354, 25721, 34164, 36014)
"""Worlds in which they have differed."""
PASSES = 4
FOUND_LATER = (900,)
"""The worlds in which the two have differed in some pass, without evictions."""


@pytest.mark.parametrize("remainder", range(PARTS))
def test_the_core_decides_as_the_decision_by_quota_does(remainder: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preemption, "_SEARCHES", 100)
    admitted = evicts = 0
    for seed in [*range(SEEDS), *FOUND][remainder::PARTS]:
        drawn = case(seed)
        if (wanted := by_entry(drawn)).apart:
            continue
        outcome = by_core(drawn)
        assert (list(outcome.admitted.items()), outcome.evicts) == (list(wanted.admitted.items()), wanted.evicts), seed
        admitted += len(wanted.admitted)
        evicts += len(wanted.evicts)
    assert min(admitted, 2 * evicts) > SEEDS // PARTS // 10, "they have something to decide"


@pytest.mark.parametrize("remainder", range(PARTS))
def test_so_it_does_in_the_passes_after_it(remainder: int) -> None:
    """Waiting workloads are looked at again where it matters."""
    later = 0
    for seed in [*range(SEEDS), *FOUND_LATER][remainder::PARTS]:
        for number, (outcome, wanted) in enumerate(in_passes(seed, PASSES)):
            assert list(outcome.admitted.items()) == list(wanted.admitted.items()), (seed, number)
            later += len(wanted.admitted) * bool(number)
    assert later > SEEDS // PARTS // 10, "they have something to decide"
