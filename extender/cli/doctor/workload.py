"""Traps in what people run: pods and PodGroups that name gangs, and the labels of the nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extender.api.models import TopologyView
from extender.cli.doctor.facts import UNANSWERED_S, Facts, Member, marks_of
from extender.cli.doctor.finding import Finding, error, warning
from extender.core.ledger.nodes import Table
from extender.kube.dialects import MIN_MEMBER
from extender.kube.reading.topology import PREFERRED, REQUIRED, SLICE_TOPOLOGY
from extender.observe.quality import gpus_of
from extender.observe.topology import topology
from policies.model import GANG_GATE, HOSTNAME, NO_LEVEL, Dialect, GroupKey, Pod
from policies.words import many

_FOR_MUSTER = (Dialect.ANNOTATION, Dialect.COSCHEDULING)
"""The dialects whose gangs are Muster's by default. Other dialects belong to their own project's scheduler, unless
the pod names Muster's."""
_NO_SLICES = "look whether the driver of these devices runs: it publishes ResourceSlices"


def check(facts: Facts) -> Iterator[Finding]:
    """The findings about pods, PodGroups and nodes."""
    members = facts.members or []
    gangs: dict[GroupKey, list[Member]] = {}
    for member in members:
        if (key := member.pod.group_key) is not None:
            gangs.setdefault(key, []).append(member)
    unreadable = [
        (member.pod, member.pod.group.problem) for member in members if member.pod.group is not None and member.pod.live
    ]
    correct = "correct the pod template, and create the pods again"
    for pod, what, fix in _by_template((pod, problem, correct) for pod, problem in unreadable if problem is not None):
        yield error("UnreadableGang", str(pod), what, fix)
    for key, gang_pods in sorted(gangs.items()):
        yield from _gang(str(key), [member.pod for member in gang_pods if member.pending], facts)
        yield from _elsewhere(str(key), gang_pods, facts)
    yield from _gates(members, facts)
    yield from _unserved(members, facts)
    yield from _foreigners(members, facts)
    yield from _levels(facts)


def _by_template(wrong: Iterable[tuple[Pod, str, str]]) -> Iterator[tuple[Pod, str, str]]:
    """Return the first pod of each maker with the same fault, and how many pods have it: one template is one fault.

    ``wrong``: each pod, its fault, and what to do."""
    pods_by_fault: dict[tuple[str, str, str, str], list[Pod]] = {}
    for pod, fault, fix in wrong:
        maker = pod.name if pod.controller is None else f"{pod.controller.kind} {pod.controller.name}"
        pods_by_fault.setdefault((pod.namespace, maker, fault, fix), []).append(pod)
    for (_, maker, fault, fix), pods in pods_by_fault.items():
        yield pods[0], f"{fault}; on {many(len(pods), 'pod')} of {maker}" if len(pods) > 1 else fault, fix


def _gang(name: str, waiting: list[Pod], facts: Facts) -> Iterator[Finding]:
    """The findings about one gang, by its members without a node."""
    if not waiting:
        return
    schedulers = sorted({pod.scheduler for pod in waiting})
    if len(schedulers) > 1:
        what = f"its members have the schedulerNames {', '.join(schedulers)}: the gang waits"
        yield error("SchedulersDiffer", name, what, f"give all of them schedulerName: {facts.ours[0]}")
    elif schedulers[0] not in facts.ours and any(pod.group and pod.group.dialect in _FOR_MUSTER for pod in waiting):
        what = f"its members name a gang, and have schedulerName {schedulers[0]}: they are not started together"
        yield error("GangOfAnother", name, what, f"set schedulerName: {facts.ours[0]}")
    for resource in dict.fromkeys(resource for pod in waiting for resource, much in pod.requests if much):
        listed_on = any(dict(node.allocatable).get(resource) for node in facts.nodes or ())
        if facts.devices.offering(resource) and not listed_on and not facts.devices_published:
            what = f"its members ask for {resource}, which {_by_dra(resource, facts)}: the gang waits"
            yield error("OfferedByDra", name, what, _NO_SLICES)
    groups = [pod.group for pod in waiting if pod.group is not None]
    if any(group_ref.dialect.has_objects for group_ref in groups):
        if any(group_ref.dialect is Dialect.COSCHEDULING for group_ref in groups):
            yield from _object(name, facts)
        return
    sizes = sorted({group_ref.min_member for group_ref in groups if group_ref.min_member is not None})
    if len(sizes) > 1:
        words = ", ".join(map(str, sizes))
        yield error("SizesDiffer", name, f"its members say min-member {words}: the gang waits", "let all say the same")
    elif not sizes and not any(group_ref.problem or group_ref.minima or group_ref.owner for group_ref in groups):
        what = f"no member says {MIN_MEMBER}: the gang waits"
        yield error("NoMinMember", name, what, f"add {MIN_MEMBER} to the pods")


def _by_dra(resource: str, facts: Facts) -> str:
    return f"is offered by DRA ({facts.devices.offering(resource)}), and no driver has published devices"


def _elsewhere(name: str, members: list[Member], facts: Facts) -> Iterator[Finding]:
    """Find a gang without waiting pods, because another scheduler has started its pods one by one."""
    bound = [member.pod for member in members if member.pod.live and member.pod.node]
    ours = any(member.pod.scheduler in facts.ours for member in members)
    by_name = all(pod.group is not None and pod.group.dialect is Dialect.ANNOTATION for pod in bound)
    if bound and by_name and not ours and not any(member.pending for member in members):
        what = f"its members name a gang, and were started one by one by {bound[0].scheduler}"
        fix = f"set schedulerName: {facts.ours[0]} in the pod template, and create the pods again"
        yield error("GangOfAnother", name, what, fix)


def _object(name: str, facts: Facts) -> Iterator[Finding]:
    if not facts.groups_exist:
        what = "its pods name a PodGroup, and this cluster has no such kind"
        yield error("NoPodGroupKind", name, what, "kubectl apply -k manifests/components/podgroup-crd")
    elif facts.groups is not None and name not in facts.groups:
        fix = "kubectl apply the PodGroup, or correct the label scheduling.x-k8s.io/pod-group"
        yield error("PodGroupMissing", name, "its pods name a PodGroup that does not exist: the gang waits", fix)


def _gates(members: list[Member], facts: Facts) -> Iterator[Finding]:
    """Find gated pods outside gangs: Muster never removes its gate from a pod that is no member of a gang."""
    orphans = list[tuple[Pod, str, str]]()
    for pod in (member.pod for member in members if member.pending and GANG_GATE in member.pod.gates):
        if pod.group_key is None:
            what, fix = "it is in no gang of Muster's", "create it again without the gate, or with muster.dev/pod-group"
        elif pod.scheduler not in facts.ours:
            what, fix = f"its schedulerName {pod.scheduler} is not Muster's", "create it again with Muster's"
        else:
            continue
        orphans.append((pod, f"its gate {GANG_GATE} is never removed: {what}", fix))
    for pod, what, fix in _by_template(orphans):
        yield error("OrphanGate", str(pod), what, fix)


def _unserved(members: list[Member], facts: Facts) -> Iterator[Finding]:
    """Find pods and Volcano Jobs that no scheduler has looked at.

    Their schedulerName is misspelt, or that scheduler is down.
    """
    for name, scheduler in sorted(facts.untaken.items()):
        what = f"no scheduler called {scheduler} has taken it up since it was created, so it has no pods"
        fix = f"add {scheduler} to Muster's scheduler_names and to kube-scheduler's profiles (docs/migrate.md)"
        if scheduler in facts.ours:
            fix = "check that Muster's kube-scheduler runs"
        yield error("NobodyServes", name, what, fix)
    if facts.now is None:
        return
    born_before = facts.now.timestamp() - UNANSWERED_S
    silent: dict[str, list[Pod]] = {}
    for member in members:
        if member.pending and not member.pod.gates and not member.looked_at and 0 < member.pod.created < born_before:
            silent.setdefault(member.pod.scheduler, []).append(member.pod)
    for scheduler, pods in sorted(silent.items()):
        fix = "check that its kube-scheduler runs"
        if scheduler not in facts.ours:
            fix += f", or set schedulerName: {facts.ours[0]} in the template"
        what = f"no scheduler called {scheduler} has looked at {many(len(pods), 'pod')} since they were created"
        yield error("NobodyServes", str(pods[0]), what, fix)


def _foreigners(members: list[Member], facts: Facts) -> Iterator[Finding]:
    """Find GPU pods of other schedulers: two schedulers on one node do not see each other's plans."""
    if facts.guessed:
        return  # which scheduler names are foreign is unknown
    theirs = [
        member.pod for member in members
        if member.pod.node
        and member.pod.scheduler not in facts.ours
        and not member.pod.terminal
        and gpus_of(member.pod.requests)
    ]  # fmt: skip
    if theirs:
        what = f"{many(len(theirs), 'pod')} with GPUs run by another scheduler: both can assign the same GPU"
        fix = "taint GPU nodes for Muster's pods, or give those pods its schedulerName"
        yield warning("OtherSchedulersGpus", str(theirs[0]), what, fix)


def _levels(facts: Facts) -> Iterator[Finding]:
    """Find nodes that belong to no level, and faults in their topology labels."""
    if not facts.nodes:
        return
    table = Table(facts.settings.levels)
    for node in facts.nodes:
        if gpus_of(node.allocatable):
            table.put(node)
    if not table.nodes:
        offered = dict.fromkeys(resource for resource in facts.devices.seen.values() if resource.endswith("/gpu"))
        for resource in offered if not facts.devices_published else ():
            yield warning("GpusByDra", "nodes", f"{resource} {_by_dra(resource, facts)}", _NO_SLICES)
        if not offered:
            yield warning("NoGpuNodes", "nodes", "no node offers GPUs", "run the device plugin of your GPUs")
        return
    view = topology(table.snapshot(), configured=bool(facts.settings.levels))
    yield from _labels(table, view)
    yield from _unknown_levels(view, facts.members or [])


def _labels(table: Table, view: TopologyView) -> Iterator[Finding]:
    for level in view.levels:
        if not level.domains:
            fix = "label the nodes (GPU feature discovery, Topograph), or correct topology_levels"
            yield warning("LevelWithoutNodes", level.key, "no node with GPUs has this label: it has no effect", fix)
        elif level.outside:
            bare = next(node.name for node in table.nodes.values() if level.key not in node.labels)
            what = f"{level.outside} of {len(table.nodes)} nodes with GPUs lack {level.key}: unusable if it is required"
            yield warning("NodesWithoutLabel", bare, what, f"label them with {level.key}")
        for value in level.contradictions:
            what = f"nodes with this {level.key} are in two domains farther out"
            yield warning("LevelsContradict", value, what, "correct the labels: one domain lies inside one other")


def _unknown_levels(view: TopologyView, members: list[Member]) -> Iterator[Finding]:
    """Find levels that pods request and that do not exist."""
    wrong = list[tuple[Pod, str, str]]()
    fix = f"write one of {', '.join(level.name for level in view.levels)}"
    known = {word for level in view.levels for word in (level.name, level.key)} | {HOSTNAME, NO_LEVEL}
    for member in members:
        words = marks_of(member.meta)
        for key in (REQUIRED, PREFERRED, SLICE_TOPOLOGY):
            if member.pending and member.pod.group and words.get(key) and words[key] not in known:
                wrong.append((member.pod, f'{key}: unknown topology level "{words[key]}": the gang waits', fix))
    for pod, what, advice in _by_template(wrong):
        yield error("UnknownLevel", str(pod), what, advice)
