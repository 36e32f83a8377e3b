"""The map of the topology: domains as blocks, nodes as cells in the colour of their workload, and the room that a
waiting gang lacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import nsmallest

from fastapi import APIRouter, Request, Response

from dashboard.asking import Viewer
from dashboard.cluster import UnansweredError
from dashboard.pages.colours import looks
from dashboard.pages.drawing import Drawing, draw_need
from dashboard.pages.rendering import Links, render
from dashboard.pages.sharing import shared
from dashboard.views import Seen
from extender.api.feed import NodeView
from extender.api.models import Explanation, LevelView, UtilisationView
from policies.words import listed, natural

router = APIRouter()
_LEGEND = 40
_WAITING = 200
"""The most workloads in the legend, and in the choice of waiting ones."""
_MANY = 600
_LARGE_CELL, _SMALL_CELL = 20, 10
"""Cells are small where there are more nodes than that."""
_NODES_KEPT = 10_000
"""Nodes whose place in the order of names is kept."""
_NAMED = 2500
"""Shapes have names and links where no more workloads than that are drawn, each counted once for a node."""


@dataclass(frozen=True)
class Block:
    """A domain, its nodes by name, and the workloads on them in words."""

    name: str
    nodes: list[NodeView]
    tenants: str

    @property
    def gpus(self) -> int:
        return sum(node.gpus for node in self.nodes)

    @property
    def free(self) -> int:
        """Free GPUs of nodes that are open."""
        return sum(node.free for node in self.nodes if node.open)


@dataclass(frozen=True)
class Area:
    """A domain of the next level farther out, and the blocks in it."""

    name: str
    blocks: list[Block]


@router.get("/map")
@shared
async def topology_map(request: Request, seen: Viewer) -> Response:
    """Return the page.

    Parameters: ``level``, whose domains are the blocks, ``gang``, whose room is drawn, ``namespace``, whose workloads
    are coloured, and ``text`` in the names of domains or their workloads.
    """
    parameters = {name: request.query_params.get(name, "")[:400] for name in ("level", "gang", "namespace", "text")}
    nodes, levels = seen.nodes(), seen.topology().levels
    explanation, problem = await _explained(seen, parameters["gang"])
    level = _level(levels, parameters["level"], explanation)
    outer = _outer(levels, level)
    look = looks(nodes, level, parameters["namespace"])
    chosen = (explanation.gang.namespace, explanation.gang.name) if explanation else None
    areas = _areas(nodes, level, outer, parameters["text"].lower().split())
    drawn = [node for area in areas for block in area.blocks for node in block.nodes]
    cell = _LARGE_CELL if len(drawn) <= _MANY else _SMALL_CELL
    named = sum(len(node.workloads) for node in drawn) <= _NAMED
    drawing = Drawing(look, cell, Links(request), chosen, named)
    rooms = {room.name: room for room in explanation.domains} if explanation else {}
    briefs = seen.briefs()
    waiting = [brief for brief in briefs if brief.status == "PENDING" and brief.state == "NoRoom"]
    return render(
        request,
        seen,
        "map.html",
        level=level,
        outer=outer,
        gang=parameters["gang"],
        namespace=parameters["namespace"],
        text=parameters["text"],
        levels=levels,
        areas=areas,
        draw=drawing.block,
        draw_need=draw_need,
        rooms=rooms,
        named=named,
        legend=nsmallest(_LEGEND, look.values(), key=lambda entry: (-entry.gpus, entry.key)),
        legend_in_all=len(look),
        namespaces=sorted({workload.namespace for node in nodes for workload in node.workloads}),
        waiting=sorted(f"{brief.namespace}/{brief.name}" for brief in waiting)[:_WAITING],
        explanation=explanation,
        problem=problem,
        best=explanation.domains[0].name if explanation and explanation.domains else "",
        fits={room.name: f"{room.free} of {room.want}" for room in rooms.values()},
        use=_use(nodes, level, seen.node_loads()),
        idle={(brief.namespace, brief.name) for brief in briefs if brief.idle},
        domains=(domains := [domain for domain in seen.domains() if domain.level == level]),
        any_devices=any(domain.devices for domain in domains),
        every="500ms",
    )


async def _explained(seen: Seen, gang: str) -> tuple[Explanation | None, str]:
    """Return the explanation of the chosen gang, or why there is none."""
    namespace, _, name = gang.partition("/")
    if not name:
        return None, ""
    try:
        explanation = await seen.explain(namespace, name)
    except UnansweredError as error:
        return None, f"The room for {gang} cannot be shown now: {error}."
    return explanation, "" if explanation else f"There is no workload {gang}, or you may not see it."


def _level(levels: Sequence[LevelView], asked: str, explanation: Explanation | None) -> str:
    """The level whose domains are drawn: the one asked for, that of the chosen gang, or the nearest."""
    of_gang = [level.name for level in levels if explanation is not None and level.key == explanation.level]
    names = [level.name for level in levels]
    return next((name for name in (asked, *of_gang, *names) if name in names), "")


def _outer(levels: Sequence[LevelView], level: str) -> str:
    """The next level farther out; empty where there is none."""
    names = [view.name for view in levels]
    return names[names.index(level) + 1] if level in names[:-1] else ""


def _areas(nodes: Sequence[NodeView], level: str, outer: str, words: Sequence[str]) -> list[Area]:
    """The blocks by the domain of the outer level that they are in, each with all of the words in one of its names."""
    by_place: dict[tuple[str, str], list[NodeView]] = {}
    for node in nodes:
        by_place.setdefault((node.domains.get(outer, ""), node.domains.get(level, "")), []).append(node)
    by_area: dict[str, list[Block]] = {}
    for (area, name), inside in sorted(by_place.items(), key=_by_name):
        block = Block(name, sorted(inside, key=lambda node: _natural(node.name)), _tenants(inside))
        if all(word in f"{area} {name} {block.tenants}".lower() for word in words):
            by_area.setdefault(area, []).append(block)
    return [Area(area, blocks) for area, blocks in by_area.items()]


_natural = lru_cache(_NODES_KEPT)(natural)


def _use(nodes: Iterable[NodeView], level: str, loads: Mapping[str, UtilisationView | None]) -> dict[str, int]:
    """Return how busy the GPUs of each domain are in percent, in the mean over its GPUs that have been measured."""
    sums: dict[str, tuple[float, int]] = {}
    for node in nodes if loads else ():
        if (load := loads.get(node.name)) is not None:
            busy, gpus = sums.get(name := node.domains.get(level, ""), (0.0, 0))
            sums[name] = busy + load.percent * load.gpus, gpus + load.gpus
    return {name: round(busy / gpus) for name, (busy, gpus) in sums.items()}


def _by_name(place: tuple[tuple[str, str], object]) -> tuple[object, ...]:
    """The order of names: numbers by their value; nodes in no domain come last."""
    (area, name), _ = place
    return not area, natural(area), not name, natural(name)


def _tenants(nodes: Iterable[NodeView]) -> str:
    gpus: dict[str, int] = {}
    for node in nodes:
        for workload in node.workloads:
            gpus[f"{workload.namespace}/{workload.name}"] = (
                gpus.get(f"{workload.namespace}/{workload.name}", 0) + workload.gpus
            )
    return listed((f"{name} {much}" for name, much in sorted(gpus.items(), key=lambda item: (-item[1], item[0]))), 8)
