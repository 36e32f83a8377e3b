"""kube-scheduler's bind requests that have no answer yet, and the Bindings that are being written for them."""

from __future__ import annotations

from dataclasses import dataclass, field

from extender.core.events import BindArrived
from policies.model import GroupKey, Stamp

_MOST_CALLS = 8
"""That wait for one Binding: kube-scheduler asks again only when it has given the request before up."""


@dataclass(slots=True)
class Binding:
    """One that is being written, and the calls that wait for it; for a member its workload, and what it writes."""

    node: str
    calls: list[int]
    workload: GroupKey | None = None
    stamp: Stamp | None = None

    def await_by(self, call: int) -> int | None:
        """One more call waits for it. Returns the one that is superseded by it, if there are too many."""
        self.calls.append(call)
        # Not the first: while somebody waits for that one, the Binding is sent.
        return self.calls.pop(1) if len(self.calls) > _MOST_CALLS else None


@dataclass(slots=True)
class BindCalls:
    """``held``: call -> UID of the pod whose gang is awaited. ``writing``: pod UID -> its Binding. ``unseen``: pod UID
    -> a bind of a pod that the watch has yet to show, and until when it may wait. ``doubted``: pods of no gang whose
    Binding may have been written, and until when the room for it stays promised.
    """

    held: dict[int, str] = field(default_factory=dict)
    writing: dict[str, Binding] = field(default_factory=dict)
    unseen: dict[str, tuple[BindArrived, float]] = field(default_factory=dict)
    doubted: dict[str, float] = field(default_factory=dict)

    def hold(self, call: int, uid: str) -> None:
        self.held[call] = uid

    def let_go(self, call: int) -> str:
        """It waits no longer, or for a Binding from now on. Returns the pod's UID, if it was held."""
        return self.held.pop(call, "")

    def write(self, uid: str, binding: Binding) -> None:
        self.writing[uid] = binding
        self.doubted.pop(uid, None)

    def written(self, uid: str) -> Binding | None:
        """It is under way no longer. Returns it."""
        return self.writing.pop(uid, None)

    def doubt(self, uid: str, until: float) -> None:
        """Its Binding may have been written: the watch will tell."""
        self.doubted[uid] = until

    def await_pod(self, event: BindArrived, until: float) -> None:
        self.unseen[event.uid] = (event, until)

    def stop_awaiting(self, uid: str) -> BindArrived | None:
        """Returns the bind that waited for the pod."""
        found = self.unseen.pop(uid, None)
        return None if found is None else found[0]

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        self.unseen.pop(uid, None)
        self.doubted.pop(uid, None)

    def instants(self) -> list[float]:
        """When something of this ends by itself."""
        return [*(until for _, until in self.unseen.values()), *self.doubted.values()]
