"""The milestones of a workload's life: what is counted, logged, and for some of them told at once."""

from __future__ import annotations

from enum import StrEnum


class Milestone(StrEnum):
    """PLANNED: every member has a node. RELEASED: its Bindings go out. STARTED: it is whole for the first time.

    FORGOTTEN: its placement was taken back, for a ``Cause``. BROKEN: a release broke off with part of it bound.
    DELAYED: a policy failed when it was its turn. PREEMPTING: others are evicted for it. WOULD_PREEMPT: they would be,
    were it no dry run. UNRESERVED: the room that was kept for it meanwhile is so no more.
    """

    PLANNED = "planned"
    RELEASED = "released"
    STARTED = "started"
    FORGOTTEN = "forgotten"
    BROKEN = "broken"
    DELAYED = "delayed"
    PREEMPTING = "preempts"
    WOULD_PREEMPT = "would-preempt"
    UNRESERVED = "unreserved"


class Cause(StrEnum):
    """Why a placement was taken back: few values, for a label of a metric."""

    HOLD_DEADLINE = "hold-deadline"
    """Members were missing at bind when those that were held could wait no longer."""
    PLAN_DEADLINE = "plan-deadline"
    """kube-scheduler did not take the placement up in time."""
    NODE_REFUSED = "node-refused"
    """kube-scheduler would not have a member on its planned node."""
    NODE_CHANGED = "node-changed"
    """A planned node is gone, not ready, closed or full."""
    ROOM_TAKEN = "room-taken"
    """Another pod has been bound to planned room."""
    BOUND_ELSEWHERE = "bound-elsewhere"
    """Somebody else, an earlier leader for one, has bound a member out of the domain that the others were promised."""
    LAST_LOOK = "last-look"
    """Something had changed when everything was looked at once more before the first Binding."""
    MEMBER_LOST = "member-lost"
    PODGROUP_CHANGED = "podgroup-changed"
    WRITE_FAILED = "write-failed"
    """A nomination or an ungating could not be written."""
    JOB_SUSPENDED = "job-suspended"
    NAMESPACE_DELETED = "namespace-deleted"
    BINDINGS_REFUSED = "bindings-refused"
    PREEMPTED = "preempted"


DEADLINES = (Cause.HOLD_DEADLINE, Cause.PLAN_DEADLINE)
"""Causes that are told at once: they would be over before a reason has lasted long enough to be reported."""
