"""The case: two jobs that need the whole cluster each, applied at once, suspended.

Without Muster the demo itself has to start the jobs. It does so in the worst order for a scheduler that decides pod
by pod. The parallelism of the jobs grows in turn, so that their pods are created alternately. kube-scheduler gets to
try each pod before the next one is created. The order is the same in every run.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from devcluster.api import Object
from devcluster.cluster import Cluster
from devcluster.demo.ledger import PodTimes, Work
from devcluster.demo.sightings import Clock, Sightings

NAMESPACE = "demo"
MANIFEST = Path(__file__).with_name("jobs.yaml")
JOBS = ("train-a", "train-b")
RUN_FOR = "devcluster.muster.dev/run-for"
JOBS_PATH = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
PODS_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"

TURN_PATIENCE_S = 5.0  # of our time: a turn that shows no sign ends anyway
LOOK_EVERY_S = 0.25  # how often the progress is shown when nothing happens


@dataclass(frozen=True)
class Case:
    """The numbers of the demo; durations in seconds of its own clock."""

    nodes: int = 4
    gpus_per_node: int = 8
    work: Work = field(default_factory=Work)
    window_s: float = 3600.0

    @property
    def gpus(self) -> int:
        return self.nodes * self.gpus_per_node


def submit(cluster: Cluster) -> None:
    """Apply both jobs, as a user does."""
    cluster.kubectl("apply", "--namespace", NAMESPACE, "-f", str(MANIFEST))


@dataclass
class Play:
    """A run of the case, from after the submission until both jobs are complete or the time is over."""

    cluster: Cluster
    case: Case
    sightings: Sightings
    clock: Clock
    look: Callable[[], None]  # called whenever something may have changed
    _at_work: set[str] = field(default_factory=set)
    _gathered_at: dict[str, float] = field(default_factory=dict)

    def take_turns(self) -> None:
        """Start both jobs without Muster, pod by pod."""
        api = self.cluster.api
        api.wait_for(JOBS_PATH, lambda jobs: sum(map(suspended, jobs)) == len(JOBS))
        for index in range(self.case.work.workers):
            for name in JOBS:
                api.patch(f"{JOBS_PATH}/{name}", {"spec": {"suspend": False, "parallelism": index + 1}})
                self._let_try(f"{name}-{index}")

    def run(self, window_s: float) -> bool:
        """Wait until every pod has succeeded, or until the clock shows that time; True if they have."""
        left_s = self.clock.real_s(window_s - self.clock.now_s())
        workers = len(JOBS) * self.case.work.workers
        return self._until(lambda: sum(pod.succeeded for pod in self.sightings.times()) == workers, left_s)

    def clean_up(self) -> None:
        """Delete the jobs with all their pods."""
        api = self.cluster.api
        for name in JOBS:
            api.delete(f"{JOBS_PATH}/{name}", propagationPolicy="Background")
        for path in (JOBS_PATH, PODS_PATH):
            api.wait_for(path, lambda objects: not objects)

    def _let_try(self, pod: str) -> None:
        self._until(lambda: tried(self.sightings.pod(pod)), TURN_PATIENCE_S)

    def _until(self, done: Callable[[], bool], patience_s: float) -> bool:
        """Wait for the condition, while jobs that have gathered are set to work."""
        deadline, changes = time.monotonic() + patience_s, 0
        while not done():
            due_s = self._set_to_work()
            self.look()
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return False
            changes = self.sightings.wait(changes, min(left_s, due_s, LOOK_EVERY_S))
        self.look()
        return True

    def _set_to_work(self) -> float:
        """Workers that have all run for the rendezvous begin to work; returns when the next look at that is due."""
        due_s = LOOK_EVERY_S
        for name in JOBS:
            running = [pod for pod in self.sightings.times() if pod.job == name and at_hand(pod)]
            if name in self._at_work or len(running) < self.case.work.workers:
                continue
            since = self._gathered_at.setdefault(name, time.monotonic())
            left_s = since + self.clock.real_s(self.case.work.rendezvous_s) - time.monotonic()
            if left_s > 0:
                due_s = min(due_s, left_s)
                continue
            self._at_work.add(name)
            for times in running:
                self._begin_work(times.name)
        return due_s

    def _begin_work(self, name: str) -> None:
        """kwok completes the pod when the duration in this annotation is over."""
        pod = self.sightings.pod(name)
        if pod is not None:
            duration = f"{self.clock.real_s(self.case.work.work_s):.3f}s"
            annotation = {"metadata": {"annotations": {RUN_FOR: duration}}}
            self.cluster.api.patch(f"{PODS_PATH}/{pod['metadata']['name']}", annotation)


def at_hand(pod: PodTimes) -> bool:
    return pod.running_s is not None and pod.ended_s is None


def suspended(job: Object) -> bool:
    """Whether the Job controller has seen that it is."""
    conditions = job.get("status", {}).get("conditions", [])
    return any(condition["type"] == "Suspended" and condition["status"] == "True" for condition in conditions)


def tried(pod: Object | None) -> bool:
    """Whether kube-scheduler has come to a result for the pod."""
    if pod is None:
        return False
    if pod["spec"].get("nodeName"):
        return True
    return any(
        condition["type"] == "PodScheduled" and condition.get("reason") in ("Unschedulable", "SchedulerError")
        for condition in pod["status"].get("conditions", [])
    )
