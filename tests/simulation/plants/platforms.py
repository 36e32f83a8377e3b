"""Bugs in the reading of nodes as clouds have them, and of statuses as kubelets write them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from extender.core.events import Event, NodeGone, NodeSeen, PodSeen
from extender.kube import convert, recent
from extender.kube.reading import quantity, requests
from extender.kube.reading.objects import PodObject
from policies.model import Pod
from tests.simulation.plants.mutants import Core, hears


@hears
def names_that_come_late_are_not_seen(event: Event, core: Core) -> Iterable[Event]:
    """A node has the resources that it listed when it was first seen."""
    match event:
        case NodeSeen(node):
            first = core.notes.setdefault(node.name, [name for name, _ in node.allocatable])
            known = tuple(pair for pair in node.allocatable if pair[0] in first)
            return (NodeSeen(replace(node, allocatable=known)),)
        case NodeGone(name):
            core.notes.pop(name, None)
    return (event,)


@hears
def zero_counts_as_absent(event: Event, core: Core) -> Iterable[Event]:
    """A node keeps its old amount of a resource that it lists with 0 now."""
    match event:
        case NodeSeen(node):
            before = core.notes.get(node.name, {})
            listed = {name: much or before.get(name, 0) for name, much in node.allocatable}
            core.notes[node.name] = listed
            return (NodeSeen(replace(node, allocatable=tuple(listed.items()))),)
        case NodeGone(name):
            core.notes.pop(name, None)
    return (event,)


def thousandths_are_read_as_cores(patch: pytest.MonkeyPatch) -> None:
    """``191450m`` is read as 191,450 cores."""
    real = quantity.milli
    patch.setattr(requests, "milli", lambda amount: real(str(amount).removesuffix("m")))
    _read_anew(patch)


@hears
def requests_of_daemons_are_forgotten(event: Event, core: Core) -> Iterable[Event]:
    """The room of a DaemonSet's pods is free."""
    if isinstance(event, PodSeen) and event.pod.stays:
        return (PodSeen(replace(event.pod, requests=(("pods", 1),))),)
    return (event,)


def pods_that_are_not_ready_count_as_ended(patch: pytest.MonkeyPatch) -> None:
    """A pod that runs and is not Ready, as any is at first, is taken for one that is over."""
    real = convert.pod_of

    def pod_of(declared: dict[str, Any], requested: dict[str, Any], obj: PodObject) -> Pod:
        pod, status = real(declared, requested, obj), obj.status
        conditions = (status.conditions if status is not None else None) or ()
        unready = any(condition.type == "Ready" and condition.status == "False" for condition in conditions)
        return replace(pod, phase="Succeeded") if unready and pod.phase == "Running" else pod

    patch.setattr(recent, "pod_of", pod_of)
    _read_anew(patch)


def _read_anew(patch: pytest.MonkeyPatch) -> None:
    """Forget the pods that were read without the bug, and after the test the pods that were read with it."""
    patch.setattr(recent, "_seen", recent._Remembered())
    patch.setattr(recent, "_known_specs", {})
