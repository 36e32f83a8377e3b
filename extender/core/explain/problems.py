"""Problems that keep a gang from being planned at all, found before any node is considered: contradictions, gates,
claims."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from extender.core import causes
from extender.core.ledger.claims import Claims
from extender.core.ledger.devices import Devices
from extender.core.ledger.pending import Pending
from extender.core.ledger.quotas import Quotas
from extender.core.ledger.store import Namespaces
from extender.core.ledger.volumes import Volumes
from extender.core.limits import Limits
from extender.core.workload.shape import Role
from extender.core.workload.slots import Stage
from extender.core.workload.workload import Workload
from policies.model import Dialect, Minima, Pod, Selection, Topology
from policies.model.queues import VOLCANO, title_of
from policies.placement.matching import nodes_named, pinned_to


def pinned_to_lost(workload: Workload, pods: Mapping[str, Pod], claims: Claims) -> list[Pod]:
    """The pods of the workload that wait and name only nodes that do not exist. Slots without a pod do not count."""
    nodes = claims.nodes
    return [
        pod
        for pod in workload.members.unplaced()
        if (named := nodes_named(pod.selection)) and pod.uid in pods and not any(node in nodes for node in named)
    ]


def lost_pins(workload: Workload, pods: Mapping[str, Pod], claims: Claims) -> causes.LostPins | None:
    """The pods that name only missing nodes, as a fact; None if there are none."""
    if not (lost := pinned_to_lost(workload, pods, claims)):
        return None
    nodes = dict.fromkeys(node for pod in lost for node in nodes_named(pod.selection))
    return causes.LostPins(tuple(pod.name for pod in lost), tuple(nodes))


@dataclass(eq=False)
class Problems:
    """Finds what keeps a workload from being planned, whatever nodes there are."""

    _schedulers: tuple[str, ...]
    _limits: Limits
    _quotas: Quotas
    _volumes: Volumes
    _devices: Devices
    _namespaces: Namespaces
    _pending: Pending

    def problem(self, workload: Workload, owner: str = "") -> causes.Cause | None:
        """The first problem that a user has to fix, or that has to end by itself; None when the gang can be planned.

        ``owner``: plan only members of this owner; problems of others concern only those.
        """
        return (
            self._namespaces.ending(workload.key.namespace)
            or _stopping(workload)
            or foreign(workload, self._schedulers)
            or _contradiction(workload, self._schedulers, owner)
            or _no_quorum_stated(workload)
            or _not_in_queue(workload, self._quotas)
            or _too_long(workload, self._quotas)
            or _too_many(workload, self._limits, self._pending)
            or _unsupported(workload, self._volumes, self._devices, owner)
            or _gated(workload, owner)
            or too_few(workload)
        )


def _stopping(workload: Workload) -> causes.Stopping | None:
    """Why slots of a job that was started with another plan wait: it has to be suspended first, and then planned
    again."""
    job, slots = workload.job, workload.members.slots
    if job is None or job.plannable or job.awaits_nodes or not any(slot in slots.templates for slot in slots.lacking):
        return None
    return causes.Stopping(causes.StartedOver(job.stop))


def foreign(workload: Workload, schedulers: Sequence[str]) -> causes.OtherScheduler | None:
    """The other scheduler of a gang; None for a gang with members of Muster's schedulers.

    ``on_purpose`` in the cause: the pods may be another scheduler's intentionally, so Muster writes nothing on them.
    """
    names = sorted(workload.members.declared.schedulers)
    if not names or any(name in schedulers for name in names):
        return None
    on_purpose = names != ["default-scheduler"] or set(workload.members.declared.dialects) != {Dialect.ANNOTATION.value}
    return causes.OtherScheduler(tuple(names), schedulers[0], on_purpose)


def _contradiction(
    workload: Workload, schedulers: Collection[str], owner: str
) -> causes.Contradiction | causes.InvalidPodGroup | None:
    """A contradiction among members without nodes. Running members may differ, because of a rolling update for
    example."""
    members, wanted = workload.members, workload.members.declared_by_waiting.of(owner)
    for pod in _odd(workload, owner):
        if pod.group is not None and pod.group.problem is not None and not pod.node:
            return causes.InvalidPodGroup(pod.group.problem, pod.name)
    if any(name not in schedulers for name in members.declared.schedulers):
        return _disagreement("schedulers", members.declared.schedulers)
    if workload.group is None and workload.podsets is None and len(wanted.stated) > 1:
        return _disagreement("minMembers", map(_size, wanted.stated))
    if len(wanted.priorities) > 1:
        return _disagreement("priorities", wanted.priorities)
    if workload.job is None and wanted.queues and len(members.declared.queues) > 1:
        return _disagreement("queues", (name or None for name in members.declared.queues))
    if (why := _other_queue(workload, next(iter(wanted.queues), ""))) is not None:
        return why
    if len(wanted.dialects) > 1:
        return _disagreement("dialects", wanted.dialects)
    return _topologies(workload, owner) if len(wanted.topologies) > 1 else None


def _other_queue(workload: Workload, of_pods: str) -> causes.Contradiction | None:
    """Why a workload waits whose pods and PodGroup name two Queues of Volcano. A LocalQueue would take precedence."""
    of_group = workload.group.queue if workload.group is not None else ""
    if (
        of_pods == of_group
        or workload.job is not None
        or not (of_pods.startswith(VOLCANO) and of_group.startswith(VOLCANO))
    ):
        return None
    return causes.Contradiction(causes.TwoQueues(title_of(of_pods), title_of(of_group)))


def _topologies(workload: Workload, owner: str) -> causes.Contradiction | None:
    """A contradiction among members of one role, which share a shape and a series. Other roles may ask for other
    topologies."""
    wishes: dict[object, dict[Topology, None]] = {}
    for pod in _of(workload.live, owner):
        if pod.node:
            continue
        wishes.setdefault((pod.requests, pod.selection, pod.series), {})[pod.topology] = None
    different = next((topologies for topologies in wishes.values() if len(topologies) > 1), None)
    return None if different is None else _disagreement("topologies for one role", different)


def _no_quorum_stated(
    workload: Workload,
) -> causes.PodGroupDeleted | causes.InvalidPodGroup | causes.PodGroupMissing | causes.MinMemberMissing | None:
    if workload.group is not None and workload.group.deleting:
        return causes.PodGroupDeleted()
    if workload.group is not None and workload.group.min_member < 1:
        return causes.InvalidPodGroup(workload.group.min_member)
    if workload.group is not None and workload.group.problem is not None:
        return causes.InvalidPodGroup(workload.group.problem)
    if workload.min_member is not None:
        return None
    if any(dialect and dialect.has_objects for dialect in workload.members.declared.dialects):
        return causes.PodGroupMissing(workload.key, Dialect.KOORDINATOR in workload.members.declared.dialects)
    first = workload.members.first
    owner = first.group.owner if first is not None and first.group is not None else ""
    return causes.MinMemberMissing(owner, _in_yunikorns_words(workload))


def _not_in_queue(
    workload: Workload, quotas: Quotas
) -> causes.QueueMissing | causes.QueueInactive | causes.QueueStopped | None:
    """Why the queue of the workload admits nothing, or is missing. Started gangs go on, and partly released ones are
    completed."""
    why = quotas.route(workload).why
    started = workload.release.complete or workload.members.started
    broken = workload.release.partial_since is not None and not workload.has_promised_quorum
    if broken or (started and isinstance(why, causes.QueueStopped)):
        return None
    return why


def _too_long(workload: Workload, quotas: Quotas) -> causes.RunTooLong | None:
    """Why a workload waits that would run for longer than its queue allows. Started ones go on."""
    limit, terms = quotas.route(workload).limit, workload.run_terms
    if limit is None or workload.release.complete or workload.members.started:
        return None
    if terms.expected_s is not None and terms.expected_s > limit.seconds:
        return causes.RunTooLong(limit.queue, limit.seconds, terms.expected_s, deadline=False)
    if terms.deadline_s is not None and terms.deadline_s > limit.seconds:
        return causes.RunTooLong(limit.queue, limit.seconds, terms.deadline_s, deadline=True)
    return None


def _too_many(
    workload: Workload, limits: Limits, pending: Pending
) -> causes.TooManyMembers | causes.TooManyGangs | None:
    """Why a workload waits that exceeds a limit of the settings. Started ones go on."""
    if workload.release.complete or workload.members.started:
        return None
    most, size = limits.members, max(len(workload.live), workload.min_member or 0)
    if size > most:
        return causes.TooManyMembers(len(workload.live), workload.min_member, most)
    if pending.keeps_out(workload.key):
        return causes.TooManyGangs(limits.waiting, workload.key.namespace)
    return None


def too_many_shapes(members: Iterable[Role], limits: Limits) -> causes.TooManyShapes | None:
    """Why members have too many shapes, each of which is placed by itself; None if not.

    Pins to one node and volumes that few nodes reach do not count: they leave no choice.
    """
    kinds = {
        (requests, Selection() if selection.held or pinned_to(selection) else selection, *others)
        for requests, selection, *others in members
    }
    return causes.TooManyShapes(len(kinds), limits.shapes) if len(kinds) > limits.shapes else None


def _unsupported(
    workload: Workload, volumes: Volumes, devices: Devices, owner: str
) -> causes.ResourceClaims | causes.VolumeNotBound | None:
    """Return what members name and does not exist yet: an object that their device claims need, or a volume."""
    for template in _not_made_yet(workload):
        if (missing := devices.missing(template)) is not None:
            return missing
    for pod in _odd(workload, owner):
        if pod.node:
            continue
        if (missing := devices.missing(pod)) is not None:
            return missing
        if (unbound := volumes.lacking(pod)) is not None:
            return unbound
    return None


def _not_made_yet(workload: Workload) -> list[Pod]:
    """Return the templates with device claims, of a job that has not been started."""
    if workload.podsets is None or workload.job is None or workload.admitted:
        return []
    return [podset.template for podset in workload.podsets.podsets if podset.template.device_claims]


def _gated(workload: Workload, owner: str) -> causes.Gated | None:
    """Why gated members keep the gang from being planned. A running gang goes on with the other members."""
    pods = [pod for pod in _odd(workload, owner) if pod.foreign_gates]
    waiting = _of(workload.members.unplaced(), owner) if pods else []
    if not pods or (workload.release.complete and any(not pod.foreign_gates for pod in waiting)):
        return None
    gates = sorted({gate for pod in pods for gate in pod.foreign_gates})
    return causes.Gated(len(pods), len(workload.live), tuple(gates))


def too_few(workload: Workload) -> causes.MembersMissing | None:
    """Why a gang waits that has fewer members than it needs."""
    needed, there = workload.min_member or 0, workload.reached(Stage.THERE)
    if workload.release.complete:
        return None
    if there >= needed:
        if workload.podsets is not None or workload.short(Stage.THERE) is None:
            return None
        share, earlier = workload.share(Stage.THERE), 0
    else:
        share, earlier = causes.Share(there, needed), of_earlier(workload)
    yunikorn = _in_yunikorns_words(workload)
    return causes.MembersMissing(share, earlier, placeholders=yunikorn, stateful_set=_in_order(workload))


def of_earlier(workload: Workload) -> int:
    """How many pods name the gang and are not members: an earlier PodGroup of its name has bound them."""
    members = workload.members
    return 0 if len(members) == len(members.live) else sum(not members.is_ours(member.pod) for member in members)


def _in_order(workload: Workload) -> str:
    """The StatefulSet that creates the missing members only when the waiting ones are ready, which they never are."""
    first = workload.members.first
    maker = first.controller if first is not None else None
    by_owner = first is not None and first.group is not None and first.group.owner
    return maker.name if maker is not None and maker.kind == "StatefulSet" and not by_owner else ""


def _in_yunikorns_words(workload: Workload) -> bool:
    return Dialect.YUNIKORN in workload.members.declared.dialects


def _size(size: int | Minima | None) -> object:
    return " and ".join(f"{least} {role}" for role, least in size) if isinstance(size, tuple) else size


def _disagreement(subject: str, values: Iterable[object]) -> causes.Contradiction:
    named = sorted("none" if value is None else str(value) for value in values)
    return causes.Contradiction(causes.Disagreement(subject, tuple(named)))


def _odd(workload: Workload, owner: str) -> list[Pod]:
    return _of([member.pod for member in workload.members.needs_attention.values()], owner)


def _of(pods: list[Pod], owner: str) -> list[Pod]:
    """The pods of that owner; all if it is empty."""
    return [pod for pod in pods if pod.owner == owner] if owner else pods
