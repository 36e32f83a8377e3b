"""Training loops that say when they wrote their last checkpoint, on a pod of theirs or on their job."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from random import Random

from extender.kube.reading.eviction import CHECKPOINTED, terms_of, unreadable_terms
from extender.kube.reading.objects import Meta
from tests.simulation.checkpoint_plan import Save
from tests.simulation.model.world import World

_UNREADABLE = ("", "noon", "1000.5", "2026-13-01T00:00:00Z", "1970-01-01T00:20:00")


def save(world: World, dice: Random, one: Save) -> None:
    """Somebody who runs by now writes it, as the user's patch of the object. The real reader reads it."""
    running = [pod for pod in world.api.pods.values() if pod.live and pod.node and pod.group_key is not None]
    if not running:
        return
    pod = dice.choice(running)
    job = world.api.jobs.get(pod.group_key) if pod.group_key is not None else None
    text = dice.choice(_UNREADABLE) if one.age_s is None else _instant(world.clock.now - one.age_s)
    meta = Meta(name=pod.name, annotations={CHECKPOINTED: text})
    at, hint = terms_of(meta).checkpointed, next(unreadable_terms(meta), None)
    if job is not None and dice.random() < 0.5:
        world.api.set_job(replace(job, eviction=job.eviction._replace(checkpointed=at), hint=hint))
    else:
        world.api.change_pod(pod.uid, eviction=pod.eviction._replace(checkpointed=at), hint=hint)


def _instant(at: float) -> str:
    return datetime.fromtimestamp(max(0.0, at), UTC).isoformat()
