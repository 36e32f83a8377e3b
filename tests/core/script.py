"""A script of events for the core, under a virtual clock: feeds the events, and keeps the core's effects.

It carries nothing out by itself except nominations, which the watch shows at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from extender.core.answers import BindingPosted, Nominated, Outcome
from extender.core.effects import (
    AnswerBind,
    AnswerFilter,
    AnswerPreempt,
    Confirm,
    Effect,
    Evict,
    Nominate,
    PostBinding,
    Report,
    Wake,
)
from extender.core.engine import Engine
from extender.core.events import (
    BindArrived,
    BindDisconnected,
    Event,
    FilterCalled,
    GroupSeen,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
    PreemptCalled,
    Synced,
    Tick,
)
from extender.core.explain.reasons import reason_of
from extender.core.gate import stamps
from extender.core.gate.advisory import Mode
from extender.core.gate.steering import SteeringMode
from extender.core.limits import Limits
from extender.core.workload.workload import Workload
from policies.chosen import OURS, Policies
from policies.model import Node, Pod, PodGroup, Stamp
from policies.model.levels import LevelKey
from policies.model.mentions import full
from tests.builders import key
from tests.core.invariants import validate
from tests.core.remembered import outdated


class Script:
    """Drives one core. ``pods`` are the API objects as the watch last showed them."""

    def __init__(
        self,
        *facts: Node | Pod | PodGroup,
        limits: Limits | None = None,
        synced: bool = True,
        nominates: bool = True,
        steering: SteeringMode = SteeringMode.NOMINATE,
        mode: Mode = Mode.ENFORCE,
        policies: Policies = OURS,
        checked: int = 1,
        now: float = 1000.0,
        levels: tuple[LevelKey, ...] = (),
    ) -> None:
        """Start a script.

        ``checked``: after how many events the whole state is checked.
        ``now``: the start of the clock, which is the wall clock, too.
        """
        self._nominates = nominates
        self._checked, self._fed = checked, 0
        self.core = Engine(limits=limits, policies=policies, steering=steering, levels=levels, mode=mode)
        self.now = now
        self.pods: dict[str, Pod] = {}
        self.effects: list[Effect] = []
        self.answers: dict[int, str] = {}
        self.bindings: dict[str, PostBinding] = {}
        """Bindings under way, by UID."""
        self._calls = 0
        self.see(*facts)
        if synced:
            self.feed_synced()

    def feed(self, event: Event) -> list[Effect]:
        """Handle one event now."""
        effects = self.core.handle(event, self.now)
        self._fed += 1
        if self._fed % self._checked == 0:
            validate(self.core.state)
            assert not [*outdated(self.core, self.now)]
        self.effects += effects
        for effect in effects:
            self._note(effect)
        return effects

    def feed_synced(self) -> None:
        """Every list is in."""
        self.feed(Synced(self.now))
        self.advance(0.1)

    def advance(self, seconds: float) -> None:
        """Let time pass, with a Tick at each instant the core asks for."""
        until = self.now + seconds
        while (wake := self.core.next_wake()) is not None and wake <= until:
            self.now = max(self.now, wake)
            self.feed(Tick())
        self.now = until

    def see(self, *facts: Node | Pod | PodGroup | Iterable[Pod]) -> None:
        """The watch shows these objects as they are now."""
        for fact in facts:
            match fact:
                case Node():
                    self.feed(NodeSeen(fact))
                case PodGroup():
                    self.feed(GroupSeen(fact))
                case Pod():
                    self.pods[fact.uid] = fact
                    self.feed(PodSeen(fact))
                case _:
                    self.see(*fact)
        self.advance(0.1)

    def gone(self, *pods: Pod) -> None:
        """Remove the objects of these pods."""
        for pod in pods:
            self.pods.pop(pod.uid)
            self.feed(PodGone(pod.uid))
        self.advance(0.1)

    def drop(self, *nodes: str) -> None:
        """Remove these nodes."""
        for name in nodes:
            self.feed(NodeGone(name))
        self.advance(0.1)

    def change(self, pod: Pod, **facts: object) -> None:
        """The watch shows the pod with other facts."""
        self.see(replace(self.pods[pod.uid], **facts))  # type: ignore[arg-type]

    def filter(self, pod: Pod, candidates: Iterable[str] = ()) -> tuple[str, ...]:
        """Ask which of the candidates (all nodes unless given) the pod may use."""
        return self.filtered(pod, candidates).passed

    def filtered(self, pod: Pod, candidates: Iterable[str] = ()) -> AnswerFilter:
        self._calls += 1
        names = tuple(candidates) or tuple(self.core.state.claims.nodes)
        effects = self.feed(FilterCalled(self._calls, self.pods.get(pod.uid, pod), names))
        return next(effect for effect in effects if isinstance(effect, AnswerFilter))

    def preempt(self, pod: Pod, victims: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        self._calls += 1
        effects = self.feed(PreemptCalled(self._calls, pod, victims))
        return dict(next(effect for effect in effects if isinstance(effect, AnswerPreempt)).victims)

    def bind(self, pod: Pod, node: str = "", expires_s: float = 60.0) -> int:
        """kube-scheduler asks for a Binding to ``node``, or to the node promised. Returns the call."""
        self._calls += 1
        wanted = node or self.planned(pod)
        self.feed(BindArrived(self._calls, pod.uid, pod.namespace, pod.name, wanted, self.now + expires_s))
        return self._calls

    def bind_all(self, pods: Iterable[Pod], expires_s: float = 60.0) -> list[int]:
        return [self.bind(pod, expires_s=expires_s) for pod in pods]

    def disconnect(self, call: int) -> None:
        self.feed(BindDisconnected(call))

    def post(self, pod: Pod, outcome: Outcome = Outcome.DONE, *, seen: bool = True) -> None:
        """The Binding of the pod ends. ``seen``: the watch shows it at once."""
        binding = self.bindings.pop(pod.uid)
        self.feed(BindingPosted(pod.uid, outcome, "" if outcome is Outcome.DONE else "the API server said no"))
        if outcome is Outcome.DONE and seen and pod.uid in self.pods:
            bound = self.pods[pod.uid].bound(binding.node, stamp_of(binding))
            self.change(pod, node=bound.node, stamp=bound.stamp, group=bound.group, nominated_node=None)

    def feed_outcome(self, uid: str, outcome: Outcome) -> None:
        """A Binding ends, and the watch is silent for now."""
        self.bindings.pop(uid, None)
        self.feed(BindingPosted(uid, outcome, "" if outcome is Outcome.DONE else "the API server said no"))
        self.advance(0.1)

    def post_all(self) -> None:
        """Every Binding asked for succeeds, and those asked for in consequence."""
        while self.bindings:
            self.post(self.pods[next(iter(self.bindings))])

    def run(self, pods: list[Pod]) -> None:
        """kube-scheduler carries a placement out from end to end."""
        self.bind_all(pods)
        self.post_all()

    def gang(self, name: str) -> Workload:
        return self.core.state.workloads[key(name)]

    def reason(self, name: str) -> str:
        return reason_of(self.gang(name).reason_state.cause).code

    def message(self, name: str) -> str:
        return full(reason_of(self.gang(name).reason_state.cause).message, "default")

    def planned(self, pod: Pod) -> str:
        """The node promised to the pod, or nothing."""
        known = self.core.state.pods.get(pod.uid)
        gang = self.core.state.store.workload_of(known) if known else None
        return "" if gang is None else gang.placement.get(pod.uid, "")

    def bound(self, pods: Iterable[Pod]) -> list[str]:
        """The nodes of the pods that are bound as far as the core knows."""
        known = (self.core.state.pods.get(pod.uid) for pod in pods)
        return [pod.node for pod in known if pod is not None and pod.node]

    @property
    def evicted(self) -> list[str]:
        return [effect.name for effect in self.effects if isinstance(effect, Evict)]

    @property
    def woken(self) -> list[str]:
        return [effect.name for effect in self.effects if isinstance(effect, Wake)]

    @property
    def reports(self) -> list[tuple[str, str]]:
        return [(effect.code, effect.message) for effect in self.effects if isinstance(effect, Report)]

    def _note(self, effect: Effect) -> None:
        match effect:
            case AnswerBind(call, error):
                assert call not in self.answers, f"call {call} was answered twice"
                self.answers[call] = error
            case PostBinding(uid):
                assert uid not in self.bindings, f"{uid} is being bound twice at once"
                self.bindings[uid] = effect
            case Nominate(uid, _, _, node) if uid in self.pods:
                self.pods[uid] = replace(self.pods[uid], nominated_node=node)
                self.feed(PodSeen(self.pods[uid]))
                if node is not None and self._nominates:
                    self.feed(Nominated(uid, node))
            case Confirm(uid) if uid in self.pods:
                stamp = self.pods[uid].stamp
                assert stamp is not None, f"{uid} has no stamp that could be completed"
                self.pods[uid] = replace(self.pods[uid], stamp=replace(stamp, complete=True))
                self.feed(PodSeen(self.pods[uid]))
            case _:
                pass


def stamp_of(binding: PostBinding) -> Stamp | None:
    """The stamp that the Binding's annotations leave on the pod."""
    return stamps.stamp_of(binding.annotations)
