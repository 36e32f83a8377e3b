"""Namespaces as the watch and a snapshot report them to the core."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import msgspec

from extender.core.events import NamespaceSeen
from extender.kube.resources import NAMESPACES
from extender.kube.snapshots.queues import queue_events, take_queues
from tests.kube.fake_api import fake_api
from tests.kube.kinds.following import listed

LIVING = {
    "metadata": {"name": "team", "labels": {"tier": "gold"}, "annotations": {"pool": "a"}},
    "status": {"phase": "Active"},
}
DOOMED = {"metadata": {"name": "doomed", "deletionTimestamp": "2026-11-28T19:00:00Z"}}
SEEN = [
    NamespaceSeen("team", (("tier", "gold"),), annotations=(("pool", "a"),)),
    NamespaceSeen("doomed", (), terminating=True),
]


def test_one_that_is_being_deleted_says_so() -> None:
    assert [NAMESPACES.read(msgspec.Raw(json.dumps(obj).encode()))[1] for obj in (LIVING, DOOMED)] == SEEN


def test_so_it_does_in_a_snapshot() -> None:
    async def run() -> None:
        async with fake_api() as (api, kube):
            api.on("GET", NAMESPACES.path, listed(LIVING, DOOMED))
            documents, namespaces = await take_queues(kube)
            # Nothing is tried there, so that annotations are left out.
            assert list(queue_events(documents, namespaces, [])) == [replace(event, annotations=()) for event in SEEN]

    asyncio.run(run())
