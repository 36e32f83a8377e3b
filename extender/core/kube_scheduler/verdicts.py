"""What a pod's condition tells of who has refused it, Muster or kube-scheduler's own plugins alone; who remembers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from extender.core.claim import Claim
from extender.core.workload import Workload
from policies.model import GroupKey, Pod
from policies.placement.tenants import Tenants

GANG_WAITS = "Muster: the gang of this pod has no placement yet"
"""Constant on purpose: kube-scheduler retries a pod at once when the text of its refusal changes."""

_LONGEST = 300
_OURS = re.compile(r"\d+ OURS, |, \d+ OURS|\d+ OURS".replace("OURS", re.escape(GANG_WAITS)))
_COUNTED = re.compile(r"[^:]*: \d+ ")
"""``"0/4 nodes are available: 3 "``, before what a plugin says of so many nodes."""


def words_of(pod: Pod) -> str:
    """The message of its PodScheduled condition, in printable ASCII; empty unless plugins alone refused it."""
    return "" if pod.refusal is None or GANG_WAITS in pod.refusal else _printable(pod.refusal)


def parked(pod: Pod, tenants: Tenants) -> bool:
    """Whether plugins may have refused it for what pods demand of each other: only an event of those wakes it. Others
    may keep it away, whatever it demands itself: then not even a new node does."""
    return (bool(pod.constraints) or tenants.repels(pod.namespace)) and bool(words_of(pod))


def part_of_plugins(pod: Pod) -> str:
    """The same where Muster refused it on some nodes: what plugins said of the others; empty if there were none."""
    text = _printable(_OURS.sub("", pod.refusal or ""))
    return text if _COUNTED.match(text) else ""


def _printable(text: str) -> str:
    return "".join(char if " " <= char <= "~" else "?" for char in text[:_LONGEST]).rstrip(". ")


class Refusing:
    """An index by node of what is remembered in ``Workload.retries``."""

    def __init__(self) -> None:
        self._by_node: dict[str, dict[GroupKey, None]] = {}

    def remember(self, node: str, key: GroupKey) -> None:
        """It would not have a member of that one there."""
        self._by_node.setdefault(node, {})[key] = None

    def forget(self, node: str, given_back: Claim | None, workloads: Mapping[GroupKey, Workload]) -> Iterator[Workload]:
        """The node has changed, or somebody has given room on it back: who may try it again by that.

        Room that was only promised is no reason for haste, and none at all for whom it was promised to or who is
        refused again and again: two would send each other back for ever.
        """
        promise = given_back if given_back is not None and given_back.promised else None
        for key in self._by_node.pop(node, {}):
            workload = workloads.get(key)
            if workload is not None and promise is not None and (workload.retries.resting or promise.workload == key):
                self.remember(node, key)
            elif workload is not None:
                workload.retries.forgive(node, at_once=promise is None)
                yield workload
