"""A reflector with an API server and a clock that the test plays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from extender.core.events import (
    Event,
    GroupGone,
    GroupSeen,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
    VolumeGone,
    VolumeSeen,
)
from extender.kube.reflector import Callback, Reflector
from extender.kube.resources import Resource
from extender.observe.sight import Sight
from tests.kube.fake_api import Answer, FakeApi, FakeTime, fake_api


def node(name: str, version: int = 1, uid: str = "", **labels: str) -> dict[str, Any]:
    meta = {"name": name, "uid": uid or f"uid-{name}", "resourceVersion": str(version), "labels": labels}
    return {"metadata": meta, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}


def pod(name: str, uid: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "team", "uid": uid, "resourceVersion": "9"}, "spec": spec}


def listed(*items: dict[str, Any], version: int = 1, more: str = "") -> Answer:
    return Answer(body={"metadata": {"resourceVersion": str(version), "continue": more}, "items": list(items)})


def change(kind: str, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": item}


def told(event: Event) -> str:
    """The event in a word: +name for seen, -name for gone."""
    match event:
        case NodeSeen(node):
            return f"+{node.name}"
        case NodeGone(name):
            return f"-{name}"
        case PodSeen(pod):
            return f"+{pod.name}:{pod.uid}"
        case PodGone(uid):
            return f"-{uid}"
        case GroupSeen(group):
            return f"+{group.key}"
        case GroupGone(key):
            return f"-{key}"
        case VolumeSeen(name, _, claim):
            return f"+{name}:{claim}"
        case VolumeGone(name, _, claim):
            return f"-{name}:{claim}"
    raise AssertionError(event)


class Followed:
    """The events of a reflector until it had sent ``until`` of them and had asked for its last, open watch."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.before_sync: list[str] = []
        self.api: FakeApi
        self.sight: Sight
        self.time = FakeTime()

    @property
    def asked(self) -> list[str]:
        return [request.method for request in self.api.asked]


def follow(
    resource: Resource[Any, Event],
    setup: Callable[[FakeApi], None],
    until: str,
    clock: Callable[[], float] | None = None,
) -> Followed:
    """Run the reflector until it has sent ``until``; every setup leads there."""
    followed = Followed()
    followed.sight = Sight(clock or followed.time.clock)

    async def scenario() -> None:
        async with fake_api() as (api, kube):
            followed.api = api
            setup(api)
            done = asyncio.Event()

            def dispatch(event: Event) -> None:
                followed.told.append(told(event))
                if not reflector.synced.is_set():
                    followed.before_sync.append(followed.told[-1])
                if followed.told[-1] == until:
                    done.set()

            reflector = Reflector(kube, resource, Callback(dispatch), sight=followed.sight, pause=followed.time.pause)
            running = asyncio.create_task(reflector.run())
            await asyncio.wait_for(done.wait(), 20)
            await asyncio.wait_for(reflector.synced.wait(), 20)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())
    return followed
