"""After a restart: what bound pods and nominations tell of an earlier life of ours, gang by gang."""

from __future__ import annotations

from extender.core.hints import Hints
from extender.core.releases import Releases
from extender.core.state import State
from extender.core.steering import Steering
from policies.model import GroupKey
from policies.steps import Steps

_LOOK = 2


class Recovery:
    """The queue walks through it in slices. Events come in between: of their gangs everything is found out first."""

    def __init__(self, state: State, releases: Releases, steering: Steering, hints: Hints) -> None:
        self._state = state
        self._releases = releases
        self._steering = steering
        self._hints = hints
        self._unheard: dict[GroupKey, None] = {}

    def begin(self, epoch: float) -> None:
        """Every list is in."""
        self._state.epoch, self._state.synced = epoch, True
        self._unheard = dict.fromkeys(self._state.gangs)

    def find_out(self, key: GroupKey | None, now: float) -> None:
        """Bound pods are the truth: what those of the gang tell of it, unless that is known."""
        if key is None or key not in self._unheard:
            return
        del self._unheard[key]
        if (gang := self._state.gangs.get(key)) is None:
            return
        self._releases.recover(gang, now)
        if gang.complete or not gang.live:
            # It has started before: that was told then.
            gang.seen_at, gang.told = None, gang.told.then(gang.reason, now)

    def all(self, now: float) -> Steps[None]:
        """Find out about every gang."""
        for key in list(self._unheard):
            gang = self._state.gangs.get(key)
            self.find_out(key, now)
            yield _LOOK + (len(gang.members) if gang is not None else 0)

    def clear(self, now: float) -> Steps[None]:
        """Nominations are hints: whatever is left of them that nobody is promised is cleared."""
        for key in list(self._state.gangs):
            if (gang := self._state.gangs.get(key)) is not None:
                self._steering.sweep(gang, now)
                self._steering.confirm(gang)
                yield _LOOK + len(gang.members) // 4
        yield from self._hints.recover(now)
