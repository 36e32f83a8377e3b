"""The attacks of a hostile tenant through objects of his own namespace. Each trick can be switched on by name.

He has every right on pods, jobs and PodGroups there, and none elsewhere. He may write each key that Muster reads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

from policies.model import (
    Dialect,
    GroupKey,
    GroupRef,
    InVain,
    Node,
    NodeWait,
    PlannedNodes,
    Pod,
    PodSet,
    Requests,
    Reservation,
    Stamp,
    Victim,
    stamped_group,
)
from tests.simulation.model.batch import BatchJob, resume
from tests.simulation.model.job_specs import JobSpec, Role
from tests.simulation.model.world import World

OURS, THEIRS = "team-a", "team-b"
"""The namespace of the tenant, and that of his neighbours."""
QUEUES = {OURS: "queue-a", THEIRS: "queue-b"}


@dataclass
class Tenant:
    """The tenant. ``policed``: whether the admission policies exist. He tries even what they refuse him."""

    world: World
    random: Random
    device: Requests
    policed: bool
    made: int = 0
    played: list[str] = field(default_factory=list)
    restarts: int = 0
    restamped: set[str] = field(default_factory=set)
    """Pods on nodes whose stamps he has changed."""

    @property
    def nodes(self) -> list[Node]:
        return list(self.world.api.nodes.values())

    def job(self, count: int, *, blocked: bool = False, priority: int = 0, queue: str = QUEUES[OURS]) -> BatchJob:
        """Create a job. ``blocked``: none of its pods ever comes, as a ResourceQuota does it."""
        self.made += 1
        job = job_of(OURS, f"evil{self.made}", count, self.device, queue=queue, priority=priority)
        if blocked:
            self.world.controller.blocked[job.key] = None
        self.world.api.set_job(job)
        return job

    def edit(self, key: GroupKey, **facts: object) -> None:
        """Write to one of his jobs, past every policy."""
        if (job := self.world.api.jobs.get(key)) is not None and not job.ended:
            self.world.api.set_job(replace(job, **facts))  # type: ignore[arg-type]

    def forge(self, key: GroupKey, **facts: object) -> None:
        """Write keys of Muster on one of his jobs: the policies refuse that to all but Muster."""
        if not self.policed:
            self.edit(key, **facts)

    def change(self, pod: Pod, **facts: object) -> None:
        """Write to one of his pods, past every policy."""
        self.world.api.change_pod(pod.uid, **facts)

    def move(self, pod: Pod, **facts: object) -> None:
        """Take a pod on a node to another gang or queue, or write a key of Muster on a pod: the policies refuse both.

        Muster reads from it what ``pod_of`` reads.
        """
        if self.policed:
            return
        facts["stamp"] = stamp = facts.get("stamp", pod.stamp) if pod.node else None
        if pod.node:
            facts["group"] = stamped_group(facts.get("group", pod.group), stamp)  # type: ignore[arg-type]
        self.change(pod, **facts)

    def some_job(self, holds: Callable[[BatchJob], bool]) -> BatchJob | None:
        jobs = [job for job in self.world.api.jobs.values() if job.key.namespace == OURS and not job.ended]
        fitting = [job for job in jobs if holds(job)]
        return self.random.choice(fitting) if fitting else None

    def pods(self, *, running: bool) -> list[Pod]:
        pods = [pod for pod in self.world.api.pods.values() if pod.namespace == OURS and pod.live]
        return [pod for pod in pods if bool(pod.node) is running]

    def later(self, action: Callable[[], None], within_s: float = 10.0) -> None:
        self.world.clock.after(within_s * self.random.random(), action)

    def everywhere(self, count: int) -> PlannedNodes:
        """A plan on nodes that are not his."""
        nodes = [node.name for node in self.nodes]
        return {"": tuple(nodes[at % len(nodes)] for at in range(count))}

    def restart(self) -> None:
        """Muster is restarted a moment later, as it may be at any time."""

        def kill() -> None:
            self.restarts += 1
            self.world.kill_extender()
            self.world.start_extender(0.5)

        self.later(kill)


def job_of(namespace: str, name: str, count: int, each: Requests, **facts: object) -> BatchJob:
    """A suspended job of pods that each ask for a whole node."""
    key, uid = GroupKey(namespace, f"job-{name}"), f"{name}.1"
    group = GroupRef(key.name, Dialect.ANNOTATION, count)
    priority, queue = facts.pop("priority", 0), str(facts.pop("queue", ""))
    template = Pod("", namespace, name, each, priority=priority, owner=uid, group=group)  # type: ignore[arg-type]
    podset = PodSet(template, count, count, indexed=True)
    return BatchJob(key, uid, (podset,), queue=queue, backoff_limit=100, ttl_s=0.0, **facts)  # type: ignore[arg-type]


# Keys of Muster's on jobs.


def _forge_plan(tenant: Tenant, *, led: bool) -> None:
    count = len(tenant.nodes)
    job, plan = tenant.job(count), tenant.everywhere(count)
    facts = {"led": plan, "minimum": count} if led else {}
    tenant.later(lambda: tenant.forge(job.key, plan=plan, suspended=False, **facts))


def forged_plan(tenant: Tenant) -> None:
    """Forge a plan for more than his quota, with a template that says the same (D2)."""
    _forge_plan(tenant, led=True)


def forged_plan_alone(tenant: Tenant) -> None:
    """On the job alone: its pods name no gang, and are refused (D10)."""
    _forge_plan(tenant, led=False)


def forged_plan_on_nodes_that_are_not_there(tenant: Tenant) -> None:
    job = tenant.job(2)
    plan = {"": ("\ud800", "nowhere"), "other": ("",)}
    tenant.later(lambda: tenant.forge(job.key, plan=plan, led=plan, suspended=False))


def forged_flavors(tenant: Tenant) -> None:
    """Forge the flavors of a running job, and then restart Muster (D6)."""
    job = tenant.some_job(lambda job: not job.suspended) or tenant.job(1)
    flavor = tenant.random.choice(("other", "\x1b[31mX", "\ud800"))
    tenant.later(lambda: tenant.forge(job.key, flavors={"": {name: flavor for name, _ in tenant.device}}))
    tenant.restart()


def text_in_place_of_a_plan(tenant: Tenant) -> None:
    """Forge an annotation that nodes are awaited, until the end of days or since the beginning (D9)."""
    job = tenant.job(len(tenant.nodes))
    node_wait = NodeWait(tenant.random.choice((2.5e11, -6.2e10)), 999_999)
    tenant.later(lambda: tenant.forge(job.key, node_wait=node_wait, led={}, suspended=False))


def forged_past(tenant: Tenant) -> None:
    """Forge many evictions and an endless pause."""
    job = tenant.some_job(lambda job: True) or tenant.job(1)
    tenant.forge(job.key, evicted=(2.5e11,) * 9, in_vain=InVain(2.5e11, 1 << 30))


def forged_reservation(tenant: Tenant) -> None:
    """Forge a reservation of all nodes for it, with all neighbours as victims; then restart Muster."""
    gangs = [pod.group_key for pod in tenant.world.api.pods.values() if pod.namespace == THEIRS and pod.stamp]
    victims = tuple(Victim(key, releases=("r",)) for key in dict.fromkeys(gangs) if key is not None)
    rooms = tuple((node.name, tenant.device) for node in tenant.nodes)
    kept, job = Reservation(rooms, victims, 2.5e11), tenant.job(len(tenant.nodes))
    tenant.later(lambda: tenant.forge(job.key, reservation=kept, backfill=kept))
    for pod in tenant.pods(running=False):
        tenant.move(pod, reservation=kept, backfill=kept)
    tenant.restart()


def started_without_a_plan(tenant: Tenant) -> None:
    """Unsuspend a waiting job: the policies keep it suspended. Without them every user may start his own jobs."""
    if not tenant.policed:
        return
    job = tenant.job(len(tenant.nodes))

    def start() -> None:
        if (now := tenant.world.api.jobs.get(job.key)) is not None:
            tenant.world.api.set_job(resume(now, polices=tenant.policed))

    tenant.later(start)


# Labels and annotations that are flipped.


def gang_off_running_pods(tenant: Tenant) -> None:
    """Move running pods out of their gang, so that their quota comes back while they run (D7)."""
    for pod in tenant.pods(running=True):
        tenant.move(pod, group=None)


def queue_off_running_pods(tenant: Tenant) -> None:
    for pod in tenant.pods(running=True):
        tenant.move(pod, queue="")


def running_pods_renamed(tenant: Tenant) -> None:
    """Move running pods to a gang that does not exist."""
    for pod in tenant.pods(running=True):
        if pod.group is not None:
            tenant.move(pod, group=pod.group._replace(name=f"renamed-{pod.group.name}"))


def queue_of_running_jobs_flipped(tenant: Tenant) -> None:
    """Change the queue of a running job. As with the pods, the policies refuse that."""
    job = tenant.some_job(lambda job: not job.suspended)
    if job is not None:
        name = tenant.random.choice(("", QUEUES[THEIRS], "nowhere"))
        tenant.forge(job.key, queue=name)


def queue_of_waiting_jobs_flipped(tenant: Tenant) -> None:
    """Name the queue of his neighbours, which is not in his namespace."""
    tenant.edit(tenant.job(1, queue=QUEUES[THEIRS]).key, queue=QUEUES[OURS])
    tenant.edit(tenant.job(1).key, queue=QUEUES[THEIRS])


def forged_stamps(tenant: Tenant) -> None:
    """Pods say of themselves that they are of a release that was whole, of his gang or of a neighbour's."""
    stamps = [pod.stamp for pod in tenant.world.api.pods.values() if pod.namespace == THEIRS and pod.stamp]
    stamp = tenant.random.choice([*stamps, Stamp("g", "r", complete=True, quorum=1, size=1 << 40, at=2.5e11)])
    for pod in tenant.pods(running=False):
        tenant.move(pod, stamp=stamp)


def stamps_of_running_pods_changed(tenant: Tenant) -> None:
    for pod in tenant.pods(running=True):
        tenant.move(pod, stamp=tenant.random.choice((None, Stamp("g", "r", complete=False, quorum=9, size=9))))
        tenant.restamped.add(pod.uid)
    tenant.restart()


def nominated_by_hand(tenant: Tenant) -> None:
    """``status`` is the kubelet's and the scheduler's, but rights are given generously."""
    for pod in tenant.pods(running=False):
        tenant.change(pod, nominated_node=tenant.random.choice(tenant.nodes).name)


# Gangs that never come together.


def pods_that_never_come(tenant: Tenant) -> None:
    """Jobs whose pods are refused, each as large as his quota (D3)."""
    for _ in range(4):
        tenant.job(max(1, len(tenant.nodes) // 2), blocked=True)


def pods_that_never_come_in_no_queue(tenant: Tenant) -> None:
    for _ in range(4):
        tenant.job(len(tenant.nodes), blocked=True, queue="")


def a_priority_that_he_may_not_use(tenant: Tenant) -> None:
    """Use a PriorityClass whose pods a ResourceQuota refuses, but not the job (D4)."""
    tenant.job(len(tenant.nodes), blocked=True, priority=10_000)
    tenant.job(1, blocked=True, priority=10_000)


def gangs_that_lack_members(tenant: Tenant) -> None:
    for _ in range(3):
        tenant.made += 1
        role = Role(max(1, len(tenant.nodes) - 1), tenant.device)
        name, least = f"half{tenant.made}", len(tenant.nodes) + 1
        tenant.world.jobs.submit(JobSpec(name, (role,), least, namespace=OURS, queue=QUEUES[OURS]))


Trick = Callable[[Tenant], None]
TRICKS: dict[str, Trick] = {
    "a forged plan": forged_plan,
    "a forged plan without pods": forged_plan_alone,
    "a plan on nodes that are not there": forged_plan_on_nodes_that_are_not_there,
    "forged flavors": forged_flavors,
    "a text in place of a plan": text_in_place_of_a_plan,
    "a forged past": forged_past,
    "a forged reservation": forged_reservation,
    "a start without a plan": started_without_a_plan,
    "the gang taken off running pods": gang_off_running_pods,
    "the queue taken off running pods": queue_off_running_pods,
    "running pods renamed": running_pods_renamed,
    "the queue of a running job": queue_of_running_jobs_flipped,
    "the queue of a waiting job": queue_of_waiting_jobs_flipped,
    "forged stamps": forged_stamps,
    "stamps of running pods": stamps_of_running_pods_changed,
    "nominations by hand": nominated_by_hand,
    "pods that never come": pods_that_never_come,
    "pods that never come, in no queue": pods_that_never_come_in_no_queue,
    "a priority that he may not use": a_priority_that_he_may_not_use,
    "gangs that lack members": gangs_that_lack_members,
}
