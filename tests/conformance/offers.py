"""The gain of preemption for a waiting workload, taken from the search for victims: for the decision by quota."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from policies.model.queues import ClusterQueue, FlavorResource, Usage
from policies.preemption.candidates import Request
from policies.preemption.reclaim import Queues
from policies.preemption.victims import Choice, Refusal, offered, search
from policies.quota.flavors import Fit
from policies.statement import Statement
from tests.conformance.books import Books, Victims
from tests.conformance.preemption import World, sheltered
from tests.conformance.quota import Evictions, Incoming
from tests.conformance.usable import Usable


def offers(world: World) -> Evictions:
    """Make the ``evictions`` of a ``tests.conformance.quota.World`` from the workloads that run in this world.

    Their quota is that of ``admitted``. Nodes are not considered.
    """
    known = {one.name: one for one in world.queues}
    world = replace(world, running=sheltered(world.running, Usable(world.queues, world.cohorts)))
    return lambda workload, books: _Offers(world, known, workload, books)


class _Offers:
    """The offers to one workload. A workload that is being evicted already is no victim again."""

    def __init__(self, world: World, known: dict[str, ClusterQueue], workload: Incoming, books: Books) -> None:
        self._workload = workload
        self._statement = Statement(tree=books.later)
        self._queues = Queues(known, world.fair, world.saturation)
        self._running = [one for one in world.running if one.name not in books.leaving]
        budgets = Counter(world.limits.budgets)
        for one in world.running:
            if one.name in books.leaving:
                budgets.subtract({name: count for name, count in one.budgets if name in budgets})
        self._limits = replace(world.limits, budgets=budgets)

    def preempts(self, queue: ClusterQueue, what: FlavorResource, amount: int) -> tuple[Fit, int]:
        found = self._search({what: amount})
        if isinstance(found, Refusal):
            return Fit.NO_CANDIDATES, self._statement.tree.level(queue.name, what, amount)[0]
        return offered(self._statement, queue.name, {what: amount}, found)

    def victims(self, usage: Usage) -> Victims | str:
        found = self._search(usage)
        if isinstance(found, Refusal):
            return found.text
        return Victims(found.why, [(one.queue, one.usage) for one in found.victims])

    def _search(self, usage: Usage) -> Choice | Refusal:
        of = self._workload
        wanted = Request(of.uid, (), 0, of.priority, since=of.since, queue=of.queue, usage=usage)
        return search(wanted, self._statement, self._running, self._limits, queues=self._queues)
