"""Volumes, their claims, and what provides them, as the nouns of ``policies.model.storage``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from extender.core.events import (
    CapacitySeen,
    ClaimSeen,
    StorageClassSeen,
    StorageDriverSeen,
    VolumeSeen,
)
from extender.kube.reading.constraints import labels_of, selection_of, selector_of
from extender.kube.reading.identity import UnreadableError, identity, name_of, owning_pod
from extender.kube.reading.objects import (
    Affinity,
    Amounts,
    CapacityObject,
    ClaimObject,
    ClaimSpec,
    ClaimTemplate,
    DriverObject,
    Meta,
    NodeAffinity,
    PodSpec,
    Resources,
    StorageClassObject,
    TemplateVolume,
    TopologyTerm,
    VolumeObject,
    VolumeSpec,
)
from extender.kube.reading.plain import plain
from extender.kube.reading.quantity import whole
from policies.model import Requirement, Terms
from policies.model.storage import SELECTED_NODE, Capacity, ClaimMaker, Storage, StorageClass

BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
"""An annotation that counts before the field."""
MOST_VALUES = 256
"""Most values in the topologies of a class, and in the labels by which a claim selects volumes."""


def claim_from(obj: ClaimObject) -> ClaimSeen:
    """Read a claim. A claim that only names a volume is not bound yet.

    Raises UnreadableError without a UID, name or namespace.
    """
    meta, spec = obj.metadata or Meta(), obj.spec or ClaimSpec()
    _, namespace, name = identity(meta, "PersistentVolumeClaim")
    phase = obj.status.phase if obj.status else None  # older snapshots have none
    annotations = meta.annotations or {}
    return ClaimSeen(
        namespace,
        name,
        bool(spec.volume_name) and phase in (None, "Bound"),
        storage_of(meta, spec),
        plain(spec.volume_name or ""),
        plain(annotations.get(SELECTED_NODE, "")),
        owning_pod(meta),
        "is being deleted" if meta.deletion_timestamp else "has lost its volume" if phase == "Lost" else "",
    )


def storage_of(meta: Meta, spec: ClaimSpec) -> Storage:
    """The storage that a claim, or a template of claims, asks for. Raises UnreadableError for a wrong amount."""
    selector = selector_of(spec.selector) or ()
    if sum(len(requirement.values) for requirement in selector) > MOST_VALUES or len(selector) > MOST_VALUES:
        raise UnreadableError(f"it selects volumes by more than {MOST_VALUES} labels (claim {meta.name})")
    return Storage(
        plain((meta.annotations or {}).get(BETA_CLASS, "") or spec.storage_class_name or ""),
        _bytes((spec.resources or Resources()).requests, f"claim {meta.name}"),
        _modes(spec.access_modes),
        spec.volume_mode == "Block",
        plain(spec.volume_attributes_class_name or ""),
        selector,
    )


def volume_from(obj: VolumeObject) -> VolumeSeen | None:
    """Read a volume; None if it makes no difference to any pod.

    That is so if every node reaches it and a claim has it, or if no claim can get it. A volume whose affinity is too
    large is skipped, too: kube-scheduler's refusals teach the rest. Raises UnreadableError without a name, or for a
    wrong size.
    """
    meta, spec = obj.metadata or Meta(), obj.spec or VolumeSpec()
    if not meta.name:
        raise UnreadableError("the PersistentVolume has no name")
    claim, required = spec.claim_ref, spec.node_affinity.required if spec.node_affinity else None
    phase = obj.status.phase if obj.status else None
    bound = phase == "Bound" and claim is not None
    if not bound and (phase != "Available" or meta.deletion_timestamp):
        return None
    nodes: Terms | None = None
    if required is not None:
        selection = selection_of(PodSpec(affinity=Affinity(NodeAffinity(required))))
        if selection is None or selection.affinity is None:
            return None
        nodes = selection.affinity
    elif bound:
        return None
    namespace, name = ("", "") if claim is None else (plain(claim.namespace or ""), plain(claim.name or ""))
    if bound:
        return VolumeSeen(plain(meta.name), namespace, name, nodes)
    offers = Storage(
        plain((meta.annotations or {}).get(BETA_CLASS, "") or spec.storage_class_name or ""),
        _bytes(spec.capacity, f"PersistentVolume {meta.name}"),
        _modes(spec.access_modes),
        spec.volume_mode == "Block",
        plain(spec.volume_attributes_class_name or ""),
    )
    return VolumeSeen(plain(meta.name), namespace, name, nodes, False, offers, labels_of(meta))  # noqa: FBT003


def storage_class_from(obj: StorageClassObject) -> StorageClassSeen:
    """Read a class. Too many topologies are left to kube-scheduler. Raises UnreadableError without a name."""
    terms = tuple(map(_topology, obj.allowed_topologies or ()))
    few = sum(len(requirement.values) for term in terms for requirement in term) <= MOST_VALUES
    waits = obj.volume_binding_mode == "WaitForFirstConsumer"
    name = name_of(obj.metadata or Meta(), "StorageClass")
    return StorageClassSeen(StorageClass(name, plain(obj.provisioner or ""), waits, terms if few else ()))


def driver_from(obj: DriverObject) -> StorageDriverSeen:
    """Read a driver. Raises UnreadableError without a name."""
    return StorageDriverSeen(
        name_of(obj.metadata or Meta(), "CSIDriver"), bool(obj.spec is not None and obj.spec.storage_capacity)
    )


def capacity_from(obj: CapacityObject) -> CapacitySeen | None:
    """Read a capacity; None if it concerns no node. Raises UnreadableError without a name, or for a wrong amount."""
    meta = obj.metadata or Meta()
    name = name_of(meta, "CSIStorageCapacity")
    if obj.node_topology is None or (obj.capacity is None and obj.maximum_volume_size is None):
        return None
    term = selector_of(obj.node_topology) or ()
    if sum(len(requirement.values) for requirement in term) > MOST_VALUES:
        return None
    try:
        size = whole(obj.capacity or 0)
        largest = None if obj.maximum_volume_size is None else whole(obj.maximum_volume_size)
    except ValueError as error:
        raise UnreadableError(f"the capacity {error} (CSIStorageCapacity {name})") from None
    known = Capacity(
        plain(meta.namespace or ""), name, plain(obj.storage_class_name or ""), (term,) if term else None, size, largest
    )
    return CapacitySeen(known)


def claims_of(meta: Meta, spec: PodSpec) -> tuple[str, ...]:
    """The volume claims that a pod mounts. The claim of an ephemeral volume is named after the pod and the volume."""
    named = (
        volume.persistent_volume_claim.claim_name for volume in spec.volumes or () if volume.persistent_volume_claim
    )
    return (*(plain(name or "") for name in named), *own_claims_of(meta, spec))


def own_claims_of(meta: Meta, spec: PodSpec) -> tuple[str, ...]:
    """The volume claims that Kubernetes makes for the pod alone."""
    return tuple(plain(f"{meta.name or ''}-{volume.name or ''}") for volume in spec.volumes or () if volume.ephemeral)


def ephemeral_makers(volumes: Iterable[TemplateVolume]) -> tuple[ClaimMaker, ...]:
    """Return the makers of claims for the ephemeral volumes of a pod template. Raises UnreadableError."""
    return tuple(
        ClaimMaker(
            plain(volume.name or ""), _storage_of_template(volume.ephemeral.volume_claim_template), ephemeral=True
        )
        for volume in volumes
        if volume.ephemeral is not None
    )


def makers_of(templates: Sequence[ClaimTemplate], stem: str) -> tuple[ClaimMaker, ...]:
    """Return the makers of claims by the ``volumeClaimTemplates`` of a StatefulSet. Raises UnreadableError."""
    return tuple(
        ClaimMaker(plain((template.metadata or Meta()).name or ""), _storage_of_template(template), stem)
        for template in templates
    )


def _storage_of_template(template: ClaimTemplate | None) -> Storage:
    known = template or ClaimTemplate()
    return storage_of(known.metadata or Meta(), known.spec or ClaimSpec())


def _modes(modes: Iterable[str] | None) -> tuple[str, ...]:
    return tuple(sorted(dict.fromkeys(plain(mode) for mode in modes or ())))


def _bytes(amounts: Amounts | None, whose: str) -> int:
    try:
        return whole((amounts or {}).get("storage", 0))
    except ValueError as error:
        raise UnreadableError(f"the storage {error} ({whose})") from None


def _topology(term: TopologyTerm) -> tuple[Requirement, ...]:
    expressions = term.match_label_expressions or ()
    return tuple(Requirement(expression.key or "", "In", tuple(expression.values or ())) for expression in expressions)
