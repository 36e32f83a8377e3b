"""The keys of YuniKorn (yunikorn.apache.org/docs/user_guide/gang_scheduling).

The gang is the application, its task groups are its roles, and the first pod states how many pods of each role start
together. YuniKorn makes placeholder pods for pods that do not exist yet. Muster makes none, and starts the gang once
enough pods of each task group exist.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import msgspec

from extender.kube.dialects.words import Words
from extender.kube.reading.objects import UNDECODABLE, Meta
from extender.kube.reading.plain import plain, quoted
from extender.kube.reading.roles import LARGEST, MOST_ROLES
from policies.model import Dialect, Minima

_DOMAIN = "yunikorn.apache.org/"
TASK_GROUP_NAME, TASK_GROUPS, APP_ID = f"{_DOMAIN}task-group-name", f"{_DOMAIN}task-groups", f"{_DOMAIN}app-id"
APPLICATION_IDS = (APP_ID, "applicationId", "spark-app-selector")
"""Keys of the application's name; the first that exists counts."""

NO_APPLICATION = "it is of a task group, and names no application: add the label applicationId"
BAD_TASK_GROUPS = (
    f"{TASK_GROUPS} is {{}}, which is not a JSON list of at most {MOST_ROLES} task groups, each with a name of its own "
    "and a minMember of at least 1"
)
_LONGEST = 64 << 10


class _TaskGroup(msgspec.Struct, rename="camel"):
    name: str
    min_member: int


def _named(meta: Meta) -> list[tuple[str, str]]:
    """The application's name, after its key. A pod without a task group is scheduled alone, as by YuniKorn."""
    if not any(meta.values_of(TASK_GROUP_NAME)) and not any(meta.values_of(TASK_GROUPS)):
        return []
    names = [(key, name) for key in APPLICATION_IDS for name in meta.values_of(key) if name]
    return names[:1] or [(TASK_GROUP_NAME, next(iter(meta.values_of(TASK_GROUP_NAME)), "") or "task-groups")]


def _minima(meta: Meta) -> Minima | str:
    if not any(meta.values_of(key) for key in APPLICATION_IDS):
        return NO_APPLICATION
    text = next(iter(meta.values_of(TASK_GROUPS)), "")
    return _read(text) if text else ()


@lru_cache(maxsize=256)
def _read(text: str) -> Minima | str:
    """The minima of the task groups, or a sentence about what cannot be read. Cached: pods of an application mostly
    agree."""
    try:
        groups = msgspec.json.decode(text, type=list[_TaskGroup]) if len(text) <= _LONGEST else []
    except UNDECODABLE:
        groups = []
    minima = {
        plain(task_group.name): min(task_group.min_member, LARGEST)
        for task_group in groups
        if task_group.name and task_group.min_member > 0
    }
    if not groups or len(minima) < len(groups) or len(groups) > MOST_ROLES:
        return BAD_TASK_GROUPS.format(quoted(text))
    return tuple(sorted(minima.items()))


def renamed(text: str, rename: Callable[[str], str]) -> str:
    """The task groups under other names, without their other fields; empty if they cannot be read."""
    minima = _read(text)
    groups = [] if isinstance(minima, str) else [_TaskGroup(rename(name), least) for name, least in minima]
    return msgspec.json.encode(groups).decode()


WORDS = Words(
    Dialect.YUNIKORN,
    (TASK_GROUP_NAME, TASK_GROUPS),
    role=TASK_GROUP_NAME,
    more=APPLICATION_IDS,
    naming=_named,
    minima=_minima,
)
