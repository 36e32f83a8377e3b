"""What a Binding writes on a pod, and what is read of it again after a restart."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from extender.core.instants import instant_of
from extender.core.workload import Workload
from policies.model import Dialect, GroupRef, Stamp

GANG_UID = "muster.dev/gang-uid"
GANG_NAME = "muster.dev/gang-name"
GANG_QUEUE = "muster.dev/gang-queue"
RELEASE = "muster.dev/release"
RELEASE_COMPLETE = "muster.dev/release-complete"
RELEASE_QUORUM = "muster.dev/release-quorum"
RELEASE_SIZE = "muster.dev/release-size"
RELEASED_AT = "muster.dev/released-at"
STAMPED = (GANG_UID, GANG_NAME, GANG_QUEUE, RELEASE, RELEASE_COMPLETE, RELEASE_QUORUM, RELEASE_SIZE, RELEASED_AT)
"""What is read again after a restart."""
NODE = "muster.dev/node"
RANK = "muster.dev/rank"
DOMAIN = "muster.dev/domain"
"""The member's index, or its place among all where members have none or several series of them, and its domain of the
nearest level."""
WRITTEN = frozenset((*STAMPED, NODE, RANK, DOMAIN))
"""All keys of ours that a Binding writes."""

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
    """The stamp as it stands on a pod, or None. Anybody can write these: what cannot be read was not said."""
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


def stamped_group(group: GroupRef | None, stamp: Stamp | None) -> GroupRef | None:
    """The gang of a pod on a node that names ``group``. It came there with the gang of its stamp, whose room and quota
    it uses: nobody takes it out of that by an edit."""
    if stamp is None or stamp.name in ("", group.name if group else ""):
        return group
    return GroupRef(stamp.name, group.dialect if group else Dialect.ANNOTATION, stamp.quorum or None)


def _count(text: str) -> int:
    return int(text) if _NUMBER.fullmatch(text) else 0


def gang_uid(workload: Workload) -> str:
    """The UID of its PodGroup, else of the controller of most members: one that was moved from another gang has the
    controller of that gang.
    """
    if workload.group is not None:
        return workload.group.uid
    first = workload.members.first
    return workload.members.said.owner or ("" if first is None else first.uid)


def gang_to_stamp(workload: Workload) -> str:
    """What the next Binding says of the gang: the same as those of its release before, whoever has come or gone."""
    stamps = (member.pod.stamp for member in workload.members.bound.values())
    same = (stamp.gang for stamp in stamps if stamp is not None and stamp.release == workload.release.name)
    return next(same, "") or gang_uid(workload)


def ranks_of(workload: Workload, uids: Sequence[str]) -> dict[str, int]:
    """At least for these members: what is stamped on them."""
    members = workload.members
    indexes = {uid: index for uid in uids if (index := members[uid].pod.index) is not None}
    one_series = len({pod.series for pod in workload.live}) <= 1
    if one_series and len(indexes) == len(uids):
        return indexes
    known = {pod.uid: pod for pod in (*workload.live, *(members[uid].pod for uid in uids))}
    ordered = sorted(known.values(), key=lambda pod: pod.rank)
    places = {pod.uid: place for place, pod in enumerate(ordered)}
    return places | indexes if one_series else places
