"""Storage that is provisioned when a pod comes: the requests of volume claims, and what provides it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from policies.model.constraints import Labels, Selector, selects
from policies.model.node import Terms

NO_PROVISIONER = "kubernetes.io/no-provisioner"
"""The provisioner of a StorageClass whose volumes an administrator makes."""
READ_WRITE_ONCE_POD = "ReadWriteOncePod"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""The annotation of a claim by which kube-scheduler has a volume provisioned for a node."""


@dataclass(frozen=True, slots=True)
class Storage:
    """The storage that a claim asks for, or that a volume is.

    ``size``: in bytes.
    ``block``: a device, without a file system.
    ``attributes``: the VolumeAttributesClass.
    ``selector``: of the labels of volumes; only claims have one.
    """

    storage_class: str = ""
    size: int = 0
    modes: tuple[str, ...] = ()
    block: bool = False
    attributes: str = ""
    selector: Selector = ()

    def serves(self, storage: Storage, labels: Labels) -> bool:
        """Whether a volume like this, with these labels, satisfies a claim, as kube-scheduler decides it."""
        same_kind = (self.storage_class, self.block, self.attributes) == (
            storage.storage_class,
            storage.block,
            storage.attributes,
        )
        enough = self.size >= storage.size and all(mode in self.modes for mode in storage.modes)
        return same_kind and enough and (not storage.selector or selects(storage.selector, dict(labels)))


ANY_STORAGE = Storage()
"""A claim without any demand."""


@dataclass(frozen=True, slots=True)
class StorageClass:
    """A StorageClass.

    ``waits``: its claims get a volume once a pod has a node.
    ``topologies``: the nodes for which it provisions volumes; empty for all nodes.
    """

    name: str
    provisioner: str = ""
    waits: bool = False
    topologies: Terms = ()

    @property
    def provisions(self) -> bool:
        """Whether the class makes volumes."""
        return self.provisioner not in ("", NO_PROVISIONER)


@dataclass(frozen=True, slots=True)
class Capacity:
    """A CSIStorageCapacity: ``size`` bytes of a class can be provisioned for the nodes that match the terms.

    ``nodes``: None for all nodes.
    ``largest``: the most bytes of one volume.
    """

    namespace: str
    name: str
    storage_class: str
    nodes: Terms | None
    size: int
    largest: int | None = None

    def suffices(self, size: int) -> bool:
        """Whether kube-scheduler considers it enough for one volume."""
        return size <= (self.size if self.largest is None else self.largest)


class ClaimMaker(NamedTuple):
    """A claim that is made for each pod of a template, as a volume or template of that ``name`` asks.

    ``stem``: the names of the pods without their number; empty if unknown before the pods exist.
    ``ephemeral``: the claim is named after the pod and the volume. Else a StatefulSet names it after its template and
    pod.
    ``bare``: the name of number 0 is the stem alone.
    """

    name: str
    asks: Storage
    stem: str = ""
    ephemeral: bool = False
    bare: bool = False

    def claim_of(self, number: int) -> str:
        """The name of the claim of that pod; empty if it is unknown."""
        pod = self.stem if self.bare and not number else f"{self.stem}-{number}"
        if not self.stem:
            return ""
        return f"{pod}-{self.name}" if self.ephemeral else f"{self.name}-{pod}"
