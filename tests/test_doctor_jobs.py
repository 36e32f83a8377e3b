"""`muster doctor` where jobs are admitted whole: policies of admission, kinds of the settings, Kueue beside it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from extender.cli.doctor.command import examine
from extender.cli.doctor.facts import Facts, Kueue, owner_from
from extender.cli.doctor.finding import Severity
from extender.cli.doctor.installation import GUARDS
from extender.cli.doctor.rights import needed
from extender.config.settings import Settings, load
from extender.kube.reading.objects import Meta, OwnerObject
from tests.doctored import BASE, Config, Tree, admission, codes, shipped
from tests.kube.kinds.test_own import SIMULATION


def test_the_policies_for_jobs_are_no_gate_for_gangs() -> None:
    assert codes(admission("admission-gate", "job-admission")) == []
    assert codes(admission("admission-gate")) == []
    assert codes(admission("job-admission")) == ["NoGate"]


@pytest.mark.parametrize("name", ["muster-gang-gate", "muster-jobs", "muster-job-pods"])
def test_a_policy_that_is_not_bound_does_nothing(name: str) -> None:
    facts = admission("admission-gate", "job-admission")
    assert facts.policy_bindings is not None
    del facts.policy_bindings[name]
    assert codes(facts) == ["GateNotBound"]


def test_a_policy_for_other_profiles_is_told() -> None:
    facts = admission("admission-gate", "job-admission")
    facts.scheduler = shipped() | {"profiles": [{"schedulerName": "gpus"}]}
    facts.settings = load(None, scheduler_names=("gpus",))
    assert codes(facts) == ["GateElsewhere", "GateElsewhere"]


def test_a_guard_of_pods_for_other_profiles_is_told() -> None:
    found = yaml.safe_load_all((BASE.parent / "components" / "admission-gate" / "own-keys.yaml").read_text())
    facts = admission("admission-gate", "job-admission")
    facts.guards = {name: {} for name in GUARDS}
    facts.guards |= {one["metadata"]["name"]: one for one in found if one["kind"] == "ValidatingAdmissionPolicy"}
    preemption = yaml.safe_load((BASE.parent / "components" / "preemption" / "kustomization.yaml").read_text())
    (added,) = yaml.safe_load(preemption["patches"][0]["patch"])
    facts.guards["muster-extender-evictions"] = {"spec": {"matchConditions": [added["value"]]}}
    assert codes(facts) == []
    names = facts.guards | {"of-others": facts.guards["muster-pod-keys"]}
    facts.policies, facts.guards = {}, names
    facts.scheduler = shipped() | {"profiles": [{"schedulerName": "gpus"}]}
    facts.settings = load(None, scheduler_names=("gpus",))
    told = {(one.code, one.subject) for one in examine(facts).findings} - {("NoGate", "muster-gang-gate")}
    where = ("muster-extender-evictions", "muster-pod-keys")
    assert told == {("GateElsewhere", name) for name in where}


def held_for(seconds: int, facts: Facts) -> Facts:
    """Binds of this installation are held for so long at most."""
    config = Config()
    config.bind["httpTimeout"] = f"{seconds}s"
    facts.scheduler, facts.settings = config.all, load(None, bind_timeout_s=seconds)
    return facts


def test_binds_that_end_before_the_pods_of_a_job_exist_are_told() -> None:
    both = "admission-gate", "job-admission"
    (found,) = examine(held_for(60, admission(*both))).findings
    assert (found.severity, found.code, found.subject) == (Severity.ERROR, "BindTimeoutShortForJobs", "httpTimeout")
    assert "600 pods" in found.what
    assert "httpTimeout: 600s" in found.fix
    assert "bind_timeout_s: 600" in found.fix
    assert codes(held_for(600, admission(*both))) == []
    assert codes(held_for(60, admission("admission-gate"))) == [], "nobody admits jobs"


def test_they_are_told_where_the_component_is_not_installed_and_jobs_ask_for_a_queue() -> None:
    job = OwnerObject(Meta(name="train", namespace="team", labels={"kueue.x-k8s.io/queue-name": "a"}))
    facts = held_for(30, Facts(load(None), owners=[owner_from("Job", job)]))
    assert codes(facts) == ["BindTimeoutShortForJobs"]


@pytest.mark.parametrize(
    ("frameworks", "kinds"),
    [
        (("batch/job", "pod", "jobset.x-k8s.io/jobset"), "manages batch/job, jobset.x-k8s.io/jobset:"),
        (("kubeflow.org/mpijob",), "manages kubeflow.org/mpijob:"),
        (None, "may manage the kinds that Muster admits"),
    ],
)
def test_a_kueue_that_manages_the_same_kinds_is_told(frameworks: tuple[str, ...] | None, kinds: str) -> None:
    facts = admission("admission-gate", "job-admission")
    facts.kueue = Kueue("ConfigMap kueue-system/kueue-manager-config", frameworks)
    (found,) = examine(facts).findings
    assert (found.severity, found.code, found.subject) == (Severity.ERROR, "KueueManagesJobs", facts.kueue.config)
    assert kinds in found.what
    assert "integrations.frameworks" in found.fix
    assert 'muster.dev/gang: "false"' in found.fix
    facts = Facts(load(None), scheduler=shipped(), kueue=facts.kueue)
    assert [one.severity for one in examine(facts).findings] == [Severity.WARNING], "no job is admitted yet"


@pytest.mark.parametrize(
    ("served", "told"),
    [
        ({("science.example.com/v1", "simulations"): "Simulation"}, ""),
        ({}, "the API server serves no such kind"),
        ({("science.example.com/v2", "simulations"): "Simulation"}, "the API server serves no such kind"),
        ({("science.example.com/v1", "simulations"): "Sim"}, "its objects are of the kind Sim, and not Simulation"),
        (None, ""),
    ],
)
def test_a_kind_of_the_settings_that_is_not_there_is_told(served: dict[tuple[str, str], str] | None, told: str) -> None:
    settings = Settings.model_validate({"job_kinds": [SIMULATION]})
    found = [one for one in examine(Facts(settings, served=served)).findings if one.code == "KindNotServed"]
    assert [(one.severity, one.subject) for one in found] == (
        [(Severity.WARNING, "simulations of science.example.com/v1")] if told else []
    )
    assert all(told in one.what for one in found)


@pytest.mark.parametrize(
    ("served", "told"),
    [
        ({}, []),
        ({("kubeflow.org/v2beta1", "mpijobs"): "MPIJob", ("kubeflow.org/v1", "mpijobs"): "MPIJob"}, []),
        ({("kubeflow.org/v1", "mpijobs"): "MPIJob"}, ["mpijobs.kubeflow.org"]),
        ({("example.com/v1", "mpijobs"): "MPIJob"}, []),
        ({("leaderworkerset.x-k8s.io/v1alpha1", "leaderworkersets"): "LeaderWorkerSet"}, ["leaderworkersets.leader"]),
    ],
    ids=["none", "ours too", "another", "of another group", "owners"],
)
def test_a_kind_in_another_version_is_noted(served: dict[tuple[str, str], str], told: list[str]) -> None:
    findings = examine(Facts(load(None), served=served)).findings
    found = [one for one in findings if one.code == "OtherVersion"]
    assert all(one.severity is Severity.NOTE and one.subject.startswith(told[0]) for one in found)
    assert len(found) == len(told)


@pytest.mark.parametrize(
    ("version", "runs", "told"), [("v1alpha1", False, 1), ("v1alpha1", True, 0), ("v1beta1", False, 0)]
)
def test_queue_objects_in_a_version_that_is_not_read_are_told(version: str, told: int, *, runs: bool) -> None:
    served = {(f"kueue.x-k8s.io/{version}", "cohorts"): "Cohort", ("kueue.x-k8s.io/v1beta1", "clusterqueues"): "X"}
    facts = Facts(load(None), served=served, kueue_runs=runs)
    found = [(one.severity, one.subject) for one in examine(facts).findings if one.code == "OtherVersion"]
    assert found == [(Severity.WARNING, "cohorts.kueue.x-k8s.io")] * told


GUARD = next(yaml.safe_load_all((BASE.parent / "examples" / "own-kind" / "extender-policy.yaml").read_text()))


def judging(group: str, operation: str) -> Tree:
    rule = {"apiGroups": [group], "resources": ["*"], "operations": [operation]}
    return {"matchConstraints": {"resourceRules": [rule]}}


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({}, False),
        ({"matchConditions": []}, True),
        (judging("batch", "*"), True),
        (judging("*", "*"), False),
        (judging("*", "CREATE"), True),
    ],
    ids=["the example", "of everybody", "another group", "everything", "creation alone"],
)
def test_a_kind_of_the_settings_without_a_policy_on_what_muster_writes_is_told(said: Tree, *, told: bool) -> None:
    settings = Settings.model_validate({"job_kinds": [SIMULATION]})
    guards: dict[str, Mapping[str, Any]] = {"x": {"spec": {**GUARD["spec"], **said}}}
    found = {one.code: one for one in examine(Facts(settings, guards=guards)).findings}
    assert ("KindUnguarded" in found) is told
    assert "KindUnguarded" in codes(Facts(settings, guards={}))
    assert "KindUnguarded" not in codes(Facts(settings))


def test_a_right_that_a_kind_of_the_settings_lacks_is_not_in_the_base() -> None:
    settings = Settings.model_validate({"job_kinds": [SIMULATION]})
    rights = {one: one.resource not in ("simulations", "jobs") for one in needed(settings, None)}
    found = examine(Facts(settings, rights=rights)).findings
    fixes = {one.what: one.fix for one in found if one.code == "MissingRight"}
    assert "own-kind" in fixes["it may not patch simulations.science.example.com"]
    assert "base" in fixes["it may not patch jobs.batch"]


def test_the_rights_of_the_component_for_elastic_flavors_are_asked_for_where_there_are_such() -> None:
    settings = Settings.model_validate({"elastic": {"flavors": ["spot"]}})
    role = yaml.safe_load_all((BASE.parent / "components" / "elastic" / "role.yaml").read_text())
    given = {
        (verb, resource, group)
        for one in role
        for rule in one.get("rules", ())
        for verb in rule["verbs"]
        for resource in rule["resources"]
        for group in rule["apiGroups"]
    }
    asked = set(needed(settings, None)) - set(needed(load(None), None))
    assert {(one.verb, one.resource, one.group) for one in asked} == given
    found = examine(Facts(settings, rights=dict.fromkeys(asked, False))).findings
    assert {one.fix for one in found if one.code == "MissingRight"} == {"kubectl apply -k manifests/components/elastic"}


def test_a_policy_of_the_base_on_what_muster_may_write_that_is_missing_is_told() -> None:
    documents = [one for file in BASE.glob("*.yaml") for one in yaml.safe_load_all(file.read_text())]
    guards = {one["metadata"]["name"]: one for one in documents if one.get("kind") == "ValidatingAdmissionPolicy"}
    assert guards.keys() == set(GUARDS)
    assert codes(Facts(load(None), guards=guards)) == []
    del guards["muster-extender-jobs"]
    (found,) = examine(Facts(load(None), guards=guards)).findings
    assert (found.code, found.subject) == ("ExtenderUnguarded", "muster-extender")
    assert "no ValidatingAdmissionPolicy muster-extender-jobs: " in found.what


@pytest.mark.parametrize(("preemption", "component"), [("on", True), ("on", False), ("dry-run", False)])
def test_preemption_without_its_component_is_told(preemption: str, *, component: bool) -> None:
    policies = yaml.safe_load_all((BASE / "extender-policy.yaml").read_text())
    guards = {one["metadata"]["name"]: one for one in policies if one["kind"] == "ValidatingAdmissionPolicy"}
    if component:
        patches = yaml.safe_load((BASE.parent / "components" / "preemption" / "kustomization.yaml").read_text())[
            "patches"
        ]
        (patch,) = yaml.safe_load(patches[0]["patch"])
        guards[patches[0]["target"]["name"]]["spec"]["matchConditions"].append(patch["value"])
    facts = Facts(load(None, preemption=preemption), guards=guards)
    assert ("NoEvictionsOfPods" in codes(facts)) is (preemption == "on" and not component)


def test_an_account_that_has_lost_its_role_is_one_finding() -> None:
    rights = dict.fromkeys(needed(load(None), None), False)
    found = [one for one in examine(Facts(load(None), rights=rights)).findings if one.code == "MissingRight"]
    assert sorted(one.subject for one in found) == ["muster-extender", *["muster-scheduler"] * (len(found) - 1)]
    (extender,) = [one for one in found if one.subject == "muster-extender"]
    assert extender.what.startswith("it may not get pods, list pods, ")
    assert re.search(r" and \d+ more$", extender.what)
    assert "ClusterRoleBinding" in extender.fix


def test_a_kueue_that_manages_other_kinds_is_no_fault() -> None:
    facts = admission("admission-gate", "job-admission")
    facts.kueue = Kueue("ConfigMap kueue-system/kueue-manager-config", ("pod", "ray.io/rayservice"))
    assert codes(facts) == []
