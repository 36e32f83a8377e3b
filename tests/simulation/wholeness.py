"""The whole gangs, by the objects: a gang that was bound in part for long and never was whole breaks the promise."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from policies.model import GroupKey, Pod, PodGroup
from tests.simulation.broken import BrokenPromiseError
from tests.simulation.model.changes import Change, Kind
from tests.simulation.model.owner import OwnerObject
from tests.simulation.model.world import World
from tests.simulation.sight import Sight, look, slot
from tests.simulation.terms import Terms

PATIENCE_S = 5.0
"""How long a gang may be bound in part while nothing goes wrong."""


class Wholeness:
    """The whole gangs across every life of the extender.

    ``waive``: is called with each pod for which kube-scheduler excludes the node where it may have been bound.
    """

    def __init__(self, terms: Terms, waive: Callable[[str], object]) -> None:
        self.partial: dict[GroupKey, float] = {}
        """Gangs that are bound in part and never were whole -> since when."""
        self.gang_of = dict[str, GroupKey]()
        self.least: dict[GroupKey, int] = {}
        """The least minMember since a gang's release, as the extender knew it: raising it later breaks no release."""
        self.whole: dict[GroupKey, None] = {}
        """Gangs of which something is bound, and that were whole once."""
        self.asked_for: dict[str, GroupKey | None] = {}
        """Pod UID -> the gang for which its last Binding was asked for, by whichever life."""
        self._terms = terms
        self._waive = waive
        self._members = dict[GroupKey, dict[str, Pod]]()
        self._released: dict[str, dict[object, Pod]] = {}
        """Release -> the slots that were bound by it, and their pods."""

    def attach(self, world: World) -> None:
        self._world = world
        world.api.listeners[Kind.PODS].append(self._pod_changed)
        world.api.listeners[Kind.GROUPS].append(self._group_changed)
        world.api.listeners[Kind.OWNERS].append(self._owner_changed)

    def _pod_changed(self, change: Change) -> None:
        pod, uid = change.value, change.uid
        assert isinstance(pod, Pod)
        key, before = None if change.gone else pod.group_key, self.gang_of.get(uid)
        if pod.node:
            # It may be in another gang now: an annotation may have been edited after its Binding was requested.
            self._released.setdefault(pod.stamp.release if pod.stamp else "", {})[slot(pod)] = pod
        if before is not None and pod.refusal and pod.refusal != self._members[before][uid].refusal:
            self._waive(uid)  # kube-scheduler would not have it where it may have been bound
        if before is not None and before != key:
            del self.gang_of[uid], self._members[before][uid]
            self._recount(before)
        if key is not None:
            self.gang_of[uid] = key
            self._members.setdefault(key, {})[uid] = pod
            self._recount(key)

    def _group_changed(self, change: Change) -> None:
        assert isinstance(change.value, PodGroup)
        if self._members.get(change.value.key):
            self._recount(change.value.key)

    def _owner_changed(self, change: Change) -> None:
        assert isinstance(change.value, OwnerObject)
        for key in [GroupKey(change.value.key.namespace, change.value.gang(at)) for at in range(change.value.groups)]:
            if self._members.get(key):
                self._recount(key)

    def _recount(self, key: GroupKey) -> None:
        members = self._members[key]
        sight = self._look(members.values(), key) if members else None
        # A pod that was being bound for another gang when it was moved to this one does not start this gang.
        if sight is None or all(self.asked_for.get(pod.uid, key) != key for pod in sight.bound):
            self.whole.pop(key, None)
            self._no_longer_partial(key)
            return
        together: dict[object, Pod] = {}
        for pod in (*sight.bound, *sight.finished):
            together[slot(pod)] = pod
            if pod.node:
                together.update(self._released[pod.stamp.release if pod.stamp else ""])
        if sight.needed is not None:
            self.least[key] = min(sight.needed, self.least.get(key, sight.needed))
            if not sight.partial:
                self.whole[key] = None
        # If a member is lost between the first Binding and the last, two readings are right. A reader that does not
        # know of the loss calls the gang whole, and one that knows calls it broken. Without its PodGroup the full size
        # is unknown.
        few = len(together) < self.least.get(key, 0) or sight.lacks(together.values())
        if sight.needed is not None and few and key not in self.whole:
            self.partial.setdefault(key, self._world.clock.now)
        else:
            self._no_longer_partial(key)

    def _look(self, members: Iterable[Pod], key: GroupKey) -> Sight:
        api = self._world.api
        return look(members, api.groups, api.podsets, api.gang_owners, ended=api.done(key))

    def _no_longer_partial(self, key: GroupKey) -> None:
        since = self.partial.pop(key, None)
        if since is not None and self._terms.calm and self._world.clock.now - since > PATIENCE_S:
            lasted_s = self._world.clock.now - since
            raise BrokenPromiseError(f"{key} was bound in part for {lasted_s:.1f} s, although nothing went wrong")
