"""kube-scheduler's queue and refusals, as known from its calls and from the pods.

kube-scheduler takes pods by priority, and those of one priority in the order of creation (its plugin PrioritySort). A
pod behind many others is tried late; after a failed try it is tried again at an unknown time. The condition of a pod
shows what has refused it: Muster, or only kube-scheduler's plugins.
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
    """The position of kube-scheduler in its queue.

    ``new_pod_at``: when it last took a pod that it had not tried before, whether it found a node or not.
    """

    def __init__(self) -> None:
        self.new_pod_at = -inf
        self._tried_at = -inf  # when it last took any pod
        self._given_up_at = -inf
        self._newest: dict[int, float] = {}  # by priority: the creation of the newest pod that it took

    def note_try(self, pod: Pod, now: float) -> None:
        """Record that kube-scheduler asks about the pod, or has found a node for it. Pods that failed before come in
        any order."""
        self._tried_at = now
        if pod.refusal is None:
            self.new_pod_at = now
            self._newest[pod.priority] = max(pod.created, self._newest.get(pod.priority, -inf))

    def note_bound(self, pod: Pod, before: Pod | None, schedulers: Collection[str], now: float) -> None:
        """Record a pod that the watch shows on a node. ``before``: the pod as known; None from a list, which has no
        time."""
        if before is not None and not before.node and pod.scheduler in schedulers:
            self.note_try(pod, now)

    def give_up(self, now: float, after_s: float) -> float:
        """Return 0 if a placement that was not taken up for ``after_s`` may be revoked now, else the instant to wait
        for.

        If kube-scheduler tries no pod at all it may be stopped, and revoking all placements would not help. Then one is
        revoked each time, as a test.
        """
        if self._tried_at < now - after_s and now < (until := self._given_up_at + after_s):
            return until
        self._given_up_at = now
        return 0.0

    def has_yet_to_try(self, pod: Pod) -> bool:
        """Whether kube-scheduler has not come to this pod yet, as far as is known."""
        # If it took a pod that comes after this one, this pod's turn is over.
        taken = self._newest.items()
        return pod.refusal is None and not any(at > pod.created for priority, at in taken if priority <= pod.priority)


def carrying_out(workload: Workload) -> bool:
    """Whether a write that kube-scheduler needs before it can take up the placement is still under way."""
    steps = workload.members.steps
    return bool(steps[Step.NOMINATING] or steps[Step.UNGATING])


def awaits_uptake(workload: Workload) -> bool:
    """Whether only kube-scheduler's uptake of the placement is awaited; what its gang waits for does not count.

    Nor do members whose Binding has an unknown outcome: their room is not given back before that is known.
    """
    members = workload.members
    for_others = members.holds or workload.releasing or carrying_out(workload) or workload.being_started
    return len(members.placed) > len(members.unknown) and not for_others


def is_still_queued(workload: Workload, queue: KubeQueue) -> bool:
    """Whether kube-scheduler has yet to come to some of the pods, as far as is known, and has refused none of them.

    It takes pods that come before them in its queue, and the bind calls for the last of those may be under way.
    """
    waiting = [member.pod for member in workload.members.placed.values() if not member.pod.node and not member.hold]
    refused = bool(workload.retries.words) or any(pod.refusal is not None for pod in waiting)
    return not refused and any(map(queue.has_yet_to_try, waiting))


def too_slow(workload: Workload, lacking: int) -> str:
    """The reason text if the pods of a job are created too slowly. ``lacking``: how many do not exist."""
    pods = many(len(workload.members.slots.templates), "pod")
    return (
        f"{lacking} of {pods} did not exist when kube-scheduler gave up the binds of the others: "
        f"{_LONGER} (muster doctor says to what), or --kube-api-qps of kube-controller-manager"
    )


def too_few_held(workload: Workload, *, cut_short: bool) -> str:
    """The reason text if members have not reached bind in time.

    ``cut_short``: kube-scheduler waits for the answer for less long than Muster would.
    """
    members, held = workload.members, workload.share(Stage.ARRIVED)
    missing = sorted(member.pod.name for member in members.placed.values() if member.hold is None)[:3]
    why = f"only {held} reached bind before the deadline; missing: {', '.join(missing)}"
    in_rounds = bool(members.steps[Step.LATER]) and cut_short
    return why + (f"; they are let in one after the other: {_LONGER}" if in_rounds else "")


GANG_WAITS = "Muster: the gang of this pod has no placement yet"
ROOM_RESERVED = "Muster: the room here is kept for a gang that is starting"
LEFT_OUT = "Muster has failed on this version of the pod, and leaves it out until it changes"
REFUSALS = GANG_WAITS, ROOM_RESERVED, LEFT_OUT
"""The texts with which Muster refuses pods. They must not vary: kube-scheduler retries a pod at once when the text of
its refusal changes."""

_LONGEST = 300
_OURS = re.compile(r"\d+ OURS, |, \d+ OURS|\d+ OURS".replace("OURS", f"(?:{'|'.join(map(re.escape, REFUSALS))})"))
_COUNTED = re.compile(r"[^:]*: \d+ ")
"""Text like ``"0/4 nodes are available: 3 "``, before the text of a plugin about that number of nodes."""


def words_of(pod: Pod) -> str:
    """The message of the pod's PodScheduled condition, in printable ASCII; empty unless only plugins refused it."""
    return "" if pod.refusal is None or refusals_by_muster(pod) else _printable(pod.refusal)


def refusals_by_muster(pod: Pod) -> list[str]:
    """The texts in the pod's PodScheduled condition with which Muster has refused it."""
    return [text for text in REFUSALS if text in (pod.refusal or "")]


def parked(pod: Pod, tenants: Tenants) -> bool:
    """Whether plugins may have refused the pod for its relation to other pods. Then only an event of those wakes it.

    Other pods may repel it whatever it demands itself: then a new node does not wake it.
    """
    return (bool(pod.constraints) or tenants.repels(pod.namespace)) and bool(words_of(pod))


def part_of_plugins(pod: Pod) -> str:
    """The part of the condition's message that plugins wrote, where Muster refused the pod on other nodes; else
    empty."""
    text = _printable(_OURS.sub("", pod.refusal or ""))
    return text if _COUNTED.match(text) else ""


def _printable(text: str) -> str:
    return "".join(char if " " <= char <= "~" else "?" for char in text[:_LONGEST]).rstrip(". ")


class Refusing:
    """An index of ``Workload.retries`` by node: the workloads with a member that kube-scheduler refused there."""

    def __init__(self) -> None:
        self._by_node: dict[str, dict[GroupKey, None]] = {}

    def remember(self, node: str, key: GroupKey) -> None:
        """Record that kube-scheduler refused a member of the workload on the node."""
        self._by_node.setdefault(node, {})[key] = None

    def forget(self, node: str, given_back: Claim | None, workloads: Mapping[GroupKey, Workload]) -> Iterator[Workload]:
        """Yield the workloads that may try the node again, because it changed or room on it was given back.

        ``given_back``: the claim that has ended; None if the node has changed.

        Freed room that was only promised never triggers a retry at once. It triggers none for the former holder of the
        promise or for a workload that was refused repeatedly: two of them would retry each other indefinitely.
        """
        promise = given_back if given_back is not None and given_back.promised else None
        for key in self._by_node.pop(node, {}):
            workload = workloads.get(key)
            if workload is not None and promise is not None and (workload.retries.resting or promise.workload == key):
                self.remember(node, key)
            elif workload is not None:
                workload.retries.forgive(node, at_once=promise is None)
                yield workload
