"""What keeps a gang from being planned at all, found before any node is looked at: contradictions, gates, claims."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from extender.core.gang import Gang, Reason
from policies.model import Dialect, Pod


def problem(gang: Gang, schedulers: Collection[str], claim_bound: Callable[[Pod], str | None]) -> Reason | None:
    """The first thing that somebody has to mend or that has to happen; None when the gang can be planned.

    ``claim_bound(pod)`` names a volume claim of the pod that has no volume yet, or None.
    """
    live = gang.live
    return (
        _contradiction(gang, live, schedulers)
        or _no_quorum_stated(gang, live)
        or _unsupported(live, claim_bound)
        or _gated(gang, live)
        or _too_few(gang, live)
    )


def _contradiction(gang: Gang, live: list[Pod], schedulers: Collection[str]) -> Reason | None:
    for pod in live:
        if pod.group is not None and pod.group.problem is not None:
            return Reason("InvalidPodGroup", f"pod {pod.name}: {pod.group.problem}")
    foreign = [pod for pod in live if pod.scheduler not in schedulers]
    if foreign:
        return _disagreement("schedulers", live, lambda pod: pod.scheduler)
    if gang.group is None and len(_values(live, lambda pod: pod.group.min_member if pod.group else None)) > 1:
        return _disagreement("minMembers", live, lambda pod: pod.group.min_member if pod.group else None)
    if len(_values(live, lambda pod: pod.priority)) > 1:
        return _disagreement("priorities", live, lambda pod: pod.priority)
    if len(_values(live, lambda pod: pod.group.dialect.value if pod.group else "")) > 1:
        return _disagreement("dialects", live, lambda pod: pod.group.dialect.value if pod.group else "")
    return None


def _no_quorum_stated(gang: Gang, live: list[Pod]) -> Reason | None:
    if gang.group is not None and gang.group.deleting:
        return Reason("PodGroupDeleted", "its PodGroup is being deleted")
    if gang.group is not None and gang.group.min_member < 1:
        return Reason("InvalidPodGroup", "the minMember of its PodGroup is not a positive number")
    if gang.min_member is not None:
        return None
    if any(pod.group is not None and pod.group.dialect is Dialect.COSCHEDULING for pod in live):
        return Reason(
            "PodGroupMissing", f"there is no PodGroup named {gang.key.name} in namespace {gang.key.namespace}"
        )
    return Reason("MinMemberMissing", "no member says muster.dev/min-member: the size of the gang is never guessed")


def _unsupported(live: list[Pod], claim_bound: Callable[[Pod], str | None]) -> Reason | None:
    waiting = [pod for pod in live if not pod.node]
    for pod in waiting:
        if pod.device_claims:
            return Reason(
                "ResourceClaims", f"pod {pod.name} uses resource claims (DRA), which gangs do not support yet"
            )
        if (claim := claim_bound(pod)) is not None:
            return Reason("VolumeNotBound", f"volume claim {claim} of pod {pod.name} has no volume; bind it first")
    return None


def _gated(gang: Gang, live: list[Pod]) -> Reason | None:
    """A running gang goes on; only one that has yet to start waits for every member's gates."""
    gated = [pod for pod in live if pod.foreign_gates]
    if not gated or gang.complete:
        return None
    gates = ", ".join(sorted({gate for pod in gated for gate in pod.foreign_gates}))
    return Reason("Gated", f"{len(gated)} of {len(live)} members are gated by {gates}", warning=False)


def _too_few(gang: Gang, live: list[Pod]) -> Reason | None:
    needed = gang.min_member or 0
    there = len(gang.present(live))
    if gang.complete or there >= needed:
        return None
    return Reason("MembersMissing", f"{there} of {needed} members exist", warning=False)


def _values(live: Iterable[Pod], of: Callable[[Pod], object]) -> dict[object, None]:
    return dict.fromkeys(of(pod) for pod in live)


def _disagreement(what: str, live: list[Pod], of: Callable[[Pod], object]) -> Reason:
    named = ", ".join(sorted("none" if value is None else str(value) for value in _values(live, of)))
    return Reason("Contradiction", f"its members have different {what}: {named}")
