"""Answers of the API in many states of a core: runs of the simulation, a course of queues, and clusters by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

import httpx
from pydantic import TypeAdapter

from extender.api.models import (
    PREFIX,
    ComputeDomainView,
    DefragView,
    DomainStock,
    Explanation,
    GangView,
    QueueView,
    TopologyView,
    UtilisationReport,
    VerifyView,
)
from extender.core.engine import Engine
from extender.core.events import NodeSeen, QueueSeen, Synced
from extender.core.limits import Limits
from extender.observe.utilisation import UNASKED, Load, Loads, Measured, Utilisation
from extender.observe.verified import verified
from extender.runtime.compare import Difference, Kind
from extender.runtime.runner import Runner
from extender.runtime.verification import Check
from extender.runtime.verifier import Result, Verifier
from policies.model import Requirement, Selection, Topology
from policies.model.eviction import EvictionTerms
from policies.model.levels import levels_from
from policies.model.queues import Cohort
from tests.builders import cluster, gang, node, single
from tests.core.backfilling import Backlog
from tests.core.compute_domains import LABEL, allocated, domain, in_domain, racks, template
from tests.core.jobs import Controlled, job
from tests.core.queue_course import Course, carry_out
from tests.core.queues import cluster_queue, flavor, show
from tests.core.script import Script
from tests.running import Written, app_of
from tests.simulation.campaign import Run
from tests.simulation.drawing import draw

READ: dict[str, TypeAdapter[Any]] = {
    f"{PREFIX}/gangs": TypeAdapter(list[GangView]),
    f"{PREFIX}/gangs/{{namespace}}/{{name}}": TypeAdapter(GangView),
    f"{PREFIX}/explain/{{namespace}}/{{name}}": TypeAdapter(Explanation),
    f"{PREFIX}/defrag/{{namespace}}/{{name}}": TypeAdapter(DefragView),
    f"{PREFIX}/queues": TypeAdapter(list[QueueView]),
    f"{PREFIX}/domains": TypeAdapter(list[DomainStock]),
    f"{PREFIX}/compute-domains": TypeAdapter(list[ComputeDomainView]),
    f"{PREFIX}/topology": TypeAdapter(TopologyView),
    f"{PREFIX}/utilisation": TypeAdapter(UtilisationReport),
    f"{PREFIX}/verify": TypeAdapter(VerifyView),
}
"""How the client reads each path."""
_LISTS = ("/gangs", "/queues", "/domains", "/compute-domains", "/topology", "/utilisation")
_OF_ONE = ("/gangs", "/explain", "/defrag")
_EVERY_S = 20.0
_STEPS = 40
Look = Callable[[Engine, float], None]


@dataclass(frozen=True)
class Answer:
    """The body that a path of the OpenAPI document was answered with."""

    path: str
    body: bytes


def answers_of(core: Engine, now: float, utilisation: Utilisation = UNASKED) -> list[Answer]:
    """Ask for every page, and for both pages of each gang."""
    return asyncio.run(_ask(core, now, utilisation))


async def _ask(core: Engine, now: float, utilisation: Utilisation) -> list[Answer]:
    transport = httpx.ASGITransport(app_of(core, clock=lambda: now, utilisation=utilisation))
    async with httpx.AsyncClient(transport=transport, base_url=f"http://127.0.0.1{PREFIX}") as client:
        calls = [(path, path) for path in _LISTS]
        for key in sorted(core.state.workloads):
            names = f"{quote(key.namespace, safe='')}/{quote(key.name, safe='')}"
            calls += [(f"{path}/{{namespace}}/{{name}}", f"{path}/{names}") for path in _OF_ONE]
        return [Answer(PREFIX + path, (await client.get(url)).raise_for_status().content) for path, url in calls]


def simulated(seed: int, look: Look) -> None:
    """Play a seed of the simulation, and look at its core again and again."""
    _Watched(seed, look).play()


class _Watched(Run):
    def __init__(self, seed: int, look: Look) -> None:
        super().__init__(draw(seed))
        self._watcher, self._due = look, 0.0

    def _look(self) -> None:
        super()._look()
        if self.world.clock.now >= self._due and self.world.extender is not None:
            self._due = self.world.clock.now + _EVERY_S
            self._watcher(self.world.extender.core, self.world.clock.now)


def queued(seed: int, look: Look) -> None:
    """Play a random course of queues, with fair sharing, and look at its core again and again."""
    course, script = Course(seed), Script(limits=Limits(fair_sharing=True), checked=10_000)
    course.begin(script)
    show(script, *(Cohort(f"tree-{number}") for number in range(2)))
    for number in range(_STEPS):
        carry_out(script, course.step())
        if number % 10 == 9:
            look(script.core, script.now)


def small_cluster() -> Script:
    """Return a gang that waits under the name that the document has as its example, one that runs, and a queue."""
    running = [replace(pod, node=f"a-{at}") for at, pod in enumerate(gang("train", 2))]
    waiting = [replace(pod, namespace="team-a") for pod in gang("job-train", 2, topology=Topology(required="clique"))]
    script = Script(*cluster("a: 3x8", "b: 1x8"), *running, *waiting)
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 8}))
    script.advance(0.5)
    return script


def by_hand() -> Iterator[Script]:
    """Yield cores in states that the simulation seldom has."""
    # Labels that nest, are missing, and contradict each other.
    rows = {"p": ("r1", "w1"), "q": ("r1", "w2"), "r": ("r2", "w2")}
    nodes = [node(name, labels={"rack": rack, "row": row}) for name, (rack, row) in rows.items()]
    for levels in ((), levels_from(("rack", "row"))):
        yield Script(*nodes, node("s"), levels=levels)
    # A pod that would be evicted.
    yield Script(*cluster("a: 1x8"), single("dev", gpus=8, node="a-0"), *gang("wait", 1, priority=10))
    # A gang that would start if another one moved.
    movable = Script(*cluster("a: 2x8"))
    terms = EvictionTerms(restartable=True)
    for name, gpus in (("large", 6), ("small", 4)):
        members = gang(name, 1, gpus=gpus, eviction=terms)
        movable.see(members)
        movable.run(members)
    movable.see(gang("wait", 1, gpus=4))
    movable.see(gang("big", 1))
    yield movable
    # A bind request that waits for the other one.
    members = gang("half", 2)
    held = Script(*cluster("a: 2x8"), *members)
    held.bind(members[0])
    yield held
    # A node that kube-scheduler refused.
    members = gang("train", 4, gpus=1)
    refused = Script(*cluster("a: 2x3"), *members)
    refused.bind_all(members[:2])
    refused.change(
        members[2], refusal="0/2 nodes are available: 2 node(s) exceed max volume count.", nominated_node=None
    )
    yield refused
    # A queue that cannot be used, and a warning.
    wrong = Script(*cluster("a: 1x8"), limits=Limits(), checked=10_000)
    wrong.feed(QueueSeen(cluster_queue("team", {"nowhere": 8}), warnings=("it has no cohort",)))
    wrong.advance(1)
    yield wrong
    # A ComputeDomain in two cliques, and a gang that is promised channels.
    split = racks("a: 3x8", "b: 1x8", domains=("other",))
    split.feed(domain("train", nodes=4))
    split.feed(template("train"))
    members = in_domain("train", 1)
    split.see(members, in_domain("other", 1))
    split.run(members)
    split.feed(allocated(members[0], "train", "b-0"))
    for clique_node in (split.core.state.claims.nodes[name] for name in ("a-0", "b-0")):
        split.feed(NodeSeen(replace(clique_node, labels={**clique_node.labels, LABEL: "uid-train"})))
    split.advance(1)
    yield split
    # A gang that would start if others moved, one of which writes checkpoints.
    scattered = Script(*cluster("-: 2x8"))
    restartable = EvictionTerms(restartable=True)
    for name, size, where, terms in (
        ("large", 6, "n-0", restartable),
        ("saved", 1, "n-1", restartable._replace(checkpointed=scattered.now)),
        ("small", 1, "n-1", restartable),
    ):
        there = Selection(affinity=((Requirement("metadata.name", "In", (where,), is_field=True),),))
        pods = gang(name, 1, gpus=size, eviction=terms, created=scattered.now, selection=there)
        scattered.see(pods)
        scattered.run(pods)
    scattered.see(gang("train", 1, gpus=8))
    scattered.advance(600)
    yield scattered
    # A gang that is expected to start when another one ends.
    later = Backlog(*cluster("a: 1x8"), limits=Limits(forecast_s=60))
    later.start("first", 1, 1000)
    later.wait("next", 1, 100)
    later.advance(61)
    yield later
    # A job without pods.
    suspended = Script(*cluster("a: 1x8"))
    Controlled(suspended, replace(job(1), held=True))
    yield suspended


def measured() -> list[Answer]:
    """The answers while the use of GPUs is known: of a queue's idle job with MIG instances, and of its node."""
    script = Script(*cluster("a: 1x8"), checked=10_000)
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 8}))
    Controlled(script, replace(job(1), queue="team")).run()
    script.advance(2)
    pod = next(pod for pod in script.core.state.pods.values() if pod.node)
    names, load = ((pod.namespace, pod.name),), Load(2, 5.0)
    loads = Loads((Measured(names, ("a-0",), "1g.10gb", load),), {names[0]: {"1g.10gb": load}})
    known = Utilisation(on=True, below_percent=10.0, window_s=1, loads=loads, at=script.now - 1)
    problem = Utilisation(on=True, problem="no answer")
    return [answer for each in (known, problem) for answer in answers_of(script.core, script.now, each)]


def self_checks() -> list[Answer]:
    """The self-check before its first round, and while it confirms differences that the last round has found alone."""
    core = Engine()
    verifier = Verifier(
        Runner(core, Written()), Engine, tuple, every_s=600.0, restart=lambda: None, report=lambda _: None
    )
    before = verified(verifier, 1.0)
    check = verifier.check = Check(core, Engine(), [Synced()], 1.0)
    next(check.steps())
    verifier.rounds, verifier.restarts, verifier.confirming = 2, 1, True
    verifier.begin()
    difference = Difference(Kind.CLAIMS, "pod team-a/train-0", "bound on node-1 with 1 cpu", "no room")
    left_out = {"its members are promised nodes": 2}
    verifier.last = Result(
        0.5, 4.2, (difference,), 1, {Kind.CLAIMS: 4096}, left_out, "another core has begun meanwhile"
    )
    bodies = (view.model_dump_json().encode() for view in (before, verified(verifier, 1.0)))
    return [Answer(f"{PREFIX}/verify", body) for body in bodies]
