"""What a kind of job has to say of itself. All that is done with jobs is done by this alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from extender.kube.reading.durations import deadline_of
from extender.kube.reading.objects import Meta
from policies.model.storage import ClaimMaker

Object = dict[str, Any]
"""A decoded Kubernetes object, or a part of one."""


class UnreadableJobError(ValueError):
    """The job cannot be planned as it is; the message is one sentence for its author."""


@dataclass(frozen=True, slots=True)
class Template:
    """One pod template of a job, and the podsets that are made of it.

    ``name`` tells it from the job's other templates. ``pod`` is the template in the object itself: written in place.
    ``series``: the names of its podsets; several where several Jobs are made of one template, in their order.
    ``count``: pods of each podset. ``indexed``: a pod says by a label which slot is its own; that of the first slot is
    ``first_index``. ``wave``: the start that they belong to. ``affinity``: node affinity may be written here and
    reaches the pods. ``emptied``: an annotation that is removed here stays on the pods, an empty one replaces it.
    ``added``: init containers that its controller gives to the pods; ``sidecars``: containers that it gives them.
    ``led``: its pods may be led to nodes; else more of them may come than were planned. ``done``: slots whose pods had
    finished when the job was started last, or have by now while it is suspended: they do not come again.
    ``ended``: all slots whose pods have finished by now, well or, where the job goes on then, in failure; ``closed``:
    as in Job, where they have no index; ``completions``: as in PodSet. ``deadline_s``: after so long
    its pods are ended, counted from the start of the job; None: unless a pod has a deadline of its own.
    ``minimum``: so many pods of each podset are enough for the job, as it says itself; None: it needs all.
    ``marks``: annotations by which its pods are told apart, where no controller does. ``meta``: what its pods have in
    their metadata besides; None: nothing. ``tolerated``: what they tolerate besides. ``grows``: its author may ask for
    more pods of it while the job runs. ``claims``:
    volume claims that are made for each pod. ``problem``: why its pods cannot be planned; empty where they can.
    """

    name: str
    pod: Object
    series: tuple[str, ...]
    count: int
    indexed: bool = True
    wave: int = 0
    affinity: bool = True
    emptied: bool = False
    first_index: int = 0
    added: tuple[Object, ...] = ()
    sidecars: tuple[Object, ...] = ()
    led: bool = True
    done: frozenset[int] = frozenset()
    ended: frozenset[int] = frozenset()
    closed: int = 0
    completions: int = 0
    minimum: int | None = None
    marks: Mapping[str, str] = field(default_factory=dict)
    meta: Meta | None = None
    tolerated: tuple[Object, ...] = ()
    grows: bool = False
    claims: tuple[ClaimMaker, ...] = ()
    problem: str = ""
    deadline_s: float | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of job, by the places in its objects: paths of fields, joined with dots; ``*`` is every field or item.

    What is said by signs (``says``): ``stopped``: its controller has seen that it is suspended; ``began``: its
    controller has done something with it before; ``finished``: it has ended; ``active``: pods (or Jobs) of it are
    there; ``ran``: pods of it run or have run; ``empty``: it ends without a pod as soon as it is started.

    ``templates`` raises UnreadableJobError. ``frozen``: its templates may be written only while it is suspended.
    ``freezes``: a field of its status with which some API servers refuse such a write, suspended or not.
    ``managed_by``: the field that can name another controller to look after it; ``managers``: values that it may have.
    ``suspendable``: its controller lets it be suspended, and it is not kube-scheduler's to start.
    ``min_parallelism``: Kueue's annotation for the least number of pods is read. ``progress``: what ``templates`` reads
    of the status. ``resumes``: its status does not tell which of its pods have succeeded, and those are kept while it
    is suspended. ``shown_in``: the kind of the object that its controller makes of it, in which it is read.
    ``carry``: where the templates are copies, brings what was written on them, by their names, into the object.
    ``delays``: a sign that it makes no pods for now, and why that is so. ``patience``: an annotation that says to its
    controller how long its pods may take to run, as Go writes it, and the seconds that they have without it; None:
    there is no limit. ``tries_first``: its controller says that it has begun when it has tried to make pods.
    ``same_names``, ``backs_off``: as in Job.
    """

    version: str
    name: str
    plural: str
    templates: Callable[[Object], Iterator[Template]]
    suspend: str
    finished: tuple[str, ...]
    active: tuple[str, ...]
    ran: tuple[str, ...]
    managed_by: str
    managers: tuple[str, ...]
    empty: str = ""
    stopped: str = "Suspended"
    began: tuple[str, ...] = ("status.startTime",)
    frozen: bool = False
    freezes: str = ""
    suspendable: Callable[[Object], bool] = lambda _: True
    min_parallelism: bool = False
    progress: tuple[str, ...] = ()
    resumes: bool = False
    shown_in: Kind | None = None
    carry: Callable[[Object, Mapping[str, Template]], None] | None = None
    delays: tuple[str, str] | None = None
    patience: tuple[str, float] | None = None
    tries_first: bool = False
    same_names: bool = False
    backs_off: bool = False

    @property
    def group(self) -> str:
        return self.version.rpartition("/")[0]

    @property
    def path(self) -> str:
        """Of all of its objects, at the API server."""
        return f"/apis/{self.version}/{self.plural}"

    def path_of(self, namespace: str, name: str) -> str:
        return f"/apis/{self.version}/namespaces/{namespace}/{self.plural}/{name}"

    def is_suspended(self, obj: Object) -> bool:
        return any(value is True for value in found(obj, self.suspend))

    def is_stopped(self, obj: Object) -> bool:
        """It is suspended, its controller has seen that or never started it, and nothing of it is active."""
        began = any(says(obj, one) for one in self.began) or self.stopped in conditions(obj)
        stopped = says(obj, self.stopped) or not began
        return self.is_suspended(obj) and stopped and not any(says(obj, one) for one in self.active)

    def has_finished(self, obj: Object) -> bool:
        """It has ended, or is being deleted."""
        return any(says(obj, one) for one in (*self.finished, "metadata.deletionTimestamp"))

    def is_running(self, obj: Object) -> bool:
        """Some pod of it runs or has run."""
        return any(says(obj, one) for one in self.ran)

    def is_empty(self, obj: Object) -> bool:
        """It ends without a pod as soon as it is started."""
        return bool(self.empty) and says(obj, self.empty)

    def has_no_pods(self, obj: Object) -> bool:
        """Its controller has tried to make its pods since it was started, and none is there."""
        begun = self.tries_first and not self.is_suspended(obj) and any(says(obj, sign) for sign in self.began)
        return begun and not any(says(obj, sign) for sign in (*self.active, *self.ran))

    def delay(self, obj: Object) -> str:
        """Why its controller makes no pods for now; empty where it does."""
        return self.delays[1] if self.delays is not None and says(obj, self.delays[0]) else ""

    def is_left_to_us(self, obj: Object) -> bool:
        """Its own controller looks after it, and nobody in another cluster, and lets it be suspended."""
        left = all(manager in (None, "", *self.managers) for manager in found(obj, self.managed_by))
        return left and self.suspendable(obj)


def says(obj: Object, sign: str) -> bool:
    """Whether the sign holds: a condition that is True, or where there is a dot a field that is neither empty nor 0
    (``status.active``) or has that value (``status.phase=Failed``)."""
    path, _, value = sign.partition("=")
    if "." not in path:
        return conditions(obj).get(path) == "True"
    return any(str(one) == value if value else bool(one) for one in found(obj, path))


def found(obj: Any, path: str) -> Iterator[Any]:
    """Every value at that path; none where a part of the path is not there."""
    first, _, rest = path.partition(".")
    if first == "*":
        values = list(obj.values()) if isinstance(obj, dict) else obj if isinstance(obj, list) else []
    else:
        values = [obj[first]] if isinstance(obj, dict) and first in obj else []
    for value in values:
        if rest:
            yield from found(value, rest)
        else:
            yield value


def put(obj: Object, path: str, value: Any) -> None:
    """Set the field at that path, and make what has to be there for it."""
    *parts, last = path.split(".")
    for part in parts:
        if not isinstance(obj.get(part), dict):
            obj[part] = {}
        obj = obj[part]
    obj[last] = value


def conditions(obj: Object) -> dict[str, str]:
    """The conditions in the status, by type."""
    said = [one for one in found(obj, "status.conditions.*") if isinstance(one, dict)]
    return {str(one.get("type")): str(one.get("status")) for one in said}


def deadline_in(obj: Object, path: str) -> float | None:
    """The ``activeDeadlineSeconds`` at that path, if any."""
    return deadline_of(next(found(obj, path), None))


def part_of(obj: Object, *path: str) -> Object:
    """The object at that path. Raises UnreadableJobError where there is none."""
    for part in path:
        below = obj.get(part)
        if not isinstance(below, dict):
            raise UnreadableJobError(f"it has no {'.'.join(path)}")
        obj = below
    return obj


def name_of(obj: Object) -> str:
    """Return the name; empty where the object has none, as an object that is yet to be created."""
    return str(next(found(obj, "metadata.name"), ""))


def count_in(obj: Object, field: str, default: int) -> int:
    """A field that counts pods, or the default. Raises UnreadableJobError for what is no such number."""
    value = obj.get(field)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise UnreadableJobError(f"its {field} is not a number of pods")
    return value
