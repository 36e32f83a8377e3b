"""Bugs in reservations, and in what starts beside them."""

from __future__ import annotations

from math import inf

import pytest

from extender.core.cycle.backfill import Backfilling
from extender.core.ledger.backfill import Backfills
from extender.core.lifecycle import Lifecycle
from extender.core.queue.forecast import Forecast
from extender.core.workload.workload import Workload
from policies.model import GroupKey


def ends_of_backfilled_workloads_ignored(patch: pytest.MonkeyPatch) -> None:
    """Whatever says how long it runs is taken to end in time."""
    real = Backfills._closed
    patch.setattr(
        Backfills, "_closed", lambda self, key, priority, duration, _: real(self, key, priority, duration, -1e9)
    )


def reservations_outlive_their_owners(patch: pytest.MonkeyPatch) -> None:
    """Nothing is written, and no room given back, when an owner waits no more."""
    patch.setattr(Backfilling, "_end", lambda self, key, now: self._backfills.end(key, now))


def reservations_forgotten_at_a_restart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Backfilling, "restore", lambda self, now: iter(()))


def room_that_comes_free_is_not_kept(patch: pytest.MonkeyPatch) -> None:
    """A reservation is written, and anybody may use its room."""
    patch.setattr(Backfills, "_claim_freed_on", lambda self, *of: None)


def workloads_are_ended_as_soon_as_they_overrun(patch: pytest.MonkeyPatch) -> None:
    """The grace of the settings does not count."""

    def ends_at(self: Lifecycle, workload: Workload) -> float:
        at: float = real(self, workload)
        return at - self._limits.overrun_s if at < inf else at

    real = Lifecycle._ends_overrun_at
    patch.setattr(Lifecycle, "_ends_overrun_at", ends_at)


def reservations_for_members_beyond_the_minimum(patch: pytest.MonkeyPatch) -> None:
    """A gang that has started, and has room for some members only, keeps or gets a reservation for the others."""

    def waits(self: Backfilling, key: GroupKey) -> bool:
        workload = self._store.workloads.get(key)
        if workload is None or key not in self._pending.keys:
            return False
        return workload.demand is None or workload.demand.trouble is None

    patch.setattr(Backfilling, "_waits", waits)


def forecasts_stay_when_something_has_changed(patch: pytest.MonkeyPatch) -> None:
    """Only the time ends them."""
    patch.setattr(Forecast, "version", 0)


def forecasts_stay_when_an_end_has_not_come(patch: pytest.MonkeyPatch) -> None:
    """Only changes end them."""

    def valid_until(self: Forecast) -> float:
        return inf if real(self) > -inf else -inf

    real = vars(Forecast)["valid_until"].fget
    patch.setattr(Forecast, "valid_until", property(valid_until))
