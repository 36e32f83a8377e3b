"""An object that cannot be read, for whatever reason, hides no other object."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from extender.core.events import Event, NodeSeen, PodSeen
from extender.kube import convert
from extender.kube.reading.objects import Meta
from extender.kube.reflector import Callback, Reflector
from extender.kube.resources import NAMESPACES, NODES, PODS, Resource
from extender.observe.sight import Sight
from policies.model import Node
from tests.kube.fake_api import fake_api, watch
from tests.kube.reflecting import listed, node, pod


def failing(resource: Resource[Any, Event]) -> Resource[Any, Event]:
    """The same resource, with a bug in the reader of one of its objects."""

    def read(raw: msgspec.Raw) -> tuple[Meta, Any]:
        meta, value = resource.read(raw)
        if meta.name == "odd":
            raise ZeroDivisionError("a bug")
        return meta, value

    return replace(resource, read=read, read_listed=None)


def seen(resource: Resource[Any, Event], *objects: dict[str, Any]) -> list[Event]:
    """The events that a reflector shows its receiver."""

    async def scenario() -> list[Event]:
        async with fake_api() as (api, kube):
            api.on("GET", resource.path, listed(*objects, version=7))
            api.on("WATCH", resource.path, watch(stays_open=True))
            events: list[Event] = []
            reflector = Reflector(kube, resource, Callback(events.append), sight=Sight())
            running = asyncio.create_task(reflector.run())
            await asyncio.wait_for(reflector.synced.wait(), 20)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            return events

    return asyncio.run(scenario())


def test_an_object_that_nothing_is_in_use_by_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    objects = [{"metadata": {"name": name, "uid": name}} for name in ("odd", "other")]
    events = seen(failing(NAMESPACES), *objects)
    assert [getattr(event, "name", "") for event in events] == ["other"]
    assert "/odd is skipped: a bug" in caplog.text


def test_a_node_is_closed_and_known() -> None:
    odd, other = seen(failing(NODES), node("odd", zone="z"), node("other"))
    assert isinstance(odd, NodeSeen)
    assert odd.node == Node("odd", (), odd.node.labels, unschedulable=True, bare=True)
    assert odd.node.labels["zone"] == "z"
    assert isinstance(other, NodeSeen)
    assert not other.node.unschedulable


def test_a_pod_on_a_node_takes_its_room(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(convert, "stamp_of", fails)
    container = {"name": "main", "resources": {"requests": {"nvidia.com/gpu": "8"}}}
    bound, waits = pod("odd", "u1"), pod("odd", "u2")
    bound["spec"] = {"nodeName": "n", "containers": [container], "schedulerName": "muster"}
    bound["metadata"]["annotations"] = {"muster.dev/pod-group": "train", "muster.dev/pod-group-min-member": "2"}
    (event,) = seen(failing(PODS), bound, waits)
    assert isinstance(event, PodSeen)
    assert (event.pod.uid, event.pod.node) == ("u1", "n")
    assert dict(event.pod.requests) == {"nvidia.com/gpu": 8, "pods": 1}
    assert event.pod.group is not None
    assert event.pod.group.name == "train"
    assert event.pod.stamp is None
