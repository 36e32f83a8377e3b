"""The objects as the extender was shown them, and what it knows of its own Bindings, kept event by event."""

from __future__ import annotations

from datetime import datetime

from extender.core.effects import PostBinding
from extender.core.events import (
    Event,
    GroupGone,
    GroupSeen,
    JobGone,
    JobSeen,
    NodeGone,
    NodeSeen,
    OwnerGone,
    OwnerSeen,
    PodGone,
    PodSeen,
    PodsSeen,
)
from policies.model import GangOwner, GroupKey, Node, Pod, PodGroup, PodSets, SlotKey, Stamp
from tests.simulation.sight import Sight, look, take

GANG_UID, GANG_NAME = "muster.dev/gang-uid", "muster.dev/gang-name"
RELEASE, RELEASE_COMPLETE = "muster.dev/release", "muster.dev/release-complete"
"""The annotations that a Binding of a gang's member writes, as the documents name them."""


def events_of(event: Event) -> list[Event]:
    """The events of pods that were seen together, as though each had been seen alone."""
    return [PodSeen(pod) for pod in event.pods] if isinstance(event, PodsSeen) else [event]


class Shown:
    """The knowledge of one life of the extender: a complaint may rest on nothing else."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.nodes: dict[str, Node] = {}
        self.groups: dict[GroupKey, PodGroup] = {}
        self.jobs: dict[GroupKey, PodSets] = {}
        self.owners: dict[GroupKey, GangOwner] = {}
        self._former: dict[GroupKey, GangOwner] = {}
        """Owners that are gone: pods that knew them go by their last state."""
        self.done: dict[GroupKey, tuple[frozenset[SlotKey], int]] = {}
        """The slots of the jobs that are done by their status, and how many without an index get no other pod."""
        self._same_names: set[GroupKey] = set()
        """Jobs whose pods have the same names in each start."""
        self._planless: set[GroupKey] = set()
        """Jobs that run without a plan of Muster: which of their pods had ended before is unknown."""
        self.members: dict[GroupKey, dict[str, Pod]] = {}
        self._on: dict[str, dict[str, Pod]] = {}
        self._written: dict[str, PostBinding] = {}
        """Bindings that are known to be written, until the watch shows them."""

    def watch(self, event: Event) -> None:
        match event:
            case PodSeen(pod):
                self._put(pod)
            case PodGone(uid):
                self._written.pop(uid, None)
                self._take(uid)
            case NodeSeen(node):
                self.nodes[node.name] = node
            case NodeGone(name):
                self.nodes.pop(name, None)
            case GroupSeen(group):
                self.groups[group.key] = group
            case GroupGone(key, uid):
                if key in self.groups and self.groups[key].uid == uid:
                    del self.groups[key]
            case _:
                self._watch_maker(event)

    def _watch_maker(self, event: Event) -> None:
        """Record a creator of pods: a job, or an owner of gangs."""
        match event:
            case JobSeen(job):
                self.jobs[job.key], self.done[job.key] = job.podsets, (job.done, job.closed)
                (self._same_names.add if job.same_names else self._same_names.discard)(job.key)
                (self._planless.discard if job.suspended or job.plan is not None else self._planless.add)(job.key)
            case JobGone(key):
                self.jobs.pop(key, None)
                self.done.pop(key, None)
            case OwnerSeen(owner):
                self.owners[owner.key] = owner
            case OwnerGone(key, uid) if key in self.owners and self.owners[key].uid == uid:
                self._former[key] = self.owners.pop(key)
            case _:
                pass

    def bound(self, binding: PostBinding) -> None:
        """Record that this Binding was written, whatever the watch shows now."""
        pod = self.pods.get(binding.uid)
        if pod is not None and not pod.node:
            self._written[pod.uid] = binding
            self._put(pod)

    @property
    def awaited(self) -> set[GroupKey]:
        """Gangs whose pods come when their PodGroup was taken up: they wait whether pods are there or not."""
        return {key for key, group in self.groups.items() if group.pending or group.starting}

    def sized_by(self, event: GroupSeen | OwnerSeen) -> list[GroupKey]:
        """The gangs whose minimum it may say."""
        if isinstance(event, GroupSeen):
            return [event.group.key]
        name = event.owner.key.namespace, event.owner.key.name
        return [
            key
            for key, members in self.members.items()
            if any(pod.group is not None and (pod.namespace, pod.group.owner) == name for pod in members.values())
        ]

    def sight(self, key: GroupKey, *, former: bool = False) -> Sight | None:
        """The gang; None without members. ``former``: as it was while its owner existed."""
        members = self.members.get(key)
        if not members:
            return None
        ended = self.done.get(key, (frozenset[SlotKey](), 0))
        planless, owners = key in self._planless, self._former | self.owners if former else self.owners
        return look(members.values(), self.groups, self.jobs, owners, planless=planless, ended=ended)

    def free(self, node: str) -> dict[str, int]:
        """The room that bound pods leave of the node; empty if the node is gone."""
        known = self.nodes.get(node)
        room = dict(known.allocatable) if known is not None else {}
        for pod in self._on.get(node, {}).values():
            if not pod.terminal:
                take(room, pod.requests)
        return room

    def left_over(self, key: GroupKey) -> list[Pod]:
        """Pods of the gang that have yet to end.

        A terminating pod may be shown indefinitely on a node that is silent or gone. Any other pod may run on there.
        Where the next pod has the same name, it cannot exist before this one has gone.
        """
        ready = {name for name, node in self.nodes.items() if node.ready}
        pods = self.members.get(key, {}).values()
        if key in self._same_names:
            return [pod for pod in pods if pod.deleting or not pod.terminal]
        return [pod for pod in pods if pod.live or (not pod.terminal and (not pod.node or pod.node in ready))]

    def _put(self, pod: Pod) -> None:
        self._take(pod.uid)
        if pod.node:
            self._written.pop(pod.uid, None)
        elif (binding := self._written.get(pod.uid)) is not None:
            pod = pod.bound(binding.node, stamp_of(binding))
        self.pods[pod.uid] = pod
        if pod.group_key is not None:
            self.members.setdefault(pod.group_key, {})[pod.uid] = pod
        if pod.node:
            self._on.setdefault(pod.node, {})[pod.uid] = pod

    def _take(self, uid: str) -> None:
        pod = self.pods.pop(uid, None)
        if pod is None:
            return
        if pod.group_key is not None:
            members = self.members[pod.group_key]
            del members[uid]
            if not members:
                del self.members[pod.group_key]
        if pod.node:
            del self._on[pod.node][uid]


def stamp_of(binding: PostBinding) -> Stamp | None:
    annotations = binding.annotations
    if GANG_UID not in annotations:
        return None
    quorum, size = int(annotations.get(f"{RELEASE}-quorum", 0)), int(annotations.get(f"{RELEASE}-size", 0))
    at = annotations.get("muster.dev/released-at", "")
    began = datetime.fromisoformat(at.replace("Z", "+00:00")).timestamp() if at else 0.0
    return Stamp(
        annotations[GANG_UID],
        annotations[RELEASE],
        RELEASE_COMPLETE in annotations,
        quorum,
        size,
        began,
        annotations.get(GANG_NAME, ""),
    )
