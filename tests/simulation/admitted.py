"""A job that was started, as the referee sees it: its slots and their nodes, and what it may be suspended for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from policies.model import PlannedNodes, Pod, PodSet, PodSets, Requests, SlotKey, Toleration


@dataclass(slots=True)
class Admission:
    """``came_at``: when its last pod came, or when it was started. ``trouble``: what has happened that it may be
    suspended for. ``shown``: the watch shows it. ``done``: series and node of pods of it that have succeeded, by
    series and index, or UID: their slots want no other pod, whether the objects of those pods are there or not.
    ``over``: those of them that are done by the status of the job, so that no life of the extender can miss it.
    """

    uid: str
    podsets: PodSets
    plan: PlannedNodes
    came_at: float
    trouble: str = ""
    shown: bool = False
    done: dict[Hashable, tuple[str, str]] = field(default_factory=dict)
    over: frozenset[tuple[str, int]] = frozenset()
    tolerations: Mapping[str, tuple[Toleration, ...]] = field(default_factory=dict)
    """What its pods tolerate for its flavors, by series."""
    nodes: PlannedNodes = field(init=False)
    """Those of the plan that slots have."""
    wanted: Mapping[str, int] = field(init=False)
    """How many pods the job wants by now, by series."""
    quorum: int = 0
    """How many of it start together at least, by what it was started with: it may have been made larger since."""
    earlier: frozenset[str] = frozenset()
    """UIDs of pods of an earlier start. On a silent node they may be shown for ever."""
    ended_well: dict[str, set[str]] = field(default_factory=dict)
    """By series. Where a podset has completions another pod comes for each, until so many have."""
    closed: bool = False
    """By the status of the job no pod of it is made any more."""
    forgotten: bool = False
    """Its plan was taken back: none of its pods that wait is let in before it is started anew."""

    def __post_init__(self) -> None:
        self.want(self.podsets)
        self.adopt(())

    def want(self, podsets: PodSets) -> None:
        """The job may be made smaller or larger while it runs."""
        self.wanted = {one.name: one.count for one in podsets.podsets}

    def adopt(self, pods: Iterable[Pod]) -> None:
        """To be told of the pods that are there when it is admitted. ``pods``: those of its gang.

        One that had been told to go by then, where no slot is, fills none: another pod comes for that slot. Nor does
        one without an index that had succeeded there. An earlier life may have
        planned more pods than the job wants by now. Without indexes its controller may have kept any of
        them: their nodes go first.
        """
        pods = list(pods)
        ending = [pod for pod in pods if pod.deleting and pod.node]
        ending += [pod for pod in pods if pod.phase == "Succeeded" and pod.index is None]
        self.earlier = frozenset(pod.uid for pod in ending if pod.node not in self.plan.get(pod.series, ()))
        own, nodes = [pod for pod in self._own(pods) if pod.live], {}
        stamps = (pod.stamp for pod in own if pod.node)
        said = (stamp.quorum for stamp in stamps if stamp is not None and stamp.quorum)
        self.quorum = min([self.podsets.first_wave, *said])
        for podset in self.podsets.podsets:
            names = self.plan.get(podset.name, ())
            if not podset.indexed:
                names = _kept_first(names, Counter(pod.node for pod in own if pod.series == podset.name))
            nodes[podset.name] = names[: podset.count]
        self.nodes = nodes

    def finish(self, pod: Pod) -> None:
        """If it has succeeded, nobody comes for its slot. What was done before the job was started was none of this."""
        if pod.owner != self.uid or pod.phase != "Succeeded":
            return
        self.ended_well.setdefault(pod.series, set()).add(pod.uid)
        if pod.uid in self.earlier or self._is_beyond(pod):
            return
        slots, ended = sum(series == pod.series for series, *_ in self.slots()), len(self.ended_well[pod.series])
        own = [one for one in self.podsets.podsets if one.name == pod.series]
        if not any(pod.index in one.left_out or ended + slots <= one.completions for one in own):
            one = pod.uid if pod.index is None else (pod.series, pod.index)
            self.done[one] = pod.series, pod.node or ""

    def end(self, done: Collection[SlotKey], closed: int) -> None:
        """These slots are done by the status of the job; of those without an index so many get no other pod."""
        self.closed = closed >= sum(1 for _ in self.slots()) > 0
        slots = ((one, at) for one in self.podsets.podsets for at in range(one.count) if one.slot(at) in done)
        self.over = frozenset((one.name, at) for one, at in slots if any(self.nodes[one.name][at : at + 1]))
        for series, at in sorted(self.over):
            self.done.setdefault((series, at), (series, self.nodes[series][at]))

    def wants(self, node: str) -> Iterator[PodSet]:
        """The podsets that have slots there which are not over."""
        for one in self.podsets.podsets:
            names = enumerate(self.plan.get(one.name, ()))
            if any(name == node and (one.name, at) not in self.over for at, name in names):
                yield one

    def note(self, trouble: str) -> None:
        """The first one stays."""
        self.trouble = self.trouble or trouble

    def slots(self) -> Iterator[tuple[str, str, Requests]]:
        """Series, node and requests of each that has a node."""
        for podset in self.podsets.podsets:
            for node in self.nodes[podset.name]:
                if node:
                    yield podset.name, node, podset.template.requests

    def missing(self, pods: Iterable[Pod]) -> int:
        """How many slots have a node and no pod. ``pods``: those of its gang."""
        if self.closed:
            return 0
        live = sum(pod.live and (pod.series, pod.index) not in self.done for pod in self._own(pods))
        return sum(1 for _ in self.slots()) - live - len(self.done)

    def unfilled(self, pods: Iterable[Pod], on_their_way: Mapping[str, str]) -> Iterator[tuple[str, str, Requests]]:
        """Slots that have a node and no pod there. ``on_their_way``: pods that have room of their own by now, there.

        A pod that the job can do without may have gone elsewhere: its slot keeps no room.
        """
        if self.closed:
            return
        own = [pod for pod in self._own(pods) if not pod.terminal]
        there = Counter((pod.series, pod.node or on_their_way.get(pod.uid)) for pod in own)
        # The watch may be late to show that a pod has ended.
        indexes = {(pod.series, pod.index) for pod in own}
        there.update(where for one, where in self.done.items() if one not in indexes)
        filled, free = there.copy(), []
        for slot in self.slots():
            if there[slot[:2]] > 0:
                there[slot[:2]] -= 1
            else:
                free.append(slot)
        elsewhere = Counter(series for series, node in there.elements() if node)
        left = Counter(self.wanted)
        left.subtract(series for series, node in filled.elements() if node)
        for slot in free:
            if elsewhere[slot[0]] > 0:
                elsewhere[slot[0]] -= 1
            elif left[slot[0]] > 0:
                left[slot[0]] -= 1
                yield slot

    def left_behind(self, pods: Collection[Pod], on_their_way: Mapping[str, str]) -> list[tuple[str, str, Requests]]:
        """Of a job that makes no more pods: the slots that those of its pods may stand in that wait."""
        own = [pod for pod in self._own(pods) if pod.live and not pod.node and pod.uid not in on_their_way]
        waiting = {pod.series for pod in own}
        return [slot for slot in self.unfilled(pods, on_their_way) if slot[0] in waiting]

    def let_go(self, pods: Iterable[Pod], on_their_way: Mapping[str, str]) -> None:
        """What was planned for pods that wait is given up: a job that can do without them goes on, and they are planned
        one by one from then on."""
        own = [pod for pod in self._own(pods) if pod.live and (pod.node or pod.uid in on_their_way)]
        there = Counter(pod.series for pod in own)
        self.forgotten = any(there[one.name] < one.least for one in self.podsets.podsets)
        if self.forgotten:
            return
        for series, node, _ in list(self.unfilled(pods, on_their_way)):
            taken = {pod.index for pod in own if pod.series == series}
            names = list(self.nodes[series])
            at = next((at for at, name in enumerate(names) if name == node and at not in taken), names.index(node))
            names[at] = ""
            self.nodes = {**self.nodes, series: tuple(names)}

    def is_ending(self, pods: Iterable[Pod]) -> bool:
        """Pods of it have ended well, others wait, and none runs: whether any comes for a slot that has become free
        shows when its controller has said that it is over, or has made another pod."""
        live = [pod for pod in self._own(pods) if pod.live]
        return bool(self.done and live) and not any(pod.node for pod in live)

    def is_crowded(self, pods: Iterable[Pod], on_their_way: Mapping[str, str]) -> bool:
        """There are more pods without an index than slots, and some wait that are not on their way: nobody is told
        whether room is kept for those, if others are on their way, or the slots of pods that have ended well are free.
        """
        live = [pod for pod in self._own(pods) if pod.live and pod.index is None]
        many = Counter(pod.series for pod in live)
        ended = Counter(series for series, _ in self.done.values())
        slots = Counter(series for series, _, _ in self.slots())
        waiting = {pod.series for pod in live if not pod.node and pod.uid not in on_their_way}
        others = {pod.series for pod in live if not pod.node and pod.uid in on_their_way}
        return any(
            (one in others and many[one] > slots[one]) or (ended[one] and many[one] + ended[one] > slots[one])
            for one in waiting
        )

    def refuses(
        self, pod: Pod, candidates: Sequence[str], pods: Iterable[Pod], on_their_way: Mapping[str, str]
    ) -> bool:
        """Whether a node that the pod has to go to is not among those that kube-scheduler asks about.

        One that has an index goes to its own node, another one wherever its podset has a slot that nobody fills.
        """
        if pod.index is not None:
            wanted = set(self.plan.get(pod.series, ())[pod.index : pod.index + 1])
        else:
            others = {uid: node for uid, node in on_their_way.items() if uid != pod.uid}
            wanted = {node for series, node, _ in self.unfilled(pods, others) if series == pod.series}
        return bool(wanted - {"", *candidates})

    def _own(self, pods: Iterable[Pod]) -> list[Pod]:
        """Those that fill slots: one whose index has no node in the plan fills no other slot, wherever it is, and
        one of an earlier start fills none."""
        own = (pod for pod in pods if pod.owner == self.uid and pod.uid not in self.earlier)
        return [pod for pod in own if not self._is_beyond(pod)]

    def _is_beyond(self, pod: Pod) -> bool:
        return pod.index is not None and not any(self.nodes.get(pod.series, ())[pod.index : pod.index + 1])


def _kept_first(names: Sequence[str], kept: Counter[str | None]) -> tuple[str, ...]:
    first: list[str] = []
    others: list[str] = []
    for name in names:
        (first if kept[name] > 0 else others).append(name)
        kept[name] -= 1
    return (*first, *others)
