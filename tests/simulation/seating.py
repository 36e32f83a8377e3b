"""Who could start in the room that there is: the referee's own placement, simple and slow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from policies.model import CLIQUE, Node, Pod, Requests
from tests.simulation.sight import Room, fits, lets_in, take


def agree(pods: Iterable[Pod]) -> bool:
    """A gang whose members contradict each other is not started: one priority, one dialect, one minMember, and one wish
    per role."""
    facts: dict[object, None] = {}
    wishes: dict[object, dict[object, None]] = {}
    for pod in pods:
        facts[pod.priority, pod.group and (pod.group.dialect, pod.group.min_member)] = None
        wishes.setdefault((pod.requests, pod.selection, pod.series), {})[pod.topology] = None
    return len(facts) == 1 and all(len(said) == 1 for said in wishes.values())


def seats(
    nodes: Mapping[str, Node], room: Room, pods: Sequence[Pod], bound: Sequence[Pod], enough: int | None = None
) -> int:
    """How many members find room at once on nodes of ``room``, the largest first; it stops looking at ``enough``.

    ``bound``: those that have a node already. Members that require a clique share one, and are seated first; others,
    that an edited annotation has brought in, go anywhere.
    """
    confined = [pod for pod in pods if pod.topology.required is not None]
    others = [pod for pod in pods if pod.topology.required is None]
    if not confined:
        return _seated(nodes, _copy(room), others)
    clique = {name: node.labels.get(CLIQUE) for name, node in nodes.items()}
    taken = {clique.get(pod.node or "") for pod in bound if pod.topology.required is not None}
    if len(taken) > 1:
        return 0
    most = 0
    for one in taken or dict.fromkeys(name for name in clique.values() if name):
        left = _copy(room)
        inside = {name: left[name] for name in room if clique[name] == one}
        most = max(most, _seated(nodes, inside, confined) + _seated(nodes, left, others))
        if enough is not None and most >= enough:
            break
    return most


def takes(nodes: Mapping[str, Node], room: Room, pod: Pod, node: str) -> bool:
    return fits(room[node], pod.requests) and lets_in(nodes[node], pod.selection)


def _copy(room: Room) -> Room:
    return {name: dict(left) for name, left in room.items()}


def _seated(nodes: Mapping[str, Node], left: Room, pods: Sequence[Pod]) -> int:
    """What they take is taken from ``left``."""
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
