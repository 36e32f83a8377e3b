"""How the core treats those it deals with: no call is held beyond its time, and no gate comes off too early."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from extender.core.answers import BindingPosted, Nominated
from extender.core.effects import AnswerBind, Effect, Nominate, PostBinding, Ungate
from extender.core.events import BindArrived, BindDisconnected, Event, PreemptCalled
from policies.model import GroupKey, Pod

_MARGIN_S = 1.0
"""kube-scheduler begins to count a little earlier than the extender does."""


class Manners:
    """Complaints about one life of the extender; ``watch`` needs everything in order."""

    def __init__(self) -> None:
        self.excused_until = 0.0
        """The time until which the extender was suspended, and could not answer."""
        self._calls: dict[int, tuple[BindArrived, float]] = {}
        self._started: dict[GroupKey, float] = {}
        """When the last Binding of the gang was requested: the held ones wait for its outcome."""
        self._writing: dict[str, None] = {}
        """Pods whose Binding is being written."""
        self._unwritten: dict[str, str] = {}
        """Nominations that were asked for, and are not known to be written: pod UID -> node."""

    def watch(
        self, event: Event, effects: Sequence[Effect], pods: Mapping[str, Pod], shown: Mapping[str, Pod], now: float
    ) -> str | None:
        """The fault of these effects, if any. ``pods``: the existing pods, ``shown``: what is known of them."""
        complaint = None
        match event:
            case BindArrived(call):
                self._calls[call] = event, now
            case BindingPosted(uid):
                self._writing.pop(uid, None)
            case BindDisconnected(call) if call in self._calls:
                complaint = self._hung_up(*self._calls.pop(call), pods, now)
            case Nominated(uid, node) if self._unwritten.get(uid) == node:
                del self._unwritten[uid]
            case _:
                pass
        for effect in effects:
            complaint = complaint or self._asked(effect, pods, shown, now)
        return complaint

    def _asked(self, effect: Effect, pods: Mapping[str, Pod], shown: Mapping[str, Pod], now: float) -> str | None:
        match effect:
            case AnswerBind(call):
                self._calls.pop(call, None)
            case PostBinding():
                self._writing[effect.uid] = None
                for call in effect.calls:
                    self._calls.pop(call, None)  # held no longer, whatever the pod's gang is now
                if effect.group is not None:
                    self._started[effect.group] = now
            case Nominate(uid, node=str(node)):
                self._unwritten[uid] = node
                pod = shown.get(uid)
                if pod is not None and pod.nominated_node == node and not pod.gates and not effect.renew:
                    return f"{uid} is nominated for {node} as it reads already: that wakes nobody"
            case Nominate(uid):
                self._unwritten.pop(uid, None)
            case Ungate(uid) if uid in shown:
                return self._ungated(shown[uid], pods, shown)
            case _:
                pass
        return None

    def _hung_up(self, call: BindArrived, since: float, pods: Mapping[str, Pod], now: float) -> str | None:
        pod = pods.get(call.uid)
        if call.uid in self._writing:
            return None  # it waits for the outcome of the Binding that an earlier call has asked for
        if now < call.expires - _MARGIN_S or since < self.excused_until or pod is None or pod.group_key is None:
            return None
        fellows = [other for other in pods.values() if other.group_key == pod.group_key]
        if self._started.get(pod.group_key, 0.0) >= since or any(other.node for other in fellows):
            return None
        return f"{call} was held until kube-scheduler gave it up"

    def _ungated(self, pod: Pod, pods: Mapping[str, Pod], shown: Mapping[str, Pod]) -> str | None:
        """Check that no nomination of the gang is unwritten.

        The watch may lag: an edited annotation moves a pod to another gang.
        """
        others = [shown[uid] for uid in self._unwritten if uid in shown and uid in pods]
        fellows = [pods[other.uid] for other in others if other.group_key == pod.group_key]
        early = [other for other in fellows if other.live and not other.node]
        if not early or pod.group_key is None:
            return None
        return f"the gate of {pod.uid} is to come off before the nomination of {early[0].uid} is known to be written"


def judge_victims(event: PreemptCalled, victims: Mapping[str, tuple[str, ...]], pods: Mapping[str, Pod]) -> str | None:
    """Check that no pod of a gang preempts, and none is preempted. ``pods``: the existing pods."""
    if victims and event.pod.group_key is not None:
        return f"{event.pod.name}, of a gang, may preempt {victims}"
    for uid in (uid for uids in victims.values() for uid in uids):
        pod = pods.get(uid)
        if pod is not None and pod.group_key is not None:
            return f"{uid}, of a gang, may be preempted"
    return None
