"""Read the gang of a pod into one GroupRef, from the annotations and labels of any project.

A pod may have the keys of several projects. Muster's own win over all others; next are those of the coscheduling
plugin. A pod with the same name in both is read as the plugin's, whose PodGroup is one truth for all members. Two other
keys that name different groups are a problem.

On pods of a job that Muster admits, only Muster's keys count. The job's operator may make a PodGroup, too, and count
pods in it that come only when others run. Unreadable values become a problem, one sentence that quotes them, never a
guess.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from extender.kube.dialects import koordinator, yunikorn
from extender.kube.dialects.words import (
    COSCHEDULING,
    COSCHEDULING_POD_GROUP,
    KAI,
    KUEUE,
    OWN,
    POD_GROUP,
    VOLCANO,
    Words,
)
from extender.kube.keys import WORKLOAD
from extender.kube.reading.objects import Meta
from extender.kube.reading.plain import is_name, plain, quoted
from extender.kube.reading.topology import topology_problem
from policies.model import GroupRef

OTHERS = (VOLCANO, KAI, koordinator.WORDS, yunikorn.WORDS, KUEUE)
"""Other projects' keys; the first that name a group count. Kueue only admits pods, so other keys go first."""
_ALL = (OWN, COSCHEDULING, *OTHERS)
NAMES = tuple(key for words in _ALL for key in words.names)
"""Every key that names a gang."""
READ = tuple(key for words in _ALL for key in words.read)
"""Every key that is read here."""
_NAMES = frozenset(NAMES)

TWO_DIALECTS = "{} and {} name different groups"
TWO_NAMES = "its annotation and its label {} name different groups"
TWO_SIZES = "its annotation and its label {} differ"
BAD_NAME = "{} is {}, which no Kubernetes object can be named (write a lower-case DNS subdomain)"
BAD_SIZE = "{} is {}, which is not a whole number from 1 to 999999999"
NO_SIZE = "it names a group in {} and has no {}, which says how many of its pods start together"

_POSITIVE = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)


def group_of(meta: Meta) -> GroupRef | None:
    """The gang that the pod names; None if it names none. It has a problem if the pod contradicts itself."""
    if not meta.says(_NAMES):
        return None
    ours, theirs = meta.values_of(POD_GROUP), meta.values_of(COSCHEDULING_POD_GROUP)
    if ours and meta.values_of(WORKLOAD):
        theirs = []
    if not ours and not theirs:
        return _of_others(meta)
    words = COSCHEDULING if theirs else OWN
    key = POD_GROUP if ours else COSCHEDULING_POD_GROUP
    name = ours[0] if ours else theirs[-1]
    if not is_name(name):
        return GroupRef(quoted(name), words.dialect, problem=BAD_NAME.format(key, quoted(name)))
    if _differ(ours) or _differ(theirs):
        two = POD_GROUP if _differ(ours) else COSCHEDULING_POD_GROUP
        return GroupRef(name, words.dialect, problem=TWO_NAMES.format(two))
    if _differ(ours + theirs):
        problem = TWO_DIALECTS.format(POD_GROUP, COSCHEDULING_POD_GROUP)
        return GroupRef(name, words.dialect, problem=problem)
    return _read(meta, words, name)


def _of_others(meta: Meta) -> GroupRef | None:
    """The gang by the keys of projects other than Muster and the coscheduling plugin."""
    names = [(words, key, name) for words in OTHERS for key, name in words.named(meta)]
    if not names:
        return None
    words, key, name = names[0]
    if not is_name(name):
        return GroupRef(quoted(name), words.dialect, problem=BAD_NAME.format(key, quoted(name)))
    if (other := next((two for _, two, another in names if another != name), None)) is not None:
        problem = TWO_NAMES.format(key) if other == key else TWO_DIALECTS.format(key, other)
        return GroupRef(name, words.dialect, problem=problem)
    ref = _read(meta, words, name)
    if ref.problem is None and ref.min_member is None and words.sizes and not words.dialect.has_objects:
        return ref._replace(problem=NO_SIZE.format(key, words.sizes[0]))
    return ref


def _read(meta: Meta, words: Words, name: str) -> GroupRef:
    problem = topology_problem(meta) or words.refused(meta, name)
    if problem is not None:
        return GroupRef(name, words.dialect, problem=problem)
    size, problem = size_of(meta, words.sizes)
    if size is not None or problem is not None:
        return GroupRef(name, words.dialect, size, problem)
    minima = () if words.minima is None else words.minima(meta)
    if isinstance(minima, str):
        return GroupRef(name, words.dialect, problem=minima)
    role = next(iter(meta.values_of(words.role)), "") if words.role else ""
    return GroupRef(name, words.dialect, role=plain(role), minima=minima)


def size_of(meta: Meta, keys: Sequence[str]) -> tuple[int | None, str | None]:
    """The minMember that these keys state, or None, and what is wrong with it."""
    sizes = [(key, size) for key in keys for size in meta.values_of(key)]
    if not sizes:
        return None, None
    key, size = sizes[0]
    if _differ([text for _, text in sizes]):
        return None, TWO_SIZES.format(key)
    if not _POSITIVE.fullmatch(size):
        return None, BAD_SIZE.format(key, quoted(size))
    return int(size), None


def _differ(names: list[str]) -> bool:
    return len(set(names)) > 1
