"""One control plane with Muster on it per test file, and a stage of its own for every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.faults.theatre import GENTLE, Theatre
from devcluster import Cluster
from devcluster.muster import NAMESPACE, RunningMuster, start_muster
from tests.integration.company import Company
from tests.integration.extender import Extender
from tests.integration.stage import RealStage
from tests.integration.team import Team


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    return start_muster(cluster)


@pytest.fixture(scope="module")
def extender(cluster: Cluster) -> Extender:
    return Extender(cluster.service_account_kubeconfig(NAMESPACE, "muster-extender"))


@pytest.fixture
def team(cluster: Cluster) -> Team:
    return Team(cluster)


@pytest.fixture(scope="module")
def company(cluster: Cluster) -> Iterator[Company]:
    with Company(cluster) as all_of_them:
        yield all_of_them


@pytest.fixture(scope="module")
def theatre() -> Iterator[Theatre]:
    """One to be struck again and again, gently."""
    with Theatre(GENTLE) as one:
        yield one


@pytest.fixture
def stage(cluster: Cluster, muster: RunningMuster) -> Iterator[RealStage]:
    """A namespace and nodes for one test; both are gone after it."""
    with RealStage(cluster, muster) as one:
        yield one
