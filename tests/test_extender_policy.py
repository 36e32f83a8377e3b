"""manifests/base/extender-policy*.yaml say the same as the code and the roles beside them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

from extender.core.gate import stamps
from extender.kube.client import EVICTED_BY
from extender.kube.dialects import MIN_MEMBER, NAMES, POD_GROUP
from extender.kube.keys import (
    COMPONENT,
    FLAVORS,
    GANG,
    IN_VAIN,
    LED,
    NODE_LABELS,
    NODES,
    OWN,
    PLAN,
    PODSET,
    QUEUES,
    WORKLOAD,
)
from extender.kube.kinds.appwrapper import APP_WRAPPER
from extender.kube.kinds.trainer import MANAGER
from extender.kube.reading.eviction import EVICTED_AT
from extender.kube.reading.reserved import RESERVATIONS
from extender.kube.reports import CONTROLLER
from extender.runtime.requests import ApiCall, LookAtPod
from policies.model import GANG_GATE
from tests.test_manifests import documents

FILES = ("extender-policy", "extender-policy-jobs", "extender-policy-podgroups", "extender-policy-workloads")
DOCUMENTS = [document for file in FILES for document in documents(f"base/{file}.yaml")]
POLICIES = {
    document["metadata"]["name"]: document["spec"]
    for document in DOCUMENTS
    if document["kind"] == "ValidatingAdmissionPolicy"
}


def text(name: str) -> str:
    """The expressions that the policy judges by, apart from the one about the requesting account."""
    spec = POLICIES[name]
    return " ".join(rule["expression"] for rule in (*spec["matchConditions"][1:], *spec["validations"]))


def gate(name: str) -> str:
    """A match condition of the admission gate."""
    spec = documents("components/admission-gate/policy.yaml")[0]["spec"]
    return next(str(condition["expression"]) for condition in spec["matchConditions"] if condition["name"] == name)


def test_every_policy_is_bound_refuses_and_fails_closed() -> None:
    bindings = [binding for binding in DOCUMENTS if binding["kind"] != "ValidatingAdmissionPolicy"]
    assert {binding["spec"]["policyName"] for binding in bindings} == set(POLICIES)
    assert all(binding["spec"]["validationActions"] == ["Deny"] for binding in bindings)
    assert all(spec["failurePolicy"] == "Fail" for spec in POLICIES.values())


def test_it_is_the_extenders_account_that_is_judged() -> None:
    role = next(
        document for document in documents("base/rbac-extender.yaml") if document["kind"] == "ClusterRoleBinding"
    )
    [subject] = role["subjects"]
    account = f"system:serviceaccount:{subject['namespace']}:{subject['name']}"
    for spec in POLICIES.values():
        assert spec["matchConditions"][0]["expression"] == f"request.userInfo.username == '{account}'"


def test_every_right_to_write_to_a_pod_a_job_or_an_event_is_covered() -> None:
    """The status of queues, and of PodGroups of the coscheduling plugin and KAI, are the only exceptions."""
    role = next(document for document in documents("base/rbac-extender.yaml") if document["kind"] == "ClusterRole")
    writes = {
        (group, resource, {"patch": "UPDATE", "create": "CREATE"}[verb])
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if verb not in ("get", "list", "watch")
    }
    queues = {("kueue.x-k8s.io", f"{kind}/status", "UPDATE") for kind in ("clusterqueues", "localqueues", "cohorts")}
    groups = {(group, "podgroups/status", "UPDATE") for group in ("scheduling.x-k8s.io", "scheduling.run.ai")}
    assert writes - covered() == groups | queues
    assert covered() <= writes


def test_everything_that_muster_writes_is_tried_on_a_real_api_server() -> None:
    """A new kind of write is refused there until the policies know it."""
    files = (Path(__file__).parent / "integration").glob("test_extender_policy*.py")
    tried = " ".join(file.read_text() for file in files)
    writes = {kind.__name__ for kind in get_args(ApiCall)} - {LookAtPod.__name__}
    assert {name for name in writes if not re.search(rf"\b{name}\(", tried)} == set()


def covered() -> set[tuple[str, str, str]]:
    rules: list[dict[str, Any]] = [
        rule for spec in POLICIES.values() for rule in spec["matchConstraints"]["resourceRules"]
    ]
    return {
        (group, resource, operation)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for operation in rule["operations"]
    }


ON_JOBS = (PLAN, OWN, FLAVORS, *RESERVATIONS, EVICTED_AT, IN_VAIN)
ON_TEMPLATES = (POD_GROUP, MIN_MEMBER, WORKLOAD, NODES, NODE_LABELS)
"""The annotations that Muster writes on a job, and on its pod templates."""


def test_which_jobs_are_managed_is_said_in_the_same_words_where_they_are_suspended() -> None:
    (created,) = [
        policy["spec"] for policy in documents("components/job-admission/jobs.yaml") if "variables" in policy["spec"]
    ]
    judged = {variable["name"]: variable["expression"] for variable in POLICIES["muster-extender-jobs"]["variables"]}
    outermost = next(
        condition["expression"] for condition in created["matchConditions"] if condition["name"] == "outermost"
    )
    named = next(variable["expression"] for variable in created["variables"] if variable["name"] == "named")
    shown = f"'{WORKLOAD}' in object.metadata.?annotations.orValue({{}}) || "
    assert outermost.startswith(shown), "a JobSet that shows a managed TrainJob gets its scheduler"
    assert judged["outermost"] == outermost.removeprefix(shown).replace("object.", "variables.old.")
    assert judged["named"] == named.replace("variables.annotations", "variables.oldAnnotations")
    for key in (*QUEUES, GANG):
        assert f"'{key}'" in named


STAMPS = {value for value in vars(stamps).values() if isinstance(value, str) and value.startswith("muster.dev/")}
"""The annotations that a Binding may carry: a new one is refused until the policy has it, too."""


def test_the_names_are_those_of_the_code() -> None:
    assert set(re.findall(r"'(muster\.dev/[\w-]+)'", text("muster-extender-bindings"))) == STAMPS
    assert f"key == '{stamps.RELEASE_COMPLETE}'" in text("muster-extender-pods")
    assert f"gate.name != '{GANG_GATE}'" in text("muster-extender-pods")
    assert set(re.findall(r"'([\w.-]+/[\w-]+)'", text("muster-extender-evictions"))) == {
        *(stamps.RELEASE, GANG, *(name for name in NAMES if "/" in name))
    }
    for policy in (text("muster-extender-evictions"), gate("names-a-gang")):
        [listed] = re.findall(r"\[([^][]*)\]\.exists\(key", policy)
        assert re.findall(r"'([^']+)'", listed) == [*NAMES]
    [_, plain] = (condition["expression"] for condition in POLICIES["muster-extender-jobs"]["matchConditions"])
    assert set(re.findall(r"'([\w.-]+/[\w-]+)'", plain)) == {
        *QUEUES[:2],
        GANG,
        PLAN,
        OWN,
        POD_GROUP,
        MIN_MEMBER,
        WORKLOAD,
        NODES,
        LED,
    }
    judged = " ".join(validation["expression"] for validation in POLICIES["muster-extender-jobs"]["validations"])
    assert set(re.findall(r"'(muster\.dev/[\w-]+)'", judged)) == {OWN, FLAVORS, MANAGER}
    jobs = {variable["name"]: variable["expression"] for variable in POLICIES["muster-extender-jobs"]["variables"]}
    assert re.findall(r"'([^']+)'", jobs["marks"]) == [*ON_TEMPLATES, COMPONENT, PODSET]
    assert APP_WRAPPER.patience is not None
    assert set(re.findall(r"'([\w.-]+/[\w-]+)'", jobs["said"])) == {*ON_JOBS, APP_WRAPPER.patience[0]}
    assert f"object.reportingController != '{CONTROLLER}'" in text("muster-extender-events")
    assert f"'{EVICTED_BY}'" in text("muster-extender-eviction-labels")
    selector = POLICIES["muster-extender-evictions"]["matchConstraints"]["objectSelector"]
    assert selector == {"matchLabels": {EVICTED_BY: "extender"}}
