"""The release of a workload: what is remembered of it from the last look before its first Binding to its end."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Release:
    """``name``: the UID of the member that was to be bound last, which no other release can have. ``began``: when.

    ``last``: the held member whose Binding is posted after all others, and says that the release is whole. ``failed``:
    a Binding has failed whose pod is there. ``complete``: the workload has been whole once, and a replacement needs no
    new quorum. ``partial_since``: from when the time counts in which a start that broke off has to be completed;
    ``partial_count``: slots that are bound then.
    """

    name: str = ""
    began: float | None = None
    last: str | None = None
    failed: bool = False
    complete: bool = False
    partial_since: float | None = None
    partial_count: int = 0

    def begin(self, name: str, now: float) -> None:
        """A quorum is held. What completes an earlier release goes on with its name."""
        self.name = self.name or name
        self.began = now if self.began is None else self.began
        self.failed = False

    def fail(self) -> None:
        """A Binding has failed for another reason than that its pod is gone."""
        self.failed = True

    def wait_for(self, last: str | None) -> None:
        """That member's Binding is posted last; None: there is none to wait for any more."""
        self.last = last

    def wait_no_more_for(self, uid: str) -> None:
        """If that member was the last one, there is none."""
        if self.last == uid:
            self.last = None

    def recover(self, name: str, began: float | None, *, complete: bool) -> None:
        """What the stamps on its members tell after a restart."""
        self.name, self.began, self.complete = name, began, complete

    def start_anew(self) -> None:
        """Another PodGroup of the same name is another workload. What is on its way goes on."""
        self.name, self.began, self.complete, self.partial_since = "", None, False, None

    def become_whole(self) -> None:
        self.complete, self.partial_since = True, None

    def break_off(self, since: float, count: int) -> None:
        self.partial_since, self.partial_count = since, count

    def lapse(self, *, whole: bool, doubtful: bool) -> None:
        """Nothing of ours is known to be bound or on its way: whatever starts next under this name is another release,
        unless it is ``doubtful`` whether a Binding of this one was written: then that one goes on.

        While somebody else's Bindings make it ``whole``, it is; else it needs its own quorum.
        """
        if not doubtful:
            self.name, self.began, self.partial_since = "", None, None
        self.complete &= whole
