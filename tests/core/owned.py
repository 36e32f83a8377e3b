"""Gangs by their owner, as the tests of them make them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from extender.core.events import OwnerSeen
from policies.model import (
    Controller,
    Dialect,
    GangOwner,
    GroupRef,
    Order,
    Pod,
    PodSet,
)
from tests.builders import cluster, key, requests
from tests.core.script import Script

SET = Controller("apps/v1", "StatefulSet", "web", "uid-web")


def owned(number: int, *, gang: str = "statefulset-web", by: str = "statefulset-web", **facts: Any) -> Pod:
    """A pod with a whole node's GPUs, made by ``web``."""
    ref = GroupRef(gang, Dialect.OWNER, facts.pop("size", None), owner=by)
    pod = Pod(f"uid-web-{number}", "default", f"web-{number}", requests(8), index=number, owner="uid-of-maker")
    return replace(pod, **{"group": ref, "controller": SET, **facts})


def owner(count: int, *, order: Order | None = None, **facts: Any) -> GangOwner:
    """The owner ``web`` of ``count`` pods; ``order``: the order in which its controller creates them."""
    template = Pod("", "default", "web", requests(8), owner=SET.uid, controller=SET)
    podset = None if order is None else PodSet(template, count, count, order=order)
    return GangOwner(key("statefulset-web"), SET, **{"minimum": count, "podset": podset, **facts})


def told(script: Script, seen: GangOwner) -> None:
    script.feed(OwnerSeen(seen))
    script.advance(0.1)


def scripted(seen: GangOwner, *pods: Pod, nodes: str = "a: 4x8") -> Script:
    script = Script(*cluster(nodes))
    told(script, seen)
    script.see(*pods)
    return script


def free(script: Script) -> list[str]:
    """The nodes with unpromised room for one more such pod."""
    return [name for name in script.core.state.claims.nodes if script.core.state.claims.fits(name, requests(8))]


def moved(script: Script, pod: Pod, life: str = "again") -> Pod:
    """The pod is deleted, and made again."""
    script.gone(script.pods[pod.uid])
    again = replace(pod, uid=f"{pod.uid}-{life}", created=9.0)
    script.see(again)
    return again
