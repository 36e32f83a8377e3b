"""PodGroups that are to be taken up before their job makes pods, as the tests of them make them."""

from __future__ import annotations

from dataclasses import replace

from extender.core.answers import Enqueued
from extender.core.effects import Enqueue
from extender.core.events import GroupJobSeen
from policies.model import (
    GANG_GATE,
    Controller,
    Dialect,
    GroupJob,
    GroupKey,
    GroupRef,
    Pod,
    PodGroup,
    PodSet,
    PodSets,
)
from tests.builders import cluster, requests
from tests.core.script import Script

KEY = GroupKey("default", "train-uid")
JOB = Controller("batch.volcano.sh/v1alpha1", "Job", "train", "uid")
WAITS = PodGroup(KEY, "group-uid", 2, dialect=Dialect.VOLCANO, job=JOB, pending=True)
TAKEN_UP = replace(WAITS, pending=False, starting=True)
ASKED = Enqueue(KEY, "group-uid")
REF = GroupRef(KEY.name, Dialect.VOLCANO, role="worker")


def made(count: int = 2, *, minimum: int | None = None, **facts: object) -> GroupJob:
    """A job of one task, each pod of which asks for a whole node."""
    template = Pod("", "default", "train", requests(8), owner=JOB.uid, controller=JOB, series="1-worker", group=REF)
    podset = PodSet(replace(template, **facts), count, count if minimum is None else minimum)  # type: ignore[arg-type]
    return GroupJob(JOB, PodSets(KEY, (podset,)))


UNREADABLE = GroupJob(JOB, PodSets(KEY, ()))


def pods_of(job: GroupJob, life: str = "") -> list[Pod]:
    """The pods as the controller makes them, and the admission policy gates them."""
    (podset,) = job.podsets.podsets
    return [replace(pod, uid=f"u{pod.index}{life}", gates=(GANG_GATE,)) for pod in podset.pods()]


def scripted(*facts: PodGroup, nodes: str = "a: 2x8", job: GroupJob | None = None, synced: bool = True) -> Script:
    script = Script(*cluster(nodes), *facts, synced=synced)
    script.feed(GroupJobSeen(job or made()))
    script.advance(0.1)
    return script


def asked(script: Script) -> int:
    """How often, since this was asked last."""
    enqueues = [effect for effect in script.effects if isinstance(effect, Enqueue)]
    assert set(enqueues) <= {ASKED}
    script.effects.clear()
    return len(enqueues)


def free(script: Script) -> int:
    """How many nodes are neither used nor promised."""
    return sum(script.core.state.claims.fits(name, requests(8)) for name in script.core.state.claims.nodes)


def taken_up(script: Script) -> None:
    """Carry out the enqueue request, and show the result."""
    assert asked(script) == 1
    script.feed(Enqueued(KEY))
    script.see(TAKEN_UP)
