"""No admission policy writes a list or a map of a built-in object into it: Kubernetes 1.37 cannot, and 1.36 can."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from policies.devices.parsing import parse
from tests.cel.values import faults

ROOT = Path(__file__).parent.parent
KINDS = {
    "pods": "Pod",
    "jobs": "Job",
    "statefulsets": "StatefulSet",
    "deployments": "Deployment",
    "replicasets": "ReplicaSet",
}
"""Built-in kinds that a policy of ours changes. Objects of CRDs are maps, in every version."""

Policy = dict[str, Any]


def policies(kind: str) -> Iterator[Policy]:
    for path in sorted((ROOT / "manifests").rglob("*.yaml")):
        yield from (policy for policy in yaml.safe_load_all(path.read_text()) if policy and policy.get("kind") == kind)


MUTATING = {policy["metadata"]["name"]: policy for policy in policies("MutatingAdmissionPolicy")}
FAIL_OPEN = {name for name, policy in MUTATING.items() if policy["spec"]["failurePolicy"] == "Ignore"}
VALIDATING = {policy["metadata"]["name"]: policy for policy in policies("ValidatingAdmissionPolicy")}


def built_in(policy: Policy) -> Iterator[tuple[str, str]]:
    """The kinds that it changes, each with its API group."""
    for rule in policy["spec"]["matchConstraints"]["resourceRules"]:
        (group,) = rule["apiGroups"]
        if "." not in group:
            yield from ((KINDS[resource], group) for resource in rule["resources"])


def pins(**variables: str) -> Policy:
    """A policy that writes the variable ``value`` into pods."""
    patch = "[JSONPatch{op: 'add', path: '/spec/affinity', value: variables.value}]"
    known = [{"name": name, "expression": text} for name, text in variables.items()]
    return {"spec": {"variables": known, "mutations": [{"jsonPatch": {"expression": patch}}]}}


@pytest.mark.parametrize("name", MUTATING)
def test_no_policy_copies_a_part_of_a_built_in_object(name: str) -> None:
    policy = MUTATING[name]
    assert [
        (kind, faults(policy, kind, group)) for kind, group in built_in(policy) if faults(policy, kind, group)
    ] == []


@pytest.mark.parametrize(
    "value",
    [
        "object.spec.affinity",
        "object.spec.tolerations",
        "dyn(object).spec.tolerations",
        "object.spec.?tolerations.orValue([])",
        "oldObject.metadata.labels",
        "has(object.spec.affinity) ? object.spec.affinity : {}",
        "[{'key': dyn('a'), 'values': dyn(object.spec.tolerations)}]",
        "object.spec.tolerations + [{'key': 'a'}]",
        "object.spec.terms.map(term, {'matchExpressions': dyn(term.?matchExpressions.orValue([])), 'matchFields':"
        " dyn(term.?matchFields.orValue([])) + dyn(['a'])})",
        "variables.indirect",
        "variables.listed.filter(one, one.count > 1)[0].of",
    ],
)
def test_a_policy_that_does_is_found(value: str) -> None:
    more = {
        "indirect": "request.kind.kind == 'Pod' ? object.spec.containers : []",
        "listed": "object.spec.containers.map(one, {'of': dyn(one.ports), 'count': dyn(1)})",
    }
    assert faults(pins(**more, value=value), "Pod", "") == ["/spec/affinity"]


@pytest.mark.parametrize(
    "value",
    [
        "{'a': 'b'}",
        "[object.metadata.annotations['a']]",
        "object.metadata.?labels[?'a'].orValue('')",
        "{'key': dyn('metadata.name'), 'values': dyn([string(object.spec.priority)])}",
        "object.spec.tolerations.map(one, {'key': one.?key.orValue('')})",
        "request.kind.kind == 'TrainJob' ? object.spec.patches : []",
        "request.kind.kind in ['TrainJob', 'AppWrapper'] || request.kind.group != '' ? object.spec : 'a'",
        "variables.paths.filter(one, one.path != '')[0].path",
    ],
)
def test_what_it_makes_itself_and_scalars_are_no_fault(value: str) -> None:
    paths = "[{'path': dyn('/spec/template'), 'pod': dyn(object.spec.template)}]"
    assert faults(pins(paths=paths, value=value), "Pod", "") == []


def expressions(policy: Policy) -> Iterator[str]:
    """All CEL of a policy."""
    spec = policy["spec"]
    for rule in (*spec.get("matchConditions", ()), *spec.get("variables", ()), *spec.get("validations", ())):
        yield from (rule[key] for key in ("expression", "messageExpression") if key in rule)
    yield from (mutation["jsonPatch"]["expression"] for mutation in spec.get("mutations", ()))


@pytest.mark.parametrize(
    "policy", [*MUTATING.values(), *VALIDATING.values()], ids=lambda policy: policy["metadata"]["name"]
)
def test_all_cel_is_read(policy: Policy) -> None:
    """Expressions that cannot be read here are not checked above."""
    assert all(parse(text) for text in expressions(policy))
