"""Stamps: what a Binding writes on a pod, and the release that a restart reads from the stamps of a workload.

The last Binding of a release stamps ``release-complete``, which is then written on a second member, on another node.
So a restart tells a release that broke off from a complete one that has lost a pod. A pod on a node is in the gang of
its stamp: an edit after its Binding was asked for moves it nowhere.

One stamp is the deletion cost, by which a ReplicaSet removes members when it is scaled down, so that domains stay
whole. Members with an index need none: their place follows from it, and their controllers remove the highest ones
first.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime

from extender.core.instants import instant_of
from extender.core.ledger.claims import Claims
from extender.core.ledger.expected import moved_away
from extender.core.ledger.store import Process
from extender.core.workload.names import MovedPods
from extender.core.workload.workload import Workload
from policies.model import Pod, Stamp

COST = "controller.kubernetes.io/pod-deletion-cost"
"""Kubernetes' own annotation: a ReplicaSet deletes pods with the lowest cost first."""


def costs_of(workload: Workload, uids: Collection[str], claims: Claims) -> Mapping[str, Mapping[str, str]]:
    """The deletion costs of these members, from 1 up, as annotations.

    Members that are not removed by cost, or that state a cost themselves, get none. Members that were bound before keep
    theirs. Members in the domain with the fewest members have the lowest costs, compared from the widest level
    to the nearest. In one domain the highest rank has the lowest cost.
    """
    costed = [uid for uid in uids if workload.members[uid].pod.removed_by_cost]
    if not costed:
        return {}
    paths = {
        member.uid: tuple(name for _, name in claims.domains(member.pod.node or member.node))[::-1]
        for member in workload.members.live.values()
        if member.pod.node or member.node
    }
    sizes = Counter(path[: depth + 1] for path in paths.values() for depth in range(len(path)))

    def place(uid: str) -> tuple[tuple[int, str], ...]:
        return tuple((sizes[paths[uid][: depth + 1]], name) for depth, name in enumerate(paths[uid]))

    last_rank_first = sorted(paths, key=lambda uid: workload.members[uid].pod.rank, reverse=True)
    order = {uid: cost for cost, uid in enumerate(sorted(last_rank_first, key=place), 1)}
    return {uid: {COST: str(order[uid])} for uid in costed}


GANG_UID = "muster.dev/gang-uid"
GANG_NAME = "muster.dev/gang-name"
GANG_QUEUE = "muster.dev/gang-queue"
RELEASE = "muster.dev/release"
RELEASE_COMPLETE = "muster.dev/release-complete"
RELEASE_QUORUM = "muster.dev/release-quorum"
RELEASE_SIZE = "muster.dev/release-size"
RELEASED_AT = "muster.dev/released-at"
STAMPED = (GANG_UID, GANG_NAME, GANG_QUEUE, RELEASE, RELEASE_COMPLETE, RELEASE_QUORUM, RELEASE_SIZE, RELEASED_AT)
"""Annotations that a restart reads."""
NODE = "muster.dev/node"
RANK = "muster.dev/rank"
DOMAIN = "muster.dev/domain"
"""The member's rank and its domain of the nearest level.

The rank is its index. Where members have no index, or are of several series, it is the place among all members.
"""
WRITTEN = frozenset((*STAMPED, NODE, RANK, DOMAIN))
"""All keys of Muster that a Binding writes."""

_LONGEST_UID = 128
_LONGEST_NAME = 253
_NAME = re.compile(r"[-A-Za-z0-9_./]{0,317}", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)


def marks_of(stamp: Stamp) -> dict[str, str]:
    """The stamp as annotations of a Binding."""
    marks = {GANG_UID: stamp.gang, GANG_NAME: stamp.name, RELEASE: stamp.release}
    marks |= {RELEASE_QUORUM: str(stamp.quorum), RELEASE_SIZE: str(stamp.size)}
    if stamp.queue:
        marks[GANG_QUEUE] = stamp.queue
    if stamp.at:
        released = datetime.fromtimestamp(stamp.at, UTC).isoformat(timespec="milliseconds")
        marks[RELEASED_AT] = released.replace("+00:00", "Z")
    return marks | {RELEASE_COMPLETE: "true"} if stamp.complete else marks


def stamp_of(annotations: Mapping[str, str]) -> Stamp | None:
    """The stamp on a pod; None if there is none or it is invalid, since any client can write these annotations."""
    gang, release = annotations.get(GANG_UID), annotations.get(RELEASE)
    if not gang or not release or len(gang) > _LONGEST_UID or len(release) > _LONGEST_UID:
        return None
    name, queue = annotations.get(GANG_NAME, ""), annotations.get(GANG_QUEUE, "")
    if len(name) > _LONGEST_NAME or not (_NAME.fullmatch(name) and _NAME.fullmatch(queue)):
        return None
    quorum, size = (_count(annotations.get(key, "")) for key in (RELEASE_QUORUM, RELEASE_SIZE))
    complete = annotations.get(RELEASE_COMPLETE) == "true"
    return Stamp(
        gang, release, complete, quorum, size, instant_of(annotations.get(RELEASED_AT, "")) or 0.0, name, queue
    )


def _count(text: str) -> int:
    return int(text) if _NUMBER.fullmatch(text) else 0


def gang_uid(workload: Workload) -> str:
    """The UID of the workload's PodGroup, else of the controller of most members.

    A member that was moved from another gang has the controller of that gang.
    """
    if workload.group is not None:
        return workload.group.uid
    first = workload.members.first
    return workload.members.declared.owner or ("" if first is None else first.uid)


def gang_to_stamp(workload: Workload) -> str:
    """The gang that the next Binding stamps: the same as earlier Bindings of its release."""
    stamps = (member.pod.stamp for member in workload.members.bound.values())
    same = (stamp.gang for stamp in stamps if stamp is not None and stamp.release == workload.release.name)
    return next(same, "") or gang_uid(workload)


def ranks_of(workload: Workload, uids: Sequence[str]) -> dict[str, int]:
    """The ranks to stamp, by UID, of at least these members."""
    members = workload.members
    indexes = {uid: index for uid in uids if (index := members[uid].pod.index) is not None}
    one_series = len({pod.series for pod in workload.live}) <= 1
    if one_series and len(indexes) == len(uids):
        return indexes
    known = {pod.uid: pod for pod in (*workload.live, *(members[uid].pod for uid in uids))}
    ordered = sorted(known.values(), key=lambda pod: pod.rank)
    places = {pod.uid: place for place, pod in enumerate(ordered)}
    return places | indexes if one_series else places


def recover_release(
    process: Process, pods: Mapping[str, Pod], moved_pods: MovedPods, workload: Workload, now: float
) -> None:
    """Read from the stamps which release the workload had, and whether it was complete.

    Pods of an earlier start may be there yet: the release is that of live members, else the last one.
    """
    bound = [(pod.live, stamp.at, stamp.release) for pod in workload.bound if (stamp := pod.stamp) is not None]
    name = max(bound, default=(False, 0.0, ""))[2]
    stamps = [stamp for pod in _stamped(pods, moved_pods, workload, name) if (stamp := pod.stamp) is not None]
    began = min((stamp.at for stamp in stamps if stamp.at), default=None)
    at = None if began is None else min(began + process.wall_offset, now)
    workload.release.recover(
        name, at, complete=workload.has_bound_quorum or was_whole(pods, moved_pods, workload, name)
    )


def was_whole(pods: Mapping[str, Pod], moved_pods: MovedPods, workload: Workload, release: str) -> bool:
    """Whether the stamps say that this release was bound completely, whatever is needed now.

    A release that broke off has bound fewer slots than its quorum, or fewer of a podset or role than that needs. Stamps
    of an earlier version have no quorum. Such a release is complete unless the member that was to be bound last, whose
    UID is its name, is still there.
    """
    podsets, stamped = workload.podsets, _stamped(pods, moved_pods, workload, release)
    stamps = [stamp for pod in stamped if (stamp := pod.stamp) is not None]
    if any(stamp.complete for stamp in stamps):
        return True
    quorum = min((stamp.quorum for stamp in stamps if stamp.quorum), default=None)
    if quorum is None:
        return bool(stamped) and release not in workload.members
    slots = {pod.identity: pod for pod in stamped}
    of = Counter(f"{pod.owner}{pod.series}" for pod in slots.values())
    short = podsets is not None and podsets.short(lambda podset: of[podset.prefix], together=True) is not None
    roles = Counter(pod.group.role for pod in slots.values() if pod.group)
    return len(slots) >= quorum and not short and all(roles[role] >= least for role, least in workload.minima)


def _stamped(pods: Mapping[str, Pod], moved_pods: MovedPods, workload: Workload, release: str) -> list[Pod]:
    """Pods that were bound with this release.

    Pods of the job that an edit moved to another gang since count as much as members.
    """
    bound = [*(member.pod for member in workload.members), *moved_away(pods, moved_pods, workload)]
    return [pod for pod in bound if pod.stamp is not None and pod.stamp.release == release]
