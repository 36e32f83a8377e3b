"""The pictures of the map: nodes of a domain as a grid of cells, and what a gang needs as a strip of slots."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from markupsafe import Markup, escape

from dashboard.pages.colours import Key, Look
from dashboard.pages.rendering import Links
from extender.api.feed import NodeView
from extender.api.models import DomainRoom
from policies.words import listed

_SLOTS, _SLOT = 72, 11
"""The most slots of a strip, and the size of one. A larger gang is drawn to scale."""
_LABELLED = 16
"""The least size of a cell that shows the letter of its workload."""
_TEXTS = {"none": "no GPUs", "other": "other workloads", "reserved": "reserved", "free": "free"}


class Segment(NamedTuple):
    """GPUs of a node that are drawn alike. ``kind``: workload, other, reserved or free."""

    kind: str
    gpus: int
    key: Key | None = None
    promised: bool = False


@dataclass
class Shape:
    """All that is drawn alike in a block, as one path. ``labels``: where its letter stands."""

    kind: str
    look: Look | None
    text: str
    gpus: int = 0
    nodes: list[str] = field(default_factory=list)
    path: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        """The text of the shape: its GPUs, and their nodes."""
        gpus = f"{self.gpus} {'GPU' if self.gpus == 1 else 'GPUs'}"
        return f"{self.text}: {gpus} on {listed(self.nodes, 4)}"


def columns_of(nodes: int) -> int:
    """How many cells a row has: rows are about twice as long as there are rows."""
    return max(1, min(nodes, 24, max(9, math.ceil(math.sqrt(2 * nodes)))))


def segments_of(node: NodeView) -> tuple[Segment, ...]:
    """Return what is on the node, from left to right."""
    found = [Segment("workload", one.gpus, (one.namespace, one.name), one.promised) for one in node.workloads]
    others = node.used + node.promised - sum(one.gpus for one in node.workloads)
    found += [Segment("other", others), Segment("reserved", node.reserved), Segment("free", node.free)]
    return tuple(segment for segment in found if segment.gpus > 0)


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
        columns, cell = columns_of(len(nodes)), self.cell
        width, height = columns * cell, math.ceil(len(nodes) / columns) * cell
        shapes: dict[tuple[object, ...], Shape] = {}
        crosses = []
        for at, node in enumerate(nodes):
            x, y = at % columns * cell, at // columns * cell
            self._add(node, x, y, shapes)
            if not node.open:
                crosses.append(f"M{x + 3} {y + 3}l{cell - 6} {cell - 6}m0 -{cell - 6}l-{cell - 6} {cell - 6}")
        lines = [f"M{at}.5 0v{height}" for at in range(cell, width, cell)]
        lines += [f"M0 {at}.5h{width}" for at in range(cell, height, cell)]
        closed = f'<path class="closed" d="{"".join(crosses)}"><title>not ready, or cordoned</title></path>'
        return Markup(  # noqa: S704 - every text in it is escaped
            f'<svg class="block" width="{width}" height="{height}" viewBox="0 0 {width} {height}" aria-hidden="true" '
            f'focusable="false">{"".join(map(self._drawn, shapes.values()))}<path class="lines" d="{"".join(lines)}"/>'
            f"{closed if crosses else ''}</svg>"
        )

    def _add(self, node: NodeView, x: int, y: int, shapes: dict[tuple[object, ...], Shape]) -> None:
        """Divide the cell of the node among what is on it."""
        segments = segments_of(node) or (Segment("none", 1),)
        whole, before = sum(segment.gpus for segment in segments), 0
        for segment in segments:
            shape = self._shape_of(segment, shapes)
            left, right = x + self.cell * before / whole, x + self.cell * (before + segment.gpus) / whole
            shape.path.append(f"M{left:g} {y}H{right:g}v{self.cell}H{left:g}z")
            shape.gpus += segment.gpus if segment.kind != "none" else 0
            shape.nodes.append(node.name)
            if shape.look and self.cell >= _LABELLED and right - left >= _LABELLED / 2 and len(shape.look.label) <= 2:
                middle = (left + right) / 2, y + self.cell / 2 + 3.5
                shape.labels.append(f'<text x="{middle[0]:g}" y="{middle[1]:g}">{shape.look.label}</text>')
            before += segment.gpus

    def _shape_of(self, segment: Segment, shapes: dict[tuple[object, ...], Shape]) -> Shape:
        look = self.look.get(segment.key) if segment.key else None
        if look is None:
            kind = "other" if segment.kind == "workload" else segment.kind
            return shapes.setdefault((kind,), Shape(kind, None, _TEXTS[kind]))
        kind = f"w{' promised' * segment.promised}{' chosen' * (look.key == self.chosen)}"
        same: tuple[object, ...] = (kind, look.key if self.named else look.number)
        return shapes.setdefault(same, Shape(kind, look, f"{'/'.join(look.key)}{', promised' * segment.promised}"))

    def _drawn(self, shape: Shape) -> str:
        path = f'd="{"".join(shape.path)}"'
        if shape.look is None:
            return f'<path class="{shape.kind}" {path}><title>{escape(shape.title)}</title></path>'
        look = f'class="{shape.kind}" fill="url(#k{shape.look.number})"'
        if not self.named:
            return f"<path {look} {path}/>"
        drawn = f"<path {look} {path}><title>{escape(shape.title)}</title></path>{''.join(shape.labels)}"
        if shape.look.is_pod:
            return drawn
        return f'<a href="{escape(self.links.to("workloads/" + "/".join(shape.look.key)))}" tabindex="-1">{drawn}</a>'


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
