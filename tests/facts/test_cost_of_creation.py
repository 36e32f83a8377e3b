"""The cost of a pod's creation for the API server."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

from devcluster import Cluster
from devcluster.api import Object
from tests.facts.fact import fact
from tests.facts.pins import DROP_PLAN, INDEX, PIN, PLAN, VARIABLES, affinity, name_in
from tests.facts.place import Place, cpu_s
from tests.facts.policies import PODS, applies, install, patches, until_active

PODS_PER_RUN = 200
ROUNDS = 3
GATE_BY_APPLY = applies(
    "Object{spec: Object.spec{schedulingGates: [Object.spec.schedulingGates{name: 'muster.dev/gang'}]}}"
)
GATE_BY_PATCH = patches("[JSONPatch{op: 'add', path: '/spec/schedulingGates', value: [{'name': 'muster.dev/gang'}]}]")
NO_FIELDS = "[JSONPatch{op: 'remove', path: '/metadata/managedFields'}]"
PIN_AND_DROP = patches(f"({PIN}) + {DROP_PLAN}")


@dataclass(frozen=True)
class Case:
    """A way in which a pod is created: names in its annotation, or terms in its affinity, and a policy or none."""

    planned: int = 0
    terms: int = 0
    mutation: Object | None = None

    def pod(self, number: int = 0) -> Object:
        """A pod of some size, as a Job would create it."""
        names = [f"gpu-node-{number:013}" for number in range(max(self.planned, self.terms))]
        spec = copy.deepcopy(SPEC)
        if self.terms:
            spec["affinity"] = affinity(*({"matchFields": [name_in(name)]} for name in names))
        metadata = {
            "name": f"train-{number}",
            "labels": {INDEX: "0", "batch.kubernetes.io/job-name": "train", "job-name": "train"},
            "annotations": {PLAN: ",".join(names)} if self.planned else {},
        }
        return {"metadata": metadata, "spec": spec}

    def prepare(self, place: Place) -> None:
        """Install its policy, and wait until that changes pods."""
        if self.mutation is None:
            return
        plain = place.api.create(f"{place.pods}?dryRun=All", self.pod())
        install(place, PODS, self.mutation, variables=VARIABLES)
        until_active(place, place.pods, self.pod(), lambda obj: shape(obj) != shape(plain))


SPEC: Object = {
    "schedulerName": "nobody",
    "restartPolicy": "Never",
    "containers": [
        {
            "name": "main",
            "image": "registry.example/train:1",
            "command": ["python", "-m", "train"],
            "env": [{"name": f"VARIABLE_{number}", "value": "x" * 20} for number in range(8)],
            "resources": {"limits": {"nvidia.com/gpu": "1", "cpu": "8", "memory": "64Gi"}},
        }
    ],
}
CASES = {
    "bare": Case(),
    "affinity_1": Case(terms=1),
    "affinity_8": Case(terms=8),
    "affinity_64": Case(terms=64),
    "affinity_256": Case(terms=256),
    "gate_apply": Case(mutation=GATE_BY_APPLY),
    "gate_patch": Case(mutation=GATE_BY_PATCH),
    "pin_8": Case(planned=8, mutation=PIN_AND_DROP),
    "pin_64": Case(planned=64, mutation=PIN_AND_DROP),
    "pin_256": Case(planned=256, mutation=PIN_AND_DROP),
    "pin_1000": Case(planned=1000, mutation=PIN_AND_DROP),
    "pin_1000_kept": Case(planned=1000, mutation=patches(PIN)),
    "no_fields": Case(mutation=patches(NO_FIELDS)),
    "pin_64_no_fields": Case(planned=64, mutation=patches(f"({PIN}) + {DROP_PLAN} + {NO_FIELDS}")),
}


def shape(one: Object) -> tuple[object, ...]:
    """The fields that the policies above change."""
    return one["spec"].get("affinity"), one["spec"].get("schedulingGates"), "managedFields" in one["metadata"]


@fact(
    "cost.creation",
    "CPU of kube-apiserver for a pod that is created, in ms, by what leads it; the least of three rounds.",
    result="Nothing: {bare}. Affinity in the template: 1 term {affinity_1}, 8 {affinity_8}, 64 {affinity_64}, 256 "
    "{affinity_256}. Today's gate by ApplyConfiguration: {gate_apply}; by JSONPatch: {gate_patch}. Pinned by policy, "
    "plan dropped from the pod: 8 names {pin_8}, 64 {pin_64}, 256 {pin_256}, 1,000 {pin_1000} (plan left on the pod: "
    "{pin_1000_kept}). managedFields dropped: {no_fields}, pinned as well with 64 names: {pin_64_no_fields}.",
    consequence="JSONPatch, not ApplyConfiguration, for whatever is done to every pod. See the recommendation.",
    slow=True,
)
def test_the_cost_of_a_creation(cluster: Cluster, measured: Callable[..., None]) -> None:
    costs: dict[str, list[float]] = {name: [] for name in CASES}
    for _ in range(ROUNDS):
        for name, case in CASES.items():
            with Place(cluster) as place:
                case.prepare(place)
                before = cpu_s(cluster)
                place.api.create_all((place.pods, case.pod(number)) for number in range(PODS_PER_RUN))
                costs[name].append((cpu_s(cluster) - before) * 1000 / PODS_PER_RUN)
    # Disturbances of a round only add to its cost.
    figures = {name: round(min(cost), 1) for name, cost in costs.items()}
    assert figures["bare"] < min(figures["affinity_256"], figures["pin_1000_kept"])
    measured(**figures)
