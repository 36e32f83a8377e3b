"""Mutating admission policies for one namespace, active when they are handed out and gone at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import httpx

from devcluster.api import ApiError, Object
from tests.facts.place import Place, until

GROUP = "admissionregistration.k8s.io/v1"
POLICIES = f"/apis/{GROUP}/mutatingadmissionpolicies"
BINDINGS = f"/apis/{GROUP}/mutatingadmissionpolicybindings"
PODS = ("", "v1", "pods")
JOBS = ("batch", "v1", "jobs")


def patches(expression: str) -> Object:
    """A mutation by JSONPatch; the expression is a list of patches."""
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


def applies(expression: str) -> Object:
    """A mutation by ApplyConfiguration; the expression is an object."""
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def install(
    place: Place,
    kind: tuple[str, str, str],
    *mutations: Object,
    name: str = "policy",
    failure: str = "Fail",
    binding: Object | None = None,
    operations: Sequence[str] = ("CREATE",),
    **spec: Any,
) -> str:
    """A policy for objects of a kind (group, version, plural) in the fact's namespace; its name."""
    group, version, plural = kind
    unique = f"{place.namespace}-{name}"
    rule = {"apiGroups": [group], "apiVersions": [version], "operations": list(operations), "resources": [plural]}
    selector = {"matchLabels": {"kubernetes.io/metadata.name": place.namespace}}
    place.api.create(
        POLICIES,
        {
            "metadata": {"name": unique},
            "spec": {
                "failurePolicy": failure,
                "reinvocationPolicy": "Never",
                "matchConstraints": {"namespaceSelector": selector, "resourceRules": [rule]},
                "mutations": list(mutations),
            }
            | spec,
        },
    )
    place.afterwards(lambda: _delete(place, f"{POLICIES}/{unique}"))
    place.api.create(BINDINGS, {"metadata": {"name": unique}, "spec": {"policyName": unique} | (binding or {})})
    place.afterwards(lambda: _delete(place, f"{BINDINGS}/{unique}"))
    return unique


def tried(place: Place, collection: str, obj: Object) -> Object | ApiError:
    """The result that a creation would have; nothing is created."""
    try:
        return place.api.create(f"{collection}?dryRun=All", obj)
    except ApiError as refused:
        return refused


def until_active(place: Place, collection: str, obj: Object, holds: Callable[[Object], bool]) -> Object:
    """Wait until the policies do this to an object that would be created; the object as it would be."""
    changed = until(lambda: tried(place, collection, obj), lambda seen: isinstance(seen, dict) and holds(seen))
    assert isinstance(changed, dict)
    return changed


def _delete(place: Place, path: str) -> None:
    try:
        place.api.delete(path)
    except ApiError as error:
        if error.code != httpx.codes.NOT_FOUND:
            raise
