"""Remedies of reasons that have several causes, chosen by the state and by no text."""

from __future__ import annotations

from collections.abc import Callable

from extender.core.jobs.start import silent_node
from extender.core.ledger.state import State
from extender.core.workload.workload import Workload
from policies.model import Dialect
from policies.model.queues import VOLCANO, ClusterQueue, Stop, TopologyObject, title_of
from policies.words import listed

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
    others = sorted(one for space, one in queues.picture.locals if space == namespace and one != name)
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
        if name in queues.picture.cohorts:
            return f"name a Queue below {title_of(name)}: only those have workloads"
        return f"correct {title_of(name)} as the message says"
    if local is None or local.queue not in queues.picture.queues:
        return f"correct LocalQueue {name} as the message says"
    queue = queues.picture.queues[local.queue]
    if queue.name in queues.picture.problems:
        return _missing_of(state, queue) or f"correct {queue.title} as the message says; muster queues shows it"
    if any(one.problems for key, one in queues.picture.said.items() if key[1:] == (namespace, name)):
        return f"correct LocalQueue {name} as the message says"
    return (
        f"give namespace {namespace} labels that the namespaceSelector of {queue.title} selects, or widen that selector"
    )


def _missing_of(state: State, queue: ClusterQueue) -> str:
    """The first object that the queue names and that does not exist."""
    queues = state.quotas.queues
    for name in dict.fromkeys(name for group in queue.groups for name, _ in group.flavors):
        flavor = queues.picture.flavors.get(name)
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
    queue = queues.picture.queues.get(local.queue) if local is not None else None
    if queue is not None and queue.stop is not Stop.NONE:
        stopped.append(queue.title)
    return f"set the stopPolicy of {' and '.join(stopped)} to None, or wait until whoever set it does"


def min_member_missing(_state: State, gang: Workload) -> str:
    """Advise on a gang whose size is not said."""
    first = gang.members.first
    if first is not None and first.group is not None and (owner := first.group.owner):
        return f'give {owner}, the object that makes its pods, the label muster.dev/gang: "true"'
    if Dialect.YUNIKORN in gang.members.said.dialects:
        key = "yunikorn.apache.org/task-groups"
        return f"add the annotation {key} to its pods: the task groups and their minMember"
    return "add the annotation muster.dev/min-member to its pods: how many of them start together"


def pod_group_missing(_state: State, gang: Workload) -> str:
    """Advise on pods whose PodGroup does not exist."""
    kinds = [_GROUPS[dialect] for dialect in gang.members.said.dialects if dialect in _GROUPS]
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
        return "let the ServiceAccount of Muster do what the message says was refused; it is tried again by itself"
    if node := silent_node(state, gang):
        return f"give node {node} the taint {_OUT_OF_SERVICE}, or delete it, if its machine is off: the pods on it stay"
    return "nothing to do: the job is planned again when its pods are gone"


def name_taken(_state: State, _gang: Workload) -> str:
    """Advise on a gang name that other pods or another job have."""
    return (
        "give the job another gang name (muster.dev/pod-group in its pod template), or none; or delete what has the "
        "name: the message names it"
    )


ADVICE: dict[str, Callable[[State, Workload], str]] = {
    "QueueMissing": queue_missing,
    "QueueInactive": queue_inactive,
    "QueueStopped": queue_stopped,
    "MinMemberMissing": min_member_missing,
    "PodGroupMissing": pod_group_missing,
    "InvalidPodGroup": invalid_pod_group,
    "OtherScheduler": other_scheduler,
    "Stopping": stopping,
    "NameTaken": name_taken,
}
"""Remedies by the code of the reason."""
