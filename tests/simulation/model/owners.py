"""Owners of gangs as API objects, and the controller that makes their pods: in order or at once, and lost ones anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count

from extender.simulation.clock import Clock
from policies.model import Controller, Dialect, GangOwner, GroupKey, GroupRef, Order, Pod, PodSet
from tests.simulation.model.apiserver import ApiServer
from tests.simulation.model.changes import Change, Kind

REPLICA_SET, STATEFUL_SET, LWS = "ReplicaSet", "StatefulSet", "LeaderWorkerSet"


@dataclass(frozen=True, slots=True)
class OwnerObject:
    """``key``: by which its pods name it. ``template``: what they are like; ``leader``: the first of each gang, where
    that is not like the others. ``replicas``: pods of each gang, of which ``least`` have to start together; None: all.
    ``groups``: how many gangs it makes.
    """

    key: GroupKey
    uid: str
    kind: str
    template: Pod
    replicas: int
    order: Order = Order.TOGETHER
    least: int | None = None
    leader: Pod | None = None
    groups: int = 1

    def shown(self) -> GangOwner:
        """As the extender's watch reads it."""
        made_by = Controller("apps/v1", self.kind, self.key.name.partition("-")[2], self.uid)
        minimum = max(1, min(self.replicas if self.least is None else self.least, self.replicas))
        podset = None
        if self.replicas and self.order is not Order.TOGETHER:
            podset = PodSet(self.template, self.replicas, minimum, order=self.order, leader=self.leader)
        told = self.kind == LWS and self.least is None
        stated, ends = None if told else minimum, not self.replicas
        return GangOwner(self.key, made_by, stated, podset, restarts=self.kind == LWS, ends=ends)

    def gang(self, group: int) -> str:
        return f"{self.key.name}-{group}" if self.kind == LWS else self.key.name

    def pod(self, group: int, number: int, life: int, created: float) -> Pod:
        """That of a ReplicaSet has no number; those of another kind have the same name in each life."""
        name = f"{self.gang(group)}-{number}"
        size = self.replicas if self.kind == LWS else None
        like = self.leader if self.leader is not None and not number else self.template
        return replace(
            like,
            uid=f"{self.uid}:{name}.{life}",
            name=f"{name}.{life}" if self.kind == REPLICA_SET else name,
            created=created,
            # What makes the workers of a group is another object than what makes the leaders.
            owner=f"{self.uid}/{group}" if self.kind == LWS and number else self.uid,
            index=None if self.kind == REPLICA_SET else number,
            series=f"{group:09d}" if self.kind == LWS else "",
            group=GroupRef(self.gang(group), Dialect.OWNER, size, owner=self.key.name),
        )


@dataclass(slots=True, eq=False)
class _Record:
    """What the controller keeps of one owner. ``pods``: UID -> its gang and number. ``restarts``: gangs of which a pod
    was lost, and that are made anew as a whole. ``last``: the owner as last seen."""

    last: OwnerObject
    pods: dict[str, tuple[int, int]] = field(default_factory=dict)
    restarts: set[int] = field(default_factory=set)
    busy: bool = False


class OwnerController:
    """``lag`` gives the seconds until it looks at what has changed, and between two pods that it makes."""

    def __init__(self, api: ApiServer, clock: Clock, lag: Callable[[], float]) -> None:
        self._api = api
        self._clock = clock
        self._lag = lag
        self._lives = count(1)
        self._records: dict[str, _Record] = {}
        self._of: dict[str, str] = {}
        """Pod UID -> the UID of its owner."""
        api.listeners[Kind.OWNERS].append(self._owner_changed)
        api.listeners[Kind.PODS].append(self._pod_changed)

    @property
    def running(self) -> list[OwnerObject]:
        """Those of which some pod runs."""
        return [
            owner
            for uid, record in self._records.items()
            if (owner := self._owner(uid)) is not None and any(pod.phase == "Running" for pod in self._pods(record))
        ]

    def delete(self, owner: OwnerObject) -> None:
        """Its object goes, and its pods after it."""
        self._api.remove_owner(owner.key)

    def _owner(self, uid: str) -> OwnerObject | None:
        record = self._records.get(uid)
        found = self._api.owners.get(record.last.key) if record is not None else None
        return found if found is not None and found.uid == uid else None

    def _pods(self, record: _Record) -> list[Pod]:
        return [pod for uid in record.pods if (pod := self._api.pods.get(uid)) is not None]

    def _owner_changed(self, change: Change) -> None:
        assert isinstance(change.value, OwnerObject)
        self._records.setdefault(change.uid, _Record(change.value)).last = change.value
        self._look_at(change.uid)

    def _pod_changed(self, change: Change) -> None:
        record = self._records.get(self._of.get(change.uid, ""))
        if record is None or change.uid not in record.pods:
            return
        pod = change.value
        assert isinstance(pod, Pod)
        if record.last.kind == LWS and (change.gone or not pod.live):
            record.restarts.add(record.pods[change.uid][0])
        if change.gone:
            del record.pods[change.uid]
        self._look_at(self._of[change.uid])

    def _look_at(self, uid: str) -> None:
        record = self._records[uid]
        if not record.busy:
            record.busy = True
            self._clock.after(self._lag(), lambda: self._sync(uid))

    def _sync(self, uid: str) -> None:
        """One look: it deletes what there is too much of, or makes one pod, and looks again."""
        record, owner = self._records[uid], self._owner(uid)
        record.busy = False
        if owner is None:
            self._delete(record, self._pods(record))
            return
        # One that has ended is deleted, and another one is made.
        self._delete(record, [pod for pod in self._pods(record) if pod.terminal])
        for group in range(owner.groups):
            there = {record.pods[pod.uid][1]: pod for pod in self._pods(record) if record.pods[pod.uid][0] == group}
            if group in record.restarts:
                self._delete(record, list(there.values()))
                if not there:
                    record.restarts.discard(group)
                    self._look_at(uid)
            elif surplus := self._surplus(owner, there):
                self._delete(record, surplus)
            elif (number := _next(owner, there)) is not None:
                self._create(owner, record, group, number)
                self._look_at(uid)

    def _surplus(self, owner: OwnerObject, there: dict[int, Pod]) -> list[Pod]:
        """Of a ReplicaSet those go first that do not run, of others the last. In order one goes after the other."""
        many = len(there) - owner.replicas
        if owner.kind == REPLICA_SET:
            return sorted(there.values(), key=lambda pod: (pod.phase == "Running", pod.uid))[: max(0, many)]
        beyond = [there[number] for number in sorted(there, reverse=True) if number >= owner.replicas]
        return beyond[:1] if owner.order is Order.ONE_BY_ONE else beyond

    def _create(self, owner: OwnerObject, record: _Record, group: int, number: int) -> None:
        pod = owner.pod(group, number, next(self._lives), self._clock.now)
        record.pods[pod.uid] = group, number
        self._of[pod.uid] = owner.uid
        self._api.create_pod(pod)

    def _delete(self, record: _Record, pods: list[Pod]) -> None:
        for pod in pods:
            if not pod.deleting:
                self._api.delete_pod(pod.uid)


def _next(owner: OwnerObject, there: dict[int, Pod]) -> int | None:
    """The number of the next pod, unless others have to run before it is made."""
    if owner.kind == REPLICA_SET:
        return next((at for at in count() if at not in there), None) if len(there) < owner.replicas else None
    for at in range(owner.replicas):
        if at not in there:
            return at
        first = owner.order is Order.LEADER_FIRST and not at
        waits = there[at].phase != "Running" or there[at].deleting
        if waits and (first or owner.order is Order.ONE_BY_ONE):
            return None
    return None
