"""Read what a pod or a PodGroup asks of the topology, in its annotations (or labels), into one Topology.

Muster's own keys win, all together. Without them the equivalent keys of Kueue and of KAI-Scheduler are read. Kueue's
keys are not read on a pod that Kueue manages, because Kueue has assigned its domain by node selector.
A LeaderWorkerSet may give each group a domain of its own. That keeps the group in one domain, so the level is required.

Unreadable values become a problem, one sentence that quotes them, never a guess. Whether a level exists is not known
here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import msgspec
from msgspec import Struct

from extender.kube.reading.objects import Meta
from extender.kube.reading.plain import json_of, quoted
from policies.model import NO_LEVEL, Topology
from policies.model.topology import SILENT

REQUIRED = "muster.dev/required-topology"
PREFERRED = "muster.dev/preferred-topology"
SLICE_SIZE = "muster.dev/slice-size"
SLICE_TOPOLOGY = "muster.dev/slice-topology"


class Keys(NamedTuple):
    """The keys of a project for the same four demands."""

    required: str
    preferred: str
    slice_size: str
    slice_topology: str


OWN = Keys(REQUIRED, PREFERRED, SLICE_SIZE, SLICE_TOPOLOGY)
_KUEUE = "kueue.x-k8s.io/podset"
KUEUE = Keys(
    f"{_KUEUE}-required-topology", f"{_KUEUE}-preferred-topology",
    f"{_KUEUE}-slice-size", f"{_KUEUE}-slice-required-topology",
)  # fmt: skip
_KAI = "kai.scheduler/"
KAI = Keys(
    f"{_KAI}topology-required-placement", f"{_KAI}topology-preferred-placement",
    f"{_KAI}segment-size", f"{_KAI}segment-topology-required-placement",
)  # fmt: skip
TOPOLOGY = (OWN, KUEUE, KAI)
KUEUE_LAYERS = f"{_KUEUE}-slice-required-topology-constraints"
"""Kueue's key for slices in layers: JSON with the size and level of each, the farthest level first."""
LWS_EXCLUSIVE = "leaderworkerset.sigs.k8s.io/exclusive-topology"
"""The level that the groups of a LeaderWorkerSet do not share. Its controller writes it on the pods."""
MANAGED_BY_KUEUE = ("kueue.x-k8s.io/managed", _KUEUE, "kueue.x-k8s.io/workload")
"""Keys that Kueue itself writes on the pods that it manages."""
_OF_KUEUE = frozenset((*KUEUE, KUEUE_LAYERS))
_ANY, _MANAGED = _OF_KUEUE.union(OWN, KAI, (LWS_EXCLUSIVE,)), frozenset(MANAGED_BY_KUEUE)
READ = tuple(sorted(_ANY))
"""Every key that is read here."""

BAD_LEVEL = "{} is {}, which is neither the name of a level nor a label key"
MOST_LAYERS = 3
BAD_SLICE_SIZE = "{} is {}, which is not a whole number from 1 to 999999999"
BAD_LAYERS = (
    '{} is {}, which is not JSON such as [{{"topology": "block", "size": 32}}, {{"topology": "rack", "size": 16}}]'
)
UNLIKE_SLICES = (
    "{} is {} and {} is {}: slices in layers need a size and a level each, at most "
    f"{MOST_LAYERS}, separated by commas, the nearest level first"
)
UNDIVIDED_SLICES = "{} is {}: each size has to be a multiple of the one before it, and larger"
SLICES_OF_NOTHING = "{} needs {}"
SLICES_IN_NONE = "{} cannot be none: remove {} instead"
TWO_VALUES = "its annotation and its label {} differ"

LONGEST_LEVEL = 317
"""Most characters of a label's key: a prefix of 253, a slash, a name of 63."""
_LEVEL = re.compile(rf"[A-Za-z0-9]([-A-Za-z0-9_./]{{0,{LONGEST_LEVEL - 2}}}[A-Za-z0-9])?", re.ASCII)
_POSITIVE = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)


class _Layer(Struct):
    topology: str
    size: int


def topology_of(meta: Meta) -> Topology:
    """The readable part of the demands; ``topology_problem`` names the rest."""
    return _read(meta)[0]


def topology_problem(meta: Meta) -> str | None:
    return _read(meta)[1]


def _read(meta: Meta) -> tuple[Topology, str | None]:
    if not meta.says(_ANY):
        return SILENT, None
    keys = _spoken(meta)
    values_by_key = [meta.values_of(key) for key in keys]
    if keys is KUEUE and (layered := meta.values_of(KUEUE_LAYERS)):
        if (layers := layers_from(layered[0])) is None or layered[0] != layered[-1]:
            return SILENT, BAD_LAYERS.format(KUEUE_LAYERS, quoted(layered[0]))
        for at, texts in enumerate(zip(*layers, strict=True), 2):
            values_by_key[at] = [*values_by_key[at], ",".join(texts)]
    values_by_key[0] = values_by_key[0] or meta.values_of(LWS_EXCLUSIVE)
    problem = next(
        (
            key_problem
            for key, values in zip(keys, values_by_key, strict=True)
            if (key_problem := _problem(keys, key, values))
        ),
        None,
    )
    required, preferred, size, level = (next(iter(values), None) for values in values_by_key)
    if problem is None:
        problem = _odd_slices(keys, size, level)
    if problem is not None:
        return SILENT, problem
    if size is None:
        return Topology(required, preferred), None
    sizes, levels = [int(layer) for layer in _layers(size)], _layers(level or "")
    around = tuple(zip(sizes[1:], levels[1:], strict=True))
    return Topology(required, preferred, sizes[0], levels[0] or None, around), None


def _spoken(meta: Meta) -> Keys:
    """The project whose keys count."""
    if meta.says(frozenset(OWN)):
        return OWN
    return KUEUE if meta.says(_OF_KUEUE) and not meta.says(_MANAGED) else KAI


def layers_from(text: str) -> list[tuple[str, str]] | None:
    """The size and level of each of Kueue's layers, the nearest level first; None if they cannot be read."""
    layers = json_of(text, list[_Layer])
    return [(str(layer.size), layer.topology) for layer in reversed(layers)] if layers else None


def layers_renamed(text: str, rename: Callable[[str], str]) -> str:
    """Kueue's layers with renamed levels; empty if they cannot be read."""
    layers = [_Layer(rename(level), int(size)) for size, level in reversed(layers_from(text) or ())]
    return msgspec.json.encode(layers).decode() if layers else ""


def _layers(text: str) -> list[str]:
    return text.split(",")


def _odd_slices(keys: Keys, size: str | None, level: str | None) -> str | None:
    """The contradiction in the slices, if any. Each size and each level is readable."""
    if size is None:
        return SLICES_OF_NOTHING.format(keys.slice_topology, keys.slice_size) if level is not None else None
    sizes, levels = [int(layer) for layer in _layers(size)], _layers(level or "")
    if NO_LEVEL in levels:
        return SLICES_IN_NONE.format(keys.slice_topology, keys.slice_size)
    if len(sizes) != len(levels) or len(sizes) > MOST_LAYERS:
        return UNLIKE_SLICES.format(keys.slice_size, quoted(size), keys.slice_topology, quoted(level or ""))
    if any(outer % inner or outer == inner for inner, outer in pairwise(sizes)):
        return UNDIVIDED_SLICES.format(keys.slice_size, quoted(size))
    return None


def _problem(keys: Keys, key: str, values: list[str]) -> str | None:
    if len(values) == 2 and values[0] != values[1]:
        return TWO_VALUES.format(key)
    sliced = key in (keys.slice_size, keys.slice_topology)
    layers = [layer for text in values for layer in (_layers(text) if sliced else [text])]
    if key == keys.slice_size:
        wrong = (text for text in layers if not _POSITIVE.fullmatch(text))
        return next((BAD_SLICE_SIZE.format(key, quoted(text)) for text in wrong), None)
    return next((BAD_LEVEL.format(key, quoted(text)) for text in layers if not _LEVEL.fullmatch(text)), None)
