"""A job of any kind, decoded, as the core is told of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec

from extender.kube.convert import UnreadableError, pod_from
from extender.kube.dialects import COSCHEDULING_POD_GROUP, MIN_MEMBER, POD_GROUP
from extender.kube.kinds.completion import Completion, TemplateSpec
from extender.kube.kinds.keys import GANG, HOLD, MIN_PARALLELISM, OWN, PLAN, QUEUES
from extender.kube.kinds.kind import Kind, Object, Template, UnreadableJobError
from extender.kube.kinds.plan import MOST_PODS, plan_from
from extender.kube.kinds.template import Kept, bare, is_marked
from extender.kube.objects import UNDECODABLE, Meta, PodObject
from extender.kube.plain import plain, quoted
from policies.model import Controller, GroupKey, Job, Pod, PodSet, PodSets

NO_PODS = "it asks for no pod"
TOO_MANY_PODS = f"it has {{}} pods, and no more than {MOST_PODS:,} can be planned together"
TWO_GANGS = f"its pod templates name different gangs in {POD_GROUP}"
A_PODGROUP = f"its pod template names a PodGroup in {COSCHEDULING_POD_GROUP}: a job is a gang of its own"
TWO_MINIMA = f"{MIN_MEMBER} or {MIN_PARALLELISM} says different numbers on the job and on its pod templates"
BAD_MINIMUM = "{} is {}, which is not a whole number from 1 to {}, the number of its pods"
ANOTHER_SCHEDULER = "its pod template names the scheduler {}, which Muster does not serve"


class _Spec(msgspec.Struct):
    """The part of a pod template that is not its metadata."""

    metadata: Meta | None = None
    spec: TemplateSpec | None = None


class Reader:
    """``schedulers``: the names of the schedulers that Muster serves. ``completion`` is replaced as objects change."""

    def __init__(self, schedulers: Sequence[str] = ("muster",), completion: Completion | None = None) -> None:
        self.schedulers = tuple(schedulers)
        self.completion = completion or Completion()

    def read(self, kind: Kind, obj: Object, *, managed: bool = True) -> Job:
        """What in it keeps it from being planned is its ``problem``. Raises UnreadableError if nobody can say which
        object it is. ``managed``: whether its metadata ask for it."""
        meta = _meta(kind, obj)
        namespace, name, uid = meta.namespace or "", meta.name or "", meta.uid or ""
        plan, marked, problem = plan_from((meta.annotations or {}).get(PLAN)), _is_marked(meta), ""
        key, podsets = GroupKey(namespace, f"{kind.name.lower()}-{name}"), tuple[PodSet, ...]()
        owner = Controller(kind.version, kind.name, name, uid)
        try:
            templates = templates_of(kind, obj)
            writable = kind.is_suspended(obj) or not (kind.frozen and kind.has_finished(obj))
            marked = marked or (writable and any(map(is_marked, templates)))
            key, podsets, problem = self._podsets(kind, meta, key, owner, templates)
        except UnreadableJobError as error:
            problem = str(error)
        return Job(
            podsets=PodSets(key, podsets),
            owner=owner,
            managed=managed and kind.is_left_to_us(obj),
            suspended=kind.is_suspended(obj),
            stopped=kind.is_stopped(obj),
            finished=kind.has_finished(obj),
            running=kind.is_running(obj),
            held="true" in meta.said(HOLD),
            marked=marked,
            plan=plan,
            problem=problem,
        )

    def _podsets(
        self, kind: Kind, meta: Meta, key: GroupKey, owner: Controller, templates: list[Template]
    ) -> tuple[GroupKey, tuple[PodSet, ...], str]:
        total = sum(template.count * len(template.series) for template in templates)
        if not 0 < total <= MOST_PODS:
            raise UnreadableJobError(TOO_MANY_PODS.format(f"{total:,}") if total else NO_PODS)
        kept = kept_of(meta)
        pods = [_decoded(bare(template, kept.get(template.name, {}))) for template in templates]
        key = GroupKey(key.namespace, _gang([pod.metadata or Meta() for pod in pods]) or key.name)
        minimum = _minimum(kind, meta, [pod.metadata or Meta() for pod in pods], total)
        problems: list[str] = []
        shapes: list[Pod] = []
        for pod in pods:
            spec = pod.spec or TemplateSpec()
            problems.append(self.completion.complete(key.namespace, spec))
            problems.append(self._scheduled(spec))
            shapes.append(_shape(meta, key, owner, minimum, pod.metadata or Meta(), spec))
            problems.append((shapes[-1].group and shapes[-1].group.problem) or "")
        return key, tuple(_sets(templates, shapes, minimum)), next(filter(None, problems), "")

    def _scheduled(self, spec: TemplateSpec) -> str:
        """Where no scheduler is named the admission policy names ours."""
        if not spec.scheduler_name:
            spec.scheduler_name = self.schedulers[0]
        if spec.scheduler_name in self.schedulers:
            return ""
        return ANOTHER_SCHEDULER.format(plain(spec.scheduler_name))


def templates_of(kind: Kind, obj: Object) -> list[Template]:
    """Its pod templates, each of the shape that pod templates have. Raises UnreadableJobError."""
    templates = list(kind.templates(obj))
    for template in templates:
        _decoded(template.pod)
    return templates


def kept_of(meta: Meta) -> dict[str, Kept]:
    """What ``take_off`` needs to know, by template; empty where nobody can have written it by ``start``."""
    try:
        kept = msgspec.json.decode((meta.annotations or {}).get(OWN) or "{}", type=dict[str, dict[str, str]])
    except UNDECODABLE:
        return {}
    return dict(kept)


def kept_text(kept: dict[str, dict[str, str]]) -> str:
    return json.dumps(kept, sort_keys=True, separators=(",", ":"))


def asks(meta: Meta) -> bool:
    """Its author wants Muster to admit it."""
    said = meta.said(GANG)
    return "false" not in said and ("true" in said or any((meta.labels or {}).get(key) for key in QUEUES))


def _is_marked(meta: Meta) -> bool:
    return any((meta.annotations or {}).get(key) for key in (PLAN, OWN))


def _meta(kind: Kind, obj: Object) -> Meta:
    try:
        meta = msgspec.convert(obj.get("metadata"), Meta)
    except UNDECODABLE as error:
        raise UnreadableError(f"the {kind.name} has no readable metadata: {error}") from None
    if not (meta.name and meta.namespace and meta.uid):
        raise UnreadableError(f"the {kind.name} lacks its name, namespace or UID")
    return meta


def _decoded(pod: Object) -> _Spec:
    try:
        return msgspec.convert(pod, _Spec)
    except UNDECODABLE as error:
        raise UnreadableJobError(f"its pod template cannot be read: {error}") from None


def _gang(metas: list[Meta]) -> str:
    """The name that its templates say; empty if they say none."""
    if any(meta.said(COSCHEDULING_POD_GROUP) for meta in metas):
        raise UnreadableJobError(A_PODGROUP)
    names = {name for meta in metas for name in meta.said(POD_GROUP)}
    if len(names) > 1:
        raise UnreadableJobError(TWO_GANGS)
    return next(iter(names), "")


def _minimum(kind: Kind, meta: Meta, metas: list[Meta], total: int) -> int:
    said = [(MIN_MEMBER, text) for one in (meta, *metas) for text in one.said(MIN_MEMBER)]
    if kind.min_parallelism:
        said += [(MIN_PARALLELISM, text) for text in [(meta.annotations or {}).get(MIN_PARALLELISM)] if text]
    if len({text for _, text in said}) > 1:
        raise UnreadableJobError(TWO_MINIMA)
    for key, text in said[:1]:
        if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= total):
            raise UnreadableJobError(BAD_MINIMUM.format(key, quoted(text), total))
        return int(text)
    return total


def _shape(meta: Meta, key: GroupKey, owner: Controller, minimum: int, said: Meta, spec: TemplateSpec) -> Pod:
    """A pod of this template, by the conversion of pods, without a number."""
    annotations = {**(said.annotations or {}), POD_GROUP: key.name, MIN_MEMBER: str(minimum)}
    told = Meta(
        name=meta.name,
        namespace=meta.namespace,
        uid=owner.uid,
        creation_timestamp=meta.creation_timestamp,
        labels=said.labels,
        annotations=annotations,
    )
    try:
        pod = pod_from(PodObject(told, spec))
    except UnreadableError as error:
        raise UnreadableJobError(f"its pods cannot be read: {error}") from None
    return replace(pod, owner=owner.uid, controller=owner, index=None, series="")


def _sets(templates: list[Template], shapes: list[Pod], minimum: int) -> Iterator[PodSet]:
    """The least number of pods is taken from the last podsets first, and one pod of each stays while that is enough."""
    sets = [
        PodSet(replace(shape, series=name), template.count, template.count, template.indexed, template.wave)
        for template, shape in zip(templates, shapes, strict=True)
        for name in template.series
    ]
    spare = sum(one.count for one in sets) - minimum
    for least in (1, 0):
        for at in reversed(range(len(sets))):
            fewer = min(spare, max(0, sets[at].minimum - least))
            spare -= fewer
            sets[at] = replace(sets[at], minimum=sets[at].minimum - fewer)
    yield from sets
