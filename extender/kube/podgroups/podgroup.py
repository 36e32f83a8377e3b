"""The fields that PodGroups of all projects share."""

from __future__ import annotations

from extender.kube.convert import instant
from extender.kube.reading.durations import run_terms_of, unreadable_durations
from extender.kube.reading.identity import identity
from extender.kube.reading.objects import Meta
from extender.kube.reading.queue_name import queue_of
from extender.kube.reading.topology import topology_of, topology_problem
from policies.model import Controller, Dialect, GroupKey, Minima, PodGroup, Topology


def podgroup(
    meta: Meta,
    min_member: int,
    *,
    dialect: Dialect = Dialect.COSCHEDULING,
    timeout_s: float | None = None,
    topology: Topology | None = None,
    of_roles: tuple[tuple[str, Topology], ...] = (),
    minima: Minima = (),
    problem: str | None = None,
    job: Controller | None = None,
    pending: bool = False,
    starting: bool = False,
    queue: str = "",
) -> PodGroup:
    """A PodGroup of any project. Raises UnreadableError.

    ``topology``: replaces what its annotations alone state.
    ``queue``: counts if its labels name no LocalQueue.
    """
    uid, namespace, name = identity(meta, "PodGroup")
    local, contradiction = queue_of(meta)
    return PodGroup(
        key=GroupKey(namespace, name),
        uid=uid,
        min_member=min_member,
        created=instant(meta.creation_timestamp),
        timeout_s=timeout_s,
        deleting=bool(meta.deletion_timestamp),
        topology=topology_of(meta) if topology is None else topology,
        problem=topology_problem(meta) or contradiction or next(unreadable_durations(meta), problem),
        dialect=dialect,
        minima=minima,
        of_roles=of_roles,
        job=job,
        pending=pending,
        starting=starting,
        queue=local or queue,
        run=run_terms_of(meta),
    )
