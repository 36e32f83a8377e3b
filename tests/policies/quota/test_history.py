"""The past usage of LocalQueues: it fades by half-lives, and a start counts at once."""

from __future__ import annotations

from math import inf

import pytest

from policies.quota.history import History, Sampling

HOUR = Sampling(half_life_s=3600.0, interval_s=300.0)


def test_usage_nears_what_is_used_by_half_in_each_half_life() -> None:
    queue = History(HOUR)
    queue.sample({"gpu": 8}, 3600.0)
    assert queue.value == pytest.approx(4.0)
    queue.sample({"gpu": 8}, 7200.0)
    assert queue.value == pytest.approx(6.0)
    queue.sample({}, 10800.0)
    assert queue.value == pytest.approx(3.0)


def test_many_samples_say_the_same_as_one() -> None:
    often, once = History(HOUR), History(HOUR)
    for at in range(1, 61):
        often.sample({"gpu": 8}, at * 60.0)
    once.sample({"gpu": 8}, 3600.0)
    assert often.value == pytest.approx(once.value)


def test_a_start_counts_until_it_is_known_or_has_failed() -> None:
    queue = History(HOUR)
    counted = 8 * (1 - 0.5 ** (300 / 3600))
    queue.started("w", {"gpu": 8})
    queue.started("w", {"gpu": 8})
    assert queue.value == pytest.approx(counted)
    queue.failed("w")
    assert queue.value == 0
    queue.started("w", {"gpu": 8})
    assert queue.settled("w")
    assert not queue.settled("w")
    assert queue.value == pytest.approx(counted)
    queue.sample({}, 3600.0)
    assert queue.value == pytest.approx(counted / 2)


def test_weights_of_queues_and_of_resources() -> None:
    sampling = Sampling(3600.0, weights={"gpu": 10.0, "cpu": 0.0})
    for weight, value in ((1.0, 40.0), (2.0, 20.0), (0.0, inf)):
        queue = History(sampling, weight)
        queue.sample({"gpu": 8, "cpu": 99}, 3600.0)
        assert queue.value == pytest.approx(value)


def test_without_a_half_life_there_is_no_history() -> None:
    queue = History(Sampling(0.0))
    queue.started("w", {"gpu": 8})
    queue.sample({"gpu": 8}, 300.0)
    assert queue.value == 0


def test_a_clock_that_goes_back_changes_nothing() -> None:
    queue = History(HOUR, now=100.0)
    queue.sample({"gpu": 8}, 50.0)
    assert queue.value == 0
    queue.sample({"gpu": 8}, 100.0)
    assert queue.value == 0


def test_what_is_stored_of_a_history_is_all_of_it() -> None:
    """At any instant between two samples, with a start that has just succeeded."""
    queue = History(HOUR)
    queue.sample({"gpu": 8}, 300.0)
    queue.started("w", {"gpu": 2})
    queue.settled("w")
    again = History(HOUR, now=queue.sampled_at, consumed=queue.consumed)
    for history in (queue, again):
        history.sample({"gpu": 10}, 600.0)
    assert again.value == queue.value > 0
