"""The extender is killed at each of its writes, in turn before the API server has it and after."""

from __future__ import annotations

import pytest

from benchmarks.faults.scenarios import WRITES, Fault
from benchmarks.faults.theatre import Theatre

pytestmark = pytest.mark.xdist_group("fault-writes")


@pytest.mark.parametrize(
    "fault",
    [WRITES[pair + pair // 2 % 2] for pair in range(0, len(WRITES), 2)],
    ids=lambda fault: fault.name.replace(" ", "-"),
)
def test_nothing_is_left_half_done_when_it_is_back(theatre: Theatre, fault: Fault) -> None:
    assert fault.strike(theatre) == []
