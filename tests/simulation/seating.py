"""The members that could start in the given room: the referee's own placement, simple and slow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from policies.model import CLIQUE, Node, Pod, Requests
from tests.simulation import relations
from tests.simulation.relations import Seats
from tests.simulation.sight import Room, fits, lets_in, take

_MOST_LOOKS = 800
"""How many looks at a node for a member are taken, about; each is as much as a look at all pods that are there."""


def agree(pods: Iterable[Pod]) -> bool:
    """A gang whose members contradict each other is not started: one priority, one dialect, one minMember, and one wish
    per role."""
    facts: dict[object, None] = {}
    wishes: dict[object, dict[object, None]] = {}
    for pod in pods:
        facts[pod.priority, pod.group and (pod.group.dialect, pod.group.min_member)] = None
        wishes.setdefault((pod.requests, pod.selection, pod.series), {})[pod.topology] = None
    return len(facts) == 1 and all(len(values) == 1 for values in wishes.values())


def seats(
    nodes: Mapping[str, Node],
    room: Room,
    pods: Sequence[Pod],
    bound: Sequence[Pod],
    enough: int | None = None,
    there: Seats = (),
) -> int:
    """How many members find room at once on nodes of ``room``, the largest first; the search stops at ``enough``.

    Members that require a clique share one, and are seated first. Others, moved here by an edited annotation, go
    anywhere.

    ``bound``: the members that have a node already.
    ``there``: the pods on nodes, if they matter to the members or to others. Then each member is seated where
      kube-scheduler would accept it, in one of several ways. The result is possible, and more may be.
    """
    if not relations.related(pods, there):
        return _seats(nodes, room, pods, bound, enough, None)
    most = 0
    for way in _ways(room, len(pods)):
        for apart in (False, True):
            most = max(most, _seats(nodes, way, pods, bound, enough, _Company(there, apart=apart)))
            if most >= (len(pods) if enough is None else enough):
                return most
    return most


class _Company:
    """The pods and their nodes.

    ``apart``: members go where the fewest of them are, else to the first node that takes them.
    """

    def __init__(self, there: Seats, *, apart: bool) -> None:
        self.there = list(there)
        self.apart = apart


def _ways(room: Room, count: int) -> Iterator[Room]:
    """The nodes in several orders: members that have to be together begin at the first one."""
    names = list(room)
    for first in range(min(len(names), max(1, _MOST_LOOKS // max(1, count * len(names))))):
        yield {name: room[name] for name in (*names[first:], *names[:first])}


def _seats(
    nodes: Mapping[str, Node],
    room: Room,
    pods: Sequence[Pod],
    bound: Sequence[Pod],
    enough: int | None,
    company: _Company | None,
) -> int:
    confined = [pod for pod in pods if pod.topology.required is not None]
    others = [pod for pod in pods if pod.topology.required is None]
    if not confined:
        return _seated(nodes, _copy(room), others, company)
    clique = {name: node.labels.get(CLIQUE) for name, node in nodes.items()}
    taken = {clique.get(pod.node or "") for pod in bound if pod.topology.required is not None}
    if len(taken) > 1:
        return 0
    most = 0
    for clique_name in taken or dict.fromkeys(name for name in clique.values() if name):
        left = _copy(room)
        inside = {name: left[name] for name in room if clique[name] == clique_name}
        beside = company and _Company(company.there, apart=company.apart)
        most = max(most, _seated(nodes, inside, confined, beside) + _seated(nodes, left, others, beside))
        if enough is not None and most >= enough:
            break
    return most


def takes(nodes: Mapping[str, Node], room: Room, pod: Pod, node: str, there: Seats = ()) -> bool:
    if not fits(room[node], pod.requests) or not lets_in(nodes[node], pod.selection):
        return False
    return not relations.related((pod,), there) or relations.lets_in(pod, node, nodes, there)


def _copy(room: Room) -> Room:
    return {name: dict(left) for name, left in room.items()}


def _seated(nodes: Mapping[str, Node], left: Room, pods: Sequence[Pod], company: _Company | None) -> int:
    """Seat the pods, and take their room from ``left``.

    A pod that is refused tries again after the others of its wave.
    """
    count = 0
    for wave in sorted({pod.wave for pod in pods}):
        count += _seated_at_once(nodes, left, [pod for pod in pods if pod.wave == wave], company)
    return count


def _seated_at_once(nodes: Mapping[str, Node], left: Room, pods: Sequence[Pod], company: _Company | None) -> int:
    waiting, count = sorted(pods, key=lambda pod: _bulk(pod.requests), reverse=True), 0
    while waiting:
        out = [pod for pod in waiting if not _seat(nodes, left, pod, company)]
        count += len(waiting) - len(out)
        if company is None or len(out) == len(waiting):
            break
        waiting = out
    return count


def _seat(nodes: Mapping[str, Node], left: Room, pod: Pod, company: _Company | None) -> bool:
    there = [] if company is None else company.there
    names = list(left)
    if company is not None and company.apart:
        names.sort(key=lambda name: sum(where == name for _, where in there))
    node = next((name for name in names if takes(nodes, left, pod, name, there)), None)
    if node is None:
        return False
    take(left[node], pod.requests)
    there.append((pod, node))
    return True


def _bulk(requests: Requests) -> tuple[int, ...]:
    amounts = dict(requests)
    return (sum(amount for name, amount in requests if "/" in name), amounts.get("cpu", 0))
