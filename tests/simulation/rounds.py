"""The periodic work of the leader, apart from its driver: which nodes are to stay, and whether nodes can be requested.

The code that keeps nodes is that of the product; what it writes is kept here, beside the nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import msgspec

from extender.core.engine import Engine
from extender.kube.api.connection import ApiError
from extender.kube.convert import PROTECTED_NODE
from extender.kube.queues.protection import NODES, READ_BY, NodeKeeper
from extender.kube.queues.rounds import EVERY_S
from extender.simulation.clock import Clock
from tests.simulation.model.apiserver import ApiServer
from tests.simulation.model.changes import Change, Kind
from tests.simulation.model.network import Network
from tests.simulation.model.process import Extender
from tests.simulation.model.provisioning import Provisioning

Meta = dict[str, dict[str, str]]


class NodeMarks:
    """The API server, as far as labels and annotations of nodes are concerned that ``Node`` does not show."""

    def __init__(self, api: ApiServer, network: Network) -> None:
        self.of: dict[str, Meta] = {}
        self._api = api
        self._gone = Counter[str]()
        self._network = network
        api.listeners[Kind.NODES].append(self._node_changed)

    def stays(self, name: str) -> bool:
        return any(key in self.of.get(name, {}).get("annotations", {}) for key in READ_BY.values())

    def uids(self) -> dict[str, str]:
        """Return the UID of each node: one that is created again has another."""
        return {name: self._uid(name) for name in self._api.nodes}

    def _uid(self, name: str) -> str:
        return f"{name}-{self._gone[name]}"

    @property
    def is_down(self) -> bool:
        return self._network.api_down

    @property
    def kept(self) -> list[str]:
        """Nodes that say that they are to stay."""
        return [name for name in self.of if self.stays(name)]

    async def call(self, method: str, path: str, **_: object) -> bytes:
        if self._network.api_down:
            raise ApiError(503, "Unavailable", f"{method} {path}")
        if path == NODES:
            marked = [name for name, meta in self.of.items() if PROTECTED_NODE in meta["labels"]]
            return msgspec.json.encode(
                {"items": [{"metadata": {"name": name, "uid": self._uid(name)}} for name in marked]}
            )
        name = path.removeprefix(f"{NODES}/")
        if name not in self._api.nodes:
            raise ApiError(404, "NotFound", name)
        return msgspec.json.encode({"metadata": {"name": name, **self.of.get(name, {})}})

    async def patch_job(self, path: str, meta: dict[str, Any], changed: dict[str, Any]) -> None:
        written = self.of.setdefault(meta["name"], {"labels": {}, "annotations": {}})
        for field, facts in changed["metadata"].items():
            for key, value in facts.items():
                if value is None:
                    written[field].pop(key, None)
                else:
                    written[field][key] = value
        self._api.version += 1

    def _node_changed(self, change: Change) -> None:
        if change.gone:
            name = change.value.name  # type: ignore[union-attr]
            self.of.pop(name, None)
            self._gone[name] += 1


class Rounds:
    """The rounds of the leader.

    ``leader``: returns the leader, if there is one.
    ``provisioning``: how nodes can be requested.
    """

    def __init__(
        self,
        marks: NodeMarks,
        clock: Clock,
        leader: Callable[[], Extender | None],
        provisioning: Provisioning | None = None,
    ) -> None:
        self._provisioning = provisioning
        self._marks = marks
        self._clock = clock
        self._leader = leader
        self._told: tuple[Engine, bool] | None = None
        """The core that knows whether nodes can be requested, and the reported answer."""
        self._keeper = NodeKeeper(marks, self._core, marks.uids)  # type: ignore[arg-type]
        clock.after(EVERY_S, self._round)

    def _core(self) -> Engine | None:
        leader = self._leader()
        return leader.core if leader is not None and leader.recovered else None

    def _round(self) -> None:
        self._clock.after(EVERY_S, self._round)
        leader = self._leader()
        if leader is not None and leader.frozen:
            return
        core, provisioning = self._core(), self._provisioning
        served = provisioning is not None and provisioning.served
        if leader is not None and core is not None and self._told != (core, served):
            self._told = core, served
            leader.tell_whether_nodes_can_be_asked_for(served=served)
        if leader is not None and core is not None and provisioning is not None and served and not self._marks.is_down:
            provisioning.look(leader)
        with suppress(ApiError):
            _at_once(self._keeper.look())


def _at_once(look: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that never waits."""
    try:
        look.send(None)
    except StopIteration:
        return
    raise AssertionError("a round waits for something")
