"""Pods that are to come for a workload without a job: made in order by its owner, or by the job of its PodGroup.

The owner (a StatefulSet or the like) says how many pods it wants, and which of them come only when others run.
"""

from __future__ import annotations

from dataclasses import replace

from extender.core.gate.steering import Leading
from extender.core.jobs.enqueues import Enqueues
from extender.core.ledger.expected import expect
from extender.core.ledger.state import State
from extender.core.workload.additions import carried_over
from extender.core.workload.member import MemberState
from extender.core.workload.workload import Workload
from policies.model import Dialect, GangOwner, GroupKey, GroupRef, Pod, PodSets, SlotKey
from policies.model.node import ANY_NODE
from policies.placement.request import MemberShape, shape_of


class Owners:
    """A pod of the owner dialect says what its owner says, as if it had said so itself, and is its owner's: that of a
    Deployment has another ReplicaSet after each rollout, that of a LeaderWorkerSet one of two StatefulSets.
    """

    def __init__(self, state: State, steering: Leading) -> None:
        self._state = state
        self._steering = steering
        self.known: dict[GroupKey, GangOwner] = {}
        self._gangs: dict[GroupKey, dict[GroupKey, tuple[str, PodSets] | None]] = {}
        """The gangs of each, whether it is known or not; and what comes of a gang, once that was worked out: by the
        newest of its pods (its UID), which shows what the API server adds to them."""
        self._owner_of: dict[GroupKey, GroupKey] = {}

    def see(self, owner: GangOwner) -> list[Pod]:
        """It is new or has changed. Returns its pods by its new word."""
        if (before := self.known.get(owner.key)) == owner:
            return []
        self.known[owner.key] = owner
        pods = [member.pod for workload in self._renewed(owner.key) for member in workload.members]
        return [self.claimed(_without(pod, before.problem if before is not None else "")) for pod in pods]

    def gone(self, key: GroupKey, uid: str) -> None:
        """Its pods stay what they are: most often they go, too."""
        if (known := self.known.get(key)) is not None and known.uid == uid:
            del self.known[key]
            self._renewed(key)

    def claimed(self, pod: Pod) -> Pod:
        """The pod, by the word of its owner if that is known."""
        ref = pod.group
        if ref is None or not ref.owner or pod.group_key is None:
            return pod
        key = GroupKey(pod.namespace, ref.owner)
        self._owner_of[pod.group_key] = key
        self._gangs.setdefault(key, {}).setdefault(pod.group_key)
        if (owner := self.known.get(key)) is None:
            return pod
        size = ref.min_member if owner.minimum is None else owner.minimum
        problem = ref.problem or owner.problem or None
        ref = ref._replace(min_member=size, problem=problem, restarts=owner.restarts, queue=owner.queue)
        return replace(pod, owner=owner.uid, controller=owner.controller, group=ref)

    def move_up(self, workload: Workload, now: float) -> None:
        """Whoever waits gets the room that is kept for a later one, which comes only when he runs."""
        slots, members = workload.members.slots, workload.members
        for slot in list(slots.lacking) if slots.planned else ():
            pod = members.stands_for(slot)
            member = members.get(pod.uid)
            waits = member is not None and member.state is MemberState.WAITING and not pod.foreign_gates
            kept = self._kept_later(workload, slot, pod) if waits else None
            if member is not None and kept is not None:
                node, turn = slots.planned[kept], slots.turns.get(kept, 0)
                self._state.assume_slot(workload, kept, "")
                self._steering.await_uptake(workload, now)
                self._steering.lead(workload, member, node, turn)

    def _kept_later(self, workload: Workload, slot: SlotKey, pod: Pod) -> SlotKey | None:
        """The last of the slots that room is kept for whose pods, which ask for the same, come after that pod. It may
        be pinned to some nodes by now, and they are not: the node is to be open to it."""
        slots, claims, asks = workload.members.slots, self._state.claims, workload.asking(pod)
        if slot not in slots.templates:
            return None
        later = [one for one in slots.planned if slots.templates[one].wave > slots.templates[slot].wave]
        there = [one for one in later if claims.admits(slots.planned[one], asks.selection)]
        alike = (one for one in there if _amounts(workload.asking(slots.templates[one])) == _amounts(asks))
        return max(alike, default=None)

    def leave(self, key: GroupKey) -> None:
        """The gang is there no more."""
        if (owner := self._owner_of.pop(key, None)) is not None:
            del self._gangs[owner][key]
            if not self._gangs[owner]:
                del self._gangs[owner]

    def _renewed(self, key: GroupKey) -> list[Workload]:
        """The gangs of an owner that has changed: what was worked out for them is of the past."""
        gangs = self._gangs.get(key, {})
        found = [workload for one in gangs if (workload := self._state.workloads.get(one)) is not None]
        for workload in found:
            gangs[workload.key] = None
            self._state.nudge(workload)
        return found

    def remakes(self, workload: Workload) -> bool:
        """Whether its owner is there, and makes its pods anew when they are gone."""
        key = self._owner_of.get(workload.key)
        owner = self.known.get(key) if key is not None else None
        return owner is not None and not owner.ends

    def to_come(self, workload: Workload) -> PodSets | None:
        """What is to be expected of it: while a pod of it is there, all that its owner makes in order."""
        key, newest = self._owner_of.get(workload.key), workload.members.newest
        owner = self.known.get(key) if key is not None else None
        if owner is None or owner.podset is None or newest is None:
            return None
        gangs = self._gangs[owner.key]
        if (worked_out := gangs[workload.key]) is None or worked_out[0] != newest.uid:
            podset, gang = owner.podset, GroupRef(workload.key.name, Dialect.OWNER, owner=owner.key.name)
            said = podset.template if podset.leader is None or newest.index else podset.leader

            def like(template: Pod) -> Pod:
                """Whoever gates its pods does so when they are there."""
                made = carried_over(template, said, newest)
                return replace(made, series=newest.series, group=gang, gates=())

            leader = None if podset.leader is None else like(podset.leader)
            made = replace(podset, template=like(podset.template), leader=leader)
            worked_out = gangs[workload.key] = newest.uid, PodSets(workload.key, (made,))
        return worked_out[1]


def fills_up(workload: Workload) -> bool:
    """Whether others come of it that room was kept for: it runs, and its owner makes them then, or its PodGroup was
    taken up."""
    if workload.job is not None or workload.podsets is None:
        return False
    return workload.release.complete or (workload.group is not None and not workload.group.pending)


def _amounts(pod: Pod) -> MemberShape:
    """What it asks for, apart from which nodes it may use."""
    return shape_of(replace(pod, selection=ANY_NODE))


def _without(pod: Pod, problem: str) -> Pod:
    """The pod without what could not be read of its owner."""
    if pod.group is None or pod.group.problem != problem:
        return pod
    return replace(pod, group=pod.group._replace(problem=None))


class Coming:
    """Each of those that know it is asked, whenever the workload is settled."""

    def __init__(self, state: State, owners: Owners, enqueues: Enqueues) -> None:
        self._state = state
        self._owners = owners
        self._enqueues = enqueues

    def settle(self, workload: Workload, now: float) -> None:
        """Its slots are those of the pods that are there and that will come."""
        if workload.job is not None:
            return
        workload.follow_owner(remakes=self._owners.remakes(workload))
        podsets = self._owners.to_come(workload) or self._enqueues.to_come(workload, now)
        expect(self._state, workload, podsets)
        self._owners.move_up(workload, now)
        self._enqueues.settle(workload, now)

    def deadlines(self, workload: Workload, now: float) -> list[float]:
        """When it has to be looked at again."""
        return self._enqueues.deadlines(workload, now)

    def leave(self, key: GroupKey) -> None:
        """The workload is there no more."""
        self._owners.leave(key)
