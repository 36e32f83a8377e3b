"""Small worlds with queues at random: the running and waiting workloads, and the nodes of the flavors."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

from policies.model import Node, Pod, Selection, Stamp
from policies.model.node import ANY_NODE, Taint, Toleration
from policies.model.queues import (
    ClusterQueue,
    Cohort,
    Evicts,
    Fungibility,
    Preemption,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    Search,
    Strategy,
    Usage,
)
from policies.quota.parts import PodSetRequest
from policies.quota.tree import QuotaTree
from tests.builders import GPU, gang, node, requests
from tests.core.queues import FLAVOR
from tests.policies.quota.worlds import WEIGHTS

NOW = 1000.0
_TAINT = Taint("tainted", "yes", "NoSchedule")
_TOLERATES = Toleration("tainted", "Exists", "", "")


@dataclass(frozen=True)
class Gang:
    """``sizes``: the GPUs of its pods. ``flavor``: where it runs, since ``at``; empty if it waits."""

    name: str
    queue: str
    sizes: tuple[int, ...]
    priority: int
    created: float
    selection: Selection = ANY_NODE
    flavor: str = ""
    at: float = 0.0

    def pods(self) -> list[Pod]:
        members = gang(self.name, len(self.sizes), priority=self.priority, created=self.created, queue=self.queue)
        members = [
            replace(pod, requests=requests(gpus, 0), selection=self.selection)
            for pod, gpus in zip(members, self.sizes, strict=True)
        ]
        if not self.flavor:
            return members
        count = len(members)
        stamp = Stamp(self.name, "first", complete=True, quorum=count, size=count, at=self.at, name=self.name)
        return [replace(pod, node=self.flavor, stamp=stamp) for pod in members]

    @property
    def usage(self) -> Usage:
        return {(self.flavor, GPU): sum(self.sizes)}

    def podsets(self) -> list[PodSetRequest]:
        """Pods of one shape get their flavors together."""
        shapes = dict.fromkeys(self.sizes)
        return [
            PodSetRequest(str(at), self.sizes.count(gpus), {GPU: gpus}, self.selection)
            for at, gpus in enumerate(shapes)
        ]


@dataclass(frozen=True)
class Case:
    """A world. ``without``: flavors that have no nodes."""

    flavors: list[ResourceFlavor]
    queues: list[ClusterQueue]
    cohorts: list[Cohort]
    running: list[Gang]
    waiting: list[Gang]
    fair: bool
    preempts: bool
    without: frozenset[str] = field(default=frozenset())


def case(seed: int) -> Case:
    chance = Random(seed)  # noqa: S311 - it is a test
    names = ["fast", "slow", "spot"][: chance.randint(1, 3)]
    tainted = [chance.random() < 0.2 for _ in names]
    flavors = [
        ResourceFlavor(name, {FLAVOR: name}, (_TAINT,) if taint else ())
        for name, taint in zip(names, tainted, strict=True)
    ]
    above = [f"c{at}" for at in range(chance.randrange(4))]
    cohorts = [
        Cohort(
            name,
            chance.choice(["", *above[:at]]),
            _groups(chance, names) if chance.random() < 0.3 else (),
            chance.choice(WEIGHTS),
        )
        for at, name in enumerate(above)
    ]
    queues = [_queue(chance, f"q{at}", names, above) for at in range(chance.randint(1, 5))]
    running: list[Gang] = []
    tree = QuotaTree(queues, cohorts)
    for at in range(chance.choice((3, 10, 20, 30))):
        gang = replace(
            waiting_gang(chance, f"r{at}", queues), flavor=chance.choice(names), at=float(chance.randrange(int(NOW)))
        )
        gang = replace(gang, selection=Selection(tolerations=(_TOLERATES,)))
        if has(tree, gang) and not tree.lacks(gang.queue, gang.usage):
            tree.use(gang.queue, gang.usage)
            running.append(gang)
    waiting = [waiting_gang(chance, f"w{at}", queues) for at in range(chance.randint(1, 6))]
    used = {gang.flavor for gang in running}
    without = frozenset(name for name in names if chance.random() < 0.2 and name not in used)
    return Case(flavors, queues, cohorts, running, waiting, chance.random() < 0.4, chance.random() < 0.8, without)


def has(tree: QuotaTree, gang: Gang) -> bool:
    return all(what in tree.queues[gang.queue].quotas for what in gang.usage)


def _queue(chance: Random, name: str, names: list[str], above: list[str]) -> ClusterQueue:
    chosen = chance.sample(names, chance.randint(1, len(names)))
    low = chance.choice
    fungibility = Fungibility(low([*Search]))
    return ClusterQueue(
        name,
        _groups(chance, chosen),
        low(["", *above * 3]),
        low((Strategy.BEST_EFFORT, Strategy.STRICT)),
        fungibility,
        low(WEIGHTS),
        (),
        preemption=Preemption(
            low([Evicts.NEVER, Evicts.LOWER, Evicts.LOWER, Evicts.LOWER_OR_NEWER]),
            low([Evicts.NEVER, Evicts.LOWER, Evicts.ANY, Evicts.ANY]),
            low([Evicts.NEVER, Evicts.NEVER, Evicts.LOWER]),
            low([None, 1]),
        ),
    )


def _groups(chance: Random, names: list[str]) -> tuple[ResourceGroup, ...]:
    limits = [None, None, 0, *range(8)]
    quotas = {name: Quota(chance.randrange(9), chance.choice(limits), chance.choice(limits)) for name in names}
    return (ResourceGroup((GPU,), tuple((name, {GPU: quota}) for name, quota in quotas.items())),)


def waiting_gang(chance: Random, name: str, queues: list[ClusterQueue]) -> Gang:
    sizes = (chance.randint(1, 4),) * chance.randint(1, 3)
    if chance.random() < 0.2:
        sizes += (chance.randint(1, 4),)
    asks = tuple((FLAVOR, flavor) for flavor in [chance.choice(("fast", "slow"))] if chance.random() < 0.15)
    tolerates = (_TOLERATES,) if chance.random() < 0.6 else ()
    return Gang(
        name,
        chance.choice(queues).name,
        sizes,
        chance.randrange(3),
        float(chance.randrange(900)),
        Selection(asks, tolerations=tolerates),
    )


def nodes(case: Case) -> list[Node]:
    """A node for each flavor, large enough for all workloads."""
    return [
        node(flavor.name, 10_000, labels={FLAVOR: flavor.name}, taints=flavor.taints)
        for flavor in case.flavors
        if flavor.name not in case.without
    ]
