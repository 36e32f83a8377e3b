"""Texts of reasons: room that is kept for replacements, who has the room of a domain, and why there is no quota.

They name instants and never durations: a text that changed as time passes would be reported again and again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf

from extender.core.explain.problems import told_of_pins
from extender.core.ledger.claims import Claims, Owner
from extender.core.ledger.creation import FailedCreation
from extender.core.ledger.expected import to_be_created
from extender.core.ledger.preemptions import Preemptions
from extender.core.ledger.process import Process
from extender.core.ledger.quotas import Quotas
from extender.core.ledger.room import Room
from extender.core.ledger.waiting import put_off
from extender.core.limits import Limits, Preempts
from extender.core.reasons import Reason
from extender.core.workload.additions import Additions
from extender.core.workload.job import JobRecord
from extender.core.workload.slots import Stage
from extender.core.workload.workload import Workload
from policies.model import GroupKey, Node, Pod, Requests
from policies.model.mentions import Mention, mentioned
from policies.model.queues import VOLCANO, ClusterQueue, FlavorResource, Quota, ResourceGroup
from policies.placement.shortfall import NearestDomain
from policies.quota.flavors import unsuited
from policies.quota.parts import PodSetRequest
from policies.steps import Steps
from policies.words import amount, counted, listed, many

_PUT_OFF = (
    "it goes after workloads of other namespaces, because pods of jobs of this namespace were not created when those "
    "were started"
)


class Words:
    """Phrases of reasons that need more than the workload itself."""

    def __init__(
        self,
        limits: Limits,
        process: Process,
        pods: Mapping[str, Pod],
        workloads: Mapping[GroupKey, Workload],
        room: Room,
        claims: Claims,
        quotas: Quotas,
        preemptions: Preemptions,
        failed_creation: FailedCreation,
        additions: Additions,
    ) -> None:
        self._limits = limits
        self._process = process
        self._pods = pods
        self._workloads = workloads
        self._room = room
        self._claims = claims
        self._quotas = quotas
        self._preemptions = preemptions
        self._failed_creation = failed_creation
        self._additions = additions

    def incomplete(self, workload: Workload) -> str:
        """``"2 of 3 members are bound; room for 1 pod is kept on n-1 until 2026-11-21 14:05:10 UTC"``."""
        bound = f"{workload.share(Stage.BOUND)} are bound"
        if not workload.missing:
            return f"{bound}; the others have a node"
        if not workload.reserved:
            return f"{bound}; no room is kept for the others"
        return f"{bound}; {self.kept_for_it(workload)}"

    def kept_for_it(self, workload: Workload) -> str:
        """Say where its own kept room is, and how long it is kept. There must be some."""
        rooms = self._room.kept_rooms(workload)
        nodes = listed(sorted({claim.node for claim in rooms}))
        ends = max((claim.until or 0.0 for claim in rooms), default=0.0)
        return f"room for {many(len(rooms), 'pod')} is kept on {nodes} {self._until(ends)}"

    def kept_for_others(self, workload: Workload, pod: Pod) -> str:
        """``"; room for 1 pod is kept until 2026-11-21 14:05:10 UTC for replacements of lost members of other gangs"``:
        where this pod might go; empty for none."""
        others = [self._workloads[key] for key in self._room.keeping if key != workload.key]
        rooms = [claim for other in others for claim in self._room.kept_rooms(other)]
        open_to_it = self._claims.admitting(workload.asking(pod).selection) if rooms else bool
        there = [claim for claim in rooms if open_to_it(claim.node)]
        if not there:
            return ""
        ends = max(claim.until or 0.0 for claim in there)
        kept = f"room for {many(len(there), 'pod')} is kept {self._until(ends)}"
        return f"; {kept} for replacements of lost members of other gangs"

    def _until(self, instant: float) -> str:
        """``instant`` is of the core's clock."""
        return f"until {datetime.fromtimestamp(instant - self._process.epoch, UTC):%Y-%m-%d %H:%M:%S} UTC"

    def still_counted(self, workload: Workload, what: FlavorResource) -> str:
        """Say how much of it pods of the workload itself use, and why pods that terminate still count."""
        uses, leaving = (
            self._quotas.uses.of(workload.key),
            leaving_pods(self._pods, self._claims, self._quotas, workload),
        )
        of_leaving = sum(uses[pod.uid].usage.get(what, 0) for pod, _ in leaving)
        total = sum(use.usage.get(what, 0) for use in uses.values() if not use.unseen)
        text = f"; its own pods use {_bare(what[1], total - of_leaving)}" if total > of_leaving else ""
        if of_leaving:
            named = leaving_text(leaving)
            text += f"; {amount(what[1], of_leaving)} still {'counts' if of_leaving == 1 else 'count'} for {named}"
        return text

    def shortage(
        self,
        workload: Workload,
        queue: ClusterQueue,
        podsets: Sequence[PodSetRequest],
        refused: Mapping[tuple[str, str], str],
        last: str,
    ) -> str:
        """Say what is short flavor by flavor, for the podsets of a workload together. ``refused``: by podset and
        flavor, why its nodes will not do. ``last``: the same of the flavors tried last, where each podset alone
        finds one."""
        told: dict[str, None] = {}
        for group in queue.groups:
            for podset in podsets:
                told.update(dict.fromkeys(self._of_group(workload, queue, group, podset, podsets, refused)))
        return f"{queue.title}: {'; '.join([*told][:8]) or last}"

    def _of_group(
        self,
        workload: Workload,
        queue: ClusterQueue,
        group: ResourceGroup,
        podset: PodSetRequest,
        podsets: Sequence[PodSetRequest],
        refused: Mapping[tuple[str, str], str],
    ) -> Iterator[str]:
        """Nothing where some flavor has all that the podsets ask for of it, and nodes."""
        total: dict[str, int] = {}
        for one in podsets:
            for name in group.limited():
                total[name] = total.get(name, 0) + one.requests.get(name, 0)
        found: list[str] = []
        for name, limits in group.flavors:
            flavor = self._quotas.queues.picture.flavors.get(name)
            if flavor is not None and (why := refused.get((podset.name, name))):
                found.append(f"flavor {name}: {why}")
            elif flavor is not None and (why := unsuited(flavor, podset.selection)):
                found.append(f"flavor {name}: its pods do not go to nodes of that flavor: {why}")
            else:
                short = [*self._short(workload, queue, name, limits, total)]
                if not short and any(total.values()):
                    return
                found += short
        yield from found

    def _short(
        self,
        workload: Workload,
        queue: ClusterQueue,
        flavor: str,
        limits: Mapping[str, Quota],
        total: Mapping[str, int],
    ) -> Iterator[str]:
        node = self._quotas.node_of(queue.name)
        for resource, much in total.items():
            what = flavor, resource
            if not much or node is None:
                continue
            asked = f"it asks for {amount(resource, much, up=True)}"
            if not flavor.startswith(VOLCANO):
                asked += f" of flavor {flavor}"
            if resource not in limits:
                yield f"{asked}, of which the queue has no quota"
            elif much > (most := node.potential(what)):
                yield f"{asked}, and the queue can have {amount(resource, most)} at most"
            elif much > (left := max(0, node.left(what))):
                there = f"{_number(resource, left)} of {amount(resource, most)} {'is' if left == 1 else 'are'} left"
                yield f"{asked}, and {there}{self._users(workload, queue, what)}{self.still_counted(workload, what)}"

    def _users(self, workload: Workload, queue: ClusterQueue, what: FlavorResource) -> str:
        """The others that use most of it: when they end it comes free."""
        users = sorted(self._quotas.uses.users(what, queue.name).items(), key=lambda one: (-one[1], one[0]))
        named = [
            Mention(key.namespace, f"{key} ({_number(what[1], much)})") for key, much in users if key != workload.key
        ]
        return f"; it is used by {mentioned(named, _NAMED)}" if named else ""

    def worded(self, workload: Workload, why: Reason) -> Reason:
        """Why it waits for room, with what is known beside that."""
        why = self._with_hints(workload, why)
        if why.code in ("NoRoom", "Refused") and workload.job is not None:
            differs = self._additions.difference(workload.job.seen.podsets)
            if differs and differs not in why.message:
                return why._replace(message=f"{differs}: {why.message}")
        return why

    def _with_hints(self, workload: Workload, why: Reason) -> Reason:
        """The reason with what kube-scheduler, the settings and an earlier search for victims add to it."""
        retries = workload.retries
        if why.code == "NoRoom" and put_off(self._failed_creation, workload) and _PUT_OFF not in why.message:
            why = Reason("NoRoom", f"{why.message}; {_PUT_OFF}")
        if why.code in ("NoRoom", "NoQuota") and workload.incomplete and not workload.grows:
            why = why._replace(message=f"{why.message}; {self.incomplete(workload)}")
        if (
            why.code == "NoRoom"
            and (lost := told_of_pins(workload, self._pods, self._claims))
            and lost not in why.message
        ):
            why = Reason("NoRoom", f"{why.message}; {lost}")
        if why.code == "NoRoom" and retries.nodes and retries.words:
            text = f"kube-scheduler refused it, and says: {retries.words}; without those nodes, {why.message}"
            return Reason("Refused", text)
        if why.code == "NoRoom" and workload.priority > 0 and self._limits.preemption is Preempts.OFF:
            text = f"{why.message}; its priority is {workload.priority}, but preemption is off"
            return Reason("NoRoom", text)
        if why.code == "NoRoom" and (demand := workload.demand) is not None:
            spared = self._preemptions.spares(workload.key, demand.shape)
            if spared is not None and spared.why not in why.message:
                return Reason("NoRoom", f"{why.message}; {spared.why}")
        return why

    def running(self, workload: Workload) -> Reason:
        """Say what is bound of a gang that has started, and why the others wait."""
        if (job := workload.job) is not None and job.stop and job.refused:
            return not_suspended(job)
        if workload.grows:
            return Reason("Running", self._growing(workload), warning=False)
        if workload.incomplete and not workload.admitted:
            return Reason("Running", self.incomplete(workload), warning=False)
        text = f"{counted(workload.reached(Stage.BOUND), 'member', 'is', 'are')} bound{to_be_created(workload)}"
        waiting = len(workload.members.slots.lacking)
        if waiting and workload.telling.surplus is not None:
            text += f"; {counted(waiting, 'more member', 'waits', 'wait')}: {workload.telling.surplus.message}"
            if job is not None and any(map(_is_led, workload.members.unplaced())):
                text += "; its pod template names the nodes of the plan: suspend the job to have all of it planned anew"
        return Reason("Running", text, warning=False)

    def _growing(self, workload: Workload) -> str:
        """``"3 of 5 run; 2 wait for room: ..."``."""
        text = f"{workload.reached(Stage.BOUND)} of {workload.min_member} run"
        waiting, why = len(workload.members.slots.lacking), workload.telling.surplus
        if waiting and why is not None:
            for_room = " for room" if why.code == "NoRoom" else ""
            text += f"; {waiting} {'waits' if waiting == 1 else 'wait'}{for_room}: {why.message}"
        if (missing := (workload.min_member or 0) - workload.reached(Stage.THERE)) > 0:
            text += f"; {counted(missing, 'more pod', 'is', 'are')} yet to be made"
        return f"{text}; {self.kept_for_it(workload)}" if workload.reserved else text


def not_suspended(record: JobRecord) -> Reason:
    """Why it goes on although it is to be suspended."""
    return Reason("Stopping", f"it is to be suspended: {record.stop}; that was refused: {record.refused}")


def _is_led(pod: Pod) -> bool:
    """Its affinity names nodes."""
    return any(one.key == "metadata.name" for term in pod.selection.affinity or () for one in term)


_MOST_HOLDERS = 5


@dataclass(slots=True)
class _Holder:
    """A gang's part of the domain. ``ends``: when the last of its pods there ends, in seconds since the epoch; minus
    infinity when all of them are being deleted."""

    amount: int = 0
    ends: float = -inf


@dataclass(frozen=True, slots=True)
class _Present:
    """Who is in a domain: gangs that have most of it and their ends, how many more there are, and pods in no gang."""

    most: tuple[tuple[GroupKey, float], ...]
    more: int
    singles: int


class Holders:
    """Many gangs miss the same domain in one pass: what was found is kept until some room changes hands."""

    def __init__(self, claims: Claims, pods: Mapping[str, Pod]) -> None:
        self._claims = claims
        self._pods = pods
        self._known: dict[tuple[object, ...], _Present] = {}
        self._as_of = -1

    def told(self, nearest: NearestDomain, names: Sequence[str]) -> Steps[str]:
        """``"; held there by train-7 (ends unknown), team-b/train-9 (ends by 2026-11-21 14:05 UTC)"``.

        Nothing when nobody has room there. Gangs of other namespaces are named with these. Who has most goes first.
        ``names``: of the nodes, by the rows of the miss.
        """
        changes, domain = self._claims.changes, nearest.domain
        if self._as_of != changes:
            self._as_of = changes
            self._known.clear()
        place = (domain.name, int(domain.rows[0]) if len(domain.rows) else -1, nearest.kinds)
        if (there := self._known.get(place)) is None:
            there = yield from self._present(nearest, names)
            if self._as_of == self._claims.changes:
                self._known[place] = there
        most = [
            Mention(key.namespace, f"{key} ({_end(ends)})", f"{key.name} ({_end(ends)})") for key, ends in there.most
        ]
        said = [mentioned(most)] if most else []
        if there.more:
            said.append(many(there.more, "more gang"))
        if there.singles:
            said.append(f"{many(there.singles, 'pod')} in no gang")
        return f"; held there by {', '.join(said)}" if said else ""

    def _present(self, nearest: NearestDomain, names: Sequence[str]) -> Steps[_Present]:
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
        found = sorted(gangs, key=lambda key: (-gangs[key].amount, key))
        most = tuple((key, gangs[key].ends) for key in found[:_MOST_HOLDERS])
        return _Present(most, len(found) - len(most), singles)

    def _charges(
        self, node: str, kinds: tuple[str, ...], amounts: dict[Requests, int]
    ) -> list[tuple[GroupKey | None, Pod | None, int]]:
        """Of whoever has some of what counts there: the gang if any, the pod unless it is lost, and how much."""
        found = []
        for owner, claim in self._claims.on(node):
            if (held := amounts.get(claim.requests)) is None:
                held = amounts[claim.requests] = sum(much for name, much in claim.requests if name in kinds)
            if held:
                found.append((claim.workload, self._pod(owner), held))
        return found

    def _pod(self, owner: Owner) -> Pod | None:
        return self._pods.get(owner) if isinstance(owner, str) else None


def _ends(pod: Pod | None) -> float:
    if pod is not None and pod.deleting:
        return -inf
    return inf if pod is None or pod.ends is None else pod.ends


def _end(ends: float) -> str:
    """In absolute words, so that the text does not change while time passes."""
    if ends == -inf:
        return "being deleted"
    try:
        return f"ends by {datetime.fromtimestamp(ends, UTC):%Y-%m-%d %H:%M} UTC"
    except (OverflowError, ValueError, OSError):
        return "ends unknown"


def leaving_pods(
    pods: Mapping[str, Pod], claims: Claims, quotas: Quotas, workload: Workload
) -> list[tuple[Pod, Node | None]]:
    """The pods of the workload that terminate and use quota, each with its node, which is None if that is deleted."""
    owners = [owner for owner, use in quotas.uses.of(workload.key).items() if not use.unseen]
    using = [pod for owner in owners if isinstance(owner, str) and (pod := pods.get(owner)) is not None]
    return [(pod, claims.nodes.get(pod.node or "")) for pod in using if pod.deleting]


def leaving_text(pods: Sequence[tuple[Pod, Node | None]]) -> str:
    """Name them: ``"its own pod train-0, which terminates on deleted node n-1, and 2 more"``. There must be one."""
    (pod, node), more = pods[0], len(pods) - 1
    where = "deleted node" if node is None else "node" if node.ready else "silent node"
    return f"its own pod {pod.name}, which terminates on {where} {pod.node}" + (f", and {more} more" if more else "")


def _bare(resource: str, much: int) -> str:
    return amount(resource, much).removesuffix(f" {resource}")


_NAMED = 3


def _number(resource: str, much: int) -> str:
    """Without the name of the resource, which was said."""
    return amount(resource, much).removesuffix(f" {resource}")
