"""Limits of the core: how long it waits, how much it does at once, and how much it looks at."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from math import inf

from policies.quota.history import NO_HISTORY, Sampling

STOOD_STILL_S = 2.0
"""A deadline that is looked at so late: this process has stood still, and others may have, too."""


class Preempts(StrEnum):
    """Whether anybody is evicted for a workload, or it is only said who would be."""

    OFF = "off"
    DRY_RUN = "dry-run"
    ON = "on"

    @classmethod
    def _missing_(cls, value: object) -> Preempts | None:
        """YAML 1.1 reads the words on and off as true and false."""
        if isinstance(value, bool):
            return cls.ON if value else cls.OFF
        return None


class Reserving(StrEnum):
    """Which of the workloads that lack room get a reservation."""

    OFF = "off"
    EASY = "easy"
    """The first ones of each queue tree."""
    CONSERVATIVE = "conservative"
    """All of them."""

    @classmethod
    def _missing_(cls, value: object) -> Reserving | None:
        """YAML 1.1 reads the word off as false."""
        return cls.OFF if value is False else None


@dataclass(frozen=True, slots=True)
class Elasticity:
    """The flavors for whose nodes is asked, by name, and how long those may take to come."""

    flavors: frozenset[str] = frozenset()
    within_s: float = 900.0


NOT_ELASTIC = Elasticity()


@dataclass(frozen=True, slots=True)
class Limits:
    """The core's durations, in seconds, and how much it does at once.

    ``post_margin_s`` + ``post_member_s`` per member is the time set aside for posting a gang's Bindings before the
    first held request expires. ``hold_s``: how long the first held bind of a gang waits for the others, or for each
    round of them. ``plan_s``: a placement none of whose members reaches bind by then is planned anew; ``again_s``: the
    same for a gang that kube-scheduler's plugins have refused. ``unseen_s``: how long a bind may wait for its pod to
    show up in the watch.
    ``partial_s``: how long a half-released gang keeps room for replacements before its
    bound members are evicted (``evict_partial``). ``replacement_s``: how long a running gang keeps the room of a lost
    member, from its end on. ``incomplete_s``: how long a running workload may lack members before its job is suspended,
    or its pods are evicted if that is wanted (``evict_incomplete``). ``report_s``: a reason is reported when it has
    lasted that long.
    ``refresh_s``: the numbers in the reasons of those who wait are at most that old. ``slice_units``: what one Tick
    does of an admission pass, in units of about 5 microseconds (``policies.steps``). ``members``: that a gang may have.
    ``shapes``: different ones that its members may have, of requests, node selector, affinity, tolerations and
    topology. ``waiting``: gangs of one namespace that are looked at. ``creation_s``: so long may the next pod of an
    admitted job take to be created, beside what those that are created before it take; the same bounds how many pods
    are awaited at a time. ``node_loss_s``: how long a node may be silent before a job that runs on it is started over
    elsewhere. ``excess_units``: what the gangs of one namespace may cost a pass beyond what plain gangs do; the rest of
    them are left for the next pass, so that they hold up nobody else. ``default_queue``: the LocalQueue of a workload
    that names none, where its namespace has one of that name. ``require_queue``: a workload without a queue waits.
    ``fair_sharing``: between queues the least dominant resource share comes first. ``past_usage``: how the past usage
    of LocalQueues is counted. ``preemption``: whether others are evicted for a workload that lacks room;
    ``preemption_s``: for so long may they take to go. ``min_runtime_s``: nobody is evicted who has run for less.
    ``most_min_runtime_s``: what a workload itself may ask for in its place. ``evictions_per_hour``: of one workload; 0
    for no limit. ``saturation``: as in ``policies.preemption.reclaim.Queues``. ``pods_preempt_gangs``: gangs give way
    to a pod of no gang, too, that kube-scheduler preempts for. ``elastic``: for whose nodes
    is asked. ``names_others``: what is written in a namespace names workloads of others, which are only counted else.
    ``trials``: a pod of a shape that nobody has seen is created by a dry run before its job is planned.
    ``reserve_after_s``: the first workload of a queue tree that cannot start gets a reservation when it has waited for
    so long; infinite for never. ``reservations``: of each tree at a time; infinite for no limit. ``drain_share``: part
    of the GPUs that may be drained at a time for workloads, where nobody knows when those that run end.
    ``forecast_s``: how often the expected starts of those that wait are worked out; infinite for never.
    ``clique_of_domains``: pods of a ComputeDomain that say nothing of the topology require a clique.
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
    forecast_s: float = inf

    def for_advice(self) -> Limits:
        """Return these where kube-scheduler is only advised: nothing is evicted, kept or asked for."""
        return replace(
            self,
            evict_partial=False,
            replacement_s=0.0,
            incomplete_s=inf,
            reserve_after_s=inf,
            preemption=Preempts.OFF if self.preemption is Preempts.OFF else Preempts.DRY_RUN,
            pods_preempt_gangs=False,
            elastic=NOT_ELASTIC,
            trials=False,
        )
