"""Nodes in a plan are protected from clients that remove empty nodes, and given back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from extender.core.engine import Engine
from extender.kube.convert import node_from
from extender.kube.queues.protection import NodeKeeper
from extender.kube.queues.rounds import TurnError
from extender.kube.reading.objects import Meta, NodeObject
from tests.core.script import Script
from tests.core.test_elastic import come, of, scene
from tests.kube.fake_api import OK, Answer, FakeApi, fake_api, refused

NODES = "/api/v1/nodes"
LABEL = "muster.dev/kept-for-plan"
AUTOSCALER, KARPENTER = "cluster-autoscaler.kubernetes.io/scale-down-disabled", "karpenter.sh/do-not-disrupt"
KEPT: dict[str, Any] = {
    "labels": {LABEL: "cluster-autoscaler_karpenter"},
    "annotations": {AUTOSCALER: "true", KARPENTER: "true"},
}


class Keeping:
    """A keeper, the core that it asks, and the API server."""

    def __init__(self, api: FakeApi, keeper: NodeKeeper, script: Script) -> None:
        self.api, self.keeper, self.script = api, keeper, script
        self.core: Engine | None = script.core
        self.uids: dict[str, str] = {}

    def node(self, name: str, uid: str = "", **meta: Any) -> None:
        self.uids[name] = uid or f"uid-{name}"
        metadata = {"name": name, "uid": self.uids[name], "resourceVersion": "7", **meta}
        self.api.on("GET", f"{NODES}/{name}", Answer(body={"metadata": metadata}))
        self.api.on("PATCH", f"{NODES}/{name}", OK)

    def marked(self, *names: str) -> None:
        items = [{"metadata": {"name": name, "uid": f"uid-{name}"}} for name in names]
        self.api.on("GET", NODES, Answer(body={"items": items}))

    def plan(self) -> None:
        """A job of one pod is promised spot-0."""
        come(self.script, "first", 1)

    def revoke(self) -> None:
        self.script.drop("spot-0")
        self.script.advance(0.5)

    async def rounds(self, count: int) -> list[dict[str, Any]]:
        """Let the keeper look ``count`` times; returns the metadata that it has written."""
        before = len(self.api.bodies("PATCH"))
        for _ in range(count):
            await self.keeper.look()
        return [body["metadata"] for body in self.api.bodies("PATCH")[before:]]


def run(work: Callable[[Keeping], Awaitable[None]]) -> None:
    async def connected() -> None:
        async with fake_api() as (api, kube):
            script = scene(*of("spot", 1))
            keeper = NodeKeeper(kube, lambda: harness.core, lambda: harness.uids)
            harness = Keeping(api, keeper, script)
            harness.marked()
            harness.node("spot-0")
            await work(harness)

    asyncio.run(connected())


def test_a_node_is_kept_while_it_is_planned_with_as_it_was_seen() -> None:
    async def work(harness: Keeping) -> None:
        assert not await harness.rounds(2)
        harness.plan()
        assert not await harness.rounds(1), "most plans are carried out by the next round"
        assert await harness.rounds(3) == [{**KEPT, "uid": "uid-spot-0", "resourceVersion": "7"}]
        harness.node("spot-0", **KEPT)
        harness.revoke()
        given_back = {"labels": {LABEL: None}, "annotations": {AUTOSCALER: None, KARPENTER: None}}
        assert await harness.rounds(4) == [{**given_back, "uid": "uid-spot-0", "resourceVersion": "7"}]

    run(work)


def test_a_node_that_is_deleted_and_made_anew_between_two_rounds_is_kept_again() -> None:
    async def work(harness: Keeping) -> None:
        harness.plan()
        assert len(await harness.rounds(3)) == 1
        harness.node("spot-0", "uid-anew")
        assert [meta["uid"] for meta in await harness.rounds(3)] == ["uid-anew"]

    run(work)


def test_what_others_have_written_stays() -> None:
    async def work(harness: Keeping) -> None:
        harness.node("spot-0", annotations={KARPENTER: "false"})
        harness.plan()
        (written,) = await harness.rounds(3)
        assert (written["labels"], written["annotations"]) == ({LABEL: "cluster-autoscaler"}, {AUTOSCALER: "true"})
        harness.node("spot-0", labels=written["labels"], annotations={AUTOSCALER: "changed", KARPENTER: "true"})
        harness.revoke()
        (given_back,) = await harness.rounds(3)
        assert (given_back["labels"], given_back["annotations"]) == ({LABEL: None}, {})

    run(work)


def test_after_a_restart_what_was_kept_is_given_back_unless_it_is_planned_with() -> None:
    async def work(harness: Keeping) -> None:
        harness.marked("spot-0", "spot-1", "spot-2")
        harness.node("spot-0", **KEPT)
        harness.node("spot-1", labels={LABEL: "karpenter"}, annotations={AUTOSCALER: "true", KARPENTER: "true"})
        harness.plan()
        (given_back,) = await harness.rounds(4)
        assert (given_back["uid"], given_back["annotations"]) == ("uid-spot-1", {KARPENTER: None})
        (listing,) = [request for request in harness.api.asked if request.path == NODES]
        assert listing.query["labelSelector"] == LABEL

    run(work)


def test_what_somebody_else_has_just_written_to_is_tried_again() -> None:
    async def work(harness: Keeping) -> None:
        harness.api.on("PATCH", f"{NODES}/spot-0", refused(409, "Conflict"), OK)
        harness.plan()
        assert len(await harness.rounds(5)) == 2
        harness.node("spot-0", **KEPT)
        harness.api.on("PATCH", f"{NODES}/spot-0", refused(409, "Conflict"), OK)
        harness.revoke()
        assert len(await harness.rounds(5)) == 2

    run(work)


def test_a_write_that_is_refused_is_told_and_tried_again() -> None:
    async def work(harness: Keeping) -> None:
        harness.api.on("PATCH", f"{NODES}/spot-0", refused(403, "Forbidden"))
        harness.plan()
        await harness.rounds(1)
        for _ in range(2):
            with pytest.raises(TurnError):
                await harness.keeper.look()

    run(work)


def test_who_does_not_act_writes_nothing_and_begins_anew() -> None:
    async def work(harness: Keeping) -> None:
        harness.plan()
        await harness.rounds(1)
        harness.core = None
        assert not await harness.rounds(3)
        harness.core = harness.script.core
        assert not await harness.rounds(1)
        assert len(await harness.rounds(1)) == 1
        assert len([request for request in harness.api.asked if request.path == NODES]) == 2

    run(work)


def test_the_label_is_no_news_of_the_node() -> None:
    meta = Meta(name="spot-0", labels={"pool": "spot", **KEPT["labels"]})
    assert node_from(NodeObject(metadata=meta)).labels == {"pool": "spot"}
