"""The slow twin of what is counted event by event: everything about one gang, worked out anew from its members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from extender.core.gang import Gang
from extender.core.roster import Said, Stage
from extender.core.starts import Identity
from policies.model import Pod


def differences(gang: Gang) -> Iterator[str]:
    """Where the counts kept up to date disagree with a fresh count."""
    roster, stages = gang.roster, _stages(gang)
    for stage in list(Stage)[1:]:
        fresh = sum(reached >= stage for reached in stages.values())
        if gang.reached(stage) != fresh:
            yield f"{gang.reached(stage)} identities are counted as {stage.name}, but they are {fresh}: {stages}"
    live = [pod for pod in gang.members.values() if _counts(gang, pod) and pod.live]
    indexes: dict[str, tuple[object, object]] = {
        "live": (dict(roster.live), {pod.uid: pod for pod in live}),
        "bound": (dict(roster.bound), {pod.uid: pod for pod in live if pod.node}),
        "confirmed": (
            dict(roster.confirmed),
            {pod.uid: pod for pod in live if pod.node and pod.stamp is not None and pod.stamp.complete},
        ),
        "odd": (dict(roster.odd), {pod.uid: pod for pod in live if _odd(pod)}),
        "schedulers": (dict(roster.schedulers), Counter(pod.scheduler for pod in live)),
        "said": (_told(roster.said), _said(live)),
        "wanted": (_told(roster.wanted), _said([pod for pod in live if not pod.node])),
        "started": (roster.started, any(pod.stamp is not None for pod in live)),
        "first": (roster.first, min(live, key=lambda pod: (pod.created, pod.uid), default=None)),
        "unplaced": (roster.unplaced(), _unplaced(live, stages)),
    }
    for name, (kept, found) in indexes.items():
        if kept != found:
            yield f"{name} is kept as {kept}, but a fresh look finds {found}"
    if gang.holds:
        first = min(hold.expires for hold in gang.holds.values()), min(hold.arrived for hold in gang.holds.values())
        if (gang.holds.first_to_expire(), gang.holds.first_arrived()) != first:
            yield f"the first hold is not the one that ends at {first[0]} or came at {first[1]}"


def _told(kept: Said) -> list[object]:
    return [kept.priorities, kept.dialects, kept.sizes, kept.topologies]


def _said(pods: list[Pod]) -> list[object]:
    groups = [pod.group for pod in pods if pod.group is not None]
    return [
        Counter(pod.priority for pod in pods),
        Counter(group.dialect.value for group in groups),
        Counter(group.min_member for group in groups),
        Counter(pod.topology for pod in pods),
    ]


def _counts(gang: Gang, pod: Pod) -> bool:
    """A PodGroup made anew under the same name is another gang: pods stamped by the old one do not count."""
    return gang.group is None or pod.stamp is None or pod.stamp.gang == gang.group.uid


def _stages(gang: Gang) -> dict[Identity, Stage]:
    stages: dict[Identity, Stage] = {}
    for pod in gang.members.values():
        if not _counts(gang, pod):
            continue
        stage = _stage(gang, pod) if pod.live else Stage.BOUND if finished_here(gang, pod) else Stage.ABSENT
        if stage is not Stage.ABSENT:
            stages[pod.identity] = max(stage, stages.get(pod.identity, stage))
    return stages


def _stage(gang: Gang, pod: Pod) -> Stage:
    if pod.node:
        return Stage.BOUND
    if pod.uid in gang.holds or pod.uid in gang.posting:
        return Stage.ARRIVED
    return Stage.PROMISED if pod.uid in gang.placement else Stage.THERE


def finished_here(gang: Gang, pod: Pod) -> bool:
    """It succeeded in a start that goes on: a member of its release is bound, or, when nobody is, its release is the
    last one, has lost a slot, and a controller of its members has made another pod."""
    if pod.phase != "Succeeded" or pod.stamp is None:
        return False
    ours = [other for other in gang.members.values() if _counts(gang, other)]
    bound = {other.stamp.release for other in ours if other.live and other.stamp is not None}
    if bound:
        return pod.stamp.release in bound
    done = [(other, other.stamp) for other in ours if other.phase == "Succeeded" and other.stamp is not None]
    last = max((stamp.at, stamp.release) for _, stamp in done)[1]
    start = [(other, stamp) for other, stamp in done if stamp.release == last]
    lost = len({other.identity for other, _ in start}) < max(stamp.size for _, stamp in start)
    owners = {other.owner for other in ours if other.live and other.owner}
    return pod.stamp.release == last and lost and any(other.owner in owners for other, _ in start)


def _unplaced(live: list[Pod], stages: dict[Identity, Stage]) -> list[Pod]:
    found: dict[Identity, Pod] = {}
    for pod in sorted(live, key=lambda pod: pod.rank):
        if stages[pod.identity] is Stage.THERE:
            found.setdefault(pod.identity, pod)
    return list(found.values())


def _odd(pod: Pod) -> bool:
    unreadable = pod.group is not None and pod.group.problem is not None
    return bool(pod.device_claims or pod.claims or pod.foreign_gates or unreadable)
