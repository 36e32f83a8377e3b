"""Decide who may be evicted where queues lend quota to each other, and whether the lacking quota is free then.

The rules are those of Kueue's preemption inside a ClusterQueue and a cohort, and of its fair sharing (``pkg/scheduler/
preemption`` at ff69552e79). The rule of saturation is that of KAI's reclaim.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from types import MappingProxyType

from policies.model.queues import ClusterQueue, Evicts, FairStrategy, FlavorResource
from policies.preemption.allowed import Budgets, Why
from policies.preemption.candidates import Candidate, Limits, Request
from policies.preemption.lacking import Contested, OnNodes
from policies.quota.shares import share_of
from policies.quota.tree import QuotaNode
from policies.statement import Statement
from policies.words import amount, listed


@dataclass(frozen=True, slots=True)
class Queues:
    """The queues and their rules.

    ``queues``: by name.
    ``fair``: the strategies of fair sharing, tried in this order; empty without fair sharing.
    ``saturation``: None for no such rule. Let the ratio of a queue be its use divided by its quota. A queue that uses
    more than its quota may not evict from another queue if its ratio would be at least the other's ratio divided by
    this.
    """

    queues: Mapping[str, ClusterQueue]
    fair: tuple[FairStrategy, ...] = ()
    saturation: Fraction | None = None


class Reclaim:
    """The rules of one attempt.

    ``statement``: changed by the attempt. Its tree has the usage of all candidates, and not that of the request.
    ``on_nodes``: the quota of resources that nodes lack, by candidate name.
    ``borrowing``: whether the queue may borrow in the end.
    ``fair``: the strategies of fair sharing for this attempt.
    """

    def __init__(
        self,
        request: Request,
        statement: Statement,
        queues: Queues,
        limits: Limits,
        on_nodes: OnNodes = MappingProxyType({}),
        *,
        borrowing: bool = True,
        fair: Sequence[FairStrategy] = (),
    ) -> None:
        self._request = request
        self._rules = queues.queues[request.queue].preemption
        self._saturation = queues.saturation
        self._borrowing = borrowing
        self._fair = fair
        self._budgets = Budgets(statement, limits)
        self._statement = statement
        self._tree = statement.tree
        self._own = self._tree.queues[request.queue]
        self._wanted = {what: amount for what, amount in request.usage.items() if amount}
        self._lacked = tuple(self._tree.lacks(request.queue, request.usage))
        self._contested = self._lacked or tuple(self._wanted)
        self._on_nodes = on_nodes
        self._advantaged = dict(self._advantages())
        self._known: dict[tuple[object, ...], Why | None] = {}
        """The known rule of ``may`` for candidates of the same queue, priority, usage and use on nodes."""
        self._distances: dict[str, int] = {}

    def may(self, candidate: Candidate) -> bool:
        """Whether the candidate may be evicted in addition to the victims so far."""
        return self._budgets.may(candidate) and self._why(candidate) is not None

    def evict(self, candidate: Candidate) -> None:
        """Count the candidate as evicted, and give its quota back in the statement."""
        self._budgets.evict(candidate)
        self._forget_rules()
        self._statement.give_back(candidate.queue, candidate.usage)

    def restore(self, candidate: Candidate) -> None:
        """Undo ``evict`` in any order."""
        self._budgets.restore(candidate)
        self._forget_rules()
        self._statement.use(candidate.queue, candidate.usage)

    def helps(self, candidate: Candidate) -> bool:
        """Whether its eviction frees lacking quota, or, in the request's own queue, lets others be evicted after it."""
        if not self._contests(candidate):
            return False
        concerned = self._contested if self._fair else self._wanted
        return not self.enough() or (candidate.queue == self._request.queue and not self._within_own(concerned))

    def enough(self) -> bool:
        """Whether the quota is available; without ``borrowing``, as the queue's own."""
        if self._tree.lacks(self._request.queue, self._request.usage):
            return False
        return self._borrowing or self._within_own(self._wanted)

    def lack(self) -> str:
        """The lacking quota, for people; empty if none is lacking."""
        lacks = self._tree.lacks(self._request.queue, self._request.usage)
        shortages = listed(
            f"{amount(what[1], much, up=True)} of flavor {what[0]}" for what, much in sorted(lacks.items())
        )
        return f"queue {self._request.queue} lacks {shortages}" if shortages else ""

    def why(self, gone: Sequence[Candidate]) -> Mapping[str, Why] | None:
        """The rule by which each victim may be evicted, one after the other, by name; None if they may not."""
        # The nearest go first, which lowers the share of the queue's own side. The last victim is searched first, then
        # the one before it: the more candidates of a queue are present, the more of them may go.
        order = sorted(
            gone, key=lambda candidate: (self._distance(candidate), self._contended(candidate), candidate.name)
        )
        left = order[::-1]
        reasons: list[tuple[str, Why]] = []
        with self._statement.open():
            while (last := next(filter(self._may_go_last, left), None)) is not None:
                reasons.append((last.name, self._why(last) or Why.PRIORITY))
                left.remove(last)
        return None if left else dict(reversed(reasons))

    def reaches(self, queue: str, *, alone: bool) -> bool:
        """Whether a candidate of that queue may be evicted in the end, as far as the queues alone tell.

        ``alone``: no candidate of the request's own queue may be evicted.
        """
        if (theirs := self._tree.queues[queue]) is self._own:
            return not alone
        near, far = self._where_they_part(theirs)
        # As others go, no other queue starts to borrow more, and its share does not grow.
        wanted = self._wanted if self._request.pods else self._contested
        if not (borrowed := [what for what in wanted if _all_borrow(theirs, far, what)]):
            return False
        if not self._fair or not alone or near is not self._own:
            return True
        if any(self._within_own((*self._lacked, what)) for what in borrowed):
            return True
        return self._share_with_wanted(near) <= share_of(far).rank

    def _may_go_last(self, candidate: Candidate) -> bool:
        """Restore a candidate if it may be the last of the victims to go. Returns whether it may."""
        with self._statement.open():
            self.restore(candidate)
            if may := self.may(candidate):
                self._statement.commit()
        return may

    def _forget_rules(self) -> None:
        self._known.clear()
        self._statement.on_drop(self._known.clear)

    def _distance(self, candidate: Candidate) -> int:
        """The number of steps from the request's queue to the nearest common cohort; 0 in its own queue."""
        name = candidate.queue
        if name not in self._distances:
            theirs = self._tree.queues.get(name, self._own)
            near = None if theirs is self._own else self._where_they_part(theirs)[0]
            self._distances[name] = 0 if near is None else list(self._own.path()).index(near) + 1
        return self._distances[name]

    def _why(self, candidate: Candidate) -> Why | None:
        if not candidate.queue:
            return Why.PRIORITY
        if candidate.queue == self._request.queue:
            # If nodes do not matter, a candidate that uses no contested quota would only lower the share of its own
            # queue. In Kueue it is no candidate.
            return Why.IN_QUEUE if self._request.pods or self._contests(candidate) else None
        # Most candidates are like others, and most often nothing has changed since those were checked.
        kind = candidate.queue, candidate.priority, tuple(candidate.usage.items()), self._on_nodes.get(candidate.name)
        if kind not in self._known:
            self._known[kind] = self._by_quota(candidate)
        return self._known[kind]

    def _by_quota(self, candidate: Candidate) -> Why | None:
        theirs = self._tree.queues[candidate.queue]
        near, far = self._where_they_part(theirs)
        contested = self._contested_by(candidate)
        if not self._borrows(candidate, theirs, far, contested) or self._saturated(near, far, contested):
            return None
        return self._by_share(candidate, near, far, contested) if self._fair else self._by_priority(candidate, near)

    def _contested_by(self, candidate: Candidate) -> Contested:
        """The lacking quota, and that of resources that nodes lack where the candidate has room.

        For a request without pods all wanted quota, if none is lacking.
        """
        if not self._request.pods:
            return self._contested
        return (*self._lacked, *self._on_nodes.get(candidate.name, ()))

    def _contests(self, candidate: Candidate) -> bool:
        return self._contended(candidate) > 0

    def _contended(self, candidate: Candidate) -> int:
        """The amount of contested quota that the candidate uses."""
        return sum(candidate.usage.get(what, 0) for what in self._contested)

    def _where_they_part(self, theirs: QuotaNode) -> tuple[QuotaNode, QuotaNode]:
        """The two children of the nearest common cohort: the one on the request's side, and the one on the other's
        side."""
        ours = list(self._own.path())
        for far in theirs.path():
            for near in ours:
                if near.parent is not None and near.parent is far.parent:
                    return near, far
        raise ValueError(f"queues {self._own.name} and {theirs.name} are in no cohort together")

    def _borrows(self, candidate: Candidate, theirs: QuotaNode, far: QuotaNode, contested: Contested) -> bool:
        """Whether all nodes from its queue up to the common cohort borrow some contested quota that it uses."""
        used = (what for what in contested if candidate.usage.get(what))
        return any(_all_borrow(theirs, far, what) for what in used)

    def _by_priority(self, candidate: Candidate, near: QuotaNode) -> Why | None:
        if self._advantaged[near.name, near.is_cohort] or not self._borrowing:
            return Why.RECLAIM
        threshold, priority = self._rules.threshold, candidate.priority
        if self._rules.borrow is Evicts.NEVER or priority >= self._request.priority:
            return None
        return None if threshold is not None and priority > threshold else Why.WHILE_BORROWING

    def _by_share(self, candidate: Candidate, near: QuotaNode, far: QuotaNode, contested: Contested) -> Why | None:
        if self._within_own(contested):
            return Why.RECLAIM
        ours, before = self._share_with_wanted(near), share_of(far).rank
        with self._statement.open():
            self._statement.give_back(candidate.queue, candidate.usage)
            after = share_of(far).rank
        passes = {FairStrategy.FINAL: ours <= after, FairStrategy.INITIAL: ours < before}
        return Why.FAIR if any(passes[strategy] for strategy in self._fair) else None

    def _share_with_wanted(self, near: QuotaNode) -> tuple[bool, Fraction]:
        with self._statement.open():
            self._statement.use(self._own.name, self._wanted)
            return share_of(near).rank

    def _saturated(self, near: QuotaNode, far: QuotaNode, contested: Contested) -> bool:
        """Whether the own side would use more than its quota, and too much of it in proportion to the other side."""
        if self._saturation is None:
            return False
        for what in contested:
            has, others_have = near.subtree.get(what, 0), far.subtree.get(what, 0)
            uses = near.used[what] + self._wanted.get(what, 0)
            if uses > has and uses * others_have * self._saturation >= far.used[what] * has:
                return True
        return False

    def _within_own(self, resources: Iterable[FlavorResource]) -> bool:
        """Whether the queue borrows none of that quota.

        With fair sharing it may borrow free quota in addition to the quota that it reclaims, as in Kueue.
        """
        return all(not self._own.borrows(what, self._wanted[what]) for what in resources)

    def _advantages(self) -> Iterator[tuple[tuple[str, bool], bool]]:
        """Whether the request's queue, and each cohort above it, has the requested quota of its own, or one below it.

        Free quota is required, too; else the queue would borrow in the end.
        """
        within_own, rest = False, dict(self._wanted)
        for node in self._own.path():
            within_own = within_own or all(not node.borrows(what, amount) for what, amount in rest.items())
            yield (node.name, node.is_cohort), within_own
            rest = {what: amount - node.local_left(what) for what, amount in rest.items()}


def _all_borrow(theirs: QuotaNode, far: QuotaNode, what: FlavorResource) -> bool:
    """Whether all nodes from a queue up to ``far`` borrow."""
    for node in theirs.path():
        if not node.borrows(what):
            return False
        if node is far:
            break
    return True


def attempts(
    request: Request, statement: Statement, queues: Queues, limits: Limits, on_nodes: OnNodes
) -> list[list[Reclaim]]:
    """The rules of each attempt. Of the first list in which an attempt finds victims the cheapest is taken."""
    begin = partial(Reclaim, request, statement, queues, limits, on_nodes)
    if queues.fair:
        return [[begin(fair=queues.fair[: at + 1])] for at in range(len(queues.fair))]
    return [[begin(borrowing=borrowing) for borrowing in (True, False)]]
