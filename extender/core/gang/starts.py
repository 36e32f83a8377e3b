"""Members that have finished well, by the start that they belonged to: the release that is stamped on them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum

from extender.core.gang.said import Tally
from policies.model import Pod, SlotKey

_REPLACES_ALL = ("StatefulSet", "ReplicaSet", "DaemonSet", "ReplicationController")
"""Controllers of pods that never end by themselves."""


def ended_well(pod: Pod) -> bool:
    """Whether it has done its work. The kubelet also calls a deleted pod Succeeded if its containers exit with 0: one
    whose controller replaces it has not."""
    asked_to = pod.deleting and pod.controller is not None and pod.controller.kind in _REPLACES_ALL
    return pod.ended == "Succeeded" and not asked_to


class GoingOn(Enum):
    """How a start goes on whose finished members may count."""

    BOUND = "a member of it is bound"
    LOST = "none is, it has lost slots, and a controller of it has made another pod"
    DONE = "none is, and it has lost none: such a pod begins another start"

    def counts(self, *, of_job: bool, indexed: bool) -> bool:
        """Whether a member that has finished in it does. ``indexed``: it is an index of a job."""
        return self is GoingOn.BOUND or indexed or (self is GoingOn.LOST and not of_job)


class Start:
    """The finished members of one release, and how many slots it had bound, by what their Bindings said."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.at = 0.0
        self._sizes: Tally[int] = Tally()
        self._slots: Tally[SlotKey] = Tally()
        self._owners: Tally[str] = Tally()

    def add(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod
        self._slots.add(pod.identity)
        self._owners.add(pod.owner)
        if pod.stamp is not None:
            self._sizes.add(pod.stamp.size)
            self.at = max(self.at, pod.stamp.at)

    def drop(self, pod: Pod) -> None:
        del self.pods[pod.uid]
        self._slots.take(pod.identity)
        self._owners.take(pod.owner)
        if pod.stamp is not None:
            self._sizes.take(pod.stamp.size)

    @property
    def lost(self) -> bool:
        """Whether a slot of it was lost before it had finished."""
        return len(self._slots) < max(self._sizes, default=0)

    def is_of(self, owners: Collection[str]) -> bool:
        """Whether one of these controllers made members of it."""
        return any(owner in owners for owner in self._owners if owner)


class Starts:
    """Which finished members count as present: those of the starts that go on.

    A start goes on while one of its members is bound. When none is left it is over, unless it has lost a slot and the
    controller of its members makes a new pod: that one completes the last start, and is no new one. If it has lost
    none, such a pod begins another start; only an index of a job that is done stays so. Pods of a job without an index
    are counted by its status when nobody of their start is bound: it may have been suspended and started anew since.
    """

    def __init__(self) -> None:
        self._starts: dict[str, Start] = {}
        self._last: str | None = None

    def add(self, pod: Pod) -> None:
        assert pod.stamp is not None  # noqa: S101
        release = pod.stamp.release
        if release not in self._starts:
            self._starts[release] = Start()
        self._starts[release].add(pod)
        self._last = None

    def drop(self, pod: Pod) -> None:
        assert pod.stamp is not None  # noqa: S101
        start = self._starts[pod.stamp.release]
        start.drop(pod)
        if not start.pods:
            del self._starts[pod.stamp.release]
            self._last = None

    def going_on(self, bound: Mapping[str, int], owners: Collection[str]) -> dict[str, GoingOn]:
        """The releases whose finished members may count. ``bound``: the releases of all live members, "" of those that
        are not bound; ``owners``: their controllers."""
        if any(bound):
            return {release: GoingOn.BOUND for release in bound if release in self._starts}
        last = self._latest()
        if last is None or not self._starts[last].is_of(owners):
            return {}
        return {last: GoingOn.LOST if self._starts[last].lost else GoingOn.DONE}

    def _latest(self) -> str | None:
        if self._last is None and self._starts:
            self._last = max(self._starts, key=lambda release: (self._starts[release].at, release))
        return self._last
