"""A tenant who writes a plan on his own job: the scenario finds the planted bug, and no other fault."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from tests.core import test_forged as forged
from tests.simulation.plants import jobs

SCENARIOS: dict[str, Callable[[], None]] = {
    "while Muster leads": partial(forged.test_a_forged_plan_beyond_its_quota_is_not_believed, forged.GPUS),
    "while Muster is away": forged.test_nor_is_one_that_was_forged_while_muster_was_away,
    "past those before it": forged.test_nor_is_one_that_passes_by_whoever_waits_before_it,
    "beside pods that run": forged.test_slots_that_are_forged_beside_pods_that_run_get_no_room_beyond_the_quota,
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_planted_bug_is_found(name: str) -> None:
    SCENARIOS[name]()
    with pytest.MonkeyPatch.context() as patch:
        jobs.a_forged_plan_is_believed(patch)
        with pytest.raises(AssertionError):
            SCENARIOS[name]()
