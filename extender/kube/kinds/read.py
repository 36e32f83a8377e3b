"""Read a decoded job of any kind into the Job of the core.

Besides the job come hints for its author about annotations without effect, and a short key for the shape of each
podset. The key covers everything that admission may depend on when the API server creates the pods.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import islice

import msgspec

from extender.core.instants import instant_of
from extender.kube.dialects import COSCHEDULING_POD_GROUP, MIN_MEMBER, POD_GROUP
from extender.kube.dialects.unread_keys import misspelt
from extender.kube.keys import FLAVORS, GANG, HOLD, IN_VAIN, MIN_PARALLELISM, OWN, PLAN, REQUEUED_AT
from extender.kube.kinds.completion import Completion, TemplateSpec, not_before_it_exists, shape_of
from extender.kube.kinds.kind import Kind, Object, Template, UnreadableJobError, found
from extender.kube.kinds.plan import MOST_PODS, flavors_from, in_vain_from, node_wait_from, plan_from
from extender.kube.kinds.registry import Registry
from extender.kube.kinds.template import bare, is_marked, originals_of
from extender.kube.reading.durations import run_terms_of, unreadable_durations
from extender.kube.reading.eviction import evictions_of, terms_of, unreadable_terms
from extender.kube.reading.identity import UnreadableError
from extender.kube.reading.objects import UNDECODABLE, Meta
from extender.kube.reading.plain import is_name, plain, quoted
from extender.kube.reading.queue_name import MISSPELT, any_queue_of, is_misspelt, shown_queue
from extender.kube.reading.reserved import PREEMPTING, RESERVED, reservation_from
from policies.model import Controller, GroupKey, Job, Pod, PodSet, PodSets, RunTerms, SlotKey
from policies.model.duration import NO_RUN_TERMS, longest

NO_BOOLEAN = {
    HOLD: "write true to hold it, or false",
    GANG: "write true to have Muster admit it, or false to have it left alone",
}


def unread_booleans(meta: Meta) -> Iterator[str]:
    """Yield one sentence for each value that is neither true nor false."""
    for key, meant in NO_BOOLEAN.items():
        yield from (f"{key} is {quoted(no_boolean)}: {meant}" for no_boolean in meta.no_booleans(key))


def hints_of(meta: Meta) -> Iterator[str]:
    """Yield hints about what the author wrote that has no effect. Of the unknown keys only the first is named."""
    if is_misspelt(meta):
        yield MISSPELT
    yield from (f"{unread.key} {unread.what}: {unread.fix}" for unread in islice(misspelt(meta, of_job=True), 1))
    yield from unreadable_terms(meta)
    yield from unreadable_durations(meta)


_PER_JOB = ("env", "envFrom", "args", "command", "image")
"""Fields of a container that differ between jobs of one shape."""
_CONTAINERS = ("containers", "initContainers")
_NAME = "(name)"


def shape_key(namespace: str, names: Sequence[str], pod: Object, completed: Pod) -> str:
    """A hash that is equal for jobs whose pods the API server and Muster treat alike.

    ``names``: the name and UID of the job. They are masked where they stand in the template, as in the labels that
    controllers write, so that jobs that differ in nothing else have one shape.
    ``completed``: a pod as LimitRanges, its RuntimeClass and its PriorityClass complete it. If one of these changes, so
    does the shape.
    """
    meta, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    if not isinstance(meta, dict) or not isinstance(spec, dict):
        return ""
    selection = completed.selection
    resources = completed.requests, selection.node_selector, selection.tolerations
    identity = [namespace, meta.get("labels"), meta.get("annotations"), {**spec, **_without_work(spec)}, resources]
    text = json.dumps(identity, sort_keys=True)  # escapes whatever cannot be encoded
    for name in filter(None, names):
        # JSON escapes no character of a name. The name is matched as a whole text, and at the beginning of one.
        for end in ('"', "-"):
            text = text.replace(f'"{name}{end}', f'"{_NAME}{end}')
    return blake2b(text.encode("ascii", "replace"), digest_size=16).hexdigest()


def _without_work(spec: Object) -> Object:
    without_work: Object = {}
    for field in _CONTAINERS:
        containers = spec.get(field) or ()
        without_work[field] = [
            {key: value for key, value in container.items() if key not in _PER_JOB}
            if isinstance(container, dict)
            else container
            for container in containers
        ]
    return without_work


NO_PODS = "it asks for no pod: raise its parallelism or its replicas to have it planned"
TOO_MANY_PODS = f"it has {{}} pods, and no more than {MOST_PODS:,} can be planned together"
TWO_GANGS = f"its pod templates name different gangs in {POD_GROUP}"
BAD_NAME = f"{POD_GROUP} in its pod template is {{}}, which no object can be named: write a lower-case DNS subdomain"
A_PODGROUP = f"its pod template names a PodGroup in {COSCHEDULING_POD_GROUP}: a job is a gang of its own"
TWO_MINIMA = f"{MIN_MEMBER} or {MIN_PARALLELISM} says different numbers on the job and on its pod templates"
BAD_MINIMUM = "{} is {}, which is not a whole number from 1 to {}, the number of its pods"
ANOTHER_SCHEDULER = "its pod template names the scheduler {}, which Muster does not serve"
NATIVE_GROUP = (
    "its pod template names a native group in spec.schedulingGroup, which kube-scheduler starts: take that off the "
    'template, or write muster.dev/gang: "false" on the job'
)

_REMEMBERED = 10_000
_TEMPLATES = 2_000
"""How many shapes keep a template; each takes a few KiB."""


class TemplateObject(msgspec.Struct):
    """A pod template."""

    metadata: Meta | None = None
    spec: TemplateSpec | None = None


@dataclass(frozen=True, slots=True)
class _Declared:
    """The part of a job that its spec, labels, annotations and ``progress`` fields decide; read once per generation.

    ``marked``: Muster has written on its templates.
    ``run``, ``done``, ``closed``: as in Job.
    """

    podsets: PodSets
    marked: bool
    problem: str
    run: RunTerms = NO_RUN_TERMS
    done: frozenset[SlotKey] = frozenset()
    closed: int = 0


class Reader:
    """Reads jobs of all kinds.

    ``schedulers``: names of the schedulers that Muster serves.
    ``registry``: all known kinds.
    ``completion``: what completes pods; replaced when those objects change.
    """

    def __init__(
        self,
        schedulers: Sequence[str] = ("muster",),
        completion: Completion | None = None,
        registry: Registry | None = None,
    ) -> None:
        self.schedulers = tuple(schedulers)
        self.registry = registry or Registry()
        self.completion = completion or Completion()
        self._declared: dict[str, tuple[tuple[object, ...], Completion, _Declared]] = {}
        self._templates: dict[str, str] = {}

    def template_of(self, shape: str) -> Object | None:
        """A template of that shape as its author wrote it; None if it is no longer remembered."""
        text = self._templates.get(shape)
        return None if text is None else json.loads(text)

    def read(self, kind: Kind, obj: Object, *, managed: bool = True) -> Job:
        """Read the job that the object is or shows.

        ``managed``: whether its metadata ask Muster to admit it. The job's ``problem`` says why it cannot be planned.
        Raises UnreadableError if the metadata do not identify the object.
        """
        meta = meta_of(kind.name, obj)
        owner = _job_in(kind, meta)
        declared = self._known(kind, obj, meta, owner)
        suspended, finished = kind.is_suspended(obj), kind.has_finished(obj)
        writable = suspended or not (kind.frozen and finished)
        # The object that shows a suspended job keeps the plan until the templates are cleaned.
        planned = None if suspended and kind.shown_in else (meta.annotations or {}).get(PLAN)
        queue, contradiction = (shown_queue(meta), "") if kind.shown_in else any_queue_of(meta)
        unread = next(unread_booleans(meta), "")
        # A job that is neither suspended nor names a queue gives no sign that it is to be admitted.
        asks_admission = suspended or bool(queue) or "true" in meta.values_of(GANG) or kind.shown_in is not None
        return Job(
            podsets=declared.podsets,
            owner=owner,
            managed=managed and asks_admission and kind.is_left_to_us(obj),
            suspended=suspended,
            stopped=kind.is_stopped(obj),
            finished=finished,
            running=kind.is_running(obj),
            held="true" in meta.values_of(HOLD),
            marked=_is_marked(meta) or (writable and declared.marked),
            plan=plan_from(planned),
            problem=contradiction or unread or declared.problem,
            resumes=kind.resumes,
            done=declared.done,
            closed=declared.closed,
            queue=queue,
            flavors=flavors_from((meta.annotations or {}).get(FLAVORS)),
            hint="; ".join(hints_of(meta)) or None,
            delay=kind.delay(obj),
            no_pods=kind.has_no_pods(obj),
            reservation=reservation_from((meta.annotations or {}).get(PREEMPTING)),
            backfill=reservation_from((meta.annotations or {}).get(RESERVED)),
            eviction=terms_of(meta),
            run=run_terms_of(meta).over(declared.run),
            began=_began(obj),
            evicted=evictions_of(meta),
            in_steps=kind.shown_in is not None,
            same_names=kind.same_names,
            backs_off=kind.backs_off,
            node_wait=node_wait_from(planned),
            in_vain=in_vain_from((meta.annotations or {}).get(IN_VAIN)),
            requeued=(meta.annotations or {}).get(REQUEUED_AT, ""),
            of_class=self.completion.priority_of(meta)[0],
        )

    def _known(self, kind: Kind, obj: Object, meta: Meta, owner: Controller) -> _Declared:
        """The spec's part of the job, read again only when the generation or the ``progress`` fields change.

        Most changes of a job are changes of its status. The object that shows a job may be made again while the job
        stays, so its UID counts as well.
        """
        generation = obj["metadata"].get("generation")
        progress = tuple(value for path in kind.progress for value in found(obj, path))
        version = meta.uid, generation, meta.labels, meta.annotations, progress
        known = self._declared.pop(owner.uid, None)
        if generation is None or known is None or known[0] != version or known[1] is not self.completion:
            known = version, self.completion, self._read(kind, obj, meta, owner)
        self._declared[owner.uid] = known
        if len(self._declared) > _REMEMBERED:
            del self._declared[next(iter(self._declared))]
        return known[2]

    def _read(self, kind: Kind, obj: Object, meta: Meta, owner: Controller) -> _Declared:
        key = GroupKey(meta.namespace or "", owner.gang)
        marked = False
        try:
            templates = templates_of(kind, obj)
            marked = any(map(is_marked, templates))
            if kind.is_empty(obj):
                return _Declared(PodSets(key, ()), marked, "")
            key, podsets, problem = self._podsets(kind, meta, key, owner, templates)
            done, closed = frozenset(_ended(templates, podsets)), sum(template.closed for template in templates)
            run = longest(_runs(templates, podsets))
            return _Declared(PodSets(key, podsets), marked, problem, run, done, closed)
        except UnreadableJobError as error:
            return _Declared(PodSets(key, ()), marked, str(error))

    def _podsets(
        self, kind: Kind, meta: Meta, key: GroupKey, owner: Controller, templates: list[Template]
    ) -> tuple[GroupKey, tuple[PodSet, ...], str]:
        total = sum(template.count * len(template.series) for template in templates)
        left = total - sum(len(template.done) for template in templates)
        if left < 1 or total > MOST_PODS:
            raise UnreadableJobError(TOO_MANY_PODS.format(f"{total:,}") if left > 0 else NO_PODS)
        originals = originals_of(meta)
        made_of = [bare(template, originals.get(template.name, {})) for template in templates]
        pods = [decoded(pod) for pod in made_of]
        key = GroupKey(key.namespace, _gang([pod.metadata or Meta() for pod in pods]) or key.name)
        declared = _minimum(kind, meta, [pod.metadata or Meta() for pod in pods], total)
        least = _least(templates, declared)
        minimum = min(left, sum(least) if declared is None else declared)
        problems = [self.completion.priority_of(meta)[1], *(template.problem for template in templates)]
        shapes: list[Pod] = []
        for pod, of in zip(pods, templates, strict=True):
            shape, problem = self._shape(meta, key, owner, minimum, pod)
            shapes.append(replace(shape, claim_makers=(*shape.claim_makers, *of.claims)) if of.claims else shape)
            problems += [problem, not_before_it_exists(shape)]
        names = key.name, owner.name, owner.uid, meta.name or "", meta.uid or ""
        keys = [shape_key(key.namespace, names, pod, shape) for pod, shape in zip(made_of, shapes, strict=True)]
        for shape_of_pod, template in zip(keys, made_of, strict=True):
            self._remember_template(shape_of_pod, template)
        by_series = {name: key for template, key in zip(templates, keys, strict=True) for name in template.series}
        podsets = (
            replace(podset, shape=by_series[podset.name]) for podset in podsets_of(templates, shapes, least, minimum)
        )
        return key, tuple(podsets), next(filter(None, problems), "")

    def _remember_template(self, shape: str, template: Object) -> None:
        text = self._templates.pop(shape, None)
        self._templates[shape] = json.dumps(template) if text is None else text  # escapes what cannot be encoded
        if len(self._templates) > _TEMPLATES:
            del self._templates[next(iter(self._templates))]

    def shape_of(self, meta: Meta, key: GroupKey, owner: Controller, template: Object) -> tuple[Pod, str]:
        """A pod of that template without an index, and what is wrong with it. Raises UnreadableJobError."""
        return self._shape(meta, key, owner, 1, decoded(template))

    def _shape(
        self, meta: Meta, key: GroupKey, owner: Controller, minimum: int, template: TemplateObject
    ) -> tuple[Pod, str]:
        spec = template.spec or TemplateSpec()
        problems = [self.completion.complete(key.namespace, spec), self._scheduled(spec)]
        if spec.scheduling_group is not None:
            problems.append(NATIVE_GROUP)
        shape = shape_of(meta, key, owner, minimum, template.metadata or Meta(), spec)
        problems.append((shape.group and shape.group.problem) or "")
        return shape, next(filter(None, problems), "")

    def _scheduled(self, spec: TemplateSpec) -> str:
        """Why Muster does not schedule this pod; empty if it does. The admission policy names ours where none is
        named."""
        if not spec.scheduler_name:
            spec.scheduler_name = self.schedulers[0]
        if spec.scheduler_name in self.schedulers:
            return ""
        return ANOTHER_SCHEDULER.format(plain(spec.scheduler_name))


def templates_of(kind: Kind, obj: Object) -> list[Template]:
    """The job's pod templates, each checked to decode as one. Raises UnreadableJobError."""
    templates = list(kind.templates(obj))
    for template in templates:
        decoded(template.pod)
    return templates


def _is_marked(meta: Meta) -> bool:
    return any((meta.annotations or {}).get(key) for key in (PLAN, OWN, FLAVORS))


def _job_in(kind: Kind, meta: Meta) -> Controller:
    """The job that an object with these metadata is, or shows. Raises UnreadableError."""
    if kind.shown_in is None:
        return Controller(kind.version, kind.name, meta.name or "", meta.uid or "")
    maker = next(
        (
            owner_reference
            for owner_reference in meta.owner_references or ()
            if owner_reference.controller and owner_reference.kind == kind.name
        ),
        None,
    )
    if maker is None or not (maker.name and maker.uid):
        raise UnreadableError(f"no {kind.name} has made the {kind.shown_in.name} {meta.namespace}/{meta.name}")
    return Controller(kind.version, kind.name, maker.name, maker.uid)


def meta_of(kind: str, obj: Object) -> Meta:
    """The object's metadata. Raises UnreadableError if they do not identify the object."""
    try:
        meta = msgspec.convert(obj.get("metadata"), Meta)
    except UNDECODABLE as error:
        raise UnreadableError(f"the {kind} has no readable metadata: {error}") from None
    if not (meta.name and meta.namespace and meta.uid):
        raise UnreadableError(f"the {kind} lacks its name, namespace or UID")
    return meta


def decoded(pod: Object) -> TemplateObject:
    """Decode a pod template. Raises UnreadableJobError."""
    try:
        return msgspec.convert(pod, TemplateObject)
    except UNDECODABLE as error:
        raise UnreadableJobError(f"its pod template cannot be read: {error}") from None


def _gang(metas: list[Meta]) -> str:
    """The gang that the templates name; empty if they name none. Raises UnreadableJobError if they contradict each
    other."""
    if any(meta.values_of(COSCHEDULING_POD_GROUP) for meta in metas):
        raise UnreadableJobError(A_PODGROUP)
    names = {name for meta in metas for name in meta.values_of(POD_GROUP)}
    if len(names) > 1:
        raise UnreadableJobError(TWO_GANGS)
    if bad := [name for name in names if not is_name(name)]:
        raise UnreadableJobError(BAD_NAME.format(quoted(bad[0])))
    return next(iter(names), "")


def _minimum(kind: Kind, meta: Meta, metas: list[Meta], total: int) -> int | None:
    """The minimum of all pods together that the author states; None without one. Raises UnreadableJobError."""
    declared = [(MIN_MEMBER, text) for meta in (meta, *metas) for text in meta.values_of(MIN_MEMBER)]
    if kind.min_parallelism:
        declared += [(MIN_PARALLELISM, text) for text in [(meta.annotations or {}).get(MIN_PARALLELISM)] if text]
    if len({text for _, text in declared}) > 1:
        raise UnreadableJobError(TWO_MINIMA)
    for key, text in declared[:1]:
        if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= total):
            raise UnreadableJobError(BAD_MINIMUM.format(key, quoted(text), total))
        return int(text)
    return None


def _least(templates: list[Template], declared: int | None) -> list[int]:
    """The minimum of each podset: what the kind says, or all its pods if the author states a total."""
    return [
        template.count - len(template.done) if declared is not None or template.minimum is None else template.minimum
        for template in templates
        for _ in template.series
    ]


def _ended(templates: list[Template], podsets: tuple[PodSet, ...]) -> Iterator[SlotKey]:
    named = {podset.name: podset for podset in podsets}
    for template in templates:
        yield from (named[name].slot(at) for name in template.series for at in template.ended)


def _runs(templates: list[Template], podsets: tuple[PodSet, ...]) -> Iterator[RunTerms]:
    """Yield how long the pods of each podset run. The job's deadline counts before that of a pod, since a failed pod
    may be replaced by another."""
    named = {podset.name: podset.template.run for podset in podsets}
    for template in templates:
        yield from (RunTerms(None, template.deadline_s).over(named[name]) for name in template.series)


def _began(obj: Object) -> float | None:
    at = next(found(obj, "status.startTime"), None)
    return instant_of(at) if isinstance(at, str) else None


def podsets_of(templates: list[Template], shapes: list[Pod], least: list[int], minimum: int) -> Iterator[PodSet]:
    """Yield the podsets, with minima that add up to ``minimum``.

    The last podsets lose minimum first. Each keeps at least one pod while that suffices.
    """
    made_of = [
        (template, shape, name) for template, shape in zip(templates, shapes, strict=True) for name in template.series
    ]
    sets = [
        PodSet(
            replace(shape, series=name),
            template.count,
            few,
            template.indexed,
            template.wave,
            template.done,
            completions=template.completions,
        )
        for (template, shape, name), few in zip(made_of, least, strict=True)
    ]
    spare = sum(podset.minimum for podset in sets) - minimum
    for floor in (1, 0):
        for at in reversed(range(len(sets))):
            fewer = min(spare, max(0, sets[at].minimum - floor))
            spare -= fewer
            sets[at] = replace(sets[at], minimum=sets[at].minimum - fewer)
    yield from sets
