"""An observer's view of gangs and room, from API objects alone: the referee shares no arithmetic with the core."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from policies.model import (
    Dialect,
    GangOwner,
    GroupKey,
    Node,
    Pod,
    PodGroup,
    PodSets,
    Requests,
    Selection,
    SlotKey,
    Taint,
    Toleration,
)

WITH_OBJECTS = (Dialect.COSCHEDULING, Dialect.VOLCANO)
Room = dict[str, dict[str, int]]
"""Node -> resource -> what is left of it; negative where more is used than there is."""


@dataclass(frozen=True, slots=True)
class Sight:
    """A gang.

    ``needed``: None while no member states it, or they disagree. Of a job, the lesser of what its pods and it state.
    ``by_job``: how many start together by the job alone, which may have been edited since its pods were made.
    ``finished``: members that have succeeded, and may be gone.
    ``parts``: of a job of several podsets, how many of each start together, by series.
    ``later``: the other series.
    ``roles``: the minima of roles in the gang's PodGroup.
    ``coming``: the pods that its owner makes only when others run.
    ``together``: how many pods need room at once because of that.
    """

    needed: int | None
    live: tuple[Pod, ...]
    finished: tuple[Pod, ...]
    parts: Mapping[str, int] = field(default_factory=dict)
    later: tuple[str, ...] = ()
    roles: Mapping[str, int] = field(default_factory=dict)
    coming: tuple[Pod, ...] = ()
    together: int = 0
    by_job: int = 0

    @property
    def bound(self) -> tuple[Pod, ...]:
        return tuple(pod for pod in self.live if pod.node)

    @property
    def waiting(self) -> tuple[Pod, ...]:
        """The members without a node, one for each unfilled slot."""
        taken = dict.fromkeys(slot(pod) for pod in (*self.bound, *self.finished))
        chosen = {slot(pod): pod for pod in reversed(self.live) if not pod.node and slot(pod) not in taken}
        return tuple(chosen.values())

    def count(self, pods: Iterable[Pod]) -> int:
        """How much of the quorum these pods make up, with the members that have finished."""
        return len(dict.fromkeys(slot(pod) for pod in (*pods, *self.finished)))

    def enough(self, pods: Iterable[Pod]) -> bool:
        """Whether these pods, with the members that have finished, make up the quorum."""
        there = {slot(pod): pod for pod in (*pods, *self.finished)}
        return self.needed is not None and len(there) >= self.needed and not self.lacks(there.values())

    def surely_enough(self, pods: Iterable[Pod]) -> bool:
        """Whether these pods make up the quorum by the pods' statement and by that of the job, whichever is larger."""
        return self.needed is not None and replace(self, needed=max(self.needed, self.by_job)).enough(pods)

    def lacks(self, pods: Iterable[Pod]) -> str:
        """The first podset or role with too few of these pods, one for each slot.

        Podsets do not count once pods of a later wave exist, or where fewer pods are needed than all podsets start.
        """
        there = list(pods)
        series, roles = Counter(pod.series for pod in there), Counter(map(role_of, there))
        total_only = any(series[name] for name in self.later) or (self.needed or 0) < sum(self.parts.values())
        parts = {} if total_only else self.parts
        short = [(series[name], least, f"podset {name!r}") for name, least in parts.items()]
        short += [(roles[name], least, f"role {name!r}") for name, least in self.roles.items()]
        return next((f"{count} of {least} of {what}" for count, least, what in short if count < least), "")

    @property
    def complete(self) -> bool:
        """Whether as many members exist as have to start together, and of each role."""
        if self.needed is None or self.count(self.live) < self.needed:
            return False
        return not self.roles or self.enough(self.live)

    @property
    def least(self) -> tuple[Pod, ...]:
        """The waiting members; before the start of an ordered owner its first pods, as many as have to find room.

        Where roles have minima, the fewest that can start, if there are enough of each. They have the first ranks,
        and the quota is requested for them.
        """
        if self.coming and not self.bound:
            in_order = sorted((*self.waiting, *self.coming), key=lambda pod: pod.wave)
            return tuple(in_order[: max(self.needed or 0, self.together)])
        if not self.roles or self.needed is None:
            return self.waiting
        there = Counter(map(role_of, {slot(pod): pod for pod in (*self.bound, *self.finished)}.values()))
        first, others = list[Pod](), list[Pod]()
        for pod in sorted(self.waiting, key=lambda pod: pod.rank):
            (first if there[role_of(pod)] < self.roles.get(role_of(pod), 0) else others).append(pod)
            there[role_of(pod)] += 1
        return (*first, *others[: max(0, self.needed - self.count((*self.bound, *first)))])

    @property
    def lacking(self) -> int:
        """How many of ``least`` have to find room at once."""
        if self.roles:
            return len(self.least)
        return max((self.needed or 0) - self.count(self.bound), 0 if self.bound else self.together)

    @property
    def partial(self) -> bool:
        return self.needed is not None and bool(self.bound) and not self.enough(self.bound)


def role_of(pod: Pod) -> str:
    return pod.group.role if pod.group is not None else ""


def slot(pod: Pod) -> Hashable:
    """The slot of the pod: pods of one controller and series that have the same index share a slot of the gang.

    This is a reading of the referee's own. A pod without an index is a slot by itself.
    """
    return pod.uid if pod.index is None else (pod.namespace, pod.owner, pod.series, pod.index)


def look(
    pods: Iterable[Pod],
    groups: Mapping[GroupKey, PodGroup],
    jobs: Mapping[GroupKey, PodSets] | None = None,
    owners: Mapping[GroupKey, GangOwner] | None = None,
    *,
    planless: bool = False,
    ended: tuple[Collection[SlotKey], int] = ((), 0),
) -> Sight:
    """The gang of these pods.

    ``pods``: every pod that names one gang; at least one.
    ``jobs``: the jobs that gangs come from.
    ``owners``: objects by which their pods name their gang.
    ``planless``: whether its job runs without a plan of Muster. Then left-out slots may have been done since its
      pods started.
    ``ended``: the slots of its job that are done by its status, whether their pods exist or not, and how many pods
      without an index get no successor.
    """
    members, (over_by_status, closed) = list(pods), ended
    key = members[0].group_key
    reads = any(pod.group is not None and pod.group.dialect in WITH_OBJECTS for pod in members)
    group = groups.get(key) if reads and key is not None else None
    # Pods that were bound for an earlier PodGroup of the same name belong to another gang.
    ours = [pod for pod in members if group is None or pod.stamp is None or pod.stamp.gang == group.uid]
    live = tuple(pod for pod in ours if pod.live)
    going_on = dict.fromkeys(pod.stamp.release for pod in live if pod.stamp is not None)
    done = [(pod, pod.stamp) for pod in ours if pod.phase == "Succeeded" and pod.stamp is not None]
    job = (jobs or {}).get(key) if key is not None else None
    over = None
    if not going_on and done:
        # The last start has no bound member left: it goes on if a controller replaces a lost member. A job may have
        # been started again since: its status tells which slots without an index are done.
        last = max((stamp.at, stamp.release) for _, stamp in done)[1]
        start = [(pod, stamp) for pod, stamp in done if stamp.release == last]
        lost = len(dict.fromkeys(slot(pod) for pod, _ in start)) < max(stamp.size for _, stamp in start)
        if {pod.owner for pod in live if pod.owner} & {pod.owner for pod, _ in start}:
            going_on, over = ({last: None}, None) if lost and job is None else ({}, last)
    # A done index of a job that goes on stays done. Slots that were done before its start do not count.
    indexed = {podset.name: podset.left_out for podset in job.podsets if podset.indexed} if job is not None else {}
    finished = [
        pod
        for pod, stamp in done
        if (stamp.release in going_on or (stamp.release == over and pod.series in indexed))
        and (planless or pod.index not in indexed.get(pod.series, ()))
    ]
    needed = group.min_member if group else _stated(live)
    if (owner := _owner_of(live, owners or {})) is not None:
        return _owned(owner, owner.minimum if owner.minimum is not None else needed, live, tuple(finished))
    if job is None:
        return Sight(needed, live, tuple(finished), roles=dict(group.minima) if group else {})
    if over_by_status:
        slots = (
            (podset, at) for podset in job.podsets for at in range(podset.count) if podset.slot(at) in over_by_status
        )
        finished += [replace(podset.template, index=at) for podset, at in slots if at not in podset.left_out]
    if closed:
        # Some of them are among the finished ones.
        template, known = job.podsets[0].template, len(dict.fromkeys(map(slot, finished)))
        finished += [replace(template, uid=f"closed-{number}") for number in range(known, closed)]
    # It may have been edited since its pods were made.
    sets = [podset for podset in job.podsets if podset.size] or job.podsets
    stated, first = needed, min(podset.wave for podset in sets)
    needed = job.first_wave if stated is None else min(stated, job.first_wave)
    parts = {podset.name: min(podset.minimum, podset.size) for podset in sets if podset.wave == first}
    if len(job.podsets) < 2:
        parts = {}
    later = tuple(podset.name for podset in job.podsets if podset.wave > first)
    return Sight(needed, live, tuple(finished), parts, later, by_job=job.first_wave)


def _owner_of(live: Sequence[Pod], owners: Mapping[GroupKey, GangOwner]) -> GangOwner | None:
    names = (GroupKey(pod.namespace, pod.group.owner) for pod in live if pod.group is not None and pod.group.owner)
    return next((owners[name] for name in names if name in owners), None)


def _owned(owner: GangOwner, least: int | None, live: tuple[Pod, ...], finished: tuple[Pod, ...]) -> Sight:
    """The gang of an owner. An ordered owner's first pod starts alone, if all find room; so does a leader."""
    if owner.podset is None:
        return Sight(least, live, finished)
    there = {pod.index for pod in live}
    coming = tuple(pod for pod in owner.podset.pods() if pod.index not in there)
    return Sight(1, live, finished, coming=coming, together=owner.podset.minimum)


def _stated(live: Iterable[Pod]) -> int | None:
    """The minMember of the waiting members; without any, of the newest. None if it is missing, or they disagree."""
    refs = [(pod, pod.group) for pod in live if pod.group is not None]
    waiting = dict.fromkeys(group.min_member for pod, group in refs if not pod.node)
    if waiting or not refs:
        return next(iter(waiting)) if len(waiting) == 1 else None
    return max(refs, key=lambda dated_ref: (dated_ref[0].created, dated_ref[0].uid))[1].min_member


def by_gang(pods: Iterable[Pod]) -> dict[GroupKey, list[Pod]]:
    by_key: dict[GroupKey, list[Pod]] = {}
    for pod in pods:
        if pod.group_key is not None:
            by_key.setdefault(pod.group_key, []).append(pod)
    return by_key


def moved(pod: Pod, node: str) -> Pod:
    """The pod as it will be once it is bound there."""
    return replace(pod, node=node)


def left_over(nodes: Mapping[str, Node], pods: Iterable[Pod]) -> Room:
    """The room that bound pods leave of the nodes."""
    room = {name: dict(node.allocatable) for name, node in nodes.items()}
    for pod in pods:
        if pod.node in room and not pod.terminal:
            take(room[pod.node], pod.requests)
    return room


def on_nodes(pods: Iterable[Pod]) -> list[tuple[Pod, str]]:
    """The pods that have a node and have not ended."""
    return [(pod, pod.node) for pod in pods if pod.node and not pod.terminal]


def take(room: dict[str, int], requests: Requests) -> None:
    for name, amount in requests:
        room[name] = room.get(name, 0) - amount


def give_back(room: dict[str, int], requests: Requests) -> None:
    for name, amount in requests:
        room[name] = room.get(name, 0) + amount


def nominated(pods: Iterable[Pod]) -> list[Pod]:
    """The single pods that kube-scheduler keeps room for: that room is closed to pods of no higher priority.

    A nomination also remains when an extender has protected the victims, and the node is full now.
    """
    return [pod for pod in pods if pod.nominated_node and pod.group_key is None and pod.live and not pod.node]


def kept_nodes(pods: Iterable[Pod], priority: int) -> list[tuple[Pod, str]]:
    """The nominated pods that block pods of that priority, and the nodes where kube-scheduler keeps room for them."""
    return [(pod, pod.nominated_node) for pod in nominated(pods) if pod.nominated_node and pod.priority >= priority]


def beside(room: Room, keepers: Iterable[Pod], priority: int) -> Room:
    """The room that is left for pods of that priority."""
    left = {name: dict(amounts) for name, amounts in room.items()}
    for pod in keepers:
        if pod.priority >= priority and pod.nominated_node in left:
            take(left[pod.nominated_node], pod.requests)
    return left


def fits(room: Mapping[str, int], requests: Requests) -> bool:
    return all(amount <= room.get(name, 0) for name, amount in requests)


def lets_in(node: Node, selection: Selection) -> bool:
    """Whether a pod may run there, room aside, as far as the campaign's pods ask for anything.

    They have tolerations, labels that they want of a node, and the pins that steering writes: terms that name one node
    each.
    """
    if not dict(selection.node_selector).items() <= node.labels.items():
        return False
    if node.unschedulable or not node.ready or not tolerates(selection, node.taints):
        return False
    pins = None if selection.affinity is None else [expression for term in selection.affinity for expression in term]
    return pins is None or any(node.name in pin.values for pin in pins)


def tolerating(selection: Selection, more: tuple[Toleration, ...]) -> Selection:
    """The selection with the additional tolerations of a job's flavor."""
    return replace(selection, tolerations=(*selection.tolerations, *more)) if more else selection


def tolerates(selection: Selection, taints: Iterable[Taint]) -> bool:
    """Whether none of the taints keeps a pod with these tolerations away."""
    hard = [taint for taint in taints if taint.effect != "PreferNoSchedule"]
    return all(any(tolerated(taint, toleration) for toleration in selection.tolerations) for taint in hard)


def tolerated(taint: Taint, toleration: Toleration) -> bool:
    """An empty key with Exists means every taint, an empty effect every effect; Exists means every value."""
    exists = toleration.operator == "Exists"
    same_key = toleration.key == taint.key or (exists and not toleration.key)
    return same_key and (exists or toleration.value == taint.value) and toleration.effect in ("", taint.effect)
