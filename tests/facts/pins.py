"""A policy that leads a pod to its node: the template carries the nodes of all slots, the pod has its index."""

from __future__ import annotations

from typing import Any

from devcluster.api import Object
from tests.facts.place import Place
from tests.facts.policies import PODS, install, patches

PLAN = "muster.dev/plan"
INDEX = "batch.kubernetes.io/job-completion-index"
HAS_PLAN = [
    {"name": "plan", "expression": f"has(object.metadata.annotations) && '{PLAN}' in object.metadata.annotations"},
]
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_TERMS = f"object.spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
_PATH = f"/spec/affinity/nodeAffinity/{_REQUIRED}/nodeSelectorTerms"
VARIABLES = [
    {"name": "nodes", "expression": f"object.metadata.annotations['{PLAN}'].split(',')"},
    {
        "name": "index",
        "expression": f"has(object.metadata.labels) && '{INDEX}' in object.metadata.labels"
        f" ? int(object.metadata.labels['{INDEX}']) : -1",
    },
    {"name": "planned", "expression": "variables.index >= 0 && variables.index < size(variables.nodes)"},
    {
        "name": "name",
        "expression": "{'key': dyn('metadata.name'), 'operator': dyn('In'), "
        "'values': dyn([variables.nodes[variables.index]])}",
    },
    {"name": "required", "expression": "{'nodeSelectorTerms': [{'matchFields': [variables.name]}]}"},
]
"""The variables of the mutations below. The types of `Object` are unknown here, but maps do; dyn() mixes types."""

PIN = f"""!has(object.spec.affinity) ?
    [JSONPatch{{op: 'add', path: '/spec/affinity', value: {{'nodeAffinity': {{'{_REQUIRED}': variables.required}}}}}}] :
  !has(object.spec.affinity.nodeAffinity) ?
    [JSONPatch{{op: 'add', path: '/spec/affinity/nodeAffinity', value: {{'{_REQUIRED}': variables.required}}}}] :
  !has(object.spec.affinity.nodeAffinity.{_REQUIRED}) ?
    [JSONPatch{{op: 'add', path: '/spec/affinity/nodeAffinity/{_REQUIRED}', value: variables.required}}] :
    lists.range(size({_TERMS})).map(at, has({_TERMS}[at].matchFields) ?
      JSONPatch{{op: 'add', path: '{_PATH}/' + string(at) + '/matchFields/-', value: variables.name}} :
      JSONPatch{{op: 'add', path: '{_PATH}/' + string(at) + '/matchFields', value: [variables.name]}})"""
GATE = "[JSONPatch{op: 'add', path: '/spec/schedulingGates', value: [{'name': 'muster.dev/gang'}]}]"
DROP_PLAN = "[JSONPatch{op: 'remove', path: '/metadata/annotations/muster.dev~1plan'}]"
PIN_OR_GATE = f"variables.planned ? ({PIN}) + {DROP_PLAN} : {GATE}"


def install_pins(place: Place, expression: str = PIN_OR_GATE, **spec: Any) -> str:
    """The policy, for the pods of this fact; its name."""
    return install(place, PODS, patches(expression), matchConditions=HAS_PLAN, variables=VARIABLES, **spec)


def pod(index: int | None, plan: str, **spec: Any) -> Object:
    """A pod as a Job makes it."""
    name = "train" if index is None else f"train-{index}"
    labels = {} if index is None else {INDEX: str(index)}
    metadata = {"name": name, "annotations": {PLAN: plan, "kept": "yes"}, "labels": labels}
    return {"metadata": metadata, "spec": {"containers": [{"name": "main", "image": "train"}]} | spec}


def terms_of(one: Object) -> list[Object]:
    """The terms of a pod's required node affinity."""
    terms: list[Object] = one["spec"]["affinity"]["nodeAffinity"][_REQUIRED]["nodeSelectorTerms"]
    return terms


def name_in(node: str) -> Object:
    """The requirement that a node has this name."""
    return {"key": "metadata.name", "operator": "In", "values": [node]}


def affinity(*terms: Object) -> Object:
    """An affinity that requires one of these terms of the node."""
    return {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": list(terms)}}}
