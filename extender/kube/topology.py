"""What a pod or a PodGroup asks of the topology: its annotations (or labels), read into one Topology.

What cannot be read becomes a problem, one sentence that quotes it, never a guess. Whether a level exists is not
known here.
"""

from __future__ import annotations

import re
from itertools import pairwise

from extender.kube.objects import Meta
from extender.kube.plain import quoted
from policies.model import NO_LEVEL, Topology
from policies.model.topology import SILENT

REQUIRED = "muster.dev/required-topology"
PREFERRED = "muster.dev/preferred-topology"
SLICE_SIZE = "muster.dev/slice-size"
SLICE_TOPOLOGY = "muster.dev/slice-topology"

BAD_LEVEL = "{} is {}, which is neither the name of a level nor a label key"
MOST_LAYERS = 3
BAD_SLICE_SIZE = f"{SLICE_SIZE} is {{}}, which is not a whole number from 1 to 999999999"
UNLIKE_SLICES = (
    f"{SLICE_SIZE} is {{}} and {SLICE_TOPOLOGY} is {{}}: slices in layers need a size and a level each, at most "
    f"{MOST_LAYERS}, separated by commas, the nearest level first"
)
UNDIVIDED_SLICES = f"{SLICE_SIZE} is {{}}: each size has to be a multiple of the one before it, and larger"
SLICES_OF_NOTHING = f"{SLICE_TOPOLOGY} needs {SLICE_SIZE}"
SLICES_IN_NONE = f"{SLICE_TOPOLOGY} cannot be none: remove {SLICE_SIZE} instead"
TWO_VALUES = "its annotation and its label {} differ"

_LEVEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_./]{0,315}[A-Za-z0-9])?", re.ASCII)
_POSITIVE = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)


def topology_of(meta: Meta) -> Topology:
    """What can be read of it; ``topology_problem`` tells of the rest."""
    return _read(meta)[0]


def topology_problem(meta: Meta) -> str | None:
    return _read(meta)[1]


def _read(meta: Meta) -> tuple[Topology, str | None]:
    said = {key: meta.said(key) for key in (REQUIRED, PREFERRED, SLICE_SIZE, SLICE_TOPOLOGY)}
    if not any(said.values()):
        return SILENT, None
    problem = next((one for key, values in said.items() if (one := _problem(key, values)) is not None), None)
    required, preferred, size, level = (next(iter(values), None) for values in said.values())
    if problem is None:
        problem = _odd_slices(size, level)
    if problem is not None:
        return SILENT, problem
    if size is None:
        return Topology(required, preferred), None
    sizes, levels = [int(one) for one in _layers(size)], _layers(level or "")
    around = tuple(zip(sizes[1:], levels[1:], strict=True))
    return Topology(required, preferred, sizes[0], levels[0] or None, around), None


def _layers(text: str) -> list[str]:
    return text.split(",")


def _odd_slices(size: str | None, level: str | None) -> str | None:
    """What does not go together. Each size and each level can be read."""
    if size is None:
        return SLICES_OF_NOTHING if level is not None else None
    sizes, levels = [int(one) for one in _layers(size)], _layers(level or "")
    if NO_LEVEL in levels:
        return SLICES_IN_NONE
    if len(sizes) != len(levels) or len(sizes) > MOST_LAYERS:
        return UNLIKE_SLICES.format(quoted(size), quoted(level or ""))
    if any(outer % inner or outer == inner for inner, outer in pairwise(sizes)):
        return UNDIVIDED_SLICES.format(quoted(size))
    return None


def _problem(key: str, values: list[str]) -> str | None:
    if len(values) == 2 and values[0] != values[1]:
        return TWO_VALUES.format(key)
    layers = [one for text in values for one in (_layers(text) if key in (SLICE_SIZE, SLICE_TOPOLOGY) else [text])]
    if key == SLICE_SIZE:
        return next((BAD_SLICE_SIZE.format(quoted(text)) for text in layers if not _POSITIVE.fullmatch(text)), None)
    return next((BAD_LEVEL.format(key, quoted(text)) for text in layers if not _LEVEL.fullmatch(text)), None)
