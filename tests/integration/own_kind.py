"""A kind that Muster does not know, the Simulation of manifests/examples/own-kind, and a controller for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread

import yaml

from devcluster import Cluster
from devcluster.admission import until_created_so
from devcluster.api import Api, ApiError, Object
from devcluster.crds import CRDS, until_established
from devcluster.muster import MANIFESTS
from extender.config.job_kinds import JobKind
from extender.kube.kinds.kind import Kind
from extender.kube.kinds.own import own_kinds
from policies.model import CLIQUE

EXAMPLE = MANIFESTS / "examples" / "own-kind"
SETTING: Object = yaml.safe_load((EXAMPLE / "muster.yaml").read_text())["job_kinds"][0]
RANK = "science.example.com/rank"
PATH = "/apis/science.example.com/v1/simulations"
_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_CRD: Object = {
    "metadata": {"name": "simulations.science.example.com"},
    "spec": {
        "group": "science.example.com",
        "scope": "Namespaced",
        "names": {"kind": "Simulation", "plural": "simulations"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {"type": "object", "properties": {"spec": _ANYTHING, "status": _ANYTHING}}
                },
            }
        ],
    },
}
MANIFEST = f"""
apiVersion: science.example.com/v1
kind: Simulation
metadata:
  name: ocean
  labels: {{muster.dev/queue-name: team-a}}
spec:
  suspend: false
  coordinator:
    metadata:
      annotations: {{muster.dev/required-topology: {CLIQUE}}}
    spec:
      containers: [{{name: main, image: ocean}}]
  workers:
    replicas: 4
    template:
      metadata:
        annotations: {{muster.dev/required-topology: {CLIQUE}}}
      spec:
        containers: [{{name: main, image: ocean, resources: {{limits: {{nvidia.com/gpu: 8}}}}}}]
"""


def kind(setting: Object = SETTING) -> Kind:
    (own_kind,) = own_kinds([JobKind.model_validate(setting)])
    return own_kind


def install_kind(cluster: Cluster) -> None:
    """Install its CRD. Returns when the example's admission policy suspends what is created."""
    cluster.api.create(CRDS, _CRD)
    until_established(cluster.api, _CRD["metadata"]["name"])
    collection = kind().path_of("kube-system", "x").rpartition("/")[0]
    until_created_so(
        cluster.api, collection, yaml.safe_load(MANIFEST), lambda created: bool(created["spec"]["suspend"])
    )


@contextmanager
def controller(api: Api) -> Iterator[None]:
    """Makes the pods of each Simulation that is not suspended, and deletes those of one that is."""
    with api.watch(PATH) as changes:

        def work() -> None:
            for change, obj in changes:
                if change != "DELETED":
                    with suppress(ApiError):  # it is gone already
                        _reconcile(api, obj)

        thread = Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            changes.close()
            thread.join()


def _reconcile(api: Api, obj: Object) -> None:
    spec, meta = obj["spec"], obj["metadata"]
    pods = f"/api/v1/namespaces/{meta['namespace']}/pods"
    there = {pod["metadata"]["name"] for pod in api.list(pods, labelSelector=f"simulation={meta['uid']}")}
    suspended = bool(spec.get("suspend"))
    wanted = {} if suspended else {pod["metadata"]["name"]: pod for pod in _pods(obj)}
    for name in there - wanted.keys():
        api.delete(f"{pods}/{name}", {"gracePeriodSeconds": 0})
    for name in wanted.keys() - there:
        api.create(pods, wanted[name])
    condition = {"type": "Suspended", "status": str(suspended)}
    others = [entry for entry in obj.get("status", {}).get("conditions", ()) if entry["type"] != "Suspended"]
    status = {"active": len(wanted), "conditions": [*others, condition]}
    if status != obj.get("status"):
        api.patch(f"{kind().path_of(meta['namespace'], meta['name'])}/status", {"status": status})


def _pods(obj: Object) -> Iterator[Object]:
    spec, workers = obj["spec"], obj["spec"]["workers"]
    yield _pod(obj, spec["coordinator"], "coordinator")
    for at in range(workers["replicas"]):
        yield _pod(obj, workers["template"], f"worker-{at}", **{RANK: str(at)})


def _pod(obj: Object, template: Object, name: str, **labels: str) -> Object:
    meta, template_meta = obj["metadata"], template.get("metadata", {})
    owner = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": meta["name"], "uid": meta["uid"]}
    return {
        "metadata": {
            "name": f"{meta['name']}-{name}",
            "annotations": template_meta.get("annotations", {}),
            "labels": {**template_meta.get("labels", {}), **labels, "simulation": meta["uid"]},
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": template["spec"],
    }
