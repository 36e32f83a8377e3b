"""The stamps of a gang's Bindings: they declare a release complete when it is, to a reader that can know it."""

from __future__ import annotations

from extender.core.effects import Confirm, PostBinding
from policies.model import Stamp
from tests.simulation.claims import Claims
from tests.simulation.shown import GANG_UID, RELEASE_COMPLETE, Shown
from tests.simulation.sight import slot


def judge_stamp(effect: PostBinding, shown: Shown, claims: Claims) -> str | None:
    """Before ``claims`` knows of it. After a restart this stamp alone tells a broken release from a lost member."""
    key, pod = effect.group, shown.pods.get(effect.uid)
    sight = shown.sight(key) if key is not None else None
    if key is None or sight is None or pod is None or sight.needed is None:
        return None
    group, gang = shown.groups.get(key), effect.annotations.get(GANG_UID)
    stamps = (pod.stamp for pod in shown.members[key].values())
    if group is not None and gang != group.uid and any(stamp is not None and stamp.gang == gang for stamp in stamps):
        return None  # it ends the start of an earlier PodGroup, whose size is unknown now
    complete = RELEASE_COMPLETE in effect.annotations
    reached, whole = sight.count((*sight.bound, pod)), sight.enough((*sight.bound, pod))
    start = claims.admissions.slots.of.get(key)
    # Its job was made larger since it was started: the quorum is that of the start.
    grown = start is not None and start.podsets != shown.jobs.get(key) and reached >= start.podsets.first_wave
    if complete and not (whole or grown) and claims.releases.began(key) and key not in claims.releases.whole:
        return f"{effect.uid} is stamped as the end of a whole release, and is number {reached} of {sight.needed}"
    others = any(posted.group == key for posted in claims.posting.values()) or any(
        uid != effect.uid and uid in shown.pods and shown.pods[uid].group_key == key for uid in claims.calls.values()
    )
    # A job may have been edited since its pods were made: where both numbers differ, either may be the quorum.
    if not complete and sight.surely_enough((*sight.bound, pod)) and not others:
        return f"{effect.uid} makes its gang whole, is the last of the release, and is not stamped so"
    return None


def judge_confirmation(effect: Confirm, shown: Shown, claims: Claims) -> str | None:
    """A bound member is to say later that its release was whole."""
    key = effect.group
    sight, pod = shown.sight(key) if key is not None else None, shown.pods.get(effect.uid)
    # The number needed when its release began counts, and the pods that were bound with it tell that number.
    stamp = None if pod is None else pod.stamp
    known = stamp is not None and (could_know(effect.uid, shown, claims) or _bound_with(stamp, shown) >= stamp.quorum)
    if key is not None and sight is not None and claims.releases.broken(key) and not known:
        return f"{effect.uid} is to say that its release is whole, and {len(sight.bound)} of {sight.needed} are bound"
    return None


def _bound_with(stamp: Stamp, shown: Shown) -> int:
    """How many slots have that release, those of pods that an edit has moved to another gang as well."""
    return len(
        {slot(pod) for pod in shown.pods.values() if pod.stamp is not None and pod.stamp.release == stamp.release}
    )


def could_know(uid: str, shown: Shown, claims: Claims) -> bool:
    """Whether the extender could know that the gang of this bound pod was whole once.

    A member says so; or as many slots as the release needed exist, or did in this life of the extender. If only the
    last bound member says it, and is gone before the extender has read that, the extender cannot know.
    """
    pod = shown.pods.get(uid)
    if pod is None or pod.group_key is None or pod.stamp is None:
        return True  # it may not be evicted, whatever is known
    fellows = [fellow for fellow in shown.members[pod.group_key].values() if fellow.stamp is not None]
    start = [(fellow, fellow.stamp) for fellow in fellows if fellow.stamp and fellow.stamp.release == pod.stamp.release]
    if any(stamp.complete for _, stamp in start) or pod.group_key in claims.releases.whole:
        return True
    slots, sight = {slot(fellow): fellow for fellow, _ in start}, shown.sight(pod.group_key)
    if sight is not None and sight.roles and sight.lacks(slots.values()):
        return False
    return len(slots) >= min(stamp.quorum for _, stamp in start)
