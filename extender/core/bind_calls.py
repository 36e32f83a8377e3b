"""kube-scheduler's bind requests that have no answer yet, and the Bindings that are being written for them."""

from __future__ import annotations

from dataclasses import dataclass, field

from extender.core.events import BindArrived
from policies.model import GroupKey, Stamp


@dataclass(slots=True)
class Binding:
    """One that is being written, and the calls that wait for it; for a member its workload, and what it writes."""

    node: str
    calls: list[int]
    workload: GroupKey | None = None
    stamp: Stamp | None = None


@dataclass(slots=True)
class BindCalls:
    """``held``: call -> UID of the pod whose gang is awaited. ``writing``: pod UID -> its Binding. ``unseen``: pod UID
    -> a bind of a pod that the watch has yet to show, and until when it may wait.
    """

    held: dict[int, str] = field(default_factory=dict)
    writing: dict[str, Binding] = field(default_factory=dict)
    unseen: dict[str, tuple[BindArrived, float]] = field(default_factory=dict)

    def hold(self, call: int, uid: str) -> None:
        self.held[call] = uid

    def let_go(self, call: int) -> str:
        """It waits no longer, or for a Binding from now on. Returns the pod's UID, if it was held."""
        return self.held.pop(call, "")

    def write(self, uid: str, binding: Binding) -> None:
        self.writing[uid] = binding

    def written(self, uid: str) -> Binding | None:
        """It is under way no longer. Returns it."""
        return self.writing.pop(uid, None)

    def await_pod(self, event: BindArrived, until: float) -> None:
        self.unseen[event.uid] = (event, until)

    def stop_awaiting(self, uid: str) -> BindArrived | None:
        """Returns the bind that waited for the pod."""
        found = self.unseen.pop(uid, None)
        return None if found is None else found[0]
