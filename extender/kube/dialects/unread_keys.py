"""Find keys of a pod that nothing reads: misspelt ones of Muster's, those of a pod without a gang, those of others."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from extender.core.gate.stamps import WRITTEN
from extender.kube.dialects import MIN_MEMBER, NAMES, POD_GROUP
from extender.kube.dialects.koordinator import NETWORK_TOPOLOGY
from extender.kube.dialects.owner import owned_gang
from extender.kube.keys import (
    COMPONENT,
    FLAVORS,
    GANG,
    HOLD,
    IN_VAIN,
    INDEX_LABEL,
    LED,
    NODE_LABELS,
    NODES,
    OWN,
    PLAN,
    PODSET,
    QUEUES,
    REQUEUED_AT,
    WORKLOAD,
)
from extender.kube.reading.constraints import WOKEN
from extender.kube.reading.durations import EXPECTED_DURATION, unreadable_durations
from extender.kube.reading.eviction import EVICTED_AT, TERMS, unreadable_terms
from extender.kube.reading.numbering import ROLE
from extender.kube.reading.objects import Meta
from extender.kube.reading.plain import plain, quoted
from extender.kube.reading.queue_name import MISSPELT_OF_PODS, is_misspelt
from extender.kube.reading.reserved import RESERVATIONS
from extender.kube.reading.topology import PREFERRED, REQUIRED, SLICE_SIZE, SLICE_TOPOLOGY

WRITTEN_BY_PEOPLE = (POD_GROUP, MIN_MEMBER, REQUIRED, PREFERRED, SLICE_SIZE, SLICE_TOPOLOGY, ROLE)
OF_RUNS = (*TERMS, EXPECTED_DURATION)
"""Keys about a run, on a job or its pods."""
WRITTEN_ON_JOBS = (GANG, HOLD, REQUEUED_AT, QUEUES[1], MIN_MEMBER, *OF_RUNS)
_OF_JOBS = (
    *QUEUES, GANG, HOLD, REQUEUED_AT, PLAN, FLAVORS, OWN, WORKLOAD, LED, NODES, NODE_LABELS, IN_VAIN, EVICTED_AT,
    COMPONENT, PODSET, INDEX_LABEL,
)  # fmt: skip
"""Keys that are read on jobs, or that Muster writes on their pods."""
_OF_PODS = (*WRITTEN, WOKEN, *RESERVATIONS)
"""Keys that Muster writes on pods."""
_KNOWN = frozenset((*WRITTEN_BY_PEOPLE, *OF_RUNS, *_OF_JOBS, *_OF_PODS))
_PREFIX = "muster.dev/"
_THEIRS = {
    "scheduling.volcano.sh/group-min-member": MIN_MEMBER,
    "hivedscheduler.microsoft.com/pod-scheduling-spec": POD_GROUP,
    NETWORK_TOPOLOGY: REQUIRED,
}
"""Maps keys of other projects that nothing reads here to Muster's keys for the same."""
_NAMES = frozenset(NAMES)


class Unread(NamedTuple):
    """A key that nothing reads: why, and what to do instead."""

    key: str
    what: str
    fix: str


def hint_of(meta: Meta) -> str | None:
    """A sentence for the author of a pod of Muster's; None if all of its keys are read."""
    if is_misspelt(meta):
        return MISSPELT_OF_PODS
    if not any(key.startswith(_PREFIX) or key in _THEIRS for key in _keys(meta)):
        return None
    unread = next((unread for look in (misspelt, groupless, of_others) for unread in look(meta)), None)
    if unread is None:
        return "; ".join((*_no_boolean(meta), *unreadable_terms(meta), *unreadable_durations(meta))) or None
    return f"{unread.key} {unread.what}: {unread.fix} in the pod template, and create the pods again"


def _no_boolean(meta: Meta) -> Iterator[str]:
    """Yield a sentence about a value in place of true, with which the pod would be in its owner's gang."""
    for no_boolean in meta.no_booleans(GANG):
        yield f"{GANG} is {quoted(no_boolean)} and does not count: write true or false in the pod template"


def misspelt(meta: Meta, *, of_job: bool = False) -> Iterator[Unread]:
    """Yield keys with Muster's prefix that do not exist. ``of_job``: the keys are the job's own, not its pods'."""
    meant = WRITTEN_ON_JOBS if of_job else WRITTEN_BY_PEOPLE
    for key in _keys(meta):
        if key.startswith(_PREFIX) and key not in _KNOWN:
            close = _nearest(key, of_job)
            fix = f"write {close}" if close else f"write one of {', '.join(meant)}"
            yield Unread(plain(key), "means nothing to Muster", fix)


def groupless(meta: Meta) -> Iterator[Unread]:
    """Yield Muster's keys on a pod that names no gang."""
    declared = [key for key in _keys(meta) if key in WRITTEN_BY_PEOPLE]
    if not declared or meta.says(_NAMES):
        return
    if owned_gang(meta) is None:
        yield Unread(declared[0], "is not read, because the pod names no gang", f"add {POD_GROUP}")
    elif MIN_MEMBER in declared:
        what = "is not read, because the pod is in the gang of the object that made it"
        yield Unread(MIN_MEMBER, what, "write it on that object instead of")


def of_others(meta: Meta) -> Iterator[Unread]:
    """Yield other schedulers' keys on a pod that lacks Muster's key for the same."""
    theirs = [key for key in _keys(meta) if key in _THEIRS]
    if not theirs:
        return
    declared, named = frozenset(_keys(meta)), meta.says(_NAMES)
    for key in theirs:
        ours = _THEIRS[key]
        read = ours in declared or (named and ours in (POD_GROUP, MIN_MEMBER))
        if not read:
            yield Unread(key, "is not read by Muster", f"write {ours}")


def _keys(meta: Meta) -> list[str]:
    return [*(meta.labels or ()), *(meta.annotations or ())]


@lru_cache(maxsize=1024)
def _nearest(key: str, of_job: bool) -> str | None:
    """The key of Muster's that was probably meant; None if none is close."""
    names = [known.removeprefix(_PREFIX) for known in (WRITTEN_ON_JOBS if of_job else (*WRITTEN_BY_PEOPLE, *OF_RUNS))]
    close = difflib.get_close_matches(key[len(_PREFIX) : 80].lower(), names, n=1)
    return _PREFIX + close[0] if close else None
