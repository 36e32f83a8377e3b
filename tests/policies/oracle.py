"""The slow and dumb twin of place(): it tries every node for every member."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product

from policies.model import Node, Pod
from policies.placement.matching import admits

Room = dict[str, dict[str, int]]
"""Node name -> resource -> free amount."""


def most(members: Sequence[Pod], nodes: Sequence[Node]) -> int:
    """How many of the members fit at once."""
    for count in range(len(members), 0, -1):
        for chosen in combinations(members, count):
            if next(placements(chosen, nodes), None) is not None:
                return count
    return 0


def placements(members: Sequence[Pod], nodes: Sequence[Node]) -> Iterator[dict[str, str]]:
    """Yield every way to place all of them; members of one shape are interchangeable."""
    yield from _from(list(members), {node.name: dict(node.allocatable) for node in nodes}, nodes, {}, 0)


def fewest_cliques(members: Sequence[Pod], nodes: Sequence[Node], clique: Mapping[str, str]) -> int:
    """The fewest cliques that hold all members: one clique if possible. Nodes without a clique cost nothing."""
    spans = [{clique[name] for name in placement.values()} for placement in placements(members, nodes)]
    return min([1] if any(len(span) == 1 and "" not in span for span in spans) else [len(s - {""}) for s in spans])


def fewest_nodes(sizes: Sequence[int], want: int) -> int:
    """How many of these sizes are needed at least; all that are not 0 if they do not suffice."""
    chosen = [sum(flags) for flags in product((0, 1), repeat=len(sizes)) if _sum(sizes, flags) >= want]
    return min(chosen, default=sum(size > 0 for size in sizes))


def _sum(sizes: Sequence[int], flags: Sequence[int]) -> int:
    return sum(size for size, flag in zip(sizes, flags, strict=True) if flag)


def _from(
    rest: list[Pod], room: Room, nodes: Sequence[Node], found: dict[str, str], first: int
) -> Iterator[dict[str, str]]:
    if not rest:
        yield dict(found)
        return
    pod, *others = rest
    for at in range(first, len(nodes)):
        free = room[nodes[at].name]
        fits = all(free.get(name, 0) >= amount for name, amount in pod.requests)
        if not fits or not admits(nodes[at], pod.selection):
            continue
        for name, amount in pod.requests:
            free[name] -= amount
        alike = bool(others) and (others[0].requests, others[0].selection) == (pod.requests, pod.selection)
        yield from _from(others, room, nodes, found | {pod.uid: nodes[at].name}, at if alike else 0)
        for name, amount in pod.requests:
            free[name] += amount
