"""Gangs, jobs, queues and preemption on an API server as clouds run it: its admission changes each pod.

Most tests come from other files, where the API server is plain. Gangs come first, with a Muster of their own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from devcluster import Cluster
from devcluster.api import Object
from devcluster.controllers import start_controller
from devcluster.muster import NAMESPACE, RunningMuster, install_pod_trials
from devcluster.profiles import NODE_SELECTOR, WEBHOOK
from policies.model import CLIQUE
from tests.integration.company import Company
from tests.integration.managed import check_all_or_none
from tests.integration.preemption import PRIORITIES, create_job, start_with_preemption
from tests.integration.stage import RealStage, add_priorities
from tests.kube.kinds.test_jobset import WORKERS
from tests.scenarios import SCENARIOS

pytestmark = pytest.mark.xdist_group("cloud")

GANGS = (
    "the_higher_priority_goes_first",
    "a_replacement_in_a_running_gang",
    "members_beyond_min_member",
    "a_single_of_higher_priority_goes_first",
    "gated_gangs_in_the_worst_order",
    "the_extender_killed_while_it_ungates",
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(profile="cloud") as running:
        yield running


@pytest.fixture(scope="class")
def company(cluster: Cluster) -> Iterator[Company]:
    with Company(cluster) as all_of_them:
        yield all_of_them
        all_of_them.dismiss()


class TestGangs:
    @pytest.mark.parametrize("name", GANGS)
    def test_a_scenario_ends_as_it_is_written(self, company: Company, name: str) -> None:
        assert company.play(SCENARIOS[name]) == SCENARIOS[name].ending


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    """With all that the tests of jobs, queues and preemption have."""
    running = start_with_preemption(cluster)
    install_pod_trials(cluster)
    add_priorities(cluster, PRIORITIES)
    return running


# Tests of other files, on this cluster.
from tests.integration.test_jobs import (  # noqa: E402
    Jobs,
    jobs,  # noqa: F401
    test_a_deleted_node_under_a_running_job_starts_it_over_whole,  # noqa: F401
    test_a_job_that_its_owner_holds_is_as_its_user_wrote_it,  # noqa: F401
    test_a_job_waits_suspended_and_says_why,  # noqa: F401
    test_two_jobs_that_fit_only_one_at_a_time_never_share_the_room,  # noqa: F401
)
from tests.integration.test_jobs import (  # noqa: E402
    test_a_quota_that_keeps_its_pods_from_being_created_suspends_it_again as suspended_for_its_quota,
)
from tests.integration.test_preemption import (  # noqa: E402
    test_a_stateful_set_gives_up_a_pod_beyond_its_minimum_and_grows_back,  # noqa: F401
    test_a_victim_job_with_no_backoff_runs_again_later,  # noqa: F401
    test_exactly_the_dev_pods_give_way_to_a_gang,  # noqa: F401
    test_exactly_the_dev_pods_give_way_to_pods_of_no_gang,  # noqa: F401
)
from tests.integration.test_queues import (  # noqa: E402
    queues,  # noqa: F401
    test_a_gang_of_pods_waits_for_quota_and_then_runs,  # noqa: F401
    test_the_tutorials_job_twice,  # noqa: F401
    test_three_teams_that_may_borrow,  # noqa: F401
)


def until_job(stage: RealStage, name: str, size: int) -> Object:
    """Wait until that number of pods of the job run."""
    path = f"/apis/batch/v1/namespaces/{stage.namespace}/jobs/{name}"
    ready_job: Object = stage.api.wait_for(path, lambda job: bool(job) and job["status"].get("ready") == size)
    return ready_job


def is_suspended(stage: RealStage, name: str) -> bool:
    return bool(stage.api.get(f"/apis/batch/v1/namespaces/{stage.namespace}/jobs/{name}")["spec"]["suspend"])


def test_a_jobset_runs_whole_and_is_given_back_as_it_was_written(cluster: Cluster, muster: RunningMuster) -> None:
    start_controller(cluster, "jobset")
    added = cluster.add_nodes(8, prefix="jobset", labels={CLIQUE: "jobset"})
    # Its driver has no GPU, so nothing lets it onto nodes that have some.
    added += cluster.add_nodes(1, prefix="jobset-cpu", gpus=0, labels={CLIQUE: "jobset"})
    check_all_or_none(cluster, WORKERS)
    for name in added:
        cluster.api.delete(f"/api/v1/nodes/{name}")
    assert muster.extender.running


def test_a_job_goes_by_the_priority_of_the_default_class(stage: RealStage) -> None:
    """The job names no class. Jobs of a lower priority are evicted for it."""
    add_priorities(stage.cluster, {"spare": 10})
    stage.add_nodes(2)
    create_job(stage, "cheap", 2, "spare")
    until_job(stage, "cheap", 2)
    create_job(stage, "usual", 2, "")
    until_job(stage, "usual", 2)
    assert is_suspended(stage, "cheap")


def test_a_job_waits_while_the_quota_of_its_namespace_is_used_up(stage: RealStage) -> None:
    """The job is not started without its pods, so it holds no node that others could use."""
    stage.add_nodes(4)
    quotas = f"/api/v1/namespaces/{stage.namespace}/resourcequotas"
    stage.api.patch(f"{quotas}/team", {"spec": {"hard": {"requests.nvidia.com/gpu": "16"}}})
    stage.api.wait_for(
        f"{quotas}/team", lambda quota: quota["status"].get("hard", {}).get("requests.nvidia.com/gpu") == "16"
    )
    create_job(stage, "first", 2, "")
    until_job(stage, "first", 2)
    create_job(stage, "second", 2, "")
    message = stage.until_noted("second", "PodsRefused")
    assert "exceeded quota: team" in message, message
    stage.succeed(*(pod.name for pod in stage.pods()))
    job = until_job(stage, "second", 2)
    assert job["metadata"]["annotations"]["muster.dev/plan"]
    started = [event for event in _events(stage, "second") if event["reason"] == "Resumed"]
    assert len(started) == 1, "it is started once"


def test_a_job_that_was_started_without_quota_for_all_of_its_pods_names_the_quota(
    stage: RealStage,
    jobs: Jobs,  # noqa: F811
) -> None:
    suspended_for_its_quota(stage, jobs)
    message = stage.until_noted("train", "PodsRefused")
    assert "exceeded quota: pods, requested: pods=1, used: pods=2, limited: pods=2" in message, message


def test_a_job_waits_while_a_webhook_does_not_answer(cluster: Cluster, stage: RealStage) -> None:
    stage.add_nodes(2)
    webhook = cluster.process(WEBHOOK)
    webhook.kill()
    try:
        create_job(stage, "train", 2, "")
        assert "failed calling webhook" in stage.until_noted("train", "PodsRefused")
        assert is_suspended(stage, "train")
    finally:
        cluster.again(webhook)
    until_job(stage, "train", 2)


def test_what_the_namespace_does_not_let_its_pods_tolerate_is_the_reason(stage: RealStage) -> None:
    stage.add_nodes(2)
    path = create_job(stage, "train", 2, "")
    until_job(stage, "train", 2)
    job = stage.api.get(path)["spec"]["template"]["spec"]
    spec = {key: job[key] for key in ("containers", "restartPolicy")}
    spec["tolerations"] = [{"key": "example.com/reserved", "operator": "Exists"}]
    meta = {"name": "reserved", "labels": {"muster.dev/gang": "true"}}
    stage.api.create(path.rpartition("/")[0], {"metadata": meta, "spec": {"template": {"spec": spec}}})
    assert "conflict with its namespace whitelist" in stage.until_noted("reserved", "PodsRefused")


def test_a_job_follows_the_node_selector_of_its_namespace(stage: RealStage) -> None:
    """The job waits for nodes that match. Its pods are tried again when the namespace selects others."""
    stage.add_nodes(2)
    namespace = f"/api/v1/namespaces/{stage.namespace}"
    stage.api.patch(namespace, {"metadata": {"annotations": {NODE_SELECTOR: "stage=nowhere"}}})
    create_job(stage, "train", 2, "")
    message = stage.until_noted("train", "NoRoom")
    assert "node selector stage=nowhere, which their template does not say" in message, message
    stage.api.patch(namespace, {"metadata": {"annotations": {NODE_SELECTOR: f"stage={stage.namespace}"}}})
    until_job(stage, "train", 2)


def test_muster_may_do_all_that_it_asks_for(cluster: Cluster, muster: RunningMuster) -> None:
    """After all of the above its accounts were refused only requests that they try on purpose."""
    assert muster.extender.running
    refused = [
        entry
        for entry in cluster.audit()
        if entry["user"]["username"].startswith(f"system:serviceaccount:{NAMESPACE}:muster-")
        and entry.get("responseStatus", {}).get("code") == 403
        and "dryRun=All" not in entry["requestURI"]
    ]
    assert not refused, json.dumps(refused[:3], indent=1)


def _events(stage: RealStage, name: str) -> list[Object]:
    path = f"/apis/events.k8s.io/v1/namespaces/{stage.namespace}/events"
    return [event for event in stage.api.list(path) if event["regarding"]["name"] == name]
