"""manifests/examples/own-kind says the same as what ships, but for the places of its kind."""

from __future__ import annotations

from typing import Any

import yaml

from extender.config.settings import Settings, load
from extender.kube.dialects import MIN_MEMBER, POD_GROUP
from extender.kube.keys import COMPONENT, INDEX_LABEL, NODE_LABELS, NODES, PODSET, WORKLOAD
from tests.documents.pages import ROOT, blocks
from tests.test_manifests import MANIFESTS, document, documents

FOLDER = "examples/own-kind"
(KIND,) = load(MANIFESTS / FOLDER / "muster.yaml").job_kinds
PLACES = {"templates", "marks", "around"}
"""The variables of the policy that are of one kind."""


def policy(name: str) -> dict[str, Any]:
    spec: dict[str, Any] = documents(name)[0]["spec"]
    return spec


def by(key: str, said: list[dict[str, str]]) -> dict[str, str]:
    return {entry[key]: " ".join(entry["expression"].split()) for entry in said}


def test_its_settings_are_those_that_ship_and_the_kind() -> None:
    ours = document(f"{FOLDER}/muster.yaml")
    assert {key: ours[key] for key in ours if key != "job_kinds"} == document("base/muster.yaml")


def test_it_is_the_kind_of_the_page() -> None:
    (shown,) = [
        yaml.safe_load(block.text) for block in blocks(ROOT / "docs" / "own-kinds.md") if "job_kinds:" in block.text
    ]
    assert Settings.model_validate(shown).job_kinds == (KIND,)


def test_what_the_extender_may_write_is_what_it_may_write_on_other_kinds() -> None:
    ours, shipped = policy(f"{FOLDER}/extender-policy.yaml"), policy("base/extender-policy-jobs.yaml")
    variables, known = by("name", ours["variables"]), by("name", shipped["variables"])
    assert {
        name: expression for name, expression in variables.items() if name not in {*PLACES, "marked", "said"}
    }.items() <= known.items()
    assert variables.keys() > PLACES
    assert known["marked"].removeprefix(variables["marked"]).startswith(" || variables.patched."), "of a TrainJob"
    assert known["said"].startswith(f"{variables['said']} + (variables.wrapper && "), "of an AppWrapper"
    all_kinds = f"['{POD_GROUP}', '{MIN_MEMBER}', '{WORKLOAD}', '{NODES}', '{NODE_LABELS}'"
    assert variables["marks"] == f"{all_kinds}, '{PODSET}', '{INDEX_LABEL}']"
    assert known["marks"] == f"{all_kinds}] + (variables.wrapper ? ['{COMPONENT}', '{PODSET}'] : [])"
    validations = by("message", ours["validations"])
    assert validations.items() <= by("message", shipped["validations"]).items()
    others = by("message", shipped["validations"]).keys() - validations.keys()
    assert all("TrainJob" in message or "parallelism" in message or "order" in message for message in others), others
    account, plain = shipped["matchConditions"]
    assert (ours["failurePolicy"], ours["matchConditions"]) == ("Fail", [account])
    assert "request.kind.group == 'batch'" in plain["expression"], "what is in order in a Job is looked at no further"


def test_which_of_them_are_managed_is_said_in_the_same_words() -> None:
    judged = by("name", policy("base/extender-policy-jobs.yaml")["variables"])
    conditions = by("name", policy(f"{FOLDER}/admission.yaml")["matchConditions"])
    assert conditions["outermost"].replace("object.", "variables.old.") == judged["outermost"]
    named = conditions["named"].replace("object.metadata.?labels[", "variables.labels[")
    assert named.replace("object.metadata.?annotations[", "variables.oldAnnotations[") == judged["named"]


def test_every_file_is_of_the_kind_of_the_settings() -> None:
    (patch,) = document(f"{FOLDER}/kustomization.yaml")["patches"]
    assert f"apiGroups: [{KIND.group}]" in patch["patch"]
    assert f"resources: [{KIND.plural}]" in patch["patch"]
    for file in ("extender-policy", "admission"):
        (rule,) = policy(f"{FOLDER}/{file}.yaml")["matchConstraints"]["resourceRules"]
        assert (rule["apiGroups"], rule["resources"]) == ([KIND.group], [KIND.plural])
        (templates,) = [
            variable for variable in policy(f"{FOLDER}/{file}.yaml")["variables"] if variable["name"] == "templates"
        ]
        for podset in KIND.podsets:
            path = podset.template if file == "extender-policy" else f"/{podset.template.replace('.', '/')}'"
            assert path in templates["expression"]
