"""What members ask of the topology, in terms of the levels that this cluster has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from policies.model import NO_LEVEL, Pod, Topology
from policies.placement.snapshot import Snapshot
from policies.words import counted


@dataclass(frozen=True, slots=True)
class Unclear:
    """The gang asks for something that this cluster cannot understand; the explanation says what it would."""

    explanation: str


@dataclass(frozen=True, slots=True)
class Rules:
    """Levels are indexes into ``Snapshot.levels``.

    ``required``: all members with a requirement share one domain of it. ``preferred``: where one domain is looked for
    first, or None to take any nodes. ``slice_size``: 0, or how many consecutive members share one domain of
    ``slice_level``.
    """

    required: int | None = None
    preferred: int | None = 0
    slice_size: int = 0
    slice_level: int = 0

    @property
    def confining(self) -> int | None:
        """The level of which one domain has to hold all members, else each slice of them; None if there is none."""
        return self.required if self.required is not None else self.slice_level if self.slice_size else None

    @property
    def widest(self) -> int:
        """The level that a member may not leave: of its slice, else the required one, else the preferred one."""
        if self.slice_size:
            return self.slice_level
        return self.required if self.required is not None else self.preferred or 0

    def sliced_by(self, size: int) -> Rules:
        return replace(self, slice_size=size)


NONE_ASKED = Rules()


def rules_of(pods: Sequence[Pod], snapshot: Snapshot) -> Rules | Unclear:
    """The rules of pods that say the same."""
    said = pods[0].topology
    if said.required is None and said.preferred is None and said.slice_size is None:
        return NONE_ASKED
    for name in (said.required, said.preferred, said.slice_level):
        if name not in (None, NO_LEVEL) and snapshot.level_called(name or "") is None:
            known = ", ".join(f"{level.name} ({level.key})" for level in snapshot.levels)
            return Unclear(f'unknown topology level "{name}"; available: {known}')
    if said.slice_size is not None and (odd := sum(pod.index is None for pod in pods)):
        without = counted(odd, "pod", "has", "have")
        return Unclear(f"slices are made by index, and {without} none (Indexed Jobs and StatefulSets number theirs)")
    return Rules(
        _index(said.required, snapshot),
        0 if said.preferred is None else _index(said.preferred, snapshot),
        said.slice_size or 0,
        _index(said.slice_level, snapshot) or 0,
    )


def requires_level(pod: Pod) -> bool:
    """Whether it has to share a domain with the other members that require one."""
    return pod.topology.required not in (None, NO_LEVEL)


def is_bound_by_rules(pod: Pod) -> bool:
    """Whether it asks for anything that a placement must not break."""
    return requires_level(pod) or pod.topology.slice_size is not None


def keeps(nodes: Sequence[tuple[Pod, str]], snapshot: Snapshot) -> bool:
    """Whether these members on these nodes break nothing that they require; what cannot be understood is broken."""
    alike = _alike(nodes, snapshot)
    homes: dict[int, set[int]] = {}
    for pods, rows in alike.values():
        rules, there = rules_of(pods, snapshot), np.array(rows, dtype=np.intp)
        if isinstance(rules, Unclear) or -1 in rows:
            return False
        if rules.required is not None:
            for at in range(rules.required, len(snapshot.levels)):
                homes.setdefault(at, set()).update(snapshot.levels[at].codes[there].tolist())
        slices: dict[object, int] = {}
        if rules.slice_size:
            for pod, code in zip(pods, snapshot.levels[rules.slice_level].codes[there].tolist(), strict=True):
                of = (pod.requests, pod.selection, pod.slice_of(rules.slice_size))
                if code < 0 or slices.setdefault(of, code) != code:
                    return False
    asked = {snapshot.level_called(said.required or "") for said in alike}
    return all(len(codes) == 1 and -1 not in codes for at, codes in homes.items() if at in asked)


def _alike(nodes: Sequence[tuple[Pod, str]], snapshot: Snapshot) -> dict[Topology, tuple[list[Pod], list[int]]]:
    """Those that require something, by what they say, and the rows of their nodes."""
    alike: dict[Topology, tuple[list[Pod], list[int]]] = {}
    said, bound = None, False
    for pod, node in nodes:
        if pod.topology is not said:
            # Most often all of them say the same, as one object.
            said, bound = pod.topology, is_bound_by_rules(pod)
        if bound:
            pods, rows = alike.setdefault(pod.topology, ([], []))
            pods.append(pod)
            rows.append(snapshot.rows.get(node, -1))
    return alike


def _index(name: str | None, snapshot: Snapshot) -> int | None:
    return None if name is None else snapshot.level_called(name)
