"""Owners of gangs as API objects."""

from __future__ import annotations

from dataclasses import dataclass, replace

from policies.model import Controller, Dialect, GangOwner, GroupKey, GroupRef, Order, Pod, PodSet

REPLICA_SET, STATEFUL_SET, LWS = "ReplicaSet", "StatefulSet", "LeaderWorkerSet"


@dataclass(frozen=True, slots=True)
class OwnerObject:
    """An owner object.

    ``key``: the key by which its pods name it.
    ``template``: the template of its pods.
    ``leader``: the first pod of each gang, where that differs from the others.
    ``replicas``: pods of each gang.
    ``least``: how many of them have to start together; None: all.
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
        """The owner as the extender's watch reads it."""
        made_by = Controller("apps/v1", self.kind, self.key.name.partition("-")[2], self.uid)
        minimum = max(1, min(self.replicas if self.least is None else self.least, self.replicas))
        podset = None
        if self.replicas and self.order is not Order.TOGETHER:
            podset = PodSet(self.template, self.replicas, minimum, order=self.order, leader=self.leader)
        implied = self.kind == LWS and self.least is None
        stated, ends = None if implied else minimum, not self.replicas
        return GangOwner(self.key, made_by, stated, podset, restarts=self.kind == LWS, ends=ends)

    def gang(self, group: int) -> str:
        return f"{self.key.name}-{group}" if self.kind == LWS else self.key.name

    def pod(self, group: int, number: int, life: int, created: float) -> Pod:
        """The pod of that number.

        Pods of a ReplicaSet have no number; those of another kind have the same name in each life.
        """
        name = f"{self.gang(group)}-{number}"
        size = self.replicas if self.kind == LWS else None
        like = self.leader if self.leader is not None and not number else self.template
        return replace(
            like,
            uid=f"{self.uid}:{name}.{life}",
            name=f"{name}.{life}" if self.kind == REPLICA_SET else name,
            created=created,
            # Two objects make the pods of a group: one the workers, another one the leader.
            owner=f"{self.uid}/{group}" if self.kind == LWS and number else self.uid,
            index=None if self.kind == REPLICA_SET else number,
            series=f"{group:09d}" if self.kind == LWS else "",
            group=GroupRef(self.gang(group), Dialect.OWNER, size, owner=self.key.name),
        )
