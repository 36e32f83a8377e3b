"""Admission: a policy that reads a list of revoked slots."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from devcluster import Cluster
from devcluster.api import ApiError, Object
from tests.facts.fact import fact
from tests.facts.jobsets import JOBSETS, install_jobsets, jobset, jobsets_of
from tests.facts.pins import GATE, PIN, install_pins, pod
from tests.facts.place import PATIENCE_S, Place, until
from tests.facts.policies import POLICIES, tried, until_active

NODES = "node-a,node-b,node-c"
REVOKED = "params.data.slots.split(',').exists(slot, slot == string(variables.index))"
PIN_UNLESS_REVOKED = f"variables.planned && !({REVOKED}) ? ({PIN}) : {GATE}"
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap"}
CHANGES = 20
FROZEN_FOR_S = 8


@pytest.fixture(scope="module", autouse=True)
def keeper(cluster: Cluster) -> Iterator[None]:
    """Keep another policy with that kind of param, so that none below is the last of it: see params.last-policy."""
    with Place(cluster) as elsewhere:
        install_with_params(elsewhere, absent="Allow")
        yield


def install_with_params(
    place: Place, *, absent: str, failure: str = "Fail", kind: Object = CONFIG_MAP, name: str = "policy"
) -> str:
    params = {"name": "revoked", "namespace": place.namespace, "parameterNotFoundAction": absent}
    return install_pins(
        place, PIN_UNLESS_REVOKED, failure=failure, name=name, paramKind=kind, binding={"paramRef": params}
    )


def config_maps(place: Place) -> str:
    return f"/api/v1/namespaces/{place.namespace}/configmaps"


def add_param(place: Place) -> None:
    place.api.create(config_maps(place), {"metadata": {"name": "revoked"}, "data": {"slots": "7"}})


def fate(place: Place, index: int = 1) -> str:
    """The state of a pod that is created now: pinned, gated or untouched, or the code of the refusal."""
    seen = tried(place, place.pods, pod(index, NODES))
    if isinstance(seen, ApiError):
        return f"{seen.code}"
    return "pinned" if "affinity" in seen["spec"] else "gated" if "schedulingGates" in seen["spec"] else "untouched"


@fact(
    "params.change",
    "A policy gates the pods whose index is in a list of revoked slots, which it reads from a param object (a "
    "ConfigMap).",
    result="Works. Of {changes} changes {at_once} were seen by the creation that was sent when the change had been "
    "answered, the slowest by one sent {max_ms} ms later.",
    consequence="A revoked slot can be a line in one object. The API server follows it by a watch, so a creation that "
    "overlaps with the change may see the old list: filter checks the slot as well.",
)
def test_a_change_of_the_param_is_seen(place: Place, measured: Callable[..., None]) -> None:
    add_param(place)
    install_with_params(place, absent="Deny")
    until_active(place, place.pods, pod(1, NODES), lambda obj: "affinity" in obj["spec"])
    seen_after_ms = []
    for change in range(CHANGES):
        revoked = change % 2 == 0
        place.api.patch(f"{config_maps(place)}/revoked", {"data": {"slots": "1,7" if revoked else "7"}})
        began = sent = time.monotonic()
        while fate(place) != ("gated" if revoked else "pinned"):
            sent = time.monotonic()
            assert sent < began + PATIENCE_S, "the change is never seen"
        assert fate(place, 0) == "pinned"
        seen_after_ms.append((sent - began) * 1000)
    at_once = sum(after == 0 for after in seen_after_ms)
    measured(changes=CHANGES, at_once=at_once, max_ms=round(max(seen_after_ms), 1))


@fact(
    "params.absent",
    "The param object of a policy is deleted, and comes again.",
    result="`parameterNotFoundAction: Allow`, or Deny with `failurePolicy: Ignore`: pods are created untouched, "
    "neither pinned nor gated. Deny with Fail: every creation that matches is refused with 403. When the object comes "
    "again, the policy works again.",
    consequence="A pin that depends on a param is lost with the param, or takes pod creation down with it. The list of "
    "revoked slots belongs where its absence is safe: filter enforces it, the policy only saves a detour.",
)
@pytest.mark.parametrize(
    ("absent", "failure", "then"),
    [("Allow", "Fail", "untouched"), ("Deny", "Ignore", "untouched"), ("Deny", "Fail", "403")],
)
def test_the_param_is_deleted(place: Place, absent: str, failure: str, then: str) -> None:
    add_param(place)
    install_with_params(place, absent=absent, failure=failure)
    until(lambda: fate(place), lambda seen: seen == "pinned")
    place.api.delete(f"{config_maps(place)}/revoked")
    assert until(lambda: fate(place), lambda seen: seen != "pinned") == then
    add_param(place)
    until(lambda: fate(place), lambda seen: seen == "pinned")


@fact(
    "params.kind-absent",
    "The kind of the param object (its CRD) does not exist.",
    result="The policy is accepted. `failurePolicy: Fail`: every creation that matches is refused with 403, whatever "
    "`parameterNotFoundAction` says. Ignore: pods are created untouched.",
    consequence="With a param of a kind of our own the policy has to be `failurePolicy: Ignore`: a CRD that is deleted "
    "must not stop the creation of pods.",
)
def test_the_kind_of_the_param_is_absent(place: Place) -> None:
    group, version, _ = JOBSETS
    missing = {"apiVersion": f"{group}/{version}", "kind": "JobSet"}
    install_with_params(place, absent="Allow", failure="Ignore", kind=missing, name="lenient")
    strict = install_with_params(place, absent="Allow", failure="Fail", kind=missing, name="strict")
    until(lambda: fate(place), lambda seen: seen == "403")
    # Both are active now. Without the strict one only the lenient one is left.
    place.api.delete(f"{POLICIES}/{strict}")
    assert until(lambda: fate(place), lambda seen: seen != "403") == "untouched"


@fact(
    "params.last-policy",
    "The last policy that reads params of a kind is deleted, and another one with params of that kind is created: a "
    "built-in kind (PodTemplate; ConfigMap is the same), and a custom one.",
    result="Built-in: the API server stops the watch of the kind with the last policy and never starts it again: the "
    "new policy reads what was there then, until the API server restarts. Custom: the new policy reads the present.",
    consequence="A param of a built-in kind is not to be relied on: deleting and installing the policies again freezes "
    "the list. Either the kind is a custom one with `failurePolicy: Ignore`, or no param is used and filter alone "
    "enforces what is revoked.",
)
@pytest.mark.parametrize("kind", ["PodTemplate", "JobSet"])
def test_the_last_policy_of_a_kind_is_deleted(place: Place, kind: str) -> None:
    if kind == "JobSet":
        install_jobsets(place)
        header, params = {"apiVersion": "jobset.facts.dev/v1", "kind": kind}, jobsets_of(place)
    else:
        header, params = {"apiVersion": "v1", "kind": kind}, f"/api/v1/namespaces/{place.namespace}/podtemplates"
    place.api.create(params, param_of(kind) | header)
    first = install_annotated(place, header, "first")
    until(lambda: fate(place), lambda seen: seen == "pinned")
    place.api.delete(f"{POLICIES}/{first}")
    until(lambda: fate(place), lambda seen: seen == "untouched")
    place.api.patch(f"{params}/revoked", {"metadata": {"annotations": {"slots": "1,7"}}})
    install_annotated(place, header, "second")
    until(lambda: fate(place, 0), lambda seen: seen == "pinned")
    if kind == "JobSet":
        until(lambda: fate(place), lambda seen: seen == "gated")
    else:
        with pytest.raises(TimeoutError):
            until(lambda: fate(place), lambda seen: seen == "gated", FROZEN_FOR_S)


def param_of(kind: str) -> Object:
    """An object with the list of revoked slots in an annotation."""
    containers = [{"name": "main", "image": "train"}]
    body = jobset() if kind == "JobSet" else {"template": {"spec": {"containers": containers}}}
    return body | {"metadata": {"name": "revoked", "annotations": {"slots": "7"}}}


def install_annotated(place: Place, kind: Object, name: str) -> str:
    params = {"name": "revoked", "namespace": place.namespace, "parameterNotFoundAction": "Deny"}
    revoked = REVOKED.replace("params.data.slots", "params.metadata.annotations['slots']")
    expression = f"variables.planned && !({revoked}) ? ({PIN}) : {GATE}"
    return install_pins(place, expression, name=name, paramKind=kind, binding={"paramRef": params})
