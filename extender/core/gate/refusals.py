"""Refusals by kube-scheduler's own plugins: how they are noticed, which nodes are avoided, which gangs pause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from extender.core.causes import Refused, TurnedDown
from extender.core.effects import RevokedFor
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
"""How long a first refusal by a node is remembered. A job has to be suspended before it can be planned again."""


def refused_by_plugins(member: Member, old: Pod) -> bool:
    """Whether this change of the pod shows that its planned node was refused after the nomination was known."""
    pod = member.pod
    led = member.placed and member.hold is None and member.step is not Step.LATER
    if not led or not words_of(pod) or old.nominated_node != member.node:
        return False
    # kube-scheduler does not write the same words twice, but it clears the nomination if it can preempt no pod.
    cleared = pod.nominated_node is None and member.step is not Step.NOMINATING and not member.clears
    return pod.refusal != old.refusal or cleared


def refused_unawares(member: Member, old: Pod, tenants: Tenants) -> bool:
    """Whether this change shows that only plugins had refused the pod before kube-scheduler knew of its nomination.

    False if the nomination is to be cleared and written again: the clearing wakes the pod.
    """
    pod = member.pod
    nominated = member.placed and member.hold is None and bool(member.nominated) and not (pod.gates or member.clears)
    return nominated and pod.refusal != old.refusal and old.nominated_node != member.node and parked(pod, tenants)


def refused_by_filter(member: Member, event: FilterCalled) -> bool:
    """Whether a filter call without the planned node shows that plugins have refused it.

    It does so only once kube-scheduler knows of the nomination, which wakes the pod. Before that it may not know of the
    free room either. A list of one node is the nominated node; a member that is not nominated has a stale one.
    """
    nominated = event.pod.nominated_node
    knows = nominated == member.nominated if member.nominated else event.candidates != (nominated,)
    return member.placed and member.state is not MemberState.BINDING and knows


@dataclass(eq=False)
class Refusals:
    """Records refusals by nodes, so that plans avoid them for a while, and pauses gangs that are refused too often."""

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
        """Record that kube-scheduler refuses the planned node of this member, and plan again without it for a while.

        ``candidates``: nodes that the plugins accept for the member, if kube-scheduler has called filter.
        """
        node, releasing = member.node, workload.releasing
        caps = _caps(workload, [member]) + self._elsewhere(workload, member, candidates)
        why = f"kube-scheduler refused node {node} for pod {member.pod.name}"
        if not releasing:
            self._revocations.revoke(workload, why, now, RevokedFor.NODE_REFUSED)
        elif member.state not in (MemberState.BINDING, MemberState.UNKNOWN):
            self._outbox.answer_hold(workload, member, why)
            if workload.release.last == member.uid:
                workload.release.wait_for(None)
            if workload.has_quorum(Stage.ARRIVED):
                # The gang starts without this member, so other workloads may have its room.
                self._revocations.revoke_member(workload, member, now)
            else:
                self._revocations.lose(workload, member, now)
        self._remember(workload, caps, now)
        if not releasing:
            self._rest(workload, why, words_of(member.pod), now)

    def _elsewhere(self, workload: Workload, member: Member, candidates: Sequence[str]) -> list[Cap]:
        """Caps for nodes with room that plugins do not accept for this member.

        A plan with its siblings would go there next.
        """
        if not 0 < len(candidates) < _ALL_SEEN or workload.releasing:
            return []
        pod, view = workload.constrained(member.pod), self._claims.snapshot()
        known = {*candidates, *workload.member_nodes, *workload.members.slots.planned.values()}
        rows = np.flatnonzero(view.room(pod.requests, pod.selection))
        unknown = [name for name in (view.names[row] for row in rows.tolist()) if name not in known]
        if len(unknown) > _MOST_LEARNED:
            return []
        return [Cap(node, shape, 0) for shape in _shapes(workload, member) for node in unknown]

    def accepted(self, workload: Workload, member: Member, candidates: Sequence[str]) -> None:
        """Allow nodes again that the plugins accept for this member.

        A refusal may have been a misreading, for example when kube-scheduler stood still.
        """
        known = workload.retries.nodes
        shapes = _shapes(workload, member) if known else ()
        closed = {node for (node, what), (most, _) in known.items() if what in shapes and not most}
        for node in [node for node in candidates if node in closed] if closed else ():
            workload.retries.forgive(node)
            self._store.mark_dirty(workload)

    def heard(self, workload: Workload, member: Member, now: float) -> None:
        """Add the words of the pod's condition, which may arrive after a filter call has shown the refusal."""
        if (
            workload.retries.nodes
            and workload.retries.hear(part_of_plugins(member.pod))
            and not workload.has_bound_quorum
        ):
            self._reporter.explain(workload, self._facts.in_full(workload, workload.reason_state.cause), now)

    def not_taken_up(self, workload: Workload, now: float) -> None:
        """Handle a plan that kube-scheduler has not taken up in time.

        The workload gets more time while kube-scheduler takes pods that are ahead in its queue. It also does if no pod
        is tried at all and other plans are given up. If plugins refuse the pods, their nodes count as refused.
        """
        queue, plan_s = self._kube_queue, self._limits.plan_s
        if now < (until := queue.new_pod_at + plan_s) and is_still_queued(workload, queue):
            return workload.wait_until(until)
        why = "kube-scheduler did not take up the placement in time"
        if self.turned_down(workload, why, now):
            return None
        if until := queue.give_up(now, plan_s):
            return workload.wait_until(until)
        return self._revocations.revoke(workload, why, now, RevokedFor.PLAN_DEADLINE, penalty=True)

    def turned_down(self, workload: Workload, why: str, now: float) -> bool:
        """Revoke a plan that ran out of time if plugins refuse members of it, whose nodes then count as refused.

        Returns whether they do.
        """
        placed = workload.members.placed.values()
        members = [member for member in placed if not member.pod.node and member.hold is None and words_of(member.pod)]
        if not members:
            return False
        caps, words = _caps(workload, members), words_of(members[0].pod)
        self._revocations.revoke(workload, f"{why}; kube-scheduler says: {words}", now, RevokedFor.NODE_REFUSED)
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
        """Pause a workload that is refused again and again. It holds no room meanwhile, so others can start."""
        retries = workload.retries
        rests = retries.rest(words, now, self._limits.retry_max_s)
        if rests and not workload.has_bound_quorum and workload.members.slots.lacking:
            self._reporter.explain(workload, Refused(TurnedDown(why, retries.words, retries.refusals)), now)


def _caps(workload: Workload, refused: Sequence[Member]) -> list[Cap]:
    """Caps on the nodes of refused members: as many of their shape as kube-scheduler has let in, which are at bind.

    No cap if it let some in and knew of others that are nominated there, since it counted those, too. The members are
    then tried one by one (``extender.core.queue.planner``). None is planned beside members that are being bound.
    """
    on_node = dict.fromkeys((member.node, shape) for member in refused for shape in _shapes(workload, member))
    nodes, there, unclear = {node for node, _ in on_node}, Counter[tuple[str, MemberShape]](), set[str]()
    for member in workload.members.placed.values() if not workload.releasing else ():
        if member.node in nodes and member.hold is not None:
            there.update((member.node, shape) for shape in _shapes(workload, member))
        elif member.node in nodes and member.step is not Step.LATER and member not in refused:
            unclear.add(member.node)
    caps = [Cap(node, shape, there[node, shape]) for node, shape in on_node]
    return [cap for cap in caps if not (cap.most and cap.node in unclear)]


def _shapes(workload: Workload, member: Member) -> dict[MemberShape, None]:
    """The member's shape, and that of its template, by which it is planned if its job is started again.

    The template is not steered to the nodes of this plan.
    """
    made_of = workload.members.slots.templates.get(member.pod.identity, member.pod)
    return dict.fromkeys(shape_of(workload.constrained(pod)) for pod in (member.pod, made_of))
