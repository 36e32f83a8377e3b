"""The processes around the extender fail, and the extender stands still: one round of each."""

from __future__ import annotations

import pytest

from benchmarks.faults.scenarios import PROCESSES, Fault
from benchmarks.faults.theatre import Theatre

pytestmark = pytest.mark.xdist_group("fault-processes")


@pytest.mark.parametrize("fault", PROCESSES, ids=lambda fault: fault.name.replace(" ", "-"))
def test_every_gang_is_whole_or_waits_for_a_true_reason_when_it_is_over(theatre: Theatre, fault: Fault) -> None:
    assert fault.strike(theatre) == []
