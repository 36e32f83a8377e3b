"""The form in which effects are hashed: fields under names of their own, objects by name, prose by its arguments.

Effects may be renamed, moved and worded differently: their digest stays. Not in it: the sentence of a text, the name
of the shape of a trial, and all of jobs and pods but their names.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from enum import Enum

from extender.core.effects import (
    AnswerBind,
    AnswerFilter,
    AnswerPreempt,
    CleanJob,
    Confirm,
    Deallocate,
    Effect,
    Enqueue,
    Evict,
    Hint,
    Nominate,
    PostBinding,
    Reached,
    Report,
    Reserve,
    StartJob,
    SuspendJob,
    TryPod,
    Ungate,
    Wake,
)
from extender.core.engine import Engine
from extender.core.events import Event
from policies.model import Job, Pod

Form = str | int | float | bool | tuple["Form", ...] | None
"""The value that is hashed: its ``repr`` is the same in every process."""

_ARGUMENT = re.compile(r"[\w.:-]*(?:\d|\w/)[\w./:-]*")


def arguments(text: str) -> tuple[str, ...]:
    """Return the arguments of a text: its numbers, and the names with a digit or a slash in them, unordered."""
    return tuple(sorted({word.strip(".:-") for word in _ARGUMENT.findall(text)}))


def form(value: object) -> Form:
    """Return a value without the names of classes and fields, and without the order of sets and mappings."""
    match value:
        case Enum():
            return value.value if isinstance(value.value, str) else value.name
        case None | bool() | int() | float() | str():
            return value
        case Job():
            return str(value.key)
        case Pod():
            return f"{value.namespace}/{value.name}"
        case Mapping():
            return tuple(sorted(((form(key), form(item)) for key, item in value.items()), key=repr))
        case Set():
            return tuple(sorted(map(form, value), key=repr))
        case Iterable():
            return tuple(map(form, value))
    if is_dataclass(value):
        return tuple(form(getattr(value, field.name)) for field in fields(value))
    raise TypeError(f"no form is known of {value!r}")


_POD = ("uid", "namespace", "name")


def _fields(*same: str, **others: str) -> dict[str, str]:
    """Return names that stay, each with that of its attribute: the same one, or another one."""
    return {
        **{name: name for name in same},
        **{name.replace("_", "-"): attribute for name, attribute in others.items()},
    }


FORMS: Mapping[type[Effect], tuple[str, Mapping[str, str]]] = {
    AnswerFilter: ("answer-filter", _fields("call", "passed", "refused", why="reason")),
    AnswerPreempt: ("answer-preempt", _fields("call", "victims")),
    AnswerBind: ("answer-bind", _fields("call", why="error")),
    PostBinding: ("post-binding", _fields(*_POD, "node", "calls", "deadline", "annotations", "group", "again")),
    Nominate: ("nominate", _fields(*_POD, "node", "renew", "group", "parked")),
    Ungate: ("ungate", _fields(*_POD, "group", "pin")),
    Wake: ("wake", _fields(*_POD)),
    Confirm: ("confirm", _fields(*_POD, "group")),
    Evict: ("evict", _fields(*_POD, why="reason")),
    Deallocate: ("deallocate", _fields(*_POD)),
    StartJob: (
        "start-job",
        _fields(
            "job", "plan", "minimum", "flavors", "tolerations", "labels", awaits="awaits_s", **{"let-go": "node_wait"}
        ),
    ),
    SuspendJob: ("suspend-job", _fields("job", why="reason", evicted="evicted", **{"in-vain": "in_vain"})),
    CleanJob: ("clean-job", _fields("job")),
    Reserve: ("reserve", _fields(group="key", pod="pod", job="job", reservation="reservation", backfill="backfill")),
    Enqueue: ("enqueue", _fields(group="key", uid="uid")),
    Report: (
        "report",
        _fields(
            *("member", "code", "warning", "members", "bound", "owner", "dialect", "pending"),
            **{"group": "key", "uid": "group_uid", "why": "message", "why, in full": "full"},
        ),
    ),
    Hint: ("hint", _fields(*_POD, "owner", "once", code="reason", why="message")),
    Reached: (
        "reached",
        _fields("milestone", "size", "cause", "alone", "rules", group="key", after="after_s", why="detail"),
    ),
    TryPod: ("try-pod", _fields("job", "podset")),
}
"""The kind and the fields of each effect, under the names that stay: beside each the one that it has in the code now.
A field whose name begins with "why" has prose."""


def named(effect: Effect) -> dict[str, object]:
    """Return the kind of an effect and its fields, under names that stay."""
    kind, names = FORMS[type(effect)]
    values = {name: getattr(effect, attribute) for name, attribute in names.items()}
    return {
        "kind": kind,
        **{name: _argued(value) if name.startswith("why") else value for name, value in values.items()},
    }


def _argued(text: str) -> tuple[bool, tuple[str, ...]]:
    """Return whether there is a text, and its arguments."""
    return bool(text), arguments(text)


class Stream:
    """The effects of one core, and after how many events it asked for them."""

    def __init__(self) -> None:
        self.events = 0
        self._effects: list[tuple[int, list[Effect]]] = []

    def feed(self, effects: list[Effect]) -> None:
        """Take the effects of the next event. They are hashed later: tests count what an event costs."""
        self.events += 1
        self._effects.append((self.events, effects))

    @property
    def digest(self) -> str:
        """Return the hash of all so far."""
        return digest_of(f"{event} {form(named(effect))}" for event, effects in self._effects for effect in effects)


@contextmanager
def recorded() -> Iterator[Mapping[Engine, Stream]]:
    """Record the stream of each core that handles an event within the block, in the order of their first events."""
    streams: dict[Engine, Stream] = {}
    handle = Engine.handle

    def recording(core: Engine, event: Event, now: float) -> list[Effect]:
        if core not in streams:
            streams[core] = Stream()
        effects = handle(core, event, now)
        streams[core].feed(effects)
        return effects

    Engine.handle = recording  # type: ignore[method-assign, assignment]
    try:
        yield streams
    finally:
        Engine.handle = handle  # type: ignore[method-assign]


def digest_of(parts: Iterable[str]) -> str:
    """Return one digest of several parts, in this order."""
    hasher = hashlib.sha256()
    for text in parts:
        hasher.update(f"{text}\n".encode())
    return hasher.hexdigest()[:16]
