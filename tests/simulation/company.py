"""The places of all pods, as far as the extender can know them, and whether planned pods can all be bound."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from extender.core.effects import Effect, PostBinding, Reached, RevokedFor, StartJob
from extender.core.events import Event, PodSeen
from policies.model import GroupKey, Node, Pod
from tests.simulation import relations
from tests.simulation.awaited_nodes import on_flavor
from tests.simulation.claims import Claims
from tests.simulation.relations import Seats
from tests.simulation.shown import Shown
from tests.simulation.sight import kept_nodes, nominated, on_nodes


class Company:
    """The places of pods in one life of the extender."""

    def __init__(self, shown: Shown, claims: Claims) -> None:
        self._shown = shown
        self._claims = claims
        self._planned: dict[GroupKey, tuple[Seats, dict[str, Node]] | None] = {}
        """The pods that a gang was planned beside; None where this is unknown."""
        self._others: dict[GroupKey, tuple[dict[str, Pod], dict[str, Pod]]] = {}
        """The other pods of each gang, which may be gone.

        First the pods that had a node or a promise when the first of its current plans was made, and members that
        were nominated by an earlier plan. Then the pods that were on a node or nominated since.
        """
        self._refused: set[GroupKey] = set()
        """Gangs that kube-scheduler has refused: the members of a node may be tried one by one from then on."""

    def hear(self, event: Event) -> None:
        if isinstance(event, PodSeen) and (event.pod.node or nominated((event.pod,))):
            for key, (_, since) in self._others.items():
                if key != event.pod.group_key:
                    since[event.pod.uid] = event.pod

    def on_nodes(self) -> list[tuple[Pod, str]]:
        return on_nodes(self._shown.pods.values())

    def bound(self) -> list[tuple[Pod, str]]:
        """The pods that are on nodes, or are being bound."""
        pods, posting = self._shown.pods, self._claims.posting
        beside = [(pods[uid], effect.node) for uid, effect in posting.items() if uid in pods and not pods[uid].node]
        return self.on_nodes() + beside

    def promised(self, but: GroupKey | None = None, *, surely: bool = True) -> list[tuple[Pod, str]]:
        """The pods that have a promised node, except those of ``but``.

        ``surely``: leave out promises that may have ended: the job is gone, or its plan was revoked.
        """
        claims, pods = self._claims, self._shown.pods
        books = claims.doubts.waived | claims.promised | claims.doubts.minded
        pairs = [(pods[uid], claim.node) for uid, claim in books.items() if uid in pods and uid not in claims.posting]
        jobs, busy = claims.admissions.slots, claims.on_their_way
        admitted = [(key, admission) for key, admission in jobs.of.items() if not (surely and admission.forgotten)]
        slots = [(admission, list(jobs.unfilled(key, busy))) for key, admission in admitted]
        slots += [(admission, jobs.left_behind(key, busy)) for key, admission in jobs.departed.items() if not surely]
        for admission, free in slots:
            templates = {podset.name: podset.template for podset in admission.podsets.podsets}
            pairs += [(templates[series], node) for series, node, _ in free]
        return [(pod, node) for pod, node in pairs if but is None or pod.group_key != but]

    def stands_back(self, pods: Sequence[Pod]) -> bool:
        """Whether a spread counts both these and a gang that is being started: they are started one after the other."""
        shown, posting = self._shown.pods, self._claims.posting
        others = [*(pod for pod, _ in self.promised(surely=False)), *(shown[uid] for uid in posting if uid in shown)]
        others = [pod for pod in others if pod.group_key is not None]
        return any(relations.counts_for(pod, others) for pod in pods) or any(
            relations.counts_for(pod, pods) for pod in others
        )

    @property
    def in_rounds(self) -> bool:
        """Whether some members of a gang are promised a node, and others are not steered yet, so that their nodes are
        unknown.

        Members that are planned beside one that may be bound are steered when its outcome is known.
        """
        books = self._claims.promised | self._claims.undecided
        for key in dict.fromkeys(claim.gang for claim in books.values() if claim.gang is not None):
            sight = self._shown.sight(key)
            waiting = () if sight is None else sight.waiting
            related = any(pod.constraints.spread or pod.constraints.affinity for pod in waiting)
            if (related or key in self._refused) and any(pod.uid not in books for pod in waiting):
                return True
        return False

    def planned(self, key: GroupKey) -> str | None:
        """The fault of the nodes that the last event has promised the gang."""
        new = [uid for uid in self._claims.fresh if self._claims.promised[uid].gang == key]
        seats = [(self._shown.pods[uid], self._claims.promised[uid].node) for uid in new if uid in self._shown.pods]
        mine = [seat for seat in self.promised() if seat[0].group_key == key]
        others, nodes = self.promised(but=key), dict(self._shown.nodes)
        earlier = [seat for seat in mine if seat[0].uid not in new]
        sure = not self._counts_others(pod for pod, _ in seats)
        if sure and not (earlier and key in self._others):
            self._others[key] = self._beside(key) | self._nominated_before(key, mine), {}
        first = sure and len(mine) == len(seats)
        self._planned[key] = ([*self.bound(), *others], nodes) if first else None
        for pod, node in seats:
            if node in nodes and (
                way := relations.in_each_others_way(
                    pod, node, nodes, kept_nodes(self._shown.pods.values(), pod.priority)
                )
            ):
                return f"{pod.uid} is planned on {node}, in the way of {', '.join(way)}, for which a node is kept"
        if not sure or relations.in_some_order(seats, nodes, [*self.bound(), *others, *earlier]):
            return None
        return f"{key} is planned where kube-scheduler lets in no order of {_told(seats)}"

    def given_up(self, effect: Reached, *, calm: bool) -> str | None:
        """The complaint, where nothing goes wrong, if a plan is revoked although no relevant pod came or went."""
        if effect.cause is RevokedFor.NODE_REFUSED:
            self._refused.add(effect.key)
        others = self._others.pop(effect.key, None)
        if (
            others is None
            or not calm
            or effect.cause not in (RevokedFor.NODE_REFUSED, RevokedFor.HOLD_DEADLINE, RevokedFor.PLAN_DEADLINE)
        ):
            return None
        (then, since), now = others, self._beside(effect.key)
        members = self._shown.members.get(effect.key, {}).values()
        changed = [pod for uid, pod in (since | then | now).items() if uid not in then or uid not in now]
        if any(relations.matters(other, pod) or _goes_before(other, pod) for other in changed for pod in members):
            return None
        return f"the plan of {effect.key} is given up, and nothing has changed: {effect.detail}"

    def _beside(self, key: GroupKey) -> dict[str, Pod]:
        there = [pod for pod, _ in (*self.bound(), *self.promised(but=key)) if pod.group_key != key]
        return {pod.uid or pod.name: pod for pod in (*there, *nominated(self._shown.pods.values()))}

    def _nominated_before(self, key: GroupKey, plan: Seats) -> dict[str, Pod]:
        """The members that are still nominated for a node where the plan has others, but not them.

        kube-scheduler may try the plan before it knows that these nominations have ended, and keeps room for them.
        """
        planned = {pod.uid: node for pod, node in plan}
        nominations = {uid: pod.nominated_node for uid, pod in self._shown.members.get(key, {}).items() if not pod.node}
        nodes = set(planned.values())
        stale = (uid for uid, node in nominations.items() if node in nodes and planned.get(uid) != node)
        return {uid: self._shown.pods[uid] for uid in stale}

    def started(self, effect: Effect) -> str | None:
        """The fault of the nodes that a job is to be started with."""
        if not isinstance(effect, StartJob):
            return None
        self._others.pop(effect.job.key, None)  # the rest of an earlier start does not count
        seats = _seats_of(effect)
        if self._counts_others(pod for pod, _ in seats) or self._comes_in(effect.job.key, seats):
            return None
        return f"{effect.job.key} is to be started where kube-scheduler lets in no order of {_told(seats)}"

    def may_be_spoiled(self, start: StartJob) -> bool:
        """Whether others may have come in the way of a start that was right when it was asked for."""
        seats = _seats_of(start)
        return self._counts_others(pod for pod, _ in seats) or not self._comes_in(start.job.key, seats)

    def _comes_in(self, key: GroupKey, seats: Seats) -> bool:
        there = [*self.bound(), *self.promised(but=key)]  # an earlier start of it may be in doubt
        return relations.in_some_order(seats, self._shown.nodes, there)

    def released(self, effect: PostBinding, asking: Seats, gone: Collection[str] = ()) -> str | None:
        """The fault of the first Binding of a gang. ``asking``: its members whose Bindings are requested.

        ``gone``: pods that the watch still shows, and whose end kube-scheduler may have known when it let these in.
        """
        key, nodes = effect.group, self._shown.nodes
        there = [seat for seat in self.bound() if seat[0].uid not in {*gone, *(pod.uid for pod, _ in asking)}]
        # kube-scheduler may know earlier than the watch that terminating members are gone: it has let these in.
        there = [(pod, node) for pod, node in there if not (pod.deleting and pod.group_key == key)]
        for pod, node in asking:
            fellows = [seat for seat in asking if seat[0].uid != pod.uid]
            way = relations.in_each_others_way(pod, node, nodes, [*there, *fellows]) if node in nodes else ()
            if way:
                return f"{pod.uid} is to be bound to {node}, in the way of {', '.join(way)}"
        begun = self._planned.get(key) if key is not None else None
        if begun is None or relations.in_some_order(asking, begun[1], begun[0]):
            return None
        return f"{key} is to be bound where kube-scheduler lets in no order of {_told(asking)}"

    def _counts_others(self, pods: Iterable[Pod]) -> bool:
        """Whether a spread of these pods counts members of other gangs whose promised nodes are unknown."""
        unbound = [pod for pod in self._shown.pods.values() if not pod.node]
        unbound = [
            pod
            for pod in (*unbound, *(promised_pod for promised_pod, _ in self.promised()))
            if pod.group_key is not None
        ]
        return any(
            relations.counts_for(pod, (other for other in unbound if other.group_key != pod.group_key)) for pod in pods
        )


def _goes_before(other: Pod, pod: Pod) -> bool:
    """Whether kube-scheduler keeps room for it that the pod does not get: it is nominated."""
    return not other.node and other.nominated_node is not None and other.priority >= pod.priority


def _seats_of(start: StartJob) -> Seats:
    """The pods of the job, each with its node of the plan."""
    return [
        (replace(on_flavor(podset, start.job), wave=podset.wave), node)
        for podset in start.job.podsets.podsets
        for node in start.plan.get(podset.name, ())
        if node
    ]


def _told(seats: Seats) -> str:
    return ", ".join(f"{pod.uid or pod.name} on {node}" for pod, node in seats)
