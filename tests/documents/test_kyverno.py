"""docs/kyverno.md: its kustomization makes policies of Kyverno that say the same as those of the components."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any

import pytest
import yaml

from tests.documents.pages import ROOT
from tests.test_manifests import MANIFESTS, documents

PAGE = ROOT / "docs" / "kyverno.md"
Object = dict[str, Any]
NO_AUTHORIZER = {("muster-jobs", "waits"), ("muster-job-keys", "kept")}
"""The variables of policies that ask for the rights of an account."""


def built(folder: str) -> list[Object]:
    """Build the kustomization as `kubectl kustomize` does: it has patches that change fields, and one that deletes.
    tests/integration/test_older_jobs.py holds this against kubectl."""
    kustomization = yaml.safe_load((MANIFESTS / folder / "kustomization.yaml").read_text())
    objects = [document for component in kustomization["components"] for document in _component(folder, component)]
    for patch in kustomization["patches"]:
        changes = yaml.safe_load(patch["patch"])
        for obj in [candidate for candidate in objects if _is_meant(patch["target"], candidate)]:
            if isinstance(changes, dict):
                assert changes["$patch"] == "delete"
                objects.remove(obj)
                continue
            for change in changes:
                _apply(obj, **change)
    return objects


def _component(folder: str, component: str) -> list[Object]:
    path = (MANIFESTS / folder / component).resolve()
    named = yaml.safe_load((path / "kustomization.yaml").read_text())["resources"]
    return [deepcopy(document) for file in named for document in documents(str(path / file))]


def _is_meant(target: Object, obj: Object) -> bool:
    kind, name = target["kind"], target.get("name", ".*")
    return bool(re.fullmatch(kind, obj["kind"]) and re.fullmatch(name, obj["metadata"]["name"]))


def _apply(obj: Any, op: str, path: str, value: Any) -> None:
    *above, last = path.strip("/").split("/")
    for segment in above:
        obj = obj[int(segment)] if isinstance(obj, list) else obj[segment]
    if op == "test":
        assert obj[last] == value, f"{path} is not {value}: the component has changed"
    else:
        assert op == "add" or last in obj
        obj[last] = value


@pytest.fixture(scope="module")
def made() -> list[Object]:
    return built("examples/kyverno")


def test_each_policy_that_changes_objects_is_kyvernos_with_the_same_rules(made: list[Object]) -> None:
    ours = {
        obj["metadata"]["name"]: obj["spec"]
        for component in ("admission-gate", "job-admission")
        for obj in _component("components", component)
        if obj["kind"] == "MutatingAdmissionPolicy"
    }
    theirs = {obj["metadata"]["name"]: obj for obj in made if obj["kind"] == "MutatingPolicy"}
    assert theirs.keys() == ours.keys()
    changed = set()
    for name, policy in theirs.items():
        assert policy["apiVersion"] == "policies.kyverno.io/v1"
        spec = policy["spec"]
        assert spec.pop("autogen") == {"podControllers": {"controllers": []}}
        pairs = zip(spec.pop("variables", []), ours[name].pop("variables", []), strict=True)
        changed |= {(name, variable["name"]) for variable, was in pairs if variable != was}
        assert spec == ours[name]
    assert changed == NO_AUTHORIZER


def test_nothing_is_asked_that_kyverno_cannot_answer(made: list[Object]) -> None:
    for policy in made:
        text = str(policy["spec"])
        assert policy["kind"] != "MutatingPolicy" or "authorizer" not in text
        assert policy["kind"] not in ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding")
        assert "params." not in text


def test_what_refuses_stays_the_api_servers(made: list[Object]) -> None:
    names = {(obj["kind"], obj["metadata"]["name"]) for obj in made if obj["kind"].startswith("Validating")}
    ours = [obj for component in ("admission-gate", "job-admission") for obj in _component("components", component)]
    assert names == {(obj["kind"], obj["metadata"]["name"]) for obj in ours if obj["kind"].startswith("Validating")}


def test_the_page_names_each_policy_and_whether_it_refuses() -> None:
    policies = {obj["metadata"]["name"]: obj for obj in built("examples/kyverno") if obj["kind"] == "MutatingPolicy"}
    rows = dict(re.findall(r"^\| `(muster-[\w-]+)` \|.*\| ([^|]+) \|$", PAGE.read_text(), re.MULTILINE))
    assert rows.keys() == policies.keys()
    refuses = {name for name, policy in policies.items() if policy["spec"]["failurePolicy"] == "Fail"}
    assert {name for name, result in rows.items() if "refused" in result} == refuses


def test_the_same_in_v1beta1_for_servers_with_the_gate() -> None:
    ours = [obj for component in ("admission-gate", "job-admission") for obj in _component("components", component)]
    for made, was in zip(built("examples/policies-v1beta1"), ours, strict=True):
        version = "v1beta1" if was["kind"].startswith("Mutating") else "v1"
        assert made == {**was, "apiVersion": f"admissionregistration.k8s.io/{version}"}
