"""Nodes that are made in the campaign, and the referee's book of jobs that await some."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from extender.core.effects import CleanJob, Milestone, Reached, Reserve, StartJob, Ungate
from extender.core.events import JobSeen, PodGone, PodSeen, QueueSeen, Synced
from extender.core.jobs.elastic import CapacityAsk
from extender.simulation.clock import Clock
from policies.model import (
    Constraints,
    Job,
    NodeWait,
    Pod,
    Requests,
    Requirement,
    Reservation,
    Selection,
    Taint,
    Term,
    Toleration,
    Victim,
)
from policies.model.queues import LocalQueue, ResourceFlavor
from tests.builders import GPU, gang, key, node, requests
from tests.core.jobs import job, template
from tests.core.queues import cluster_queue
from tests.simulation.awaited_nodes import GangsAwaitingNodes, JobsAwaitingNodes
from tests.simulation.drawing import draw
from tests.simulation.elastic_plan import has_elastic, has_taints
from tests.simulation.judged_life import batch
from tests.simulation.made_nodes import AskedNodes
from tests.simulation.model.agents import Platform
from tests.simulation.model.apiserver import ApiServer
from tests.simulation.model.autoscaler import Autoscaler, Pool, Whim
from tests.simulation.model.batch import BatchJob, written
from tests.simulation.model.world import World
from tests.simulation.queue_plan import FLAVOR, MADE, MADE_TAINT, MADE_TOLERATION
from tests.simulation.referee import Referee
from tests.simulation.relation_plan import has_relations
from tests.simulation.rest import could_await_nodes
from tests.simulation.shown import Shown
from tests.simulation.terms import Terms

POOL = Pool(node(MADE, 8, labels={FLAVOR: MADE}), (Whim.WHOLE,), delay_s=1.0, late_s=50.0, idle_s=10.0, most=4)
REFUSED = Pod("", "default", "", requests(8), refusal="0/0 nodes", selection=Selection(((FLAVOR, MADE),)))


class Scene:
    def __init__(self, pool: Pool = POOL, *daemons: Requests) -> None:
        self.api, self.clock = ApiServer(), Clock(0.0)
        self.autoscaler = Autoscaler(self.api, self.clock, Random(1), pool, daemons)

    def want(self, *names: str, **facts: object) -> None:
        for name in names:
            self.api.create_pod(replace(REFUSED, uid=name, name=name, **facts))  # type: ignore[arg-type]

    def after(self, seconds: float) -> int:
        """How many nodes there are then."""
        self.clock.run(self.clock.now + seconds)
        return len(self.api.nodes)


def test_it_makes_no_node_of_which_daemons_leave_too_little() -> None:
    """Seed 7500554: it made 3,300 nodes for a pod that asked for all that a node lists."""
    it = Scene(POOL, (("cpu", 100), ("pods", 1)))
    it.want("too-large", requests=requests(8, cpu=64))
    assert it.after(10.0) == 0
    it.want("fits", requests=requests(8, cpu=63))
    assert it.after(10.0) == 1


def test_it_makes_as_many_nodes_as_pods_need_that_kube_scheduler_has_marked() -> None:
    it = Scene()
    it.want("a", "b")
    it.want("c", "d", requests=requests(4))
    it.want("gated", gates=("muster.dev/gang",))
    it.want("untried", refusal=None)
    it.want("elsewhere", selection=Selection(((FLAVOR, "fast"),)))
    assert it.after(4.0) == 3
    assert {node.labels[FLAVOR] for node in it.api.nodes.values()} == {MADE}
    assert it.after(60.0) == 3, "they wait for these"


def test_it_makes_no_more_than_it_may_until_it_is_healed() -> None:
    it = Scene()
    it.want(*"abcdef")
    assert it.after(30.0) == 4
    it.autoscaler.heal()
    assert it.after(10.0) == 6


@pytest.mark.parametrize(("whim", "soon", "later"), [(Whim.LATE, 0, 4), (Whim.NEVER, 0, 0)])
def test_some_come_too_late_and_some_never(whim: Whim, soon: int, later: int) -> None:
    it = Scene(replace(POOL, whims=(whim,)))
    it.want(*"abcd")
    assert (it.after(40.0), it.after(30.0)) == (soon, later)


def test_what_nobody_needs_goes_unless_it_is_to_stay() -> None:
    it = Scene()
    it.autoscaler.stays = lambda name: name == "m01"
    it.want("a", "b")
    assert it.after(20.0) == 2
    for uid in ("a", "b"):
        it.api.delete_pod(uid)
    assert it.after(20.0) == 1
    assert list(it.api.nodes) == ["m01"]


def test_a_pod_waits_for_an_empty_node_beside_a_smaller_one_that_it_has_to_be_near() -> None:
    """Seed 40678: a new node was made for such a pod each 2 s, while empty ones were taken away."""
    it = Scene()
    near = Constraints(affinity=(Term(FLAVOR, (Requirement("app", "In", ("small",)),), ("default",)),))
    it.want("large", constraints=near)
    it.want("small", requests=requests(4), labels=(("app", "small"),))
    assert it.after(60.0) == 2
    assert list(it.api.nodes) == ["m00", "m01"]


UNPLANNED = StartJob(
    replace(job(2), queue="team"), {}, 2, {"": {GPU: MADE}},
    node_wait=NodeWait(100.0, 1), labels={"": ((FLAVOR, MADE),)}, awaits_s=50.0,
)  # fmt: skip
SHOWN = replace(
    UNPLANNED.job, suspended=False, stopped=False, marked=True, node_wait=UNPLANNED.node_wait, flavors=UNPLANNED.flavors
)


def book(seen: Job = SHOWN) -> JobsAwaitingNodes:
    it = JobsAwaitingNodes()
    assert it.start(UNPLANNED, 50.0) is None
    it.hear(JobSeen(UNPLANNED.job), 50.5)
    it.hear(JobSeen(seen), 51.0)
    return it


@pytest.mark.parametrize(
    ("effect", "complaint"),
    [
        (replace(UNPLANNED, plan={"": ("a", "b")}), "and with a plan"),
        (replace(UNPLANNED, flavors={"": {GPU: "fast"}}), "none of its flavors is made on demand"),
        (replace(UNPLANNED, labels={}), "no autoscaler would make nodes of made for ''"),
        (replace(UNPLANNED, awaits_s=45.0), "is to be let go until 100.0 s, and is told to wait 45.0 s"),
    ],
)
def test_a_job_is_started_without_nodes_to_have_nodes_made(effect: StartJob, complaint: str) -> None:
    assert complaint in (JobsAwaitingNodes().start(effect, 50.0) or "")


@pytest.mark.parametrize("own", [(), (MADE_TOLERATION,)])
@pytest.mark.parametrize("given", [{}, {"": (MADE_TOLERATION,)}])
def test_its_pods_tolerate_the_taint_of_its_flavor(
    own: tuple[Toleration, ...], given: dict[str, tuple[Toleration, ...]]
) -> None:
    (podset,) = UNPLANNED.job.podsets.podsets
    tolerant = replace(podset, template=replace(podset.template, selection=Selection(tolerations=own)))
    it, wanted = (
        JobsAwaitingNodes(),
        replace(UNPLANNED.job, podsets=replace(UNPLANNED.job.podsets, podsets=(tolerant,))),
    )
    it.hear(QueueSeen(ResourceFlavor(MADE, {FLAVOR: MADE}, taints=(MADE_TAINT,))), 1.0)
    complaint = it.start(replace(UNPLANNED, job=wanted, tolerations=given), 50.0)
    assert bool(complaint) is not bool(own or given)


def test_pods_of_a_job_tolerate_what_was_written_when_it_was_started() -> None:
    spec = batch(1)
    led = written(spec, replace(UNPLANNED, job=spec.shown(), tolerations={"": (MADE_TOLERATION,)}))
    assert isinstance(led, BatchJob)
    assert led.pod(led.podsets[0], 0, "pod", 0.0).selection.tolerations == (MADE_TOLERATION,)
    clean = written(replace(led, suspended=True, idle=True), CleanJob(led.shown()))
    assert isinstance(clean, BatchJob)
    assert not clean.pod(clean.podsets[0], 0, "pod", 0.0).selection.tolerations


def test_it_awaits_its_nodes_until_its_deadline() -> None:
    it = book()
    assert "awaits its nodes until 100.0 s" in (it.judge_suspension(SHOWN.key, SHOWN, 80.0) or "")
    assert it.judge_suspension(SHOWN.key, SHOWN, 100.0) is None
    assert it.late({SHOWN.key: 0.0}, 101.0) is None
    assert "until 100.0 s only" in (it.late({SHOWN.key: 0.0}, 106.0) or "")
    assert it.late({}, 106.0) is None, "something is asked for"
    assert it.late({SHOWN.key: 120.0}, 106.0) is None, "a write has failed"


def test_what_changes_may_end_it_before() -> None:
    it = book()
    assert it.judge_suspension(SHOWN.key, replace(SHOWN, held=True), 80.0) is None
    assert it.judge_suspension(SHOWN.key, replace(SHOWN, podsets=job(3).podsets), 80.0) is None
    it.hear(QueueSeen(ResourceFlavor("fast")), 70.0)
    assert it.judge_suspension(SHOWN.key, SHOWN, 80.0) is None


def test_it_is_planned_when_there_are_nodes() -> None:
    it = book()
    assert it.roomy({SHOWN.key}, 60.0) is None
    assert it.roomy({SHOWN.key}, 64.0) is None
    assert "there have been some" in (it.roomy({SHOWN.key}, 66.0) or "")


def test_nobody_gives_way_to_one_that_awaits_nodes() -> None:
    referee, reservation = Referee(Terms(calm=False, preempts=True)), Reservation((), (Victim(key("other")),), 60.0)
    referee._shown.watch(JobSeen(SHOWN))
    effect = Reserve(SHOWN.key, None, SHOWN, reservation)
    assert "awaits" not in (referee._evictions.judge([effect], 60.0) or "")
    referee._admissions.awaiting.hear(JobSeen(SHOWN), 55.0)
    assert "is let go and awaits nodes" in (referee._evictions.judge([effect], 60.0) or "")


@pytest.mark.parametrize("stands_still", [False, True])
def test_a_request_is_not_late_while_the_extender_stands_still(*, stands_still: bool) -> None:
    """Seed 5907554: the extender stood still from 31 to 71 s."""
    it, asks = AskedNodes(15.0), (CapacityAsk(SHOWN.key, SHOWN.owner, (), 1),)
    assert it.look(asks, 28.0) is None
    if stands_still:
        it.pardon(71.0)
    assert it.look(asks, 63.0) is None
    assert ("asks for nodes since 28.0 s" in (it.look(asks, 64.0) or "")) is not stands_still
    assert it.look(asks, 106.0) is None or not stands_still
    assert "asks for nodes since 28.0 s" in (it.look(asks, 107.0) or "")


@pytest.mark.parametrize(
    ("milestone", "goes"), [(Milestone.UNRESERVED, False), (Milestone.STARTED, False), (Milestone.FORGOTTEN, True)]
)
def test_a_gang_awaits_nodes_once_ungated_without_a_plan(milestone: Milestone, *, goes: bool) -> None:
    shown, (member,) = Shown(), gang("train", 1)
    shown.watch(PodSeen(member))
    it = GangsAwaitingNodes(shown, 10.0)
    effects = [Reached(key("train"), reached, 1, 0.0) for reached in (Milestone.PLANNED, milestone)]
    for effect in effects:
        assert not it.watch([effect], {}, 1.0)
    ungated = Ungate(member.uid, "default", member.name, key("train"), ())
    assert bool(it.watch([ungated], {}, 2.0)) is goes


def test_a_gate_that_is_taken_off_once_more_does_not_let_its_gang_go_anew() -> None:
    """Seed 990000074 of the campaign: the write failed, and was repeated when queues had changed."""
    shown, (member,) = Shown(), gang("train", 1)
    shown.watch(PodSeen(member))
    it, ungated = GangsAwaitingNodes(shown, 10.0), Ungate(member.uid, "default", member.name, key("train"), ())
    assert it.watch([ungated], {}, 1.0) == [key("train")]
    it.hear(Synced(0.0))
    assert not it.watch([ungated], {}, 6.0)
    again = replace(member, uid="another", name="another")
    shown.watch(PodGone(member.uid))
    shown.watch(PodSeen(again))
    assert it.watch([replace(ungated, uid=again.uid)], {}, 7.0) == [key("train")]


@pytest.mark.parametrize(("tolerates", "could"), [(False, False), (True, True)])
def test_at_rest_a_job_may_wait_whose_pods_without_gpus_have_no_node_anywhere(*, tolerates: bool, could: bool) -> None:
    """The nodes that are made for its other pods are closed to these."""
    flavor = ResourceFlavor(MADE, {FLAVOR: MADE}, (MADE_TAINT,), (MADE_TOLERATION,))
    things = (flavor, cluster_queue("team", {MADE: 8}), LocalQueue("default", "team", "team"))
    there = node("n0", 8, taints=(Taint("dedicated", "others", "NoSchedule"),))
    made = replace(POOL, node=replace(POOL.node, taints=(MADE_TAINT,)))
    world = World(7, (there,), None, queues=things, pool=made)
    own = Selection(tolerations=(MADE_TOLERATION,) if tolerates else ())
    worker, launcher = template("train", 8), template("train", 0, "launcher", selection=own)
    assert could_await_nodes(world, key("train"), "team", (worker, launcher)) is could
    world.api.set_node(node("n1", 0))
    assert could_await_nodes(world, key("train"), "team", (worker, launcher))


@pytest.mark.parametrize(("cores", "could"), [(63, True), (64, False)])
def test_at_rest_a_job_may_wait_that_leaves_no_room_to_the_daemons_of_a_made_node(*, cores: int, could: bool) -> None:
    """Seed 7300514: its pods asked for all 64 cores that such a node lists, and kube-proxy was there first."""
    queue, flavor = cluster_queue("team", {MADE: 8}), ResourceFlavor(MADE, {FLAVOR: MADE})
    things = (flavor, queue, LocalQueue("default", "team", "team"))
    daemons = Platform({}, {}, {"kube-proxy": (("cpu", 100), ("pods", 1))})
    world = World(7, (), None, queues=things, pool=POOL, platform=daemons)
    pod = template("train", requests=requests(8, cores))
    assert could_await_nodes(world, key("train"), "team", (pod,)) is could


def test_one_in_forty_seeds_has_such_nodes_and_no_other_is_changed() -> None:
    plans = [draw(seed) for seed in range(1, 600)]
    assert all((plan.elastic is not None) == has_elastic(plan.seed) for plan in plans)
    with_nodes = [plan for plan in plans if plan.elastic is not None]
    assert len(with_nodes) == 15
    assert sum(has_relations(plan.seed) for plan in with_nodes) == 2
    assert [plan.seed for plan in with_nodes if plan.owners] == [554, 568, 598]
    assert any(plan.calm for plan in with_nodes)
    assert all(plan.queues.things and plan.batch.jobs for plan in with_nodes)
    assert not any(plan.limits.elastic.flavors for plan in plans if plan.elastic is None)
    tainted = [plan.seed for plan in with_nodes if plan.elastic is not None and plan.elastic.tainted]
    assert tainted == [plan.seed for plan in with_nodes if has_taints(plan.seed)] == [434, 448, 478]
