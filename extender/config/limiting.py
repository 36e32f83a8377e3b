"""The settings that the core's limits are made of."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from extender.core.limits import Limits

if TYPE_CHECKING:
    from extender.config.settings import Settings


def limits_of(settings: Settings) -> Limits:
    """By the names that the core has for them."""
    return Limits(
        post_margin_s=settings.bind_margin_s,
        hold_s=settings.hold_timeout_s,
        plan_s=settings.plan_timeout_s,
        partial_s=settings.partial_grace_s,
        evict_partial=settings.evict_partial,
        replacement_s=settings.replacement_grace_s,
        incomplete_s=settings.incomplete_grace_s,
        evict_incomplete=settings.evict_incomplete,
        members=settings.max_gang_members,
        shapes=settings.max_gang_shapes,
        waiting=settings.max_waiting_gangs,
        node_loss_s=settings.node_loss_s,
        default_queue=settings.default_queue,
        require_queue=settings.require_queue,
        fair_sharing=settings.fair_sharing,
        past_usage=settings.admission_fair_sharing.sampling,
        preemption=settings.preemption,
        preemption_s=settings.preemption_timeout_s,
        min_runtime_s=settings.preemption_min_runtime_s,
        most_min_runtime_s=settings.preemption_min_runtime_limit_s,
        evictions_per_hour=settings.preemption_evictions_per_hour,
        saturation=Fraction(f"{settings.preemption_saturation}") if settings.preemption_saturation else None,
        pods_preempt_gangs=settings.pods_preempt_gangs,
        elastic=settings.elastic.limits,
        names_others=settings.name_other_namespaces,
        trials=settings.pod_trials,
    )
