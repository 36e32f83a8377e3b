"""How a pod says which gang it belongs to: its annotations and labels, read into one GroupRef.

Two dialects. ``muster.dev/pod-group`` with ``muster.dev/min-member`` needs no object in the cluster;
``scheduling.x-k8s.io/pod-group`` names a PodGroup object. Each key may be an annotation or a label. A pod that names
the same group in both dialects is read in the second one: the object is one truth for all members, and it wins over
what a pod says of itself. What cannot be read becomes a problem, one sentence that quotes it, never a guess.
"""

from __future__ import annotations

import re

from extender.kube.objects import Meta
from extender.kube.plain import is_name, quoted
from extender.kube.topology import topology_problem
from policies.model import Dialect, GroupRef

POD_GROUP = "muster.dev/pod-group"
MIN_MEMBER = "muster.dev/min-member"
COSCHEDULING_POD_GROUP = "scheduling.x-k8s.io/pod-group"

TWO_DIALECTS = f"{POD_GROUP} and {COSCHEDULING_POD_GROUP} name different groups"
TWO_NAMES = "the annotation and the label of its pod-group key name different groups"
TWO_SIZES = f"its annotation and its label {MIN_MEMBER} differ"
BAD_NAME = "the name of its group is not a valid Kubernetes object name (a lower-case DNS subdomain)"
BAD_SIZE = f"{MIN_MEMBER} is {{}}, which is not a whole number from 1 to 999999999"

_POSITIVE = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)


def group_of(meta: Meta) -> GroupRef | None:
    """The gang that the pod names, or None. The result carries a problem where the pod contradicts itself."""
    annotated, labelled = _both(meta, POD_GROUP)
    own = annotated if annotated is not None else labelled
    foreign_annotated, foreign_labelled = _both(meta, COSCHEDULING_POD_GROUP)
    foreign = foreign_labelled if foreign_labelled is not None else foreign_annotated
    name = foreign if own is None else own
    if name is None:
        return None
    dialect = Dialect.ANNOTATION if foreign is None else Dialect.COSCHEDULING
    if not is_name(name):
        return GroupRef(quoted(name), dialect, problem=BAD_NAME)
    if _differ(annotated, labelled) or _differ(foreign_annotated, foreign_labelled):
        return GroupRef(name, dialect, problem=TWO_NAMES)
    if _differ(own, foreign):
        return GroupRef(name, dialect, problem=TWO_DIALECTS)
    if (problem := topology_problem(meta)) is not None:
        return GroupRef(name, dialect, problem=problem)
    if dialect is Dialect.COSCHEDULING:
        return GroupRef(name, dialect)
    return _sized(meta, name)


def _sized(meta: Meta, name: str) -> GroupRef:
    annotated, labelled = _both(meta, MIN_MEMBER)
    text = annotated if annotated is not None else labelled
    if _differ(annotated, labelled):
        return GroupRef(name, Dialect.ANNOTATION, problem=TWO_SIZES)
    if text is None:
        return GroupRef(name, Dialect.ANNOTATION)
    if not _POSITIVE.fullmatch(text):
        return GroupRef(name, Dialect.ANNOTATION, problem=BAD_SIZE.format(quoted(text)))
    return GroupRef(name, Dialect.ANNOTATION, min_member=int(text))


def _both(meta: Meta, key: str) -> tuple[str | None, str | None]:
    """The annotation and the label of that key."""
    return (meta.annotations or {}).get(key), (meta.labels or {}).get(key)


def _differ(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and one != other
