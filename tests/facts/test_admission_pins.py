"""Admission: a pod is led to its node by its index and an annotation of the template."""

from __future__ import annotations

from typing import Any

import pytest

from devcluster.api import ApiError, Object
from devcluster.scheduler import Scheduler
from tests.facts.fact import fact
from tests.facts.pins import PIN, PLAN, affinity, install_pins, name_in, pod, terms_of
from tests.facts.place import Place, until
from tests.facts.policies import tried, until_active

NODES = "node-a,node-b,node-c"


def install_and_wait(place: Place, **spec: Any) -> None:
    install_pins(place, **spec)
    until_active(place, place.pods, pod(0, NODES), lambda obj: "affinity" in obj["spec"])


def pinned(place: Place, one: Object) -> Object:
    seen = tried(place, place.pods, one)
    assert isinstance(seen, dict), seen
    return seen


@fact(
    "pin.by-index",
    "A policy splits an annotation of the template at the pod's completion index, writes one `matchFields` term and "
    "drops the annotation from the pod.",
    result="Each pod of an unsuspended Indexed Job is created with the name of its own node and is bound there. Other "
    "annotations stay.",
    consequence="The plan of a Job is one annotation, whatever its number of nodes; kube-scheduler looks at one node "
    "per pod.",
)
def test_a_pod_is_pinned_by_its_index(place: Place, scheduler: Scheduler) -> None:
    nodes = place.add_nodes(4)
    plan = ",".join([nodes[2], nodes[0], nodes[3]])
    install_and_wait(place)
    place.create_job(slots=3, suspend=True, template={"metadata": {"annotations": {"kept": "yes"}}})
    place.patch_job({"spec": {"suspend": False, "template": {"metadata": {"annotations": {PLAN: plan}}}}})
    pods = place.until_pods(lambda pods: len(pods) == 3 and all(member["spec"].get("nodeName") for member in pods))
    by_index = {
        member["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]: member for member in pods
    }
    assert [by_index[index]["spec"]["nodeName"] for index in "012"] == plan.split(",")
    for member in pods:
        assert terms_of(member) == [{"matchFields": [name_in(member["spec"]["nodeName"])]}]
        assert PLAN not in member["metadata"]["annotations"]
        assert member["metadata"]["annotations"]["kept"] == "yes"


@fact(
    "pin.affinity-there",
    "The same with a node affinity that the pod has already.",
    result="A policy can cross them: the name is added to every required term; preferred terms, pod affinity and "
    "`nodeSelector` stay. A term that names another node then matches none.",
    consequence="The policy adds the name to each term by its path, and copies nothing of the pod. The planner has to "
    "respect the pod's own affinity.",
)
def test_an_affinity_that_is_there_is_crossed(place: Place) -> None:
    install_and_wait(place)
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    arch = {"key": "arch", "operator": "Exists"}
    name = name_in("node-b")
    two_terms = pinned(
        place, pod(1, NODES, affinity=affinity({"matchExpressions": [zone]}, {"matchExpressions": [arch]}))
    )
    assert terms_of(two_terms) == [
        {"matchExpressions": [zone], "matchFields": [name]},
        {"matchExpressions": [arch], "matchFields": [name]},
    ]
    elsewhere = pinned(place, pod(1, NODES, affinity=affinity({"matchFields": [name_in("node-x")]})))
    assert terms_of(elsewhere) == [{"matchFields": [name_in("node-x"), name]}]
    liked = [{"weight": 1, "preference": {"matchExpressions": [zone]}}]
    preferred = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": liked}}
    beside = pinned(place, pod(1, NODES, affinity=preferred))
    assert terms_of(beside) == [{"matchFields": [name]}]
    assert beside["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] == liked
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}
    both = pinned(place, pod(1, NODES, affinity=apart))
    assert terms_of(both) == [{"matchFields": [name]}]
    assert both["spec"]["affinity"]["podAntiAffinity"] == apart["podAntiAffinity"]


@fact(
    "pin.copied",
    "A policy whose JSON patch has a list or a map of the pod itself as its value, or inside of it.",
    result="Refused since 1.37, which reads built-in objects lazily: `type conversion error from 'list' to "
    "'*structpb.Value'`, `'map'` for a map. Strings, numbers and what the expression makes itself are taken. "
    "1.36 takes all of them.",
    consequence="No policy copies a part of a built-in object: `tests/test_policy_values.py` reads it off the "
    "expressions.",
)
@pytest.mark.parametrize("copied", ["object.spec.tolerations", "[{'of': object.metadata.labels}]"], ids=["list", "map"])
def test_a_part_of_the_pod_is_no_value(place: Place, copied: str) -> None:
    patch = f"[JSONPatch{{op: 'add', path: '/spec/tolerations', value: {copied}}}]"
    install_pins(place, expression=patch, failure="Fail")
    tolerating = pod(0, NODES, tolerations=[{"operator": "Exists"}])
    refused = until(lambda: tried(place, place.pods, tolerating), lambda seen: isinstance(seen, ApiError))
    assert isinstance(refused, ApiError)
    assert "type conversion error from" in refused.message


@fact(
    "pin.no-index",
    "A pod without an index, or with one beyond the plan, where the policy says so in CEL.",
    result="It gets a scheduling gate and keeps the annotation; nothing fails.",
    consequence="The policy gates what it cannot pin; Muster decides for that pod.",
)
def test_a_pod_that_cannot_be_pinned_is_gated(place: Place) -> None:
    install_and_wait(place)
    for index in (None, 3):
        seen = pinned(place, pod(index, NODES))
        assert seen["spec"]["schedulingGates"] == [{"name": "muster.dev/gang"}]
        assert "affinity" not in seen["spec"]
        assert seen["metadata"]["annotations"][PLAN] == NODES


@fact(
    "pin.expression-fails",
    "A policy whose expression fails (the index is beyond the list, and CEL does not ask).",
    result="`failurePolicy: Ignore`: the pod is created as it was, with neither pin nor gate, and without a warning. "
    "`Fail`: the creation is refused with 403.",
    consequence="Every case is decided in CEL, none by an error. Filter has to "
    "enforce the plan for pods that come unpinned.",
)
def test_an_expression_that_fails(place: Place) -> None:
    install_and_wait(place, expression=PIN, failure="Ignore")
    seen = pinned(place, pod(3, NODES))
    assert "affinity" not in seen["spec"]
    assert "schedulingGates" not in seen["spec"]
    assert pinned(place, pod(2, NODES))["spec"]["affinity"]
    install_pins(place, expression=PIN, failure="Fail", name="strict")
    refused = until(lambda: tried(place, place.pods, pod(3, NODES)), lambda seen: isinstance(seen, ApiError))
    assert isinstance(refused, ApiError)
    assert refused.code == 403
    assert "index out of bounds" in refused.message


@fact(
    "pin.longest-plan",
    "The longest plan that fits into an annotation: 11,000 names of 22 characters, 253 kB of the 256 KiB for all "
    "annotations.",
    result="The last index is pinned as the first. CEL's cost limits do not object.",
    consequence="The limit of a plan is the size of the annotations. Longer names or larger jobs need a shorter form "
    "of the names, or two annotations on different templates.",
)
def test_the_longest_plan(place: Place) -> None:
    install_and_wait(place)
    names = [f"{number:022}" for number in range(11_000)]
    for index in (0, 10_999):
        assert terms_of(pinned(place, pod(index, ",".join(names)))) == [{"matchFields": [name_in(names[index])]}]
