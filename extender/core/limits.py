"""How long the core waits for what, how much it does at once, and how much it looks at."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The core's durations, in seconds, and how much it does at once.

    ``post_margin_s`` + ``post_member_s`` per member is the time set aside for posting a gang's Bindings before the
    first held request expires. ``plan_s``: a placement none of whose members reaches bind by then is planned anew.
    ``unseen_s``: how long a bind may wait for its pod to show up in the watch. ``partial_s``: how long a half-released
    gang keeps room for replacements before its bound members are evicted (``evict_partial``). ``report_s``: a reason is
    reported when it has lasted that long. ``refresh_s``: the numbers in the reasons of those who wait are at most that
    old. ``slice_units``: what one Tick does of an admission pass, in the planner's units of about 5 microseconds; the
    placing of a gang is never split. ``members``: that a gang may have. ``waiting``: gangs of one namespace that are
    looked at.
    """

    coalesce_s: float = 0.005
    post_margin_s: float = 2.0
    post_member_s: float = 0.01
    plan_s: float = 20.0
    unseen_s: float = 1.5
    partial_s: float = 60.0
    retry_max_s: float = 30.0
    report_s: float = 2.0
    refresh_s: float = 30.0
    slice_units: int = 1000
    evict_partial: bool = True
    members: int = 10_000
    waiting: int = 20_000
