"""What kube-scheduler's own plugins refuse: what they say, which nodes are planned around, and who rests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from extender.core.causes import Refused, TurnedDown
from extender.core.effects import Cause
from extender.core.events import FilterCalled
from extender.core.explain.facts import Facts
from extender.core.explain.telling import Reporter
from extender.core.gate.revocations import Revocations
from extender.core.ledger.claims import Claims
from extender.core.ledger.kube_scheduler import KubeQueue, Refusing, is_still_queued, parked, part_of_plugins, words_of
from extender.core.ledger.store import Outbox, Store
from extender.core.limits import Limits
from extender.core.workload.members import Member, MemberState, Step
from extender.core.workload.slots import Stage
from extender.core.workload.workload import Workload
from policies.model import Pod
from policies.placement.request import Cap, MemberShape, shape_of
from policies.placement.tenants import Tenants

_ALL_SEEN = 100
"""With fewer candidates kube-scheduler has looked at all nodes, whatever percentageOfNodesToScore says."""
_MOST_LEARNED = 1000
_GANG_S, _JOB_S = 1.0, 30.0
"""How long a first refusal by a node is remembered. A job has to be suspended before it can be planned anew."""


def refused_by_plugins(member: Member, old: Pod) -> bool:
    """A change of the pod shows that its planned node was turned down, after the nomination was known."""
    pod = member.pod
    led = member.placed and member.hold is None and member.step is not Step.LATER
    if not led or not words_of(pod) or old.nominated_node != member.node:
        return False
    # The same words are not written twice; but when nobody can be preempted the nomination is cleared.
    cleared = pod.nominated_node is None and member.step is not Step.NOMINATING and not member.clears
    return pod.refusal != old.refusal or cleared


def refused_unawares(member: Member, old: Pod, tenants: Tenants) -> bool:
    """A change of the pod shows that plugins alone had refused it before kube-scheduler knew of its nomination.

    Not where that is to be cleared and written again: the clearing wakes it.
    """
    pod = member.pod
    told = member.placed and member.hold is None and bool(member.nominated) and not (pod.gates or member.clears)
    return told and pod.refusal != old.refusal and old.nominated_node != member.node and parked(pod, tenants)


def refused_by_filter(member: Member, event: FilterCalled) -> bool:
    """A question without its planned node shows that plugins have turned that down.

    Not before kube-scheduler knows of the nomination, which wakes the pod: until then it may not know either that there
    is room. A one-node list is the nominated node alone, which of a member that is led otherwise is a stale one.
    """
    nominated = event.pod.nominated_node
    knows = nominated == member.nominated if member.nominated else event.candidates != (nominated,)
    return member.placed and member.state is not MemberState.BINDING and knows


@dataclass(eq=False)
class Refusals:
    """Plans around nodes that refuse. Only after room was given back there: that tells nothing new of a node."""

    _limits: Limits
    _store: Store
    _outbox: Outbox
    _claims: Claims
    _kube_queue: KubeQueue
    _refusing: Refusing
    _reporter: Reporter
    _facts: Facts
    _revocations: Revocations

    def refused(self, workload: Workload, member: Member, now: float, candidates: Sequence[str] = ()) -> None:
        """kube-scheduler will not have this member on its planned node: remember that for a while and plan anew.

        ``candidates``: where its plugins let the member go to, if it has asked.
        """
        node, releasing = member.node, workload.releasing
        caps = _caps(workload, [member]) + self._elsewhere(workload, member, candidates)
        why = f"kube-scheduler refused node {node} for pod {member.pod.name}"
        if not releasing:
            self._revocations.revoke(workload, why, now, Cause.NODE_REFUSED)
        elif member.state not in (MemberState.BINDING, MemberState.UNKNOWN):
            self._outbox.answer_hold(workload, member, why)
            if workload.release.last == member.uid:
                workload.release.wait_for(None)
            if workload.has_quorum(Stage.ARRIVED):
                # The gang starts without it: others may have that room.
                self._revocations.take_back(workload, member, now)
            else:
                self._revocations.lose(workload, member, now)
        self._remember(workload, caps, now)
        if not releasing:
            self._rest(workload, why, words_of(member.pod), now)

    def _elsewhere(self, workload: Workload, member: Member, candidates: Sequence[str]) -> list[Cap]:
        """Nodes with room that plugins do not let it go to, for whatever reason: of its siblings it would be one."""
        if not 0 < len(candidates) < _ALL_SEEN or workload.releasing:
            return []
        pod, view = workload.asking(member.pod), self._claims.snapshot()
        known = {*candidates, *workload.seats, *workload.members.slots.planned.values()}
        rows = np.flatnonzero(view.room(pod.requests, pod.selection))
        found = [name for name in (view.names[row] for row in rows.tolist()) if name not in known]
        if len(found) > _MOST_LEARNED:
            return []
        return [Cap(node, shape, 0) for shape in _shapes(workload, member) for node in found]

    def accepted(self, workload: Workload, member: Member, candidates: Sequence[str]) -> None:
        """kube-scheduler's plugins let this member go to these nodes: one that it was closed to may be tried again. It
        may have been taken for refusing it only because kube-scheduler stood still.
        """
        known = workload.retries.nodes
        shapes = _shapes(workload, member) if known else ()
        closed = {node for (node, what), (most, _) in known.items() if what in shapes and not most}
        for node in [node for node in candidates if node in closed] if closed else ():
            workload.retries.forgive(node)
            self._store.mark_dirty(workload)

    def heard(self, workload: Workload, member: Member, now: float) -> None:
        """What its condition says may come after its question to filter has shown that its node was refused."""
        if workload.retries.nodes and workload.retries.hear(part_of_plugins(member.pod)) and not workload.whole:
            self._reporter.explain(workload, self._facts.in_full(workload, workload.telling.cause), now)

    def not_taken_up(self, workload: Workload, now: float) -> None:
        """kube-scheduler has not taken the placement up in time. While it takes pods that are before these in its
        queue, or tries no pod at all and others are given up, they get more. If its plugins refuse the pods, their
        nodes have refused."""
        queue, plan_s = self._kube_queue, self._limits.plan_s
        if now < (until := queue.taken_at + plan_s) and is_still_queued(workload, queue):
            return workload.wait_until(until)
        why = "kube-scheduler did not take up the placement in time"
        if self.turned_down(workload, why, now):
            return None
        if until := queue.give_up(now, plan_s):
            return workload.wait_until(until)
        return self._revocations.revoke(workload, why, now, Cause.PLAN_DEADLINE, penalty=True)

    def turned_down(self, workload: Workload, why: str, now: float) -> bool:
        """It has run out of time. Whether plugins refuse members of it: then their nodes have refused, and all is taken
        back."""
        placed = workload.members.placed.values()
        members = [one for one in placed if not one.pod.node and one.hold is None and words_of(one.pod)]
        if not members:
            return False
        caps, words = _caps(workload, members), words_of(members[0].pod)
        self._revocations.revoke(workload, f"{why}; kube-scheduler says: {words}", now, Cause.NODE_REFUSED)
        workload.retries.insist()
        self._remember(workload, caps, now)
        self._rest(workload, why, words, now)
        return True

    def _remember(self, workload: Workload, caps: Sequence[Cap], now: float) -> None:
        first_s = _JOB_S if workload.job is not None else _GANG_S
        repelled = self._claims.tenants.repels(workload.key.namespace)
        related = repelled or any(constraints for _, (*_, constraints), _ in caps)
        workload.retries.refuse(caps, now, self._limits.retry_max_s, first_s, related=related)
        for cap in caps:
            self._refusing.remember(cap.node, workload.key)
        self._store.mark_dirty(workload)

    def _rest(self, workload: Workload, why: str, words: str, now: float) -> None:
        """One that is refused again and again holds no room for a while: others may start with it."""
        retries = workload.retries
        rests = retries.rest(words, now, self._limits.retry_max_s)
        if rests and not workload.whole and workload.members.slots.lacking:
            self._reporter.explain(workload, Refused(TurnedDown(why, retries.words, retries.refusals)), now)


def _caps(workload: Workload, refused: Sequence[Member]) -> list[Cap]:
    """On each of their nodes as many members of their shape as kube-scheduler has let in, which are at bind by now.

    Where it has let some in and knew of more that are nominated there, it has counted those, too: nothing is known then
    before they are tried one by one (``planner``). None is planned beside members that are being bound.
    """
    asked = dict.fromkeys((member.node, shape) for member in refused for shape in _shapes(workload, member))
    nodes, there, unclear = {node for node, _ in asked}, Counter[tuple[str, MemberShape]](), set[str]()
    for one in workload.members.placed.values() if not workload.releasing else ():
        if one.node in nodes and one.hold is not None:
            there.update((one.node, shape) for shape in _shapes(workload, one))
        elif one.node in nodes and one.step is not Step.LATER and one not in refused:
            unclear.add(one.node)
    caps = [Cap(node, shape, there[node, shape]) for node, shape in asked]
    return [cap for cap in caps if not (cap.most and cap.node in unclear)]


def _shapes(workload: Workload, member: Member) -> dict[MemberShape, None]:
    """Its own, and that of what is planned in its place when its job is started over: of its template, which is not led
    to the nodes of this plan."""
    made_of = workload.members.slots.templates.get(member.pod.identity, member.pod)
    return dict.fromkeys(shape_of(workload.asking(pod)) for pod in (member.pod, made_of))
