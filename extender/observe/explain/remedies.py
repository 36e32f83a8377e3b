"""What to do about a waiting gang: sentences for its owner, each of them checked by counting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from extender.core.gang.pins import pinned_to_lost
from extender.core.member import Stage
from extender.core.reasons import Reason
from extender.core.state import State
from extender.core.workload import Workload
from extender.observe.explain.inquiry import Inquiry, fewest_ends, holders
from policies.model import Constraints, Node, Pod, Topology
from policies.placement.matching import admits, nodes_named
from policies.placement.snapshot import Domain, Rows
from policies.words import counted, devices, many

_STATES = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""With these begin the keys of taints that a node has while it cannot be used: it is to be mended, not tolerated."""
_DOMAINS = 2
"""Domains for which a remedy is worked out: those that come nearest."""
_NAMED = 4

_EASED: tuple[tuple[str, Callable[[Constraints], Constraints]], ...] = (
    ("do without host ports", lambda asked: replace(asked, ports=())),
    ("make the pod affinity preferred instead of required", lambda asked: replace(asked, affinity=())),
    ("make the pod anti-affinity preferred instead of required", lambda asked: replace(asked, anti_affinity=())),
    ("let the topology spread be ScheduleAnyway instead of DoNotSchedule", lambda asked: replace(asked, spread=())),
)
"""What the members could demand less of other pods."""

SAID = {
    "New": "nothing to do: Muster is about to look at it",
    "Placed": "nothing to do: kube-scheduler is carrying the placement out",
    "Holding": "nothing to do: kube-scheduler is working on the other members",
    "Releasing": "nothing to do: its Bindings are being posted",
    "Running": "nothing to do: it runs",
    "Ended": "nothing to do: it has ended; pods that are created again start as a gang again",
    "MinMemberMissing": "add the annotation muster.dev/min-member to its pods: how many members start together; or, "
    "if the message names the object that makes them, the label muster.dev/gang to that",
    "PodGroupMissing": "create a PodGroup object of that name in the namespace of the pods",
    "PodGroupDeleted": "create the PodGroup object again when the old one is gone",
    "InvalidPodGroup": "correct the pod template or PodGroup as the message says, and create the pods again",
    "Contradiction": "make the members agree: correct the pod template and create the pods again",
    "ResourceClaims": "ask for devices as extended resources (nvidia.com/gpu) instead of resourceClaims",
    "OfferedByDra": "use nodes whose devices a device plugin offers (in status.allocatable), or start the pods "
    "without a gang: kube-scheduler allocates devices by itself",
    "VolumeNotBound": "create the claim if there is none, and bind a volume to it first, or use a StorageClass with "
    "volumeBindingMode: Immediate; kubectl describe pvc says what the claim waits for",
    "OtherScheduler": "set Muster's schedulerName in the pod template and create the pods again",
    "TooManyShapes": "give the members of a role the same pod template, or raise max_gang_shapes in Muster's settings",
    "TooManyMembers": "use a smaller gang, or raise max_gang_members in Muster's settings",
    "TooManyGangs": "nothing to do: it is looked at when a gang that came before it starts or is deleted",
    "PolicyFailed": "correct the policy that the message names, or name another one in the settings",
    "Refused": "see which of kube-scheduler's own plugins refuses its pods: volumes, devices, plugins of others",
    "Gated": "the controller that set this gate has to remove it; Muster removes only its own",
    "UnknownTopology": "use a level that exists (muster domains lists them), add it to topology_levels in Muster's "
    "settings, or give every pod of a sliced gang an index: the message says which",
    "Split": "delete the members that the message finds elsewhere, or all of them; correct the labels of nodes if they "
    "are wrong",
    "NamespaceTerminating": "create it in another namespace, or in this one when it is gone and made anew; "
    "kubectl get namespace -o yaml shows what a deletion waits for",
    "Held": "take the label or annotation muster.dev/hold off the job",
    "NameTaken": "give the job another gang name (muster.dev/pod-group in its pod template), or none",
    "Trying": "nothing to do: the API server is asked about its pods",
    "PodsRefused": "do what the message says; it is asked again after a minute",
    "InvalidJob": "correct the job as the message says",
    "Stopping": "nothing to do: the job is planned again when its pods are gone",
    "Creating": "nothing to do: it is planned when the pods of the jobs before it exist",
    "SharedSpread": "nothing to do: it is planned when the other gang has started; a labelSelector that means the pods "
    "of one gang alone lets both start at once",
    "NoQuota": "wait for those that the message names, or raise the quota or the borrowing limit of the ClusterQueue, "
    "or the capability of the Queue; muster queues shows who uses it",
    "AwaitingNodes": "wait for the nodes that were asked for; kubectl get provisioningrequests shows what is asked for "
    "a job; where there are none, and for a gang, the autoscaler writes events on the pods",
    "QueueMissing": "name a queue that exists, a LocalQueue in the namespace, or create the one that the message names",
    "QueueInactive": "correct the queue object that the message names; muster queues shows what is wrong with it",
    "QueueStopped": "wait until whoever stopped the queue sets its stopPolicy to None again, or opens it",
    "QueueOrder": "wait for the one before it: its queue is StrictFIFO; BestEffortFIFO lets those behind it go first",
    "Preempting": "nothing to do: it starts when those who give way to it have gone",
    "Preempted": "nothing to do: when all of it has gone it waits for room like any other",
    "NotPlanned": "suspend the job to have it planned",
    "Partial": "replace the members that were lost (a Job does so by itself): their room is kept for a while",
}
"""What to do about every reason that is not a lack of room, by its code."""
TOLD_WITH_NUMBERS = ("MembersMissing", "NoRoom", "Forgotten")
"""The codes of the others."""


def remedies(state: State, gang: Workload, question: Inquiry | None, now: float) -> list[str]:
    """What would make it start, or go on; at least one sentence."""
    code = waits_for(gang).code
    if code == "MembersMissing":
        there, needed, which = gang.reached(Stage.THERE), gang.min_member or 0, "this gang"
        if there >= needed and (part := gang.short(Stage.THERE)) is not None:
            there, needed, which = part.there, part.least, f"this gang and {part.name}"
        lacking = counted(needed - there, "more pod", "that names", "that name")
        said = [f"create {lacking} {which}; {counted(there, 'pod', 'exists', 'exist')}"]
        first = gang.members.first
        maker = first.controller if first is not None and first.group is not None and not first.group.owner else None
        if maker is not None and maker.kind == "StatefulSet":
            said.append(
                f'name no gang in the pods of StatefulSet {maker.name}, and give it the label muster.dev/gang: "true": '
                "then room is kept for those that come later"
            )
            said.append(
                f"create StatefulSet {maker.name} anew with podManagementPolicy: Parallel (it cannot be changed)"
            )
        return said
    if code == "Forgotten" or (code in ("NoRoom", "Refused") and now < gang.retries.not_before):
        return [f"nothing to do: it is planned again in {max(0.0, gang.retries.not_before - now):.0f} s"]
    if code != "NoRoom" or question is None:
        return [SAID.get(code, "see the message")]
    return list(_room(state, question)) or ["wait for room: the gang is planned as soon as enough is free"]


def waits_for(gang: Workload) -> Reason:
    """The reason of those of its members that wait."""
    return gang.telling.surplus or gang.telling.reason


def nearest(question: Inquiry, count: int) -> list[Domain]:
    """The domains of the level that has to hold it which have most room for it, the best first; else the cluster.

    A replacement has one: where the gang is.
    """
    level = question.scope
    if level is None:
        return [question.anywhere]
    if question.role.home is not None:
        return [level.domain(question.role.home[1])]
    found, size = level.tally(question.role.room)[0], level.tally(np.ones(len(level.codes), dtype=np.int64))[0]
    codes = [int(code) for code in np.lexsort((level.rank, -size, -found)) if size[code]]
    return [level.domain(code) for code in codes[:count]]


def _room(state: State, question: Inquiry) -> Iterator[str]:
    if question.plan(question.members) is not None:
        yield "nothing to do: there is room by now, and the gang is planned in a moment"
        return
    domains = nearest(question, _DOMAINS)
    if not domains:
        yield f"label nodes with {question.level.key}: no node has this label" if question.level else "add nodes"
        return
    if lost := pinned_to_lost(question.gang, state):
        names = _list([pod.name for pod in lost])
        yield f"delete {names} and create new pods: the nodes are gone, and no pod can be unpinned from its nodes"
        return
    yield from _larger_than_all(question)
    if question.led:
        yield "suspend the job to have all of it planned anew: its pod template names the nodes of its plan"
    for domain in domains:
        yield from _in(state, question, domain)
    if not question.required_as_whole:
        yield from _ends(state, question, question.anywhere, "the cluster")
    if question.scope is not None:
        softer = [replace(pod, topology=Topology()) for pod in question.members]
        yield from _without("use preferred-topology instead of required-topology", softer, question)
    yield from _unpinned(state, question)
    for what, ease in _EASED:
        eased = [replace(pod, constraints=ease(pod.constraints)) for pod in question.members]
        if eased != question.members:
            yield from _without(what, eased, question)


def _in(state: State, question: Inquiry, domain: Domain) -> Iterator[str]:
    place_name = domain.name if question.scope is None else f"{question.scope.name} {domain.name}"
    rows = domain.rows
    short, want = question.want - question.fitting(rows), question.want
    if question.largest(rows) < want or (short <= 0 and question.sums):
        return
    one = devices(question.role.requests)
    least = "" if question.sums else "at least "
    of_which = ", on nodes that reach its volumes" if question.held else ""
    where = place_name + (of_which or (", of those that its pods name" if question.named else ""))
    if short > 0 and question.one_to_a_node():
        yield f"{least}{many(short, 'more node')} with {one} free in {where}"
    elif short > 0:
        yield f"room for {least}{many(short, 'more member')} ({one} each) in {where}"
    if not question.counts:
        return
    if question.required_as_whole:
        yield from _ends(state, question, domain, place_name)
    if short > 0:
        yield from _closed(state, question, rows, place_name)


def _ends(state: State, question: Inquiry, domain: Domain, place_name: str) -> Iterator[str]:
    """Whom to wait for."""
    if ends := fewest_ends(question, domain.rows, holders(state, question, domain.rows)):
        yield f"wait for {_list(ends)} to finish: that frees enough in {place_name}"


def _closed(state: State, question: Inquiry, rows: Rows, place_name: str) -> Iterator[str]:
    """Nodes with room that are cordoned, not ready or tainted: opening them may be enough."""
    view, eligible = question.snapshot, question.eligible
    room = view.slots(question.role.requests)
    selection = question.role.pods[0].selection
    shut: list[str] = []
    taints: Counter[str] = Counter()
    gained = 0
    for row in rows.tolist():
        if eligible[row] or not room[row]:
            continue
        node = state.claims.nodes[view.names[row]]
        lasting = tuple(taint for taint in node.taints if not taint.key.startswith(_STATES))
        if admits(replace(node, taints=lasting, unschedulable=False, ready=True), selection):
            shut.append(f"{node.name} ({_standing(node)})")
            gained += int(room[row])
        elif admits(replace(node, taints=(), unschedulable=False, ready=True), selection):
            hard = (taint for taint in lasting if taint.effect != "PreferNoSchedule")
            taints.update(f"{one.key}{'=' * bool(one.value)}{one.value}:{one.effect}" for one in hard)
    if shut:
        enough = " (enough)" if question.fitting(rows) + gained >= question.want else " (a help, but not enough)"
        back = f"put {many(len(shut), 'node')} with room in {place_name} back in service"
        yield f"{back}{enough * question.sums}: {_list(shut)}"
    for taint, count in sorted(taints.items(), key=lambda one: (-one[1], one[0]))[:1]:
        tainted = counted(count, "node", "has", "have")
        yield f"add a toleration of {taint} to the pods: {tainted} this taint and room in {place_name}"


def _unpinned(state: State, question: Inquiry) -> Iterator[str]:
    """Pods, and not what a job makes pods of, that are pinned to nodes: new ones might go elsewhere."""
    freed = {
        pod.uid: replace(pod, selection=replace(pod.selection, affinity=None))
        for pod in question.members
        if pod.uid in state.pods and nodes_named(pod.selection) and not question.led
    }
    if freed:
        names = _list([pod.name for pod in freed.values()])
        what = f"delete {names} and create new pods, as no pod can be unpinned from its nodes"
        yield from _without(what, [freed.get(pod.uid, pod) for pod in question.members], question)


def _standing(node: Node) -> str:
    """Why it takes nobody."""
    if not node.ready or node.unschedulable:
        return "cordoned" if node.ready else "not ready"
    return ", ".join(taint.key for taint in node.taints if taint.key.startswith(_STATES))


def _without(what: str, members: Sequence[Pod], question: Inquiry) -> Iterator[str]:
    """Whether it is that alone that it waits for."""
    if (found := question.plan(members)) is not None:
        yield f"{what}: it would fit now, on {many(len(set(found.nodes.values())), 'node')}"


def _larger_than_all(question: Inquiry) -> Iterator[str]:
    """What it needs if no end of others would be enough."""
    if (largest := _largest(question)) < question.want:
        yield _too_large(question, largest)
    elif question.role.relations is None and not question.sums and not question.holds_emptied():
        yield "add nodes or use fewer pods: even if all nodes that are open to it were empty, not all of it would fit"


def _largest(question: Inquiry) -> int:
    """The most members that one of the domains could take if it were empty."""
    level = question.scope
    if level is None:
        return question.largest(question.anywhere.rows)
    return max((question.largest(level.domain(code).rows) for code in range(len(level.names))), default=0)


def _too_large(question: Inquiry, largest: int) -> str:
    requests = question.role.requests
    if question.nowhere and question.held:
        return "bring back a node that reaches all volumes of a pod and matches its selector, or move the data"
    if question.nowhere and question.named:
        return (
            "name other nodes in the node selector or affinity of the pods, or bring those back: none of them is there"
        )
    if question.nowhere:
        return "add nodes that match the node selector and the required affinity of the pods: there are none"
    if not question.largest(question.anywhere.rows):
        short = question.short_even_empty()
        return f"use smaller pods or add larger nodes: even empty, no node that matches has {short}"
    fits = f"{largest} of {question.want} ({devices(requests)} each)"
    if question.scope is None:
        what = "move volumes" if question.held else "name more nodes" if question.named else "add nodes"
        return f"{what} or use fewer pods: even empty, the nodes that match fit {fits}"
    return f"require a wider level or use fewer pods: even empty, the largest {question.scope.name} fits {fits}"


def _list(names: list[str]) -> str:
    shown = names[:_NAMED] + ([f"{len(names) - _NAMED} more"] if len(names) > _NAMED else [])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
