"""kube-scheduler as it is known from its calls and from the pods: how far its queue is, and what it refuses.

It takes pods by priority, and those of one priority as they were created (its plugin PrioritySort). A pod behind many
others is tried late; one that was tried in vain is tried again at some time or other. The condition of a pod tells who
has refused it: Muster, or the plugins of kube-scheduler alone.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from math import inf

from extender.core.ledger.claims import Claim
from extender.core.workload.members import Step
from extender.core.workload.slots import Stage
from extender.core.workload.workload import Workload
from policies.model import GroupKey, Pod
from policies.placement.tenants import Tenants
from policies.words import many

_LONGER = "raise httpTimeout of kube-scheduler's entry with bindVerb and bind_timeout_s of Muster's settings"


class KubeQueue:
    """``taken_at``: when it last took a pod that it had not tried before; it may have found no node for it."""

    def __init__(self) -> None:
        self.taken_at = -inf
        self._tried_at = -inf  # the same of any pod
        self._given_up_at = -inf
        self._newest: dict[int, float] = {}  # by priority: when the newest pod that it took was created

    def taken(self, pod: Pod, now: float) -> None:
        """It asks about this pod, or has a node for it. One that was tried in vain before comes in any order."""
        self._tried_at = now
        if pod.refusal is None:
            self.taken_at = now
            self._newest[pod.priority] = max(pod.created, self._newest.get(pod.priority, -inf))

    def shown(self, pod: Pod, before: Pod | None, schedulers: Collection[str], now: float) -> None:
        """The watch shows the pod on a node; ``before``: the pod as it was known. A list says nothing of when."""
        if before is not None and not before.node and pod.scheduler in schedulers:
            self.taken(pod, now)

    def give_up(self, now: float, after_s: float) -> float:
        """A placement may be given up that it has not taken up for so long: 0, or until when that has to wait.

        Where it tries nobody at all it may stand still, and all would be given up in vain: then one is, to see.
        """
        if self._tried_at < now - after_s and now < (until := self._given_up_at + after_s):
            return until
        self._given_up_at = now
        return 0.0

    def has_yet_to_try(self, pod: Pod) -> bool:
        """Whether it has yet to come to this pod, for all that is known."""
        # Where it took one that is behind this pod, it is not this one's turn that is awaited.
        taken = self._newest.items()
        return pod.refusal is None and not any(at > pod.created for priority, at in taken if priority <= pod.priority)


def carrying_out(workload: Workload) -> bool:
    """Something that kube-scheduler needs before it can take the placement up is still to be written."""
    steps = workload.members.steps
    return bool(steps[Step.NOMINATING] or steps[Step.UNGATING])


def awaits_uptake(workload: Workload) -> bool:
    """Whether it is for kube-scheduler to take its placement up; what its gang waits for does not count.

    Nor do members in doubt: their room is not given back before the doubt ends.
    """
    members = workload.members
    for_others = members.holds or workload.releasing or carrying_out(workload) or workload.being_started
    return len(members.placed) > len(members.unknown) and not for_others


def is_still_queued(workload: Workload, queue: KubeQueue) -> bool:
    """Whether kube-scheduler has yet to come to some of its pods, for all that is known: it takes others that were
    before them, and the binds of those that it took last may be on their way. It has refused none of them."""
    waiting = [member.pod for member in workload.members.placed.values() if not member.pod.node and not member.hold]
    refused = bool(workload.retries.words) or any(pod.refusal is not None for pod in waiting)
    return not refused and any(map(queue.has_yet_to_try, waiting))


def too_slow(workload: Workload, lacking: int) -> str:
    """The pods of a job are created too slowly: so many do not exist."""
    pods = many(len(workload.members.slots.templates), "pod")
    return (
        f"{lacking} of {pods} did not exist when kube-scheduler gave up the binds of the others: "
        f"{_LONGER} (muster doctor says to what), or --kube-api-qps of kube-controller-manager"
    )


def too_few_held(workload: Workload, *, cut_short: bool) -> str:
    """Some have not reached bind. ``cut_short``: kube-scheduler waits no longer for the answers, but Muster would."""
    members, held = workload.members, workload.share(Stage.ARRIVED)
    missing = sorted(one.pod.name for one in members.placed.values() if one.hold is None)[:3]
    why = f"only {held} reached bind before the deadline; missing: {', '.join(missing)}"
    in_rounds = bool(members.steps[Step.LATER]) and cut_short
    return why + (f"; they are let in one after the other: {_LONGER}" if in_rounds else "")


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
