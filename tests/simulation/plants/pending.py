"""Bugs in the waking of a pending workload: a cause that comes true and is not raised."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from extender.core.ledger.pending import ANY_ROOM, Config, FreedQuota, Own, Pending, QuotaFor, RoomFor, WakeCause
from policies.steps import quickly


def _unless(patch: pytest.MonkeyPatch, lost: Callable[[Pending, WakeCause], bool]) -> None:
    wake, in_steps = Pending.wake, Pending.wake_in_steps
    patch.setattr(Pending, "wake", lambda self, cause: None if lost(self, cause) else wake(self, cause))
    patch.setattr(
        Pending, "wake_in_steps", lambda self, cause: quickly(None) if lost(self, cause) else in_steps(self, cause)
    )


def room_that_comes_free_wakes_nothing(patch: pytest.MonkeyPatch) -> None:
    """Only workloads that wait for room of any kind are woken."""
    _unless(patch, lambda _, cause: isinstance(cause, RoomFor) and cause.shape is not None)


def quota_that_is_given_back_wakes_nothing(patch: pytest.MonkeyPatch) -> None:
    _unless(patch, lambda _, cause: isinstance(cause, QuotaFor | FreedQuota))


def changes_of_a_parked_workload_do_not_wake_it(patch: pytest.MonkeyPatch) -> None:
    """The demand is computed again only when another cause has woken it."""

    def lost(pending: Pending, cause: WakeCause) -> bool:
        return isinstance(cause, Own) and pending.wake_on(cause.key) not in ((), (ANY_ROOM,))

    _unless(patch, lost)


def turns_of_a_namespace_are_not_renewed(patch: pytest.MonkeyPatch) -> None:
    """The namespace's jobs become last, or no longer are: jobs that wait for quota keep their old turn."""
    _unless(patch, lambda _, cause: isinstance(cause, Config) and cause.namespace is not None)


def what_all_workloads_depend_on_wakes_none(patch: pytest.MonkeyPatch) -> None:
    """Be it of a namespace or of the cluster."""
    _unless(patch, lambda _, cause: isinstance(cause, Config))
