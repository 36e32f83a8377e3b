"""The places in a kind's objects that Muster reads and writes. All code for jobs goes by these alone."""

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
    """A pod template of a job, and the podsets that are made of it.

    ``name``: differs from the names of the job's other templates.
    ``pod``: the template inside the object itself, so that changes are written in place.
    ``series``: the names of its podsets, in order. Several, if the controller makes several Jobs of one template.
    ``count``: pods of each podset.
    ``indexed``: a label of each pod says which slot it fills.
    ``first_index``: the index of the first slot.
    ``wave``: the number of the start that the pods belong to.
    ``affinity``: Muster may write node affinity here, and the controller copies it to the pods.
    ``emptied``: an annotation that is removed here stays on the pods, so it is replaced by an empty one.
    ``added``: init containers that the controller adds to the pods.
    ``sidecars``: containers that the controller adds to the pods.
    ``led``: Muster may steer the pods to nodes. False where more pods may come than were planned.
    ``done``: slots that get no pod again. Their pods had finished before the last start, or, in a suspended job, have
    now.
    ``ended``: all slots whose pods have finished. Failed ones count if the job continues without them.
    ``closed``: as in Job, for pods without an index.
    ``completions``: as in PodSet.
    ``deadline_s``: seconds from the start of the job until the controller ends its pods. None: only the pods' own
    deadlines.
    ``minimum``: how many pods of each podset are enough, as the kind itself says. None: the job needs all.
    ``marks``: annotations that tell the podsets apart where the controller writes nothing that does.
    ``meta``: metadata that the controller adds to the pods. None: nothing.
    ``tolerated``: tolerations that the pods get besides those of the template.
    ``grows``: the author may ask for more pods while the job runs.
    ``claims``: volume claims that are made for each pod.
    ``problem``: why the pods cannot be planned; empty if they can.
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
    """A kind of job, described by places in its objects.

    A place is a path of fields joined with dots; ``*`` stands for every field or item. A sign (see ``says``) is a
    condition or a place with a value.

    Signs:
    ``stopped``: the controller has seen that the job is suspended.
    ``began``: the controller has handled the job before.
    ``finished``: the job has ended.
    ``active``: pods (or Jobs) of it exist.
    ``ran``: pods of it run or have run.
    ``empty``: the job ends without a pod as soon as it is started.

    Others:
    ``templates``: yields the pod templates; raises UnreadableJobError.
    ``suspend``: the field that suspends the job.
    ``frozen``: the API server takes changes of templates only while the job is suspended.
    ``freezes``: a field of the status. While it is set, some API servers refuse such a change of a suspended job, too.
    ``managed_by``: the field that can hand the job to another controller.
    ``managers``: values of that field with which Muster may manage the job.
    ``suspendable``: the controller allows suspension, and the job is not for kube-scheduler to start.
    ``min_parallelism``: Kueue's annotation for the least number of pods is read.
    ``progress``: the places in the status that ``templates`` reads.
    ``resumes``: the status does not say which pods have succeeded, and the controller keeps those pods during a
    suspension.
    ``shown_in``: the kind of the object that the controller makes of the job, and in which Muster reads it.
    ``carry``: where the templates are copies, writes the changed copies (by name) into the object.
    ``delays``: a sign that the controller makes no pods for now, and why.
    ``patience``: the annotation that limits how long pods may take to run (a Go duration), and the default in seconds.
    None: there is no limit.
    ``tries_first``: the ``began`` signs appear only once the controller has tried to make pods.
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
        """The API path of all objects of the kind."""
        return f"/apis/{self.version}/{self.plural}"

    def path_of(self, namespace: str, name: str) -> str:
        return f"/apis/{self.version}/namespaces/{namespace}/{self.plural}/{name}"

    def is_suspended(self, obj: Object) -> bool:
        return any(value is True for value in found(obj, self.suspend))

    def is_stopped(self, obj: Object) -> bool:
        """Whether the job is suspended, nothing of it is active, and its controller has seen that or never handled
        it."""
        began = any(says(obj, path) for path in self.began) or self.stopped in conditions(obj)
        stopped = says(obj, self.stopped) or not began
        return self.is_suspended(obj) and stopped and not any(says(obj, path) for path in self.active)

    def has_finished(self, obj: Object) -> bool:
        """Whether the job has ended or is being deleted."""
        return any(says(obj, path) for path in (*self.finished, "metadata.deletionTimestamp"))

    def is_running(self, obj: Object) -> bool:
        """Whether a pod of the job runs or has run."""
        return any(says(obj, path) for path in self.ran)

    def is_empty(self, obj: Object) -> bool:
        """Whether the job ends without a pod as soon as it is started."""
        return bool(self.empty) and says(obj, self.empty)

    def has_no_pods(self, obj: Object) -> bool:
        """Whether the controller has tried to make the pods since the start, and none exists."""
        begun = self.tries_first and not self.is_suspended(obj) and any(says(obj, sign) for sign in self.began)
        return begun and not any(says(obj, sign) for sign in (*self.active, *self.ran))

    def delay(self, obj: Object) -> str:
        """Why the controller makes no pods for now; empty if it does."""
        return self.delays[1] if self.delays is not None and says(obj, self.delays[0]) else ""

    def is_left_to_us(self, obj: Object) -> bool:
        """Whether the job's own controller in this cluster manages it, and allows suspension."""
        left = all(manager in (None, "", *self.managers) for manager in found(obj, self.managed_by))
        return left and self.suspendable(obj)


def says(obj: Object, sign: str) -> bool:
    """Whether the sign holds.

    ``Complete``: the condition of that type is True. ``status.active``: the field is neither empty nor 0.
    ``status.phase=Failed``: the field has that value.
    """
    path, _, value = sign.partition("=")
    if "." not in path:
        return conditions(obj).get(path) == "True"
    return any(str(actual) == value if value else bool(actual) for actual in found(obj, path))


def found(obj: Any, path: str) -> Iterator[Any]:
    """Yield every value at that path; none where a part of the path is missing."""
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
    """Set the field at that path, and make the objects above it where they are missing."""
    *parts, last = path.split(".")
    for key in parts:
        if not isinstance(obj.get(key), dict):
            obj[key] = {}
        obj = obj[key]
    obj[last] = value


def conditions(obj: Object) -> dict[str, str]:
    """The status of each condition, by its type."""
    conditions = [item for item in found(obj, "status.conditions.*") if isinstance(item, dict)]
    return {str(condition.get("type")): str(condition.get("status")) for condition in conditions}


def deadline_in(obj: Object, path: str) -> float | None:
    """The ``activeDeadlineSeconds`` at that path, in seconds; None without one."""
    return deadline_of(next(found(obj, path), None))


def part_of(obj: Object, *path: str) -> Object:
    """The object at that path. Raises UnreadableJobError if there is none."""
    for key in path:
        below = obj.get(key)
        if not isinstance(below, dict):
            raise UnreadableJobError(f"it has no {'.'.join(path)}")
        obj = below
    return obj


def name_of(obj: Object) -> str:
    """The object's name; empty if it has none, as before its creation."""
    return str(next(found(obj, "metadata.name"), ""))


def count_in(obj: Object, field: str, default: int) -> int:
    """The count of pods in that field, or the default. Raises UnreadableJobError if the field holds anything else."""
    value = obj.get(field)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise UnreadableJobError(f"its {field} is not a number of pods")
    return value
