"""Who could start in the room that there is: the referee's own placement, simple and slow."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from policies.model import CLIQUE, Node, Pod, Requests
from tests.simulation.sight import Room, fits, lets_in, take


def agree(pods: Iterable[Pod]) -> bool:
    """A gang whose members contradict each other is not started: one priority, one dialect, and one wish per shape."""
    facts: dict[object, None] = {}
    wishes: dict[object, dict[object, None]] = {}
    for pod in pods:
        facts[pod.priority, pod.group.dialect if pod.group else None] = None
        wishes.setdefault((pod.requests, pod.selection), {})[pod.topology] = None
    return len(facts) == 1 and all(len(said) == 1 for said in wishes.values())


def seats(
    nodes: Mapping[str, Node], room: Room, pods: Sequence[Pod], bound: Sequence[Pod], enough: int | None = None
) -> int:
    """How many members find room at once on nodes of ``room``, the largest first; it stops looking at ``enough``.

    ``bound``: those that have a node already. A required clique is kept.
    """
    if pods[0].topology.required is None:
        return _seated(nodes, room, pods, list(room))
    clique = {name: node.labels.get(CLIQUE) for name, node in nodes.items()}
    taken = {clique.get(pod.node or "") for pod in bound}
    if len(taken) > 1:
        return 0
    most = 0
    for one in taken or dict.fromkeys(name for name in clique.values() if name):
        most = max(most, _seated(nodes, room, pods, [node for node in room if clique[node] == one]))
        if enough is not None and most >= enough:
            break
    return most


def takes(nodes: Mapping[str, Node], room: Room, pod: Pod, node: str) -> bool:
    return fits(room[node], pod.requests) and lets_in(nodes[node], pod.selection)


def _seated(nodes: Mapping[str, Node], room: Room, pods: Sequence[Pod], where: Collection[str]) -> int:
    left = {name: dict(room[name]) for name in where}
    count = 0
    for pod in sorted(pods, key=lambda pod: _bulk(pod.requests), reverse=True):
        node = next((name for name in left if takes(nodes, left, pod, name)), None)
        if node is not None:
            take(left[node], pod.requests)
            count += 1
    return count


def _bulk(requests: Requests) -> tuple[int, ...]:
    amounts = dict(requests)
    return (sum(amount for name, amount in requests if "/" in name), amounts.get("cpu", 0))
