"""Demands of workloads: the slots that lack a node, the shape that they make, and the quota of each portion.

A demand is worked out in steps. If there is no room or quota for all of it, the fewest pods that
have to start together are tried. Each podset of a job, and each role of a gang of pods, may state how many those are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any
from weakref import WeakValueDictionary

from extender.core.causes import Cause, CountedAs, NotThisFlavor, StartedWith
from extender.core.explain.problems import Problems, too_many_shapes
from extender.core.ledger.backfill import Backfills
from extender.core.ledger.claims import Claims
from extender.core.ledger.pending import Own, Pending
from extender.core.ledger.queues import QueueSnapshot
from extender.core.ledger.quotas import Quotas
from extender.core.ledger.singles import WaitingSingles
from extender.core.ledger.store import Store
from extender.core.limits import Limits
from extender.core.workload.shape import Demand, Flavoring, PodSetKey, Shape, is_hidden, of_gang, of_job, podset_key
from extender.core.workload.slots import Stage, lacking_roles
from extender.core.workload.workload import Workload
from policies.model import CLIQUE, UNCONSTRAINED, GroupKey, Order, Pod, Selection, SlotKey, Topology
from policies.model.queues import ClusterQueue
from policies.placement.concern import concerned
from policies.placement.request import Sibling, all_demands_of, shape_of
from policies.placement.rules import is_bound_by_rules
from policies.quota.flavors import Assignment
from policies.quota.parts import PodSetRequest
from policies.steps import AT_ONCE, Steps, grouped, ordered


def minima_of_podsets(workload: Workload) -> tuple[object, ...] | None:
    """The size and minimum of each podset, if there are several and not all pods have to start together; else None."""
    job = workload.job
    podsets = workload.podsets.podsets if workload.podsets is not None and (job is None or job.plannable) else ()
    if len(podsets) < 2 or all(podset.least == podset.size for podset in podsets):
        return None
    return tuple((podset.name, podset.size, podset.minimum, shape_of(podset.template)) for podset in podsets)


def left_short(workload: Workload, pods: Sequence[Pod], nodes: Collection[str]) -> list[Pod]:
    """The fewest pods that have to start, if a plan with ``nodes`` (by pod UID) gives too few to a podset or role.

    A plan also gives too few if pods of later waves have nodes, and one that they come after has none.
    Empty if the plan gives each one enough.
    """
    if workload.podsets is None:
        return _left_short_of_role(workload, pods, nodes)
    in_order = any(podset.order is not Order.TOGETHER for podset in workload.podsets.podsets)
    if minima_of_podsets(workload) is None and not in_order:
        return []
    first: list[Pod] = []
    others: list[Pod] = []
    short = False
    for podset in workload.podsets.podsets:
        ours = [pod for pod in pods if pod.identity[0] == podset.prefix]
        # A workload that has started places missing pods one by one, whatever its podsets lack.
        promised = workload.members.slots.reached(Stage.PROMISED, podset.prefix)
        lacking = 0 if workload.release.complete else max(0, podset.least - promised)
        first += ours[:lacking]
        others += ours[lacking:]
        placed = [pod.wave for pod in ours if pod.uid in nodes]
        last = max(placed, default=0)
        short = short or len(placed) < lacking or any(pod.wave < last and pod.uid not in nodes for pod in ours)
    # The PodGroup may ask for more than the podsets do together.
    return _filled_up(workload, first, others) if short else []


def _left_short_of_role(workload: Workload, pods: Sequence[Pod], nodes: Collection[str]) -> list[Pod]:
    """The fewest pods that have to start: first those of roles that lack some, then others up to the minMember."""
    if workload.release.complete or not (needed := _lacking(workload)):
        return []
    counts = Counter(role_of(pod) for pod in pods if pod.uid in nodes)
    if all(counts[role] >= count for role, count in needed.items()):
        return []
    chosen = {pod.uid for pod in _filled_up(workload, *_by_role(workload, pods))}
    return [pod for pod in pods if pod.uid in chosen]


def left_out(workload: Workload, pods: Sequence[Pod], nodes: Collection[str]) -> list[Pod]:
    """The pods of roles that a running gang lacks some of, if a plan with ``nodes`` places others instead of them."""
    if not workload.release.complete:
        return []
    first, others = _by_role(workload, pods)
    grows = any(pod.uid in nodes for pod in others)
    return first if grows and any(pod.uid not in nodes for pod in first) else []


def to_complete(workload: Workload, pods: Sequence[Pod]) -> list[Pod]:
    """The pods that complete a running gang again: first those of roles that lack some, then others in order."""
    first, others = _by_role(workload, pods)
    return [*first, *others[: max(0, workload.missing - len(first))]]


def by_need(workload: Workload, pods: Sequence[Pod]) -> list[Pod]:
    """The pods in the order in which they get quota: first those of roles that lack some."""
    first, others = _by_role(workload, pods)
    return [*first, *others]


def _lacking(workload: Workload) -> dict[str, int]:
    return dict(lacking_roles(workload.minima, workload.members.slots))


def _by_role(workload: Workload, pods: Sequence[Pod]) -> tuple[list[Pod], list[Pod]]:
    """The first pods of each role, as many as it lacks, and all others. Both are in order."""
    if not (needed := _lacking(workload)):
        return [], list(pods)
    left, first, others = Counter(needed), list[Pod](), list[Pod]()
    for pod in pods:
        (first if left[role_of(pod)] > 0 else others).append(pod)
        left[role_of(pod)] -= 1
    return first, others


def _filled_up(workload: Workload, first: Sequence[Pod], others: Sequence[Pod]) -> list[Pod]:
    """The pods ``first``, and as many of the others as have to be placed together with them."""
    return [*first, *others[: max(0, workload.lacking - len(first))]]


def role_of(pod: Pod) -> str:
    """The role that a pod declares; empty without one."""
    return "" if pod.group is None else pod.group.role


@dataclass(frozen=True, slots=True)
class _Portion:
    """Pods that get their flavors together."""

    name: str
    key: PodSetKey
    selection: Selection
    group: str


class QuotaRequest:
    """The quota request of a workload: the requests of its pods without a node, portion by portion."""

    def __init__(self, workload: Workload, pods: Sequence[Pod], queue: ClusterQueue, snapshot: QueueSnapshot) -> None:
        self._workload = workload
        self._queue = queue
        self._flavors = snapshot.flavors
        self._of: dict[object, _Portion] = {}
        by_podset: dict[PodSetKey, _Portion] = {}
        of_job, pod_for = workload.job is not None, workload.members.pod_for
        for pod in pods:
            raw = pod_for(pod.identity)
            podset = podset_key(raw, of_job=of_job)
            if (known := by_podset.get(podset)) is None:
                name = raw.series if of_job else str(len(by_podset))
                known = by_podset[podset] = _Portion(name, podset, raw.selection, raw.podset_group)
            self._of[pod.identity] = known
        self._portions = tuple(by_podset.values())

    def podsets(self, pods: Sequence[Pod]) -> list[PodSetRequest]:
        """The requests of these pods, by portion."""
        total: dict[str, dict[str, int]] = {}
        covered = self._queue.covered
        for pod in pods:
            amounts = total.setdefault(self._of[pod.identity].name, {})
            for name, much in (*pod.requests, *(request for request in pod.by_class if request[0] in covered)):
                amounts[name] = amounts.get(name, 0) + much
        return [
            PodSetRequest(portion.name, 1, total[portion.name], portion.selection, group=portion.group)
            for portion in self._portions
            if portion.name in total
        ]

    def flavorings(self, assignment: Assignment) -> dict[PodSetKey, Flavoring]:
        """The node demands of the flavors of an assignment, beside those of parts that have their flavors already."""
        chosen = ((portion.key, assignment.flavors.get(portion.name, {})) for portion in self._portions)
        if self._workload.job is not None:
            made = {key: of_job(self._flavors, flavors) for key, flavors in chosen}
        else:
            made = {key: of_gang(self._queue, self._flavors, flavors) for key, flavors in chosen}
        return dict(self._workload.flavoring) | made

    def closed(self) -> dict[tuple[str, str], NotThisFlavor]:
        """Flavors that a portion cannot have, whatever quota of them is free, and why."""
        closed: dict[tuple[str, str], NotThisFlavor] = {}
        queue, flavors = self._queue, self._flavors
        of_job = self._workload.job is not None
        started = of_job or self._workload.release.partial_since is not None
        for portion in self._portions:
            held = self._workload.flavoring.get(portion.key) if started else None
            for group in queue.groups:
                for name, _ in group.flavors:
                    if held is not None and held.flavors and name not in held.flavors.values():
                        closed[portion.name, name] = StartedWith(tuple(dict.fromkeys(held.flavors.values())))
                    elif not of_job and name in flavors and (first := is_hidden(queue, flavors, name)):
                        closed[portion.name, name] = CountedAs(first)
        return closed


def fewest_of(workload: Workload, pods: Sequence[Pod], needed: int) -> list[Sequence[Pod]]:
    """The fewest pods that have to start together, ``needed`` in all, or several choices of these, the best first.

    A workload that has started places missing pods one by one: any pod may be the first, whatever the others lack.
    """
    if least := left_short(workload, pods, ()):
        return [least]
    if not workload.release.complete:
        return [pods[:needed]]
    of_job, firsts = workload.job is not None, dict[PodSetKey, Sequence[Pod]]()
    for pod in by_need(workload, pods):
        firsts.setdefault(podset_key(pod, of_job=of_job), [pod])
    return list(firsts.values())


def in_whole_slices(workload: Workload, pods: Sequence[Pod], shape: Shape) -> Sequence[Pod]:
    """The pods that have to start together, given quota for all.

    If the parts of the workload have no minimum of their own, these are whole slices, since no plan cuts one then.
    """
    if least := left_short(workload, pods, ()):
        return least
    begun = set(map(_slice_of, pods[: shape.needed]))
    return [pod for pod in pods if _slice_of(pod) in begun]


def _slice_of(pod: Pod) -> object:
    """The largest slice that the pod is in; the pod itself if it asks for none."""
    sizes = [pod.topology.slice_size, *(size for size, _ in pod.topology.around)]
    return pod.uid if sizes[-1] is None else pod.slice_of(sizes[-1])


@dataclass(eq=False)
class Demands:
    """Works out demands. Workloads with the same demand have the same shape, as one object."""

    _limits: Limits
    _store: Store
    _claims: Claims
    _quotas: Quotas
    _pending: Pending
    _singles: WaitingSingles
    _backfills: Backfills
    _problems: Problems

    def __post_init__(self) -> None:
        self._shapes: WeakValueDictionary[object, Shape] = WeakValueDictionary()

    def review(self) -> None:
        """Have workloads ask again if other pods repel those of their namespace since the last pass.

        Called before a pass.
        """
        for tenants in (self._claims.tenants, self._singles.nominated_tenants):
            if (repelled := tenants.take_repelled()) is None:
                continue
            for key in [key for key in self._pending.keys if repelled(key.namespace)]:
                self._pending.wake(Own(key, recompute=True))

    def ask(self, workload: Workload) -> Steps[None]:
        """Work out ``workload.current_demand``, which is None afterwards if the workload changed meanwhile."""
        self._flavor(workload)
        members, version = workload.members, workload.version
        lacking, trouble = to_be_planned(workload, self._problems)
        demand = Demand(version, trouble)
        workload.demand = demand
        if demand.trouble is not None:
            return
        pods: list[Pod] = []
        for at in range(0, len(lacking), AT_ONCE):
            if at:
                yield AT_ONCE
                if workload.version != version:
                    return
            pods += [workload.constrained(members.pod_for(slot)) for slot in lacking[at : at + AT_ONCE]]
        pods = [pod for pod in pods if not pod.gates or not pod.foreign_gates]
        if workload.version != version or len(pods) < workload.lacking:
            return
        ranked = yield from ordered(pods, attrgetter("rank"))
        roles = yield from grouped(ranked, all_demands_of)
        if any(pods[0].constraints is not UNCONSTRAINED for pods in roles.values()):
            roles = yield from grouped(ranked, shape_of)
        firsts = [pods[0] for pods in roles.values()]
        tied: tuple[object, ...] = ()
        if any(map(is_bound_by_rules, firsts)):
            beside = yield from placed_beside(workload, self._store.workloads)
            beside = yield from ordered(beside, lambda sibling: (sibling[0].rank, sibling[1]))
            # The reason names other pods as they are called in its namespace.
            ranks = [pod.rank[:2] for pod in ranked]
            yield AT_ONCE + len(ranks) // 4
            tied = (workload.key.namespace, *ranks, *((pod.rank, node) for pod, node in beside))
            tied = (*tied, *sorted(_domains_of(workload)))  # members of others may come beside its own
        related = concerned(firsts, self._claims.tenants) or concerned(firsts, self._singles.nominated_tenants)
        tied = (*tied, *_ties(workload, ranked, ranked if related else ()))
        if workload.version != version:
            return
        trouble = too_many_shapes(roles, self._limits)
        counts = tuple((role, len(pods)) for role, pods in roles.items())
        caps, reserved = workload.retries.caps, tuple(workload.reserved)
        tied = (*tied, *self._portions(workload, ranked), *self._backfills.lane(workload))
        priority = workload.priority, workload.pods_priority
        shape = self._shape(workload.lacking, counts, caps, reserved, tied, related, priority)
        workload.demand = Demand(version, trouble) if trouble else Demand(version, None, tuple(ranked), shape)

    def _flavor(self, workload: Workload) -> None:
        """Set the flavors that the workload is held to.

        A partly started gang keeps the flavors of its bound pods, which survive a restart. Without quota there is no
        flavor, except for a running job: its template has the flavor of its start.
        """
        quotas = self._quotas
        if workload.job is None and workload.release.partial_since is not None:
            workload.set_flavors(quotas.as_bound(workload))
        elif workload.flavoring and workload.key not in quotas.uses and not workload.admitted:
            workload.set_flavors({})

    def flavored(
        self, workload: Workload, pods: Sequence[Pod], shape: Shape, made: Mapping[PodSetKey, Flavoring]
    ) -> Steps[tuple[tuple[Pod, ...], Shape]]:
        """The pods of a demand with the flavors in ``made``, and their shape. ``shape``: that of the demand."""
        pod_for = workload.members.pod_for
        bound_to_flavors = tuple((yield from constrained(workload, [pod_for(pod.identity) for pod in pods], made)))
        roles = yield from grouped(bound_to_flavors, shape_of)
        counts = tuple((role, len(pods)) for role, pods in roles.items())
        # The demand may have flavors, too. It is refused only when all of them were tried.
        content = (shape.caps, shape.reserved, (*shape.tied, "flavored"), shape.related, shape.priority)
        return bound_to_flavors, self._shape(shape.needed, counts, *content)

    def _shape(self, *content: Any) -> Shape:
        if (shape := self._shapes.get(content)) is None:
            shape = self._shapes[content] = Shape(*content)
        return shape

    def _portions(self, workload: Workload, pods: Sequence[Pod]) -> tuple[object, ...]:
        """The counts of pods that get their flavors together; empty without a queue.

        They keep apart workloads with equal pods that differ in their parts, or of which one needs no quota.
        """
        if self._quotas.queue_of(workload.key) is None:
            return ()
        of_job = workload.job is not None
        groups = Counter(
            (podset_key(pod, of_job=of_job), pod.podset_group) for pod in pods if of_job or pod.podset_group
        )
        broken = workload.release.partial_since is not None  # it is held to the flavors of its bound pods
        return ("queue", broken, *groups.items())


def to_be_planned(workload: Workload, problems: Problems) -> tuple[list[SlotKey], Cause | None]:
    """The slots that need a node, and what keeps them from being planned.

    Other owners may have brought pods into the gang of a started job that cannot be planned. Then only the job's own
    slots are.
    """
    lacking, trouble = list(workload.members.slots.lacking), problems.problem(workload)
    if trouble is None or not (maker := workload.owner_filter):
        return lacking, trouble
    own = [slot for slot in lacking if workload.members.pod_for(slot).owner == maker]
    return (own, problems.problem(workload, maker)) if own else (lacking, trouble)


def _ties(workload: Workload, pods: Sequence[Pod], related: Sequence[Pod]) -> tuple[object, ...]:
    """Other facts that decide about a fit: minima of podsets or roles, and labels that other pods' rules look at."""
    least = minima_of_podsets(workload) or _minima_of_roles(workload, pods)
    labels = (workload.key.namespace, *((pod.labels, pod.wave) for pod in related)) if related else ()
    return labels if least is None else (least, *labels)


def _minima_of_roles(workload: Workload, pods: Sequence[Pod]) -> tuple[object, ...] | None:
    """How many of each role lack a node, and the role of each pod that asks; None if roles do not matter."""
    if not workload.minima or workload.release.complete:
        return None
    return lacking_roles(workload.minima, workload.members.slots), tuple((role_of(pod), shape_of(pod)) for pod in pods)


def constrained(
    workload: Workload, pods: Sequence[Pod], made: Mapping[PodSetKey, Flavoring] | None = None
) -> Steps[list[Pod]]:
    """The members with what their PodGroup asks for. ``made``: as in ``Workload.constrained``."""
    with_flavors: list[Pod] = []
    for at in range(0, len(pods), AT_ONCE):
        if at:
            yield AT_ONCE // 2
        with_flavors += [workload.constrained(pod, made) for pod in pods[at : at + AT_ONCE]]
    return with_flavors


def siblings(workload: Workload, made: Mapping[PodSetKey, Flavoring] | None = None) -> Steps[list[Sibling]]:
    """The members on nodes or with the promise of one, as ``Workload.constrained`` gives them. ``made``: as there."""
    members = workload.members
    if not (members.placed or members.bound or members.slots.planned):
        return []
    placed = [(member.pod, member.node) for member in members.placed.values()]
    placed += members.slots.promises()
    placed += [(pod, pod.node) for pod in workload.bound if pod.node]
    pods = yield from constrained(workload, [pod for pod, _ in placed], made)
    return [(pod, node) for pod, (_, node) in zip(pods, placed, strict=True)]


def placed_beside(
    workload: Workload, workloads: Mapping[GroupKey, Workload], made: Mapping[PodSetKey, Flavoring] | None = None
) -> Steps[list[Sibling]]:
    """Return the siblings of its pods, and members of other workloads that share a ComputeDomain with it.

    ``made``: as in ``Workload.constrained``.

    GPUs of a domain share memory within one clique. So members of other workloads count as siblings, without slices.
    """
    beside = yield from siblings(workload, made)
    domains = _domains_of(workload)
    if not domains:
        return beside
    sharing = [
        other for other in workloads.values() if other is not workload and not domains.isdisjoint(other.compute_domains)
    ]
    yield 1 + len(workloads) // AT_ONCE
    for other in sharing:
        for pod, node in (yield from siblings(other)):
            if pod.compute_domain in domains:
                required = CLIQUE if pod.topology.required in (CLIQUE, "clique") else None
                beside.append((replace(pod, topology=Topology(required)), node))
    return beside


def _domains_of(workload: Workload) -> set[str]:
    return set(filter(None, workload.compute_domains))
