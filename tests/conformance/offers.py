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
from policies.steps import Steps, quickly
from tests.conformance.books import Books, Victims
from tests.conformance.preemption import World, sheltered
from tests.conformance.quota import Evictions, Incoming
from tests.conformance.usable import Usable


def offers(world: World) -> Evictions:
    """Make the ``evictions`` of a ``tests.conformance.quota.World`` from the workloads that run in this world.

    Their quota is that of ``admitted``. Nodes are not considered.
    """
    known = {queue.name: queue for queue in world.queues}
    world = replace(world, running=sheltered(world.running, Usable(world.queues, world.cohorts)))
    return lambda workload, books: _Offers(world, known, workload, books)


class _Offers:
    """The offers to one workload. A workload that is being evicted already is no victim again."""

    def __init__(self, world: World, known: dict[str, ClusterQueue], workload: Incoming, books: Books) -> None:
        self._workload = workload
        self._statement = Statement(tree=books.later)
        self._queues = Queues(known, world.fair, world.saturation)
        self._running = [candidate for candidate in world.running if candidate.name not in books.leaving]
        budgets = Counter(world.limits.budgets)
        for candidate in world.running:
            if candidate.name in books.leaving:
                budgets.subtract({name: count for name, count in candidate.budgets if name in budgets})
        self._limits = replace(world.limits, budgets=budgets)

    def preempts(self, queue: ClusterQueue, what: FlavorResource, amount: int) -> Steps[tuple[Fit, int]]:
        result = self._search({what: amount})
        if isinstance(result, Refusal):
            return quickly((Fit.NO_CANDIDATES, self._statement.tree.level(queue.name, what, amount)[0]))
        return quickly(offered(self._statement, queue.name, {what: amount}, result))

    def victims(self, usage: Usage) -> Victims | str:
        result = self._search(usage)
        if isinstance(result, Refusal):
            return result.text
        return Victims(result.why, [(victim.queue, victim.usage) for victim in result.victims])

    def _search(self, usage: Usage) -> Choice | Refusal:
        of = self._workload
        wanted = Request(of.uid, (), 0, of.priority, since=of.since, queue=of.queue, usage=usage)
        return search(wanted, self._statement, self._running, self._limits, queues=self._queues)
