"""Keep nodes of elastic flavors that plans use: Cluster Autoscaler and Karpenter remove empty nodes.

Both leave nodes alone that carry their annotation. The leader writes it, and no start waits for that write. A label on
the node lists which annotations are Muster's. So these are removed once no plan uses the node any more, also after a
restart, and other clients' annotations stay.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from extender.core.engine import Engine
from extender.core.jobs.elastic import protected_nodes
from extender.kube.api.connection import METADATA_ONLY, ApiError, decoded
from extender.kube.client import Kube
from extender.kube.convert import PROTECTED_NODE
from extender.kube.kinds.kind import Object
from extender.kube.queues.rounds import Turns, go_round

READ_BY = {
    "cluster-autoscaler": "cluster-autoscaler.kubernetes.io/scale-down-disabled",
    "karpenter": "karpenter.sh/do-not-disrupt",
}
"""The annotation by which each autoscaler leaves a node alone."""
NODES = "/api/v1/nodes"
_PASSING = (404, 409)
"""Statuses that need no repeat at once: the node is gone, or another client has just written to it."""


class NodeKeeper:
    """Marks the nodes of plans, and removes the marks again.

    ``core``: the core that decides now; None while none does.
    ``uids``: the UID of each node by name. A node that was deleted and created again has no mark.
    A plan counts once two rounds have seen it, because most gangs run on their nodes before that.
    """

    def __init__(
        self,
        kube: Kube,
        core: Callable[[], Engine | None],
        uids: Callable[[], Mapping[str, str]],
    ) -> None:
        self._kube = kube
        self._core = core
        self._uids = uids
        self._of: Engine | None = None
        self._protected: dict[str, str | None] | None = None
        """Nodes with the label, and the UID of each; None: not listed yet."""
        self._before: Collection[str] = ()
        """Nodes that the last round wanted to keep."""

    async def run(self) -> None:
        """Run rounds until cancelled."""
        await go_round(self.look, "nodes that are planned with cannot be kept, or given back")

    async def look(self) -> None:
        """Run one round. Raises TurnError or ApiError."""
        core = self._core()
        if core is not self._of:
            self._of, self._protected = core, None
        if core is None:
            return
        if self._protected is None:
            self._protected = await self._marked()
            self._before = tuple(self._protected)
        wanted, before, protected = core.state.make(protected_nodes), self._before, self._protected
        self._before = tuple(wanted)
        turns = Turns()
        for name in [name for name in protected if name not in wanted and name not in before]:
            await turns.take(name, self._give_back(name, protected))
        uids = self._uids() if wanted else {}
        for name in [name for name in wanted if name in before and protected.get(name, "") != uids.get(name)]:
            await turns.take(name, self._protect(name, uids.get(name), protected))
        turns.end()

    async def _give_back(self, name: str, protected: dict[str, str | None]) -> None:
        if await self._write(name, given_back) != 409:
            del protected[name]

    async def _protect(self, name: str, uid: str | None, protected: dict[str, str | None]) -> None:
        if not await self._write(name, _protection):
            protected[name] = uid

    async def _marked(self) -> dict[str, str | None]:
        query = {"labelSelector": PROTECTED_NODE, "resourceVersion": "0"}
        answer = decoded(await self._kube.call("GET", NODES, query=query))
        metas = [item.get("metadata") or {} for item in answer.get("items") or ()]
        return {str(meta.get("name")): meta.get("uid") for meta in metas}

    async def _write(self, name: str, change: Callable[[Object], Object]) -> int:
        """Write the change; 0, or the status with which the node could not be written."""
        path = f"{NODES}/{name}"
        try:
            meta = decoded(await self._kube.call("GET", path, accept=METADATA_ONLY)).get("metadata") or {}
            if changed := change(meta):
                await self._kube.patch_job(path, meta, {"metadata": changed})
        except ApiError as error:
            if error.status not in _PASSING:
                raise
            return error.status
        return 0


def _protection(meta: Object) -> Object:
    """The patch that makes autoscalers leave the node alone. Annotations that exist are another client's and stay."""
    annotations = meta.get("annotations") or {}
    ours = [who for who, key in READ_BY.items() if key not in annotations]
    if not ours or PROTECTED_NODE in (meta.get("labels") or {}):
        return {}
    return {"labels": {PROTECTED_NODE: "_".join(ours)}, "annotations": {READ_BY[who]: "true" for who in ours}}


def given_back(meta: Object) -> Object:
    """The patch that removes Muster's label and annotations from the node."""
    labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
    if PROTECTED_NODE not in labels:
        return {}
    ours = [READ_BY[who] for who in str(labels[PROTECTED_NODE]).split("_") if who in READ_BY]
    return {
        "labels": {PROTECTED_NODE: None},
        "annotations": {key: None for key in ours if annotations.get(key) == "true"},
    }
