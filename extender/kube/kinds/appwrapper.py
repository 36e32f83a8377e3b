"""AppWrapper v1beta2: a podset for each pod template in the objects that it wraps, its components.

Wrapped objects cannot be changed, and the controller makes them when the AppWrapper is unsuspended. Additions to
their pods stand in ``podSetInfos`` of each component, in the order of its podsets. These are the podsets that the
component declares, or else the ones that the controller infers (appwrapper v1.2.2, pkg/utils/utils.go, InferPodSets).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

import msgspec

from extender.kube.dialects import MIN_MEMBER
from extender.kube.keys import COMPONENT, INDEX_LABEL, NODE_LABELS, NODES, PODSET, WORKLOAD
from extender.kube.kinds.claims import claim_makers
from extender.kube.kinds.job import JOB
from extender.kube.kinds.jobset import JOBSET
from extender.kube.kinds.kind import Kind, Object, Template, UnreadableJobError, count_in, found, part_of
from extender.kube.kinds.mpi import MPI
from extender.kube.kinds.ray import RAY_CLUSTER, RAY_JOB
from extender.kube.kinds.trainer import TRAIN_JOB
from extender.kube.kinds.training import TRAINING
from extender.kube.reading.numbering import series_in_component, series_of_role
from extender.kube.reading.objects import UNDECODABLE, Meta
from extender.kube.reading.plain import plain, quoted

_INNER = {(kind.version, kind.name): kind for kind in (JOB, JOBSET, *TRAINING, MPI, RAY_CLUSTER, RAY_JOB)}
_INFERRED = frozenset(("Job", "JobSet", "PyTorchJob", "RayCluster", "RayJob"))
"""Kinds of jobs whose podsets the AppWrapper controller infers."""
_PLACES = {
    ("v1", "Pod"): "template",
    ("apps/v1", "Deployment"): "template.spec.template",
    ("apps/v1", "StatefulSet"): "template.spec.template",
}
"""Other kinds whose podsets it infers, with the path of their only pod template."""
_PATH = re.compile(r"template(\.[^.\[\]]+|\[[0-9]{1,9}\])*")
_STEP = re.compile(r"\.([^.\[\]]+)|\[([0-9]+)\]")
_MOST_PODSETS = 8
"""The limit of AppWrapper's own webhook."""
_OURS = frozenset((MIN_MEMBER, WORKLOAD, NODES, NODE_LABELS, COMPONENT, PODSET, INDEX_LABEL))

UNDECLARED = (
    "Muster cannot tell which pods the {} makes: write the path and the replicas of each template in its podSets"
)
TOO_MANY_PODSETS = f"it has more than {_MOST_PODSETS} podsets, and AppWrapper allows no more"
NO_TEMPLATES = "a TrainJob has no pod templates, and cannot be planned in an AppWrapper"
IN_ORDER = "the {} makes some of its pods only when others run, by its podManagementPolicy or its startupPolicy"
OTHER_TEMPLATES = "its podSets are not the pod templates of the {}, each of them once"
NO_TEMPLATE_AT = "its podSets say the path {}, where no pod template is"
FIXED = (
    "its pod template says {0}, and cannot be changed: take it off. How few pods are enough is said on the AppWrapper"
)
RESETTING = (
    "a component of the AppWrapper failed: its controller has deleted all pods, and creates new ones after a pause "
    "(workload.codeflare.dev.appwrapper/retryPausePeriodDuration, 90 s by default), for which no room is kept"
)
PLACED_BY_OTHERS = (
    "its podSetInfos have {}, with which it cannot be planned: only annotations, labels and tolerations can stay"
)
NO_TOLERATIONS = "its tolerations cannot be read: they are no list"


def _templates(obj: Object) -> Iterator[Template]:
    for number, template in enumerate(_of_components(obj)):
        if number == _MOST_PODSETS:
            raise UnreadableJobError(TOO_MANY_PODSETS)
        yield template


def _of_components(obj: Object) -> Iterator[Template]:
    for at, component in enumerate(found(obj, "spec.components.*")):
        try:
            if not isinstance(component, dict):
                raise UnreadableJobError("it is no object")
            infos = [*found(component, "podSetInfos.*")]
            for place, template in enumerate(_podsets(component, part_of(component, "template"))):
                yield _wrapped(template, at, place, infos[place] if place < len(infos) else {})
        except UnreadableJobError as error:
            raise UnreadableJobError(f"spec.components[{at}]: {error}") from None


def _podsets(component: Object, inner: Object) -> list[Template]:
    """The templates of a component, in the order of ``podSetInfos``."""
    inner_kind = str(inner.get("apiVersion")), str(inner.get("kind"))
    declared = [*found(component, "podSets.*")]
    if kind := _INNER.get(inner_kind):
        return _of_job(kind, inner, [_at(inner, component) for component in declared])
    if inner_kind == (TRAIN_JOB.version, TRAIN_JOB.name):
        raise UnreadableJobError(NO_TEMPLATES)
    if _waits(inner_kind[1], inner):
        raise UnreadableJobError(IN_ORDER.format(inner_kind[1]))
    if not declared and inner_kind in _PLACES:
        count = count_in(part_of(inner, "spec"), "replicas", 1) if inner_kind[1] != "Pod" else 1
        declared = [{"path": _PLACES[inner_kind], "replicas": count}]
    if not declared and _makes_pods(inner):
        raise UnreadableJobError(UNDECLARED.format(plain(inner_kind[1])))
    made = [
        _alone(_at(inner, component), place, count_in(component, "replicas", 1))
        for place, component in enumerate(declared)
    ]
    if inner_kind[1] != "StatefulSet":
        return made
    name = next(found(inner, "metadata.name"), None)
    claims = claim_makers(inner, "spec.volumeClaimTemplates", plain(name) if isinstance(name, str) else "")
    return [replace(template, claims=claims) for template in made]


def _of_job(kind: Kind, inner: Object, declared: list[Object]) -> list[Template]:
    """The templates of a kind that Muster knows, without a status yet. The submitter of a RayJob is no podset."""
    bare = {**inner, "metadata": {}, "status": {}}
    templates = [template for template in kind.templates(bare) if template.name or kind is not RAY_JOB]
    if not declared:
        if kind.name not in _INFERRED:
            raise UnreadableJobError(UNDECLARED.format(kind.name))
        return templates
    made_of = {id(template.pod): template for template in templates}
    if len(declared) != len(templates) or {id(pod) for pod in declared} != made_of.keys():
        raise UnreadableJobError(OTHER_TEMPLATES.format(kind.name))
    return [made_of[id(pod)] for pod in declared]


def _alone(pod: Object, place: int, count: int) -> Template:
    """A podset of a kind that Muster does not know. Annotations that Muster writes tell its pods apart."""
    return Template("", pod, (series_of_role(str(place)),), count, indexed=False, marks={PODSET: str(place)})


def _waits(kind: str, inner: Object) -> bool:
    """Whether the kind makes some pods only when others run. A gang of all would never be complete."""
    if kind == "StatefulSet":
        return "Parallel" not in found(inner, "spec.podManagementPolicy")
    return kind == "LeaderWorkerSet" and "LeaderReady" in found(inner, "spec.startupPolicy")


def _at(inner: Object, podset: Any) -> Object:
    """The pod template at the path that a podset states. Raises UnreadableJobError."""
    path = podset.get("path") if isinstance(podset, dict) else None
    known = isinstance(path, str) and _PATH.fullmatch(path)
    at: Any = inner if known else None
    for field, index in _STEP.findall(str(path)):
        if field:
            at = at.get(field) if isinstance(at, dict) else None
        else:
            at = at[int(index)] if isinstance(at, list) and int(index) < len(at) else None
    if not isinstance(at, dict):
        raise UnreadableJobError(NO_TEMPLATE_AT.format(quoted(str(path))))
    return at


def _makes_pods(inner: Object) -> bool:
    """Whether anything in the object looks like the spec of a pod."""
    left: list[Any] = [inner]
    while left:
        node = left.pop()
        if isinstance(node, dict) and isinstance(node.get("containers"), list):
            return True
        left += node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return False


def _wrapped(template: Template, at: int, place: int, info: Any) -> Template:
    """The template as Muster may write it: ``podSetInfos`` stands in for its fixed metadata and tolerations."""
    if not isinstance(info, dict):
        raise UnreadableJobError("its podSetInfos cannot be read")
    if others := sorted(key for key in info.keys() - {"annotations", "labels", "tolerations"} if info[key]):
        raise UnreadableJobError(PLACED_BY_OTHERS.format(plain(", ".join(others))))
    try:
        meta = msgspec.convert(template.pod.get("metadata") or {}, Meta)
    except UNDECODABLE as error:
        raise UnreadableJobError(f"its pod template cannot be read: {error}") from None
    if fixed := sorted(key for key in _OURS if meta.values_of(key)):
        raise UnreadableJobError(FIXED.format(fixed[0]))
    spec, metadata = dict(part_of(template.pod, "spec")), deepcopy(info)
    tolerated, more = spec.pop("tolerations", None) or [], metadata.pop("tolerations", None)
    if not isinstance(tolerated, list):
        raise UnreadableJobError(NO_TOLERATIONS)
    return replace(
        template,
        name=f"{at}.{place}",
        pod={"spec": spec | ({"tolerations": more} if more else {}), **({"metadata": metadata} if metadata else {})},
        series=tuple(series_in_component(at, series_) for series_ in template.series),
        affinity=False,
        emptied=False,
        marks={**template.marks, COMPONENT: str(at)},
        meta=meta,
        tolerated=tuple(tolerated),
    )


def _carry(obj: Object, templates: Mapping[str, Template]) -> None:
    """Write what is now on the templates into ``podSetInfos``."""
    components = [*found(obj, "spec.components.*")]
    infos: dict[int, list[Object]] = {}
    for name, template in templates.items():
        more = template.pod["spec"].get("tolerations")
        info = (template.pod.get("metadata") or {}) | ({"tolerations": more} if more else {})
        infos.setdefault(int(name.partition(".")[0]), []).append(info)
    for at, all_infos in infos.items():
        if any(all_infos):
            components[at]["podSetInfos"] = all_infos
        else:
            components[at].pop("podSetInfos", None)


APP_WRAPPER = Kind(
    version="workload.codeflare.dev/v1beta2",
    name="AppWrapper",
    plural="appwrappers",
    templates=_templates,
    suspend="spec.suspend",
    finished=("status.phase=Succeeded", "status.phase=Failed"),
    active=(),
    ran=("PodsReady",),
    managed_by="spec.managedBy",
    managers=("workload.codeflare.dev/appwrapper-controller",),
    # The controller sets this phase once all pods are gone.
    stopped="status.phase=Suspended",
    began=("status.phase",),
    carry=_carry,
    delays=("status.phase=Resetting", RESETTING),
    # The controller deletes and remakes pods that do not run in time, a few times; then the AppWrapper fails.
    patience=("workload.codeflare.dev.appwrapper/warmupGracePeriodDuration", 300.0),
)
