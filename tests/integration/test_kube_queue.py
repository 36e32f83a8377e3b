"""A job with pods late in kube-scheduler's queue is not started over for that, nor all jobs when it stands still."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise

import pytest

from devcluster import Cluster
from devcluster.muster import RunningMuster, install_job_admission, start_muster
from policies.model import Pod
from tests.integration.stage import RealStage
from tests.integration.test_jobs import Jobs
from tests.integration.tollgate import TollGate
from tests.scenarios.pods import pod

pytestmark = pytest.mark.xdist_group("kube-queue")

TIMEOUT_S, EVERY_S = 2.0, 1.2


@pytest.fixture(scope="module")
def tollgate() -> Iterator[TollGate]:
    with TollGate() as gate:
        yield gate


@pytest.fixture(scope="module")
def muster(cluster: Cluster, tollgate: TollGate) -> RunningMuster:
    running = start_muster(cluster, {"plan_timeout_s": TIMEOUT_S}, other_extenders=[tollgate.entry])
    install_job_admission(cluster)
    return running


def test_a_job_behind_pods_of_no_gang_keeps_its_pods_and_starts(stage: RealStage, tollgate: TollGate) -> None:
    stage.add_nodes(2)
    jobs = Jobs(stage)
    tollgate.close_after(0)
    stage.create(*(pod(f"plain-{n}", gpus=0) for n in range(6)))
    tollgate.wait_stopped()
    jobs.create("train", 2)
    made = _job_pods(stage.until(lambda pods: len(_job_pods(pods)) == 2))
    for _ in range(5):
        time.sleep(EVERY_S)
        tollgate.close_after(1)
        tollgate.wait_stopped()
    tollgate.open()
    assert _job_pods(jobs.until_running(8)) == made


def test_while_kube_scheduler_stands_still_jobs_are_started_over_one_at_a_time(
    stage: RealStage, tollgate: TollGate
) -> None:
    stage.add_nodes(1)
    jobs = Jobs(stage)
    tollgate.close_after(0)
    stage.create(pod("plain", gpus=0))
    tollgate.wait_stopped()
    for n in range(3):
        jobs.create(f"still-{n}", 1, gpus=1)
    at = stage.wait(lambda: _given_up(stage), lambda times: len(times) >= 3)
    tollgate.open()
    jobs.until_running(4)
    assert all((later - earlier).total_seconds() > TIMEOUT_S - 0.1 for earlier, later in pairwise(at))


def _given_up(stage: RealStage) -> list[datetime]:
    """The times at which placements were revoked, by the log."""
    line = rf"^(\S+ \S+),(\d+) .* gang {stage.namespace}/\S+ was forgotten \(plan-deadline\)"
    matches = re.findall(line, stage.muster.extender.log.read_text(), re.MULTILINE)
    return [datetime.fromisoformat(f"{second}.{fraction}") for second, fraction in matches]


def _job_pods(pods: Sequence[Pod]) -> set[str]:
    return {seen_pod.uid for seen_pod in pods if seen_pod.name.startswith("train-")}
