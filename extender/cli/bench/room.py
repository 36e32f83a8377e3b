"""How many pods of a load test the cluster has room for, and which of its figures are beyond safe limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from extender.cli.bench.plan import Course
from extender.kube.client import Kube
from extender.kube.convert import node_from
from extender.kube.reading.identity import UnreadableError
from extender.kube.reading.objects import NodeObject, PodObject
from extender.kube.reading.requests import amounts_of, requests_of
from extender.kube.resources import NODES, PODS
from policies.model import Node, Selection, Toleration
from policies.placement.matching import admits
from policies.words import many

_RATE, _RATE_OF_NODES = 10.0, 0.1
"""Pods a second that need no question: in any cluster, and for each node."""
_PODS, _PODS_OF_NODES = 200, 10
"""Pods in all that need no question: in any cluster, and for each node."""
_SHARE = 0.5
"""The share of the free places that a load test takes without a question."""
_UNDER_WAY_S = 2.0
"""How long a pod is assumed to exist before its lifetime begins."""


@dataclass(frozen=True, slots=True)
class Room:
    """The room for a load test.

    ``nodes``: how many nodes the pods may use.
    ``places``: the pods that fit on these now.
    ``of_cluster``: the number of all nodes.
    """

    nodes: int
    places: int
    of_cluster: int


async def room_for(kube: Kube, course: Course) -> Room:
    """Read nodes and pods, and count places. Raises ApiError."""
    nodes: dict[str, Node] = {}
    async for page in kube.list_pages(NODES.path):
        for raw in page.items:
            try:
                node = node_from(msgspec.json.decode(raw, type=NodeObject))
            except UnreadableError:
                continue
            nodes[node.name] = node
    tolerations = tuple(Toleration(key, "Exists", "", "") for key in course.shape.tolerated)
    selection = Selection(tuple(sorted(course.shape.node_selector.items())), None, tolerations)
    usable = {name for name, node in nodes.items() if _is_open(node) and admits(node, selection)}
    used: dict[str, Counter[str]] = {name: Counter() for name in usable}
    async for page in kube.list_pages(PODS.path, selector="spec.nodeName!="):
        for raw in page.items:
            _add(used, msgspec.json.decode(raw, type=PodObject))
    requested = {"pods": 1, **amounts_of(dict(course.shape.resources))}
    places = 0
    for name in usable:
        has = dict(nodes[name].allocatable)
        places += max(0, min((has.get(key, 0) - used[name][key]) // much for key, much in requested.items() if much))
    return Room(len(usable), places, len(nodes))


def _is_open(node: Node) -> bool:
    return node.ready and not node.unschedulable


def _add(used: dict[str, Counter[str]], pod: PodObject) -> None:
    node = (pod.spec.node_name if pod.spec else None) or ""
    phase = pod.status.phase if pod.status else None
    if pod.spec is None or node not in used or phase in ("Succeeded", "Failed"):
        return
    try:
        used[node].update(dict(requests_of(pod.spec)))
    except ValueError:  # an amount that is none: kube-scheduler counts it for nothing, too
        return


def beyond(course: Course, room: Room) -> Iterator[str]:
    """Yield a sentence for each safe limit that the load test exceeds."""
    at_once = course.pods
    if course.lifetime_s is not None:
        at_once = min(at_once, round(course.rate * (course.lifetime_s + _UNDER_WAY_S)) + course.size)
    free = f"{many(room.places, 'free place')} on {many(room.nodes, 'node')}"
    if at_once > room.places:
        yield f"{at_once} pods at once are more than {free}: gangs wait for room, and their latency is that of the room"
    elif at_once > _SHARE * room.places:
        yield f"{at_once} pods at once take more than half of {free}: other workloads may wait for them"
    if course.rate > (safe := max(_RATE, _RATE_OF_NODES * room.of_cluster)):
        yield f"{course.rate:g} pods a second are more than {safe:g}: others are answered more slowly meanwhile"
    if course.pods > (most := max(_PODS, _PODS_OF_NODES * room.of_cluster)):
        yield f"{course.pods} pods are more than {most}"
