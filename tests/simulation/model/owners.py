"""The controller that creates the pods of owners of gangs: in order or at once, and replaces lost ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from extender.simulation.clock import Clock
from policies.model import Order, Pod
from tests.simulation.model.apiserver import ApiServer
from tests.simulation.model.changes import Change, Kind
from tests.simulation.model.owner import LWS, REPLICA_SET, OwnerObject


@dataclass(slots=True, eq=False)
class _Record:
    """The controller's record of an owner.

    ``pods``: UID -> its gang and number.
    ``restarts``: gangs that lost a pod, and that are created again as a whole.
    ``last``: the owner as last seen.
    """

    last: OwnerObject
    pods: dict[str, tuple[int, int]] = field(default_factory=dict)
    restarts: set[int] = field(default_factory=set)
    busy: bool = False


class OwnerController:
    """The controller. ``lag`` gives the seconds until it looks at a change, and between two pods that it makes."""

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
        """The owners with a running pod."""
        return [
            owner
            for uid, record in self._records.items()
            if (owner := self._owner(uid)) is not None and any(pod.phase == "Running" for pod in self._pods(record))
        ]

    def delete(self, owner: OwnerObject) -> None:
        """Delete the owner's object, and then its pods."""
        self._api.remove_owner(owner.key)

    def _owner(self, uid: str) -> OwnerObject | None:
        record = self._records.get(uid)
        owner = self._api.owners.get(record.last.key) if record is not None else None
        return owner if owner is not None and owner.uid == uid else None

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
        """Look at an owner once: delete surplus pods, or create one pod and look again."""
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
        """The surplus pods: of a ReplicaSet first the pods that do not run, of others the last.

        Ordered pods are deleted singly.
        """
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
