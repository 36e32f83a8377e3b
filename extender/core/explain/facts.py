"""Facts of causes, read from the ledger: kept room, the owners of room in a domain, and the shortage of quota.

Facts name instants and never durations: a fact that changes as time passes would be reported again and again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from extender.core import causes
from extender.core.explain.problems import lost_pins
from extender.core.ledger.claims import Claims, Owner
from extender.core.ledger.creation import FailedCreation
from extender.core.ledger.expected import uncreated
from extender.core.ledger.pending import put_off
from extender.core.ledger.preemptions import Preemptions
from extender.core.ledger.quotas import Quotas
from extender.core.ledger.room import Room
from extender.core.ledger.store import Process
from extender.core.limits import Limits, Preempts
from extender.core.workload.additions import Additions
from extender.core.workload.job import JobRecord
from extender.core.workload.slots import Stage
from extender.core.workload.workload import Workload
from policies.model import GroupKey, Node, Pod, Requests
from policies.model.queues import ClusterQueue, Quota, ResourceGroup
from policies.placement.shortfall import NearestDomain
from policies.quota.flavors import unsuited
from policies.quota.parts import PodSetRequest
from policies.steps import Steps


def rises(workload: Workload, queue: ClusterQueue | None) -> Sequence[causes.Rises]:
    """Say how the workload's age raises it in its queue; nothing where age does not count."""
    if queue is None or not queue.ageing:
        return ()
    return [causes.Rises(queue.title, queue.ageing, workload.created)]


@dataclass(eq=False)
class Facts:
    """Facts of causes that need more than the workload itself."""

    _limits: Limits
    _process: Process
    _pods: Mapping[str, Pod]
    _workloads: Mapping[GroupKey, Workload]
    _room: Room
    _claims: Claims
    _quotas: Quotas
    _preemptions: Preemptions
    _failed_creation: FailedCreation
    _additions: Additions

    def incomplete(self, workload: Workload) -> causes.Incomplete:
        """Say what is bound of a gang that lacks members, and where room for the others is kept."""
        reserved = self.reserved_for(workload) if workload.missing and workload.reserved else None
        return causes.Incomplete(workload.share(Stage.BOUND), bool(workload.missing), reserved)

    def reserved_for(self, workload: Workload) -> causes.ReplacementRoom:
        """Say where room is kept for the workload, and until when. There must be some."""
        rooms = self._room.reserved_rooms(workload)
        ends = max((claim.until or 0.0 for claim in rooms), default=0.0)
        return causes.ReplacementRoom(
            len(rooms), tuple(sorted({claim.node for claim in rooms})), ends - self._process.wall_offset
        )

    def reserved_for_others(self, workload: Workload, pod: Pod) -> causes.ReplacementRoom | None:
        """The room kept for lost members of other gangs on nodes that admit this pod; None if there is none."""
        others = [self._workloads[key] for key in self._room.reserving if key != workload.key]
        rooms = [claim for other in others for claim in self._room.reserved_rooms(other)]
        open_to_it = self._claims.admitting(workload.constrained(pod).selection) if rooms else bool
        there = [claim for claim in rooms if open_to_it(claim.node)]
        if not there:
            return None
        return causes.ReplacementRoom(
            len(there), (), max(claim.until or 0.0 for claim in there) - self._process.wall_offset
        )

    def shortage(
        self,
        workload: Workload,
        queue: ClusterQueue,
        podsets: Sequence[PodSetRequest],
        refused: Mapping[tuple[str, str], causes.NotThisFlavor],
        last: causes.Unplaced | None,
        *,
        promised: bool,
    ) -> causes.ByFlavor:
        """Say what is short, flavor by flavor, for all podsets of a workload together.

        ``refused``: by podset and flavor, why its nodes were refused.
        ``last``: why the last flavors were refused, where each podset alone finds one.
        ``promised``: whether the quota that is left is promised to others, where neither of these says why.
        """
        facts: dict[causes.FlavorRefused | causes.FlavorShort, None] = {}
        for group in queue.groups:
            for podset in podsets:
                facts.update(dict.fromkeys(self._of_group(workload, queue, group, podset, podsets, refused)))
        return causes.ByFlavor(
            queue.title, tuple(facts), None if facts else last, promised and not facts and last is None
        )

    def _of_group(
        self,
        workload: Workload,
        queue: ClusterQueue,
        group: ResourceGroup,
        podset: PodSetRequest,
        podsets: Sequence[PodSetRequest],
        refused: Mapping[tuple[str, str], causes.NotThisFlavor],
    ) -> Iterator[causes.FlavorRefused | causes.FlavorShort]:
        """Yield the shortages of one group; nothing where a flavor has all that the podsets ask for."""
        total: dict[str, int] = {}
        for podset in podsets:
            for name in group.limited:
                total[name] = total.get(name, 0) + podset.requests.get(name, 0)
        reasons: list[causes.FlavorRefused | causes.FlavorShort] = []
        for name, limits in group.flavors:
            flavor = self._quotas.queues.snapshot.flavors.get(name)
            if flavor is not None and (why := refused.get((podset.name, name))) is not None:
                reasons.append(causes.FlavorRefused(name, why))
            elif flavor is not None and (detail := unsuited(flavor, podset.selection)):
                reasons.append(causes.FlavorRefused(name, causes.Unsuited(detail)))
            else:
                short = [*self._short(workload, queue, name, limits, total)]
                if not short and any(total.values()):
                    return
                reasons += short
        yield from reasons

    def _short(
        self,
        workload: Workload,
        queue: ClusterQueue,
        flavor: str,
        limits: Mapping[str, Quota],
        total: Mapping[str, int],
    ) -> Iterator[causes.FlavorShort]:
        node = self._quotas.node_of(queue.name)
        for resource, much in total.items():
            what = flavor, resource
            if not much or node is None:
                continue
            if resource not in limits:
                yield causes.FlavorShort(what, much, None)
            elif much > (most := node.potential(what)):
                yield causes.FlavorShort(what, much, most)
            elif much > (left := max(0, node.left(what))):
                yield self._used(workload, queue, causes.FlavorShort(what, much, most, left))

    def _used(self, workload: Workload, queue: ClusterQueue, short: causes.FlavorShort) -> causes.FlavorShort:
        """Add the workloads that use most of the quota, which comes free when they end, and the workload's own use."""
        what, own = short.what, self._quotas.uses.of(workload.key)
        users = sorted(self._quotas.uses.users(what, queue.name).items(), key=lambda use: (-use[1], use[0]))
        others = [(key, much) for key, much in users if key != workload.key]
        pods = leaving_pods(self._pods, self._claims, self._quotas, workload)
        of_leaving = sum(own[pod.uid].usage.get(what, 0) for pod, _ in pods)
        total = sum(use.usage.get(what, 0) for use in own.values() if not use.unseen)
        return replace(
            short,
            users=tuple(others[:_NAMED]),
            more=len(others[_NAMED:]),
            own=total - of_leaving,
            of_leaving=of_leaving,
            leaving=leaving(pods) if of_leaving else None,
        )

    def in_full(self, workload: Workload, why: causes.Cause) -> causes.Cause:
        """Add further known facts to a cause that is about room or quota."""
        if isinstance(why, causes.NoQuota | causes.NoRoom):
            why = causes.with_facts(why, *rises(workload, self._quotas.queue_of(workload.key)))
        if isinstance(why, causes.NoQuota):
            return causes.with_facts(why, *self._missing(workload))
        if isinstance(why, causes.NoRoom):
            why = self._of_room(workload, why)
        if isinstance(why, causes.NoRoom | causes.Refused) and workload.job is not None:
            differs = causes.Differs(self._additions.difference(workload.job.seen.podsets))
            known = why.what.without.beside if isinstance(why.what, causes.OtherNodes) else ()
            return causes.with_facts(why, differs) if differs.detail and differs not in known else why
        return why

    def _of_room(self, workload: Workload, why: causes.NoRoom) -> causes.NoRoom | causes.Refused:
        """Add what kube-scheduler, the settings and an earlier victim search say to a cause about room."""
        retries = workload.retries
        if put_off(self._failed_creation, workload):
            why = causes.with_facts(why, causes.PutOff())
        why = causes.with_facts(why, *self._missing(workload))
        if (lost := lost_pins(workload, self._pods, self._claims)) is not None:
            why = causes.with_facts(why, lost)
        if retries.nodes and retries.words:
            return causes.Refused(causes.OtherNodes(retries.words, why))
        if workload.priority > 0 and self._limits.preemption is Preempts.OFF:
            return causes.with_facts(why, causes.PreemptionOff(workload.priority))
        demand = workload.demand
        failure = None if demand is None else self._preemptions.failed_for(workload.key, demand.shape)
        if failure is None or failure.why is None or failure.why == why.what:
            return why
        return causes.with_facts(why, failure.why)

    def _missing(self, workload: Workload) -> Sequence[causes.Incomplete]:
        return [self.incomplete(workload)] if workload.incomplete and not workload.grows else ()

    def running(self, workload: Workload) -> causes.Running | causes.Stopping:
        """Say what is bound of a gang that has started, and why the others wait."""
        if (job := workload.job) is not None and job.stop and job.refused:
            return not_suspended(job)
        if workload.grows:
            return causes.Running(self._growing(workload))
        if workload.incomplete and not workload.admitted:
            return causes.Running(self.incomplete(workload))
        bound, to_come = workload.reached(Stage.BOUND), uncreated(workload)
        waiting, surplus = len(workload.members.slots.lacking), workload.reason_state.surplus
        if not waiting or surplus is None:
            return causes.Running(causes.Bound(bound, to_come))
        led = job is not None and any(map(_is_led, workload.members.unplaced()))
        return causes.Running(causes.Bound(bound, to_come, waiting, surplus, led))

    def _growing(self, workload: Workload) -> causes.Growing:
        waiting = len(workload.members.slots.lacking)
        return causes.Growing(
            workload.reached(Stage.BOUND),
            workload.min_member,
            waiting,
            workload.reason_state.surplus if waiting else None,
            max(0, (workload.min_member or 0) - workload.reached(Stage.THERE)),
            self.reserved_for(workload) if workload.reserved else None,
        )


def not_suspended(record: JobRecord) -> causes.Stopping:
    """Why a job that is to be suspended still runs."""
    return causes.Stopping(causes.NotSuspended(record.stop, record.refused))


def _is_led(pod: Pod) -> bool:
    """Whether the pod's affinity names nodes."""
    return any(requirement.key == "metadata.name" for term in pod.selection.affinity or () for requirement in term)


_MOST_HOLDERS = 5


@dataclass(slots=True)
class _Holder:
    """A gang's part of the domain.

    ``ends``: when the last of its pods there ends, in seconds since the epoch; minus infinity when all are being
    deleted.
    """

    amount: int = 0
    ends: float = -inf


class Holders:
    """The owners of room in domains, cached until some room changes hands: many gangs may lack the same domain."""

    def __init__(self, claims: Claims, pods: Mapping[str, Pod]) -> None:
        self._claims = claims
        self._pods = pods
        self._known: dict[tuple[object, ...], causes.Holders] = {}
        self._as_of = -1

    def of(self, nearest: NearestDomain, names: Sequence[str]) -> Steps[causes.Holders]:
        """Say which workloads have room in the domain, the largest first. ``names``: the names of the nodes, by row."""
        changes, domain = self._claims.changes, nearest.domain
        if self._as_of != changes:
            self._as_of = changes
            self._known.clear()
        place = (domain.name, int(domain.rows[0]) if len(domain.rows) else -1, nearest.kinds)
        if (there := self._known.get(place)) is None:
            there = yield from self._present(nearest, names)
            if self._as_of == self._claims.changes:
                self._known[place] = there
        return there

    def _present(self, nearest: NearestDomain, names: Sequence[str]) -> Steps[causes.Holders]:
        gangs: dict[GroupKey, _Holder] = {}
        singles = 0
        amounts: dict[Requests, int] = {}
        rows = nearest.domain.rows.tolist()
        for number, row in enumerate(rows, 1):
            charges = self._charges(names[row], nearest.kinds, amounts)
            for key, pod, held in charges:
                if key is None:
                    singles += 1
                    continue
                holder = gangs.setdefault(key, _Holder())
                holder.amount += held
                holder.ends = max(holder.ends, _ends(pod))
            if number < len(rows):
                yield 1 + len(charges) // 4
        keys = sorted(gangs, key=lambda key: (-gangs[key].amount, key))
        most = tuple((key, gangs[key].ends) for key in keys[:_MOST_HOLDERS])
        return causes.Holders(most, len(keys) - len(most), singles)

    def _charges(
        self, node: str, kinds: tuple[str, ...], amounts: dict[Requests, int]
    ) -> list[tuple[GroupKey | None, Pod | None, int]]:
        """The claims that use the kinds on the node: gang if any, pod unless it is lost, and amount."""
        counts = []
        for owner, claim in self._claims.on(node):
            if (held := amounts.get(claim.requests)) is None:
                held = amounts[claim.requests] = sum(much for name, much in claim.requests if name in kinds)
            if held:
                counts.append((claim.workload, self._pod(owner), held))
        return counts

    def _pod(self, owner: Owner) -> Pod | None:
        return self._pods.get(owner) if isinstance(owner, str) else None


def _ends(pod: Pod | None) -> float:
    if pod is not None and pod.deleting:
        return -inf
    return inf if pod is None or pod.ends is None else pod.ends


def leaving_pods(
    pods: Mapping[str, Pod], claims: Claims, quotas: Quotas, workload: Workload
) -> list[tuple[Pod, Node | None]]:
    """The pods of the workload that terminate and use quota, each with its node, which is None if that is deleted."""
    owners = [owner for owner, use in quotas.uses.of(workload.key).items() if not use.unseen]
    using = [pod for owner in owners if isinstance(owner, str) and (pod := pods.get(owner)) is not None]
    return [(pod, claims.nodes.get(pod.node or "")) for pod in using if pod.deleting]


def leaving(pods: Sequence[tuple[Pod, Node | None]]) -> causes.LeavingPod:
    """Name the first of these pods, which terminate, and count the others. There must be one."""
    pod, node = pods[0]
    return causes.LeavingPod(pod.name, pod.node, None if node is None else node.ready, len(pods) - 1)


_NAMED = 3
