"""A job that cannot be read, and so not be started, keeps its plan until it can."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from devcluster import Cluster
from devcluster.muster import RunningMuster, install_job_admission, start_muster
from devcluster.proxy import Proxy
from extender.runtime.writes import PATIENCE_S
from tests.integration.stage import RealStage
from tests.integration.test_jobs import Jobs

pytestmark = pytest.mark.xdist_group("unsent-starts")


@pytest.fixture(scope="module")
def proxy(cluster: Cluster) -> Iterator[Proxy]:
    with cluster.proxy() as new_proxy:
        yield new_proxy


@pytest.fixture(scope="module")
def muster(cluster: Cluster, proxy: Proxy) -> RunningMuster:
    running = start_muster(cluster, server=proxy.url)
    install_job_admission(cluster)
    return running


def test_a_job_that_cannot_be_read_for_long_starts_with_its_first_plan(stage: RealStage, proxy: Proxy) -> None:
    stage.add_nodes(1)
    jobs = Jobs(stage)
    proxy.lost_reads = "/jobs/train"
    jobs.create("train", 2, gpus=4)
    # A retry pauses for a second at most. A write that the API server answers would be abandoned after fewer tries.
    stage.wait(
        lambda: _told(stage, 'muster_api_write_retries_total{kind="job"}'), lambda tries: tries >= 2 * PATIENCE_S
    )
    proxy.lost_reads = ""
    jobs.until_running(2)
    assert _told(stage, "muster_gang_plans_total") == 1


def _told(stage: RealStage, series: str) -> float:
    page = httpx.get(f"{stage.muster.url}/metrics", trust_env=False).raise_for_status().text
    return sum(float(line.removeprefix(series)) for line in page.splitlines() if line.startswith(f"{series} "))
