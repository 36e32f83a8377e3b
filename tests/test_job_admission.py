"""manifests/components/job-admission says the same as the settings, the code and the gate beside it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from extender.core.gate.stamps import WRITTEN
from extender.kube.dialects import NAMES
from extender.kube.keys import (
    COMPONENT,
    FLAVORS,
    IN_VAIN,
    INDEX_LABEL,
    LED,
    NODE_LABELS,
    NODES,
    OWN,
    PLAN,
    PODSET,
    QUEUES,
    WORKLOAD,
)
from extender.kube.reading.eviction import EVICTED_AT
from extender.kube.reading.queue_name import OF_VOLCANO
from extender.kube.reading.reserved import RESERVATIONS
from policies.model import GANG_GATE
from tests.test_manifests import document, documents

FOLDER = "components/job-admission"
JOB_POLICIES = ("muster-jobs", "muster-job-pods", "muster-untracked-pods")
FILES = ("jobs", "own-keys", "owners", "pods", "queue-names", "untracked", "values")
DOCUMENTS = [
    manifest
    for name in (
        "components/admission-gate/policy.yaml",
        "components/admission-gate/own-keys.yaml",
        *(f"{FOLDER}/{file}.yaml" for file in FILES),
    )
    for manifest in documents(name)
]
POLICIES = {
    manifest["metadata"]["name"]: manifest["spec"]
    for manifest in DOCUMENTS
    if manifest["kind"] == "MutatingAdmissionPolicy"
}


def conditions(name: str) -> dict[str, str]:
    return {condition["name"]: condition["expression"] for condition in POLICIES[name]["matchConditions"]}


def mutation(name: str) -> str:
    """All that it does."""
    return "\n".join(change["jsonPatch"]["expression"] for change in POLICIES[name]["mutations"])


def test_the_component_has_every_file_and_every_policy_is_bound() -> None:
    assert document(f"{FOLDER}/kustomization.yaml")["resources"] == [f"{file}.yaml" for file in FILES]
    bindings = {
        manifest["spec"]["policyName"] for manifest in DOCUMENTS if manifest["kind"] == "MutatingAdmissionPolicyBinding"
    }
    assert (
        bindings
        == set(POLICIES)
        == {"muster-gang-gate", "muster-gang-owners", "muster-job-keys", "muster-pod-keys", *JOB_POLICIES}
    )


def test_jobs_fail_closed_and_pods_fail_open() -> None:
    assert {name: spec["failurePolicy"] for name, spec in POLICIES.items()} == {
        "muster-gang-gate": "Ignore",
        "muster-gang-owners": "Fail",
        "muster-jobs": "Fail",
        "muster-job-keys": "Fail",
        "muster-pod-keys": "Ignore",
        "muster-job-pods": "Ignore",
        "muster-untracked-pods": "Ignore",
    }


def test_the_queue_of_every_kind_of_job_that_runs_stays_and_so_does_that_of_no_other() -> None:
    policy, binding = documents(f"{FOLDER}/queue-names.yaml")
    names = policy["metadata"]["name"]
    assert (binding["spec"]["policyName"], binding["spec"]["validationActions"]) == (names, ["Deny"])
    suspended = POLICIES["muster-jobs"]["matchConstraints"]["resourceRules"]
    rules = [{**rule, "operations": ["UPDATE"]} for rule in suspended]
    assert policy["spec"]["matchConstraints"]["resourceRules"] == rules
    read = next(variable["expression"] for variable in policy["spec"]["variables"] if variable["name"] == "names")
    assert read == str([*QUEUES])


@pytest.mark.parametrize("name", POLICIES)
def test_patches_are_the_cheap_kind(name: str) -> None:
    assert {change["patchType"] for change in POLICIES[name]["mutations"]} == {"JSONPatch"}


def test_scheduler_names_agree() -> None:
    names: Any = document("base/muster.yaml")["scheduler_names"]
    served = f"object.spec.schedulerName in {names!r}"
    assert conditions("muster-gang-gate")["meant-for-muster"] == served
    assert conditions("muster-job-pods")["meant-for-muster"].startswith(f"{served} || ")
    assert f"path: one.path + '/spec/schedulerName', value: '{names[0]}'" in mutation("muster-jobs")
    for name in ("muster-job-pods", "muster-untracked-pods"):
        assert f"path: '/spec/schedulerName', value: '{names[0]}'" in mutation(name)


OWN_OF_JOBS = {PLAN, OWN, FLAVORS, *RESERVATIONS, EVICTED_AT, IN_VAIN}
OWN_OF_TEMPLATES = {WORKLOAD, NODES, NODE_LABELS, PODSET, INDEX_LABEL, COMPONENT}


def keys_in(spec: Any) -> set[str]:
    return set(re.findall(r"'(muster\.dev/[\w-]+)'", str(spec).replace("\\'", "'")))


def test_what_only_muster_writes_on_jobs_is_kept_on_every_kind() -> None:
    (mutating, _, validating, _) = documents(f"{FOLDER}/own-keys.yaml")
    rules = POLICIES["muster-jobs"]["matchConstraints"]["resourceRules"]
    assert mutating["spec"]["matchConstraints"]["resourceRules"] == rules
    kept = {(group, kind) for rule in rules for group in rule["apiGroups"] for kind in rule["resources"]}
    judged = validating["spec"]["matchConstraints"]["resourceRules"]
    looked_at = {(group, kind) for rule in judged for group in rule["apiGroups"] for kind in rule["resources"]}
    assert looked_at == kept | {("batch", "jobs/status")}
    variables = {variable["name"]: variable["expression"] for variable in validating["spec"]["variables"]}
    assert keys_in(variables["keys"]) == OWN_OF_JOBS
    assert keys_in(variables["marks"]) == OWN_OF_TEMPLATES | {LED, PLAN, OWN, FLAVORS}
    added = {variable["name"]: variable["expression"] for variable in mutating["spec"]["variables"]}
    assert keys_in(added["lost"]) == OWN_OF_JOBS
    assert keys_in(added["stale"]) == OWN_OF_JOBS - {OWN}


def test_what_only_muster_writes_on_pods_is_kept_and_so_are_gang_and_queue_of_those_that_run() -> None:
    names: Any = document("base/muster.yaml")["scheduler_names"]
    (mutating, _, judged, *_) = documents("components/admission-gate/own-keys.yaml")
    ours = {*WRITTEN, *RESERVATIONS}
    assert keys_in(mutating["spec"]["mutations"]) == ours
    assert keys_in(mutating["spec"]["matchConditions"]) == ours
    assert keys_in(mutation("muster-untracked-pods")) - {GANG_GATE} == ours
    variables = {variable["name"]: variable["expression"] for variable in judged["spec"]["variables"]}
    assert keys_in(variables["changed"]) == ours
    assert f"oldObject.spec.schedulerName in {names!r}" in variables["runs"]
    assert set(re.findall(r"'([\w.-]+/queue-name)'", variables["queues"])) == {*QUEUES, OF_VOLCANO}
    assert {name for name in NAMES if f"'{name}'" not in variables["gangs"]} == set()


def test_each_pod_is_changed_by_one_policy_alone() -> None:
    """The order in which the API server asks the policies does not matter then."""
    workload = "object.metadata.?annotations[?'muster.dev/workload'].orValue('')"
    assert conditions("muster-job-pods")["of-a-started-job"] == f"{workload} != ''"
    assert conditions("muster-gang-gate")["not-of-a-started-job"] == f"{workload} == ''"


def test_the_gate_is_that_of_the_code() -> None:
    for policy in ("muster-gang-gate", "muster-job-pods"):
        assert mutation(policy).count(f"{{'name': '{GANG_GATE}'}}") == 2
