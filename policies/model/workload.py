"""A workload that is known before its pods: a job, the pods that it will have, and its state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from policies.model.duration import NO_RUN_TERMS, RunTerms
from policies.model.eviction import NO_TERMS, EvictionTerms, Reservation
from policies.model.group import Controller, GroupKey
from policies.model.pod import Pod, SlotKey

PlannedNodes = Mapping[str, tuple[str, ...]]
"""The plan of a job: name of each podset -> node of each of its slots, by index."""


class Order(Enum):
    """The order in which a controller makes the pods of a podset."""

    TOGETHER = auto()
    LEADER_FIRST = auto()
    """The others come once the first one runs."""
    ONE_BY_ONE = auto()
    """Each comes once the one before it runs."""


@dataclass(frozen=True, slots=True)
class PodSet:
    """``count`` pods like ``template``, numbered from 0; at least ``minimum`` of them have to start together.

    ``template``: has the ``owner`` and ``series`` that the pods will have, so that each pod fills its slot. The series
    is the podset's name.
    ``indexed``: a pod states its slot; else each takes a free one.
    ``wave``: the number of its start, if the controller makes some pods only when others run.
    ``left_out``: numbers of pods that will not come, or for which nothing is planned.
    ``order``: splits the coming pods into waves of their own.
    ``leader``: the template of number 0, if it differs.
    ``completions``: how many pods have to succeed, one after the other, if that is more than the slots; else 0.
    ``shape``: a key that is equal for podsets of which the API server makes equal pods; empty if unknown.
    """

    template: Pod
    count: int
    minimum: int
    indexed: bool = True
    wave: int = 0
    left_out: frozenset[int] = frozenset()
    order: Order = Order.TOGETHER
    leader: Pod | None = None
    completions: int = 0
    shape: str = ""
    apart: tuple[tuple[int, Pod], ...] = ()

    @property
    def name(self) -> str:
        return self.template.series

    @property
    def templates(self) -> tuple[Pod, ...]:
        """The templates of its pods: the template, and the leader if it has one."""
        return (self.template,) if self.leader is None else (self.template, self.leader)

    def mapped(self, change: Callable[[Pod], Pod]) -> PodSet:
        """The podset with every pod in it changed."""
        leader = None if self.leader is None else change(self.leader)
        apart = tuple((index, change(pod)) for index, pod in self.apart)
        return replace(self, template=change(self.template), leader=leader, apart=apart)

    @property
    def title(self) -> str:
        """The name for people: a role, or the number of a Job, without the prefix that makes names sort by rank."""
        role = self.name.partition("-")[2] if self.name[:1].isdigit() else self.name
        return role or f"Job {self.name.lstrip('0') or '0'}"

    @property
    def size(self) -> int:
        """How many of its pods come."""
        return self.count - len(self.left_out)

    @property
    def least(self) -> int:
        """How many of those have to start together."""
        return min(self.minimum, self.size)

    @property
    def together(self) -> int:
        """How many of those belong to the first wave."""
        return self.least if self.order is Order.TOGETHER else min(1, self.least)

    @property
    def prefix(self) -> str:
        """The prefix of its slots."""
        return f"{self.template.owner}{self.template.series}"

    def slot(self, index: int) -> SlotKey:
        return self.prefix, index

    def pods(self) -> Iterator[Pod]:
        """Yield the pods that will come, by slot. Their UIDs are placeholders."""
        apart = dict(self.apart)
        for index in (index for index in range(self.count) if index not in self.left_out):
            like = self.leader if self.leader is not None and not index else self.template
            uid, name = f"slot:{self.prefix}/{index}", f"{like.name}-{index}"
            yield replace(apart.get(index, like), uid=uid, name=name, index=index, wave=self.wave_of(index))

    def wave_of(self, index: int) -> int:
        """The number of the start to which the pod of that number belongs."""
        after = {Order.TOGETHER: 0, Order.LEADER_FIRST: min(index, 1), Order.ONE_BY_ONE: index}
        return self.wave + after[self.order]

    @property
    def first(self) -> int:
        """The first wave with pods that will come."""
        if self.order is Order.TOGETHER:
            return self.wave
        return next(self.wave_of(index) for index in range(self.count) if index not in self.left_out)


@dataclass(frozen=True, slots=True)
class PodSets:
    """All podsets of the workload with that key."""

    key: GroupKey
    podsets: tuple[PodSet, ...]
    minimum: int = field(init=False, repr=False, compare=False)
    """How many pods need a node before any may start."""
    first_wave: int = field(init=False, repr=False, compare=False)
    """How many pods have to start together. Pods of later waves follow one by one, into room kept for them."""
    first: int = field(init=False, repr=False, compare=False)
    """The first wave with pods that will come."""
    priority: int = field(init=False, repr=False, compare=False)
    """The highest priority of its templates, including those of pods that have ended."""

    def __post_init__(self) -> None:
        # Computed once, because they are read very often.
        first = min((podset.first for podset in self.podsets if podset.size), default=0)
        object.__setattr__(self, "minimum", sum(podset.least for podset in self.podsets))
        object.__setattr__(
            self, "first_wave", sum(podset.together for podset in self.podsets if podset.size and podset.first == first)
        )
        object.__setattr__(self, "first", first)
        templates = (pod for podset in self.podsets for pod in (podset.template, podset.leader) if pod is not None)
        object.__setattr__(self, "priority", max((pod.priority for pod in templates), default=0))

    def short(self, there: Callable[[PodSet], int], *, together: bool) -> PodSet | None:
        """The first podset with fewer pods than it needs; None without one.

        ``together``: only podsets that start together count. Once pods of a later wave exist, they have started.
        """
        first = self.first
        if together and any(podset.wave > first and there(podset) for podset in self.podsets):
            return None
        podsets = (podset for podset in self.podsets if podset.wave == first or not together)
        return next(
            (podset for podset in podsets if there(podset) < (podset.together if together else podset.least)), None
        )

    def wave_of(self, slot: SlotKey) -> int:
        """The number of the start to which the slot belongs."""
        return next((podset.wave_of(int(slot[1])) for podset in self.podsets if podset.prefix == slot[0]), 0)

    def by_slot(self, plan: PlannedNodes) -> dict[SlotKey, str]:
        """The planned node of each slot that has one."""
        named = ((podset, plan.get(podset.name, ())[: podset.count]) for podset in self.podsets)
        return {podset.slot(at): node for podset, names in named for at, node in enumerate(names) if node}

    def without(self, done: Collection[SlotKey]) -> PodSets:
        """The podsets without those slots; unchanged if no slot would be left."""
        left = tuple(
            replace(podset, left_out=podset.left_out | {at for at in range(podset.count) if podset.slot(at) in done})
            for podset in self.podsets
        )
        return PodSets(self.key, left) if any(podset.size for podset in left) else self


@dataclass(frozen=True, slots=True)
class GroupJob:
    """The object that makes the pods of a PodGroup once a scheduler has accepted it (``PodGroup.job``).

    ``podsets.key``: the PodGroup. Without podsets it cannot be planned before its pods exist.
    """

    controller: Controller
    podsets: PodSets

    @property
    def key(self) -> GroupKey:
        return self.podsets.key

    @property
    def uid(self) -> str:
        return self.controller.uid


@dataclass(frozen=True, slots=True)
class NodeWait:
    """The state of a job that was started without nodes, so that an autoscaler makes nodes for its pods.

    ``until``: the deadline for the nodes, in seconds since the epoch.
    ``attempt``: counts from 1.
    """

    until: float
    attempt: int


@dataclass(frozen=True, slots=True)
class InVain:
    """The back-off of a job that was started without nodes, and got none.

    ``until``: its end, in seconds since the epoch.
    ``attempts``: how many starts in a row failed so.
    """

    until: float
    attempts: int


@dataclass(frozen=True, slots=True)
class Job:
    """A job of any kind, as its object shows it.

    ``podsets.key``: the gang that its pods will name.
    ``owner``: the object, whose UID is the ``owner`` of its pods.
    ``managed``: Muster is to admit it.
    ``suspended``: its spec suspends it.
    ``stopped``: it is suspended, no pod of it is active, and its templates may be written.
    ``finished``: it has ended, or is being deleted.
    ``running``: a pod of it runs or has run.
    ``held``: its owner wants it to wait.
    ``marked``: Muster has written on it.
    ``plan``: the plan with which it was admitted, if any.
    ``node_wait``: it was started without nodes, and awaits some.
    ``in_vain``: its nodes did not come, and it backs off.
    ``problem``: why it cannot be planned.
    ``resumes``: a slot whose pod has succeeded, and still exists, gets no other pod when the job starts again.
    ``done``: slots whose pods have ended finally, in this start or before, by its status. They get no other pod.
    ``closed``: how many slots of the plan without an index get no other pod.
    ``queue``: the LocalQueue that it names, or empty.
    ``flavors``: the flavors with which it was admitted, by podset and resource.
    ``hint``: which of its labels its author has misspelt.
    ``delay``: why its controller makes no pods for now.
    ``no_pods``: its controller has tried to make its pods since the start, and none exists.
    ``reservation``: the room that it gets once its victims are gone.
    ``backfill``: the room that it gets once others have ended.
    ``eviction``: its own terms of eviction.
    ``run``: the running time that it and its templates state.
    ``began``: when its controller began with it, in seconds since the epoch, if it says so.
    ``evicted``: its recent evictions, in seconds since the epoch.
    ``in_steps``: what a start writes may show before the job is unsuspended.
    ``same_names``: its pods have the same names in each start, so a new one needs the old one gone.
    ``backs_off``: its controller retries pods at growing intervals, and starts over when it sees the job suspended.
    ``of_class``: the value of the WorkloadPriorityClass that it names, if any.
    ``bare``: the core has failed on the job, and knows only bare facts. It is not written to, suspended or evicted.
    ``requeued``: when a user last requeued it, as written, or empty.
    """

    podsets: PodSets
    owner: Controller
    managed: bool = True
    suspended: bool = True
    stopped: bool = True
    finished: bool = False
    running: bool = False
    held: bool = False
    marked: bool = False
    plan: PlannedNodes | None = field(default=None, hash=False)
    problem: str = ""
    resumes: bool = False
    done: frozenset[SlotKey] = frozenset()
    closed: int = 0
    queue: str = ""
    flavors: Mapping[str, Mapping[str, str]] | None = field(default=None, hash=False)
    hint: str | None = None
    delay: str = ""
    no_pods: bool = False
    reservation: Reservation | None = None
    backfill: Reservation | None = None
    eviction: EvictionTerms = NO_TERMS
    run: RunTerms = NO_RUN_TERMS
    began: float | None = None
    evicted: tuple[float, ...] = ()
    in_steps: bool = False
    same_names: bool = False
    backs_off: bool = False
    bare: bool = False
    node_wait: NodeWait | None = None
    in_vain: InVain | None = None
    of_class: int | None = None
    requeued: str = ""

    @property
    def key(self) -> GroupKey:
        return self.podsets.key

    @property
    def priority(self) -> int:
        """The job's priority, waiting and running: that of its class, else the highest of its templates."""
        return self.podsets.priority if self.of_class is None else self.of_class

    @property
    def uid(self) -> str:
        return self.owner.uid

    @property
    def flavor_names(self) -> tuple[str, ...]:
        """The flavors with which it was admitted."""
        return tuple(
            dict.fromkeys(
                name for flavor_by_resource in (self.flavors or {}).values() for name in flavor_by_resource.values()
            )
        )

    @property
    def created(self) -> float:
        """When the job was created, in seconds since the epoch, by its templates."""
        return min((podset.template.created for podset in self.podsets.podsets), default=0.0)


@dataclass(frozen=True, slots=True)
class GangOwner:
    """An object whose pods are gangs without naming one: a StatefulSet, a Deployment and the like.

    ``key``: the name by which pods refer to it (``GroupRef.owner``).
    ``controller``: the object itself.
    ``minimum``: how many pods have to start together; None if each pod states the size of its gang.
    ``podset``: the pods of each of its gangs, if its controller makes some pods only when others run. The series is
    that of the gang's pods.
    ``problem``: what in it cannot be read.
    ``restarts``: when a pod of a gang goes, its controller remakes the whole gang.
    ``ends``: it is being deleted or wants no pods, so its controller makes no more.
    ``queue``: the LocalQueue, or Queue of Volcano, that it names for its pods, or empty.
    """

    key: GroupKey
    controller: Controller
    minimum: int | None = None
    podset: PodSet | None = None
    problem: str = ""
    restarts: bool = False
    ends: bool = False
    queue: str = ""

    @property
    def uid(self) -> str:
        return self.controller.uid
