"""What preempting gives to a workload that waits, asked of the search for victims: for the decision by quota."""

from __future__ import annotations

from policies.model.queues import ClusterQueue, FlavorResource
from policies.preemption.candidates import Request
from policies.preemption.decide import World, no_nodes
from policies.preemption.reclaim import Queues
from policies.preemption.victims import Refusal, search
from policies.quota.decide import Evictions, Incoming
from policies.quota.flavors import Fit, Preempts
from policies.quota.tree import QuotaTree


def offers(world: World) -> Evictions:
    """``evictions`` of ``policies.quota.decide.World``, for whoever runs in this world. Nodes are not asked for."""
    known = {one.name: one for one in world.queues}

    def of(tree: QuotaTree, workload: Incoming) -> Preempts:
        queues = Queues(tree, known, world.fair, world.saturation)

        def preempts(queue: ClusterQueue, what: FlavorResource, amount: int) -> tuple[Fit, int]:
            wanted = Request(
                workload.uid,
                (),
                0,
                workload.priority,
                since=workload.since,
                queue=queue.name,
                usage={what: amount},
            )
            found = search(wanted, no_nodes(), world.running, world.limits, queues=queues)
            if isinstance(found, Refusal):
                return Fit.NO_CANDIDATES, tree.level(queue.name, what, amount)[0]
            after = tree.fork(queue.name)
            for victim in found.victims:
                if victim.queue in after.queues:
                    after.free(victim.queue, victim.usage)
            level, _ = after.level(queue.name, what, amount)
            own = any(victim.queue == queue.name for victim in found.victims)
            return (Fit.PREEMPT if own else Fit.RECLAIM), level

        return preempts

    return of
