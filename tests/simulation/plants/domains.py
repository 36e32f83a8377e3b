"""Bugs in the core's reading of ComputeDomains: labels of nodes, and channels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from extender.core.events import Event, NodeSeen, SliceSeen
from policies.model.devices import DOMAIN_LABEL
from tests.simulation.plants.mutants import Core, hears


@hears
def labels_of_domains_unheard(event: Event, core: Core) -> Iterable[Event]:
    """No node is prepared for another domain."""
    match event:
        case NodeSeen(node) if DOMAIN_LABEL in node.labels:
            left = {key: value for key, value in node.labels.items() if key != DOMAIN_LABEL}
            yield NodeSeen(replace(node, labels=left))
        case _:
            yield event


@hears
def two_channels_to_a_node(event: Event, core: Core) -> Iterable[Event]:
    """Pods of two domains, or two of one, fit on a node."""
    match event:
        case SliceSeen(published):
            more = tuple(
                replace(device, name=f"{device.name}-b") for device in published.devices if "channel" in device.name
            )
            yield SliceSeen(replace(published, devices=(*published.devices, *more)))
        case _:
            yield event
