"""The remedies of ``muster explain`` are true in clusters and queues that chance draws.

Each sentence that can be done by itself is done, and the workload starts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from policies.model import Node, Pod, Requirement, Selection, Taint, Topology
from policies.model.queues import VOLCANO, Cohort, Quota, ResourceGroup, VolcanoQueue
from tests.builders import GPU, cluster, gang, node, single
from tests.core.jobs import Controlled, job
from tests.core.queues import FLAVOR, cluster_queue, flavor, in_queue, show, sort
from tests.core.script import Script
from tests.explaining import CLIQUE_ONLY
from tests.following import Scene, follow

TAINTS = Taint("nvidia.com/gpu", "present", "NoSchedule"), Taint("team", "blue", "NoSchedule")
PRESSURE = Taint("node.kubernetes.io/disk-pressure", "", "NoSchedule")
SEEDS = 16


@pytest.mark.parametrize("draw", ["nodes", "queues", "volcano"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_is_advised_makes_it_start(draw: str, seed: int) -> None:
    make = SCENES[draw]
    before = make(seed).explained.gang.state
    for text in advised(make(seed)):
        there = make(seed)
        # With more quota it may lack room, which its queue has nothing to do with.
        followed = not follow(there, text) or there.runs or there.explained.gang.state == "NoRoom" != before
        assert followed, f"{text}: {there.script.message('wait')}"


@pytest.mark.parametrize(("draw", "share"), [("nodes", 0.7), ("queues", 1.0), ("volcano", 1.0)])
def test_most_of_it_can_be_done(draw: str, share: float) -> None:
    """The test above depends on this.

    The remaining sentences ask for more nodes in a domain that cannot be enlarged.
    """
    make = SCENES[draw]
    waiting = [(seed, advice) for seed in range(SEEDS) if (advice := advised(make(seed)))]
    done = [seed for seed, remedies in waiting if any(follow(make(seed), text) for text in remedies)]
    assert len(waiting) > SEEDS / 3
    assert len(done) >= share * len(waiting)


def advised(there: Scene) -> list[str]:
    """The remedies of the waiting workload; none if it starts at once."""
    explanation = there.explained
    return explanation.remedies if explanation.gang.state in ("NoRoom", "NoQuota") else []


def closed_nodes(seed: int) -> Scene:
    """Nodes with labels, taints and tenants of all sorts, some of them out of service."""
    chance = Random(seed)  # noqa: S311 - it is a test
    nodes = [
        _node(chance, clique, at) for clique in "abc"[: chance.randint(1, 3)] for at in range(chance.randint(1, 4))
    ]
    script = Script(*nodes, checked=1000)
    for cluster_node in nodes:
        if chance.random() < 0.25:
            script.see(single(f"busy-{cluster_node.name}", gpus=chance.choice([8, 4]), cpu=0, node=cluster_node.name))
    selector = (("pool", "blue"),) if chance.random() < 0.4 else ()
    affinity = ((Requirement("pool", "In", ("blue", "red")),),) if chance.random() < 0.2 else None
    topology = CLIQUE_ONLY if chance.random() < 0.2 else Topology()

    def change(pod: Pod) -> Pod:
        return replace(pod, selection=Selection(selector, affinity), topology=topology)

    queue = "team" if chance.random() < 0.4 else ""
    if queue:
        show(script, sort("h100"), cluster_queue("team", {"h100": 400}))
    return _waiting(script, chance, change, queue)


def _node(chance: Random, clique: str, at: int) -> Node:
    labels = {"pool": chance.choice(["blue", "red"])} if chance.random() < 0.5 else {}
    if chance.random() < 0.5:
        labels[FLAVOR] = chance.choice(["h100", "a100"])
    taints = tuple(taint for taint in TAINTS if chance.random() < 0.25)
    if chance.random() < 0.1:
        taints += (PRESSURE,)
    shut = {"unschedulable": chance.random() < 0.15, "ready": chance.random() > 0.15}
    return node(f"{clique}-{at}", clique=clique, labels=labels, taints=taints, **shut)


def short_quota(seed: int) -> Scene:
    """Two queues, alone or in cohorts, whose quota others use, and plenty of nodes."""
    chance = Random(seed)  # noqa: S311 - it is a test
    names = ["f1", "f2"][: chance.randint(1, 2)]
    nodes = cluster("a: 40x8")
    if len(names) == 2:
        nodes = [
            replace(cluster_node, labels={**cluster_node.labels, FLAVOR: names[at % 2]})
            for at, cluster_node in enumerate(nodes)
        ]
    script, cohort = Script(*nodes, checked=1000), chance.choice(["", "all", "all"])

    def quota() -> Quota:
        if not cohort:
            return Quota(8 * chance.randint(0, 4))
        limits = chance.choice([None, None, 0, 8, 16]), chance.choice([None, None, 0, 8])
        return Quota(8 * chance.randint(0, 4), borrowing=limits[0], lending=limits[1])

    show(script, *[sort(name) if len(names) == 2 else flavor(name) for name in names])
    if cohort and chance.random() < 0.4:
        own = tuple((name, {GPU: Quota(8 * chance.randint(0, 3))}) for name in names)
        show(script, Cohort("all", chance.choice(["", "top"]), (ResourceGroup((GPU, "cpu"), own),)))
    for name in ("team", "other"):
        show(script, cluster_queue(name, {flavor_name: quota() for flavor_name in names}, cohort=cohort))
    for at in range(chance.randint(0, 5)):
        _user(script, f"user-{at}", chance.randint(1, 2), chance.choice(["team", "other"]))
    return _waiting(script, chance, lambda pod: pod, "team")


def volcano_queues(seed: int) -> Scene:
    """Queues of Volcano with what they may use, deserve and are guaranteed, in each other or not."""
    chance = Random(seed)  # noqa: S311 - it is a test
    script = Script(*cluster(f"a: {chance.randint(4, 12)}x8"), checked=1000)

    def queue(name: str, parent: str = "") -> VolcanoQueue:
        amounts: dict[str, Any] = {
            what: {GPU: 8 * chance.randint(1, most)}
            for what, share, most in (("capability", 0.6, 6), ("guarantee", 0.3, 2), ("deserved", 0.3, 3))
            if chance.random() < share
        }
        return VolcanoQueue(name, parent=parent, **amounts)

    parent = chance.choice(["", "department"])
    show(script, queue("team", parent), queue("other"), *([queue(parent)] if parent else []))
    for at in range(chance.randint(0, 4)):
        _user(script, f"user-{at}", chance.randint(1, 2), VOLCANO + chance.choice(["team", "other"]))
    pods = in_queue("wait", chance.randint(1, 5), f"{VOLCANO}team")
    script.see(pods)
    script.advance(0.5)
    return Scene(script, pods=pods)


def _user(script: Script, name: str, size: int, queue: str) -> None:
    """A gang that runs, if there is quota and room for it."""
    pods = in_queue(name, size, queue)
    script.see(pods)
    script.advance(0.5)
    if all(map(script.planned, pods)):
        script.run(pods)
    else:
        script.gone(*(script.pods[pod.uid] for pod in pods))


def _waiting(script: Script, chance: Random, change: Callable[[Pod], Pod], queue: str) -> Scene:
    """A gang of pods, or a job."""
    size, gpus = chance.randint(1, 5), chance.choice([8, 8, 4])
    if queue and chance.random() < 0.4:
        seen = replace(job(size, name="wait", gpus=gpus), queue=queue)
        (podset,) = seen.podsets.podsets
        podsets = replace(seen.podsets, podsets=(replace(podset, template=change(podset.template)),))
        controlled = Controlled(script, replace(seen, podsets=podsets))
        controlled.wait(0.5)
        return Scene(script, job=controlled)
    pods = [replace(change(pod), queue=queue) for pod in gang("wait", size, gpus=gpus)]
    script.see(pods)
    script.advance(0.5)
    return Scene(script, pods=pods)


SCENES: dict[str, Callable[[int], Scene]] = {
    "nodes": closed_nodes,
    "queues": short_quota,
    "volcano": volcano_queues,
}
