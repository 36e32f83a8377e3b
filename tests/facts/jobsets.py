"""A custom resource of the shape of a JobSet: a list of templates, keyed by name. No controller plays it."""

from __future__ import annotations

from devcluster.api import ApiError, Object
from devcluster.crds import CRDS, until_established
from tests.facts.place import Place

JOBSETS = ("jobset.facts.dev", "v1", "jobsets")
_NAME = "jobsets.jobset.facts.dev"


def install_jobsets(place: Place) -> None:
    """Add the kind, for the time of one fact, and wait until it is served."""
    place.api.create(CRDS, _definition())
    place.afterwards(lambda: remove(place))
    until_established(place.api, _NAME)


def remove(place: Place) -> None:
    """Take the kind away, with all of its objects, and wait until it is gone."""
    try:
        place.api.delete(f"{CRDS}/{_NAME}")
    except ApiError as error:
        if error.code != 404:
            raise
    place.api.wait_for(f"{CRDS}/{_NAME}", lambda crd: crd is None)


def jobsets_of(place: Place) -> str:
    """The collection of the JobSets of a fact."""
    return f"/apis/jobset.facts.dev/v1/namespaces/{place.namespace}/jobsets"


def jobset() -> Object:
    """A leader, and three Jobs of workers."""
    spec = {"containers": [{"name": "main", "image": "train"}]}
    roles = [
        {"name": name, "replicas": replicas, "template": {"spec": {"template": {"spec": spec}}}}
        for name, replicas in (("leader", 1), ("workers", 3))
    ]
    header = {"apiVersion": "jobset.facts.dev/v1", "kind": "JobSet", "metadata": {"name": "train"}}
    return header | {"spec": {"replicatedJobs": roles}}


def _definition() -> Object:
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    scheduled = free | {"properties": {"schedulerName": {"type": "string"}}}
    pods = {"type": "object", "properties": {"metadata": free, "spec": scheduled}}
    job = {"type": "object", "properties": {"suspend": {"type": "boolean"}, "template": pods}}
    role = {
        "type": "object",
        "required": ["name", "template"],
        "properties": {
            "name": {"type": "string"},
            "replicas": {"type": "integer"},
            "template": {"type": "object", "properties": {"metadata": free, "spec": job}},
        },
    }
    roles = {
        "type": "array",
        "items": role,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    }
    spec = {"type": "object", "properties": {"suspend": {"type": "boolean"}, "replicatedJobs": roles}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    return {
        "metadata": {"name": _NAME},
        "spec": {
            "group": "jobset.facts.dev",
            "scope": "Namespaced",
            "names": {"plural": "jobsets", "singular": "jobset", "kind": "JobSet", "listKind": "JobSetList"},
            "versions": [version],
        },
    }
