"""Topology levels by name: the label keys that clouds and discovery tools put on nodes, and which are in use."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from policies.model import CLIQUE

_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class LevelKey:
    """A level: its short name in requests, and the label whose whole value names a node's domain."""

    name: str
    key: str


def _preset(prefix: str, **labels: str) -> tuple[LevelKey, ...]:
    return tuple(LevelKey(name.replace("_", "-"), prefix + label) for name, label in labels.items())


PRESETS: Mapping[str, tuple[LevelKey, ...]] = {
    "nvidia": (LevelKey("clique", CLIQUE),),
    "topograph": (
        *_preset("accelerator.topograph.run/", sub_domain="sub-domain", domain="domain"),
        *_preset("fabric.topograph.run/", **{f"tier_{tier}": f"tier-{tier}" for tier in range(5)}),
    ),
    "topograph-0.5": _preset(
        "network.topology.nvidia.com/", accelerator="accelerator", leaf="leaf", spine="spine", core="core"
    ),
    "aws": _preset(
        "topology.k8s.aws/",
        ultraserver="ultraserver-id",
        layer_3="network-node-layer-3",
        layer_2="network-node-layer-2",
        layer_1="network-node-layer-1",
    ),
    "gke": _preset("cloud.google.com/", subblock="gce-topology-subblock", block="gce-topology-block"),
    "oci": _preset("oci.oraclecloud.com/host.", oci_rack="rack_id", network_block="network_block_id"),
    "coreweave": (
        *_preset("node.coreweave.cloud/", rack="rack"),
        *_preset("ib.coreweave.cloud/", leafgroup="leafgroup", superpod="superpod", fabric="fabric"),
    ),
    "zone": _preset("topology.kubernetes.io/", zone="zone"),
}
"""Levels of each preset, nearest first. All short names differ, so presets combine.

Labels of single machines are left out, because a level of single nodes adds nothing to the nodes themselves.
"""

FALLBACK = PRESETS["nvidia"]


def levels_from(entries: Iterable[str]) -> tuple[LevelKey, ...]:
    """Levels from presets' names, ``KEY`` or ``NAME=KEY``, in the given order, which must be nearest first.

    A level without a name is named by the last part of its key. Raises ValueError for an invalid label key, and for two
    levels of one name or key.
    """
    level_keys: list[LevelKey] = []
    for entry in entries:
        level_keys += PRESETS.get(entry) or (_level(entry),)
    for what in ("name", "key"):
        values = [getattr(level, what) for level in level_keys]
        if twice := next((value for value in values if values.count(value) > 1), None):
            raise ValueError(f"two levels have the {what} {twice}; write NAME=KEY to give a level another name")
    return tuple(level_keys)


def detected(present: Iterable[str]) -> tuple[LevelKey, ...]:
    """The levels of all presets whose labels are present, nearest first; the clique if there are none.

    Of several presets the nearest levels come first, in the order of the presets, then the second ones, and so on. The
    zone is always last.
    """
    keys = frozenset(present)
    used = [[level for level in levels if level.key in keys] for name, levels in PRESETS.items() if name != "zone"]
    depth = max(map(len, used))
    mixed = [levels[at] for at in range(depth) for levels in used if at < len(levels)]
    return tuple(mixed + [level for level in PRESETS["zone"] if level.key in keys]) or FALLBACK


HOST = "kubernetes.io/hostname"
"""A label of single machines, which is the last level of most Topologies."""


def united(levels: tuple[LevelKey, ...], topologies: Iterable[Sequence[str]]) -> tuple[LevelKey, ...]:
    """The levels together with those of Topologies, given by their labels, nearest first.

    A new level comes right behind the nearer one of its Topology, else right before the farther one, else before the
    zone. Its name is the last part of its label, or the whole label if another level has that name.
    """
    level_keys = list(levels)
    for keys in topologies:
        for at, key in enumerate(keys):
            known = [level_key.key for level_key in level_keys]
            if key in known:
                continue
            nearer = [known.index(key) for key in keys[:at] if key in known]
            farther = [known.index(key) for key in keys[at + 1 :] if key in known]
            end = len(level_keys) - (known[-1:] == [PRESETS["zone"][0].key])
            place = max(nearer) + 1 if nearer else min(farther, default=end)
            name = key.rpartition("/")[2]
            taken = name == "none" or any(level_key.name == name for level_key in level_keys)
            level_keys.insert(place, LevelKey(key if taken else name, key))
    return tuple(level_keys)


def contradiction(keys: Sequence[str], others: Iterable[Sequence[str]]) -> tuple[str, str] | None:
    """Two levels in the order of ``keys`` that one of the others has the other way round; None without any."""
    for other in others:
        order = [other.index(key) for key in keys if key in other]
        for place, two in pairwise(order):
            if place > two:
                return other[place], other[two]
    return None


ALL = tuple(level for levels in PRESETS.values() for level in levels)


def _level(entry: str) -> LevelKey:
    name, equals, key = entry.rpartition("=")
    key = key.strip()
    if not _KEY.fullmatch(key):
        known = ", ".join(PRESETS)
        raise ValueError(f"{entry!r} is neither a label key nor a preset; presets: {known}")
    if equals and not name.strip():
        raise ValueError(f"{entry!r} has no name before the =")
    if name.strip() == "none" or (not equals and key == "none"):
        raise ValueError("no level can be called none: requests use that word")
    return LevelKey(name.strip() or key.rpartition("/")[2], key)
