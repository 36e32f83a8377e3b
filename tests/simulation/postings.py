"""Bindings of members of gangs: requested once enough of the gang exist, and to a node where the member may go."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from extender.core.effects import PostBinding
from extender.core.events import BindArrived, Event
from policies.model import CLIQUE, Pod
from tests.simulation.broken import BrokenPromiseError, complain
from tests.simulation.claims import Claims
from tests.simulation.company import Company
from tests.simulation.model.devices import with_amounts
from tests.simulation.model.world import World
from tests.simulation.shown import GANG_UID, Shown
from tests.simulation.sight import lets_in, slot, take
from tests.simulation.stamps import judge_stamp
from tests.simulation.wholeness import Wholeness


class Postings:
    """The Bindings in one life of the extender.

    ``calls``: the bind requests that it has had and has not answered.
    ``orphans``: pods whose node was removed.
    """

    def __init__(
        self,
        world: Callable[[], World],
        shown: Shown,
        claims: Claims,
        company: Company,
        wholeness: Wholeness,
        calls: Mapping[int, BindArrived],
        orphans: Collection[str],
    ) -> None:
        self._world = world
        self._shown = shown
        self._claims = claims
        self._company = company
        self._wholeness = wholeness
        self._calls = calls
        self._orphans = orphans

    def judge(self, effect: PostBinding, event: Event) -> None:
        """Raises BrokenPromiseError."""
        uid, open_calls = effect.uid, [call for call in effect.calls if call in self._still_open()]
        if uid in self._claims.posting:
            raise BrokenPromiseError(f"{uid} is being bound twice at once")
        if not open_calls:
            raise BrokenPromiseError(f"{uid} is to be bound, and nobody waits for it")
        for call in (self._calls[call] for call in open_calls):
            if (call.uid, call.node) != (uid, effect.node) or effect.deadline > call.expires:
                raise BrokenPromiseError(f"{effect} is not what was asked for: {call}")
        self._wholeness.asked_for[uid] = effect.group
        pods = self._shown.pods
        if uid not in pods:
            raise BrokenPromiseError(f"{uid} is to be bound, and is gone")
        if pods[uid].group_key is not None:
            started = self.judge_quorum(effect, pods)
            # In a running release the driver leaves out the Bindings that are too late.
            if not started and self._world().clock.now > effect.deadline:
                raise BrokenPromiseError(f"{uid} is the first to be bound, after its deadline")
            self.judge_node(effect, started=started)
            if not started:
                asking = self.asking(effect)
                complain(self._company.released(effect, asking, self._gone_unseen(asking, event)))
            self.judge_topology(effect)
            complain(judge_stamp(effect, self._shown, self._claims))

    def judge_quorum(self, effect: PostBinding, pods: Mapping[str, Pod]) -> bool:
        """A release begins when minMember members ask for their Binding. True if it has begun before."""
        uid, key = effect.uid, pods[effect.uid].group_key
        assert key is not None
        sight = self._shown.sight(key, former=True)
        assert sight is not None
        if sight.bound or self._claims.releases.goes_on(effect):
            return True
        open_calls = self._calls.keys() & self._still_open()  # the same event may have answered others
        asking = {uid, *self._claims.posting, *(self._calls[call].uid for call in open_calls)}
        there = [pod for pod in sight.live if pod.uid in asking]
        job, now = self._claims.admissions.slots.of.get(key), self._shown.jobs.get(key)
        larger = job is not None and (job.podsets != now or job.quorum < job.podsets.first_wave)
        if job is not None and larger and sight.count(there) >= job.quorum:
            return False  # it was made larger since its start: pods beside its plan are planned one by one
        if sight.needed is None or not sight.enough(there):
            count = f"{sight.count(there)} of {sight.needed} members"
            short = sight.lacks({slot(pod): pod for pod in (*there, *sight.finished)}.values())
            raise BrokenPromiseError(f"{uid} is to be bound when {count} of {key} are there{short and f', {short}'}")
        self._wholeness.least[key] = sight.needed
        return False

    def asking(self, effect: PostBinding) -> list[tuple[Pod, str]]:
        """The members of its gang whose Bindings are requested, with their nodes.

        Members that have ended meanwhile are left out. So is a member that the watch shows as bound while the answer
        to its Binding has yet to come: it counts among the others.
        """
        pods, open_calls = self._shown.pods, self._calls.keys() & self._still_open()
        where = {self._calls[call].uid: self._calls[call].node for call in sorted(open_calls)}
        where[effect.uid] = effect.node
        fellows = [(pods[uid], node) for uid, node in where.items() if uid in pods]
        return [(pod, at) for pod, at in fellows if pod.group_key == effect.group and not (pod.node or pod.terminal)]

    def _gone_unseen(self, asking: Sequence[tuple[Pod, str]], event: Event) -> set[str]:
        """Pods whose end the watch does not show yet.

        They block no pod that comes alone to succeeded members: kube-scheduler has looked just now, and the start
        was checked as a whole.
        """
        alone = isinstance(event, BindArrived) and [pod.uid for pod, _ in asking] == [event.uid]
        key = asking[0][0].group_key if alone else None
        sight = None if key is None else self._shown.sight(key)
        if sight is None or not sight.finished:
            return set()
        return self._shown.pods.keys() - {uid for uid, pod in self._world().api.pods.items() if not pod.terminal}

    def judge_node(self, effect: PostBinding, *, started: bool) -> None:
        shown, asking, posting = self._shown, self._shown.pods[effect.uid], self._claims.posting
        node = shown.nodes.get(effect.node)
        if not started and (node is None or not lets_in(node, asking.selection)):
            raise BrokenPromiseError(f"{effect.uid} is the first to be bound, to {effect.node}, which is closed to it")
        if node is None or (started and self._claims.doubts.get(effect.uid) is not None):
            return  # it may be bound there already
        room = shown.free(effect.node)
        beside = [
            shown.pods[uid] for uid, posted in posting.items() if posted.node == effect.node and uid in shown.pods
        ]
        for requests in (asking.requests, *(pod.requests for pod in beside if not pod.node)):
            take(room, requests)
        # The pod's devices are allocated at that time: later changes do not matter.
        if short := [name for name, _ in with_amounts(asking.requests, ()) if room.get(name, 0) < 0]:
            raise BrokenPromiseError(
                f"{effect.uid} is to be bound to {effect.node}, where {', '.join(short)} is short: {room}"
            )

    def judge_topology(self, effect: PostBinding) -> None:
        """Members that require a level share one domain of it, those among them that this gang's release has bound.

        Others of the gang may be anywhere: one that requires nothing, or that its annotations have brought in later.
        """
        pod = self._shown.pods[effect.uid]
        if pod.topology.required is None or pod.group_key is None:
            return
        fellows = [fellow for fellow in self._shown.members[pod.group_key].values() if fellow.topology == pod.topology]
        # Terminating members do not count, even if their Binding is yet to be answered.
        fellows = [fellow for fellow in fellows if fellow.live and fellow.uid not in self._orphans]
        fellows = [fellow for fellow in fellows if self._wholeness.asked_for.get(fellow.uid) == effect.group]
        gang, posting, nodes = effect.annotations[GANG_UID], self._claims.posting, self._shown.nodes
        places = {pod.node for pod in fellows if pod.node and pod.stamp and pod.stamp.gang == gang}
        places |= {posting[pod.uid].node for pod in fellows if pod.uid in posting and pod.uid != effect.uid}
        if len({nodes[place].labels.get(CLIQUE) for place in places if place in nodes}) > 1:
            return  # a node of it was gone when others came, and is back
        domains = {nodes[place].labels.get(CLIQUE) for place in (*places, effect.node) if place in nodes}
        if len(domains) > 1 or None in domains:
            raise BrokenPromiseError(f"{effect.uid} goes to {effect.node}: its gang would be in cliques {domains}")

    def _still_open(self) -> Collection[int]:
        """The calls that kube-scheduler waits for, and that the same event has not answered."""
        extender = self._world().extender
        assert extender is not None
        return extender.calls
