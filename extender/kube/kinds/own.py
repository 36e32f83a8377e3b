"""Kinds of the setting ``job_kinds``. Annotations that Muster writes on the templates tell their pods apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from extender.config.job_kinds import JobKind, PodSetPlaces
from extender.kube.keys import INDEX_LABEL, PODSET
from extender.kube.kinds.kind import Kind, Object, Template, UnreadableJobError, count_in, found
from extender.kube.reading.numbering import series_of_role


def own_kinds(job_kinds: Sequence[JobKind]) -> tuple[Kind, ...]:
    """The kinds, in the order of the setting."""
    return tuple(map(_kind, job_kinds))


def _kind(job_kind: JobKind) -> Kind:
    def templates(obj: Object) -> Iterator[Template]:
        for podset in job_kind.podsets:
            yield from _template(obj, podset)

    return Kind(
        version=job_kind.version,
        name=job_kind.kind,
        plural=job_kind.plural,
        templates=templates,
        suspend=job_kind.suspend,
        finished=job_kind.finished,
        active=job_kind.active,
        ran=job_kind.ran,
        managed_by=job_kind.managed_by or "",
        managers=job_kind.managers,
        stopped=job_kind.stopped or "",
        began=job_kind.began if job_kind.stopped else (),
        frozen=job_kind.frozen,
        resumes=job_kind.resumes,
    )


def _template(obj: Object, set_places: PodSetPlaces) -> Iterator[Template]:
    pod = next(found(obj, set_places.template), None)
    if pod is None and set_places.optional:
        return
    if not isinstance(pod, dict):
        raise UnreadableJobError(f"it has no {set_places.template}")
    count = set_places.count
    if isinstance(count, str):
        count = count_in({count: next(found(obj, count), None)}, count, 1)
    marks = {PODSET: set_places.name} | ({INDEX_LABEL: set_places.index_label} if set_places.index_label else {})
    series = (series_of_role(set_places.name),)
    yield Template(set_places.name, pod, series, count, indexed=bool(set_places.index_label), marks=marks, grows=True)
