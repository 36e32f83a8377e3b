"""manifests/components/job-admission says the same as the settings, the code and the gate beside it."""

from __future__ import annotations

from typing import Any

import pytest

from extender.kube.kinds.keys import QUEUES
from policies.model import GANG_GATE
from tests.test_manifests import document, documents

FOLDER = "components/job-admission"
JOB_POLICIES = ("muster-jobs", "muster-job-pods", "muster-untracked-pods")
FILES = ("jobs", "owners", "pods", "queue-names", "untracked", "values")
DOCUMENTS = [
    one
    for name in ("components/admission-gate/policy.yaml", *(f"{FOLDER}/{file}.yaml" for file in FILES))
    for one in documents(name)
]
POLICIES = {one["metadata"]["name"]: one["spec"] for one in DOCUMENTS if one["kind"] == "MutatingAdmissionPolicy"}


def conditions(name: str) -> dict[str, str]:
    return {one["name"]: one["expression"] for one in POLICIES[name]["matchConditions"]}


def mutation(name: str) -> str:
    """All that it does."""
    return "\n".join(one["jsonPatch"]["expression"] for one in POLICIES[name]["mutations"])


def test_the_component_has_every_file_and_every_policy_is_bound() -> None:
    assert document(f"{FOLDER}/kustomization.yaml")["resources"] == [f"{file}.yaml" for file in FILES]
    bindings = {one["spec"]["policyName"] for one in DOCUMENTS if one["kind"] == "MutatingAdmissionPolicyBinding"}
    assert bindings == set(POLICIES) == {"muster-gang-gate", "muster-gang-owners", *JOB_POLICIES}


def test_jobs_fail_closed_and_pods_fail_open() -> None:
    assert {name: spec["failurePolicy"] for name, spec in POLICIES.items()} == {
        "muster-gang-gate": "Ignore",
        "muster-gang-owners": "Fail",
        "muster-jobs": "Fail",
        "muster-job-pods": "Ignore",
        "muster-untracked-pods": "Ignore",
    }


def test_the_queue_of_every_kind_of_job_that_runs_stays_and_so_does_that_of_no_other() -> None:
    policy, binding = documents(f"{FOLDER}/queue-names.yaml")
    names = policy["metadata"]["name"]
    assert (binding["spec"]["policyName"], binding["spec"]["validationActions"]) == (names, ["Deny"])
    suspended = POLICIES["muster-jobs"]["matchConstraints"]["resourceRules"]
    rules = [{**one, "operations": ["UPDATE"]} for one in suspended]
    assert policy["spec"]["matchConstraints"]["resourceRules"] == rules
    read = next(one["expression"] for one in policy["spec"]["variables"] if one["name"] == "names")
    assert read == str([*QUEUES])


@pytest.mark.parametrize("name", POLICIES)
def test_patches_are_the_cheap_kind(name: str) -> None:
    assert {one["patchType"] for one in POLICIES[name]["mutations"]} == {"JSONPatch"}


def test_scheduler_names_agree() -> None:
    names: Any = document("base/muster.yaml")["scheduler_names"]
    served = f"object.spec.schedulerName in {names!r}"
    assert conditions("muster-gang-gate")["meant-for-muster"] == served
    assert conditions("muster-job-pods")["meant-for-muster"].startswith(f"{served} || ")
    assert f"path: one.path + '/spec/schedulerName', value: '{names[0]}'" in mutation("muster-jobs")
    for name in ("muster-job-pods", "muster-untracked-pods"):
        assert f"path: '/spec/schedulerName', value: '{names[0]}'" in mutation(name)


def test_the_queue_of_a_pod_is_kept_by_each_of_its_labels_in_the_same_words() -> None:
    names: Any = document("base/muster.yaml")["scheduler_names"]
    judged = [
        one for one in documents("components/admission-gate/queue-names.yaml") if "matchConstraints" in one["spec"]
    ]
    labels = [one["spec"]["matchConstraints"]["objectSelector"]["matchExpressions"][0]["key"] for one in judged]
    assert labels == list(QUEUES[:2])
    first, second = (str(one["spec"]).replace(label, "LABEL") for one, label in zip(judged, labels, strict=True))
    assert first == second
    assert judged[0]["spec"]["matchConditions"][0] == {
        "name": "meant-for-muster",
        "expression": f"oldObject.spec.schedulerName in {names!r}",
    }


def test_each_pod_is_changed_by_one_policy_alone() -> None:
    """So it does not matter which of them the API server asks first."""
    workload = "object.metadata.?annotations[?'muster.dev/workload'].orValue('')"
    assert conditions("muster-job-pods")["of-a-started-job"] == f"{workload} != ''"
    assert conditions("muster-gang-gate")["not-of-a-started-job"] == f"{workload} == ''"


def test_the_gate_is_that_of_the_code() -> None:
    for policy in ("muster-gang-gate", "muster-job-pods"):
        assert mutation(policy).count(f"{{'name': '{GANG_GATE}'}}") == 2
