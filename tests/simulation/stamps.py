"""What a Binding of a gang's member says of its release: that it is whole when it is, and who can know of it."""

from __future__ import annotations

from collections.abc import Mapping

from extender.core.effects import Confirm, PostBinding
from policies.model import Pod
from tests.simulation.claims import Claims
from tests.simulation.shown import RELEASE_COMPLETE, Shown


def judge_stamp(effect: PostBinding, shown: Shown, claims: Claims) -> str | None:
    """Before ``claims`` knows of it. After a restart this stamp alone tells a broken release from a lost member."""
    key, pod = effect.group, shown.pods.get(effect.uid)
    sight = shown.sight(key) if key is not None else None
    if key is None or sight is None or pod is None or sight.needed is None:
        return None
    said = RELEASE_COMPLETE in effect.annotations
    reached = sight.count((*sight.bound, pod))
    if said and reached < sight.needed and claims.began(key) and key not in claims.whole:
        return f"{effect.uid} is stamped as the end of a whole release, and is number {reached} of {sight.needed}"
    others = any(one.group == key for one in claims.posting.values()) or any(
        uid != effect.uid and uid in shown.pods and shown.pods[uid].group_key == key for uid in claims.calls.values()
    )
    if not said and reached >= sight.needed and not others:
        return f"{effect.uid} makes its gang whole, is the last of the release, and is not stamped so"
    return None


def judge_confirmation(effect: Confirm, shown: Shown, claims: Claims) -> str | None:
    """A bound member is to say later that its release was whole."""
    key = effect.group
    sight = shown.sight(key) if key is not None else None
    if key is not None and sight is not None and claims.broken(key):
        return f"{effect.uid} is to say that its release is whole, and {len(sight.bound)} of {sight.needed} are bound"
    return None


def could_know(uid: str, members: Mapping[str, Pod], shown: Shown, claims: Claims) -> bool:
    """Whether the extender could know that the gang of this bound pod was whole, as it was. ``members``: all of it.

    A watch that lags behind for longer than a half-released gang has to be completed may have yet to show the last
    Binding of a release to whoever has taken over since.
    """
    pod = shown.pods.get(uid)
    if pod is None or pod.group_key is None or pod.stamp is None:
        return True  # nobody may evict it, whatever is known
    known = shown.members[pod.group_key]
    facts, told = ({one.uid: (one.node, one.phase, one.stamp) for one in of.values()} for of in (members, known))
    said = any(one.stamp.complete for one in known.values() if one.stamp and one.stamp.release == pod.stamp.release)
    return facts == told or said or pod.group_key in claims.whole
