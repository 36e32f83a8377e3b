"""A gang that waits for nodes is let go without a plan: kube-scheduler then tries each of its pods, is given no node by
us, and marks it as unschedulable, which is what those who make nodes look at.

A gate cannot be put back, and what is written on a pod cannot be taken off. So nothing is written: that they are to
have nodes of a flavor the pods have to say themselves. What makes the pods of a job says so for them, or has the
admission policy say it, and what they tolerate for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from extender.core.answers import Ungated
from extender.core.effects import Ungate
from extender.core.jobs.job import JobWrite
from extender.core.jobs.start import start_of
from extender.core.quota.flavoring import Flavoring, PartKey, part_of
from extender.core.reasons import Reason
from extender.core.state import State
from extender.core.workload import Workload
from policies.model import GANG_GATE, Job, LetGo, Node, Pod, Selection, Toleration
from policies.model.queues import ResourceFlavor
from policies.placement.matching import admits
from policies.words import listed, many

_SHOWN = "kube-scheduler has its {} without a plan, so that an autoscaler sees them"
_IN_WAVES = (
    "those of its pods that need such nodes are made one after the other, so that no autoscaler sees all of them: have "
    "them made together (a JobSet without startupPolicy InOrder and dependsOn, an MPIJob with launcherCreationPolicy "
    "AtStartup)"
)


def let_go(state: State, workload: Workload, pods: Sequence[Pod], shown: frozenset[str]) -> frozenset[str]:
    """Take our gate off those of these pods that have it, once: ``shown`` were let go before (by UID). Returns who is
    by now. One that takes the place of another comes later."""
    for pod in pods:
        if GANG_GATE in pod.gates and pod.uid not in shown:
            state.out.append(Ungate(pod.uid, pod.namespace, pod.name, workload.key))
    return shown.union(pod.uid for pod in pods)


def let_in(state: State, event: Ungated) -> Pod | None:
    """A pod of a job that was let go, as it is when its gate has come off: the watch may be late to show that, and a
    gate does not come off once more, with a pin to the nodes of its plan."""
    found = None if event.detail else state.member(event.uid)
    if found is None or found[0].job is None or event.uid not in found[0].job.shown:
        return None
    pod = found[1].pod
    return replace(pod, gates=tuple(gate for gate in pod.gates if gate != GANG_GATE))


def let_job_go(state: State, workload: Workload, made: Mapping[PartKey, Flavoring], until: LetGo) -> None:
    """Have it started with these flavors, and no nodes."""
    if (record := workload.job) is None or workload.podsets is None:
        return
    workload.flavor(made)
    record.write(JobWrite.START)
    start = start_of(workload, record.seen, workload.podsets, {}, until)
    state.out.append(replace(start, awaits_s=state.limits.elastic.within_s))
    state.touch(workload)


def unseen(pods: Sequence[Pod], made: Mapping[PartKey, Flavoring], elastic: frozenset[str]) -> str:
    """Why their job cannot be let go so that whoever makes nodes sees all of these that need some; empty if it can."""
    first = _first_wave(pods)
    later = dict.fromkeys(part_of(pod, of_job=True) for pod in pods if pod.wave > first)
    needy = any(not elastic.isdisjoint(made[part].flavors.values()) for part in later if part in made)
    return _IN_WAVES if needy else ""


def shown(pods: Collection[Pod]) -> str:
    """That is done with them: those that are made when others run are not there yet."""
    first = _first_wave(pods)
    return _SHOWN.format(many(sum(pod.wave == first for pod in pods), "pod"))


def _first_wave(pods: Iterable[Pod]) -> int:
    return min((pod.wave for pod in pods), default=0)


def awaiting(queue: str, flavors: Sequence[str], text: str) -> Reason:
    """What it waits for, and what is done about it."""
    said = f"it has quota of {listed(flavors)} in ClusterQueue {queue}, and no nodes: {text}"
    return Reason("AwaitingNodes", said, warning=False)


def lacking(
    pods: Iterable[Pod],
    made: Mapping[PartKey, Flavoring],
    flavors: Mapping[str, ResourceFlavor],
    *,
    of_job: bool,
    to_come: bool,
) -> str:
    """What these pods lack so that whoever sees them makes nodes of their flavors; empty if nothing. ``to_come``: they
    get what their flavors bring when they are made."""
    for pod in pods:
        if (given := made.get(part_of(pod, of_job=of_job))) is None:
            continue
        labels, more = (given.labels, given.tolerations) if to_come else ((), ())
        for name in dict.fromkeys(given.flavors.values()):
            if not _asks_for(pod.selection, labels, more, flavor := flavors[name]):
                asked = [f"the nodeSelector {key}={value}" for key, value in sorted(flavor.node_labels.items())]
                asked += ["tolerations of its taints"] if flavor.taints else []
                return f"for nodes of {name} its pods need {listed(asked)}"
    return ""


def apart(job: Job, flavors: Mapping[str, ResourceFlavor]) -> str:
    """What keeps pods without a flavor from the nodes that are made for the others, in a domain that has to be one for
    all; empty if nothing does. Such a domain may have other nodes, too: nobody knows it before they come."""
    chosen = {
        name: [flavors[one] for one in some.values() if one in flavors] for name, some in (job.flavors or {}).items()
    }
    asked = {one.name: one.template for one in job.podsets.podsets if one.template.topology.required}
    for name, pod in asked.items():
        level = pod.topology.required
        beside = (one for other in asked if asked[other].topology.required == level for one in chosen.get(other, ()))
        flavor = next((one for one in beside if not _tolerates(pod.selection.tolerations, one)), None)
        if flavor is not None and not chosen.get(name):
            return (
                f"the pods of {name or job.key.name} have to share one {level} with those on nodes of {flavor.name}, "
                "and need tolerations of its taints for that"
            )
    return ""


def _asks_for(
    selection: Selection, labels: Iterable[tuple[str, str]], more: Iterable[Toleration], flavor: ResourceFlavor
) -> bool:
    """Whether such a pod goes to nodes of the flavor and to no others, with what is written on it for that."""
    named = flavor.node_labels.items() <= {**dict(labels), **dict(selection.node_selector)}.items()
    return named and _tolerates((*selection.tolerations, *more), flavor)


def _tolerates(tolerations: tuple[Toleration, ...], flavor: ResourceFlavor) -> bool:
    return admits(Node(flavor.name, (), flavor.node_labels, flavor.taints), Selection(tolerations=tolerations))
