"""Preemption on the real control plane where something comes between: a restart, a hold, a minimum, a refusal."""

from __future__ import annotations

import pytest

from devcluster import Cluster
from devcluster.api import ApiError, Object
from devcluster.muster import RunningMuster, install_gate, install_job_admission, start_muster
from tests.integration.preemption import PRIORITIES, create_job, ending_late, let_end, on, with_preemption
from tests.integration.stage import RealStage, add_priorities
from tests.scenarios.pods import bound, gated

pytestmark = pytest.mark.xdist_group("preemption hindered")

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
KEEP: Object = {
    "failurePolicy": "Fail",
    "matchConstraints": {
        "resourceRules": [
            {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["jobs"]}
        ]
    },
    "validations": [{"expression": "!object.spec.suspend || oldObject.spec.suspend", "message": "keep it running"}],
}
"""No job may be suspended."""


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    manifests = with_preemption(cluster.directory / "with-preemption")
    settings = {"preemption": "on", "preemption_timeout_s": 60, "preemption_evictions_per_hour": 1}
    running = start_muster(cluster, settings, manifests=manifests)
    install_gate(cluster)
    install_job_admission(cluster)
    add_priorities(cluster, PRIORITIES)
    return running


def test_a_room_of_which_half_is_free_is_kept_through_a_restart(stage: RealStage) -> None:
    _run_slowly_ending(stage, 2)
    create_job(stage, "urgent", 2, "inference")
    _until_slow_ones_are_told(stage)
    let_end(stage, "slow-0")
    stage.create(*gated("next", 1, priorityClassName="training"))
    stage.until_told("next", lambda seen: "0 of 1 members fit" in seen.message)
    stage.kill_extender()
    stage.start_extender()
    stage.until_told("next", lambda seen: "0 of 1 members fit" in seen.message)
    let_end(stage, "slow-1")
    pods = stage.until(lambda pods: len(on(pods, "urgent")) == 2)
    assert not bound(pods, "next")


def test_one_that_is_held_while_its_victims_go_gives_its_room_up_until_it_may_start(stage: RealStage) -> None:
    _run_slowly_ending(stage, 2)
    path = create_job(stage, "urgent", 2, "inference")
    _until_slow_ones_are_told(stage)
    stage.api.patch(path, {"metadata": {"annotations": {"muster.dev/hold": "true"}}})
    stage.api.wait_for(path, lambda job: "muster.dev/preempting" not in job["metadata"]["annotations"])
    let_end(stage, "slow-0", "slow-1")
    stage.create(*gated("next", 2, priorityClassName="dev"))
    stage.until(lambda pods: len(bound(pods, "next")) == 2)
    stage.api.patch(path, {"metadata": {"annotations": {"muster.dev/hold": None}}})
    stage.until(lambda pods: len(on(pods, "urgent")) == 2 and not on(pods, "next"))


def test_a_job_gives_way_when_it_has_run_for_its_minimum_and_once_an_hour_alone_also_after_a_restart(
    stage: RealStage,
) -> None:
    stage.add_nodes(1)
    path = create_job(stage, "low", 1, "dev", {"muster.dev/min-runtime": "5"})
    stage.until(lambda pods: len(on(pods, "low")) == 1)
    stage.create(*gated("urgent", 1, priorityClassName="inference"))
    stage.until_told("urgent", lambda seen: "less than its minimum" in seen.message)
    stage.until(lambda pods: len(bound(pods, "urgent")) == 1)
    stage.succeed("urgent-0")
    stage.until(lambda pods: len(on(pods, "low")) == 1)
    stage.api.patch(path, {"metadata": {"annotations": {"muster.dev/min-runtime": "0"}}})
    stage.kill_extender()
    stage.start_extender()
    stage.create(*gated("again", 1, priorityClassName="inference"))
    stage.until_told("again", lambda seen: "was evicted too often in the last hour" in seen.message)
    assert len(on(stage.pods(), "low")) == 1


def test_a_victim_that_may_not_be_suspended_is_told_of_with_the_refusal(stage: RealStage) -> None:
    stage.muster.restart_extender({"preemption_timeout_s": 10})
    stage.add_nodes(2)
    path = create_job(stage, "low", 2, "dev")
    stage.until(lambda pods: len(on(pods, "low")) == 2)
    name = f"keep-{stage.namespace}"
    chosen = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": stage.namespace}}}
    stage.api.create(POLICIES, {"metadata": {"name": name}, "spec": KEEP})
    of = {"policyName": name, "validationActions": ["Deny"], "matchResources": chosen}
    stage.api.create(BINDINGS, {"metadata": {"name": name}, "spec": of})
    stage.wait(lambda: _may_suspend(stage, path), lambda may: not may)
    stage.create(*gated("urgent", 2, priorityClassName="inference"))
    stage.until_told("urgent", lambda seen: "the suspension was refused" in seen.message)
    assert len(on(stage.pods(), "low")) == 2
    stage.api.delete(f"{BINDINGS}/{name}")
    stage.api.delete(f"{POLICIES}/{name}")
    stage.add_nodes(2)
    pods = stage.until(lambda pods: len(bound(pods, "urgent")) == 2)
    assert len(on(pods, "low")) == 2


def _may_suspend(stage: RealStage, path: str) -> bool:
    """A policy is there a moment after it was created."""
    try:
        stage.api.patch(f"{path}?dryRun=All", {"spec": {"suspend": True}})
    except ApiError:
        return False
    return True


def _run_slowly_ending(stage: RealStage, size: int) -> None:
    """Run a gang on as many nodes, whose pods stay until the test ends them."""
    stage.add_nodes(size)
    stage.create(*ending_late(gated("slow", size, priorityClassName="dev")))
    stage.until(lambda pods: len(bound(pods, "slow")) == size)


def _until_slow_ones_are_told(stage: RealStage) -> None:
    stage.until(lambda pods: all(victim.deleting for victim in pods if victim.name.startswith("slow")))
