"""The referee's own book of releases: which have begun, which are whole, and which have bound a part of their gang."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping

from extender.core.effects import PostBinding
from policies.model import GroupKey, Pod
from tests.simulation.doubts import Doubts
from tests.simulation.shown import RELEASE, Shown
from tests.simulation.sight import slot


class Releases:
    """The releases in one life of the extender.

    ``posting``: the Bindings under way, by member.
    ``over``: is called with each gang that is found to be whole, or whose release has ended.
    """

    def __init__(
        self,
        shown: Shown,
        doubts: Doubts,
        posting: Mapping[str, PostBinding],
        over: Callable[[GroupKey], None],
    ) -> None:
        self.whole: dict[GroupKey, None] = {}
        """Gangs of which something is bound, and that were whole once."""
        self._shown = shown
        self._doubts = doubts
        self._posting = posting
        self._over = over
        self._begun: dict[GroupKey, None] = {}
        """Gangs of which this life of the extender has posted the first Binding."""
        self._unsure: dict[str, PostBinding] = {}
        """Bindings that may have been written, by member, in the release of a gang that is under way."""
        self._just_posted: dict[str, None] = {}
        self._now = 0.0

    # Events, as ``Claims`` reports them

    def begin_event(self, now: float) -> None:
        self._now = now
        self._just_posted.clear()

    def post(self, binding: PostBinding) -> None:
        self._just_posted[binding.uid] = None
        sight = self._shown.sight(binding.group) if binding.group is not None else None
        if binding.group is not None and (sight is None or not sight.bound):
            self._begun[binding.group] = None

    def doubt(self, binding: PostBinding) -> None:
        """Record that the Binding may have been written."""
        if binding.group is not None:
            self._unsure[binding.uid] = binding

    def forget(self, key: GroupKey) -> None:
        """Drop the Bindings with an unknown outcome of a gang whose promises are revoked."""
        self._unsure = {uid: binding for uid, binding in self._unsure.items() if binding.group != key}

    def lose(self, uid: str, gang: GroupKey | None) -> None:
        """Record that a member lost its node, or is lost. ``gang``: None if its gang is unknown."""
        self._unsure.pop(uid, None)
        for key in [key for key in self._begun if gang is None or key == gang]:
            self.end(key)

    def end(self, key: GroupKey) -> None:
        """Unless something of it is bound, or may be soon."""
        sight = self._shown.sight(key)
        if (sight is None or not sight.bound) and not self._under_way(key):
            self.whole.pop(key, None)
            self._begun.pop(key, None)
            self._over(key)

    def weigh(self, key: GroupKey | None) -> None:
        """Declare the gang if it is whole now."""
        sight = self._shown.sight(key) if key is not None else None
        if key is None or sight is None or not sight.bound:
            return
        # The number needed at the last Binding counts; its stamp is judged then.
        stamps = [pod.stamp for pod in sight.bound if pod.stamp is not None and pod.stamp.complete]
        declared = any(stamp.name in ("", key.name) for stamp in stamps)  # not that of one that was moved since
        if declared or (sight.needed is not None and not sight.partial) or self._all_were_bound(key):
            self.declare(key)

    def declare(self, key: GroupKey) -> None:
        """Record that the gang is whole."""
        self.whole[key] = None
        self._over(key)

    # Questions

    def began(self, key: GroupKey) -> bool:
        """Whether this life of the extender has posted its first Binding: then it knows the outcome of the others."""
        return key in self._begun

    def goes_on(self, binding: PostBinding) -> bool:
        """Whether its release was under way before the last event.

        It was if a Binding of it was posted, or may have been written, or has bound a member, maybe for an earlier
        PodGroup. It goes on whichever member is lost meanwhile. Bindings that one event has posted together have
        begun together.
        """
        earlier = [effect for uid, effect in self._posting.items() if uid not in self._just_posted]
        release = binding.group, binding.annotations.get(RELEASE)
        members = self._shown.members.get(binding.group, {}).values() if binding.group is not None else ()
        if any(pod.stamp is not None and pod.stamp.release == release[1] for pod in members):
            return True
        return any(
            (effect.group, effect.annotations.get(RELEASE)) == release for effect in (*earlier, *self._unsure.values())
        )

    def broken(self, key: GroupKey) -> bool:
        """Whether its release has bound a part of it, and it was never whole."""
        if not self.began(key) or key in self.whole:
            return False
        sight = self._shown.sight(key)
        return sight is not None and sight.partial and any(pod.stamp for pod in sight.bound)

    def keeps_room(self, key: GroupKey) -> bool:
        """Whether a lost member's room is for its replacement: something of the release is bound, or may be soon."""
        return self.broken(key) or (self._under_way(key) and self.began(key) and key not in self.whole)

    def _all_were_bound(self, key: GroupKey) -> bool:
        """Whether as many slots as a release needed were bound with it, also those of pods that have failed since."""
        sight, bound = self._shown.sight(key), defaultdict[str, dict[Hashable, Pod]](dict)
        quorums = defaultdict[str, list[int]](list)
        for pod in self._shown.members[key].values():
            if pod.stamp is not None and pod.stamp.quorum:
                bound[pod.stamp.release][slot(pod)] = pod
                quorums[pod.stamp.release].append(pod.stamp.quorum)
        return sight is not None and any(
            len(slots) >= min(quorums[release]) and not sight.lacks(slots.values()) for release, slots in bound.items()
        )

    def _under_way(self, key: GroupKey) -> bool:
        # A pod that is gone is not bound any more, nor is one that is terminating before its answer comes.
        pods = self._shown.pods
        there = (uid for uid in self._posting if uid in pods and (pods[uid].live or not pods[uid].node))
        return key in (self._posting[uid].group for uid in there) or self._doubts.of(key, self._now)
