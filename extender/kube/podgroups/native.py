"""Kubernetes' own PodGroups (scheduling.k8s.io). Only PodGroups that the Job controller has made matter."""

from __future__ import annotations

from msgspec import Struct

from extender.core.events import NativeGangSeen
from extender.kube.convert import maker_of
from extender.kube.reading.identity import identity
from extender.kube.reading.objects import Meta, Present
from policies.model import GroupKey

VERSIONS = ("scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha2")
"""The versions of Kubernetes 1.37 and 1.36. No API server serves both."""


class Policy(Struct):
    gang: Present | None = None


class NativeGroupSpec(Struct, rename="camel"):
    scheduling_policy: Policy | None = None


class NativeGroup(Struct):
    """PodGroup."""

    metadata: Meta | None = None
    spec: NativeGroupSpec | None = None


def native_gang_from(obj: NativeGroup) -> NativeGangSeen | None:
    """The gang that a Job asks for; None for any other PodGroup. Raises UnreadableError."""
    meta = obj.metadata or Meta()
    uid, namespace, name = identity(meta, "PodGroup")
    policy, maker = obj.spec.scheduling_policy if obj.spec is not None else None, maker_of(meta)
    if policy is None or policy.gang is None or maker is None or maker.kind != "Job":
        return None
    return NativeGangSeen(GroupKey(namespace, name), uid)
