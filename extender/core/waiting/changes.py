"""What has changed for those who wait since the queue last looked at all of them, folded: where room came free."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from extender.core.claims import Claims
from extender.core.gang.shape import Shape
from policies.model import Constraints, Pod, Requests
from policies.steps import AT_ONCE, Steps

Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Freed:
    """A node where more is free ``now`` than was free, and kept for no pod of no gang, ``before``.

    Who goes before such a pod gets what is kept for it, and how many of those wait is not asked here.
    """

    node: str
    before: Amounts
    now: Amounts


@dataclass(slots=True)
class Changes:
    """``freed``: nodes that have got room back, and the least that was free there before of what they got."""

    freed: dict[str, dict[str, int]] = field(default_factory=dict)
    nodes: bool = False
    """Nodes came, went or changed: whatever was found before may be wrong in any way."""
    taken: bool = False
    """Room was taken: nobody can start for it, but the numbers in the reasons grow old."""
    wary: bool = False
    """Somebody waits who demands something of other pods."""
    ended: dict[str, None] = field(default_factory=dict)
    """Who gave room back, or is kept none any more, by the names by which reasons tell of them."""
    met: list[Pod] = field(default_factory=list)
    """Pods that got a node meanwhile, and those whose labels changed, as they were and as they are."""

    @property
    def hopeful(self) -> bool:
        """Somebody may fit who did not fit before."""
        return self.nodes or bool(self.freed) or bool(self.met)

    def see(self, pod: Pod, old: Pod | None) -> None:
        """A pod is on a node: a change if it was not, or has other labels, for those who demand something of it."""
        if not self.wary or not pod.node:
            return
        if old is None or not old.node:
            self.met.append(pod)
        elif old.labels != pod.labels:
            self.met += old, pod

    def will_free(self, node: str, left: Amounts) -> None:
        """Call before a node gets back room of these resources; ``left`` is what is free now. A verdict may be of any
        moment since: the least there was counts."""
        known = self.freed.setdefault(node, {})
        for name, amount in left.items():
            known[name] = min(amount, known.get(name, amount))

    def in_the_end(self, left: Callable[[str], Amounts]) -> list[Freed]:
        """Return the nodes with more room now than before; room that was freed and taken again is no change.

        Of what was never freed there is the least now.
        """
        pairs = [(node, before, left(node)) for node, before in self.freed.items()]
        return [
            Freed(node, {**now, **before}, now)
            for node, before, now in pairs
            if any(now.get(name, 0) > amount for name, amount in before.items())
        ]


def concerns(freed: Sequence[Freed], met: Sequence[Pod], shape: Shape, claims: Claims, *, gone: bool) -> Steps[bool]:
    """Whether some node takes more members of that shape than before, or may take another mix of them, or more of them
    with the room there that is kept for the gang itself."""
    if shape.related:
        yield len(met) // 4
        # Whoever has gone may have had a port, or kept others away, even if the room is taken again.
        return gone or any(_means(constraints, pod, claims) for (*_, constraints), _ in shape.roles for pod in met)
    for (requests, selection, *_), _ in shape.roles:
        admitted = None
        for at in range(0, len(freed), AT_ONCE):
            for node in freed[at : at + AT_ONCE]:
                if len(shape.roles) == 1 and not shape.kept:
                    more = _slots(node.now, requests) > _slots(node.before, requests)
                else:
                    more = _rises(node, (name for name, _ in requests))
                if more and admitted is None:
                    yield from claims.snapshot().evaluated(selection)
                    admitted = claims.admitting(selection)
                if more and admitted is not None and admitted(node.node):
                    return True
            yield 1 + len(freed[at : at + AT_ONCE]) // 4
    return False


def _means(constraints: Constraints, pod: Pod, claims: Claims) -> bool:
    """Whether the pod counts for something that is demanded."""
    if not constraints:
        return False
    if any(claims.tenants.means(term, pod) for term in (*constraints.affinity, *constraints.anti_affinity)):
        return True
    labels = dict(pod.labels)
    return any(spread.counts(labels) for spread in constraints.spread)


def _slots(free: Amounts, requests: Requests) -> int:
    slots = 1 << 31
    for name, amount in requests:
        if amount:
            there = free.get(name, 0)
            if there < amount:
                return 0
            slots = min(slots, there // amount)
    return slots


def _rises(freed: Freed, names: Iterable[str]) -> bool:
    return any(freed.now.get(name, 0) > freed.before.get(name, 0) for name in names)
