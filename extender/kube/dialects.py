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
MARKS = (POD_GROUP, MIN_MEMBER)
"""What Muster writes itself on the pods of a job that it has planned as a whole."""
COSCHEDULING_POD_GROUP = "scheduling.x-k8s.io/pod-group"

TWO_DIALECTS = f"{POD_GROUP} and {COSCHEDULING_POD_GROUP} name different groups"
TWO_NAMES = "the annotation and the label of its pod-group key name different groups"
TWO_SIZES = f"its annotation and its label {MIN_MEMBER} differ"
BAD_NAME = "the name of its group is not a valid Kubernetes object name (a lower-case DNS subdomain)"
BAD_SIZE = f"{MIN_MEMBER} is {{}}, which is not a whole number from 1 to 999999999"

_POSITIVE = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)


def group_of(meta: Meta) -> GroupRef | None:
    """The gang that the pod names, or None. The result carries a problem where the pod contradicts itself."""
    own, foreign = meta.said(POD_GROUP), meta.said(COSCHEDULING_POD_GROUP)
    if not own and not foreign:
        return None
    dialect = Dialect.COSCHEDULING if foreign else Dialect.ANNOTATION
    name = own[0] if own else foreign[-1]
    if not is_name(name):
        return GroupRef(quoted(name), dialect, problem=BAD_NAME)
    if _differ(own) or _differ(foreign):
        return GroupRef(name, dialect, problem=TWO_NAMES)
    if _differ(own + foreign):
        return GroupRef(name, dialect, problem=TWO_DIALECTS)
    if (problem := topology_problem(meta)) is not None:
        return GroupRef(name, dialect, problem=problem)
    if dialect is Dialect.COSCHEDULING:
        return GroupRef(name, dialect)
    sizes = meta.said(MIN_MEMBER)
    if _differ(sizes):
        return GroupRef(name, dialect, problem=TWO_SIZES)
    if sizes and not _POSITIVE.fullmatch(sizes[0]):
        return GroupRef(name, dialect, problem=BAD_SIZE.format(quoted(sizes[0])))
    return GroupRef(name, dialect, min_member=int(sizes[0]) if sizes else None)


def _differ(said: list[str]) -> bool:
    return len(set(said)) > 1
