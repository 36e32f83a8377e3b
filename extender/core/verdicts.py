"""What a pod's condition tells of who has refused it: Muster, or kube-scheduler's own plugins alone."""

from __future__ import annotations

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
