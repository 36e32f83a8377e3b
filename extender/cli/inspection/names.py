"""Names as people type them: of a gang, of the job or another object that makes its pods, of its PodGroup, of a pod.

The same words are taken by every command that is about one workload.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from policies.words import listed

if TYPE_CHECKING:
    from extender.api.models import GangView
    from policies.model import Pod

_GANG = ("gang", "workload")
_SHORT = {
    "po": "pod", "pg": "podgroup", "vj": "job", "vcjob": "job", "sts": "statefulset", "deploy": "deployment",
    "rs": "replicaset", "lws": "leaderworkerset", "cj": "cronjob", "rc": "raycluster",
}  # fmt: skip
FORMS = "write NAMESPACE/GANG, KIND/NAME (as in job/train or pod/train-0), or a name alone with --namespace"
_SHOWN = 10


class NameProblemError(ValueError):
    """The name leads to no workload, or to several; the message says which there are."""


@dataclass(frozen=True)
class Known:
    """A workload and its names.

    ``objects``: the objects that make its pods, as ``job/train``.
    ``pods``: the names of its pods.
    """

    namespace: str
    name: str
    objects: Sequence[str] = ()
    pods: Sequence[str] = ()

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def names(self) -> list[str]:
        """All names of the workload, without a kind."""
        return [self.name, *(name.partition("/")[2] for name in self.objects), *self.pods]

    def is_called(self, kind: str, name: str) -> bool:
        """Return whether it has that name, for that kind of object; for any kind if ``kind`` is empty."""
        if not kind:
            return name in self.names
        if kind in _GANG:
            return name == self.name
        if kind == "pod":
            return name in self.pods
        return f"{kind}/{name}" in self.objects or f"{kind}-{name}" == self.name


def known_of(gangs: Sequence[GangView]) -> list[Known]:
    """Return what each gang of an answer of Muster is known by."""
    return [Known(gang.namespace, gang.name, gang.objects, [pod.name for pod in gang.pods]) for gang in gangs]


def known_by(namespace: str, pods: Iterable[Pod]) -> dict[str, Known]:
    """Return what the gangs of these pods are known by: what makes their pods, then their PodGroup."""
    objects: dict[str, dict[str, None]] = {}
    names: dict[str, list[str]] = {}
    for pod in pods:
        if pod.group_key is None or pod.group is None:
            continue
        made_by = objects.setdefault(pod.group_key.name, {})
        names.setdefault(pod.group_key.name, []).append(pod.name)
        if pod.controller is not None:
            made_by[f"{pod.controller.kind.lower()}/{pod.controller.name}"] = None
        if pod.group.owner:
            made_by[pod.group.owner.replace("-", "/", 1)] = None
        if pod.group.dialect.has_objects:
            made_by[f"podgroup/{pod.group.name}"] = None
    return {gang: Known(namespace, gang, list(made_by), names[gang]) for gang, made_by in objects.items()}


@dataclass(frozen=True)
class Reading:
    """A reading of a typed name. ``kind``: in lower case and the singular, or empty."""

    namespace: str
    kind: str
    name: str


def readings(typed: str, namespace: str | None, default: str) -> list[Reading]:
    """Return the ways to read the name, the most literal one first. Raises NameProblemError.

    ``namespace``: the value of --namespace.
    ``default``: the namespace if none is given.
    """
    parts, home = typed.split("/"), namespace or default
    match parts:
        case [name] if name:
            return [Reading(home, "", name)]
        case [first, name] if first and name:
            by_kind = Reading(home, kind_of(first), name)
            if namespace in (None, first):
                return [Reading(first, "", name), by_kind]
            return [by_kind]
        case [where, kind, name] if where and kind and name:
            if namespace not in (None, where):
                raise NameProblemError(
                    f"{typed} is in namespace {where}, and --namespace says {namespace}: leave one of them out"
                )
            return [Reading(where, kind_of(kind), name)]
    raise NameProblemError(f"{typed!r} is not a name: {FORMS}")


def kind_of(typed: str) -> str:
    """Return the kind in lower case and the singular: of jobs.batch, Job and job ``job``."""
    word = typed.lower().partition(".")[0]
    word = _SHORT.get(word, word)
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and word not in _SHORT else word


def chosen(typed: str, namespace: str | None, default: str, known: Iterable[Known]) -> Known:
    """Return the workload that is meant. Raises NameProblemError."""
    ways, every = readings(typed, namespace, default), list(known)
    fitting = [workload for workload in every if any(workload.namespace == way.namespace for way in ways)]
    for way in ways:
        exact = [workload for workload in fitting if (workload.namespace, workload.name) == (way.namespace, way.name)]
        if len(exact) == 1 and way.kind in ("", *_GANG):
            return exact[0]
    hits = [workload for workload in fitting if any(_meant(workload, way) for way in ways)]
    if len(hits) == 1:
        return hits[0]
    if hits:
        raise NameProblemError(
            f"{typed} may mean {len(hits)} workloads; say which: {listed(map(_choice, hits), _SHOWN)}"
        )
    raise NameProblemError(_unknown(typed, ways, namespace, every))


def _meant(workload: Known, way: Reading) -> bool:
    return workload.namespace == way.namespace and workload.is_called(way.kind, way.name)


def _choice(workload: Known) -> str:
    return f"{workload} ({workload.objects[0]})" if workload.objects else str(workload)


def _unknown(typed: str, ways: Sequence[Reading], namespace: str | None, every: Sequence[Known]) -> str:
    """Say where that name is instead, else what comes near it, else what is there."""
    places = [way.namespace for way in ways]
    there = [workload for workload in every if workload.namespace in places]
    place_given = "/" in typed and namespace is None
    where = "" if place_given else f" in namespace {places[0]}"
    first = f"there is no gang, job or pod {typed}{where} that Muster manages"
    elsewhere = [workload for workload in every if any(workload.is_called(way.kind, way.name) for way in ways)]
    if elsewhere:
        return f"{first}; there is {listed(map(str, elsewhere), _SHOWN)}"
    if not there:
        place, slash, _ = typed.partition("/")
        hint = f" (if {place} is a namespace, leave --namespace out)" if slash and namespace is not None else ""
        listed_places = " or ".join(dict.fromkeys(places))
        return f"{first}; it manages nothing in namespace {listed_places}{hint}"
    by_name = {name: workload for workload in reversed(there) for name in (*workload.pods, *workload.names)}
    nearest = [name for way in ways for name in get_close_matches(way.name, by_name, 3, 0.7)]
    close = dict.fromkeys(str(by_name[name]) for name in nearest)
    if close:
        choices = [_choice(workload) for workload in there if str(workload) in close]
        return f"{first}; did you mean {listed(choices, 3)}?"
    return f"{first}; gangs there: {listed(map(_choice, there), _SHOWN)}"


def completions(known: Iterable[Known], namespace: str | None, default: str) -> Iterator[tuple[str, str]]:
    """Return what may be typed for each workload, with a word of help: its gang, its job, and its pods."""
    for workload in known:
        here = workload.namespace == (namespace or default)
        if namespace is not None and not here:
            continue
        where = "" if here else f"{workload.namespace}/"
        yield f"{where}{workload.name}", "gang"
        yield from ((f"{where}{name}", "makes its pods") for name in workload.objects)
        yield from ((f"{where}pod/{name}", "pod") for name in workload.pods)
