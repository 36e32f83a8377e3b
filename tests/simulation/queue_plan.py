"""Seeds with queues, and their draws: by dice of their own, so that no other draw shifts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from random import Random

from extender.simulation.chance import Chance
from policies.model import Node, Taint, Toleration
from policies.model.queues import (
    ClusterQueue,
    Cohort,
    Evicts,
    LocalQueue,
    Preemption,
    QueueObject,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    Stop,
    Strategy,
)
from policies.order import Drf, FairSharing, Proportion
from policies.quota.history import NO_HISTORY, Sampling
from policies.quota.shares import QueueOrder
from tests.builders import GPU

FLAVOR = "flavor"
"""The label of a node that says of which flavor it is: no node is of two."""
MADE = "made"
"""The flavor whose nodes are made on demand, and the clique that all of these are in."""
MADE_TAINT = Taint(MADE, "", "NoSchedule")
"""The taint of its nodes, where they have one, and the toleration for it."""
MADE_TOLERATION = Toleration(MADE, "Equal", "", "NoSchedule")


@dataclass(frozen=True, slots=True)
class QueuePlan:
    """The queues of a seed.

    ``things``: the objects at the beginning.
    ``changes``: when an object is made, changed, or deleted.
    ``between``: the policy of the order between queues; None for the one without shares.
    ``past``: how past usage is counted.
    """

    things: tuple[QueueObject, ...] = ()
    changes: tuple[tuple[float, QueueObject, bool], ...] = ()
    between: QueueOrder | None = None
    past: Sampling = NO_HISTORY

    @property
    def exact(self) -> bool:
        """Whether no object changes."""
        return not self.changes


NONE = QueuePlan()


def has_queues(seed: int) -> bool:
    """True for one seed in five, but none remembered for a planted bug."""
    return seed % 30 in (14, 16, 23, 24, 27, 28)


def flavored(nodes: tuple[Node, ...], chance: Chance) -> tuple[Node, ...]:
    """Most nodes are of one flavor, and in some seeds one or two are of none."""
    dice = chance.stream("flavors of nodes")
    names = ("fast", "slow") if dice.random() < 0.6 else ("fast",)
    return tuple(
        node if dice.random() < 0.05 else replace(node, labels={**node.labels, FLAVOR: dice.choice(names)})
        for node in nodes
    )


def ruled(plan: QueuePlan, chance: Chance) -> QueuePlan:
    """The same queues, with rules on which workloads theirs may evict."""
    dice = chance.stream("whom queues let evict")

    def with_rules(thing: QueueObject) -> QueueObject:
        return replace(thing, preemption=rules[thing.name]) if isinstance(thing, ClusterQueue) else thing

    rules = {thing.name: _rules(dice) for thing in plan.things if isinstance(thing, ClusterQueue)}
    changes = tuple((at, with_rules(thing), gone) for at, thing, gone in plan.changes)
    return replace(plan, things=tuple(map(with_rules, plan.things)), changes=changes)


def _rules(dice: Random) -> Preemption:
    within = dice.choice((Evicts.NEVER, Evicts.LOWER, Evicts.LOWER_OR_NEWER))
    reclaim = dice.choice((Evicts.NEVER, Evicts.LOWER, Evicts.ANY, Evicts.ANY))
    borrow = Evicts.NEVER if reclaim is Evicts.NEVER else dice.choice((Evicts.NEVER, Evicts.LOWER))
    return Preemption(within, reclaim, borrow, dice.choice((None, 5)))


def queue_name(dice: Random) -> str:
    """The queue of a workload; some name none, and few one that does not exist."""
    return dice.choice(("team0", "team0", "team1", "team1", "team2", "team2", "", "nowhere"))


def draw_queues(nodes: tuple[Node, ...], chance: Chance, *, calm: bool) -> QueuePlan:
    dice = chance.stream("queues")
    names = sorted({node.labels[FLAVOR] for node in nodes if FLAVOR in node.labels}) or ["fast"]
    total = {
        name: sum(dict(node.allocatable).get(GPU, 0) for node in nodes if node.labels.get(FLAVOR) == name)
        for name in names
    }
    flavors = [ResourceFlavor(name, {FLAVOR: name}) for name in names]
    queues = [_queue(dice, f"team{number}", total) for number in range(3)]
    cohorts = [Cohort("all", groups=_groups(dice, total, Quota(0)))] if dice.random() < 0.3 else []
    locals_ = [LocalQueue("default", queue.name, queue.name) for queue in queues]
    queues, locals_, past = _by_past_usage(queues, locals_, chance.stream("past usage"))
    things: list[QueueObject] = [*flavors, *cohorts, *queues, *locals_]
    changes = [_change(dice, things, total) for _ in range(0 if calm else dice.choice((0, 0, 1, 3)))]
    between = chance.stream("order between queues").choice((None, FairSharing(), Drf(), Proportion()))
    return QueuePlan(tuple(things), tuple(sorted(changes, key=lambda change: change[0])), between, past)


def tainted(plan: QueuePlan, *, tolerates: bool) -> QueuePlan:
    """The same queues, where made nodes have a taint. ``tolerates``: whether their flavor states the toleration."""

    def with_taint(thing: QueueObject) -> QueueObject:
        if not (isinstance(thing, ResourceFlavor) and thing.name == MADE):
            return thing
        return replace(thing, taints=(MADE_TAINT,), tolerations=(MADE_TOLERATION,) if tolerates else ())

    changes = tuple((at, with_taint(thing), gone) for at, thing, gone in plan.changes)
    return replace(plan, things=tuple(map(with_taint, plan.things)), changes=changes)


def contested(plan: QueuePlan) -> QueuePlan:
    """The same queues, in one cohort, each with a little quota of its own, and all reclaiming from each other."""

    def little(group: ResourceGroup) -> ResourceGroup:
        quotas = ((name, {GPU: Quota(by_resource[GPU].nominal // 4)}) for name, by_resource in group.flavors)
        return replace(group, flavors=tuple(quotas))

    def altered(thing: QueueObject) -> QueueObject:
        if not isinstance(thing, ClusterQueue):
            return thing
        rules = replace(thing.preemption, reclaim=Evicts.ANY, borrow=Evicts.LOWER)
        return replace(thing, cohort="all", groups=tuple(map(little, thing.groups)), preemption=rules)

    changes = tuple((at, altered(thing), gone) for at, thing, gone in plan.changes)
    return replace(plan, things=tuple(map(altered, plan.things)), changes=changes)


def _by_past_usage(
    queues: list[ClusterQueue], locals_: list[LocalQueue], dice: Random
) -> tuple[list[ClusterQueue], list[LocalQueue], Sampling]:
    """The queues of which, in half of the seeds, two LocalQueues share a ClusterQueue that orders by past usage."""
    if dice.random() < 0.5:
        return queues, locals_, NO_HISTORY
    shared = queues[0].name
    locals_ = [replace(local, queue=shared) if local.name == queues[1].name else local for local in locals_]
    locals_ = [replace(local, weight=Fraction(dice.choice(("1", "1", "3", "1/2", "0")))) for local in locals_]
    sampling = Sampling(dice.choice((20.0, 200.0, 3600.0)), dice.choice((5.0, 30.0)))
    return [replace(queue, by_past_usage=True) for queue in queues], locals_, sampling


def _queue(dice: Random, name: str, total: dict[str, int]) -> ClusterQueue:
    strategy = dice.choice((Strategy.BEST_EFFORT, Strategy.BEST_EFFORT, Strategy.STRICT))
    return ClusterQueue(name, _groups(dice, total, None), dice.choice(("all", "all", "")), strategy, namespaces=())


def _groups(dice: Random, total: dict[str, int], default: Quota | None) -> tuple[ResourceGroup, ...]:
    order = sorted(total, key=lambda _: dice.random())
    quotas = {name: _quota(dice, total[name], default) for name in order}
    covered = (GPU, "cpu", "memory")
    return (ResourceGroup(covered, tuple((name, {GPU: quotas[name]}) for name in order)),)


def _quota(dice: Random, most: int, default: Quota | None) -> Quota:
    nominal = dice.choice((0, most // 4, most // 2, most // 2, most))
    if default is not None:
        return Quota(nominal // 2)
    limit = dice.choice((None, None, most // 4, 0))
    return Quota(nominal, borrowing=limit, lending=dice.choice((None, None, nominal // 2, 0)))


def _change(dice: Random, things: list[QueueObject], total: dict[str, int]) -> tuple[float, QueueObject, bool]:
    """A queue has other quotas or is stopped; something is deleted, and may be made again."""
    at, thing = 90 * dice.random(), dice.choice(things)
    if isinstance(thing, ClusterQueue) and dice.random() < 0.7:
        stop = dice.choice((Stop.NONE, Stop.NONE, Stop.HOLD))
        return at, replace(thing, groups=_groups(dice, total, None), stop=stop), False
    return at, thing, dice.random() < 0.6
