"""Annotations that name several things in one text, with other names in them."""

from __future__ import annotations

import re
from collections.abc import Callable

from extender.kube.dialects import yunikorn
from extender.kube.kinds.keys import FLAVORS, PLAN
from extender.kube.kinds.plan import let_go_from, let_go_text, plan_from, plan_text
from extender.kube.queues.flavors import flavors_from, flavors_text
from extender.kube.reading.reserved import PREEMPTING, reservation_of, reservation_text
from policies.model import GroupKey, Reservation, Victim

Say = Callable[[str, str], str]
"""(kind, what was said) -> what is to be said instead."""

_SERIES = re.compile(r"((?:[0-9]{2}/)?[0-9]-)(.+?)(/[0-9]{5})?")


def series_renamed(series: str, say: Say) -> str:
    """The name of a podset: of its parts (``numbering.py``) the role alone is a name."""
    found = _SERIES.fullmatch(series)
    return series if found is None else f"{found[1]}{say('role', found[2])}{found[3] or ''}"


def _plan(text: str, say: Say) -> str:
    if (let_go := let_go_from(text)) is not None:
        return let_go_text(let_go)
    plan = plan_from(text) or {}
    return plan_text({series_renamed(name, say): tuple(say("node", one) for one in plan[name]) for name in plan})


def _flavors(text: str, say: Say) -> str:
    said = flavors_from(text) or {}
    return flavors_text(
        {
            series_renamed(name, say): {say("key", what): say("flavor", flavor) for what, flavor in one.items()}
            for name, one in said.items()
        }
    )


def _reservation(text: str, say: Say) -> str:
    if (said := reservation_of({PREEMPTING: text})) is None:
        return ""
    rooms = [
        (say("node", node), tuple(sorted((say("key", name), amount) for name, amount in asked)))
        for node, asked in said.rooms
    ]
    victims = [
        Victim(
            GroupKey(say("namespace", one.key.namespace), say("pod" if one.pod else "group", one.key.name)),
            say("uid", one.pod),
            tuple(say("uid", release) for release in one.releases),
        )
        for one in said.victims
    ]
    return reservation_text(Reservation(tuple(rooms), tuple(victims), said.until))


RENAMED: dict[str, Callable[[str, Say], str]] = {
    PLAN: _plan,
    FLAVORS: _flavors,
    PREEMPTING: _reservation,
    yunikorn.TASK_GROUPS: lambda text, say: yunikorn.renamed(text, lambda role: say("role", role)),
}
"""By key. What cannot be read is left out."""
