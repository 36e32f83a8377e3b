"""Kinds of other projects, with any fields in their objects: their CRDs are not available as a module."""

from __future__ import annotations

from devcluster.api import Api, Object
from devcluster.crds import CRDS, until_established

PODGROUPS = {
    "scheduling.volcano.sh": "v1beta1",
    "scheduling.run.ai": "v2alpha2",
    "scheduling.sigs.k8s.io": "v1alpha1",
}


def install_podgroups(api: Api) -> None:
    """Returns when all of them are served."""
    for group, version in PODGROUPS.items():
        install_kind(api, f"{group}/{version}", "PodGroup", status=group == "scheduling.run.ai")


def install_kind(api: Api, version: str, kind: str, *, status: bool = False) -> None:
    """Returns when it is served. ``version``: with its group; ``status``: with the status subresource."""
    group, _, name = version.partition("/")
    api.create(CRDS, crd(group, name, kind, status=status))
    until_established(api, f"{kind.lower()}s.{group}")


def crd(group: str, version: str, kind: str, *, status: bool = False) -> Object:
    """``status``: with the status subresource."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    plural = f"{kind.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "annotations": {"api-approved.kubernetes.io": "unapproved, a test"}},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [served | ({"subresources": {"status": {}}} if status else {})],
        },
    }
