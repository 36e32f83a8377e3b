"""The plan of a seed: a cluster, the submitted workloads, and the faults with their times. ``drawing`` draws it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from extender.core.engine import Engine
from extender.core.gate.steering import SteeringMode
from extender.core.limits import Limits, Preempts
from policies.chosen import OURS
from policies.model import DisruptionBudget, Node, Pod
from policies.model.levels import PRESETS
from tests.simulation.batch_plan import (
    NONE,
    BatchPlan,
)
from tests.simulation.checkpoints import Save
from tests.simulation.claim_plan import ClaimPlan
from tests.simulation.elastic_plan import (
    ElasticPlan,
)
from tests.simulation.fault_plan import Fault
from tests.simulation.model.changes import Kind
from tests.simulation.model.cycle import Profile
from tests.simulation.model.job_specs import JobSpec
from tests.simulation.model.network import Weather
from tests.simulation.model.owner import OwnerObject
from tests.simulation.platform_plan import PlatformPlan
from tests.simulation.process_plan import Slices
from tests.simulation.queue_plan import NONE as NO_QUEUES
from tests.simulation.queue_plan import (
    QueuePlan,
)
from tests.simulation.storage_plan import StoragePlan
from tests.simulation.terms import Terms


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything about a run but chance. Instants are in seconds from its beginning."""

    seed: int
    nodes: tuple[Node, ...]
    jobs: tuple[tuple[float, JobSpec], ...]
    faults: tuple[Fault, ...]
    weather: Weather
    profile: Profile
    limits: Limits
    steering: SteeringMode
    barred: frozenset[tuple[str, str]]
    """(gang, node): the node that kube-scheduler refuses for reasons of its own."""
    writes_at_once: int
    """How many writes of the extender may be under way: with few, a hanging write fills its lanes."""
    batch: BatchPlan = NONE
    queues: QueuePlan = NO_QUEUES
    owners: tuple[tuple[float, OwnerObject], ...] = ()
    budgets: tuple[DisruptionBudget, ...] = ()
    elastic: ElasticPlan | None = None
    asks: bool = False
    """Nodes of ``elastic`` can be asked for."""
    saves: tuple[Save, ...] = ()
    slices: Slices | None = None
    """The slices, if the core does less at a time than by default."""
    platform: PlatformPlan | None = None
    """The real nodes, if its nodes are real ones."""
    storage: StoragePlan | None = None
    """The volumes, if its gangs have volume claims."""
    claims: ClaimPlan | None = None
    """The devices, if its pods have claims of devices."""
    steady: bool = False
    """Whether its workloads end when they say, and nothing but the extender fails."""
    late_s: float = 0.0
    """How much later than any other pod the replacement of a member may come."""

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of which there are objects."""
        absent = {
            Kind.GROUP_JOBS: not any(job.pending for _, job in self.jobs),
            Kind.JOBS: not self.batch.jobs,
            Kind.OWNERS: not self.owners,
            Kind.QUEUES: not self.queues.things,
            Kind.BUDGETS: not self.budgets,
            Kind.STORAGE: self.storage is None,
            Kind.DEVICES: self.claims is None,
            Kind.CLAIMS: self.claims is None,
        }
        return tuple(kind for kind in Kind if not absent.get(kind))

    @property
    def calm(self) -> bool:
        return not self.faults

    @property
    def terms(self) -> Terms:
        """The terms of the plan that the referee has to know."""
        restless = tuple(sorted({name for name, _ in self.barred}))
        vague = self.steering in (SteeringMode.AUTO, SteeringMode.PIN_DOMAIN)
        pins, most, limits = self.steering is SteeringMode.PIN_NODE, self.writes_at_once, self.limits
        return Terms(
            self.calm,
            limits.partial_s,
            limits.waiting,
            restless,
            vague,
            most,
            limits.creation_s,
            pins,
            bool(self.queues.things),
            limits.fair_sharing,
            limits.preemption is Preempts.ON or limits.pods_preempt_gangs,
            limits.min_runtime_s,
            limits.evictions_per_hour,
            limits.saturation,
            0.0 if self.elastic is None else self.elastic.within_s,
            self.slices is not None,
            limits.replacement_s,
            self.storage is not None,
            self.claims is not None,
            limits.reserve_after_s < inf,
            self.steady,
            limits.overrun_s,
        )

    def core(self, *, sliced: bool = True) -> Engine:
        """A core for one life of the extender. ``sliced``: as this plan has it, if it does."""
        policies = replace(OURS, between=self.queues.between)
        limits = replace(self.limits, past_usage=self.queues.past)
        if sliced and self.slices is not None:
            limits = replace(limits, slice_units=self.slices.units)
        levels = PRESETS["nvidia"] if self.platform is None else self.platform.levels
        return Engine(limits=limits, policies=policies, steering=self.steering, levels=levels)

    def bars(self, pod: Pod, on: str) -> bool:
        return pod.group is not None and (pod.group.name, on) in self.barred
