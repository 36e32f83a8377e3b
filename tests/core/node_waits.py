"""Jobs that are started without a plan: how they are written, seen, stopped and taken up by another leader."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from extender.core.answers import Ungated
from extender.core.effects import Ungate
from extender.core.events import CapacityServed, JobSeen
from policies.model import GANG_GATE, Job, Node, Selection
from tests.core.jobs import Controlled, job
from tests.core.queues import FLAVOR, cluster_queue, show, sort
from tests.core.script import Script
from tests.core.test_elastic import LIMITS, SPOT, of

GATED = (GANG_GATE,)
TEAM = cluster_queue("team", {"owned": 8, "spot": 16})
VAIN = "nodes of spot were requested and did not come: not enough joined within 900 s"


def wanting(size: int = 2, name: str = "first", **facts: Any) -> Job:
    """A job whose pods ask for nodes of the flavor that is made on demand."""
    wanted = job(size, name=name)
    (podset,) = wanted.podsets.podsets
    made_of = replace(podset.template, selection=Selection(((FLAVOR, "spot"),)))
    return replace(
        wanted, podsets=replace(wanted.podsets, podsets=(replace(podset, template=made_of),)), queue="team", **facts
    )


def naming_only_its_queue() -> Job:
    """A job whose pods say nothing of nodes."""
    return replace(job(2, name="first"), queue="team")


def come(script: Script, wanted: Job | None = None, *, obeys: bool = True) -> Controlled:
    made = Controlled(script, wanted or wanting(), obeys=obeys)
    made.wait(0.5)
    return made


def ungate(script: Script) -> list[str]:
    """Remove the gates whose removal was requested since the last time; returns the pods' UIDs."""
    ungated = [effect.uid for effect in script.effects if isinstance(effect, Ungate)]
    gated = [uid for uid in ungated if uid in script.pods and GANG_GATE in script.pods[uid].gates]
    assert len(gated) == len(set(gated)), "once for each pod"
    for uid in gated:
        script.feed(Ungated(uid))
        script.change(script.pods[uid], gates=())
    return gated


def stop(first: Controlled) -> None:
    """Let the controller delete the pods and show the job as suspended."""
    first.delete()
    first.show(stopped=True)


def again(first: Controlled, *nodes: Node, served: bool | None = False, now: float = 0.0) -> tuple[Script, Controlled]:
    """Another leader, which sees the same objects."""
    script = Script(*of("owned", 1), *nodes, limits=LIMITS, synced=False, now=now or first.script.now)
    show(script, sort("owned"), replace(sort("spot"), tolerations=(SPOT,)), TEAM)
    if served is not None:
        script.feed(CapacityServed(served))
    script.feed(JobSeen(first.seen))
    script.see(*first.script.pods.values())
    script.feed_synced()
    other = Controlled(script, first.seen)
    other.pods = dict(first.pods)
    other.wait(0.5)
    return script, other
