"""Run the core on a real cluster's state: what would start and where, what waits and why, what other settings change.

Only gangs are decided. kube-scheduler places single pods, by more plug-ins than are modelled here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count

from extender.core.engine import Engine
from extender.core.events import Event, PodSeen
from extender.core.explain.reasons import reason_of
from extender.core.workload.names import conflict_key
from extender.core.workload.workload import Workload
from extender.simulation.clock import Clock
from extender.simulation.replay.control_plane import CollapsedControlPlane
from extender.simulation.report.tables import Table
from policies.model import GroupKey, Job, Node, Pod
from policies.model.mentions import full
from policies.steps import finish
from policies.words import counted, listed

SETTLED_S = 120.0
"""Seconds after which all decisions are made, and partly bound gangs have been given up."""
_SHOWN = 4
_OUTLOOKS = 500
"""Most waiting gangs with a search for victims; each search takes tens of milliseconds."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer for a gang that lacked nodes, or a job that did not run.

    ``members``: includes pods that the owner makes only when others run.
    ``nodes``: pod name -> node, of members that got one now; empty if the gang waits.
    ``preemption``: for a waiting gang, which workloads would be evicted if only this gang were served, or why none may
    be.
    ``victims``: the names of those workloads.
    """

    gang: str
    members: int
    nodes: dict[str, str]
    domains: tuple[str, ...]
    code: str
    reason: str
    evicted: int
    preemption: str = ""
    victims: tuple[str, ...] = ()

    @property
    def starts(self) -> bool:
        return bool(self.nodes)


@dataclass(frozen=True, slots=True)
class Verdict:
    """All answers for one set of settings.

    ``running``: gangs that lacked nothing.
    ``singles``: pods without a gang and without a node; nothing decided about them.
    ``suspended``: running jobs that the core would suspend, by name, and why.
    """

    name: str
    answers: list[Answer]
    running: int
    singles: int
    suspended: dict[str, str]


def decide(
    name: str,
    core: Engine,
    nodes: Sequence[Node],
    pods: Sequence[Pod],
    jobs: Sequence[Job],
    others: Iterable[Event],
    taken: float = 0.0,
) -> Verdict:
    """Show the core the cluster and let it act; every write succeeds.

    ``others``: events about objects that are neither nodes, pods nor jobs.
    ``taken``: the instant of this state, in seconds since the epoch.
    """
    clock, bound = Clock(), dict[str, str]()
    began = clock.now
    control_plane = CollapsedControlPlane(core, clock, lambda pod: bound.update({pod.uid: pod.node or ""}))
    control_plane.pods = {pod.uid: pod for pod in pods}
    control_plane.jobs = {job.uid: job for job in jobs}
    control_plane.begin(nodes, [*others, *map(PodSeen, pods)], taken)
    lacked = {key: None for pod in pods if _lacks(core, pod) and (key := pod.group_key) is not None}
    clock.run(SETTLED_S)
    lacked |= {_key(core, job): None for job in _to_start(jobs, pods)}
    lacking = [(key, workload) for key in lacked if (workload := core.state.workloads.get(key)) is not None]
    answers = [_answer(core, workload, bound, control_plane.evicted) for _, workload in lacking]
    looks = count()
    answers = [
        answer if answer.starts else _with_outlook(core, answer, key, began, next(looks))
        for answer, (key, _) in zip(answers, lacking, strict=True)
    ]
    return Verdict(
        name,
        sorted(answers, key=lambda answer: answer.gang),
        running=len(core.state.workloads) - len(lacking),
        singles=sum(_lacks(core, pod) and pod.group_key is None for pod in pods),
        suspended={str(suspend_job.job.key): suspend_job.reason for suspend_job in control_plane.suspended},
    )


def tables(verdicts: Sequence[Verdict]) -> list[Table]:
    """The answers of the first verdict, and what the others change."""
    first = verdicts[0]
    starts = [(answer.gang, *_where(answer)) for answer in first.answers if answer.starts]
    waits = [
        (answer.gang, f"{answer.members}", answer.code, answer.reason) for answer in first.answers if not answer.starts
    ]
    sections = [
        Table(f"Would start with {first.name}", ("gang", "members", "domains", "nodes"), starts, words=True),
        Table("Would wait", ("gang", "members", "code", "reason"), waits, words=True),
    ]
    if outlooks := [(answer.gang, answer.preemption) for answer in first.answers if answer.preemption]:
        sections.append(Table("What would be evicted", ("gang", "preemption"), outlooks, words=True))
    if evicted := [(answer.gang, f"{answer.evicted}") for answer in first.answers if answer.evicted]:
        sections.append(Table("Bound in part, and would be evicted", ("gang", "pods"), evicted))
    if first.suspended:
        sections.append(
            Table("Run, and would be suspended", ("gang", "reason"), [*first.suspended.items()], words=True)
        )
    for other in verdicts[1:]:
        then = {answer.gang: answer for answer in other.answers}
        changed = [
            (before.gang, _ending(before), _ending(after))
            for before in first.answers
            if (after := then.get(before.gang)) and (before.nodes, before.code) != (after.nodes, after.code)
        ]
        sections.append(Table(f"Changed by {other.name}", ("gang", first.name, other.name), changed, words=True))
    return sections


def change(first: Verdict, then: Verdict) -> str:
    """A sentence on what changes; ``nothing changes`` if each answer is the same."""
    before, after = ({answer.gang: answer for answer in verdict.answers} for verdict in (first, then))
    gangs = list(dict.fromkeys([*before, *after]))
    now, later = ({name for name in gangs if name in answers and answers[name].starts} for answers in (before, after))
    both = [name for name in gangs if name in now & later and before[name].nodes != after[name].nodes]
    wait = [name for name in gangs if name not in now | later and before.get(name) != after.get(name)]
    stops = [name for name in then.suspended if name not in first.suspended]
    goes_on = [name for name in first.suspended if name not in then.suspended]
    kinds = (
        ([name for name in gangs if name in later - now], "starts", "start", " that would wait as it is"),
        ([name for name in gangs if name in now - later], "waits", "wait", " that would start as it is"),
        (both, "starts", "start", " on other nodes"),
        (wait, "waits", "wait", " for another reason, or with another message"),
        (stops, "is suspended", "are suspended", ", which runs on as it is"),
        (goes_on, "runs", "run", " on, which would be suspended as it is"),
    )
    parts = [
        f"{counted(len(names), 'gang', singular, plural)}{how} ({listed(names, _SHOWN)})"
        for names, singular, plural, how in kinds
        if names
    ]
    if parts and not later - now:
        parts.insert(0, "no other gang starts")
    return "; ".join(parts) or "nothing changes"


def other_queues(as_it_is: Verdict, then: Verdict) -> list[Table]:
    """The effect of other queue objects: which gangs start then, and why the others wait."""
    before = {answer.gang: _ending(answer) for answer in as_it_is.answers}
    starts = [(answer.gang, before.get(answer.gang, ""), _ending(answer)) for answer in then.answers if answer.starts]
    waits = [
        (answer.gang, before.get(answer.gang, ""), answer.code, answer.reason)
        for answer in then.answers
        if not answer.starts
    ]
    return [
        Table("Would start then", ("gang", "as it is", "then"), starts, words=True),
        Table("Would wait then", ("gang", "as it is", "code", "reason"), waits, words=True),
    ]


def _lacks(core: Engine, pod: Pod) -> bool:
    return pod.live and not pod.node and pod.scheduler in core.state.schedulers and not pod.native_group


def _to_start(jobs: Iterable[Job], pods: Iterable[Pod]) -> list[Job]:
    """Jobs that are suspended, or unplanned without a running pod; such a job is suspended first."""
    begun = {pod.owner for pod in pods if pod.node}
    return [
        job for job in jobs if not job.finished and (job.suspended or not (job.plan or job.running or job.uid in begun))
    ]


def _key(core: Engine, job: Job) -> GroupKey:
    """The core's key of the job. Another workload may have the name of its gang."""
    workload = core.state.workloads.get(job.key)
    record = workload.job if workload is not None else None
    return job.key if record is not None and record.seen.uid == job.uid else conflict_key(job)


def _answer(core: Engine, gang: Workload, bound: dict[str, str], evicted: Sequence[Pod]) -> Answer:
    nodes = {pod.name: bound[pod.uid] for pod in sorted(gang.live, key=lambda pod: pod.rank) if pod.uid in bound}
    wanted = 0 if gang.podsets is None else sum(podset.size for podset in gang.podsets.podsets)
    members = max(len(gang.live), wanted)
    gone = sum(pod.group_key == gang.key for pod in evicted)
    reason = reason_of(gang.reason_state.cause)
    return Answer(
        str(gang.key),
        members,
        nodes,
        _domains(core, nodes),
        reason.code,
        full(reason.message, gang.key.namespace),
        evicted=gone,
    )


def _with_outlook(core: Engine, answer: Answer, key: GroupKey, now: float, number: int) -> Answer:
    """The answer with a search for victims, made as though this gang were the only one that waits."""
    if number >= _OUTLOOKS:
        return replace(answer, preemption=f"not looked into: {_OUTLOOKS} gangs that wait were")
    outlook = finish(core.outlook(core.state.workloads[key], now))
    if outlook is None:
        return answer
    return replace(answer, preemption=full(outlook.text), victims=tuple(full(name) for name, _ in outlook.victims))


def _domains(core: Engine, nodes: dict[str, str]) -> tuple[str, ...]:
    """The nodes' domains of the nearest level, each once; a node in none counts as one."""
    view = core.state.claims.snapshot()
    if not view.levels:
        return ()
    level = view.levels[0]
    codes = {node: int(level.codes[view.rows[node]]) for node in nodes.values() if node in view.rows}
    return tuple(dict.fromkeys(node if code < 0 else level.names[code] for node, code in sorted(codes.items())))


def _where(answer: Answer) -> tuple[str, str, str]:
    nodes = listed(dict.fromkeys(answer.nodes.values()), _SHOWN)
    return f"{len(answer.nodes)} of {answer.members}", listed(answer.domains, _SHOWN), nodes


def _ending(answer: Answer) -> str:
    return (
        f"starts on {listed(dict.fromkeys(answer.nodes.values()), _SHOWN)}"
        if answer.starts
        else f"waits: {answer.code}"
    )
