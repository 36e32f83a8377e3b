"""The demand of a waiting gang, the room of every node for it, and the workloads whose room it could have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter

import numpy as np

from extender.core.explain.problems import Problems
from extender.core.ledger.claims import Owner
from extender.core.ledger.state import State
from extender.core.queue.demands import siblings, to_be_planned
from extender.core.workload.shape import Flavoring, PodSetKey, podset_key
from extender.core.workload.workload import Workload
from extender.observe.explain.quota import QuotaQuestion
from extender.observe.explain.remedy import MOST_ENDS, fewest
from policies.model import NO_LEVEL, GroupKey, Pod
from policies.model.mentions import Mention, mentioned
from policies.placement.capacity import reach
from policies.placement.closed import Closed, closed
from policies.placement.columns import Mask
from policies.placement.pinned import placing_pinned
from policies.placement.place import Placed, Shortfall, placing
from policies.placement.request import Role, Sibling, roles_of
from policies.placement.rules import Unclear, seen_by
from policies.placement.shortfall import shortage, suiting
from policies.placement.snapshot import Counts, Domain, Level, Rows, Snapshot, slots
from policies.statement import Statement
from policies.steps import BUDGET, Steps, batched, finish, metered, ordered

NODE_NAMES = ("kubernetes.io/hostname", "metadata.name")
_CHOICES = 4
"""Most choices of flavors that are tried."""
_AT_ONCE = 64
"""Nodes, or workloads with room on them, that are looked at in one step."""


@dataclass(frozen=True, slots=True)
class Inquiry:
    """A role of the gang: the first with less room than members, else the one that is hardest to place.

    ``members``: all members without a node, of every role.
    ``roles``: how many roles these have.
    ``beside``: the members that have a node.
    ``few``: whether the shapes are few enough to be planned one after the other.
    ``want``: how many of the role one domain of ``level`` must hold, or the whole cluster if ``level`` is None.
    ``required``: whether the gang waits for that level rather than being divided; else the level is only shown.
    ``statement``: its changes show in ``snapshot``.
    """

    gang: Workload
    members: list[Pod]
    roles: int
    beside: Sequence[Sibling]
    few: bool
    role: Role
    want: int
    level: Level | None
    required: bool
    statement: Statement
    snapshot: Snapshot
    usable: Mask
    """Nodes that the role may use once they have room."""
    flavors: tuple[str, ...] = ()
    """The flavors of its queue with which it is planned."""

    @property
    def eligible(self) -> Mask:
        return self.snapshot.eligible(self.role.pods[0].selection)

    @property
    def anywhere(self) -> Domain:
        return Domain("the cluster", np.arange(len(self.snapshot.names), dtype=np.intp))

    def plan(self, members: Sequence[Pod], view: Snapshot | None = None) -> Steps[Placed | None]:
        """The nodes for these members now, or in that view; None if fewer fit than the gang needs."""
        placed = yield from self._planning(members, view or self.snapshot)
        return placed if isinstance(placed, Placed) else None

    def _planning(self, members: Sequence[Pod], view: Snapshot) -> Steps[Placed | Shortfall]:
        search = placing if self.few else placing_pinned
        return search(members, self.gang.lacking, view, self.gang.retries.caps, self.beside)

    @property
    def sums(self) -> bool:
        """Whether the room of a domain decides if it holds the gang.

        Counting does not suffice if slices must stay whole, or if several roles want the same room.
        """
        return self.counts and self.roles == 1 and not self.role.rules.slices

    def holds(self, rows: Rows) -> Steps[bool]:
        """Whether these nodes of a domain have room, with the changes in the statement."""
        if self.sums:
            return self.fitting_tried(rows) >= self.want
        placed = yield from self._planning(self.members, self.snapshot)
        return isinstance(placed, Placed)

    @property
    def causes(self) -> list[Closed]:
        """Why nodes are closed to the role."""
        return finish(closed(self.role.pods[0].selection, self.snapshot))

    @property
    def counts(self) -> bool:
        """Whether only room decides, so that counting it suffices."""
        return self.role.relations is None or self.role.relations.alone

    @property
    def scope(self) -> Level | None:
        """The level whose domains must hold it; None if the cluster suffices."""
        return self.level if self.required else None

    def holds_emptied(self) -> Steps[bool]:
        """Whether the nodes open to it would have room if they were empty."""
        with self.statement.open():
            self.statement.add(self.anywhere.rows, self.snapshot.allocatable - self.snapshot.free)
            return (yield from self.plan(self.members)) is not None

    @property
    def required_as_whole(self) -> bool:
        """Whether one domain of the scope, or the cluster, must hold all of it, and not only a slice."""
        return self.role.rules.required is not None or not self.role.rules.slices

    def fitting(self, rows: Rows) -> int:
        """How many of the role these nodes take."""
        return int(self.role.room[rows].sum())

    def fitting_tried(self, rows: Rows, extra: Counts | int = 0) -> int:
        """How many of the role these nodes take with the changes in the statement.

        ``extra``: what else is free there, (resources, nodes).
        """
        demand = self.snapshot.demand(self.role.requests)
        if demand is None:
            return 0
        here = slots(self.snapshot.free[:, rows] + extra, demand) * self.usable[rows]
        if self.role.relations is None:
            return int(here.sum())
        room = np.zeros_like(self.role.room)
        room[rows] = here
        return int(self._capped(room).sum())

    def _capped(self, room: Counts) -> Counts:
        """The most of the room that relations between pods allow."""
        relations = self.role.relations
        return room if relations is None else relations.caps(self.role.index, room, self.role.count)

    def largest(self, rows: Rows) -> int:
        """How many of the role these nodes would take if they were empty, open and ready."""
        demand = self.snapshot.demand(self.role.requests)
        return 0 if demand is None else int((slots(self.snapshot.allocatable, demand) * self._suiting)[rows].sum())

    def short_even_empty(self) -> str:
        """The resources that no node has which its selector, affinity and volumes admit."""
        return shortage(self.role.pods[0], self.snapshot, self.snapshot.allocatable, self._suiting)

    @property
    def nowhere(self) -> bool:
        """Whether no node matches its selector and affinity and reaches its volumes."""
        return not self._suiting.any()

    @property
    def held(self) -> bool:
        """Whether its volumes restrict it to some nodes, so that no new node would help."""
        return bool(self.role.pods[0].selection.volumes)

    @property
    def named(self) -> bool:
        """Whether its pods name the nodes on which they may run, so that no other would help."""
        selection = self.role.pods[0].selection
        by_name = (
            any(requirement.operator == "In" and requirement.key in NODE_NAMES for requirement in term)
            for term in selection.affinity or ()
        )
        return any(key in NODE_NAMES for key, _ in selection.node_selector) or (
            bool(selection.affinity) and all(by_name)
        )

    @property
    def led(self) -> bool:
        """Whether the job's plan names those nodes, and not the author."""
        job = self.gang.job if self.gang.admitted else None
        written = set() if job is None else {podset.template.selection for podset in job.seen.podsets.podsets}
        return self.named and bool(written) and self.role.pods[0].selection not in written

    @property
    def _suiting(self) -> Mask:
        """Nodes that its selector, affinity, volumes and flavors admit, whatever their taints."""
        return finish(suiting(self.role.pods[0].selection, self.snapshot))

    def one_to_a_node(self) -> bool:
        demand = self.snapshot.demand(self.role.requests)
        return demand is not None and int(self._capped(slots(self.snapshot.allocatable, demand)).max(initial=0)) <= 1


def inquiries(state: State, gang: Workload, statement: Statement) -> Steps[list[Inquiry]]:
    """The gang's demand on nodes, once for each choice of flavors that its queue has quota for, in order.

    Empty if no member has to be placed, or if its demands cannot be read. ``statement``: the gang's own.
    """
    members = to_be_placed(state, gang)
    question = quota_question(state, gang, members)
    own: tuple[tuple[str, ...], Mapping[PodSetKey, Flavoring]] = (), {}
    choices = [own] if question is None or gang.flavoring else islice(question.choices(), _CHOICES)
    questions: list[Inquiry] = []
    for names, made in choices:
        if (inquiry := (yield from inquiry_with(state, gang, statement, members, names, made))) is not None:
            questions.append(inquiry)
    return questions


def to_be_placed(state: State, gang: Workload) -> list[Pod]:
    """The members without a node."""
    slots, _ = to_be_planned(gang, state.make(Problems))
    pods = gang.members.unplaced(slots) if gang.min_member is not None else []
    return [gang.constrained(pod) for pod in pods if not pod.foreign_gates]


def quota_question(state: State, gang: Workload, members: Sequence[Pod]) -> QuotaQuestion | None:
    """The gang's demand on its ClusterQueue; None if it needs no quota."""
    queue = state.quotas.queue_of(gang.key)
    usable = queue is not None and state.quotas.node_of(queue.name) is not None
    return QuotaQuestion(state, gang, queue, members) if queue is not None and usable and members else None


def inquiry_with(
    state: State,
    gang: Workload,
    statement: Statement,
    pods: Sequence[Pod],
    flavors: tuple[str, ...],
    flavoring: Mapping[PodSetKey, Flavoring],
) -> Steps[Inquiry | None]:
    """The demand of these members with that choice of flavors."""
    if not pods:
        return None
    members = [_held_to(gang, pod, flavoring) for pod in pods]
    beside = yield from siblings(gang)
    view = seen_by([*members, *[pod for pod, _ in beside]], statement.snapshot)
    roles = yield from roles_of(members, gang.retries.caps, view, beside)
    if isinstance(roles, Unclear) or not roles:
        return None
    role = next((role for role in roles if reach(role, view) < role.count), roles[0])
    rules, at = role.rules, role.rules.confining
    # Members of a running, growing gang are placed pod by pod, and all of them are wanted.
    alone = len(roles) == 1 and not gang.release.complete
    want = min(role.count, gang.lacking) if alone else role.count
    if role.home is not None:
        # A replacement counts only in the domain of the other members.
        at = role.home[0]
    if rules.required is None and rules.slice_size:
        want = min(want, rules.slice_size)
    nearest = view.levels[view.nearest] if len(view.levels) > view.nearest else None
    level = nearest if at is None else view.levels[at]
    # Nodes with room that it may not use: refused by kube-scheduler, or outside the domain of its members.
    first = role.pods[0]
    closed = (view.room(first.requests, first.selection) > 0) & (role.room == 0)
    usable: Mask = view.eligible(first.selection) & ~closed
    few = len(roles) <= state.limits.shapes
    required = at is not None
    return Inquiry(
        gang, members, len(roles), beside, few, role, want, level, required, statement, view, usable, flavors
    )


def _held_to(gang: Workload, pod: Pod, flavoring: Mapping[PodSetKey, Flavoring]) -> Pod:
    """The member, restricted to the nodes of these flavors."""
    known = flavoring.get(podset_key(gang.members.pod_for(pod.identity), of_job=gang.job is not None))
    return pod if known is None else known.confined(pod)


def topology_of(pod: Pod) -> str:
    """The member's demand on the topology; empty without one."""
    topology = pod.topology
    return (
        ""
        if topology.required in (None, NO_LEVEL) and topology.slice_size is None and topology.preferred is None
        else str(topology)
    )


@dataclass(frozen=True, slots=True)
class Holder:
    """A workload that has room.

    ``name``: its mention, for texts.
    ``at``: its nodes.
    ``extra``: what its end would free there, (resources, nodes).
    """

    name: str
    at: Rows
    extra: Counts


def holders(state: State, question: Inquiry, rows: Rows) -> Steps[list[Holder]]:
    """The workloads with room on these nodes, by name, except the gang itself."""
    view = question.snapshot
    given: dict[GroupKey | Mention, dict[int, list[int]]] = {}
    for batch in batched(rows.tolist(), _AT_ONCE):
        for row in batch:
            for owner, claim in state.claims.on(view.names[row]):
                holder = claim.workload or _single(state, owner)
                if holder is None or holder == question.gang.key:
                    continue
                amounts = given.setdefault(holder, {}).setdefault(row, [0] * len(view.resources))
                for resource, amount in claim.requests:
                    # A resource that no node offers has no line; any user can ask for one.
                    if (line := view.resources.get(resource)) is not None:
                        amounts[line] += amount
        yield _AT_ONCE
    all_holders: list[Holder] = []
    for held in batched(list(given.items()), _AT_ONCE):
        for holder, there in held:
            at, extra = np.array(list(there), dtype=np.intp), np.array(list(there.values()), dtype=np.int64).T
            all_holders.append(Holder(_named(holder), at, extra))
        yield _AT_ONCE
    return (yield from ordered(all_holders, attrgetter("name")))


def fewest_ends(question: Inquiry, rows: Rows, there: list[Holder]) -> Steps[list[str]]:
    """A short list of holders whose ends together free enough.

    It is a single one if that suffices. Else it is a greedy choice without superfluous holders, as far as the budget
    allows.
    """
    gains: dict[str, int] = {}
    for batch in batched(there, _AT_ONCE):
        gains |= {holder.name: _gain(question, holder) for holder in batch}
        yield 4 * _AT_ONCE
    largest = sorted(there, key=lambda holder: (-gains[holder.name], holder.name))
    ends = _Ends(question, rows)
    if question.sums:
        # Then one end is judged without planning: a holder that frees too little is left out.
        least = question.want - question.fitting(rows)
        singles = [holder for holder in there if gains[holder.name] >= least]
    elif (yield from ends.enough(largest[:MOST_ENDS])):
        singles = largest[:MOST_ENDS]
    else:
        return []
    singles.sort(key=lambda holder: (gains[holder.name], holder.name))
    chosen = yield from fewest(singles, largest, ends.enough)
    return [holder.name for holder in chosen]


def _gain(question: Inquiry, holder: Holder) -> int:
    """How many more of the role the holder's nodes take once it has ended."""
    return question.fitting_tried(holder.at, holder.extra) - question.fitting(holder.at)


class _Ends:
    """Finds out whether the end of some holders frees enough, within a budget."""

    def __init__(self, question: Inquiry, rows: Rows) -> None:
        self._question = question
        self._rows = rows
        self._spent = 0

    def enough(self, chosen: Sequence[Holder]) -> Steps[bool]:
        if self._spent > BUDGET:
            return False
        statement = self._question.statement
        with statement.open():
            for holder in chosen:
                statement.add(holder.at, holder.extra)
            holds, cost = yield from metered(self._question.holds(self._rows))
        self._spent += cost
        return holds


def _single(state: State, owner: Owner) -> Mention | None:
    """The pod without a gang that has the claim."""
    pod = state.pods.get(owner) if isinstance(owner, str) else None
    return None if pod is None else Mention(pod.namespace, f"pod {pod}")


def _named(holder: GroupKey | Mention) -> str:
    return holder.mention if isinstance(holder, GroupKey) else mentioned([holder])
