"""What kube-scheduler's own plugins say of a pod that they refuse."""

from __future__ import annotations

from extender.core.gang import Gang
from policies.model import Pod

GANG_WAITS = "Muster: the gang of this pod has no placement yet"
"""Constant on purpose: kube-scheduler retries a pod at once when the text of its refusal changes."""

_LONGEST = 300


def words_of(pod: Pod) -> str:
    """The message of its PodScheduled condition, in printable ASCII; empty unless plugins alone refused it."""
    if pod.refusal is None or GANG_WAITS in pod.refusal:
        return ""
    text = "".join(char if " " <= char <= "~" else "?" for char in pod.refusal[:_LONGEST])
    return text.rstrip(". ")


def refused_by_plugins(gang: Gang, old: Pod, pod: Pod) -> bool:
    """A change of the pod shows that its planned node was turned down, after the nomination was known."""
    node = gang.placement.get(pod.uid)
    if node is None or pod.uid in gang.holds or not words_of(pod) or old.nominated_node != node:
        return False
    # The same words are not written twice; but when nobody can be preempted the nomination is cleared.
    cleared = pod.nominated_node is None and pod.uid not in gang.unconfirmed
    return pod.refusal != old.refusal or cleared
