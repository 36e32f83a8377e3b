"""Seeds whose nodes are made on demand, and their draws: by dice of their own, so that no other draw shifts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from extender.core.limits import Elasticity, Limits
from extender.simulation.chance import Chance
from policies.model import GANG_GATE, Dialect, GroupKey, GroupRef, Node, Pod, PodSet, Selection
from tests.builders import node, requests
from tests.simulation.batch_plan import BatchPlan
from tests.simulation.checkpoints import has_checkpoints
from tests.simulation.model.autoscaler import Pool, Whim
from tests.simulation.model.batch import BatchJob
from tests.simulation.model.job_specs import JobSpec
from tests.simulation.model.owner import OwnerObject
from tests.simulation.queue_plan import FLAVOR, MADE, MADE_TAINT, MADE_TOLERATION, queue_name
from tests.simulation.relation_plan import ZONE

_WHIMS = (
    (Whim.WHOLE,),
    (Whim.WHOLE, Whim.PART),
    (Whim.WHOLE, Whim.LATE),
    (Whim.WHOLE, Whim.NEVER),
    (Whim.PART, Whim.LATE, Whim.NEVER),
)
_WHILE_AWAITING = (
    "the extender is killed",
    "the extender is replaced at once",
    "the leader changes",
    "no pod of a job can be created",
)


@dataclass(frozen=True, slots=True)
class ElasticPlan:
    """The made nodes of a seed.

    ``coming``: nodes that there may be one day, for which quotas are drawn.
    ``jobs``: jobs beside those of the seed.
    ``faults``: the fault, its delay after a moment, the moment, and how many of these moments come first.
    ``tolerates``: where made nodes have a taint, whether their flavor states the toleration; else pods have to.
    ``served``: when ProvisioningRequests are removed from the cluster, and when they are installed again.
    """

    pool: Pool
    within_s: float
    coming: tuple[Node, ...]
    jobs: tuple[tuple[float, BatchJob], ...]
    faults: tuple[tuple[str, float, str, int], ...]
    tolerates: bool = False
    served: tuple[tuple[float, bool], ...] = ()

    @property
    def tainted(self) -> bool:
        return bool(self.pool.node.taints)


def has_elastic(seed: int) -> bool:
    """True for one seed in forty, of those with queues."""
    return seed % 120 in (74, 88, 118) and not has_checkpoints(seed)


def has_taints(seed: int) -> bool:
    """True for one seed in four of these."""
    return has_elastic(seed) and seed // 120 % 4 == 3


def has_owned(seed: int) -> bool:
    """True for one seed in eight of these: owners of gangs need such nodes, too."""
    return has_elastic(seed) and seed // 120 % 8 == 4


def has_requests(seed: int) -> bool:
    """True for one seed in eight of these: jobs request nodes by ProvisioningRequests."""
    return has_elastic(seed) and seed // 120 % 8 == 5


def with_another_way(plan: ElasticPlan, chance: Chance) -> ElasticPlan:
    """The same, where for some time ProvisioningRequests are not served, in half of the seeds."""
    dice = chance.stream("when nodes cannot be asked for")
    gone, lasts = 60 * dice.random(), dice.choice((0.5, 5.0, 35.0))
    return replace(plan, served=((gone, False), (gone + lasts, True)) if dice.random() < 0.5 else ())


def has_later(seed: int) -> bool:
    """True for one seed in four of these: some pods of jobs are made when others run."""
    return has_elastic(seed) and seed // 120 % 8 in (3, 4)


def with_later(plan: ElasticPlan, chance: Chance) -> ElasticPlan:
    """The same, where half of the jobs that need such nodes have a pod that needs none, and comes when others run."""
    dice = chance.stream("who comes when others run")
    return replace(plan, jobs=tuple((at, _leading(job) if dice.random() < 0.5 else job) for at, job in plan.jobs))


def _leading(job: BatchJob) -> BatchJob:
    template = replace(job.podsets[0].template, series="later", requests=requests(0))
    return replace(job, podsets=(*job.podsets, PodSet(template, 1, 1, indexed=False, wave=1)))


def with_taints(plan: ElasticPlan, chance: Chance) -> ElasticPlan:
    """The same, where nodes that are made have a taint. Some of the jobs that need them tolerate it themselves."""
    dice = chance.stream("taints of nodes that are made")
    pool = replace(plan.pool, node=replace(plan.pool.node, taints=(MADE_TAINT,)))
    coming = tuple(replace(node, taints=(MADE_TAINT,)) for node in plan.coming)
    jobs = tuple((at, _tolerant(job) if dice.random() < 0.5 else job) for at, job in plan.jobs)
    return replace(plan, pool=pool, coming=coming, jobs=jobs, tolerates=dice.random() < 0.6)


def zoned(plan: ElasticPlan, chance: Chance) -> ElasticPlan:
    """The same, where others have zones: nodes that are made are in one of them, or in none."""
    zone = chance.stream("zone of nodes that are made").choice(("z0", "z1", ""))
    labels = {**plan.pool.node.labels, **({ZONE: zone} if zone else {})}
    return replace(plan, pool=replace(plan.pool, node=replace(plan.pool.node, labels=labels)))


def _tolerant(job: BatchJob) -> BatchJob:
    own = Selection(tolerations=(MADE_TOLERATION,))
    podsets = (replace(podset, template=replace(podset.template, selection=own)) for podset in job.podsets)
    return replace(job, podsets=tuple(podsets))


def crowded(plan: ElasticPlan, chance: Chance, *, calm: bool) -> ElasticPlan:
    """The same with more jobs that need such nodes, so that some are evicted for others that await theirs."""
    dice = chance.stream("who else needs nodes that are made")
    more = tuple((40 * dice.random(), _job(dice, f"more{at}")) for at in range(dice.choice((2, 3, 4))))
    whims = plan.pool.whims if calm else dice.choice(_WHIMS[1:])
    pool = replace(plan.pool, whims=whims, most=dice.choice((2, 4, 6)))
    return replace(plan, pool=pool, jobs=(*plan.jobs, *more))


def draw_elastic(chance: Chance, *, calm: bool) -> ElasticPlan:
    dice = chance.stream("nodes that are made")
    made = node(MADE, 8, clique=MADE, labels={FLAVOR: MADE})
    within_s = dice.choice((15.0, 25.0, 40.0))
    pool = Pool(
        made,
        dice.choice(_WHIMS[:1] if calm else _WHIMS),
        delay_s=dice.choice((2.0, 6.0)),
        late_s=within_s + dice.choice((0.0, 5.0)),
        idle_s=dice.choice((4.0, 20.0)),
        most=dice.choice((4, 8, 16)),
    )
    coming = tuple(replace(made, name=f"coming{at}") for at in range(dice.choice((4, 8))))
    jobs = tuple((dice.choice((0.0, 40 * dice.random())), _job(dice, f"needy{at}")) for at in range(dice.randint(1, 3)))
    faults = tuple(_fault(dice) for _ in range(0 if calm else dice.choice((1, 2, 4))))
    return ElasticPlan(pool, within_s, coming, jobs, faults)


def with_elastic(limits: Limits, plan: ElasticPlan) -> Limits:
    """The limits for this plan. The referee judges settled jobs on the assumption that all gangs are looked at."""
    return replace(limits, elastic=Elasticity(frozenset((MADE,)), plan.within_s), waiting=20_000)


def needing(
    jobs: Sequence[tuple[float, JobSpec]], chance: Chance, *, tainted: bool
) -> tuple[tuple[float, JobSpec], ...]:
    """Half of the gangs say that they need nodes that are made. ``tainted``: most of these tolerate the taint."""
    dice, others = chance.stream("who needs nodes that are made"), chance.stream("who tolerates their taint")
    return tuple(
        (
            at,
            _wanting(job, tolerant=tainted and others.random() < 0.7)
            if job.min_member and dice.random() < 0.5
            else job,
        )
        for at, job in jobs
    )


def owned(
    owners: Sequence[tuple[float, OwnerObject]], chance: Chance, *, tainted: bool
) -> tuple[tuple[float, OwnerObject], ...]:
    """Most of these owners are in a queue, and half of them need nodes that are made."""
    dice = chance.stream("which owners need nodes that are made")
    made_owners = []
    for at, owner in owners:
        name, needs, tolerant = queue_name(dice), dice.random() < 0.5, tainted and dice.random() < 0.7

        def made(pod: Pod, queue: str = name, needs: bool = needs, tolerant: bool = tolerant) -> Pod:
            more = (MADE_TOLERATION,) if tolerant else ()
            selection = Selection(((FLAVOR, MADE),), tolerations=more) if needs else pod.selection
            gates = (GANG_GATE,) if needs else pod.gates
            return replace(pod, queue=queue, selection=selection, gates=gates)

        leader = None if owner.leader is None else made(owner.leader)
        made_owners.append((at, replace(owner, template=made(owner.template), leader=leader)))
    return tuple(made_owners)


def beside(batch: BatchPlan, plan: ElasticPlan) -> BatchPlan:
    return replace(batch, jobs=(*batch.jobs, *plan.jobs), faults=(*batch.faults, *plan.faults))


def _wanting(job: JobSpec, *, tolerant: bool) -> JobSpec:
    wanted, more = ((FLAVOR, MADE),), (MADE_TOLERATION,) if tolerant else ()

    def on_made(selection: Selection) -> Selection:
        return replace(selection, node_selector=wanted, tolerations=(*selection.tolerations, *more))

    roles = tuple(replace(role, selection=on_made(role.selection)) for role in job.roles)
    return replace(job, roles=roles, gates=tuple(dict.fromkeys((*job.gates, GANG_GATE))))


def _fault(dice: Random) -> tuple[str, float, str, int]:
    """A fault that strikes while nodes or pods are awaited."""
    delay_s = dice.choice((0.0, 0.05, 3.0, 15.0)) * dice.random()
    return dice.choice(_WHILE_AWAITING), delay_s, "job start", 1 + int(8 * dice.random() ** 2)


def _job(dice: Random, name: str) -> BatchJob:
    """A job that is small enough for most quotas, and too large for what is left of most clusters."""
    count = dice.choice((1, 2, 2, 3, 4, 6))
    key, uid = GroupKey("default", f"job-{name}"), f"{name}.1"
    least = count if dice.random() < 0.8 else max(1, count // 2)
    group = GroupRef(key.name, Dialect.ANNOTATION, least)
    template = Pod("", "default", name, requests(8), priority=dice.choice((0, 0, 10)), owner=uid, group=group)
    return BatchJob(
        key,
        uid,
        (PodSet(template, count, least, indexed=dice.random() < 0.8),),
        pins=dice.random() < 0.3,
        backoff_limit=dice.choice((6, 100)),
        run_s=dice.choice((float("inf"), 5 + 55 * dice.random())),
        ttl_s=dice.choice((20.0, float("inf"))),
    )
