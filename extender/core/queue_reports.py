"""How each queue object stands: who waits in it and who runs, what is used and borrowed, and what is wrong with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from extender.core.queues import ObjectKey, key_of
from extender.core.state import State
from extender.core.workload import Workload
from policies.api import PolicyError, QueuePolicy, SortKey
from policies.model import GroupKey
from policies.model.queues import ClusterQueue, Cohort, FlavorResource, LocalQueue, QueueReport, Stop
from policies.quota.shares import share_of
from policies.quota.tree import UNLIMITED, QuotaNode
from policies.words import many

_NO_HALF_LIFE = (
    "it orders by past usage (UsageBasedAdmissionFairSharing), which does not count: the setting "
    "admission_fair_sharing.usage_half_life_time_s is 0"
)


def reports(state: State, policy: QueuePolicy) -> Mapping[ObjectKey, QueueReport]:
    """Of every ClusterQueue, LocalQueue and Cohort that there is an object of."""
    picture, quotas = state.quotas.queues.picture, state.quotas
    found: dict[ObjectKey, QueueReport] = {}
    by_local: dict[tuple[str, str], list[Workload]] = {}
    for name, queue in picture.queues.items():
        some = [one for key in quotas.members.of(name) if (one := state.workloads.get(key)) is not None]
        for one in some:
            by_local.setdefault((one.key.namespace, quotas.local_of(one.key)), []).append(one)
        problems = (*picture.problems.get(name, ()), *_stopped(queue.stop))
        found[key_of(queue)] = _report(
            state, policy, some, quotas.node_of(name), problems, _running_on(state, queue, some)
        )
    for (namespace, name), local in picture.locals.items():
        some, why = by_local.get((namespace, name), []), quotas.queues.route(namespace, name).why
        problems = () if why is None else (why.message,)
        report = _report(state, policy, some, None, problems, _said(state, local))
        found[key_of(local)] = replace(report, past=quotas.past.stored((namespace, name)))
    for name, cohort in picture.cohorts.items():
        node = picture.tree.cohorts[name]
        below = [key for queue in _below(node) for key in quotas.members.of(queue)]
        some = [one for key in below if (one := state.workloads.get(key)) is not None]
        problems = quotas.queues.picture.said[key_of(cohort)].problems
        found[key_of(cohort)] = _report(state, policy, some, node, problems, _said(state, cohort))
    return found


def _report(
    state: State,
    policy: QueuePolicy,
    some: Iterable[Workload],
    node: QuotaNode | None,
    problems: tuple[str, ...],
    warnings: tuple[str, ...],
) -> QueueReport:
    used: Counter[FlavorResource] = Counter()
    reserving = admitted = 0
    pending: list[Workload] = []
    for workload in some:
        if uses := state.quotas.uses.of(workload.key):
            reserving += 1
            admitted += workload.release.complete or workload.whole
            for use in uses.values():
                used.update(use.usage)
        if workload.key in state.waiting.keys and not workload.seated:
            pending.append(workload)
    borrowed = {} if node is None else {what: much for what in used if (much := node.borrowed(what))}
    share = None
    if node is not None and state.limits.fair_sharing:
        found = share_of(node)
        share = UNLIMITED if found.endless else int(found.value)
    keys = tuple(workload.key for workload in sorted(pending, key=lambda one: _place(state, policy, one)))
    return QueueReport(keys, reserving, admitted, dict(+used), borrowed, share, problems, warnings)


def _place(state: State, policy: QueuePolicy, workload: Workload) -> tuple[float, bool, SortKey, GroupKey]:
    """Those of whom the policy cannot say it come last."""
    past = state.quotas.past_of(workload.key)
    try:
        return past, False, policy.order(workload), workload.key
    except PolicyError:
        return past, True, (), workload.key


def _below(node: QuotaNode) -> Iterable[str]:
    """The queues of a cohort and of those in it."""
    for child in node.children:
        yield from _below(child) if child.is_cohort else (child.name,)


def _stopped(stop: Stop) -> tuple[str, ...]:
    return () if stop is Stop.NONE else (f"it is stopped (stopPolicy {stop})",)


def _said(state: State, thing: ClusterQueue | LocalQueue | Cohort) -> tuple[str, ...]:
    return state.quotas.queues.picture.said[key_of(thing)].warnings


def _running_on(state: State, queue: ClusterQueue, some: Iterable[Workload]) -> tuple[str, ...]:
    """What was said of the queue, and whether gangs run on in it although it is drained: only jobs can be stopped."""
    running = sum(one.job is None and one.key in state.quotas.uses for one in some) if queue.stop is Stop.DRAIN else 0
    text = f"{many(running, 'gang')} of pods still running: HoldAndDrain stops jobs only"
    forgotten = queue.by_past_usage and not state.limits.past_usage.half_life_s
    return (*_said(state, queue), *((text,) if running else ()), *((_NO_HALF_LIFE,) if forgotten else ()))
