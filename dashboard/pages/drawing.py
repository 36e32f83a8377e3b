"""The pictures of the map: nodes of a domain as a grid of cells, and what a gang needs as a strip of slots."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote

from markupsafe import Markup, escape

from dashboard.pages.colours import Key, Look, is_pod
from dashboard.pages.rendering import Links
from extender.api.feed import NodeView
from extender.api.models import DomainRoom
from policies.words import listed

_SLOTS, _SLOT = 72, 11
"""The most slots of a strip, and the size of one. A larger gang is drawn to scale."""
_LABELLED = 16
"""The least size of a cell that shows the letter of its workload."""
_KEPT = 2048
"""The most blocks whose pictures are kept, at some KiB each."""
_TEXTS = {"none": "no GPUs", "other": "other workloads", "reserved": "reserved", "free": "free"}


_UNNAMED: Key = ("", "")


class Segment(NamedTuple):
    """GPUs of a node that are drawn alike.

    ``kind``: w for a workload with a look of its own, other, reserved, free or none.
    ``number``: of the look of the workload.
    ``key``, ``label``: of the workload; empty where they are not drawn.
    """

    kind: str
    gpus: int
    number: int = 0
    key: Key = _UNNAMED
    label: str = ""
    promised: bool = False
    chosen: bool = False


class Cell(NamedTuple):
    """A node as it is drawn. ``segments``: from left to right."""

    name: str
    open: bool
    segments: tuple[Segment, ...]


@dataclass
class Shape:
    """All that is drawn alike in a block, as one path.

    ``first``: the first segment of it.
    ``labels``: where its letter stands.
    """

    first: Segment
    text: str
    gpus: int = 0
    nodes: list[str] = field(default_factory=list)
    path: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        """The text of the shape: its GPUs, and their nodes."""
        promised = ", promised" * self.first.promised
        gpus = f"{self.gpus} {'GPU' if self.gpus == 1 else 'GPUs'}"
        return f"{self.text}{promised}: {gpus} on {listed(self.nodes, 4)}"


def columns_of(nodes: int) -> int:
    """How many cells a row has: rows are about twice as long as there are rows."""
    return max(1, min(nodes, 24, max(9, math.ceil(math.sqrt(2 * nodes)))))


@dataclass(frozen=True)
class Drawing:
    """Draws blocks.

    ``cell``: the size of a node; ``chosen``: the workload that stands out; ``named``: whether each workload is a shape
    with its name and a link. Else all that have the same look are one shape, which is less to send.
    """

    look: Mapping[Key, Look]
    cell: int
    links: Links
    chosen: Key | None = None
    named: bool = True

    def block(self, nodes: Sequence[NodeView]) -> Markup:
        """Return the nodes, in this order, row by row."""
        cells = tuple(Cell(node.name, node.open, self._segments(node)) for node in nodes)
        return _block(cells, self.cell, self.links.to("workloads/"))

    def _segments(self, node: NodeView) -> tuple[Segment, ...]:
        """The segments of the node's bar: what is on it, as far as it is drawn."""
        segments, others = [], node.used + node.promised
        labelled = self.cell >= _LABELLED
        for workload in node.workloads:
            others -= workload.gpus
            look = self.look.get((workload.namespace, workload.name))
            if workload.gpus <= 0:
                continue
            if look is None:
                segments.append(Segment("other", workload.gpus))
                continue
            key, label = look.key if self.named else _UNNAMED, look.label if labelled and self.named else ""
            segments.append(
                Segment("w", workload.gpus, look.number, key, label, workload.promised, look.key == self.chosen)
            )
        for kind, gpus in (("other", others), ("reserved", node.reserved), ("free", node.free)):
            if gpus > 0:
                segments.append(Segment(kind, gpus))
        return tuple(segments) or _NOTHING


_NOTHING = (Segment("none", 1),)


@lru_cache(_KEPT)
def _block(cells: Sequence[Cell], size: int, workloads: str) -> Markup:
    """Return the picture of a block. ``size``: of a cell. ``workloads``: the link to the pages of workloads.

    Blocks that have not changed since they were drawn for anybody are not drawn again.
    """
    columns = columns_of(len(cells))
    width, height = columns * size, math.ceil(len(cells) / columns) * size
    shapes: dict[tuple[object, ...], Shape] = {}
    crosses = []
    for at, cell in enumerate(cells):
        x, y = at % columns * size, at // columns * size
        _add(cell, x, y, size, shapes)
        if not cell.open:
            crosses.append(f"M{x + 3} {y + 3}l{size - 6} {size - 6}m0 -{size - 6}l-{size - 6} {size - 6}")
    lines = [f"M{at}.5 0v{height}" for at in range(size, width, size)]
    lines += [f"M0 {at}.5h{width}" for at in range(size, height, size)]
    closed = f'<path class="closed" d="{"".join(crosses)}"><title>not ready, or cordoned</title></path>'
    drawn = "".join(_drawn(shape, workloads) for shape in shapes.values())
    return Markup(  # noqa: S704 - every text in it is escaped
        f'<svg class="block" width="{width}" height="{height}" viewBox="0 0 {width} {height}" aria-hidden="true" '
        f'focusable="false">{drawn}<path class="lines" d="{"".join(lines)}"/>'
        f"{closed if crosses else ''}</svg>"
    )


def _add(cell: Cell, x: int, y: int, size: int, shapes: dict[tuple[object, ...], Shape]) -> None:
    """Divide the cell of the node among what is on it."""
    whole, before = sum(segment.gpus for segment in cell.segments), 0
    for segment in cell.segments:
        same = segment.kind, segment.number, segment.key, segment.promised, segment.chosen
        if (shape := shapes.get(same)) is None:
            shape = shapes[same] = Shape(segment, _TEXTS.get(segment.kind) or "/".join(segment.key))
        left, right = x + size * before / whole, x + size * (before + segment.gpus) / whole
        shape.path.append(f"M{left:g} {y}H{right:g}v{size}H{left:g}z")
        shape.gpus += segment.gpus if segment.kind != "none" else 0
        shape.nodes.append(cell.name)
        if segment.label and right - left >= _LABELLED / 2 and len(segment.label) <= 2:
            middle = (left + right) / 2, y + size / 2 + 3.5
            shape.labels.append(f'<text x="{middle[0]:g}" y="{middle[1]:g}">{segment.label}</text>')
        before += segment.gpus


def _drawn(shape: Shape, workloads: str) -> str:
    path, first = f'd="{"".join(shape.path)}"', shape.first
    if first.kind != "w":
        return f'<path class="{first.kind}" {path}><title>{escape(shape.title)}</title></path>'
    look = f'class="w{" promised" * first.promised}{" chosen" * first.chosen}" fill="url(#k{first.number})"'
    if first.key == _UNNAMED:
        return f"<path {look} {path}/>"
    drawn = f"<path {look} {path}><title>{escape(shape.title)}</title></path>{''.join(shape.labels)}"
    if is_pod(first.key):
        return drawn
    return f'<a href="{escape(workloads + quote("/".join(first.key)))}" tabindex="-1">{drawn}</a>'


def draw_need(room: DomainRoom) -> Markup:
    """Return the slots of the gang as a strip: first the slots that fit now, then the slots that lack room."""
    slots = min(room.want, _SLOTS)
    fit = min(slots, math.floor(slots * room.free / room.want)) if room.want else 0
    columns = columns_of(slots)
    width, height = columns * _SLOT, math.ceil(slots / columns) * _SLOT
    side = _SLOT - 3
    squares = [
        f"M{column * _SLOT + 1.5} {row * _SLOT + 1.5}h{side}v{side}h-{side}z"
        for row, column in (divmod(slot, columns) for slot in range(slots))
    ]
    return Markup(  # noqa: S704 - numbers alone
        f'<svg class="need" width="{width}" height="{height}" viewBox="0 0 {width} {height}" aria-hidden="true" '
        f'focusable="false"><path class="fits" d="{"".join(squares[:fit])}"/>'
        f'<path class="lacks" d="{"".join(squares[fit:])}"/></svg>'
    )
