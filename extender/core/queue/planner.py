"""The plan of one workload: found in steps, without any effect, then checked, and only then committed.

Other events may be handled after each step, and the check sees what they change. A plan is made in a statement on the
ledger as it is for that workload, which may use what is kept for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from extender.core import causes
from extender.core.explain.facts import Facts, Holders
from extender.core.ledger.backfill import Backfills
from extender.core.ledger.claims import Claim, Claims, SlotOf
from extender.core.ledger.devices import Devices
from extender.core.ledger.preemptions import Preemptions
from extender.core.ledger.singles import WaitingSingles
from extender.core.ledger.volumes import Volumes
from extender.core.limits import Limits
from extender.core.queue.demands import left_out, left_short, placed_beside
from extender.core.workload.members import Members
from extender.core.workload.shape import Demand, Flavoring, PodSetKey, Shape
from extender.core.workload.workload import Workload
from policies.api import PolicyError
from policies.chosen import Policies
from policies.model import UNCONSTRAINED, GroupKey, Placement, Pod, SlotKey
from policies.model.mentions import Mention
from policies.placement.fitting import fits
from policies.placement.one_by_one import accepted, letting_in
from policies.placement.pinned import placing_pinned
from policies.placement.place import Placed, Shortfall, placing
from policies.placement.request import Cap, Sibling, shape_of
from policies.placement.rules import Split, meets_requirements
from policies.placement.snapshot import Snapshot
from policies.placement.tenants import Apart, BesideNominated
from policies.quota.tree import QuotaTree
from policies.statement import Statement
from policies.steps import AT_ONCE, Steps


@dataclass(eq=False)
class Statements:
    """Opens statements. The end of a block drops what was tried in it, and until then no other code sees it."""

    _pods: Mapping[str, Pod]
    _claims: Claims
    _preemptions: Preemptions
    _backfills: Backfills
    _singles: WaitingSingles

    @contextmanager
    def of(self, workload: Workload, tree: QuotaTree | None = None) -> Iterator[Statement]:
        """Open a statement for a workload: on room that is free and not kept for single pods, and on room kept for it.

        Pods that kube-scheduler has nominated, or evicts others for, count as tenants of their node. ``tree``: as in
        ``Claims.statement``.
        """
        with self._claims.statement(tree) as statement:
            slots = [SlotOf(workload.key, slot) for slot in workload.reserved]
            owners = *self._room_of_victims(workload), *self._backfills.open_to(workload)
            self._claims.leave_out(statement, [*slots, *owners])
            self._try_singles(statement, self._singles.ahead_of(workload).values())
            if expected := self.expected_before(workload):
                view = statement.snapshot
                statement.show(view.among(BesideNominated(view.others.tenants, expected)))
            yield statement

    def _room_of_victims(self, workload: Workload) -> list[SlotOf]:
        """The claims that keep room for the workload, once all of its victims have gone.

        Earlier the plan would take the nodes that become free first, in more domains than needed.
        """
        return self._preemptions.rooms(workload.key) if self._preemptions.is_ready(workload.key) else []

    @contextmanager
    def of_next_single(self) -> Iterator[Statement]:
        """Open a statement for the single pod whose turn it is: on free room, beside that of the pods before it."""
        with self._claims.statement() as statement:
            self._try_singles(statement, self._singles.before().values())
            yield statement

    def expected_before(self, workload: Workload) -> list[tuple[Pod, str]]:
        """Single pods of no lower priority, with the nodes that they will get."""
        nominated = self._singles.nominated_before(workload)
        if not self._preemptions.under_way:  # called three times for each gang, so the common case is fast
            return nominated
        preempting = self._preemptions.preempting(workload.pods_priority, self._pods)
        return nominated + [pair for pair in preempting if pair not in nominated]

    def _try_singles(self, statement: Statement, ahead: Iterable[Claim]) -> None:
        """Take the room that is kept for the single pods ``ahead``, and leave out those behind.

        Single pods behind repel no pod from the nodes where room is kept for them.
        """
        for claim in ahead:
            statement.claim(claim.node, claim.requests)
        if behind := self._singles.behind():
            view = statement.snapshot
            statement.show(view.among(Apart(view.others.tenants, behind)))


_BROKEN = "the placement that it led to breaks a rule of the gang"


@dataclass(frozen=True, slots=True)
class Plan:
    """A node for each of these slots.

    ``pods``: the pods that will fill the slots, or their templates, in the same order.
    ``turns``: the rounds of pods that are steered later than others.
    ``flavors``: as in Demand.
    """

    pods: Sequence[Pod]
    nodes: dict[SlotKey, str]
    turns: Mapping[SlotKey, int] = field(default_factory=dict)
    flavors: Mapping[PodSetKey, Flavoring] | None = None


@dataclass(frozen=True, slots=True)
class Changed:
    """The outcome of a plan whose workload or ledger changed meanwhile: it has to be asked for again."""


@dataclass(eq=False)
class Planner:
    """Asks the policies for plans.

    An exception of a policy or a broken rule is a ``PolicyError``, which costs one try.
    """

    _limits: Limits
    _pods: Mapping[str, Pod]
    _workloads: Mapping[GroupKey, Workload]
    _claims: Claims
    _devices: Devices
    _volumes: Volumes
    _singles: WaitingSingles
    _facts: Facts
    _statements: Statements
    policies: Policies

    def __post_init__(self) -> None:
        self._holders = Holders(self._claims, self._pods)

    def plan(self, workload: Workload, demand: Demand, shape: Shape) -> Steps[Plan | causes.Unplaced | Changed]:
        """Find a plan that can be committed now, or the cause why there is none."""
        beside = yield from placed_beside(workload, self._workloads, demand.flavors)
        if workload.version != demand.version:
            return Changed()
        as_of = self._as_of(workload)
        with self._statements.of(workload) as statement:
            plan = yield from self._plan(workload, demand, shape, statement.snapshot, beside)
        if not isinstance(plan, Plan) or self._as_of(workload) == as_of or self.holds(workload, plan):
            return plan
        return Changed()

    def preview(
        self, workload: Workload, demand: Demand, shape: Shape, view: Snapshot
    ) -> Steps[Plan | causes.Unplaced | Changed]:
        """Find a plan on the nodes as ``view`` shows them, for example later ones. It is not for committing."""
        beside = yield from placed_beside(workload, self._workloads, demand.flavors)
        return (yield from self._plan(workload, demand, shape, view, beside))

    def _plan(
        self, workload: Workload, demand: Demand, shape: Shape, view: Snapshot, beside: Sequence[Sibling]
    ) -> Steps[Plan | causes.Unplaced | Changed]:
        version = demand.version
        pods, outcome = yield from self._search(workload, demand, shape, view, beside)
        why = (yield from self._why(outcome, view, workload, pods)) if isinstance(outcome, Shortfall) else outcome
        turns: Mapping[SlotKey, int] = {}
        if isinstance(why, Placed) and (shape.related or (beside and _depends_on_order(workload, ()))):
            first = _next_turn(workload.members) if _depends_on_order(workload, pods) else 0
            pods, turns = yield from self._in_rounds(pods, why.nodes, view, first)
        elif workload.retries.singly and isinstance(why, Placed):
            turns = _one_by_one(pods, why.nodes)
        if len(pods) > AT_ONCE:
            yield len(pods) // 4
        if workload.version != version or workload.releasing or self._workloads.get(workload.key) is not workload:
            return Changed()
        if not isinstance(why, Placed):
            return why
        planned = [pod for pod in pods if pod.uid in why.nodes]
        plan = Plan(planned, {pod.identity: why.nodes[pod.uid] for pod in planned}, turns, demand.flavors)
        if self._breaks(plan, view, accepted=shape.related):
            raise PolicyError(self.policies.topology, _BROKEN)
        return plan

    def _search(
        self, workload: Workload, demand: Demand, shape: Shape, view: Snapshot, beside: Sequence[Sibling]
    ) -> Steps[tuple[Sequence[Pod], Placed | Shortfall | causes.NoRoom]]:
        """Ask the policies for these pods, or for the fewest of them that can start."""
        search = placing if len(shape.roles) <= self._limits.shapes else placing_pinned
        pods, needed = demand.pods, shape.needed
        outcome = yield from search(pods, needed, view, shape.caps, beside, self.policies)
        least = left_short(workload, pods, outcome.nodes if isinstance(outcome, Placed) else ())
        # There may be no room for whole slices, but for the fewest.
        if least and len(least) < len(pods):
            pods, needed = tuple(least), len(least)
            demand = replace(demand, pods=pods)
            outcome = yield from search(pods, needed, view, shape.caps, beside, self.policies)
        if isinstance(outcome, Placed) and (lost := left_out(workload, pods, outcome.nodes)):
            completed = yield from search(lost, needed, view, shape.caps, beside, self.policies)
            if isinstance(completed, Placed):
                pods, outcome = tuple(lost), completed
                demand = replace(demand, pods=pods)
        if isinstance(outcome, Placed) and (shut := self._shut_to_later(workload, demand, outcome.nodes, view)):
            caps = [Cap(node, member_shape, 0) for member_shape in dict.fromkeys(map(shape_of, pods)) for node in shut]
            outcome = yield from search(pods, needed, view, (*shape.caps, *caps), beside, self.policies)
            if isinstance(outcome, Placed) and self._shut_to_later(workload, demand, outcome.nodes, view):
                return pods, causes.NoRoom(causes.LaterWave())
        return pods, outcome

    @staticmethod
    def _shut_to_later(workload: Workload, demand: Demand, nodes: Mapping[str, str], view: Snapshot) -> list[str]:
        """The nodes planned for pods of later waves, if kube-scheduler would not let all of these in after the pods."""
        if not (promises := workload.members.slots.promises()):
            return []
        first, flavors = min(pod.wave for pod in demand.pods), demand.flavors
        later = [(workload.constrained(pod, flavors), node) for pod, node in promises if pod.wave > first]
        if not any(pod.constraints is not UNCONSTRAINED for pod, _ in later):
            return []
        before = view.among(Apart(view.others.tenants, [pod for pod, _ in later]))
        together = [*((pod, nodes[pod.uid]) for pod in demand.pods if pod.uid in nodes), *later]
        return [] if accepted(together, before) else list(dict.fromkeys(node for _, node in later))

    def plan_single(self, pod: Pod) -> Steps[str | None]:
        """Find a node for a single pod beside the room of earlier pods; None if there is none.

        If kube-scheduler has nominated a node with room, it is that one, since kube-scheduler looks there first.
        """
        with self._statements.of_next_single() as statement:
            yield 1 + len(self._singles.reserved) // 4
            if pod.nominated_node and fits({pod.uid: pod.nominated_node}, [pod], statement.snapshot):
                return pod.nominated_node
            outcome = yield from placing([pod], 1, statement.snapshot, policies=self.policies)
        return outcome.nodes[pod.uid] if isinstance(outcome, Placed) else None

    def nominated(self, workload: Workload) -> Steps[Plan | None]:
        """The nominations of its members as a plan, if they fit and break no rule. Used after a restart."""
        demand = workload.current_demand
        if demand is None or demand.shape is None or demand.shape.related:
            # Nominations of several rounds would block each other.
            return None
        wanted = {pod.identity: pod.nominated_node for pod in demand.pods if pod.nominated_node}
        beside = yield from placed_beside(workload, self._workloads)
        if len(wanted) < len(demand.pods) or workload.version != demand.version:
            return None
        plan = Plan(demand.pods, wanted)
        with self._statements.of(workload) as statement:
            return None if self._breaks(plan, statement.snapshot, beside) else plan

    def holds(self, workload: Workload, plan: Plan) -> bool:
        """Whether every slot of the plan can have its node now, and no required rule is broken."""
        with self._statements.of(workload) as statement:
            return not self._breaks(plan, statement.snapshot)

    @staticmethod
    def _breaks(plan: Plan, view: Snapshot, beside: Sequence[Sibling] = (), *, accepted: bool = False) -> bool:
        placed = list(zip(plan.pods, plan.nodes.values(), strict=True))
        nodes: Placement = {pod.uid: node for pod, node in placed}
        together = [*beside, *placed]
        return not (fits(nodes, plan.pods, view, accepted_as_is=accepted) and meets_requirements(together, view))

    def _in_rounds(
        self, pods: Sequence[Pod], nodes: Mapping[str, str], view: Snapshot, first: int
    ) -> Steps[tuple[tuple[Pod, ...], Mapping[SlotKey, int]]]:
        """Order the pods as kube-scheduler lets them in. Returns them, and the rounds of pods steered later.

        ``first``: the round of the first ones. Raises PolicyError if there is no such order.
        """
        by_uid = {pod.uid: pod for pod in pods}
        nominated = [by_uid[uid] for uid in nodes]
        rounds = yield from letting_in([(pod, nodes[pod.uid]) for pod in nominated], view)
        if rounds is None:
            raise PolicyError(self.policies.topology, _BROKEN)
        later = {
            nominated[number].identity: turn for turn, those in enumerate(rounds, first) for number in those if turn
        }
        return tuple(nominated[number] for those in rounds for number in those), later

    def _as_of(self, workload: Workload) -> tuple[object, ...]:
        """The versions that tell whether the workload's view has changed."""
        return self._claims.changes, self._statements.expected_before(workload)

    def _why(
        self, shortfall: Shortfall, view: Snapshot, workload: Workload, pods: Sequence[Pod]
    ) -> Steps[causes.Unplaced]:
        if (unclear := shortfall.unclear) is not None:
            misfit = causes.Misfit(unclear.explanation, unclear.remedy)
            return causes.Split(misfit) if isinstance(unclear, Split) else causes.UnknownTopology(misfit)
        listed, by_dra = self._offered_by_dra(workload, view)
        if by_dra is not None and not listed:
            return causes.OfferedByDra(by_dra)
        near, there = shortfall.nearest, causes.NOBODY
        if near is not None:
            there = yield from self._holders.of(near, view.names)
        ahead = [self._pods.get(uid) for uid in dict.fromkeys(uid for uid, _ in self._singles.ahead_of(workload))]
        return causes.NoRoom(
            causes.Short(
                shortfall.placed,
                shortfall.needed,
                workload.grows,
                "" if near is None else near.text,
                there,
                shortfall.explanation + self._devices.remarks(pods[0]) + self._volumes.remarks(pods),
                tuple(Mention(pod.namespace, str(pod), pod.name) for pod in ahead if pod is not None),
                self._facts.reserved_for_others(workload, pods[0]),
                by_dra,
            )
        )

    def _offered_by_dra(self, workload: Workload, view: Snapshot) -> tuple[bool, causes.ByDra | None]:
        """Whether nodes list all that the workload asks for, and which part DeviceClasses offer.

        A part that no node lists comes first.
        """
        devices = self._devices.classes
        verdict: tuple[bool, causes.ByDra | None] = True, None
        pods = workload.demand.pods if workload.demand is not None and devices.seen else ()
        for name, much in dict.fromkeys(request for pod in pods for request in pod.requests):
            if much and (classes := devices.offering(name)):
                verdict = bool(devices.listed(((name, much),), view)), causes.ByDra(name, classes)
                if not verdict[0]:
                    break
        return verdict


def _depends_on_order(workload: Workload, pods: Iterable[Pod]) -> bool:
    """Whether kube-scheduler may let these pods in only after planned members of their gang."""
    placed = (member.pod for member in workload.members.placed.values())
    promised = (pod for pod, _ in workload.members.slots.promises())
    return any(pod.constraints.affinity or pod.constraints.spread for pod in (*pods, *placed, *promised))


def _next_turn(members: Members) -> int:
    """The round of pods that are planned beside other members: 0 if those are at bind, else the next one."""
    if not members.slots.planned and len(members.placed) <= len(members.holds) + len(members.binding):
        return 0
    return 1 + max([*(member.turn for member in members.placed.values()), *members.slots.turns.values()], default=0)


def _one_by_one(pods: Sequence[Pod], nodes: Mapping[str, str]) -> Mapping[SlotKey, int]:
    """The rounds that try the members of a node one after the other, which shows how many of them the node takes.

    Used after a refusal. Members that are nominated for the node count for kube-scheduler's plugins as present.
    """
    counts: Counter[str] = Counter()
    turns: dict[SlotKey, int] = {}
    for pod in pods:
        if (node := nodes.get(pod.uid)) is not None:
            turns[pod.identity] = counts[node]
            counts[node] += 1
    return {slot: turn for slot, turn in turns.items() if turn}
