"""The slow twin of incremental counting: all figures of one workload, computed afresh from its members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from extender.core.workload.members import PLACED, Member, MemberDeclarations, MemberState, Tally
from extender.core.workload.slots import Stage
from extender.core.workload.workload import Workload
from policies.model import Pod, SlotKey

_COUNTED = tuple(Stage)[1:]


def differences(workload: Workload) -> Iterator[str]:
    """Yield where the counts kept up to date disagree with a fresh count."""
    members, stages = workload.members, _stages(workload)
    yield from _wrong_podsets(workload, stages)
    yield from _wrong_roles(workload, stages)
    live = [member for member in members if _counts(workload, member.pod) and member.pod.live]
    pods = [member.pod for member in live]
    waiting = [pod for pod in pods if not pod.node]
    held = [member for member in members if member.hold is not None]
    slots, waves = members.slots, sorted({pod.wave for pod in members.slots.templates.values()})
    planned = [slots.templates[slot].wave for slot in slots.planned]
    declared = _said(pods)
    indexes: dict[str, tuple[object, object]] = {
        "live": (set(members.live), {pod.uid for pod in pods}),
        "bound": (set(members.bound), {pod.uid for pod in pods if pod.node}),
        "confirmed": (
            set(members.confirmed),
            {pod.uid for pod in pods if pod.node and pod.stamp is not None and pod.stamp.complete},
        ),
        "odd": (set(members.needs_attention), {pod.uid for pod in pods if _odd(pod)}),
        "declared": (_told(members.declared), declared),
        "declared_by_waiting": (
            _told(members.declared_by_waiting),
            declared if len(waiting) == len(pods) else _said(waiting),
        ),
        "used": (
            dict(members.used),
            dict(Counter(queue for member in members if (queue := _used(member.pod)))),
        ),
        "started": (members.started, any(pod.stamp is not None for pod in pods)),
        "first": (members.first, min(pods, key=lambda pod: (pod.created, pod.uid), default=None)),
        "lacking": (set(members.slots.lacking), {slot for slot, stage in stages.items() if stage is Stage.THERE}),
        "placed": (set(members.placed), {member.uid for member in members if member.state in PLACED}),
        "steps": (
            {step: count for step, count in members.steps.items() if count},
            dict(Counter([member.step for member in members])),
        ),
        "uncreated": (
            [slots.uncreated(wave) for wave in waves],
            [sum(wave_planned <= wave for wave_planned in planned) for wave in waves],
        ),
        "done": (slots.done, _done(workload)),
        "holds": (dict(members.holds), {member.uid: member.hold for member in held}),
    }
    for state, index in ((MemberState.BINDING, members.binding), (MemberState.UNKNOWN, members.unknown)):
        indexes[state.value] = set(index), {member.uid for member in members if member.state is state}
    for name, (kept, fresh) in indexes.items():
        if kept != fresh:
            yield f"{name} is kept as {kept}, but a fresh look finds {fresh}"
    for member in members:
        if (shown := _shown(member)) is not None and shown is not member.state:
            yield f"{member.uid} is taken for {member.state.value}, and the API server shows {shown.value}"
    if held:
        first = (
            min(hold.expires for hold in members.holds.values()),
            min(hold.arrived for hold in members.holds.values()),
        )
        if (members.holds.first_to_expire(), members.holds.first_arrived()) != first:
            yield f"the first hold is not the one that ends at {first[0]} or came at {first[1]}"


def _wrong_podsets(workload: Workload, stages: dict[SlotKey, Stage]) -> Iterator[str]:
    slots = workload.members.slots
    for podset in ("", *slots.of_podsets):
        those = [reached for slot, reached in stages.items() if podset in ("", slot[0])]
        for stage, fresh in zip(_COUNTED, _reached(those), strict=True):
            if (counted := slots.reached(stage, podset)) != fresh:
                yield f"{counted} slots of {podset!r} are counted as {stage.name}, but they are {fresh}: {stages}"


def _wrong_roles(workload: Workload, stages: dict[SlotKey, Stage]) -> Iterator[str]:
    coming = workload.members.slots.templates.values()
    there = [member.pod for member in workload.members if _counts(workload, member.pod)]
    if not any(pod.group is not None and pod.group.role for pod in (*coming, *there)):
        return
    standing = [pod for pod in there if pod.live or finished_here(workload, pod)]
    # Where pods of one slot say different roles, the first one's counts.
    pods = (*coming, *sorted(standing, key=lambda pod: pod.rank, reverse=True))
    roles = {pod.identity: pod.group.role for pod in pods if pod.group is not None}
    for role in {*roles.values()} - {""}:
        those = [reached for slot, reached in stages.items() if roles.get(slot) == role]
        for stage, fresh in zip(_COUNTED, _reached(those), strict=True):
            if (counted := workload.members.slots.of_role(stage, role)) != fresh:
                yield f"{counted} slots of role {role} are counted as {stage.name}, but they are {fresh}: {stages}"


def _reached(those: list[Stage]) -> list[int]:
    """How many have come at least so far, for each stage."""
    there = [those.count(stage) for stage in _COUNTED]
    return [sum(there[at:]) for at in range(len(there))]


def _shown(member: Member) -> MemberState | None:
    pod = member.pod
    if not pod.live:
        return None if member.state is MemberState.BINDING else MemberState.DONE
    if pod.node:
        return MemberState.BOUND
    return MemberState.WAITING if member.state in (MemberState.BOUND, MemberState.DONE) else None


def _told(kept: MemberDeclarations) -> list[object]:
    tallies: tuple[Tally[Any], ...]
    tallies = (
        kept.schedulers,
        kept.owners,
        kept.priorities,
        kept.dialects,
        kept.sizes,
        kept.topologies,
        kept.releases,
        kept.queues,
        kept.domains,
        kept.runs,
    )
    return [dict(kept.combinations), *(set(tally) for tally in tallies)]


def _said(pods: list[Pod]) -> list[object]:
    groups = [pod.group for pod in pods if pod.group is not None]
    words = [
        (
            pod.scheduler,
            pod.owner,
            pod.priority,
            group.dialect.value,
            group.minima or group.min_member,
            pod.topology,
            _release(pod),
            pod.queue or ("" if pod.group is None else pod.group.queue),
            pod.compute_domain,
            pod.run,
        )
        for pod, group in zip(pods, groups, strict=True)
    ]
    return (
        [dict(Counter(words)), *(set(column) for column in zip(*words, strict=True))] if words else [{}, *[set()] * 10]
    )


def _used(pod: Pod) -> str:
    return pod.stamp.queue if pod.node and not pod.terminal and pod.stamp is not None else ""


def _release(pod: Pod) -> str:
    return "" if pod.stamp is None else pod.stamp.release


def _counts(workload: Workload, pod: Pod) -> bool:
    """Whether the pod counts.

    A PodGroup made again under its name is another workload: pods with the old stamp do not count.
    """
    return workload.group is None or pod.stamp is None or pod.stamp.gang == workload.group.uid


def _stages(workload: Workload) -> dict[SlotKey, Stage]:
    stages: dict[SlotKey, Stage] = {}
    for member in workload.members:
        pod = member.pod
        if not _counts(workload, pod):
            continue
        stage = _stage(member) if pod.live else Stage.BOUND if finished_here(workload, pod) else Stage.ABSENT
        if stage is not Stage.ABSENT:
            stages[pod.identity] = max(stage, stages.get(pod.identity, stage))
    slots = workload.members.slots
    stages |= dict.fromkeys(slots.done, Stage.BOUND)
    for slot in slots.templates:
        stages.setdefault(slot, Stage.PROMISED if slot in slots.planned else Stage.THERE)
    return stages


def _done(workload: Workload) -> set[SlotKey]:
    """Return the slots that are done. Of slots without an index only their number is known. Where pods come one after
    the other, pods that have ended and are gone count, too: any number may be done."""
    slots, job = workload.members.slots, workload.job.seen if workload.job is not None else None
    if job is None:
        return set()
    chosen = [slot for slot in slots.done if slot[0] not in slots.indexed]
    in_turn = {podset.prefix for podset in job.podsets.podsets if podset.completions}
    by_status = [slot for slot in chosen if slot[0] not in in_turn][: job.closed]
    by_pods = [slot for slot in chosen if slot[0] in in_turn]
    return {slot for slot in slots.templates if slot in job.done}.union(by_status, by_pods)


def _stage(member: Member) -> Stage:
    if member.pod.node:
        return Stage.BOUND
    if member.hold is not None or member.state is MemberState.BINDING:
        return Stage.ARRIVED
    return Stage.PROMISED if member.state in PLACED else Stage.THERE


def finished_here(workload: Workload, pod: Pod) -> bool:
    """Whether the pod has succeeded in a start that still goes on.

    The start goes on while a member of its release is bound. If none is bound, its release must be the last one, and
    a controller of its members must have made another pod. That pod is for a slot that the release has lost, or for
    others than the completed indexes of a job. In a job, unexpected pods and pods without an index do not count.
    """
    templates = workload.members.slots.templates
    if pod.phase != "Succeeded" or pod.stamp is None or (templates and pod.identity not in templates):
        return False
    if workload.members.slots.refills(pod.identity, workload.members[pod.uid].ended):
        return False
    ours = [member.pod for member in workload.members if _counts(workload, member.pod)]
    bound = {other.stamp.release for other in ours if other.live and other.stamp is not None}
    if bound:
        return pod.stamp.release in bound
    done = [(other, other.stamp) for other in ours if other.phase == "Succeeded" and other.stamp is not None]
    last = max((stamp.at, stamp.release) for _, stamp in done)[1]
    start = [(other, stamp) for other, stamp in done if stamp.release == last]
    lost = len({other.identity for other, _ in start}) < max(stamp.size for _, stamp in start)
    owners = {other.owner for other in ours if other.live and other.owner}
    counts = pod.identity[0] in workload.members.slots.indexed if templates else lost
    return pod.stamp.release == last and counts and any(other.owner in owners for other, _ in start)


def _odd(pod: Pod) -> bool:
    unreadable = pod.group is not None and pod.group.problem is not None
    return bool(pod.device_claims or pod.claims or pod.foreign_gates or unreadable)
