"""The plan of each seed, by chance."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from extender.core.gate.steering import SteeringMode
from extender.core.limits import NOT_ELASTIC, Limits, Preempts
from extender.simulation.chance import Chance
from policies.model import Selection
from policies.order import FairSharing
from tests.simulation.backfill_plan import draw_backfill, has_backfill, is_steady, reserving
from tests.simulation.batch_plan import NONE as NO_BATCH
from tests.simulation.batch_plan import (
    draw_batch,
    draw_refusals,
    draw_started,
    draw_unread,
    has_jobs,
    limits_of,
    takes_over,
    varied,
)
from tests.simulation.checkpoints import alike, draw_saves, has_checkpoints, in_devices
from tests.simulation.claim_plan import draw_claims, has_claims
from tests.simulation.cluster_plan import TOLERATIONS, draw_nodes, draw_submitted
from tests.simulation.device_plan import has_devices, registrations, with_devices
from tests.simulation.elastic_plan import (
    ElasticPlan,
    crowded,
    draw_elastic,
    has_elastic,
    has_later,
    has_owned,
    has_requests,
    has_taints,
    needing,
    owned,
    with_another_way,
    with_elastic,
    with_later,
    with_taints,
    zoned,
)
from tests.simulation.elastic_plan import beside as beside_needy
from tests.simulation.fault_plan import Fault, draw_fault, draw_refused_writes, draw_sharp_fault, draw_weather
from tests.simulation.faults import FAULTS
from tests.simulation.model.cycle import Profile
from tests.simulation.owner_plan import draw_owners, has_owners
from tests.simulation.plan import Plan
from tests.simulation.platform_plan import Drawn, has_platforms, on_platforms
from tests.simulation.preemption_plan import budgeted, has_preemption, ranked, saturated, termed, with_preemption
from tests.simulation.process_plan import ahead, draw_failures, draw_slices, has_failures, is_sliced, is_slow, slow
from tests.simulation.queue_plan import (
    contested,
    draw_queues,
    flavored,
    has_queues,
    queue_name,
    ruled,
    tainted,
)
from tests.simulation.relation_plan import Submitted, has_relations, relate, strikes, takes_many_rounds
from tests.simulation.role_plan import cast, has_roles
from tests.simulation.storage_plan import draw_storage, has_storage
from tests.simulation.unlike_plan import has_unlike_pods, in_sizes, tries_pods, with_unlike_pods
from tests.simulation.uptake_plan import has_uptake, hold_back
from tests.simulation.volcano_plan import draw_volcano, has_volcano, of_one_flavor, volcano_name


def draw(seed: int) -> Plan:
    """The plan of this seed. One seed in eight is calm: nothing goes wrong, and gangs must start without delay.

    One seed in five is rough: it has the faults that hurt most, and settings that are not the default. A few of those
    are wide: clusters of up to 200 nodes.
    """
    chance = Chance(seed)
    shape, edge = chance.stream("shape"), chance.stream("edge")
    calm, large, rough, wide = seed % 8 == 0, seed % 16 == 1, seed % 5 == 4, seed % 40 == 39
    nodes = draw_nodes(chance.stream("nodes"), edge.randint(40, 200) if wide else 16 if large else 0)
    nodes = with_devices(nodes, chance) if has_devices(seed) else nodes
    jobs = draw_submitted(chance.stream("submissions"), large=large or wide, series=rough)
    count = 0 if calm else shape.choice((1, 3, 6, 12))
    dice = chance.stream("when")
    # A gang has to reach bind while its first members are held, whatever backoff a member is in.
    bind_timeout_s, longest_backoff_s = shape.choice(((8.0, 3.0), (30.0, 10.0)))
    bars = not (calm or shape.random() < 0.8 or wide)
    barred = [(f"job{shape.randrange(4)}", node.name) for node in nodes[:2]] if bars else []
    faults = [draw_fault(dice) for _ in range(count)]
    times = 3 if seed % 10 == 7 and not calm else 0
    crashes = [Fault("all pods of a node fail", 10 + 80 * edge.random()) for _ in range(times)]
    sharp = [draw_sharp_fault(edge) for _ in range(edge.choice((1, 2, 4)) if rough and not calm else 0)]
    failures = [Fault(*failure) for failure in draw_failures(chance)] if has_failures(seed) else []
    late = [Fault(*registration) for registration in registrations(chance)] if has_devices(seed) and not calm else []
    evicts, waiting = (edge.random() < 0.5, edge.choice((2, 20_000, 20_000))) if rough else (True, 20_000)
    plan = Plan(
        seed=seed,
        nodes=nodes,
        jobs=jobs,
        faults=(*faults, *sharp, *crashes, *late, *failures, *draw_refused_writes(chance, seed)),
        weather=draw_weather(shape, calm=calm),
        profile=Profile(
            score_all=shape.random() < 0.8,
            cycle_s=0.001 if calm else shape.choice((0.001, 0.02 if large or wide else 0.1)),
            bind_timeout_s=bind_timeout_s,
            longest_backoff_s=longest_backoff_s,
        ),
        limits=Limits(
            partial_s=shape.choice((10.0, 60.0)),
            evict_partial=evicts,
            replacement_s=20.0 if is_late(seed) else 10.0,
            waiting=waiting,
            pods_preempt_gangs=False,
        ),
        steering=_steering(seed, shape),
        barred=frozenset(barred),
        writes_at_once=64 if calm else chance.stream("writes").choice((64, 64, 64, 4, 1)),
        late_s=15.0 if is_late(seed) else 0.0,
    )
    plan = replace(plan, faults=(*plan.faults, *_losses(chance))) if is_late(seed) else plan
    plan = replace(plan, slices=draw_slices(chance)) if is_sliced(seed) else plan
    elastic = draw_elastic(chance, calm=calm) if has_elastic(seed) else None
    elastic = with_taints(elastic, chance) if elastic is not None and has_taints(seed) else elastic
    elastic = crowded(elastic, chance, calm=calm) if elastic is not None and has_preemption(seed) else elastic
    changes = has_requests(seed) and not calm
    elastic = with_another_way(elastic, chance) if elastic is not None and changes else elastic
    elastic = with_later(elastic, chance) if elastic is not None and has_later(seed) else elastic
    plan = replace(plan, asks=has_requests(seed))
    plan = _with_jobs(plan, chance, elastic) if has_jobs(seed) or elastic is not None else plan
    plan = _with_relations(plan, chance) if has_relations(seed) else plan
    plan = _with_owners(plan, chance) if has_owners(seed) or has_owned(seed) else plan
    plan = replace(plan, jobs=cast(plan.jobs, chance)) if has_roles(seed) else plan
    plan = replace(plan, jobs=hold_back(plan.jobs, chance)) if has_uptake(seed) else plan
    plan = _with_preemption(plan, chance) if has_preemption(seed) else plan
    plan = _with_checkpoints(plan, chance) if has_checkpoints(seed) else plan
    plan = _with_volcano(plan, chance) if has_volcano(seed) else plan
    plan = _slowed(plan, chance) if is_slow(seed) else plan
    plan = _with_unlike_pods(plan, chance) if has_unlike_pods(seed) else plan
    plan = _with_queues(plan, chance) if has_queues(seed) and not has_owners(seed) else plan
    plan = _with_storage(plan, chance) if has_storage(seed) else plan
    plan = _with_platforms(plan, chance) if has_platforms(seed) else plan
    plan = _with_claims(plan, chance) if has_claims(seed) else plan
    return _with_backfill(plan, chance) if has_backfill(seed) else plan


def is_late(seed: int) -> bool:
    """True for one seed in 16, none of them calm: members fail or are deleted, and their replacements come late."""
    return seed % 16 == 15


def _losses(chance: Chance) -> list[Fault]:
    dice = chance.stream("losses")
    kinds_of_loss = ("a pod fails", "a pod is deleted", "all pods of a node fail")
    return [Fault(dice.choice(kinds_of_loss), 5 + 80 * dice.random()) for _ in range(dice.choice((4, 8)))]


def _steering(seed: int, shape: Random) -> SteeringMode:
    """The steering of a seed. In one of ten only the filter steers."""
    mode = shape.choice((SteeringMode.NOMINATE, SteeringMode.NOMINATE, SteeringMode.PIN_DOMAIN, SteeringMode.PIN_NODE))
    return SteeringMode.AUTO if seed % 20 in (13, 14) else mode


def _with_jobs(plan: Plan, chance: Chance, elastic: ElasticPlan | None) -> Plan:
    """Suspended jobs beside the gangs and singles of the seed, or beside few of them."""
    batch = draw_batch(chance, calm=plan.calm, tolerations=Selection(tolerations=TOLERATIONS))
    batch = varied(batch, chance, plan.seed)
    if elastic is not None:
        limits = with_elastic(plan.limits, elastic)
        batch, plan = beside_needy(batch, elastic), replace(plan, limits=limits, elastic=elastic, barred=frozenset())
        plan = replace(plan, jobs=needing(plan.jobs, chance, tainted=elastic.tainted))
    if plan.profile.bind_timeout_s < 10:
        # A bind waits no longer than its transport lets it: the pods of a job have to exist and reach it before.
        batch = replace(batch, pod_rate=100.0)
        if any(job.size > 16 for _, job in batch.jobs):
            plan = replace(plan, profile=replace(plan.profile, cycle_s=min(plan.profile.cycle_s, 0.02)))
    faults = (*plan.faults, *(Fault(*fault) for fault in batch.faults))
    beside = chance.stream("beside suspended jobs").choice((0, 2, len(plan.jobs)))
    limits = limits_of(plan.limits, chance, plan.seed)
    faults = (*faults, *(Fault(*fault) for fault in draw_unread(chance, plan.seed)))
    refused = draw_refusals(batch, plan.nodes, chance, plan.seed) if elastic is None else frozenset()
    plan = replace(plan, faults=faults, limits=limits, barred=refused or plan.barred)
    return replace(plan, jobs=plan.jobs[:beside], batch=batch)


def _with_queues(plan: Plan, chance: Chance) -> Plan:
    """The same seed with queues, which most of its gangs and jobs name."""
    dice, nodes = chance.stream("who is in which queue"), flavored(plan.nodes, chance)
    jobs = tuple((at, replace(job, queue=queue_name(dice)) if job.min_member else job) for at, job in plan.jobs)
    batch = tuple((at, replace(job, queue=queue_name(dice))) for at, job in plan.batch.jobs)
    coming = () if plan.elastic is None else plan.elastic.coming
    queues = draw_queues((*nodes, *coming), chance, calm=plan.calm)
    if plan.elastic is not None and plan.elastic.tainted:
        queues = tainted(queues, tolerates=plan.elastic.tolerates)
    started = draw_started(nodes, chance) if takes_over(plan.seed) and not plan.saves else ()
    if has_preemption(plan.seed):
        queues = ruled(queues, chance)
        fair, saturation = isinstance(queues.between, FairSharing), saturated(chance)
        queues = contested(queues) if saturation else queues
        queues = replace(queues, changes=()) if plan.saves else queues
        plan = replace(plan, limits=replace(plan.limits, fair_sharing=fair, saturation=saturation))
    return replace(plan, nodes=nodes, jobs=jobs, batch=replace(plan.batch, jobs=batch, started=started), queues=queues)


def _with_volcano(plan: Plan, chance: Chance) -> Plan:
    """The same seed with Queues of Volcano, which most of its gangs name."""
    dice, nodes = chance.stream("who is in which queue"), of_one_flavor(plan.nodes)
    queues = draw_volcano(nodes, chance, calm=plan.calm)
    jobs = tuple(
        (at, replace(job, queue=volcano_name(dice, queues)) if job.min_member else job) for at, job in plan.jobs
    )
    return replace(plan, nodes=nodes, jobs=jobs, queues=queues)


def _with_unlike_pods(plan: Plan, chance: Chance) -> Plan:
    """The same seed, where the API server adds fields to pods of jobs that their templates do not have."""
    jobs = with_unlike_pods([job for _, job in plan.batch.jobs], chance)
    batch = replace(plan.batch, jobs=tuple((at, job) for (at, _), job in zip(plan.batch.jobs, jobs, strict=True)))
    limits = replace(plan.limits, trials=tries_pods(plan.seed))
    return replace(plan, batch=batch, nodes=in_sizes(plan.nodes, chance), limits=limits)


def _with_preemption(plan: Plan, chance: Chance) -> Plan:
    """The same seed with preemption."""
    jobs, batch = termed(*ranked(plan.jobs, plan.batch, chance), chance)
    return replace(plan, jobs=jobs, batch=batch, limits=with_preemption(plan.limits, chance), budgets=budgeted(chance))


def _with_checkpoints(plan: Plan, chance: Chance) -> Plan:
    """The same nodes with workloads that are alike, and that write checkpoints as they run."""
    nodes, jobs, batch = in_devices(plan.nodes, *alike(plan.jobs, plan.batch, chance))
    return replace(plan, nodes=nodes, jobs=jobs, batch=batch, saves=draw_saves(chance))


def _with_relations(plan: Plan, chance: Chance) -> Plan:
    """The same seed with pods that demand something of others."""
    related = relate(Submitted(plan.nodes, plan.jobs, plan.batch.jobs), chance)
    batch = replace(plan.batch, jobs=related.batch)
    if plan.profile.bind_timeout_s < 10 and takes_many_rounds(related):
        # The bind of the first member has to wait for the last one.
        plan = replace(plan, profile=replace(plan.profile, bind_timeout_s=30.0))
    faults = (*plan.faults, *(Fault(*strike) for strike in strikes(chance, calm=plan.calm)))
    elastic = None if plan.elastic is None else zoned(plan.elastic, chance)
    return replace(plan, nodes=related.nodes, jobs=related.jobs, batch=batch, faults=faults, elastic=elastic)


def _with_platforms(plan: Plan, chance: Chance) -> Plan:
    """The same seed on real nodes."""
    drawn = Drawn(plan.nodes, plan.jobs, plan.batch, plan.owners, plan.elastic, plan.queues)
    drawn, platform = on_platforms(drawn, chance, calm=plan.calm)
    return replace(
        plan,
        nodes=drawn.nodes,
        jobs=drawn.jobs,
        batch=drawn.batch,
        owners=drawn.owners,
        elastic=drawn.elastic,
        queues=drawn.queues,
        faults=(*plan.faults, *(Fault(*fault) for fault in platform.faults)),
        platform=platform,
    )


def _with_storage(plan: Plan, chance: Chance) -> Plan:
    """The weather, the nodes, the gangs and some of the faults of the seed, whose members have volume claims."""
    nodes = tuple(replace(node, taints=()) for node in plan.nodes)
    jobs, storage = draw_storage(nodes, plan.jobs, chance)
    return Plan(
        plan.seed,
        nodes,
        jobs,
        tuple(fault for fault in plan.faults if fault.what in FAULTS),
        plan.weather,
        replace(plan.profile, bind_timeout_s=600.0, slow_until=0.0),
        replace(plan.limits, preemption=Preempts.OFF, waiting=20_000, elastic=NOT_ELASTIC, trials=False),
        SteeringMode.NOMINATE,
        frozenset(),
        plan.writes_at_once,
        storage=storage,
    )


def _with_claims(plan: Plan, chance: Chance) -> Plan:
    """The weather, the faults and the limits of the seed; nodes, and workloads whose pods have claims, of its own."""
    drawn = draw_claims(chance, calm=plan.calm)
    steering = chance.stream("steering").choice((SteeringMode.NOMINATE, SteeringMode.PIN_NODE))
    profile = replace(plan.profile, cycle_s=min(plan.profile.cycle_s, 0.02), slow_until=0.0)
    return Plan(
        plan.seed,
        drawn.nodes,
        drawn.jobs,
        (
            *(fault for fault in plan.faults if fault.what in FAULTS),
            *(Fault(*drawn_fault) for drawn_fault in drawn.faults),
        ),
        plan.weather,
        profile,
        replace(plan.limits, preemption=Preempts.OFF, waiting=20_000, elastic=NOT_ELASTIC, trials=False),
        steering,
        frozenset((name, "") for name in drawn.claims.restless),
        plan.writes_at_once,
        batch=replace(NO_BATCH, jobs=drawn.batch),
        claims=drawn.claims,
    )


def _with_backfill(plan: Plan, chance: Chance) -> Plan:
    """Nodes, and workloads that wait for others to end, take the place of the seed's own; some of its faults stay."""
    steady = is_steady(plan.seed)
    drawn = draw_backfill(chance, calm=plan.calm, steady=steady)
    beside = () if steady else tuple(fault for fault in plan.faults if fault.what in FAULTS)
    limits = replace(plan.limits, waiting=20_000, elastic=NOT_ELASTIC, trials=False)
    nodes, jobs, batch = drawn.nodes, drawn.jobs, drawn.batch
    weather = draw_weather(chance.stream("weather of reservations"), calm=True) if steady else plan.weather
    made = Plan(
        plan.seed,
        nodes,
        jobs,
        (*beside, *(Fault(*fault) for fault in drawn.faults)),
        weather,
        Profile(cycle_s=0.001, bind_timeout_s=30.0, longest_backoff_s=10.0),
        reserving(limits, chance, steady=steady),
        chance.stream("steering").choice((SteeringMode.NOMINATE, SteeringMode.PIN_NODE)),
        frozenset(),
        64,
        batch=replace(NO_BATCH, jobs=batch, pod_rate=100.0),
        steady=steady,
    )
    if chance.stream("queues beside reservations").random() > 0.3:
        return made
    made = _with_queues(made, chance)
    return replace(made, queues=replace(made.queues, changes=())) if steady else made


def _slowed(plan: Plan, chance: Chance) -> Plan:
    """The same seed, where kube-scheduler is slow and has much to do."""
    return replace(plan, profile=slow(plan.profile, chance), jobs=(*plan.jobs, *ahead(chance)))


def _with_owners(plan: Plan, chance: Chance) -> Plan:
    """Owners of gangs beside the gangs and singles of the seed, or beside few of them."""
    drawn = draw_owners(chance, calm=plan.calm)
    faults = (*plan.faults, *(Fault(*fault) for fault in drawn.faults))
    beside, owners = chance.stream("beside owners").choice((0, 2, len(plan.jobs))), drawn.owners
    if plan.elastic is not None:
        owners = owned(owners, chance, tainted=plan.elastic.tainted)
    return replace(plan, jobs=plan.jobs[:beside], owners=owners, faults=faults)
