"""docs/jobs.md and docs/job-course.md say the same as the policies of the component and the kinds that are read."""

from __future__ import annotations

import re

import yaml

from extender.kube.keys import GANG, HOLD, NODES, OWN, PLAN, QUEUES, WORKLOAD
from extender.kube.kinds.plan import MOST_PODS
from extender.kube.kinds.registry import KINDS
from extender.kube.kinds.template import MOST_TERMS, MOST_TERMS_WITHOUT_INDEX
from tests.documents.pages import ROOT

INTRODUCTION = (ROOT / "docs" / "jobs.md").read_text()
PAGE = INTRODUCTION + (ROOT / "docs" / "job-course.md").read_text()
COMPONENT = ROOT / "manifests" / "components" / "job-admission"


def test_every_kind_is_named_with_its_version() -> None:
    introduction = INTRODUCTION.partition("```")[0]
    without = [kind.name for kind in KINDS if kind.name not in introduction or f"`{kind.version}`" not in introduction]
    assert without == [], "the list above the manifest in docs/jobs.md lacks them, or their versions"


def test_every_kind_that_is_read_is_suspended_at_creation_in_that_version() -> None:
    policy = next(yaml.safe_load_all((COMPONENT / "jobs.yaml").read_text()))
    suspended = {
        (f"{group}/{version}", kind)
        for rule in policy["spec"]["matchConstraints"]["resourceRules"]
        for group in rule["apiGroups"]
        for version in rule["apiVersions"]
        for kind in rule["resources"]
    }
    of_kinds = {(kind.version, kind.plural) for kind in KINDS}
    assert suspended ^ of_kinds == set(), (
        "they differ between resourceRules in jobs.yaml of job-admission and the registry"
    )


def test_the_managers_are_those_of_the_kinds() -> None:
    clause = re.search(r"orValue\(''\) in\s+\['', (.*?)\]", (COMPONENT / "jobs.yaml").read_text(), re.DOTALL)
    assert clause is not None
    assert set(re.findall(r"'([^']+)'", clause[1])) == {manager for kind in KINDS for manager in kind.managers}


def test_the_keys_and_limits_are_those_of_the_code() -> None:
    assert [key for key in (*QUEUES, GANG, HOLD, PLAN, OWN, WORKLOAD, NODES) if f"`{key}" not in PAGE] == []
    assert f"up to {MOST_TERMS} nodes (pods without an index: {MOST_TERMS_WITHOUT_INDEX})" in PAGE
    assert f"more than {MOST_PODS:,} pods" in PAGE


def test_the_label_of_a_namespace_is_that_of_the_policy() -> None:
    (label,) = set(re.findall(r"`(muster\.dev/manage-jobs): \"true\"`", PAGE))
    assert f"?labels[?'{label}'].orValue('') == 'true'" in (COMPONENT / "jobs.yaml").read_text()
