"""Whether the runs ended as they should, in sentences for the user who started the demo. Pure."""

from dataclasses import dataclass
from itertools import pairwise

from devcluster.demo.ledger import PodTimes, Totals, completed_s
from devcluster.demo.scenario import JOBS, Case


@dataclass(frozen=True)
class Run:
    """The times of the pods in one run, and the figures that follow from them."""

    title: str
    pods: tuple[PodTimes, ...]
    totals: Totals


def complaints(plain: Run, gangs: Run, case: Case) -> list[str]:
    """The differences from the expected end of both runs; empty if there are none."""
    return _plain(plain, case) + _gangs(gangs, case)


def gpus_at_end(run: Run, job: str) -> int:
    """The GPUs that pods of the job held when the run was over."""
    return sum(pod.gpus for pod in run.pods if pod.job == job and pod.bound_s is not None and pod.ended_s is None)


def summary(run: Run, job: str, case: Case) -> str:
    """How the job stood when the run was over, in one sentence."""
    completed = completed_s(job, run.pods, case.work)
    if completed is not None:
        return f"{job} was complete {completed / 60:.1f} min after it was submitted."
    return f"{job} never ran, and holds {gpus_at_end(run, job)} GPUs after {run.totals.observed_s / 60:.0f} min."


def _plain(run: Run, case: Case) -> list[str]:
    failures = []
    if run.totals.jobs_completed or run.totals.productive:
        failures.append("With kube-scheduler alone neither job should have run, but one did.")
    share = case.gpus // len(JOBS)
    return failures + [
        f"With kube-scheduler alone {job} should hold {share} GPUs at the end, but holds {gpus_at_end(run, job)}."
        for job in JOBS
        if gpus_at_end(run, job) != share
    ]


def _gangs(run: Run, case: Case) -> list[str]:
    failures = []
    for job in JOBS:
        if completed_s(job, run.pods, case.work) is None:
            bound = sum(1 for pod in run.pods if pod.job == job and pod.bound_s is not None)
            failures.append(f"With Muster {job} should have completed, but did not ({bound} of its pods got a node).")
    if not failures and not _one_after_the_other(run, case):
        failures.append("With Muster one job should have run after the other, but both had GPUs at the same time.")
    return failures


def _one_after_the_other(run: Run, case: Case) -> bool:
    stretches = []
    for job in JOBS:
        begin = min(pod.bound_s for pod in run.pods if pod.job == job and pod.bound_s is not None)
        stretches.append((begin, completed_s(job, run.pods, case.work) or 0.0))
    stretches.sort()
    return all(earlier[1] <= later[0] for earlier, later in pairwise(stretches))
