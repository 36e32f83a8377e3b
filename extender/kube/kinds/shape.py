"""What the pods of a template will be like, and what keeps them from being planned before they exist."""

from __future__ import annotations

from dataclasses import replace

from extender.kube.convert import UnreadableError, pod_from
from extender.kube.dialects import MIN_MEMBER, POD_GROUP
from extender.kube.kinds.completion import TemplateSpec
from extender.kube.kinds.kind import UnreadableJobError
from extender.kube.reading.objects import Meta, PodObject
from policies.model import Controller, GroupKey, Pod
from policies.words import listed

GATED = (
    "its pod template has the scheduling gate {}, which is not Muster's: whoever set it takes it off pods that exist, "
    "and Muster plans a job before its pods; take it out of the template"
)
ON_A_NODE = (
    "its pod template names the node {} in nodeName, and no scheduler is asked about such pods: name it in "
    "nodeSelector (kubernetes.io/hostname) instead"
)
DEVICES = "its pod template uses resource claims (DRA), which gangs do not support yet"


def shape_of(meta: Meta, key: GroupKey, owner: Controller, minimum: int, said: Meta, spec: TemplateSpec) -> Pod:
    """A pod of this template, by the conversion of pods, without a number."""
    annotations = {**(said.annotations or {}), POD_GROUP: key.name, MIN_MEMBER: str(minimum)}
    told = Meta(
        name=meta.name,
        namespace=meta.namespace,
        uid=owner.uid,
        creation_timestamp=meta.creation_timestamp,
        labels=said.labels,
        annotations=annotations,
    )
    try:
        pod = pod_from(PodObject(told, spec))
    except UnreadableError as error:
        raise UnreadableJobError(f"its pods cannot be read: {error}") from None
    return replace(pod, owner=owner.uid, controller=owner, index=None, series="")


def not_before_it_exists(shape: Pod) -> str:
    """Why a pod like this cannot be planned before it exists; empty if it can."""
    if shape.foreign_gates:
        return GATED.format(listed(shape.foreign_gates))
    if shape.node:
        return ON_A_NODE.format(shape.node)
    return DEVICES if shape.device_claims else ""
