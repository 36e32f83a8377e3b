"""Gangs, jobs, queues and preemption on an API server as clouds run it: its admission changes each pod."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devcluster import Cluster
from devcluster.controllers import start_controller
from devcluster.muster import (
    RunningMuster,
    install_crds_of,
    install_gate,
    install_job_admission,
    install_pod_trials,
    start_muster,
)
from tests.integration.company import Company
from tests.integration.managed import check_all_or_none
from tests.integration.preemption import PRIORITIES, with_preemption
from tests.integration.queueing import Queues
from tests.integration.stage import add_priorities
from tests.integration.test_jobs import (  # noqa: F401 - pytest runs them here, too
    Jobs,
    jobs,
    test_a_deleted_node_under_a_running_job_starts_it_over_whole,
    test_a_job_that_its_owner_holds_is_as_its_user_wrote_it,
    test_a_job_waits_suspended_and_says_why,
    test_a_quota_that_keeps_its_pods_from_being_created_suspends_it_again,
    test_two_jobs_that_fit_only_one_at_a_time_never_share_the_room,
)
from tests.integration.test_preemption import (  # noqa: F401
    test_a_stateful_set_gives_up_a_pod_beyond_its_minimum_and_grows_back,
    test_a_victim_job_with_no_backoff_runs_again_later,
    test_exactly_the_dev_pods_give_way_to_a_gang,
    test_exactly_the_dev_pods_give_way_to_pods_of_no_gang,
)
from tests.integration.test_queues import (  # noqa: F401
    queues,
    test_a_gang_of_pods_waits_for_quota_and_then_runs,
    test_the_tutorials_job_twice,
    test_three_teams_that_may_borrow,
)
from tests.kube.kinds.test_jobset import WORKERS
from tests.scenarios import SCENARIOS
from tests.scenarios.stage import Setting

pytestmark = pytest.mark.xdist_group("cloud")

GANGS = (
    "the_higher_priority_goes_first",
    "a_replacement_in_a_running_gang",
    "members_beyond_min_member",
    "singles_beside_a_waiting_gang",
    "gated_gangs_in_the_worst_order",
    "the_extender_killed_while_it_ungates",
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(profile="cloud") as running:
        yield running


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    """With all that the tests of jobs, queues and preemption have."""
    install_crds_of(cluster, "queues")
    settings = {**Setting().settings(), "preemption": "on", "preemption_timeout_s": 120}
    manifests = with_preemption(cluster.directory / "with-preemption")
    running = start_muster(cluster, settings, manifests=manifests)
    install_gate(cluster)
    install_job_admission(cluster)
    install_pod_trials(cluster)
    add_priorities(cluster, PRIORITIES)
    return running


@pytest.fixture(scope="module")
def company(cluster: Cluster, muster: RunningMuster) -> Iterator[Company]:
    with Company(cluster, muster) as all_of_them:
        yield all_of_them


@pytest.mark.parametrize("name", GANGS)
def test_a_scenario_ends_as_it_is_written(company: Company, name: str) -> None:
    assert company.play(SCENARIOS[name]) == SCENARIOS[name].ending
