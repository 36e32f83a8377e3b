"""How long a workload is expected to run, by what is said, by its bounds and by what others took."""

from __future__ import annotations

import pytest

from policies.model import Basis, Duration, RunTerms
from policies.model.duration import expected, longest
from policies.words import LINE, count_gpus, lasting

PAST = Duration(100, Basis.HISTORY, percent=50, runs=41, gpus=8)


@pytest.mark.parametrize(
    ("run", "limit", "seconds", "basis"),
    [
        (RunTerms(60), None, 60, Basis.ESTIMATE),
        (RunTerms(60, 90), None, 60, Basis.ESTIMATE),
        (RunTerms(60, 30), None, 30, Basis.DEADLINE),
        (RunTerms(60, 90), 45, 45, Basis.QUEUE_LIMIT),
        (RunTerms(None, 90), 120, 90, Basis.DEADLINE),
        (RunTerms(), 120, 120, Basis.QUEUE_LIMIT),
    ],
)
def test_an_estimate_counts_up_to_a_bound(run: RunTerms, limit: float | None, seconds: float, basis: Basis) -> None:
    estimate = expected(run, limit)
    assert estimate is not None
    assert (estimate.seconds, estimate.basis) == (seconds, basis)


def test_what_nobody_can_tell_is_not_guessed() -> None:
    assert expected(RunTerms(), None) is None


def test_a_workload_ends_with_its_last_part_and_has_a_deadline_if_all_have_one() -> None:
    assert longest([RunTerms(60, 90), RunTerms(10, 120)]) == RunTerms(60, 120)
    assert longest([RunTerms(60, 90), RunTerms()]) == RunTerms(60, None)
    assert longest([]) == RunTerms()


def test_it_says_on_what_it_rests() -> None:
    assert str(Duration(21600, Basis.ESTIMATE)) == "its author's estimate of 6 h"
    assert str(Duration(5400, Basis.DEADLINE)) == "its deadline after 1 h 30 min"
    assert str(Duration(86400, Basis.QUEUE_LIMIT)) == "the longest run of its queue, 1 d"
    text = "1 min 40 s, which the middle one of 41 jobs of up to 8 GPUs in its queue took at most"
    assert str(PAST) == text
    text = "1 min 40 s, which 90 % of 41 jobs without GPUs in its queue took at most"
    assert str(Duration(100, Basis.HISTORY, percent=90, runs=41)) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (0.2, "1 s"), (59.5, "1 min"), (90, "1 min 30 s"), (3600, "1 h"), (86460, "1 d"), (183600, "2 d 3 h")],
)
def test_a_duration_has_its_two_largest_units(seconds: float, text: str) -> None:
    assert lasting(seconds) == text


def test_gpus_are_those_of_any_vendor_and_devices_of_claims() -> None:
    assert count_gpus((("cpu", 4), ("rdma/hca", 8), ("nvidia.com/gpu", 4), ("amd.com/gpu", 2))) == 6
    assert count_gpus((("rdma/hca", 8), (f"{LINE}2 of gpu.nvidia.com", 2))) == 2
