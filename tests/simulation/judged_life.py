"""A life of an extender with a job, fed event by event to the referee's book of jobs."""

from __future__ import annotations

from dataclasses import replace

from extender.core.answers import JobWritten, Outcome
from extender.core.effects import StartJob, SuspendJob
from extender.core.events import (
    Event,
    FilterCalled,
    JobSeen,
    NodeSeen,
    PodSeen,
    Synced,
)
from policies.model import Dialect, GroupRef, Pod, PodSet
from tests.builders import GPU, cluster, key, requests
from tests.simulation.admissions import Admissions
from tests.simulation.claims import Claims
from tests.simulation.job_orders import judge_job
from tests.simulation.model.batch import BatchJob, Write, written
from tests.simulation.shown import Shown


def batch(count: int, *, gpus: int = 8, indexed: bool = True) -> BatchJob:
    group = GroupRef("job-train", Dialect.ANNOTATION, count)
    template = Pod("", "default", "train", requests(gpus), owner="uid", group=group)
    return BatchJob(key("job-train"), "uid", (PodSet(template, count, count, indexed),))


class Life:
    """A life of an extender: a job is shown to it, and started on these nodes."""

    def __init__(self, job: BatchJob, *nodes: str) -> None:
        self.now = 100.0
        self.unsure = False
        self.job = job
        self.shown = Shown()
        self.admissions = Admissions(self.shown, calm=False, creation_s=30.0)
        self.claims = Claims(self.shown, 60.0, self.admissions)
        for node in cluster("a: 4x8"):
            self.tell(NodeSeen(node))
        self.tell(JobSeen(job.shown()))
        assert not self.ask(StartJob(job.shown(), {"": nodes}, job.least))

    def tell(self, event: Event) -> None:
        self.shown.watch(event)
        self.claims.hear(event, self.now)
        self.admissions.hear(event, self.now)
        if isinstance(event, FilterCalled):
            self.admissions.ask(event, self.claims.on_their_way)
        self.admissions.compare(self.claims.left, unsure=self.unsure)
        if isinstance(event, PodSeen) and event.pod.node and self.claims.short_of_room(event.pod.node):
            self.admissions.crowd(event.pod.node)

    def ask(self, write: Write) -> str | None:
        """Let the core request a write; returns its fault."""
        complaint = judge_job(write, self.admissions, [], self.now)
        after = written(self.job, write)
        assert isinstance(after, BatchJob)
        self.job = after
        return complaint

    def end(self, outcome: Outcome) -> None:
        self.tell(JobWritten(self.job.key, self.job.uid, outcome))

    def show(self, **facts: object) -> None:
        self.job = replace(self.job, **facts)  # type: ignore[arg-type]
        self.tell(JobSeen(self.job.shown()))

    def pod(self, index: int, **facts: object) -> Pod:
        made = self.job.pod(self.job.podsets[0], index, f"pod-{index}", 0.0)
        pod = replace(made, **facts)  # type: ignore[arg-type]
        self.tell(PodSeen(pod))
        return pod

    def suspend(self) -> str | None:
        return self.ask(SuspendJob(self.job.shown(), ""))

    def restart(self) -> None:
        """Another life takes over, and is shown the same."""
        before = self.shown
        self.shown = Shown()
        self.admissions = Admissions(self.shown, calm=False, creation_s=30.0)
        self.claims = Claims(self.shown, 60.0, self.admissions)
        for node in before.nodes.values():
            self.tell(NodeSeen(node))
        self.show()
        for pod in before.pods.values():
            self.tell(PodSeen(pod))
        self.tell(Synced())

    def gpus(self, node: str) -> int:
        return self.claims.left([node])[node][GPU]
