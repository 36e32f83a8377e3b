"""The case: two jobs that need the whole cluster each, submitted at once, their pods let in alternately.

The order is the worst one for a scheduler that decides pod by pod, and the same in every run: each pod is created with
a scheduling gate, the gates are taken off in turn, and kube-scheduler gets to try each pod before the next one.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from devcluster.api import Api
from devcluster.demo.ledger import PodTimes, Work
from devcluster.demo.sightings import Clock, Sightings

NAMESPACE = "demo"
JOBS = ("train-a", "train-b")
GATE = "demo.muster.dev/turn"
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


def job(name: str, case: Case, scheduler: str) -> dict[str, Any]:
    """An Indexed Job whose pods are a gang for Muster; other schedulers ignore the two annotations."""
    gpus = {"nvidia.com/gpu": case.gpus_per_node}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "completionMode": "Indexed",
            "completions": case.work.workers,
            "parallelism": case.work.workers,
            "template": {
                "metadata": {
                    "annotations": {"muster.dev/pod-group": name, "muster.dev/min-member": str(case.work.workers)}
                },
                "spec": {
                    "schedulerName": scheduler,
                    "schedulingGates": [{"name": GATE}],
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": 0,
                    "containers": [{"name": "worker", "image": "train", "resources": {"limits": gpus}}],
                },
            },
        },
    }


@dataclass
class Play:
    """One run of the case, from the submission until both jobs are complete or the time is over."""

    api: Api
    case: Case
    scheduler: str
    sightings: Sightings
    clock: Clock
    look: Callable[[], None]  # called whenever something may have changed
    _at_work: set[str] = field(default_factory=set)
    _gathered_at: dict[str, float] = field(default_factory=dict)

    def submit(self) -> None:
        """Create both jobs, and wait until all their pods are there, gated."""
        for name in JOBS:
            self.api.create(JOBS_PATH, job(name, self.case, self.scheduler))
        if not self._until(lambda: len(self.sightings.times()) == len(JOBS) * self.case.work.workers, 60.0):
            raise TimeoutError("the Job controller did not create the pods within a minute")

    def take_turns(self) -> None:
        """Let the pods in alternately."""
        for index in range(self.case.work.workers):
            for name in JOBS:
                self._let_in(f"{name}-{index}")

    def run(self, window_s: float) -> bool:
        """Wait until every pod has succeeded, or until the clock shows that time; True if they have."""
        left_s = self.clock.real_s(window_s - self.clock.now_s())
        return self._until(lambda: all(pod.succeeded for pod in self.sightings.times()), left_s)

    def clean_up(self) -> None:
        """Delete the jobs with all their pods."""
        for name in JOBS:
            self.api.delete(f"{JOBS_PATH}/{name}", propagationPolicy="Background")
        self.api.wait_for(PODS_PATH, lambda pods: not pods)

    def _let_in(self, name: str) -> None:
        """Take the gate off one pod and wait until kube-scheduler has tried it."""
        pod = self.sightings.pod(name)
        if pod is not None:
            self.api.patch(f"{PODS_PATH}/{pod['metadata']['name']}", {"spec": {"schedulingGates": None}})
            self._until(lambda: tried(self.sightings.pod(name)), TURN_PATIENCE_S)

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
            self.api.patch(f"{PODS_PATH}/{pod['metadata']['name']}", annotation)


def at_hand(pod: PodTimes) -> bool:
    return pod.running_s is not None and pod.ended_s is None


def tried(pod: dict[str, Any] | None) -> bool:
    """Whether kube-scheduler has come to a result for the pod, or an extender that holds it has shown its plan."""
    if pod is None or pod["spec"].get("nodeName") or pod["status"].get("nominatedNodeName"):
        return True
    return any(
        condition["type"] == "PodScheduled" and condition.get("reason") in ("Unschedulable", "SchedulerError")
        for condition in pod["status"].get("conditions", [])
    )
