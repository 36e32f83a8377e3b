"""Seeds with suspended jobs, and their jobs: drawn from dice of their own, so that no other draw shifts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from extender.core.answers import JobWritten
from extender.core.effects import CleanJob, StartJob, SuspendJob
from extender.core.events import JobSeen
from extender.core.limits import Limits
from extender.simulation.chance import Chance
from policies.model import Dialect, GroupKey, GroupRef, Node, Pod, PodSet, Selection, Topology
from tests.builders import GPU, requests
from tests.simulation.job_faults import JOB_FAULTS, WORK_FAULTS
from tests.simulation.model.batch import BatchJob

JOB_MOMENTS = {
    "job start": StartJob,
    "job suspension": SuspendJob,
    "job cleaning": CleanJob,
    "job written": JobWritten,
    "job seen": JobSeen,
}
"""Moments of a job at which a fault hurts most."""

_AT_ANY_MOMENT = (
    "the extender is killed",
    "the extender is replaced at once",
    "the leader changes",
    "the extender is suspended",
    "a watch of the extender breaks",
    "a write hangs",
    "the API server is down",
    "answers are lost",
    "a node is cordoned",
    "a foreign pod is bound",
)


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The suspended jobs of a seed.

    ``jobs``: when each is created.
    ``faults``: the fault, its delay after a moment, the moment, and how many of these moments come first.
    ``started``: jobs that others started before there was an extender.
    ``pod_rate`` and ``polices``: as the world takes them.
    """

    jobs: tuple[tuple[float, BatchJob], ...] = ()
    faults: tuple[tuple[str, float, str, int], ...] = ()
    pod_rate: float = 20.0
    polices: bool = True
    started: tuple[BatchJob, ...] = ()


NONE = BatchPlan()


def has_jobs(seed: int) -> bool:
    """Three seeds in ten."""
    return seed % 10 in (0, 6, 8)


def takes_over(seed: int) -> bool:
    """True for one seed in thirty: half of those with jobs and queues, but none remembered for a planted bug."""
    return seed % 120 in (16, 28, 88, 106)


def cannot_be_read(seed: int) -> bool:
    """True for one seed in 35: some of those with suspended jobs and faults, but none remembered for a planted bug."""
    return seed % 130 in (30, 46, 68, 90, 126) and seed % 8 != 0


def has_work_queues(seed: int) -> bool:
    """True for one seed in 37: some of those with suspended jobs, but none remembered for a planted bug."""
    return seed % 110 in (28, 50, 106)


def has_more_completions(seed: int) -> bool:
    """True for one seed in 55: some of those with suspended jobs, but none remembered for a planted bug."""
    return seed % 110 in (36, 86)


def has_same_names(seed: int) -> bool:
    """True for one seed in 55: some of those with suspended jobs, but none remembered for a planted bug."""
    return seed % 110 in (38, 108)


def has_refusals(seed: int) -> bool:
    """True for one seed in 63: some of those with suspended jobs and faults, but none remembered for a planted bug."""
    return seed % 110 in (30, 90) and seed % 8 != 0


def draw_refusals(plan: BatchPlan, nodes: Sequence[Node], chance: Chance, seed: int) -> frozenset[tuple[str, str]]:
    """(gang, node): the node that kube-scheduler refuses to each job, for reasons that only kube-scheduler knows."""
    dice = chance.stream("nodes that are refused to jobs")
    refused = ((job.key.name, dice.choice(nodes).name) for _, job in plan.jobs)
    return frozenset(refused if has_refusals(seed) else ())


def varied(plan: BatchPlan, chance: Chance, seed: int) -> BatchPlan:
    """The same plan with the features that only some seeds have."""
    plan = _with_same_names(plan, chance) if has_same_names(seed) else plan
    plan = _with_work_queues(plan, chance) if has_work_queues(seed) else plan
    plan = _with_more_completions(plan, chance) if has_more_completions(seed) else plan
    return _with_many_pods(plan, chance) if awaits_many_pods(seed) else plan


def _with_work_queues(plan: BatchPlan, chance: Chance) -> BatchPlan:
    """The same, where most jobs of one podset have pods without an index that each have to succeed, or are all that
    are made once one has. They are stopped when some have."""
    dice, others = chance.stream("jobs that are work queues"), chance.stream("jobs that say no completions")
    jobs = tuple(
        (at, _as_work_queue(job, closes=others.random() < 0.5) if dice.random() < 0.8 else job) for at, job in plan.jobs
    )
    stops = tuple((next(iter(WORK_FAULTS)), 5 + 85 * dice.random(), "", 0) for _ in range(4 if plan.faults else 0))
    return replace(plan, jobs=jobs, faults=(*plan.faults, *stops))


def _as_work_queue(job: BatchJob, *, closes: bool) -> BatchJob:
    if len(job.podsets) > 1 or job.remakes:
        return job
    return replace(job, podsets=(replace(job.podsets[0], indexed=False),), by_pod=not closes, closes=closes)


def _with_same_names(plan: BatchPlan, chance: Chance) -> BatchPlan:
    """The same, where most jobs give their pods the same names in each start. The nodes of some are silent for long."""
    dice = chance.stream("jobs whose pods have the same names")
    jobs = tuple((at, replace(job, same_names=dice.random() < 0.8)) for at, job in plan.jobs)
    silences = tuple(
        ("a node of a job is silent", 5 + 85 * dice.random(), "", 0) for _ in range(2 if plan.faults else 0)
    )
    return replace(plan, jobs=jobs, faults=(*plan.faults, *silences))


def _with_more_completions(plan: BatchPlan, chance: Chance) -> BatchPlan:
    """The same, where most jobs of one podset have more completions than pods, which come one after the other."""
    dice = chance.stream("jobs with more completions than pods")
    return replace(plan, jobs=tuple((at, _one_after_another(job, dice)) for at, job in plan.jobs))


def _one_after_another(job: BatchJob, dice: Random) -> BatchJob:
    more, run_s = job.size + dice.randint(1, 2 * job.size), 2 + 10 * dice.random()
    if dice.random() < 0.2 or len(job.podsets) > 1 or job.remakes:
        return job
    podsets = (replace(job.podsets[0], indexed=False, completions=more),)
    return replace(job, podsets=podsets, by_pod=True, run_s=run_s)


def awaits_many_pods(seed: int) -> bool:
    """True for one seed in 110: some of those with suspended jobs, but none remembered for a planted bug."""
    return seed % 110 == 60


def _with_many_pods(plan: BatchPlan, chance: Chance) -> BatchPlan:
    """Beside the others, jobs without GPUs with more pods than are awaited at a time: some wait for them."""
    dice = chance.stream("jobs with more pods than are awaited")
    counts = [50, 50, 50, 50, *(dice.randint(2, 20) for _ in range(dice.randint(3, 5)))]
    more = (_without_gpus(f"many{number}", count) for number, count in enumerate(counts))
    return replace(plan, jobs=(*plan.jobs, *((2 * dice.random(), job) for job in more)), pod_rate=20.0)


def _without_gpus(name: str, count: int) -> BatchJob:
    key, uid = GroupKey("default", f"job-{name}"), f"{name}.1"
    template = Pod("", "default", name, requests(0), owner=uid, group=GroupRef(key.name, Dialect.ANNOTATION, count))
    return BatchJob(key, uid, (PodSet(template, count, count, indexed=True),), run_s=10.0)


def draw_unread(chance: Chance, seed: int) -> tuple[tuple[str, float], ...]:
    """The times at which no job can be read, if ever: mostly while the first of them are to be started."""
    if not cannot_be_read(seed):
        return ()
    dice = chance.stream("when no job can be read")
    return tuple(("no job can be read", at * dice.random()) for at in dice.choice(((2.0,), (2.0, 60.0), (30.0, 90.0))))


def draw_started(nodes: Sequence[Node], chance: Chance) -> tuple[BatchJob, ...]:
    """A job that another scheduler has started, and that runs when Muster comes. Its pods name no gang."""
    dice = chance.stream("a job that others have started")
    gpus, at = dice.choice((4, 2, 1)), dice.randrange(len(nodes))
    count = dice.randint(1, max(1, dict(nodes[at].allocatable).get(GPU, 0) // gpus))
    group = GroupRef("job-older", Dialect.ANNOTATION, count)
    template = Pod("", "default", "older", requests(gpus), owner="older.1", group=group)
    run_s = dice.choice((float("inf"), 5 + 55 * dice.random()))
    older = BatchJob(
        GroupKey("default", "job-older"),
        "older.1",
        (PodSet(template, count, count, indexed=True),),
        suspended=False,
        began=True,
        ran=True,
        active=count,
        run_s=run_s,
        queue=f"team{dice.randrange(3)}",
        elsewhere={"": (nodes[at].name,) * count},
    )
    return (older,)


def draw_batch(chance: Chance, *, calm: bool, tolerations: Selection) -> BatchPlan:
    dice, when = chance.stream("suspended jobs"), chance.stream("when for suspended jobs")
    apart = chance.stream("jobs whose pods have work of their own")
    jobs = [
        (dice.choice((0.0, 0.0, 40 * dice.random())), _job(dice, f"batch{number}", tolerations, calm=calm))
        for number in range(dice.randint(1, 4))
    ]
    jobs = [(at, replace(job, by_pod=_has_work_of_its_own(job, apart))) for at, job in jobs]
    faults = [_fault(when) for _ in range(0 if calm else when.choice((1, 2, 4, 8)))]
    rate = dice.choice((5.0, 20.0, 20.0, 100.0))
    return BatchPlan(tuple(jobs), tuple(faults), rate, calm or dice.random() < 0.7)


def limits_of(limits: Limits, chance: Chance, seed: int) -> Limits:
    """Limits that are shorter than by default, so that their ends fall into the time of a run."""
    dice = chance.stream("limits of suspended jobs")
    limits = replace(limits, node_loss_s=dice.choice((5.0, 20.0, 60.0)), creation_s=dice.choice((8.0, 30.0)))
    return replace(limits, creation_s=8.0) if awaits_many_pods(seed) else limits


def _job(random: Random, name: str, tolerations: Selection, *, calm: bool) -> BatchJob:
    count = random.choice((1, 2, 3, 4, random.randint(1, 8), random.randint(8, 40)))
    gpus = random.choice((8, 8, 4, 2, 1)) if count <= 8 else random.choice((0, 1))
    elastic = random.random() < 0.15
    topology = random.choice((Topology(),) * 3 + (Topology(required="clique"), Topology(preferred="clique")))
    key, uid = GroupKey("default", f"job-{name}"), f"{name}.1"
    least = max(1, count // 2) if elastic else count
    template = Pod(
        "",
        "default",
        name,
        requests(gpus),
        priority=random.choice((0, 0, 0, 10)),
        owner=uid,
        topology=topology,
        selection=tolerations if random.random() < 0.3 else Selection(),
    )
    podsets = [PodSet(template, count, least, indexed=random.random() < 0.7)]
    if random.random() < 0.2:
        second = replace(template, series="role1", requests=requests(0, cpu=random.choice((1, 8))))
        podsets.append(PodSet(second, 1, 1, indexed=random.random() < 0.5, wave=random.choice((0, 1))))
    first_wave = sum(podset.minimum for podset in podsets if podset.wave == 0)
    group = GroupRef(key.name, Dialect.ANNOTATION, first_wave)
    return BatchJob(
        key,
        uid,
        tuple(replace(podset, template=replace(podset.template, group=group)) for podset in podsets),
        pins=random.random() < 0.3,
        remakes=random.random() < 0.2,
        held=random.random() < 0.05,
        backoff_limit=random.choice((0, 1, 6, 100, 100)),
        run_s=random.choice((float("inf"), 5 + 55 * random.random())),
        ttl_s=random.choice((0.0, 20.0, float("inf"))),
    )


def _has_work_of_its_own(job: BatchJob, random: Random) -> bool:
    """Whether each index of the job has to succeed."""
    return random.random() < 0.4 and not job.remakes and all(podset.indexed for podset in job.podsets)


def _fault(random: Random) -> tuple[str, float, str, int]:
    what = random.choice(list(JOB_FAULTS) * 2 + list(_AT_ANY_MOMENT))
    if random.random() < 0.3:
        return what, 90 * random.random(), "", 0
    delay_s = random.choice((0.0, 0.0005, 0.003, 0.05, 1.0, 5.0)) * random.random()
    return what, delay_s, random.choice(list(JOB_MOMENTS)), 1 + int(8 * random.random() ** 2)
