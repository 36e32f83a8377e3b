"""How each job that names a queue stands, for whoever keeps a record of it: what it asks for, and what it has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from extender.core.readers import for_namespace
from extender.core.reasons import Reason
from extender.core.state import State
from extender.core.workload import Workload
from policies.model import GroupKey, PodSet, Requests
from policies.model.group import Controller
from policies.model.queues import VOLCANO


@dataclass(frozen=True, slots=True)
class PodSetReport:
    """``requests``: of one of its pods. ``minimum``: how many have to start together. ``flavors``: by resource, and
    ``used``: how much of each, of all its pods; both empty while it has no quota."""

    name: str
    count: int
    minimum: int
    requests: Requests
    flavors: Mapping[str, str] = field(default_factory=dict)
    used: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkloadReport:
    """``local``: the LocalQueue that its job names, ``queue``: the ClusterQueue that this leads to; empty for none.
    ``reserved``: it has quota; ``admitted``: its job was started with it, on nodes. ``reason``: why it is there."""

    key: GroupKey
    job: Controller
    local: str
    queue: str
    priority: int
    podsets: tuple[PodSetReport, ...]
    reserved: bool
    admitted: bool
    finished: bool
    reason: Reason


def workload_report(state: State, key: GroupKey) -> WorkloadReport | None:
    """None of what is not there, is no job, or names no LocalQueue. Its reason is the one that was reported, as long as
    that is of the same sort: the numbers in it change more often than anybody wants to read."""
    workload, local = state.workloads.get(key), state.quotas.local_of(key)
    job = workload.job if workload is not None else None
    if workload is None or job is None or not local or local.startswith(VOLCANO) or not job.seen.managed:
        return None
    queue, reserved = state.quotas.queue_of(key), key in state.quotas.uses
    now, told = workload.telling.reason, workload.telling.told.reason
    return WorkloadReport(
        key,
        job.seen.owner,
        local,
        "" if queue is None else queue.name,
        workload.priority,
        tuple(_podsets(state, workload, job.seen.podsets.podsets)),
        reserved,
        reserved and not job.seen.suspended and not job.awaits_nodes,
        job.seen.finished,
        _for_readers(state, key, told if told.code == now.code else now),
    )


def _for_readers(state: State, key: GroupKey, reason: Reason) -> Reason:
    """Render the reason for an object of the namespace."""
    return reason._replace(message=for_namespace(reason.message, key.namespace, state.limits))


def _podsets(state: State, workload: Workload, podsets: tuple[PodSet, ...]) -> Iterator[PodSetReport]:
    flavors: dict[object, dict[str, str]] = {}
    used: dict[object, Counter[str]] = {}
    for use in state.quotas.uses.of(workload.key).values():
        flavors.setdefault(use.part, {}).update(use.flavors)
        some = used.setdefault(use.part, Counter())
        for (_, resource), amount in use.usage.items():
            some[resource] += amount
    for one in podsets:
        name = one.title if one.name else ""
        asked = one.template.requests
        yield PodSetReport(
            name, one.size, one.least, asked, flavors.get(one.name, {}), dict(used.get(one.name, Counter()))
        )
