"""A job and its controller for scripts of the core: it is started, suspended and cleaned as the core asks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from extender.core.answers import JobWritten, Outcome
from extender.core.effects import CleanJob, Effect, StartJob, SuspendJob
from extender.core.events import JobGone, JobSeen, PodSeen, Tick
from policies.model import Controller, Dialect, GroupRef, Job, Pod, PodSet, PodSets, Topology
from tests.builders import key, requests
from tests.core.script import Script


def template(name: str = "job", gpus: int = 8, series: str = "", **facts: object) -> Pod:
    """The template for the pods of the job ``name``."""
    group = GroupRef(name, Dialect.ANNOTATION)
    pod = Pod("", "default", name, requests(gpus), owner=f"uid-{name}", series=series, group=group)
    return replace(pod, **facts)  # type: ignore[arg-type]


def job(count: int, *more: PodSet, name: str = "job", indexed: bool = True, gpus: int = 8, level: str = "") -> Job:
    """A job of ``count`` pods, and of ``more`` podsets."""
    made_of = replace(template(name, gpus), topology=Topology(level) if level else Topology())
    first = PodSet(made_of, count, count, indexed)
    owner = Controller("batch/v1", "Job", name, f"uid-{name}")
    return Job(PodSets(key(name), (first, *more)), owner)


class Controlled:
    """A job whose controller obeys at once, except for its pods: ``create`` makes them, ``delete`` deletes them."""

    def __init__(self, script: Script, seen: Job, *, obeys: bool = True) -> None:
        self.script = script
        self.seen = seen
        self.pods: dict[str, Pod] = {}
        self.starts: list[StartJob] = []
        self.stops: list[str] = []
        self.cleaned = 0
        self.obeys = obeys
        self._made = 0
        self._read = 0
        self.show()

    def show(self, **facts: object) -> None:
        """The watch shows the job with these facts; then everything that the core asks for is done."""
        self.seen = replace(self.seen, **facts)  # type: ignore[arg-type]
        self.script.feed(JobSeen(self.seen))
        self.settle()

    def gone(self) -> None:
        self.script.feed(JobGone(self.seen.key, self.seen.uid))

    def wait(self, seconds: float) -> None:
        """Let time pass; the controller obeys all writes meanwhile."""
        for _ in range(max(1, round(seconds / 0.25))):
            self.script.advance(0.25)
            self.settle()

    def settle(self) -> None:
        self.script.advance(0.1)
        while self._read < len(self.script.effects):
            effect = self.script.effects[self._read]
            self._read += 1
            if isinstance(effect, StartJob | SuspendJob | CleanJob) and effect.job.uid == self.seen.uid:
                self._told(effect)
                self.script.advance(0.1)

    def create(self, *, only: int | None = None, **facts: Any) -> list[Pod]:
        """The pods of the slots that have none, as the controller makes them; ``facts``: as a policy or a start makes
        them."""
        pods: list[Pod] = []
        for podset in self.seen.podsets.podsets:
            taken = {pod.index for pod in self.pods.values() if pod.series == podset.name and pod.live}
            for pod in podset.pods():
                number = pod.index
                if number in taken or len(pods) == only:
                    continue
                self._made += 1
                uid = f"{self.seen.owner.name}-pod-{self._made}"
                made = replace(pod, uid=uid, name=uid, index=number if podset.indexed else None, **facts)
                self.pods[uid] = replace(made, index=number)
                self.script.see(made)
                pods.append(made)
        self.settle()
        return pods

    def delete(self) -> None:
        """Delete its pods, one after the other."""
        for uid, pod in list(self.pods.items()):
            del self.pods[uid]
            if uid in self.script.pods:
                self.script.change(pod, deleting=True)
                self.script.gone(self.script.pods[uid])
        self.settle()

    def run(self) -> list[Pod]:
        """All pods come and are bound."""
        pods = self.create()
        self.script.run(pods)
        self.settle()
        return pods

    def restart(self) -> None:
        """Let the controller end all pods and create them again."""
        self.delete()
        self.create()

    def _told(self, effect: Effect) -> None:
        if isinstance(effect, StartJob):
            self.starts.append(effect)
        elif isinstance(effect, SuspendJob):
            self.stops.append(effect.reason)
        else:
            self.cleaned += 1
        if not self.obeys:
            return
        self.script.feed(JobWritten(self.seen.key, self.seen.uid, Outcome.DONE))
        if isinstance(effect, StartJob):
            flavors = effect.flavors or self.seen.flavors
            plan = effect.plan if effect.node_wait is None else None
            led = {"plan": plan, "flavors": flavors, "node_wait": effect.node_wait, "in_vain": None}
            self.show(suspended=False, stopped=False, marked=True, **led)
        elif isinstance(effect, SuspendJob):
            stopped, rest = not any(pod.live for pod in self.pods.values()), effect.in_vain or self.seen.in_vain
            self.show(suspended=True, stopped=stopped, node_wait=None, in_vain=rest)
        else:
            self.show(marked=False, plan=None, flavors=None)


def show_again(script: Script, pod: Pod) -> None:
    """Let the watch repeat the pod as it was shown last."""
    script.feed(PodSeen(script.pods[pod.uid]))


def wakes_later(script: Script, seconds: float) -> bool:
    """Whether a Tick after ``seconds`` leaves nothing that is due."""
    script.now += seconds
    script.feed(Tick())
    due = script.core.next_wake()
    return due is None or due > script.now
