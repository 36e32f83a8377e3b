"""Name what helps a waiting gang: sentences for its owner, each of them checked by counting.

If a reason has several causes, the state decides the remedy, never a text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from math import ceil

import numpy as np

from extender.core.causes import Cause, RunTooLong, misfits
from extender.core.explain.problems import pinned_to_lost
from extender.core.explain.reasons import code_of
from extender.core.jobs.start import silent_node
from extender.core.ledger.claims import Claim
from extender.core.ledger.state import State
from extender.core.workload.slots import Stage
from extender.core.workload.workload import Workload
from extender.observe.explain.inquiry import (
    Inquiry,
    fewest_ends,
    holders,
    inquiry_with,
    quota_question,
    to_be_placed,
)
from extender.observe.explain.opening import opening
from extender.observe.explain.quota import QuotaQuestion
from extender.observe.explain.remedy import Help, Remedy, all_of, never_starts
from policies.model import Constraints, Dialect, Pod, Topology
from policies.model.queues import VOLCANO, ClusterQueue, Stop, TopologyObject, title_of
from policies.placement.closed import terms_text
from policies.placement.matching import nodes_named
from policies.placement.snapshot import Domain
from policies.statement import Statement
from policies.steps import Steps
from policies.words import counted, devices, lasting, listed, many

_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
_GROUPS = {
    Dialect.COSCHEDULING: "scheduling.x-k8s.io",
    Dialect.VOLCANO: "scheduling.volcano.sh",
    Dialect.KAI: "scheduling.run.ai",
    Dialect.KOORDINATOR: "scheduling.x-k8s.io",
}
"""The API group of the PodGroup that pods of each dialect mean."""


def queue_missing(state: State, gang: Workload) -> str:
    """Advise on a queue that does not exist, or was not named."""
    namespace, name, queues = gang.key.namespace, state.quotas.local_of(gang.key), state.quotas.queues
    others = sorted(
        name_there for space, name_there in queues.snapshot.locals if space == namespace and name_there != name
    )
    there = f" ({listed(others)})" if others else ""
    if not name:
        where = "on the job" if gang.job is not None else "on its pods"
        return f"name a LocalQueue of namespace {namespace}{there} in the label kueue.x-k8s.io/queue-name {where}"
    if name.startswith(VOLCANO):
        return f"create {title_of(name)} of Volcano, or name another one"
    if (local := queues.local(namespace, name)) is None:
        return f"create LocalQueue {name} in namespace {namespace}, or name one that is there{there}"
    return f"create ClusterQueue {local.queue}, or let LocalQueue {name} point to one that is there"


def queue_inactive(state: State, gang: Workload) -> str:
    """Advise on a queue that cannot be used."""
    namespace, name, queues = gang.key.namespace, state.quotas.local_of(gang.key), state.quotas.queues
    local = queues.local(namespace, name)
    if name.startswith(VOLCANO):
        if name in queues.snapshot.cohorts:
            return f"name a Queue below {title_of(name)}: only those have workloads"
        return f"correct {title_of(name)} as the message says"
    if local is None or local.queue not in queues.snapshot.queues:
        return f"correct LocalQueue {name} as the message says"
    queue = queues.snapshot.queues[local.queue]
    if queue.name in queues.snapshot.problems:
        return _missing_of(state, queue) or f"correct {queue.title} as the message says; muster queues shows it"
    if any(event.problems for key, event in queues.snapshot.events.items() if key[1:] == (namespace, name)):
        return f"correct LocalQueue {name} as the message says"
    return (
        f"give namespace {namespace} labels that the namespaceSelector of {queue.title} selects, or widen that selector"
    )


def _missing_of(state: State, queue: ClusterQueue) -> str:
    """The first missing object that the queue names, as advice; empty if none is missing."""
    queues = state.quotas.queues
    for name in dict.fromkeys(name for group in queue.groups for name, _ in group.flavors):
        flavor = queues.snapshot.flavors.get(name)
        if flavor is None:
            return f"create ResourceFlavor {name}, or take it out of {queue.title}"
        if flavor.topology and (TopologyObject.__name__, "", flavor.topology) not in queues.seen:
            return f"create Topology {flavor.topology}, or take its name out of ResourceFlavor {name}"
    return ""


def queue_stopped(state: State, gang: Workload) -> str:
    """Advise on a queue that was stopped."""
    namespace, name, queues = gang.key.namespace, state.quotas.local_of(gang.key), state.quotas.queues
    if name.startswith(VOLCANO):
        return f"open {title_of(name)}: its spec says that it is closed"
    local = queues.local(namespace, name)
    stopped = [f"LocalQueue {name}"] if local is not None and local.stop is not Stop.NONE else []
    queue = queues.snapshot.queues.get(local.queue) if local is not None else None
    if queue is not None and queue.stop is not Stop.NONE:
        stopped.append(queue.title)
    return f"set the stopPolicy of {' and '.join(stopped)} to None, or wait until an administrator does"


def run_too_long(_state: State, gang: Workload) -> str:
    """Advise on a workload that is to run for longer than its queue allows."""
    match gang.reason_state.cause:
        case RunTooLong(limit_s=limit_s, deadline=deadline):
            what = "activeDeadlineSeconds" if deadline else "muster.dev/expected-duration"
            return f"let {what} say {lasting(limit_s)} at most, or name a queue that allows more"
    return "nothing to do: its queue allows it by now"


def min_member_missing(_state: State, gang: Workload) -> str:
    """Advise on a gang whose size is not stated."""
    first = gang.members.first
    if first is not None and first.group is not None and (owner := first.group.owner):
        return f'give {owner}, the object that makes its pods, the label muster.dev/gang: "true"'
    if Dialect.YUNIKORN in gang.members.declared.dialects:
        key = "yunikorn.apache.org/task-groups"
        return f"add the annotation {key} to its pods: the task groups and their minMember"
    return "add the annotation muster.dev/min-member to its pods: how many of them start together"


def pod_group_missing(_state: State, gang: Workload) -> str:
    """Advise on pods whose PodGroup does not exist."""
    kinds = [_GROUPS[dialect] for dialect in gang.members.declared.dialects if dialect in _GROUPS]
    api = f" ({kinds[0]})" if kinds else ""
    return f"create PodGroup {gang.key.name}{api} in namespace {gang.key.namespace}"


def invalid_pod_group(_state: State, gang: Workload) -> str:
    """Advise on a name, a size or a topology that cannot be read, on the pods or on their PodGroup."""
    group = gang.group
    if any(pod.group is not None and pod.group.problem is not None and not pod.node for pod in gang.live):
        return "correct what the message quotes in the pod template, and create the pods again"
    if group is not None and group.min_member < 1:
        return f"set minMember of PodGroup {gang.key.name} to how many members start together"
    return f"correct what the message quotes in PodGroup {gang.key.name}"


def other_scheduler(state: State, _gang: Workload) -> str:
    """Advise on pods of another scheduler."""
    return f"set schedulerName: {state.schedulers[0]} in the pod template, and create the pods again"


def stopping(state: State, gang: Workload) -> str:
    """Advise on a job that is being suspended, or whose pods have yet to go."""
    if gang.job is not None and gang.job.refused:
        return "let the ServiceAccount of Muster do what the message says was refused; Muster then tries again"
    if node := silent_node(state.claims, gang):
        return f"give node {node} the taint {_OUT_OF_SERVICE}, or delete it, if its machine is off: the pods on it stay"
    return "nothing to do: the job is planned again when its pods are gone"


def name_taken(_state: State, _gang: Workload) -> str:
    """Advise on a gang name that other pods or another job have."""
    return (
        "give the job another gang name (muster.dev/pod-group in its pod template), or none; or delete what has the "
        "name: the message names it"
    )


SEE_MESSAGE = "see the message"


def not_understood(_state: State, gang: Workload) -> str:
    """Advise on a demand that cannot be understood, or that members with a node break: as the policy says."""
    return "; or ".join(dict.fromkeys(misfit.remedy for misfit in misfits(waits_for(gang)))) or SEE_MESSAGE


ADVICE: dict[str, Callable[[State, Workload], str]] = {
    "QueueMissing": queue_missing,
    "QueueInactive": queue_inactive,
    "QueueStopped": queue_stopped,
    "RunTooLong": run_too_long,
    "MinMemberMissing": min_member_missing,
    "PodGroupMissing": pod_group_missing,
    "InvalidPodGroup": invalid_pod_group,
    "OtherScheduler": other_scheduler,
    "Stopping": stopping,
    "NameTaken": name_taken,
    "UnknownTopology": not_understood,
    "Split": not_understood,
}
"""Remedies by the code of the reason."""

_DOMAINS = 2
"""How many of the nearest domains get a remedy."""

_EASED: tuple[tuple[str, Callable[[Constraints], Constraints]], ...] = (
    ("do without host ports", lambda constraints: replace(constraints, ports=())),
    ("make the pod affinity preferred instead of required", lambda constraints: replace(constraints, affinity=())),
    (
        "make the pod anti-affinity preferred instead of required",
        lambda constraints: replace(constraints, anti_affinity=()),
    ),
    (
        "let the topology spread be ScheduleAnyway instead of DoNotSchedule",
        lambda constraints: replace(constraints, spread=()),
    ),
)
"""Demands on other pods that the members could drop."""

BY_REASON = {
    "New": "nothing to do: Muster is about to look at it",
    "Placed": "nothing to do: kube-scheduler is carrying the placement out",
    "Holding": "nothing to do: kube-scheduler is working on the other members",
    "Releasing": "nothing to do: its Bindings are being posted",
    "Running": "nothing to do: it runs",
    "Ended": "nothing to do: it has ended; pods that are created again start as a gang again",
    "PodGroupDeleted": "create the PodGroup object again when the old one is gone",
    "Contradiction": "make the members agree: correct the pod template and create the pods again",
    "ResourceClaims": "create the ResourceClaimTemplate, ResourceClaim or DeviceClass that the message names; that "
    "of a ComputeDomain is made by NVIDIA's driver (kubectl describe computedomain)",
    "OfferedByDra": "see whether the driver of these devices runs and has published ResourceSlices (kubectl get "
    "resourceslices)",
    "VolumeNotBound": "create the claim if there is none, and bind a volume to it first, or use a StorageClass with "
    "volumeBindingMode: WaitForFirstConsumer; kubectl describe pvc says what the claim waits for",
    "TooManyShapes": "give the members of a role the same pod template, or raise max_gang_shapes in Muster's settings",
    "TooManyMembers": "use a smaller gang, or raise max_gang_members in Muster's settings",
    "TooManyGangs": "nothing to do: it is looked at when a gang that came before it starts or is deleted",
    "PolicyFailed": "correct the policy that the message names, or name another one in the settings",
    "Refused": "see which of kube-scheduler's own plugins refuses its pods: volumes, devices, plugins of others",
    "Gated": "the controller that set this gate has to remove it; Muster removes only its own",
    "NamespaceTerminating": "create it in another namespace, or in this one once it is gone and created again; "
    "kubectl get namespace -o yaml shows what a deletion waits for",
    "Held": "take the label or annotation muster.dev/hold off the job, as muster resume does",
    "Trying": "nothing to do: the API server is asked about its pods",
    "PodsRefused": "do what the message says; it is asked again after a minute",
    "InvalidJob": "correct the job as the message says",
    "Creating": "nothing to do: it is planned when the pods of the jobs before it exist",
    "SharedSpread": "nothing to do: it is planned when the other gang has started; a labelSelector that means the pods "
    "of one gang alone lets both start at once",
    "AwaitingNodes": "wait for the nodes that were asked for; kubectl get provisioningrequests shows what is asked for "
    "a job; where there are none, and for a gang, the autoscaler writes events on the pods",
    "QueueOrder": "wait for the one before it: its queue is StrictFIFO; BestEffortFIFO lets those behind it go first",
    "Preempting": "nothing to do: it starts when the workloads that are evicted for it are gone",
    "Preempted": "nothing to do: when all of it has gone it waits for room like any other",
    "NotPlanned": "suspend the job to have it planned",
    "Partial": "replace the members that were lost (a Job does so by itself): their room is kept for a while",
}
"""Remedies of reasons that have only one, by their code."""
CODES = (*BY_REASON, *ADVICE, "MembersMissing", "NoRoom", "NoQuota", "Forgotten")
"""All codes that have remedies."""


def remedies(
    state: State, gang: Workload, statement: Statement, questions: Sequence[Inquiry], now: float
) -> Steps[list[Remedy]]:
    """Remedies with which it would start, or continue, the most helpful first; at least one, each text once.

    ``questions``: its demand on nodes, for each choice of flavors. Remedies are tried in the ``statement``.
    """
    unsorted = yield from _remedies(state, gang, statement, questions, now)
    by_text: dict[str, Remedy] = {}
    for remedy in sorted(unsorted, key=lambda remedy: remedy.help):
        by_text.setdefault(remedy.text, remedy)
    return [*by_text.values()]


def _remedies(
    state: State, gang: Workload, statement: Statement, questions: Sequence[Inquiry], now: float
) -> Steps[list[Remedy]]:
    code = code_of(waits_for(gang))
    if code == "MembersMissing":
        return [Remedy(Help.NEVER, text) for text in _more_pods(gang)]
    if code == "Forgotten" or (code in ("NoRoom", "Refused") and now < gang.retries.not_before):
        again = f"nothing to do: it is planned again in {max(1, ceil(gang.retries.not_before - now))} s"
        return [Remedy(Help.DONE, again), *([Remedy(Help.NEVER, BY_REASON[code])] if code == "Refused" else [])]
    members = to_be_placed(state, gang) if code in ("NoRoom", "NoQuota") else []
    quota = quota_question(state, gang, members)
    if quota is not None and (code == "NoQuota" or not questions):
        return quota.remedies()
    if code == "NoRoom" and questions:
        return (yield from _rooms(state, gang, statement, questions, members, quota))
    if code in ADVICE:
        return [Remedy(Help.DONE, ADVICE[code](state, gang))]
    return [Remedy(Help.DONE, BY_REASON.get(code, SEE_MESSAGE))]


def _rooms(
    state: State,
    gang: Workload,
    statement: Statement,
    questions: Sequence[Inquiry],
    members: Sequence[Pod],
    quota: QuotaQuestion | None,
) -> Steps[list[Remedy]]:
    """Remedies with each choice of flavors that has quota, and with more quota for the others."""
    by_flavor: list[list[Remedy]] = []
    for question in questions:
        flavor = f"with flavor {listed(question.flavors)}: " if len(questions) > 1 else ""
        with_it = yield from _room(state, question)
        by_flavor.append([remedy._replace(text=f"{flavor}{remedy.text}") for remedy in with_it])
    tried = [remedy for of_flavor in by_flavor for remedy in of_flavor]
    if started := [remedy for remedy in tried if remedy.help is Help.DONE]:
        return started[:1]
    names = {name for question in questions for name in question.flavors}
    others: list[Remedy] = []
    for name, made, raised in quota.others(names) if quota is not None and not gang.flavoring else ():
        other = yield from inquiry_with(state, gang, statement, members, (name,), made)
        if other is not None and (yield from other.plan(other.members)) is not None:
            others += [remedy._replace(text=f"{remedy.text}: nodes of that flavor have room") for remedy in raised]
    if others or not all(map(never_starts, by_flavor)):
        # It can start with another flavor.
        tried = [remedy._replace(help=Help.MORE) if remedy.help is Help.NEVER else remedy for remedy in tried]
    return [*tried, *others] or [Remedy(Help.WAIT, "wait for room: the gang is planned as soon as enough is free")]


def _more_pods(gang: Workload) -> Iterator[str]:
    there, needed, which = gang.reached(Stage.THERE), gang.min_member or 0, "this gang"
    if there >= needed and (lack := gang.short(Stage.THERE)) is not None:
        there, needed, which = lack.there, lack.least, f"this gang and {lack.name}"
    lacking = counted(needed - there, "more pod", "that names", "that name")
    yield f"create {lacking} {which}; {counted(there, 'pod', 'exists', 'exist')}"
    first = gang.members.first
    maker = first.controller if first is not None and first.group is not None and not first.group.owner else None
    if maker is not None and maker.kind == "StatefulSet":
        yield (
            f'name no gang in the pods of StatefulSet {maker.name}, and give it the label muster.dev/gang: "true": '
            "then room is kept for those that come later"
        )
        yield f"create StatefulSet {maker.name} again with podManagementPolicy: Parallel (it cannot be changed)"


def waits_for(gang: Workload) -> Cause:
    """The cause for which its waiting members wait."""
    return gang.reason_state.surplus or gang.reason_state.cause


def nearest(question: Inquiry, count: int) -> list[Domain]:
    """The domains with most room for it on the level that must hold it, the best first; else the cluster.

    A replacement has only the domain of its gang.
    """
    level = question.scope
    if level is None:
        return [question.anywhere]
    if question.role.home is not None:
        return [level.domain(question.role.home[1])]
    free, size = level.tally(question.role.room)[0], level.tally(np.ones(len(level.codes), dtype=np.int64))[0]
    codes = [int(code) for code in np.lexsort((level.rank, -size, -free)) if size[code]]
    return [level.domain(code) for code in codes[:count]]


def _room(state: State, question: Inquiry) -> Steps[list[Remedy]]:
    if (yield from question.plan(question.members)) is not None:
        return [Remedy(Help.DONE, "nothing to do: there is room by now, and the gang is planned in a moment")]
    leaving = [pod for member in question.gang.members if (pod := member.pod).deleting and state.claims.get(pod.uid)]
    leaving_claims = [claim for pod in leaving if (claim := state.claims.get(pod.uid))]
    if leaving and (yield from _fits_with(question, leaving_claims)):
        names, terminate = all_of([pod.name for pod in leaving]), "terminates" if len(leaving) == 1 else "terminate"
        return [Remedy(Help.DONE, f"nothing to do: {names} of its own {terminate}, and that frees enough room")]
    advice: list[Remedy] = []
    claims = state.singles.ahead_of(question.gang)
    ahead = [state.pods[uid] for uid in dict.fromkeys(uid for uid, _ in claims)]
    if ahead and (yield from _fits_with(question, claims.values())):
        names = all_of([f"pod {pod}" for pod in ahead])
        advice.append(
            Remedy(Help.WAIT, f"wait for {names} to start: room is kept for pods that come before it in line")
        )
    domains = nearest(question, _DOMAINS)
    if not domains:
        level = question.level
        lacking = f"label nodes with {level.key}: no node has this label" if level else "add nodes: there are none"
        return [*advice, Remedy(Help.NEVER, lacking)]
    if lost := pinned_to_lost(question.gang, state.store.pods, state.claims):
        names = all_of([pod.name for pod in lost])
        gone = f"delete {names} and create new pods: the nodes are gone, and no pod can be unpinned from its nodes"
        return [*advice, Remedy(Help.NEVER, gone)]
    if question.led:
        anew = "suspend the job to have it planned again: its pod template names the nodes of its plan"
        advice.append(Remedy(Help.OPEN, anew))
    opened = yield from opening(state, question)
    advice += opened
    if not any(remedy.help is Help.OPEN for remedy in opened):
        advice += yield from _larger_than_all(question)
    for domain in domains:
        advice += yield from _in(state, question, domain)
    if not question.required_as_whole:
        advice += yield from _ends(state, question, question.anywhere, "the cluster")
    advice += yield from _eased(state, question)
    return advice


def _fits_with(question: Inquiry, claims: Iterable[Claim]) -> Steps[bool]:
    """Whether it would fit now with the room of these claims."""
    with question.statement.open():
        for claim in claims:
            question.statement.release(claim.node, claim.requests)
        return (yield from question.plan(question.members)) is not None


def _eased(state: State, question: Inquiry) -> Steps[list[Remedy]]:
    """Demands that its author could relax."""
    advice: list[Remedy] = []
    if question.scope is not None:
        softer = [replace(pod, topology=Topology()) for pod in question.members]
        advice += yield from _without("use preferred-topology instead of required-topology", softer, question)
    advice += yield from _unpinned(state, question)
    for what, ease in _EASED:
        eased = [replace(pod, constraints=ease(pod.constraints)) for pod in question.members]
        if eased != question.members:
            advice += yield from _without(what, eased, question)
    return advice


def _in(state: State, question: Inquiry, domain: Domain) -> Steps[list[Remedy]]:
    place_name = domain.name if question.scope is None else f"{question.scope.name} {domain.name}"
    rows = domain.rows
    short, want = question.want - question.fitting(rows), question.want
    largest = question.largest(rows)
    # More nodes of that sort suffice, if any node of the cluster will do and some would take a member.
    grows = question.scope is None and not question.held and not question.named and (largest > 0 or question.nowhere)
    if (largest < want and not grows) or (short <= 0 and question.sums):
        return []
    amounts = devices(question.role.requests)
    least = "" if question.sums else "at least "
    of_which = ", on nodes that reach its volumes" if question.held else _like(question)
    where = place_name + (", of those that its pods name" if question.named and not question.held else of_which)
    enough = Help.MORE if question.sums else Help.PART
    advice: list[Remedy] = []
    if short > 0 and question.one_to_a_node():
        advice.append(Remedy(enough, f"{least}{many(short, 'more node')} with {amounts} free in {where}"))
    elif short > 0:
        advice.append(Remedy(enough, f"room for {least}{many(short, 'more member')} ({amounts} each) in {where}"))
    if question.counts and question.required_as_whole and largest >= want:
        advice += yield from _ends(state, question, domain, place_name)
    return advice


def _like(question: Inquiry) -> str:
    """The labels that more nodes would need, as ``kubectl get nodes -l`` takes them."""
    selection = question.role.pods[0].selection
    terms = [*selection.flavors, *([] if selection.affinity is None else [selection.affinity])]
    demands = [*("=".join(label) for label in selection.node_selector), *map(terms_text, terms)]
    return f", with labels {','.join(demands)}" if demands else ""


def _ends(state: State, question: Inquiry, domain: Domain, place_name: str) -> Steps[list[Remedy]]:
    """The workloads to wait for."""
    there = yield from holders(state, question, domain.rows)
    ends = yield from fewest_ends(question, domain.rows, there)
    return [Remedy(Help.WAIT, f"wait for {all_of(ends)} to finish: that frees enough in {place_name}")] if ends else []


def _unpinned(state: State, question: Inquiry) -> Steps[list[Remedy]]:
    """Advice on existing pods that are pinned to nodes, where new ones might go elsewhere."""
    freed = {
        pod.uid: replace(pod, selection=replace(pod.selection, affinity=None))
        for pod in question.members
        if pod.uid in state.pods and nodes_named(pod.selection) and not question.led
    }
    if not freed:
        return []
    names = all_of([pod.name for pod in freed.values()])
    what = f"delete {names} and create new pods, as no pod can be unpinned from its nodes"
    return (yield from _without(what, [freed.get(pod.uid, pod) for pod in question.members], question))


def _without(what: str, members: Sequence[Pod], question: Inquiry) -> Steps[list[Remedy]]:
    """The change, if it alone would let the gang fit."""
    if (plan := (yield from question.plan(members))) is None:
        return []
    return [Remedy(Help.EASE, f"{what}: it would fit now, on {many(len(set(plan.nodes.values())), 'node')}")]


def _larger_than_all(question: Inquiry) -> Steps[list[Remedy]]:
    """The remedy where no end of other workloads would suffice."""
    if (largest := _largest(question)) < question.want:
        return [Remedy(Help.NEVER, _too_large(question, largest))]
    counted_alone = question.role.relations is not None or question.sums
    if counted_alone or (yield from question.holds_emptied()):
        return []
    text = "add nodes or use fewer pods: even if all nodes that are open to it were empty, not all of it would fit"
    return [Remedy(Help.NEVER, text)]


def _largest(question: Inquiry) -> int:
    """The most members that one of the domains could take if it were empty."""
    level = question.scope
    if level is None:
        return question.largest(question.anywhere.rows)
    return max((question.largest(level.domain(code).rows) for code in range(len(level.names))), default=0)


def _too_large(question: Inquiry, largest: int) -> str:
    requests = question.role.requests
    if question.nowhere:
        return _nowhere(question)
    if not question.largest(question.anywhere.rows):
        short = question.short_even_empty()
        return f"use smaller pods or add larger nodes: even empty, no node that matches has {short}"
    fits = f"{largest} of {question.want} ({devices(requests)} each)"
    if question.sums and (now := max(question.fitting(domain.rows) for domain in nearest(question, 1))) < largest:
        fits += f"; {now} {'fits' if now == 1 else 'fit'} now"
    if question.scope is None:
        what = "move volumes" if question.held else "name more nodes" if question.named else "add nodes"
        return f"{what} or use fewer pods: even empty, the nodes that match fit {fits}"
    return f"require a wider level or use fewer pods: even empty, the largest {question.scope.name} fits {fits}"


def _nowhere(question: Inquiry) -> str:
    """Advice if no node matches what its pods demand of nodes, taints apart."""
    if question.held:
        return "bring back a node that reaches all volumes of a pod and matches its selector, or move the data"
    if question.named:
        return (
            "name other nodes in the node selector or affinity of the pods, or bring those back: none of them is there"
        )
    selection = question.role.pods[0].selection
    demands = [f"node selector {'='.join(label)}" for label in selection.node_selector]
    if selection.affinity is not None:
        demands.append(f"required node affinity {terms_text(selection.affinity)}")
    demands += [f"flavor labels {terms_text(terms)}" for terms in selection.flavors]
    if not demands or not len(question.snapshot.names):
        return "add nodes: there are none" if not len(question.snapshot.names) else "add nodes that match its pods"
    return f"add or label nodes that match the {listed(demands)} of its pods: no node does"
