"""DeviceClasses (resource.k8s.io/v1), read: of DRA the resources that are asked for like those of nodes."""

from __future__ import annotations

from msgspec import Struct

from extender.core.events import DeviceClassSeen
from extender.kube.reading.identity import name_of
from extender.kube.reading.objects import Meta
from extender.kube.reading.plain import plain


class DeviceClassSpec(Struct, rename="camel"):
    extended_resource_name: str | None = None


class DeviceClassObject(Struct):
    """DeviceClass."""

    metadata: Meta | None = None
    spec: DeviceClassSpec | None = None


def device_class_from(obj: DeviceClassObject) -> DeviceClassSeen:
    """Raises UnreadableError without a name."""
    resource = (obj.spec.extended_resource_name if obj.spec is not None else None) or ""
    return DeviceClassSeen(name_of(obj.metadata, "DeviceClass"), plain(resource))
