"""Kinds of the setting ``job_kinds``. Annotations that Muster writes on the templates tell their pods apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from extender.config.job_kinds import JobKind, PodSetPlaces
from extender.kube.keys import INDEX_LABEL, PODSET
from extender.kube.kinds.kind import Kind, Object, Template, UnreadableJobError, count_in, found
from extender.kube.reading.numbering import series_of_role


def own_kinds(said: Sequence[JobKind]) -> tuple[Kind, ...]:
    """The kinds, in the order of the setting."""
    return tuple(map(_kind, said))


def _kind(said: JobKind) -> Kind:
    def templates(obj: Object) -> Iterator[Template]:
        for podset in said.podsets:
            yield from _template(obj, podset)

    return Kind(
        version=said.version,
        name=said.kind,
        plural=said.plural,
        templates=templates,
        suspend=said.suspend,
        finished=said.finished,
        active=said.active,
        ran=said.ran,
        managed_by=said.managed_by or "",
        managers=said.managers,
        stopped=said.stopped or "",
        began=said.began if said.stopped else (),
        frozen=said.frozen,
        resumes=said.resumes,
    )


def _template(obj: Object, said: PodSetPlaces) -> Iterator[Template]:
    pod = next(found(obj, said.template), None)
    if pod is None and said.optional:
        return
    if not isinstance(pod, dict):
        raise UnreadableJobError(f"it has no {said.template}")
    count = said.count
    if isinstance(count, str):
        count = count_in({count: next(found(obj, count), None)}, count, 1)
    marks = {PODSET: said.name} | ({INDEX_LABEL: said.index_label} if said.index_label else {})
    series = (series_of_role(said.name),)
    yield Template(said.name, pod, series, count, indexed=bool(said.index_label), marks=marks, grows=True)
