"""Who is where, as far as the extender can know, and whether those who are planned together can come in together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from extender.core.effects import Cause, Effect, PostBinding, Reached, StartJob
from extender.core.events import Event, PodSeen
from policies.model import GroupKey, Node, Pod
from tests.simulation import relations
from tests.simulation.claims import Claims
from tests.simulation.let_go import on_flavor
from tests.simulation.relations import Seats
from tests.simulation.shown import Shown
from tests.simulation.sight import kept_nodes, nominated, on_nodes


class Company:
    """One life of the extender."""

    def __init__(self, shown: Shown, claims: Claims) -> None:
        self._shown = shown
        self._claims = claims
        self._planned: dict[GroupKey, tuple[Seats, dict[str, Node]] | None] = {}
        """What a gang was planned beside; None where nobody can tell."""
        self._others: dict[GroupKey, tuple[dict[str, Pod], dict[str, Pod]]] = {}
        """Who else had a node, or was promised one, when a gang was planned: the first of the plans that stand; and who
        was seen on a node or nominated since, though it may be gone again."""
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
        """Those that are on nodes, or are being bound."""
        pods, posting = self._shown.pods, self._claims.posting
        beside = [(pods[uid], one.node) for uid, one in posting.items() if uid in pods and not pods[uid].node]
        return self.on_nodes() + beside

    def promised(self, but: GroupKey | None = None, *, surely: bool = True) -> list[tuple[Pod, str]]:
        """Those that will be: what the pods of ``but`` were promised is left out.

        ``surely``: so is what pods may have been promised whose job is gone, or whose plan was taken back.
        """
        claims, pods = self._claims, self._shown.pods
        books = claims.doubts.waived | claims.promised | claims.doubts.minded
        found = [(pods[uid], one.node) for uid, one in books.items() if uid in pods and uid not in claims.posting]
        jobs, busy = claims.admissions.slots, claims.on_their_way
        admitted = [(key, one) for key, one in jobs.of.items() if not (surely and one.forgotten)]
        slots = [(one, list(jobs.unfilled(key, busy))) for key, one in admitted]
        slots += [(one, jobs.left_behind(key, busy)) for key, one in jobs.departed.items() if not surely]
        for admission, free in slots:
            templates = {one.name: one.template for one in admission.podsets.podsets}
            found += [(templates[series], node) for series, node, _ in free]
        return [(pod, node) for pod, node in found if but is None or pod.group_key != but]

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
        """Whether some members of a gang are promised a node, and others are yet to be told: nobody knows where.

        Those that are planned beside a member that may be bound are told when that is known.
        """
        told = self._claims.promised | self._claims.undecided
        for key in dict.fromkeys(one.gang for one in told.values() if one.gang is not None):
            sight = self._shown.sight(key)
            waiting = () if sight is None else sight.waiting
            related = any(pod.constraints.spread or pod.constraints.affinity for pod in waiting)
            if (related or key in self._refused) and any(pod.uid not in told for pod in waiting):
                return True
        return False

    def planned(self, key: GroupKey) -> str | None:
        """What is wrong with the nodes that the gang has been promised by the last event."""
        new = [uid for uid in self._claims.fresh if self._claims.promised[uid].gang == key]
        seats = [(self._shown.pods[uid], self._claims.promised[uid].node) for uid in new if uid in self._shown.pods]
        mine = [one for one in self.promised() if one[0].group_key == key]
        others, nodes = self.promised(but=key), dict(self._shown.nodes)
        earlier = [one for one in mine if one[0].uid not in new]
        sure = not self._counts_others(pod for pod, _ in seats)
        if sure and not (earlier and key in self._others):
            self._others[key] = self._beside(key), {}
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
        """Where nothing goes wrong: why is a plan taken back, if nobody who matters to the gang came or went?"""
        if effect.cause is Cause.NODE_REFUSED:
            self._refused.add(effect.key)
        others = self._others.pop(effect.key, None)
        if (
            others is None
            or not calm
            or effect.cause not in (Cause.NODE_REFUSED, Cause.HOLD_DEADLINE, Cause.PLAN_DEADLINE)
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

    def started(self, effect: Effect) -> str | None:
        """What is wrong with the nodes that a job is to be started with."""
        if not isinstance(effect, StartJob):
            return None
        self._others.pop(effect.job.key, None)  # what is left of an earlier start is of the past
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
        """What is wrong with the first Binding of a gang. ``asking``: its members whose Bindings are asked for.

        ``gone``: pods that the watch still shows, and whose end kube-scheduler may have known when it let these in.
        """
        key, nodes = effect.group, self._shown.nodes
        there = [one for one in self.bound() if one[0].uid not in {*gone, *(pod.uid for pod, _ in asking)}]
        # Of its own members that go kube-scheduler may know before us that they are gone: it has let these in.
        there = [(pod, node) for pod, node in there if not (pod.deleting and pod.group_key == key)]
        for pod, node in asking:
            fellows = [one for one in asking if one[0].uid != pod.uid]
            way = relations.in_each_others_way(pod, node, nodes, [*there, *fellows]) if node in nodes else ()
            if way:
                return f"{pod.uid} is to be bound to {node}, in the way of {', '.join(way)}"
        begun = self._planned.get(key) if key is not None else None
        if begun is None or relations.in_some_order(asking, begun[1], begun[0]):
            return None
        return f"{key} is to be bound where kube-scheduler lets in no order of {_told(asking)}"

    def _counts_others(self, pods: Iterable[Pod]) -> bool:
        """Whether a spread of these counts members of other gangs that may have been promised what nobody knows."""
        unbound = [pod for pod in self._shown.pods.values() if not pod.node]
        unbound = [pod for pod in (*unbound, *(one for one, _ in self.promised())) if pod.group_key is not None]
        return any(
            relations.counts_for(pod, (one for one in unbound if one.group_key != pod.group_key)) for pod in pods
        )


def _goes_before(other: Pod, pod: Pod) -> bool:
    """Whether kube-scheduler keeps room for it that the pod does not get: it is nominated."""
    return not other.node and other.nominated_node is not None and other.priority >= pod.priority


def _seats_of(start: StartJob) -> Seats:
    """Its pods, each with the node of the plan."""
    return [
        (replace(on_flavor(podset, start.job), wave=podset.wave), node)
        for podset in start.job.podsets.podsets
        for node in start.plan.get(podset.name, ())
        if node
    ]


def _told(seats: Seats) -> str:
    return ", ".join(f"{pod.uid or pod.name} on {node}" for pod, node in seats)
