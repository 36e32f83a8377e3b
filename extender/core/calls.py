"""Answers to kube-scheduler's calls: which candidates a pod may use, its victims, and whether it is bound.

The same question gets the same answer until an event changes the facts. A gang without a plan gets no node, with one
constant text: kube-scheduler tries a pod again at once when the text of its refusal changes."""

from __future__ import annotations

from dataclasses import dataclass

from extender.core.effects import AnswerFilter, AnswerPreempt, Nominate, Wake
from extender.core.events import BindArrived, BindDisconnected, FilterCalled, PreemptCalled
from extender.core.gate.advisory import Advisory
from extender.core.gate.binding import Bindings
from extender.core.gate.refusals import Refusals, refused_by_filter
from extender.core.ledger.kube_scheduler import GANG_WAITS, ROOM_RESERVED, KubeQueue, refusals_by_muster
from extender.core.ledger.room import Room
from extender.core.ledger.singles import BlockedSinglePods, WaitingSingles
from extender.core.ledger.store import Outbox, Process, Store
from extender.core.limits import Limits
from extender.core.preemption.kube_preemption import KubePreemption
from extender.core.queue.line import Singles
from extender.core.workload.members import Step
from extender.core.workload.release import BindCalls
from policies.model import Pod
from policies.steps import AT_ONCE, Steps, batched


@dataclass(eq=False)
class Calls:
    """Answers kube-scheduler's calls.

    ``_advisory``: set in advisory mode, where kube-scheduler decides and is only watched.
    """

    _schedulers: tuple[str, ...]
    _limits: Limits
    _process: Process
    _store: Store
    _room: Room
    _outbox: Outbox
    _singles: WaitingSingles
    _blocked_singles: BlockedSinglePods
    _kube_queue: KubeQueue
    _binds: BindCalls
    _bindings: Bindings
    _refusals: Refusals
    _single_pods: Singles
    _kube_preemption: KubePreemption
    _advisory: Advisory | None

    def filter(self, event: FilterCalled, now: float) -> None:
        """Answer with the node planned for a gang's pod, or with none; takes constant time."""
        pod = self._store.pods.get(event.pod.uid, event.pod)
        if self._advisory is not None:
            return self._advisory.filter(event, pod)
        self._kube_queue.note_try(pod, now)
        if pod.native_group:
            return self._outbox.append(AnswerFilter(event.call, event.candidates))
        if pod.group_key is None:
            return self._single_pods.filter(event, pod, now)
        entry = self._store.member(pod.uid)
        if entry is not None and entry[1].step is Step.LATER:
            return self._outbox.append(AnswerFilter(event.call, (), event.candidates, GANG_WAITS))
        node = pod.node or (entry[1].node if entry is not None else self._node_of_slot(pod))
        if node and node in event.candidates:
            return self._outbox.append(AnswerFilter(event.call, (node,)))
        if entry is not None and refused_by_filter(entry[1], event):
            self._refusals.refused(*entry, now, event.candidates)
        elif entry is not None and not node:
            self._refusals.accepted(*entry, event.candidates)
        return self._outbox.append(AnswerFilter(event.call, (), event.candidates, GANG_WAITS))

    def _node_of_slot(self, pod: Pod) -> str:
        """The planned node of the slot that the pod will fill, for a pod that the watch has yet to show; else empty."""
        workload = self._store.workload_of(pod)
        slots = None if workload is None else workload.members.slots
        return "" if slots is None or pod.identity in slots.turns else slots.planned.get(pod.identity, "")

    def recover(self) -> Steps[None]:
        """Take up the refusals of an earlier process, once calls are answered."""
        for uids in batched([*self._store.pods]):
            for uid in uids:
                if (pod := self._store.pods.get(uid)) is not None:
                    self.take_up_refusal(pod)
            yield AT_ONCE // 8

    def take_up_refusal(self, pod: Pod) -> None:
        """Take up Muster's refusal of a pod that this core has just come to know, or that has left its gang.

        kube-scheduler does not see that the pod's refusal has ended, so it is woken. Where promised room was the cause
        it is woken when such a promise ends. A nomination wakes the member of a gang.
        """
        waits = pod.live and not pod.node and pod.scheduler in self._schedulers
        enforced = self._advisory is None
        if not waits or (enforced and pod.group_key is not None):
            return
        refusals = refusals_by_muster(pod)
        if enforced and ROOM_RESERVED in refusals:
            self._blocked_singles.add(pod)
        elif refusals:
            self._outbox.append(Wake(pod.uid, pod.namespace, pod.name))

    def preempt(self, event: PreemptCalled, now: float) -> None:
        """Answer which victims kube-scheduler may evict: none for a gang's pod, and no single pod of a gang.

        In advisory mode a gang's pod may preempt as any other.
        """
        pod = self._store.pods.get(event.pod.uid, event.pod)
        enforced = self._advisory is None
        if not enforced or pod.native_group:
            allowed = self._kube_preemption.without_gangs(event.victims)
        elif pod.group_key is not None:
            allowed = {}
        else:
            self._singles.would_go(pod.uid, event.victims)
            allowed = self._kube_preemption.answer(pod, event.victims, now)
        self._outbox.append(AnswerPreempt(event.call, allowed))
        if not allowed and pod.group_key is None and enforced:
            self._clear_nomination(pod)

    def _clear_nomination(self, pod: Pod) -> None:
        """Clear the nomination of a pod that waits for no victim.

        When all candidates are refused, kube-scheduler keeps the nomination, and with it the room from pods without a
        higher priority.
        """
        if pod.nominated_node and not pod.node and pod.live and pod.scheduler in self._schedulers:
            self._outbox.append(Nominate(pod.uid, pod.namespace, pod.name, None))

    def bind(self, event: BindArrived, now: float) -> None:
        """Answer, post or hold a Binding that kube-scheduler asks for."""
        pod = self._store.pods.get(event.uid)
        if not self._process.recovered:
            return self._outbox.answer(event.call, "Muster is starting; try again")
        if pod is None:
            # kube-scheduler's watch can be ahead of Muster's: wait a moment for the pod, and do not fail its bind.
            if (earlier := self._binds.stop_awaiting(event.uid)) is not None:
                self._outbox.answer(earlier.call, "superseded by a newer bind request")
            return self._binds.await_pod(event, now + self._limits.unseen_s)
        if pod.node:
            return self._outbox.answer(
                event.call, "" if pod.node == event.node else f"the pod is already on {pod.node}"
            )
        if not pod.live:
            return self._outbox.answer(event.call, "the pod is being deleted or has ended")
        if (binding := self._binds.writing.get(event.uid)) is not None:
            return self._bindings.asked_again(event, binding)
        if self._advisory is not None:
            return self._advisory.bind(pod, event, now)
        return self._bindings.arrived(event, now)

    def disconnected(self, event: BindDisconnected, now: float) -> None:
        """Forget a call whose answer kube-scheduler no longer waits for."""
        call, unseen = event.call, self._binds.unseen
        for uid in [uid for uid, (waiting, _) in unseen.items() if waiting.call == call]:
            self._binds.stop_awaiting(uid)
        self._bindings.disconnected(call, now)

    def expire(self, now: float) -> None:
        """End what the watch has not shown in time: pods that calls asked about, and Bindings of single pods."""
        binds = self._binds
        for uid, (event, until) in list(binds.unseen.items()):
            if now >= until:
                binds.stop_awaiting(uid)
                self._outbox.answer(event.call, "Muster has not seen this pod yet; try again")
        for uid, until in list(binds.unknown.items()):
            if now >= until:
                del binds.unknown[uid]
                if self._store.member(uid) is None and not self._store.pods[uid].node:
                    self._room.free(uid)
