"""A small world around the core: an API server whose watch lags, and a kube-scheduler with a cache of its own."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from extender.core.answers import BindingPosted, Nominated, Outcome, Ungated
from extender.core.effects import (
    AnswerBind,
    AnswerFilter,
    Confirm,
    Effect,
    Evict,
    Nominate,
    PostBinding,
    Ungate,
)
from extender.core.engine import Engine
from extender.core.events import (
    BindArrived,
    BindDisconnected,
    Event,
    FilterCalled,
    GroupSeen,
    NodeSeen,
    PodGone,
    PodSeen,
    Synced,
    Tick,
)
from extender.core.explain.telling import story_of
from extender.core.gate.steering import SteeringMode
from extender.core.limits import Limits
from policies.model import GANG_GATE, Node, Pod
from policies.placement.matching import admits
from tests.core.api_server import ApiServer
from tests.core.invariants import validate
from tests.core.recount import finished_here

LISTENS_S = 30.0
"""How long kube-scheduler waits for the answer to a bind."""


@dataclass
class Bind:
    """A binding cycle of kube-scheduler: the pod is in its cache on that node until the answer."""

    uid: str
    node: str
    expires: float


@dataclass
class World(ApiServer):
    """Everything under way between the API server, Muster and kube-scheduler."""

    core: Engine = field(default_factory=Engine)
    limits: Limits = field(default_factory=Limits)
    steering: SteeringMode = SteeringMode.NOMINATE
    now: float = 1000.0
    binds: dict[int, Bind] = field(default_factory=dict)
    posts: dict[str, PostBinding] = field(default_factory=dict)
    wishes: dict[str, Nominate] = field(default_factory=dict)
    """The newest nomination asked for each pod, if it is not written yet."""
    ungates: dict[str, Ungate] = field(default_factory=dict)
    calls: int = 0
    shown: dict[str, Pod] = field(default_factory=dict)
    """Each pod as the watch showed it last."""

    def feed(self, event: Event) -> list[Effect]:
        effects = self.core.handle(event, self.now)
        validate(self.core.state)
        for effect in effects:
            self._carry_out(effect)
        return effects

    def deliver(self, count: int) -> None:
        while self.watch and count > 0:
            event = self.watch.popleft()
            if isinstance(event, PodSeen):
                self.shown[event.pod.uid] = event.pod
            if isinstance(event, PodGone):
                self.shown.pop(event.uid, None)
            self.feed(event)
            count -= 1

    def pass_time(self, seconds: float) -> None:
        until = self.now + seconds
        while True:
            instants = [self.core.next_wake(), *(bind.expires for bind in self.binds.values())]
            first = min((at for at in instants if at is not None), default=until)
            if first > until:
                break
            self.now = max(self.now, first)
            self.feed(Tick())
            for call in [call for call, bind in self.binds.items() if bind.expires <= self.now]:
                assert not self._forgotten(call), f"{self.binds[call]} is held beyond its end\n{self.stories()}"
                self.give_up(call)
            if first == until:
                break
        self.now = until

    def tick(self) -> None:
        """The one Tick that is due next, if it is due soon."""
        wake = self.core.next_wake()
        if wake is not None and wake <= self.now + 0.01:
            self.now = max(self.now, wake)
            self.feed(Tick())

    def room_for(self, pod: Pod, node: Node) -> bool:
        """Whether kube-scheduler, which sees the API server without delay, finds the pod fitting."""
        there = [
            other
            for other in self.pods.values()
            if other.uid != pod.uid and not other.terminal and self._on(other, node)
        ]
        used: dict[str, int] = {}
        for other in [*there, pod]:
            for name, amount in other.requests:
                used[name] = used.get(name, 0) + amount
        free = dict(node.allocatable)
        fits = all(amount <= free.get(name, 0) for name, amount in used.items())
        return fits and admits(node, pod.selection)

    def idle(self) -> list[Pod]:
        """Pods that kube-scheduler may try now."""
        flying = {bind.uid for bind in self.binds.values()}
        waiting = [pod for pod in self.pods.values() if not pod.node and pod.live and not pod.gates]
        return [pod for pod in waiting if pod.uid not in flying]

    def schedule(self, pod: Pod) -> None:
        """Run one scheduling cycle: the nominated node alone, then all that fit; then the bind."""
        feasible = tuple(name for name, node in self.nodes.items() if self.room_for(pod, node))
        passed: tuple[str, ...] = ()
        if pod.nominated_node in feasible and pod.nominated_node is not None:
            passed = self.filter(pod, (pod.nominated_node,))
        if not passed and feasible:
            passed = self.filter(pod, feasible)
        if passed:
            self.calls += 1
            self.binds[self.calls] = Bind(pod.uid, passed[0], self.now + LISTENS_S)
            self.feed(BindArrived(self.calls, pod.uid, pod.namespace, pod.name, passed[0], self.now + LISTENS_S))

    def filter(self, pod: Pod, candidates: tuple[str, ...]) -> tuple[str, ...]:
        """Asked twice, as kube-scheduler may: the answer is the same, and a part of the candidates."""
        answers = []
        for _ in range(2):
            self.calls += 1
            effects = self.feed(FilterCalled(self.calls, pod, candidates))
            answers.append(next(effect for effect in effects if isinstance(effect, AnswerFilter)))
        first, second = answers
        assert (first.passed, first.refused, first.reason) == (second.passed, second.refused, second.reason)
        assert set(first.passed) <= set(candidates)
        assert first.passed or set(first.refused) == set(candidates), "whoever gets no node is told why, for each"
        return first.passed

    def give_up(self, call: int) -> None:
        """kube-scheduler stops listening to a bind."""
        if self.binds.pop(call, None) is not None:
            self.feed(BindDisconnected(call))

    def end_post(self, uid: str, outcome: Outcome, *, written: bool = True) -> None:
        """A POST of a Binding ends. ``written`` matters when the outcome is unknown."""
        post = self.posts.pop(uid)
        wanted = any(call in self.binds for call in post.calls) and self.now < post.deadline
        if outcome is not Outcome.REFUSED and not (wanted and (written or outcome is Outcome.DONE)):
            outcome = Outcome.REFUSED if not wanted else outcome
        elif outcome is not Outcome.REFUSED and not self.bind(post):
            outcome = Outcome.REFUSED
        self.feed(BindingPosted(uid, outcome, "" if outcome is Outcome.DONE else "said the API server"))

    def end_write(self, uid: str, detail: str = "") -> None:
        """A nomination or an ungating of the pod ends; ``detail`` says why it failed."""
        if (wish := self.wishes.pop(uid, None)) is not None:
            if not detail:
                self.nominate(wish)
            if wish.node is not None:
                self.feed(Nominated(uid, wish.node, detail))
        elif (ungate := self.ungates.pop(uid, None)) is not None:
            if not detail:
                self.ungate(ungate)
            self.feed(Ungated(uid, detail))

    def end_writes(self) -> None:
        """Write every nomination and ungating that has been requested."""
        for uid in [*self.wishes, *self.ungates]:
            self.end_write(uid)

    def restart(self, *, written: bool) -> None:
        """Muster is killed and started again. Writes under way land, or do not."""
        if written:
            for post in self.posts.values():
                self.bind(post)
            for wish in self.wishes.values():
                self.nominate(wish)
            for ungate in self.ungates.values():
                self.ungate(ungate)
        self.posts.clear()
        self.wishes.clear()
        self.ungates.clear()
        self.binds.clear()
        self.watch.clear()
        self.core = Engine(limits=self.limits, steering=self.steering)
        self.shown = dict(self.pods)
        for pod in self.pods.values():
            self.feed(PodSeen(pod))
        for group in self.groups:
            self.feed(GroupSeen(group))
        for node in self.nodes.values():
            self.feed(NodeSeen(node))
        self.feed(Synced(self.now))

    def come_to_rest(self) -> None:
        """Let everything continue without a fault, until nothing moves."""
        for _ in range(40):
            self.end_writes()
            self.deliver(len(self.watch))
            self.end_writes()
            self.deliver(len(self.watch))
            for pod in self.idle():
                if pod.uid in self.pods:
                    self.schedule(pod)
            while self.posts:
                self.end_post(next(iter(self.posts)), Outcome.DONE)
            for uid in [pod.uid for pod in self.pods.values() if pod.deleting]:
                self.remove(uid)
            self.deliver(len(self.watch))
            self.pass_time(5)

    def stories(self) -> str:
        return "\n".join(story_of(gang) for gang in self.core.state.workloads.values())

    def _on(self, pod: Pod, node: Node) -> bool:
        assumed = {bind.uid: bind.node for bind in self.binds.values()}
        return (pod.node or assumed.get(pod.uid)) == node.name

    def _all_are_led(self, uid: str) -> bool:
        """Whether every placed member of its gang is really nominated, or will be pinned when it is ungated."""
        gang = self.core.state.store.workload_of(self.core.state.pods[uid])
        placed = {member: node for member, node in gang.placement.items() if member in self.pods} if gang else {}
        return all(
            self.pods[member].node
            or self.pods[member].nominated_node == node
            or (self.steering is not SteeringMode.NOMINATE and GANG_GATE in self.pods[member].gates)
            or self.pods[member].selection.affinity is not None
            for member, node in placed.items()
        )

    def _forgotten(self, call: int) -> bool:
        """Whether the call is held although its end has come, and no write of its gang keeps it waiting."""
        uid = self.core.state.binds.held.get(call)
        gang = self.core.state.store.workload_of(self.core.state.pods[uid]) if uid else None
        return gang is not None and not gang.releasing

    def _enough(self, uid: str) -> bool:
        """Whether this Binding belongs to a gang that is all there, or that has been started before."""
        gang = self.core.state.store.workload_of(self.core.state.pods[uid])
        if gang is None or gang.bound or gang.release.complete:
            return True
        asking = {bind.uid for bind in self.binds.values()}
        there = {pod.identity for pod in gang.live if pod.uid in asking}
        there |= {pod.identity for pod in [member.pod for member in gang.members] if finished_here(gang, pod)}
        return gang.min_member is not None and len(there) >= gang.min_member

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case AnswerBind(call, error):
                bind = self.binds.pop(call, None)
                if bind is not None and not error:
                    pod = self.pods.get(bind.uid)
                    assert pod is None or pod.node == bind.node, f"{bind} was called a success, but was not bound"
            case PostBinding(uid, _, _, _, calls, deadline):
                assert all(call in self.binds for call in calls), f"nobody waits for the Binding of {uid} any more"
                assert self._enough(uid), f"{uid} is bound before its gang is there\n{self.stories()}"
                assert uid not in self.posts, f"{uid} is being bound twice at once"
                assert self.now <= deadline, f"{uid} is bound after the request for it has expired"
                self.posts[uid] = effect
            case Nominate(uid):
                self.wishes[uid] = effect
            case Ungate(uid):
                assert self._all_are_led(uid), f"{uid} is ungated, and nobody leads its gang\n{self.stories()}"
                self.ungates[uid] = effect
            case Confirm(uid):
                pod = self.pods.get(uid)
                if pod is not None and pod.stamp is not None:
                    self.change(replace(pod, stamp=replace(pod.stamp, complete=True)))
            case Evict(uid):
                pod = self.pods.get(uid)
                if pod is not None and not pod.deleting:
                    self.change(replace(pod, deleting=True))
            case _:
                pass
