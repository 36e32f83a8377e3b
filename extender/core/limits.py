"""Limits of the core: how long it waits, and how much it does and considers at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from math import inf

from policies.quota.history import NO_HISTORY, Sampling

STOOD_STILL_S = 2.0
"""Lateness of a deadline from which the process is taken to have stood still. Then other processes may have, too."""


class Preempts(StrEnum):
    """Whether victims are evicted for a workload, or only named."""

    OFF = "off"
    DRY_RUN = "dry-run"
    ON = "on"

    @classmethod
    def _missing_(cls, value: object) -> Preempts | None:
        """Return the member for a bool: YAML 1.1 reads the words on and off as true and false."""
        if isinstance(value, bool):
            return cls.ON if value else cls.OFF
        return None


class Reserving(StrEnum):
    """The workloads that get a reservation while they lack room."""

    OFF = "off"
    EASY = "easy"
    """The first workloads of each queue tree."""
    CONSERVATIVE = "conservative"
    """All workloads that lack room."""

    @classmethod
    def _missing_(cls, value: object) -> Reserving | None:
        """Return OFF for False: YAML 1.1 reads the word off as false."""
        return cls.OFF if value is False else None


@dataclass(frozen=True, slots=True)
class Elasticity:
    """The flavors for which nodes can be requested, by name, and the seconds that those may take to come."""

    flavors: frozenset[str] = frozenset()
    within_s: float = 900.0


NOT_ELASTIC = Elasticity()


@dataclass(frozen=True, slots=True)
class Limits:
    """The core's durations, in seconds, and how much it does at once.

    ``coalesce_s``: from a change to the cycle that it calls for.
    ``post_margin_s`` + ``post_member_s`` per member: reserved for posting a gang's Bindings before the first held
    request expires.
    ``hold_s``: how long the first held bind of a gang waits for the others, or for each round of them.
    ``plan_s``: a placement is planned again if none of its members reaches bind in that time; ``again_s``: the same for
    a gang that kube-scheduler's plugins have refused.
    ``unseen_s``: how long a bind may wait for its pod to show up in the watch.
    ``partial_s``: how long a half-released gang keeps room for replacements before its bound members are evicted
    (``evict_partial``).
    ``replacement_s``: how long a running gang keeps the room of a lost member, from the end of that member.
    ``incomplete_s``: how long a running workload may lack members. Then its job is suspended, or its pods are evicted
    if the settings say so (``evict_incomplete``).
    ``retry_max_s``: the longest pause between retries.
    ``report_s``: a reason is reported when it has lasted that long.
    ``refresh_s``: the greatest age of the numbers in reasons.
    ``slice_units``: what one Tick does of an admission cycle, in units of about 5 microseconds (``policies.steps``).
    ``members``: how many a gang may have.
    ``shapes``: how many different shapes they may have: requests, node selector, affinity, tolerations and topology.
    ``waiting``: how many gangs of one namespace are considered.
    ``creation_s``: how long the next pod of an admitted job may take to be created, beyond the pods before it. The same
    limits how many pods are awaited at a time.
    ``node_loss_s``: how long a node may be silent before a job that runs on it is started again elsewhere.
    ``excess_units``: what the gangs of one namespace may cost a cycle beyond what plain gangs cost. The others of that
    namespace are left for the next cycle, so that they delay no other namespace.
    ``default_queue``: the LocalQueue of a workload that names none, where its namespace has one of that name.
    ``require_queue``: whether a workload without a queue waits.
    ``fair_sharing``: whether, between queues, the least dominant resource share comes first.
    ``past_usage``: how the past usage of LocalQueues is counted.
    ``preemption``: whether victims are evicted for a workload that lacks room.
    ``preemption_s``: how long victims may take to go.
    ``min_runtime_s``: workloads that have run for less are not evicted. ``most_min_runtime_s``: the longest such time
    that a workload can declare for itself.
    ``evictions_per_hour``: of one workload; 0 for no limit.
    ``saturation``: as in ``policies.preemption.reclaim.Queues``.
    ``pods_preempt_gangs``: whether gangs are victims of a single pod, too, that kube-scheduler preempts for.
    ``elastic``: for which flavors nodes can be requested.
    ``names_others``: whether texts in a namespace name workloads of other namespaces, which are only counted otherwise.
    ``trials``: whether a pod of an unknown shape is created by a dry run before its job is planned.
    ``reserve_after_s``: how long the first workload of a queue tree waits before it gets a reservation; infinite for
    never.
    ``reservations``: of each tree at a time; infinite for no limit.
    ``drain_share``: the part of the GPUs that may be drained at a time, where the ends of running workloads are not
    known.
    ``overrun_s``: how long a workload that declares so runs on after its expected end where room is reserved for
    another one; infinite: it is never ended.
    ``forecast_s``: the shortest time between two forecasts of the starts of waiting workloads; infinite: there is none.
    ``clique_of_domains``: whether pods of a ComputeDomain that name no topology require a clique.
    """

    coalesce_s: float = 0.005
    post_margin_s: float = 2.0
    post_member_s: float = 0.01
    hold_s: float = 30.0
    plan_s: float = 20.0
    again_s: float = 5.0
    unseen_s: float = 1.5
    partial_s: float = 60.0
    replacement_s: float = 60.0
    incomplete_s: float = 900.0
    evict_incomplete: bool = False
    retry_max_s: float = 30.0
    report_s: float = 2.0
    refresh_s: float = 30.0
    slice_units: int = 600
    evict_partial: bool = True
    members: int = 10_000
    shapes: int = 16
    waiting: int = 20_000
    excess_units: int = 20_000
    creation_s: float = 30.0
    node_loss_s: float = 60.0
    default_queue: str = ""
    require_queue: bool = False
    fair_sharing: bool = False
    past_usage: Sampling = NO_HISTORY
    preemption: Preempts = Preempts.OFF
    preemption_s: float = 300.0
    min_runtime_s: float = 0.0
    most_min_runtime_s: float = 86_400.0
    evictions_per_hour: int = 4
    saturation: Fraction | None = None
    pods_preempt_gangs: bool = True
    elastic: Elasticity = NOT_ELASTIC
    names_others: bool = False
    trials: bool = False
    clique_of_domains: bool = False
    reserve_after_s: float = inf
    reservations: float = 1
    drain_share: float = 0.1
    overrun_s: float = inf
    forecast_s: float = inf

    def for_advice(self) -> Limits:
        """Return the limits for advisory mode: nothing is evicted, kept or requested."""
        return replace(
            self,
            evict_partial=False,
            replacement_s=0.0,
            incomplete_s=inf,
            overrun_s=inf,
            reserve_after_s=inf,
            preemption=Preempts.OFF if self.preemption is Preempts.OFF else Preempts.DRY_RUN,
            pods_preempt_gangs=False,
            elastic=NOT_ELASTIC,
            trials=False,
        )
