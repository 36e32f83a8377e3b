"""Who may be evicted where queues lend each other quota, and whether the quota that is lacking is free then.

The rules are those of Kueue's preemption inside a ClusterQueue and a cohort, and of its fair sharing (``pkg/scheduler/
preemption`` at ff69552e79). The rule of saturation is that of KAI's reclaim.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from policies.model.queues import ClusterQueue, Evicts, FairStrategy, FlavorResource
from policies.preemption.allowed import Budgets, Why
from policies.preemption.candidates import Candidate, Limits, Request
from policies.quota.shares import share_of
from policies.quota.tree import QuotaNode, QuotaTree
from policies.words import amount, listed


@dataclass(frozen=True, slots=True)
class Queues:
    """``tree``: with the usage of all candidates in it, and without that of the request. ``queues``: by name. ``fair``:
    the strategies of fair sharing, tried in this order; none without it. ``saturation``: a queue that uses more than it
    has may not evict for another one of which it would use that many times as much as the other does, by what each of
    them has; None for no such rule."""

    tree: QuotaTree
    queues: Mapping[str, ClusterQueue]
    fair: tuple[FairStrategy, ...] = ()
    saturation: Fraction | None = None


class Reclaim:
    """One attempt: ``borrowing``, or so that its queue does not borrow in the end; or by strategies of fair sharing."""

    def __init__(
        self,
        request: Request,
        queues: Queues,
        limits: Limits,
        *,
        borrowing: bool = True,
        fair: Sequence[FairStrategy] = (),
    ) -> None:
        self._request = request
        self._rules = queues.queues[request.queue].preemption
        self._saturation = queues.saturation
        self._borrowing = borrowing
        self._fair = fair
        self._budgets = Budgets(limits)
        self._tree = queues.tree.fork(request.queue)
        self._own = self._tree.queues[request.queue]
        self._wanted = {what: amount for what, amount in request.usage.items() if amount}
        self._contested = tuple(self._tree.lacks(request.queue, request.usage) or self._wanted)
        self._advantaged = dict(self._advantages())
        self._known: dict[tuple[str, int, tuple[tuple[FlavorResource, int], ...]], Why | None] = {}
        """By which rule one of that queue, priority and usage may go beside those that go already."""

    def may(self, candidate: Candidate) -> bool:
        """Whether it may go beside those that go already."""
        return self._budgets.may(candidate) and self._why(candidate) is not None

    def change(self, candidate: Candidate, sign: int) -> None:
        """It goes, or with -1 it is put back."""
        self._budgets.change(candidate, sign)
        if candidate.queue in self._tree.queues:
            self._known.clear()
            (self._tree.free if sign > 0 else self._tree.use)(candidate.queue, candidate.usage)

    def helps(self, candidate: Candidate) -> bool:
        """Whether its eviction frees quota that is lacking, or, in its own queue, lets others be evicted after it."""
        if not self._contests(candidate):
            return False
        return not self.enough() or (candidate.queue == self._request.queue and not self._within_own())

    def enough(self) -> bool:
        """Whether the quota is there; without ``borrowing``, of its own."""
        if self._tree.lacks(self._request.queue, self._request.usage):
            return False
        return self._borrowing or self._within_own()

    def lack(self) -> str:
        """What of the quota is not there, for people; empty if all of it is."""
        lacks = self._tree.lacks(self._request.queue, self._request.usage)
        said = listed(f"{amount(what[1], much, up=True)} of flavor {what[0]}" for what, much in sorted(lacks.items()))
        return f"queue {self._request.queue} lacks {said}" if said else ""

    def why(self, gone: Sequence[Candidate]) -> Mapping[str, Why] | None:
        """By which rule each of those that are gone may go, one after the other, by name; None if they may not."""
        for candidate in gone:
            self.change(candidate, -1)
        found: dict[str, Why] = {}
        # A queue goes on borrowing for longest when its largest goes last.
        left = sorted(gone, key=lambda one: (one.queue != self._request.queue, self._contended(one), one.name))
        while left:
            following = next((one for one in left if self.may(one)), None)
            if following is None:
                break
            found[following.name] = self._why(following) or Why.PRIORITY
            self.change(following, 1)
            left.remove(following)
        for candidate in left:
            self.change(candidate, 1)
        return None if left else found

    def reaches(self, queue: str, *, alone: bool) -> bool:
        """Whether somebody of that queue may go in the end, as far as that shows without a look at anybody. ``alone``:
        nobody of its own queue may."""
        if (theirs := self._tree.queues[queue]) is self._own:
            return not alone
        near, far = self._where_they_part(theirs)
        # As others go, no other queue comes to borrow more, nor its share to be larger.
        if not any(_all_borrow(theirs, far, what) for what in self._contested):
            return False
        if not self._fair or not alone or near is not self._own or self._within_own():
            return True
        return self._share_with_wanted(near) <= share_of(far).rank

    def _why(self, candidate: Candidate) -> Why | None:
        if not candidate.queue:
            return Why.PRIORITY
        if candidate.queue == self._request.queue:
            # Where nodes do not matter, whoever uses nothing that is contested would only make the share of its own
            # queue smaller. In Kueue it is no candidate.
            return Why.IN_QUEUE if self._request.pods or self._contests(candidate) else None
        # Most candidates are like others, and most often nothing has changed since these were asked about.
        alike = candidate.queue, candidate.priority, tuple(candidate.usage.items())
        if alike not in self._known:
            self._known[alike] = self._by_quota(candidate)
        return self._known[alike]

    def _by_quota(self, candidate: Candidate) -> Why | None:
        theirs = self._tree.queues[candidate.queue]
        near, far = self._where_they_part(theirs)
        if not self._borrows(candidate, theirs, far) or self._saturated(near, far):
            return None
        return self._by_share(candidate, near, far) if self._fair else self._by_priority(candidate, near)

    def _contests(self, candidate: Candidate) -> bool:
        return self._contended(candidate) > 0

    def _contended(self, candidate: Candidate) -> int:
        """How much it uses of what is contested."""
        return sum(candidate.usage.get(what, 0) for what in self._contested)

    def _where_they_part(self, theirs: QuotaNode) -> tuple[QuotaNode, QuotaNode]:
        """Below the nearest cohort that both queues are in: the node that is above its own queue, and the other's."""
        ours = list(self._own.path())
        for far in theirs.path():
            for near in ours:
                if near.parent is not None and near.parent is far.parent:
                    return near, far
        raise ValueError(f"queues {self._own.name} and {theirs.name} are in no cohort together")

    def _borrows(self, candidate: Candidate, theirs: QuotaNode, far: QuotaNode) -> bool:
        """Whether all from its queue up to where they part borrow something that is contested, and that it uses."""
        used = (what for what in self._contested if candidate.usage.get(what))
        return any(_all_borrow(theirs, far, what) for what in used)

    def _by_priority(self, candidate: Candidate, near: QuotaNode) -> Why | None:
        if self._advantaged[near.name, near.is_cohort] or not self._borrowing:
            return Why.RECLAIM
        threshold, priority = self._rules.threshold, candidate.priority
        if self._rules.borrow is Evicts.NEVER or priority >= self._request.priority:
            return None
        return None if threshold is not None and priority > threshold else Why.WHILE_BORROWING

    def _by_share(self, candidate: Candidate, near: QuotaNode, far: QuotaNode) -> Why | None:
        if self._within_own():
            return Why.RECLAIM
        ours, before = self._share_with_wanted(near), share_of(far).rank
        self._tree.free(candidate.queue, candidate.usage)
        after = share_of(far).rank
        self._tree.use(candidate.queue, candidate.usage)
        passes = {FairStrategy.FINAL: ours <= after, FairStrategy.INITIAL: ours < before}
        return Why.FAIR if any(passes[strategy] for strategy in self._fair) else None

    def _share_with_wanted(self, near: QuotaNode) -> tuple[bool, Fraction]:
        self._tree.use(self._own.name, self._wanted)
        found = share_of(near).rank
        self._tree.free(self._own.name, self._wanted)
        return found

    def _saturated(self, near: QuotaNode, far: QuotaNode) -> bool:
        """Whether its side would use more than it has, and about as many times that as the other side does."""
        if self._saturation is None:
            return False
        for what in self._contested:
            has, others_have = near.subtree.get(what, 0), far.subtree.get(what, 0)
            uses = near.used[what] + self._wanted.get(what, 0)
            if uses > has and uses * others_have * self._saturation >= far.used[what] * has:
                return True
        return False

    def _within_own(self) -> bool:
        """With fair sharing it may borrow what is free beside what it takes back, as in Kueue."""
        asked = self._contested if self._fair else self._wanted
        return all(not self._own.borrows(what, self._wanted[what]) for what in asked)

    def _advantages(self) -> Iterator[tuple[tuple[str, bool], bool]]:
        """For its queue and each cohort above: whether it, or one below, has of its own all that is asked for: also
        what is free, else the queue would borrow that in the end."""
        found, rest = False, dict(self._wanted)
        for node in self._own.path():
            found = found or all(not node.borrows(what, amount) for what, amount in rest.items())
            yield (node.name, node.is_cohort), found
            rest = {what: amount - node.local_left(what) for what, amount in rest.items()}


def _all_borrow(theirs: QuotaNode, far: QuotaNode, what: FlavorResource) -> bool:
    """All from a queue up to where both part."""
    for node in theirs.path():
        if not node.borrows(what):
            return False
        if node is far:
            break
    return True


def attempts(request: Request, queues: Queues, limits: Limits) -> list[list[Reclaim]]:
    """Of the first ones that find anybody the cheapest is taken."""
    if queues.fair:
        return [[Reclaim(request, queues, limits, fair=queues.fair[: at + 1])] for at in range(len(queues.fair))]
    return [[Reclaim(request, queues, limits, borrowing=borrowing) for borrowing in (True, False)]]
