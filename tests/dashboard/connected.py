"""The dashboard that shows a script's cluster, and people who look at it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import reduce

from dashboard.access import Person, UnknownPersonError
from dashboard.cluster import Cluster
from dashboard.feed import joined
from extender.api.feed import Happening, Update
from extender.api.models import Explanation
from extender.observe.changes import Changes
from extender.observe.explain.explanation import explaining
from extender.observe.utilisation import UNASKED, Utilisation
from policies.model import GroupKey
from policies.steps import finish
from tests.core.script import Script


def update(script: Script, measured: Utilisation = UNASKED) -> Update:
    """Return everything, as the extender sends it to a dashboard that has just been connected."""
    changes = Changes(script.core, script.now, time.time(), lambda: measured)
    sent = [Update.model_validate_json(text) for text in changes.updates(script.now) if text]
    changes.stop()
    return reduce(joined, sent)


async def shown(script: Script, happenings: Iterable[Happening] = (), measured: Utilisation = UNASKED) -> Cluster:
    """Return the dashboard's picture of the script's cluster, connected to its core."""
    cluster = Cluster()

    async def explained(namespace: str, name: str) -> Explanation | None:
        core, now = script.core, script.now
        gang = core.state.workloads.get(GroupKey(namespace, name))
        if gang is None:
            return None
        return finish(explaining(core.state, gang, now, finish(core.outlook(gang, now))))

    cluster.explain = explained
    await cluster.take(update(script, measured).model_copy(update={"happenings": list(happenings)}))
    return cluster


class People:
    """Knows people by their tokens."""

    def __init__(self, **namespaces: str) -> None:
        """``namespaces``: by a person's name, the namespaces that the person sees: "team-a team-b", or "*" for all."""
        self._namespaces = namespaces

    async def person(self, token: str, namespaces: Iterable[str]) -> Person:
        if token not in self._namespaces:
            raise UnknownPersonError
        sees = self._namespaces[token]
        return Person(token, frozenset(sees.split()), sees_all=sees == "*")

    async def is_extender(self, token: str) -> bool:
        return False
