"""The writes on jobs: a start by a plan for what the job is now, a suspension for a cause.

A plan has enough nodes, which are open, have room, and keep what is required.
"""

from __future__ import annotations

from collections.abc import Collection

from extender.core.effects import CleanJob, Effect, StartJob, SuspendJob
from extender.core.ledger.creation import PROBATION_S
from policies.model import CLIQUE, Job, PodSets
from tests.simulation.admissions import Admissions
from tests.simulation.shown import Shown
from tests.simulation.sight import Room, fits, lets_in, take, tolerating


def judge_plan(effect: StartJob, shown: Shown, podsets: PodSets) -> str | None:
    """The fault of the plan, room aside. ``podsets``: as far as is known of their pods."""
    key, known = effect.job.key, shown.nodes
    for podset in podsets.podsets:
        template = podset.template
        nodes = [node for node in effect.plan.get(podset.name, ()) if node]
        if not min(podset.minimum, podset.size) <= len(nodes) <= podset.size:
            return f"{key} is to be started with {len(nodes)} nodes for {podset}"
        selection = tolerating(template.selection, effect.tolerations.get(podset.name, ()))
        if shut := [node for node in nodes if node not in known or not lets_in(known[node], selection)]:
            return f"{key} is to be started on {shut}, which are closed to it"
        if small := [node for node in nodes if not fits(dict(known[node].allocatable), template.requests)]:
            return f"{key} is to be started on {small}, which its pods do not fit"
        cliques = {known[node].labels.get(CLIQUE) for node in nodes}
        if template.topology.required is not None and (len(cliques) > 1 or None in cliques):
            return f"{key} is to be started in cliques {cliques}"
    if effect.minimum != effect.job.podsets.first_wave:
        return f"{key} is to be started with minMember {effect.minimum}"
    return None


def overfull(effect: StartJob, left: Room, podsets: PodSets) -> str | None:
    """The fault of a plan that exceeds the room.

    ``left``: the room beside all other promises.
    ``podsets``: as far as is known of their pods.
    """
    for podset in podsets.podsets:
        for node in (node for node in effect.plan.get(podset.name, ()) if node):
            if not fits(left.get(node, {}), podset.template.requests):
                return f"{effect.job.key} is to be started on {node}, where {left.get(node)} is left"
            take(left[node], podset.template.requests)
    return None


SLOW_S = 4.0
"""A start may be revoked for a pod that has had no node for this long."""
_NOT_CREATED = "not created in time"
_TOO_SLOW = "did not exist when kube-scheduler gave up the binds"
_WRITES = {StartJob: "started", SuspendJob: "suspended", CleanJob: "cleaned"}


def judge_job(effect: Effect, admissions: Admissions, calls: Collection[str], now: float) -> str | None:
    """The fault of the write. ``calls``: pods whose bind is requested."""
    if not isinstance(effect, StartJob | SuspendJob | CleanJob):
        return None
    key, how = effect.job.key, _WRITES[type(effect)]
    job = admissions.jobs.get(key)
    if job is None or job.uid != effect.job.uid:
        return f"{key} is to be {how}, and is gone"
    admissions.writing[key] = effect
    match effect:
        case StartJob():
            return _judge_start(effect, job, admissions, now)
        case SuspendJob():
            return _judge_suspension(effect, job, admissions, calls, now)
        case _:
            return None if job.finished or (job.suspended and job.stopped) else f"{key} is cleaned while it runs"


def _judge_start(effect: StartJob, job: Job, admissions: Admissions, now: float) -> str | None:
    key, runs = effect.job.key, job.node_wait is not None and not job.suspended
    complaint = admissions.awaiting.start(effect, now)
    if runs and effect.node_wait is None and job.managed and not job.finished:
        if effect.job.podsets != job.podsets:
            return f"{key} is to be started with a plan for other pods"
        admissions.admit(job, effect.plan, now, effect.tolerations, inherited=False)
        return complaint or judge_plan(effect, admissions.known, admissions.as_known(effect.job.podsets))
    if not (job.managed and job.suspended and job.stopped) or job.marked or job.held or job.finished:
        return f"{key} is to be started as it is: {job}"
    if effect.job.podsets != job.podsets:
        return f"{key} is to be started with a plan for other pods"
    if left := [pod.uid for pod in admissions.known.left_over(key)]:
        return f"{key} is to be started while {left} of its last start are there"
    if admissions.refused_for_now(job):
        return f"{key} is to be started although the API server has refused its pods"
    if effect.node_wait is not None:
        admissions.end(key)
        return complaint
    admissions.admit(job, effect.plan, now, effect.tolerations, inherited=False)
    return judge_plan(effect, admissions.known, admissions.as_known(effect.job.podsets))


def _judge_suspension(
    effect: SuspendJob, job: Job, admissions: Admissions, calls: Collection[str], now: float
) -> str | None:
    key = job.key
    admission, again = admissions.slots.of.pop(key, None), admissions.stopping.get(key) == job.uid
    admissions.stopping[key] = job.uid
    rests_long = _TOO_SLOW in effect.reason or (admission is not None and "refuses" in admission.trouble)
    admissions.excused[key] = now + (301.0 if rests_long else 61.0)
    if _NOT_CREATED in effect.reason:
        admissions.uncreated[job.uid] = None
    if job.suspended:
        return None if admission is not None else f"{key} is to be suspended, and is already"
    if again:
        return None  # the outcome of the last attempt is unknown
    if admission is None and job.node_wait is not None:
        return admissions.awaiting.judge_suspension(key, job, now)
    if admission is None:
        pods = [pod for pod in admissions.slots.pods(key) if pod.live and pod.owner == job.uid]
        misled = job.marked and bool(pods) and not any(pod.node for pod in pods)
        lost = job.plan is None and (misled or not job.running or admissions.broken.get(key) == job.uid)
        return None if lost else f"{key} is to be suspended, and its start was none of ours to end"
    if admission.closed and admission.trouble.startswith("node ") and not effect.evicted:
        return f"{key} is to be suspended, and is complete then without what its other pods do: {admission.trouble}"
    admissions.slots.of[key] = admission
    patience_s = PROBATION_S if key.namespace in admissions.refused else admissions.creation_s
    late = admissions.slots.missing(key) > 0 and now >= admission.came_at + patience_s
    admissions.refused |= dict.fromkeys([key.namespace] if late else ())
    del admissions.slots.of[key]
    waiting = [pod for pod in admissions.slots.pods(key) if pod.live and not pod.node]
    slow = any(
        now - admissions.seen_at.get(pod.uid, now) >= SLOW_S and (not admissions.calm or pod.uid not in calls)
        for pod in waiting
    )
    return None if admission.trouble or late or slow else f"{key} is to be suspended without a cause"
