"""The stage of benchmarks with Jobs: a control plane for each way of starting them, and the writes by client."""

from __future__ import annotations

import math
import re
import signal
import time
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Self

import httpx

from benchmarks.stage import GPU, GPUS_PER_NODE, NATIVE, NODES_PER_CLIQUE, POD_GROUPS, YOUTH_S, Mode, Stage
from devcluster import Cluster
from devcluster.api import Object
from devcluster.muster import install_job_admission, install_pod_trials
from devcluster.progress import Progress

JOBS = "/apis/batch/v1/namespaces/default/jobs"
JOB_NAME = "batch.kubernetes.io/job-name"
AUDIT_POLICY = Path(__file__).with_name("audit-policy.yaml")
BINDING = "pods/binding"
SETTLING_S = 10.0


class Arm(StrEnum):
    """The way in which Jobs are started: by kube-scheduler alone, in three ways, or with Muster."""

    ADAPTIVE = "alone-adaptive"
    ALL = "alone-all"
    NATIVE = "native"
    MUSTER = "muster"
    TRIALS = "muster-trials"

    @property
    def mode(self) -> Mode:
        return Mode.ALL if self is Arm.ALL else Mode.NOMINATE if self.managed else Mode.ADAPTIVE

    @property
    def gangs(self) -> bool:
        """Whether it promises all pods of a Job or none."""
        return self is Arm.NATIVE or self.managed

    @property
    def managed(self) -> bool:
        """Whether Muster admits the Jobs."""
        return self in (Arm.MUSTER, Arm.TRIALS)


ARMS = """alone-adaptive and alone-all: kube-scheduler without Muster, with its default sampling of nodes and
looking at every node; the benchmark unsuspends the Jobs, and nothing keeps their pods together. native: the same with
Kubernetes' own gang scheduling (off by default). muster: Muster admits the Jobs. muster-trials: the same, with the
component pod-trials, and each Job of a shape of its own, so that each costs a dry run."""

_DEFAULT_LIMITS = ["--kube-api-qps=20", "--kube-api-burst=30"]
"""The default limits of kube-controller-manager, which the cluster raises."""

_WRITERS = {
    "system:kube-scheduler": "kube-scheduler",
    "system:serviceaccount:kube-system:muster-scheduler": "kube-scheduler",
    "system:serviceaccount:kube-system:muster-extender": "extender",
}


@dataclass(frozen=True)
class Shape:
    """Jobs of ``pods`` pods with ``gpus`` GPUs each, written as in 8x1."""

    pods: int
    gpus: int

    def __str__(self) -> str:
        return f"{self.pods}x{self.gpus}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError."""
        match = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", text)
        if match is None or int(match[2]) > GPUS_PER_NODE:
            raise ValueError(f"{text} is not PODSxGPUS, as in 64x8, with at most {GPUS_PER_NODE} GPUs for a pod")
        return cls(int(match[1]), int(match[2]))

    @property
    def nodes(self) -> int:
        """The fewest that hold such a Job."""
        return math.ceil(self.pods / (GPUS_PER_NODE // self.gpus))

    @property
    def cliques(self) -> int:
        """The fewest that hold such a Job."""
        return math.ceil(self.nodes / NODES_PER_CLIQUE)

    def job(self, name: str, arm: Arm) -> Object:
        """A suspended Indexed Job, for Muster if that admits it; nothing on its pods says so."""
        amount = {GPU: str(self.gpus), "cpu": "1"}
        containers = [{"name": "main", "image": "none", "resources": {"requests": amount, "limits": amount}}]
        own = {"metadata": {"labels": {"shape": name[::-1]}}} if arm is Arm.TRIALS else {}
        # Kubernetes 1.36 has no such field, and makes a gang of every Indexed Job.
        native = {"scheduling": {"schedulingPolicy": {"gang": {"minCount": self.pods}}}} if arm is Arm.NATIVE else {}
        pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": containers}
        return {
            "metadata": {"name": name, "labels": {"muster.dev/gang": "true"} if arm.managed else {}},
            "spec": {
                "suspend": True,
                "completionMode": "Indexed",
                "completions": self.pods,
                "parallelism": self.pods,
                "backoffLimit": 0,
                "template": {"spec": pod} | own,
                **native,
            },
        }


class JobStage(Stage):
    """A control plane for one run of one arm, on which kube-scheduler runs before Jobs start.

    ``throttled``: kube-controller-manager keeps its default limits.
    """

    def __init__(self, arm: Arm, nodes: int, progress: Progress, *, throttled: bool = False) -> None:
        self.arm = arm
        flags = {name: list(more) for name, more in NATIVE.items()} if arm is Arm.NATIVE else {}
        flags.setdefault("kube-apiserver", []).append(f"--audit-policy-file={AUDIT_POLICY}")
        if throttled:
            flags.setdefault("kube-controller-manager", []).extend(_DEFAULT_LIMITS)
        super().__init__(arm.mode, nodes, progress, cluster=Cluster(progress, audited=True, flags=flags))

    def _prepare(self) -> None:
        super()._prepare()
        if self.arm.managed:
            install_job_admission(self._cluster)
        if self.arm is Arm.TRIALS:
            install_pod_trials(self._cluster)

    def submit(self, shape: Shape, count: int, timeout_s: float) -> list[str]:
        """Create suspended Jobs, and wait until their controller has seen that they are; their names."""
        names = [f"job-{number}" for number in range(count)]
        self.api.create_all((JOBS, shape.job(name, self.arm)) for name in names)
        self.api.wait_for(JOBS, lambda jobs: sum(map(suspended, jobs)) == count, timeout_s)
        if self.arm is Arm.NATIVE:  # else the pods would be scheduled one by one, unnoticed
            self.api.wait_for(POD_GROUPS, lambda groups: len(groups) == count, timeout_s)
        return names

    def start_scheduler(self) -> None:
        """Returns when kube-scheduler has seen the cluster. Muster stays as it is."""
        if self.muster is None:
            super().start_scheduler()
        else:
            self.muster.restart_scheduler()
            self._scheduler = self.muster.scheduler
        assert self._scheduler is not None  # noqa: S101 - started above
        url, deadline = f"https://127.0.0.1:{self._scheduler.port}/readyz", time.monotonic() + YOUTH_S
        with httpx.Client(verify=self._scheduler.tls or True, trust_env=False) as client:
            while client.get(url).status_code != httpx.codes.OK:  # a page that one has to ask for
                if time.monotonic() > deadline:
                    raise TimeoutError(f"kube-scheduler was not ready after {YOUTH_S:g} s")
                time.sleep(0.05)

    def go(self, names: list[str]) -> None:
        """Let Muster continue, or unsuspend the Jobs, by a PATCH each."""
        if self.muster is None:
            self.api.patch_all((f"{JOBS}/{name}", {"spec": {"suspend": False}}) for name in names)
        else:
            self.muster.extender.signal(signal.SIGCONT)

    def written(self) -> Counter[tuple[str, str]]:
        """How often kube-scheduler and the extender have written so far, by writer and resource."""
        counted: Counter[tuple[str, str]] = Counter()
        for event in self._cluster.audit():
            subject = event["objectRef"]
            subresource = f"/{subject['subresource']}" if "subresource" in subject else ""
            counted[_WRITERS[event["user"]["username"]], f"{subject['resource']}{subresource}"] += 1
        return counted

    def job_writes(self) -> Counter[tuple[str, bool]]:
        """How often the extender has written to each Job so far, by name and by whether the API server accepted it."""
        return Counter(
            (event["objectRef"]["name"], event["responseStatus"]["code"] < httpx.codes.BAD_REQUEST)
            for event in self._cluster.audit()
            if event["objectRef"]["resource"] == "jobs" and _WRITERS[event["user"]["username"]] == "extender"
        )

    def written_with(self, bindings: int) -> Counter[tuple[str, str]]:
        """The same once the log tells of that many Bindings. A watch may show a pod before the log does."""
        deadline = time.monotonic() + SETTLING_S
        while True:
            seen = self.written()
            if sum(count for (_, what), count in seen.items() if what == BINDING) >= bindings:
                return seen
            if time.monotonic() > deadline:
                raise TimeoutError(f"the API server's log does not tell of {bindings} Bindings")
            time.sleep(0.1)


def job_of(pod: Object) -> str:
    """The name of the Job that made the pod."""
    return str(pod["metadata"].get("labels", {}).get(JOB_NAME, ""))


def suspended(job: Object) -> bool:
    """Whether the Job controller has suspended the Job."""
    conditions = job.get("status", {}).get("conditions", [])
    return any(condition["type"] == "Suspended" and condition["status"] == "True" for condition in conditions)
