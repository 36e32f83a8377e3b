"""A preemption whose reservation is refused, by the API server or by a proxy, goes on when that is over."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devcluster import Cluster
from devcluster.muster import RunningMuster, install_gate, install_job_admission, start_muster
from devcluster.proxy import Proxy
from tests.integration.preemption import PRIORITIES, create_job, on, with_preemption
from tests.integration.stage import RealStage, add_priorities

pytestmark = pytest.mark.xdist_group("preemption refused")


@pytest.fixture(scope="module")
def proxy(cluster: Cluster) -> Iterator[Proxy]:
    with cluster.proxy() as new_proxy:
        yield new_proxy


@pytest.fixture(scope="module")
def muster(cluster: Cluster, proxy: Proxy) -> RunningMuster:
    manifests = with_preemption(cluster.directory / "with-preemption")
    running = start_muster(cluster, {"preemption": "on"}, manifests=manifests, server=proxy.url)
    install_gate(cluster)
    install_job_admission(cluster)
    add_priorities(cluster, PRIORITIES)
    return running


@pytest.mark.parametrize(
    ("status", "page"),
    [(403, "Forbidden"), (429, "Too many requests"), (200, "<html>Sign in</html>")],
    ids=["rights", "overload", "a page of a proxy"],
)
def test_a_job_evicts_others_as_soon_as_that_can_be_written_down(
    stage: RealStage, proxy: Proxy, status: int, page: str
) -> None:
    stage.add_nodes(2)
    victim = create_job(stage, "victim", 2, "dev")
    stage.until(lambda pods: len(on(pods, "victim")) == 2)
    proxy.refused, proxy.refused_writes = 0, ("/jobs/", status, page)
    create_job(stage, "urgent", 2, "inference")
    stage.wait(lambda: proxy.refused, lambda refused: refused >= 4)
    assert len(on(stage.pods(), "victim")) == 2
    proxy.refused_writes = "", 0, ""
    stage.until(lambda pods: len(on(pods, "urgent")) == 2)
    stage.api.delete(victim)  # else it has the room of the next test for a while, as its namespace ends
