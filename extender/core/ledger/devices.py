"""Extended resources that DRA offers: kube-scheduler allocates their devices, and no node lists them."""

from __future__ import annotations

from extender.core.events import DeviceClassGone, DeviceClassSeen
from policies.model import Requests
from policies.placement.snapshot import Snapshot
from policies.words import listed

IMPLICIT = "deviceclass.resource.kubernetes.io/"
"""Before the name of a class: the resource by which each can be asked for."""


class DeviceClasses:
    """The DeviceClasses as last seen: none where Muster may not read them, or the API server does not serve them."""

    def __init__(self) -> None:
        self.seen: dict[str, str] = {}
        """The extended resource of each, empty for none but the implicit one."""

    def note(self, event: DeviceClassSeen | DeviceClassGone) -> None:
        if isinstance(event, DeviceClassSeen):
            self.seen[event.name] = event.resource
        else:
            self.seen.pop(event.name, None)

    def offering(self, resource: str) -> str:
        """``"DeviceClass gpu.example.com"``, or several; empty if no class offers that resource."""
        found = sorted(name for name, named in self.seen.items() if resource in (named, f"{IMPLICIT}{name}"))
        return f"DeviceClass{'es' * (len(found) > 1)} {listed(found)}" if found else ""

    def listed(self, requests: Requests, view: Snapshot) -> Requests:
        """The requests that nodes have to meet: DRA offers the rest, and no node lists that."""
        if not self.seen:
            return requests
        return tuple(one for one in requests if not self.offering(one[0]) or _is_listed(one[0], view))


def _is_listed(resource: str, view: Snapshot) -> bool:
    line = view.resources.get(resource)
    return line is not None and bool(view.allocatable[line].any())
