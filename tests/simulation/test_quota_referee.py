"""The referee's count of used quota."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from extender.core.answers import BindingPosted, Outcome
from extender.core.effects import Effect, Milestone, Reached, StartJob, SuspendJob
from extender.core.events import Event, JobSeen, NodeSeen, PodGone, PodSeen, QueueGone, QueueSeen, Synced, Tick
from policies.model import NodeWait, Pod, Reservation, Victim
from policies.model.queues import VOLCANO, Evicts, LocalQueue, Preemption, QueueObject, VolcanoQueue
from tests.builders import GPU, cluster, gang, key, requests
from tests.core.queues import cluster_queue, flavor
from tests.simulation.admissions import Admissions
from tests.simulation.claims import Claims
from tests.simulation.doubts import DOUBT_S
from tests.simulation.job_orders import judge_job
from tests.simulation.judged_life import batch
from tests.simulation.lives import nomination, posting
from tests.simulation.model.batch import BatchJob, written
from tests.simulation.queue_plan import FLAVOR
from tests.simulation.quota import ALL_NODES, QuotaJudge
from tests.simulation.reclaims import Reclaims
from tests.simulation.shown import Shown


class Life:
    """A life of an extender, with a queue that may use 8 GPUs of the only flavor."""

    def __init__(self, flavor_of_nodes: str = "fast", *things: QueueObject) -> None:
        self.now = 0.0
        self.shown = Shown()
        self.admissions = Admissions(self.shown, calm=False, creation_s=30.0)
        self.claims = Claims(self.shown, 60.0, self.admissions)
        self.quota = QuotaJudge(self.shown, self.claims)
        for node in cluster("a: 4x8"):
            self.tell(NodeSeen(replace(node, labels={**node.labels, FLAVOR: flavor_of_nodes})))
        kueues = flavor("fast"), cluster_queue("team", {"fast": 8}), LocalQueue("default", "team", "team")
        for thing in things or kueues:
            self.tell(QueueSeen(thing))
        self.now = 1000.0  # queue objects of before that do not count any more

    def tell(self, event: Event) -> None:
        self.shown.watch(event)
        self.claims.hear(event, self.now)
        self.admissions.hear(event, self.now)
        self.quota.hear(event, self.now)

    def ask(self, effect: Effect) -> str | None:
        complaint = self.quota.judge(effect, self.now)
        if isinstance(effect, SuspendJob) and not self.quota.bears_out(effect.job, self.now):
            self.admissions.disprove(effect)
        complaint = complaint or judge_job(effect, self.admissions, [], self.now)
        self.claims.apply(effect, Tick())
        return complaint

    def bind(self, pod: Pod, node: str) -> str | None:
        """Show the pod, promise it that node, and bind it there; returns the fault."""
        self.tell(PodSeen(pod))
        self.ask(nomination(pod, node))
        return self.ask(posting(pod, node))


def member(name: str, queue: str = "team") -> Pod:
    return replace(gang(name, 1)[0], queue=queue)


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_pod_that_may_have_been_bound_uses_quota_until_its_gang_is_forgotten(*, forgotten: bool) -> None:
    life, pod = Life(), member("first")
    assert not life.bind(pod, "a-0")
    life.tell(BindingPosted(pod.uid, Outcome.UNKNOWN))
    life.now += DOUBT_S
    life.tell(Tick())
    if forgotten:
        life.ask(Reached(key("first"), Milestone.FORGOTTEN, 1, 0.0))
    assert bool(life.bind(member("second"), "a-1")) is not forgotten


def test_a_queue_of_volcano_may_use_its_capability_and_no_more() -> None:
    life = Life(ALL_NODES, VolcanoQueue("team", capability={GPU: 8}), VolcanoQueue("other"))
    assert not life.bind(member("first", f"{VOLCANO}team"), "a-0")
    assert not life.bind(member("free", f"{VOLCANO}other"), "a-1")
    complaint = life.bind(member("second", f"{VOLCANO}team"), "a-2")
    assert complaint is not None
    assert complaint.endswith("volcano/team would use 16 GPUs of 8")


def test_what_a_queue_of_volcano_is_guaranteed_of_the_nodes_is_for_no_other() -> None:
    life = Life(ALL_NODES, VolcanoQueue("team"), VolcanoQueue("safe", guarantee={GPU: 24}))
    assert not life.bind(member("first", f"{VOLCANO}team"), "a-0")
    complaint = life.bind(member("second", f"{VOLCANO}team"), "a-1")
    assert complaint is not None
    assert complaint.endswith("cohort volcano/root would use 16 GPUs of 8")
    assert not life.bind(member("third", f"{VOLCANO}safe"), "a-2")


def test_a_pod_that_was_bound_though_the_answer_said_nothing_uses_quota() -> None:
    life, pod = Life(), member("first")
    assert not life.bind(pod, "a-0")
    life.tell(BindingPosted(pod.uid, Outcome.UNKNOWN))
    life.ask(Reached(key("first"), Milestone.FORGOTTEN, 1, 0.0))
    life.tell(PodSeen(replace(pod, node="a-0")))
    assert life.bind(member("second"), "a-1")


@pytest.mark.parametrize(("phase", "free"), [("Succeeded", True), ("Failed", False)])
def test_a_slot_whose_pod_has_succeeded_uses_no_quota_when_that_is_gone(phase: str, *, free: bool) -> None:
    """``free``: else its controller makes another one."""
    life, job = Life(), replace(batch(1), queue="team")
    life.tell(JobSeen(job.shown()))
    start = StartJob(job.shown(), {"": ("a-0",)}, 1)
    assert not life.ask(start)
    started = written(job, start)
    assert isinstance(started, BatchJob)
    pod = replace(started.pod(job.podsets[0], 0, "pod-0", 0.0), node="a-0")
    for event in (JobSeen(started.shown()), PodSeen(pod), PodSeen(replace(pod, phase=phase)), PodGone(pod.uid)):
        life.tell(event)
    assert bool(life.bind(member("other"), "a-1")) is not free


@pytest.mark.parametrize("ends", [True, False])
def test_a_job_that_others_have_started_uses_quota_from_the_beginning_of_a_life(*, ends: bool) -> None:
    """``ends``: until it is suspended."""
    life, older = Life(), replace(batch(1), queue="team", suspended=False, ran=True)
    life.tell(JobSeen(older.shown()))
    life.tell(Synced())
    if ends:
        life.tell(JobSeen(replace(older, suspended=True).shown()))
    complaint = life.bind(member("first"), "a-0")
    assert (complaint is None) if ends else (complaint or "").endswith("team would use 16 GPUs of 8")


def test_who_was_planned_before_a_job_was_started_by_others_may_be_bound_for_a_while() -> None:
    life, older = Life(), replace(batch(1), queue="team", suspended=False, ran=True)
    life.tell(Synced())
    life.tell(JobSeen(older.shown()))
    first = member("first")
    assert not life.bind(first, "a-0")
    life.tell(BindingPosted(first.uid, Outcome.REFUSED))
    life.now += 1000.0
    assert (life.bind(member("second"), "a-1") or "").endswith("team would use 16 GPUs of 8")


@pytest.mark.parametrize("bound", [1, 2])
def test_a_plan_of_what_is_bound_already_uses_no_more_quota(bound: int) -> None:
    """The outcome of the write of the job's plan is unknown; meanwhile its queue has less."""
    life, job = Life(), replace(batch(2), queue="team")
    led = written(job, StartJob(job.shown(), {}, 2, {"": {GPU: "fast"}}, node_wait=NodeWait(1100.0, 1)))
    assert isinstance(led, BatchJob)
    life.tell(JobSeen(led.shown()))
    for at in range(2):
        pod = led.pod(job.podsets[0], at, f"pod-{at}", 0.0)
        life.tell(PodSeen(replace(pod, gates=(), node=f"a-{at}") if at < bound else pod))
    complaint = life.ask(StartJob(led.shown(), {"": ("a-0", "a-1")}, 2, {"": {GPU: "fast"}}))
    assert bool(complaint) is (bound < 2)


@pytest.mark.parametrize(("worker", "leader", "blamed"), [("a-0", "b-0", False), ("b-0", "a-0", True)])
def test_a_start_is_blamed_for_quota_of_those_flavors_alone_of_which_it_asks_for_gpus(
    worker: str, leader: str, *, blamed: bool
) -> None:
    """The usage of slow by others exceeds the quota. On a node of it the leader, which requests no GPU, uses none."""
    queue = cluster_queue("team", {"fast": 8, "slow": 4})
    life, others = (
        Life("fast", flavor("fast"), flavor("slow"), queue, LocalQueue("default", "team", "team")),
        member("b"),
    )
    (slow,) = cluster("b: 1x16")
    life.tell(NodeSeen(replace(slow, labels={**slow.labels, FLAVOR: "slow"})))
    life.tell(PodSeen(replace(others, node="b-0")))
    life.tell(Synced())
    job = replace(batch(1), queue="team")
    (workers,) = job.podsets
    leaders = replace(workers, template=replace(workers.template, series="leader", requests=requests(0)))
    job = replace(job, podsets=(workers, leaders))
    life.tell(JobSeen(job.shown()))
    complaint = life.ask(StartJob(job.shown(), {"": (worker,), "leader": (leader,)}, 2))
    assert bool(complaint) is blamed


@pytest.mark.parametrize("borrows", [False, True])
@pytest.mark.parametrize("indexed", [False, True])
def test_a_queue_borrows_for_the_slots_of_a_job_whose_pods_are_yet_to_come(*, indexed: bool, borrows: bool) -> None:
    ours = cluster_queue("team", {"fast": 16}, cohort="all", preemption=Preemption(reclaim=Evicts.ANY))
    theirs = cluster_queue("lent", {"fast": 8 if borrows else 16}, cohort="all")
    queues = (LocalQueue("default", name, name) for name in ("team", "lent"))
    life, job = Life("fast", flavor("fast"), ours, theirs, *queues), replace(batch(1, indexed=indexed), queue="lent")
    life.tell(PodSeen(replace(member("there", "lent"), node="a-0")))
    life.tell(Synced())
    life.tell(JobSeen(job.shown()))
    assert not life.ask(StartJob(job.shown(), {"": ("a-1",)}, 1))
    life.tell(PodSeen(member("new")))
    reservation = Reservation((("a-0", requests(8)),), (Victim(key("there")),), 60.0)
    complaints = [*Reclaims(life.shown, life.quota, fair=False).judge(key("new"), reservation, (), life.now)]
    assert bool(complaints) is not borrows


@pytest.mark.parametrize("given_way", [False, True])
def test_what_already_gives_way_to_others_does_not_saturate_a_queue(*, given_way: bool) -> None:
    """The queue would use 16 of its 4, or 8 after the eviction of its own workload by a third one.

    The other queue uses 16 of its 4.
    """
    ours = cluster_queue("team", {"fast": 4}, cohort="all", preemption=Preemption(reclaim=Evicts.ANY))
    theirs = cluster_queue("lent", {"fast": 4}, cohort="all")
    life = Life("fast", flavor("fast"), ours, theirs, *(LocalQueue("default", name, name) for name in ("team", "lent")))
    for name, node, queue in (("there", "a-0", "lent"), ("too", "a-1", "lent"), ("going", "a-2", "team")):
        life.tell(PodSeen(replace(member(name, queue), node=node)))
    life.tell(Synced())
    life.tell(PodSeen(member("new")))
    reservation = Reservation((("a-0", requests(8)),), (Victim(key("there")),), 60.0)
    others = [Reservation((), (Victim(key("going")),), 60.0)] if given_way else []
    reclaims = Reclaims(life.shown, life.quota, fair=True, saturation=Fraction(1))
    assert bool([*reclaims.judge(key("new"), reservation, others, life.now)]) is not given_way


@pytest.mark.parametrize("gpus", [0, 8])
def test_a_member_that_asks_for_no_gpu_completes_a_broken_start_on_a_node_of_any_flavor(gpus: int) -> None:
    queue = cluster_queue("team", {"fast": 64, "slow": 64})
    life = Life("fast", flavor("fast"), flavor("slow"), queue, LocalQueue("default", "team", "team"))
    (slow,) = cluster("b: 1x16")
    life.tell(NodeSeen(replace(slow, labels={**slow.labels, FLAVOR: "slow"})))
    here, there = (replace(pod, queue="team", requests=requests(gpus)) for pod in gang("train", 2))
    for pod in (replace(here, node="a-0"), there):
        life.tell(PodSeen(pod))
    life.ask(Reached(key("train"), Milestone.BROKEN, 2, 0.0))
    assert bool(life.ask(nomination(there, "b-0"))) is bool(gpus)


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize(
    ("quota", "others", "ours", "bound", "may"),
    [
        (0, 0, False, False, True),
        (8, 0, False, False, False),
        (8, 8, False, False, True),
        (16, 8, False, False, False),
        (0, 0, True, False, False),
        (0, 0, False, True, False),
    ],
)
def test_a_start_of_an_earlier_life_without_bound_pods_holds_as_far_as_its_queue_has_quota(
    quota: int, others: int, *, indexed: bool, ours: bool, bound: bool, may: bool
) -> None:
    """Seed 604000034: the queue lost its quota while Muster was down.

    ``others``: the GPUs that the queue uses beside the job.
    ``ours``: the judged life has started the job.
    """
    life, spec = Life(), replace(batch(1, indexed=indexed), queue="team")
    start = StartJob(spec.shown(), {"": ("a-0",)}, 1)
    started = written(spec, start)
    assert isinstance(started, BatchJob)
    if others:
        life.tell(PodSeen(replace(member("there"), node="a-1")))
    if ours:
        life.tell(JobSeen(spec.shown()))
        assert not life.ask(start)
    life.tell(JobSeen(started.shown()))
    pod = started.pod(spec.podsets[0], 0, "pod-0", 0.0)
    life.tell(PodSeen(replace(pod, node="a-0") if bound else pod))
    life.tell(QueueSeen(cluster_queue("team", {"fast": quota})))
    life.tell(Tick() if ours else Synced())
    unfounded = "the start that is written on it does not hold: ClusterQueue team has no quota for its GPUs"
    complaint = life.ask(SuspendJob(started.shown(), unfounded))
    assert ("without a cause" in (complaint or "")) is not may


@pytest.mark.parametrize("gone", [LocalQueue("default", "team", "team"), cluster_queue("team", {"fast": 8}), None])
@pytest.mark.parametrize("words", ["there is no LocalQueue team", "LocalQueue team points to ClusterQueue team"])
def test_what_the_queue_is_decides_whether_a_start_holds_and_not_the_words_of_the_reason(
    gone: QueueObject | None, words: str
) -> None:
    """Seed 20206: a ClusterQueue was deleted while Muster was down."""
    life, spec = Life(), replace(batch(1), queue="team")
    started = written(spec, StartJob(spec.shown(), {"": ("a-0",)}, 1))
    assert isinstance(started, BatchJob)
    life.tell(JobSeen(started.shown()))
    if gone is not None:
        life.tell(QueueGone(gone))
    life.tell(Synced())
    complaint = life.ask(SuspendJob(started.shown(), f"the start that is written on it does not hold: {words}"))
    assert ("without a cause" in (complaint or "")) is (gone is None)
