"""A control plane with Muster on it per test file, and a stage of its own for every test."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pytest

from benchmarks.faults.theatre import GENTLE, Theatre
from devcluster import Cluster
from devcluster.muster import NAMESPACE, RunningMuster, start_muster
from tests.integration.company import Company
from tests.integration.extender import Extender
from tests.integration.policy_failures import policy_failures
from tests.integration.stage import RealStage
from tests.integration.team import Team
from tests.test_policy_values import FAIL_OPEN


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
    """Before the control plane of a file ends, see that no policy that fails open has done so, without a word."""
    made = yield
    if fixturedef.argname == "cluster" and isinstance(made, Cluster):
        fixturedef.addfinalizer(lambda: _no_policy_has_failed(made))
    return made


def _no_policy_has_failed(cluster: Cluster) -> None:
    failed = {name: count for name, count in policy_failures(cluster).items() if name in FAIL_OPEN}
    assert not failed, f"expressions of policies have failed: {failed}"


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
    """A theatre to be struck again and again, gently."""
    with Theatre(GENTLE) as new_theatre:
        yield new_theatre


@pytest.fixture
def stage(cluster: Cluster, muster: RunningMuster) -> Iterator[RealStage]:
    """A namespace and nodes for one test; both are gone after it."""
    with RealStage(cluster, muster) as real_stage:
        yield real_stage
