"""A workload that is known before its pods: a job, how many pods of which kind will come of it, and how it stands."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from policies.model.duration import NO_RUN_TERMS, RunTerms
from policies.model.eviction import NO_TERMS, EvictionTerms, Reservation
from policies.model.group import Controller, GroupKey
from policies.model.pod import Pod, SlotKey

PlannedNodes = Mapping[str, tuple[str, ...]]
"""The plan of a job: the name of each podset -> the node of each of its slots, by index."""


class Order(Enum):
    """In which order a controller makes the pods of a podset."""

    TOGETHER = auto()
    LEADER_FIRST = auto()
    """The others when the first one runs."""
    ONE_BY_ONE = auto()
    """Each when the one before it runs."""


@dataclass(frozen=True, slots=True)
class PodSet:
    """``count`` pods like ``template``, numbered from 0; at least ``minimum`` of them have to start together.

    ``template``: its ``owner`` and ``series`` are those that the pods will have, so that each of them fills its slot.
    The series is the podset's name. ``indexed``: its pods say which slot is theirs; else each takes one that is free.
    ``wave``: which of the starts it belongs to, where the controller makes some pods only when others run.
    ``left_out``: numbers of pods that will not come, or that nothing is planned for. ``order``: of those that come, in
    waves of their own. ``leader``: what number 0 is like, where it is not like ``template``. ``completions``: as many
    pods have to end well, one after the other, where it has fewer slots; else 0. ``shape``: a key of all that decides
    what the API server makes of its pods, the same for each job that has it; empty: nobody knows.
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
        """The pods that its pods are made of: the template, and the leader if it has one."""
        return (self.template,) if self.leader is None else (self.template, self.leader)

    def mapped(self, change: Callable[[Pod], Pod]) -> PodSet:
        """The podset with every pod in it changed."""
        leader = None if self.leader is None else change(self.leader)
        apart = tuple((index, change(one)) for index, one in self.apart)
        return replace(self, template=change(self.template), leader=leader, apart=apart)

    @property
    def title(self) -> str:
        """Its name for people: a role, or the number of a Job, without what puts it in rank order."""
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
        """What its slots begin with."""
        return f"{self.template.owner}{self.template.series}"

    def slot(self, index: int) -> SlotKey:
        return self.prefix, index

    def pods(self) -> Iterator[Pod]:
        """What will come, by slot. The UIDs are no pod's."""
        apart = dict(self.apart)
        for index in (index for index in range(self.count) if index not in self.left_out):
            like = self.leader if self.leader is not None and not index else self.template
            uid, name = f"slot:{self.prefix}/{index}", f"{like.name}-{index}"
            yield replace(apart.get(index, like), uid=uid, name=name, index=index, wave=self.wave_of(index))

    def wave_of(self, index: int) -> int:
        """Which of the starts the pod of that number belongs to."""
        after = {Order.TOGETHER: 0, Order.LEADER_FIRST: min(index, 1), Order.ONE_BY_ONE: index}
        return self.wave + after[self.order]

    @property
    def first(self) -> int:
        """The first wave of which pods are to come."""
        if self.order is Order.TOGETHER:
            return self.wave
        return next(self.wave_of(index) for index in range(self.count) if index not in self.left_out)


@dataclass(frozen=True, slots=True)
class PodSets:
    """All podsets of the workload of that name."""

    key: GroupKey
    podsets: tuple[PodSet, ...]
    minimum: int = field(init=False, repr=False, compare=False)
    """How many pods have to have a node before any may start."""
    first_wave: int = field(init=False, repr=False, compare=False)
    """How many pods have to start together; those of later waves follow one by one, into room that they have."""
    first: int = field(init=False, repr=False, compare=False)
    """The first wave of which pods are to come."""
    priority: int = field(init=False, repr=False, compare=False)
    """The highest of its templates, of pods that have ended as well."""

    def __post_init__(self) -> None:
        # These are looked at all the time.
        first = min((one.first for one in self.podsets if one.size), default=0)
        object.__setattr__(self, "minimum", sum(one.least for one in self.podsets))
        object.__setattr__(
            self, "first_wave", sum(one.together for one in self.podsets if one.size and one.first == first)
        )
        object.__setattr__(self, "first", first)
        templates = (pod for one in self.podsets for pod in (one.template, one.leader) if pod is not None)
        object.__setattr__(self, "priority", max((pod.priority for pod in templates), default=0))

    def short(self, there: Callable[[PodSet], int], *, together: bool) -> PodSet | None:
        """The first that has fewer pods there than it needs. ``together``: of those alone that start together; when
        pods of a later wave are there, they have started."""
        first = self.first
        if together and any(one.wave > first and there(one) for one in self.podsets):
            return None
        asked = (one for one in self.podsets if one.wave == first or not together)
        return next((one for one in asked if there(one) < (one.together if together else one.least)), None)

    def wave_of(self, slot: SlotKey) -> int:
        """Which of the starts it belongs to."""
        return next((one.wave_of(int(slot[1])) for one in self.podsets if one.prefix == slot[0]), 0)

    def by_slot(self, plan: PlannedNodes) -> dict[SlotKey, str]:
        """The nodes of those slots that the plan has one for."""
        named = ((one, plan.get(one.name, ())[: one.count]) for one in self.podsets)
        return {one.slot(at): node for one, names in named for at, node in enumerate(names) if node}

    def without(self, done: Collection[SlotKey]) -> PodSets:
        """Those slots are left out; nothing is if no other would be left."""
        left = tuple(
            replace(one, left_out=one.left_out | {at for at in range(one.count) if one.slot(at) in done})
            for one in self.podsets
        )
        return PodSets(self.key, left) if any(one.size for one in left) else self


@dataclass(frozen=True, slots=True)
class GroupJob:
    """What makes the pods of a PodGroup when that was taken up (``PodGroup.job``).

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
class LetGo:
    """Of a job that was started without nodes, so that some are made for its pods. ``until``: by then they have to be
    there, in seconds since the epoch. ``attempt`` counts from 1."""

    until: float
    attempt: int


@dataclass(frozen=True, slots=True)
class InVain:
    """Of a job that was let go, and no nodes came. ``until``: so long it rests, in seconds since the epoch.
    ``attempts``: how often in a row."""

    until: float
    attempts: int


@dataclass(frozen=True, slots=True)
class Job:
    """A job of any kind, as its object shows it.

    ``podsets.key``: the gang that its pods will name. ``owner``: the object, whose UID is the ``owner`` of its pods.
    ``managed``: Muster is to admit it. ``suspended``: its spec says so. ``stopped``: it is suspended, no pod of it is
    active, and what it makes its pods of may be written. ``finished``: it has ended, or is being deleted.
    ``running``: some pod of it runs or has run. ``held``: its owner wants it to wait. ``marked``: something of ours is
    on it. ``plan``: what it was admitted with, if anything; ``let_go``: it has no nodes yet, and is to get some;
    ``in_vain``: it had none, and rests.
    ``problem``: what in it keeps it from being planned.
    ``resumes``: a slot whose pod has succeeded, and is still there, gets no other pod when the job starts again.
    ``done``: slots whose pods have ended for good, in this start or before, as its status says: they get no other,
    whether those pods are still there or not. ``closed``: of slots without an index, how many of the plan get no
    other pod.
    ``queue``: the LocalQueue that it names, or empty. ``flavors``: what it was admitted with, by podset and resource.
    ``hint``: which of its labels its author has misspelt. ``delay``: why its controller makes no pods for now.
    ``no_pods``: its controller has tried to make its pods since the start, and none is there.
    ``reservation``: the room that it is to have when others are gone; ``backfill``: when they have ended.
    ``eviction``: what the job says of its own.
    ``run``: what it and its templates say of how long all of it runs. ``began``: when its controller began with it, in
    seconds since the epoch, if that says so.
    ``evicted``: when it was evicted lately, in seconds since the epoch. ``in_steps``: what a start writes may be shown
    before it is unsuspended. ``same_names``: its pods have the same names in each start, so that none can come while
    its namesake is there. ``backs_off``: its controller tries less and less often to make its pods, and begins anew
    when it sees the job suspended. ``of_class``: the value of the WorkloadPriorityClass that it names, if it names one.
    ``bare``: the core has failed on the job, and knows its bare facts only: nothing is written on it, and it is neither
    suspended nor evicted. ``requeued``: when somebody has put it back in the line, as that is written, or empty.
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
    let_go: LetGo | None = None
    in_vain: InVain | None = None
    of_class: int | None = None
    requeued: str = ""

    @property
    def key(self) -> GroupKey:
        return self.podsets.key

    @property
    def priority(self) -> int:
        """The job's priority, waiting and running: of its class, else the highest of its templates."""
        return self.podsets.priority if self.of_class is None else self.of_class

    @property
    def uid(self) -> str:
        return self.owner.uid

    @property
    def flavor_names(self) -> tuple[str, ...]:
        """Those that it was admitted with."""
        return tuple(dict.fromkeys(name for some in (self.flavors or {}).values() for name in some.values()))

    @property
    def created(self) -> float:
        """When the job was made, in seconds since the epoch: its templates say so."""
        return min((podset.template.created for podset in self.podsets.podsets), default=0.0)


@dataclass(frozen=True, slots=True)
class GangOwner:
    """An object whose pods are gangs without naming one: a StatefulSet, a Deployment and the like.

    ``key``: by which pods name it (``GroupRef.owner``). ``controller``: the object itself. ``minimum``: how many pods
    have to start together; None where each pod says the size of its gang. ``podset``: what will come of each of its
    gangs, where its controller makes some pods only when others run; the series is that of the gang's pods.
    ``problem``: what in it cannot be read. ``restarts``: when a pod of a gang goes, its controller makes all of that
    gang again. ``ends``: it is being deleted, or wants no pods: its controller makes no more. ``queue``: the
    LocalQueue, or Queue of Volcano, that it names for its pods, or empty.
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
